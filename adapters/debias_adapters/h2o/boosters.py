"""XGBoost models in MOJOs: the binary format that XGBoost has deprecated, on columns of 0 and 1 for categories.

H2O makes a column for each label of a category, and one for missing labels. A split on such a column is a split on one
label of the category, so the trees are read as splits on the columns of X.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_adapters.h2o.archive import damaged

if TYPE_CHECKING:
    from numpy.typing import NDArray

NODE = np.dtype([("parent", "<i4"), ("left", "<i4"), ("right", "<i4"), ("column", "<u4"), ("value", "<f4")])
STATISTIC = np.dtype([("gain", "<f4"), ("hessian", "<f4"), ("weight", "<f4"), ("count", "<i4")])
BOOSTERS = ("gbtree", "dart")
DEFAULT_LEFT = 1 << 31
MODEL_BYTES, TREE_BYTES = 160, 148
"""Sizes of the parameters of a model of trees, and of one tree."""


@dataclass(frozen=True)
class Layout:
    """The columns of 0, 1 and numbers that H2O passes to XGBoost.

    Parameters
    ----------
    offsets : tuple of int
        First column of each category, and their total: categories come first.
    n_labels : tuple of int
        Number of labels of each category.
    n_numbers : int
    sparse : bool
        Whether zeros are passed as missing values.
    all_labels : bool
        Whether the first label has a column.
    """

    offsets: tuple[int, ...]
    n_labels: tuple[int, ...]
    n_numbers: int
    sparse: bool
    all_labels: bool

    def __post_init__(self) -> None:
        widths = np.diff(self.offsets)
        if self.offsets[:1] != (0,) or len(widths) != len(self.n_labels):
            raise damaged("the columns of its categories do not follow each other")
        if (np.abs(widths - self.n_labels) > 1).any() or (widths < 1).any():
            raise damaged("a category does not have a column for each of its labels")

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.offsets[-1] + self.n_numbers

    def columns(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Return the columns that XGBoost gets for rows of codes and numbers."""
        made = np.zeros((len(X), self.width), dtype=np.float32)
        for k, (first, after) in enumerate(zip(self.offsets, self.offsets[1:], strict=False)):
            is_missing = np.isnan(X[:, k])
            at = np.where(is_missing, after - 1 - first, np.nan_to_num(X[:, k]).astype(np.int64))
            at = np.where(is_missing, at, np.minimum(at - (not self.all_labels), after - 1 - first))
            hot = at >= 0
            made[np.flatnonzero(hot), first + at[hot]] = 1
        made[:, self.offsets[-1] :] = X[:, len(self.n_labels) :]
        if self.sparse:
            made[made == 0] = np.nan
        return made


@dataclass(frozen=True, eq=False)
class Booster:
    """The trees of an XGBoost model, as they are stored.

    Parameters
    ----------
    objective, booster : str
    base_score : float
        As the file has it, on the scale of predictions from version 1 on, and of margins before.
    version : tuple of int
    n_outputs : int
    nodes, statistics : tuple of structured array
    output : array of int32 of shape (n_trees,)
    factor : array of float32 of shape (n_trees,)
    """

    objective: str
    booster: str
    base_score: float
    version: tuple[int, int]
    n_outputs: int
    nodes: tuple[NDArray[Any], ...]
    statistics: tuple[NDArray[Any], ...]
    output: NDArray[np.int32]
    factor: NDArray[np.float32]


def booster_of(content: bytes) -> Booster:
    """Return the model in the member ``boosterBytes``.

    Raises
    ------
    UnsupportedModelError
        It is no model of trees in this format.
    """
    try:
        return _booster(content)
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        raise damaged(f"its XGBoost model ends too early, or is of another format ({error})") from error


