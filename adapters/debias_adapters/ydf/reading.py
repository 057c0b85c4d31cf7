"""Reader of the trees of a YDF model: conditions, values of leaves, and counts of training rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from debias_adapters.ydf.columns import Columns

_NOT_ON_ONE_COLUMN = {
    "oblique_condition": "splits on sums of several columns (split_axis='SPARSE_OBLIQUE' or 'MHLD_OBLIQUE'), which "
    "belong to none of them alone. Train it with split_axis='AXIS_ALIGNED'",
    "numerical_vector_sequence": "splits on sequences of vectors",
}


class Trees:
    """The nodes of all trees in YDF's order, which is depth first, with the negative child before the positive one.

    Parameters
    ----------
    model : ydf.DecisionForestModel
    columns : Columns
    source : str
        The kind of the model, for errors.

    Attributes
    ----------
    start : array of shape (n_trees + 1,)
    feature, threshold, left, right, missing_left, gain : array of shape (n_nodes,)
        As in TreeEnsemble. The positive child is on the right.
    category_set : array of shape (n_nodes,)
    sets : list of list of int
        The codes that go right.
    outputs : list
        Of each leaf, YDF's message with its value; None at splits.
    count, weight : array of shape (n_nodes,)
        Number of training samples, and the sum of their weights.

    Raises
    ------
    UnsupportedModelError
        A split is not on one column.
    """

    def __init__(self, model: Any, columns: Columns, source: str) -> None:
        # The Python classes of trees leave out counts without weights, and which class a leaf votes for.
        trees = [model._model.GetTree(tree) for tree in range(model.num_trees())]
        self.start = np.cumsum([0] + [len(nodes) for nodes in trees])
        n_nodes = int(self.start[-1])
        self.feature = np.full(n_nodes, -1)
        self.left, self.right, self.category_set = np.full((3, n_nodes), -1)
        self.threshold, self.gain, self.weight = np.zeros((3, n_nodes))
        self.count = np.zeros(n_nodes, dtype=np.int64)
        self.missing_left = np.zeros(n_nodes, dtype=bool)
        self.sets: list[list[int]] = []
        self.outputs: list[Any] = [None] * n_nodes
        for begin, nodes in zip(self.start[:-1].tolist(), trees, strict=True):
            self._read_tree(nodes, begin, columns, source)

    def _read_tree(self, nodes: list[Any], begin: int, columns: Columns, source: str) -> None:
        open_splits: list[int] = []  # splits whose positive child is still to come
        for position, node in enumerate(nodes):
            at = begin + position
            self.outputs[at] = node
            self.count[at] = node.num_pos_training_examples_without_weight
            if node.HasField("condition"):
                self._read_condition(node.condition, at, columns, source)
                self.left[at] = position + 1
                open_splits.append(at)
            elif open_splits:
                self.right[open_splits.pop()] = position + 1

    def _read_condition(self, split: Any, at: int, columns: Columns, source: str) -> None:
        kind = split.condition.WhichOneof("type")
        if kind in _NOT_ON_ONE_COLUMN:
            raise UnsupportedModelError(f"this {source} {_NOT_ON_ONE_COLUMN[kind]}")
        k = columns.index[split.attribute]
        self.feature[at] = k
        self.missing_left[at] = not split.na_value
        self.gain[at] = split.split_score * split.num_training_examples_with_weight
        if kind == "higher_condition":
            self.threshold[at] = _below(split.condition.higher_condition.threshold)
        elif kind == "discretized_higher_condition":
            self.threshold[at] = _below(
                columns.boundaries[k][split.condition.discretized_higher_condition.threshold - 1]
            )
        elif kind == "true_value_condition":
            self.threshold[at] = 0.5
        elif kind == "na_condition" and columns.kinds[k] != "CATEGORICAL":  # only missing values are positive
            self.threshold[at] = np.inf
            self.missing_left[at] = False
        else:
            self.category_set[at] = len(self.sets)
            self.sets.append([] if kind == "na_condition" else _listed(split.condition))
            self.missing_left[at] &= kind != "na_condition"


def _below(threshold: float) -> float:
    """Return the largest float32 below a threshold: `x >= threshold` is positive, and not `x > threshold`."""
    return float(np.nextafter(np.float32(threshold), np.float32(-np.inf)))


def _listed(condition: Any) -> list[int]:
    """Return the codes for which a condition on categories holds, ascending."""
    if condition.WhichOneof("type") == "contains_condition":
        return sorted(condition.contains_condition.elements)
    bits = np.frombuffer(condition.contains_bitmap_condition.elements_bitmap, dtype=np.uint8)
    listed: list[int] = np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()
    return listed
