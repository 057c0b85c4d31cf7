"""The fingerprint of trees: equal for the same trees, whichever object or file holds them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

_OF_CLASSES = ("logistic", "softmax", "hinge")
"""Losses of boosted classifiers."""
_NOT_THE_TREES = {
    "impurity",
    "gain",
    "cover",
    "source",
    "version",
    "notes",
    "tested_versions",
    "missing_refusal",
    "objective",
    "feature_names",
    "made_of",
    "category_labels",
    "class_sets",
    "classes",
    "narrowed_kinds",
    "spaces_in_names",
    "takes_tables",
    "rows_as_frame",
    "cover_factor",
}

_OF_LINES = ("line_start", "line_feature", "line_slope", "line_offset")
"""They are added for trees with lines only, so that the fingerprints of others stay those of earlier versions."""
NODES_AT_ONCE = 2**16
_OF_SPLITS = {"feature", "threshold", "left", "right", "missing_left", "zero_is_missing", "category_set"}
_OF_LEAVES = {"value", "averaging_weight", "weight", "count"}  # the entries of other nodes follow from the leaves


def trees_digest(ensemble: TreeEnsemble) -> str:
    """Return the fingerprint of the trees alone; feature names do not change it."""
    digest = blake3()
    feed_trees(digest, ensemble)
    return digest.hexdigest()


def feed_trees(digest: Any, ensemble: TreeEnsemble) -> None:
    """Add the trees to a digest; feature names do not change it."""
    leaves = np.flatnonzero(ensemble.left < 0)
    averaging, weight = ensemble.averaging_weight, ensemble.weight
    # In forests both weights are the same array: it is added once.
    equal_weights = averaging is weight or (
        averaging is not None and weight is not None and np.array_equal(averaging, weight)
    )
    for field in fields(ensemble):
        if field.name not in _NOT_THE_TREES and field.name not in _OF_LINES:
            value = getattr(ensemble, field.name)
            if field.name == "averaging_weight" and equal_weights:
                value = None
            if field.name == "labelled":  # a classifier and its trees in a file, which has no labels, are one model
                value = value or ensemble.objective.name in _OF_CLASSES
            if value is not None and field.name in _OF_SPLITS | _OF_LEAVES:
                _feed_some(digest, value, ensemble.links[0] if field.name in _OF_SPLITS else leaves)
            else:
                feed(digest, value)
    feed(digest, np.packbits(ensemble.left < 0))
    for name in _OF_LINES if ensemble.has_lines else ():
        feed(digest, getattr(ensemble, name))


def _feed_some(digest: Any, value: NDArray[Any], nodes: NDArray[Any]) -> None:
    """Add the entries of some nodes to a digest, in pieces that fit the cache."""
    digest.update(f"{value.dtype.str}{value.shape[1:]}{nodes.size}".encode())
    for begin in range(0, nodes.size, NODES_AT_ONCE):
        digest.update(_bytes_of(value.take(nodes[begin : begin + NODES_AT_ONCE], axis=0)))


def feed(digest: Any, value: Any) -> None:
    """Add an array, or the representation of a plain value, to a digest."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(_bytes_of(value))
    else:
        digest.update(repr(value).encode())


def _bytes_of(value: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