def _booster(content: bytes) -> Booster:
    at = 4 if content.startswith(b"binf") else 0
    base_score, _, n_classes, has_buffer, _, *version = struct.unpack_from("<f6i", content, at)
    at += 136
    names = []
    for _ in range(2):
        (length,) = struct.unpack_from("<Q", content, at)
        if length > 100:
            raise ValueError("a name is too long")
        names.append(content[at + 8 : at + 8 + length].decode("ascii"))
        at += 8 + length
    objective, booster = names
    if booster not in BOOSTERS:
        return Booster(objective, booster, base_score, (version[0], version[1]), 1, (), (), *_nothing())
    n_trees, _, _, _, n_buffered = struct.unpack_from("<4iq", content, at)
    at += MODEL_BYTES
    if not 0 <= n_trees <= len(content) // TREE_BYTES or (n_buffered and has_buffer):
        raise ValueError(f"it states {n_trees} trees and a buffer of {n_buffered} rows")
    nodes, statistics = [], []
    for _ in range(n_trees):
        _, n_nodes, _, _, _, width = struct.unpack_from("<6i", content, at)
        at += TREE_BYTES
        if not 0 < n_nodes <= len(content) // NODE.itemsize or width > 1:
            raise ValueError(f"a tree has {n_nodes} nodes and leaves of {width} numbers")
        nodes.append(np.frombuffer(content, NODE, n_nodes, at))
        at += n_nodes * NODE.itemsize
        statistics.append(np.frombuffer(content, STATISTIC, n_nodes, at))
        at += n_nodes * STATISTIC.itemsize
    output = np.frombuffer(content, "<i4", n_trees, at).astype(np.int32)
    at += 4 * n_trees
    factor = np.ones(n_trees, dtype=np.float32)
    if booster == "dart" and n_trees:
        (size,) = struct.unpack_from("<Q", content, at)
        if size != n_trees:
            raise ValueError(f"{n_trees} trees have {size} weights")
        factor = np.frombuffer(content, "<f4", n_trees, at + 8).astype(np.float32)
    n_outputs = max(n_classes, 1)
    if n_trees and not 0 <= output.min() <= output.max() < n_outputs:
        raise ValueError("a tree is of an output that does not exist")
    if not (np.isfinite(factor).all() and np.isfinite(base_score)):
        raise ValueError("a weight of a tree is not finite")
    return Booster(
        objective, booster, base_score, (version[0], version[1]), n_outputs, tuple(nodes), tuple(statistics), output,
        factor,
    )  # fmt: skip


def _nothing() -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)


def arrays(booster: Booster, layout: Layout) -> dict[str, Any]:
    """Return the trees as arrays of a TreeEnsemble, with splits on the columns of X.

    Raises
    ------
    UnsupportedModelError
        The nodes do not form trees.
    """
    orders = [_order(nodes) for nodes in booster.nodes]
    nodes, statistics = (
        np.concatenate([each[order] for each, order in zip(parts, orders, strict=True)])
        for parts in (booster.nodes, booster.statistics)
    )
    start = np.cumsum([0, *map(len, orders)])
    left, right = (
        np.concatenate(
            [_place(order, len(each))[each[name][order]] for each, order in zip(booster.nodes, orders, strict=True)]
        )
        for name in ("left", "right")
    )
    is_split = left >= 0
    column = np.where(is_split, nodes["column"] & (DEFAULT_LEFT - 1), 0).astype(np.int64)
    if (column >= layout.width).any():
        raise damaged("a split of its XGBoost model is on a column that it does not have")
    default_left = (nodes["column"] & DEFAULT_LEFT) != 0
    offset = layout.offsets[-1]
    is_label = is_split & (column < offset)
    threshold = np.where(is_split & ~is_label, np.nextafter(nodes["value"], np.float32(-np.inf)), 0.0)
    if np.isnan(threshold).any():
        raise damaged("a threshold of its XGBoost model is not a number")
    category = np.searchsorted(layout.offsets, column, side="right") - 1
    feature = np.where(is_label, category, column - offset + len(layout.n_labels))
    found: dict[str, Any] = {
        "tree_start": start,
        "feature": np.where(is_split, feature, -1),
        "threshold": threshold,
        "left": left,
        "right": right,
        "missing_left": default_left,
        "value": (np.where(is_split, 0, nodes["value"]) * np.repeat(booster.factor, np.diff(start)))[:, None],
        "gain": np.where(is_split, statistics["gain"], 0).astype(np.float64),
        "cover": statistics["hessian"].astype(np.float64),
        "tree_output": booster.output,
    }
    if layout.sparse:
        found["zero_is_missing"] = is_split & ~is_label
    return found | _labels(layout, is_label, category, column, default_left, nodes["value"])


