"""What an audit keeps of its model and rows: fingerprints, so that whoever has both can tell, and counts of values."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

_NOT_THE_TREES = {
    "impurity",
    "gain",
    "cover",
    "source",
    "version",
    "notes",
    "objective",
    "feature_names",
    "category_labels",
    "class_sets",
    "classes",
    "narrowed_kinds",
}

NODES_AT_ONCE = 2**16
_OF_SPLITS = {"feature", "threshold", "left", "right", "missing_left", "zero_is_missing", "category_set"}
_OF_LEAVES = {"value", "averaging_weight", "weight", "count"}  # those of other nodes follow from them


class Fingerprints:
    """SHA-256 of the trees of a model, and of the rows it was audited on.

    The same trees have the same fingerprint whatever object or file held them, and the same rows whatever container.
    Of a model around several, each is added in turn.
    """

    def __init__(self) -> None:
        self._model = hashlib.sha256()
        self._data = hashlib.sha256()

    def add(self, ensemble: TreeEnsemble, rows: Rows, X: NDArray[np.floating[Any]]) -> None:
        """Add a model and its rows: X as the model's library compares it, y as it was encoded, weights."""
        self._model.update("\0".join(ensemble.feature_names).encode("utf-8", "surrogatepass"))
        _feed_trees(self._model, ensemble)
        for given in (X, rows.response.codes, rows.response.values, rows.response.target, rows.weight):
            _feed(self._data, given)

    def to_dict(self) -> dict[str, str]:
        """Return both as hexadecimal text."""
        return {"model_sha256": self._model.hexdigest(), "data_sha256": self._data.hexdigest()}


def trees_sha256(ensemble: TreeEnsemble) -> str:
    """Return the fingerprint of the trees alone, whatever their features are called."""
    digest = hashlib.sha256()
    _feed_trees(digest, ensemble)
    return digest.hexdigest()


def distinct_values(X: NDArray[np.floating[Any]], grouping: Grouping) -> NDArray[np.int64]:
    """Count the distinct values of each feature, missing ones apart; of a group of columns, the combinations there are.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        As the model compares it: in float32 neighbouring values may be one.
    grouping : Grouping

    Returns
    -------
    array of int64 of shape (n_groups,)
        0 for a group of which the model sees no column.
    """
    from debias.trees.kernels import nodes as kernels

    unsigned = np.dtype(f"u{X.dtype.itemsize}")
    by_group = np.argsort(grouping.index, kind="stable")
    edges = np.searchsorted(grouping.index[by_group], np.arange(len(grouping.names) + 1))

    def count(group: int) -> int:
        columns = by_group[edges[group] : edges[group + 1]]
        if columns.size == 1:
            column = np.ascontiguousarray(X[:, columns[0]])
            return int(kernels.count_distinct(column, column.view(unsigned)))
        codes = [np.unique(X[:, k], return_inverse=True)[1] for k in columns]  # missing is one value
        if not codes:
            return 0
        return len(np.unique(np.column_stack(codes), axis=0))

    counted = over_parts(len(grouping.names), lambda of: [count(k) for k in range(of.start, of.stop)])
    return np.array(sum(counted, []), dtype=np.int64)


def _feed_trees(digest: Any, ensemble: TreeEnsemble) -> None:
    leaves = np.flatnonzero(ensemble.left < 0)
    twice = ensemble.weight is not None and np.array_equal(ensemble.averaging_weight, ensemble.weight)  # as of forests
    for each in fields(ensemble):
        if each.name not in _NOT_THE_TREES:
            value = getattr(ensemble, each.name)
            if each.name == "averaging_weight" and twice:
                value = None
            if value is not None and each.name in _OF_SPLITS | _OF_LEAVES:
                _feed_some(digest, value, ensemble.links[0] if each.name in _OF_SPLITS else leaves)
            else:
                _feed(digest, value)
    _feed(digest, np.packbits(ensemble.left < 0))


def _feed_some(digest: Any, value: NDArray[Any], nodes: NDArray[Any]) -> None:
    """Add some rows of an array, as many at a time as stay in the cache."""
    digest.update(f"{value.dtype.str}{value.shape[1:]}{nodes.size}".encode())
    for begin in range(0, nodes.size, NODES_AT_ONCE):
        digest.update(value.take(nodes[begin : begin + NODES_AT_ONCE], axis=0).data)


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    else:
        digest.update(repr(value).encode())
