"""The fingerprint of trees: the same for the same trees, whatever object or file holds them."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    "spaces_in_names",
    "takes_tables",
    "rows_as_frame",
    "cover_factor",
}

NODES_AT_ONCE = 2**16
_OF_SPLITS = {"feature", "threshold", "left", "right", "missing_left", "zero_is_missing", "category_set"}
_OF_LEAVES = {"value", "averaging_weight", "weight", "count"}  # those of other nodes follow from them


def trees_sha256(ensemble: TreeEnsemble) -> str:
    """Return the fingerprint of the trees alone, whatever their features are called."""
    digest = hashlib.sha256()
    feed_trees(digest, ensemble)
    return digest.hexdigest()


def feed_trees(digest: Any, ensemble: TreeEnsemble) -> None:
    """Add the trees to a digest, whatever their features are called."""
    leaves = np.flatnonzero(ensemble.left < 0)
    averaging, weight = ensemble.averaging_weight, ensemble.weight
    twice = averaging is not None and weight is not None and np.array_equal(averaging, weight)  # as of forests
    for each in fields(ensemble):
        if each.name not in _NOT_THE_TREES:
            value = getattr(ensemble, each.name)
            if each.name == "averaging_weight" and twice:
                value = None
            if value is not None and each.name in _OF_SPLITS | _OF_LEAVES:
                _feed_some(digest, value, ensemble.links[0] if each.name in _OF_SPLITS else leaves)
            else:
                feed(digest, value)
    feed(digest, np.packbits(ensemble.left < 0))


def _feed_some(digest: Any, value: NDArray[Any], nodes: NDArray[Any]) -> None:
    """Add some rows of an array, as many at a time as stay in the cache."""
    digest.update(f"{value.dtype.str}{value.shape[1:]}{nodes.size}".encode())
    for begin in range(0, nodes.size, NODES_AT_ONCE):
        digest.update(value.take(nodes[begin : begin + NODES_AT_ONCE], axis=0).data)


def feed(digest: Any, value: Any) -> None:
    """Add an array, or the representation of a plain value, to a digest."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    else:
        digest.update(repr(value).encode())