def _labels(
    layout: Layout,
    is_label: NDArray[np.bool_],
    category: NDArray[np.int64],
    column: NDArray[np.int64],
    default_left: NDArray[np.bool_],
    value: NDArray[np.float32],
) -> dict[str, Any]:
    """Return the sets of labels: the label whose column is split, alone or with all that share the column."""
    at = np.flatnonzero(is_label)
    if not at.size:
        return {}
    hot_left = value[at] > 1
    others_left = default_left[at] if layout.sparse else value[at] > 0
    sets, missing_left = [], default_left.copy()
    for node, is_left, rest_left in zip(at.tolist(), hot_left.tolist(), others_left.tolist(), strict=True):
        k = int(category[node])
        last = layout.offsets[k + 1] - layout.offsets[k] - 1
        place = int(column[node]) - layout.offsets[k]
        first = place + (not layout.all_labels)
        # Codes beyond the columns have the last one, that of missing labels.
        codes = np.arange(first, max(layout.n_labels[k], first) if place == last else first + 1)
        sets.append(codes[codes < layout.n_labels[k]].astype(np.int32))
        missing_left[node] = is_left if place == last else rest_left
    category_set = np.full(is_label.size, -1, dtype=np.int32)
    category_set[at] = np.arange(at.size)
    # Where both ways are the same, no label is listed, and all go the way of the others.
    sets = [np.empty(0, np.int32) if same else codes for codes, same in zip(sets, hot_left == others_left, strict=True)]
    return {
        "missing_left": missing_left,
        "category_set": category_set,
        "category_start": np.cumsum([0] + [each.size for each in sets]),
        "category_codes": np.concatenate(sets),
        "listed_left": ~others_left,
    }


def leaves(booster: Booster, layout: Layout, X: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return XGBoost's number of the leaf of each row in each tree, by a walk through the stored nodes."""
    columns = layout.columns(X)
    found = np.empty((len(X), len(booster.nodes)), dtype=np.int64)
    for tree, nodes in enumerate(booster.nodes):
        left, right, column, value = (nodes[name].tolist() for name in ("left", "right", "column", "value"))
        for row, values in enumerate(columns.tolist()):
            node = 0
            while left[node] != -1:
                x = values[column[node] & (DEFAULT_LEFT - 1)]
                goes_left = bool(column[node] & DEFAULT_LEFT) if x != x else x < value[node]
                node = left[node] if goes_left else right[node]
            found[row, tree] = node
    return found


def _order(nodes: NDArray[Any]) -> NDArray[np.int32]:
    """Return the numbers of the nodes below the root, parents first; pruned nodes are left out."""
    left, right = nodes["left"].tolist(), nodes["right"].tolist()
    reached, order, waiting = bytearray(len(left)), [], [0]
    while waiting:
        node = waiting.pop()
        if not 0 <= node < len(left) or reached[node]:
            raise damaged("the nodes of its XGBoost model do not form trees")
        reached[node] = 1
        order.append(node)
        if left[node] != -1:
            waiting += [right[node], left[node]]
    return np.array(order, dtype=np.int32)


def places(booster: Booster) -> list[NDArray[np.int32]]:
    """Return, for each tree, the place of each stored node among the nodes that are kept; -1 for others."""
    return [_place(_order(nodes), len(nodes)) for nodes in booster.nodes]


def _place(order: NDArray[np.int32], n_nodes: int) -> NDArray[np.int32]:
    """Return the place of each node in an order, and -1 as a last entry, which stands for no node."""
    place = np.full(n_nodes + 1, -1, dtype=np.int32)
    place[order] = np.arange(len(order))
    return place
