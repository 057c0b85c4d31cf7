"""The fingerprint of trees: equal for the same trees, whichever object or file holds them."""

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
_OF_LEAVES = {"value", "averaging_weight", "weight", "count"}  # the entries of other nodes follow from the leaves


def trees_sha256(ensemble: TreeEnsemble) -> str:
    """Return the fingerprint of the trees alone; feature names do not change it."""
    digest = hashlib.sha256()
    feed_trees(digest, ensemble)
    return digest.hexdigest()


def feed_trees(digest: Any, ensemble: TreeEnsemble) -> None:
    """Add the trees to a digest; feature names do not change it."""
    leaves = np.flatnonzero(ensemble.left < 0)
    averaging, weight = ensemble.averaging_weight, ensemble.weight
    # In forests both weights are the same array: it is added once.
    equal_weights = averaging is not None and weight is not None and np.array_equal(averaging, weight)
    for field in fields(ensemble):
        if field.name not in _NOT_THE_TREES:
            value = getattr(ensemble, field.name)
            if field.name == "averaging_weight" and equal_weights:
                value = None
            if value is not None and field.name in _OF_SPLITS | _OF_LEAVES:
                _feed_some(digest, value, ensemble.links[0] if field.name in _OF_SPLITS else leaves)
            else:
                feed(digest, value)
    feed(digest, np.packbits(ensemble.left < 0))


def _feed_some(digest: Any, value: NDArray[Any], nodes: NDArray[Any]) -> None:
    """Add the entries of some nodes to a digest, in pieces that fit the cache."""
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
