"""The nodes of all trees of a Spark model, from the records that Spark saves or shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

MOST = 1 << 24
"""Largest number of categories of a feature, and of features. Spark needs memory for each in training."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """All nodes of all trees. The nodes of a tree are numbered from its root, parents before children.

    Parameters
    ----------
    start : array of int64 of shape (n_trees + 1,)
        The nodes of tree ``t`` are ``start[t]:start[t + 1]``.
    left, right, feature : array of int64 of shape (n_nodes,)
        Children and split feature; -1 at leaves.
    prediction, gain : array of float64 of shape (n_nodes,)
    stats : array of float64 of shape (n_nodes, n_stats)
        In-bag weight of each class; or, of numbers, the weight, the weighted sum and the weighted sum of squares.
    raw_count : array of int64 of shape (n_nodes,), or None
        Number of in-bag samples, without weights. None in models of Spark 2.
    n_categories : array of int64 of shape (n_nodes,)
        Number of categories of the split feature; -1 at splits of numbers and at leaves.
    split_start : array of int64 of shape (n_nodes + 1,)
    split_values : array of float64
        ``split_values[split_start[k]:split_start[k + 1]]`` is the threshold of node ``k``, or the categories that go
        left.
    """

    start: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    prediction: NDArray[np.float64]
    gain: NDArray[np.float64]
    stats: NDArray[np.float64]
    raw_count: NDArray[np.int64] | None
    n_categories: NDArray[np.int64]
    split_start: NDArray[np.int64]
    split_values: NDArray[np.float64]

    @property
    def by_category(self) -> NDArray[np.bool_]:
        """Whether each node is a split on categories."""
        return (self.left >= 0) & (self.n_categories >= 0)

    def listed(self, node: int) -> tuple[NDArray[np.int64], bool]:
        """Return the categories that Spark compares a value with at a split, and whether these go left.

        They are the categories that go left if these are at most half of all, and otherwise those that go right. All
        other values go the other way, also unknown ones and NaN.
        """
        on_left = self.split_values[self.split_start[node] : self.split_start[node + 1]].astype(np.int64)
        n_categories = int(self.n_categories[node])
        if on_left.size <= n_categories // 2:
            return np.unique(on_left), True
        return np.setdiff1d(np.arange(n_categories), on_left), False


def joined(tree: NDArray[np.int64], columns: Mapping[str, Any]) -> Nodes:
    """Return nodes from records in any order.

    Parameters
    ----------
    tree : array of int64 of shape (n_nodes,)
        The tree of each record.
    columns : mapping
        ``id``, ``leftChild``, ``rightChild``, ``featureIndex``, ``prediction``, ``gain``, ``rawCount``
        (or None) and ``numCategories`` of each record, as arrays. ``impurityStats`` and ``leftCategoriesOrThreshold``
        are pairs of arrays: the length of each list, and the values of all.

    Raises
    ------
    UnsupportedModelError
        The records are not those of whole trees.
    """
    number = np.asarray(columns["id"], dtype=np.int64)
    order = np.lexsort((number, tree))
    start = np.concatenate([[0], np.cumsum(np.bincount(tree))])
    if tree.size == 0 or tree.min() < 0 or (np.diff(start) == 0).any():
        raise UnsupportedModelError("the Spark model is damaged: the records of some tree are missing")
    if (number[order] != np.arange(number.size) - np.repeat(start[:-1], np.diff(start))).any():
        raise UnsupportedModelError("the Spark model is damaged: its trees have nodes that are missing or there twice")
    n_stats, stats = columns["impurityStats"]
    if n_stats.min() != n_stats.max() or not n_stats[0]:
        raise UnsupportedModelError("the Spark model is damaged: its nodes have different numbers of statistics")
    n_values, values = columns["leftCategoriesOrThreshold"]
    raw_count = columns["rawCount"]
    nodes = Nodes(
        start=start,
        left=np.asarray(columns["leftChild"], dtype=np.int64)[order],
        right=np.asarray(columns["rightChild"], dtype=np.int64)[order],
        feature=np.asarray(columns["featureIndex"], dtype=np.int64)[order],
        prediction=np.asarray(columns["prediction"], dtype=np.float64)[order],
        gain=np.asarray(columns["gain"], dtype=np.float64)[order],
        stats=np.asarray(stats, dtype=np.float64).reshape(number.size, -1)[order],
        raw_count=None if raw_count is None else np.asarray(raw_count, dtype=np.int64)[order],
        n_categories=np.asarray(columns["numCategories"], dtype=np.int64)[order],
        split_start=np.concatenate([[0], np.cumsum(n_values[order])]),
        split_values=_reordered(np.asarray(values, dtype=np.float64), n_values, order),
    )
    _check_splits(nodes)
    return nodes


def from_records(trees: list[list[dict[str, Any]]]) -> Nodes:
    """Return the nodes of trees, each a list of records."""
    records = [record for tree in trees for record in tree]
    splits = [record["split"] for record in records]
    lists = {
        "impurityStats": [record["impurityStats"] for record in records],
        "leftCategoriesOrThreshold": [split["leftCategoriesOrThreshold"] for split in splits],
    }
    plain = ("id", "leftChild", "rightChild", "prediction", "gain", "rawCount")
    columns: dict[str, Any] = {name: [record[name] for record in records] for name in plain}
    columns |= {name: [split[name] for split in splits] for name in ("featureIndex", "numCategories")}
    for name, values in lists.items():
        columns[name] = np.array([len(each) for each in values]), np.array([v for each in values for v in each])
    return joined(np.repeat(np.arange(len(trees)), [len(tree) for tree in trees]), columns)


def _reordered(values: NDArray[np.float64], lengths: NDArray[Any], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the values of lists that are put in another order."""
    begin = np.concatenate([[0], np.cumsum(lengths)])[:-1][order]
    lengths = lengths[order]
    end = np.cumsum(lengths)
    return values[np.repeat(begin - (end - lengths), lengths) + np.arange(end[-1])]


def _check_splits(nodes: Nodes) -> None:
    """Raise an UnsupportedModelError that names the first node without a threshold or with a wrong category."""
    by_category, lengths = nodes.by_category, np.diff(nodes.split_start)
    node_of_value = np.repeat(np.arange(lengths.size), lengths)
    no_category = (nodes.split_values < 0) | (nodes.split_values >= nodes.n_categories[node_of_value])
    no_category |= nodes.split_values % 1 != 0
    has_wrong_category = np.bincount(node_of_value[no_category], minlength=lengths.size) > 0
    for wrong, fault in (
        ((nodes.left >= 0) & ~by_category & (lengths != 1), "splits on a number without one threshold"),
        (by_category & (has_wrong_category | (lengths == 0)), "splits on categories that do not exist"),
        (by_category & (nodes.n_categories > MOST), f"splits on more than {MOST:,} categories"),
        (~np.isfinite(nodes.stats).all(axis=1), "has statistics that are not finite"),
    ):
        if wrong.any():
            node = int(wrong.argmax())
            tree = int(np.searchsorted(nodes.start, node, side="right")) - 1
            raise UnsupportedModelError(
                f"the Spark model is damaged: node {node - nodes.start[tree]} of tree {tree} {fault}"
            )
