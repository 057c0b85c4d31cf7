"""What makes arrays trees: checked once, when an adapter hands them over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import ExtractionError
from debias.parallel import over_parts

if TYPE_CHECKING:
    from debias.trees.ensemble import TreeEnsemble

FAULTS = (
    "has one child only",
    "has a child that is not behind it in its tree",
    "is not the child of exactly one node",
    "is a leaf that splits, or a split without a feature",
    "splits on a feature the model does not have",
    "has a threshold that is not a number",
    "is a leaf whose value is not finite",
    "is a leaf whose weight is negative or not finite",
)

NODE_ARRAYS: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "value": np.float64,
    "averaging_weight": np.float64,
    "weight": np.float64,
    "count": np.int64,
    "impurity": np.float64,
    "gain": np.float64,
    "cover": np.float64,
    "zero_is_missing": np.bool_,
    "category_set": np.int32,
    "native_node": np.int32,
}
OTHER_ARRAYS: dict[str, Any] = {
    "tree_start": np.int64,
    "tree_output": np.int32,
    "base": np.float64,
    "category_start": np.int64,
    "category_codes": np.int32,
    "listed_left": np.bool_,
}


def check_shapes(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError if arrays do not fit each other."""
    n_nodes, source = ensemble.feature.size, ensemble.source
    for name in NODE_ARRAYS:
        array = getattr(ensemble, name)
        if array is not None and (array.shape[0] != n_nodes or array.ndim != (2 if name == "value" else 1)):
            raise ExtractionError(f"{source}: `{name}` has shape {array.shape} for {n_nodes} nodes")
    start = ensemble.tree_start
    if start.size < 2 or start[0] != 0 or start[-1] != n_nodes or (np.diff(start) < 1).any():
        raise ExtractionError(f"{source}: `tree_start` does not divide {n_nodes} nodes into trees")
    if not np.isfinite(ensemble.base).all():
        raise ExtractionError(f"{source}: the raw output before any tree is {ensemble.base}, not a finite number")
    width = ensemble.value.shape[1]
    if ensemble.tree_output.shape != (ensemble.n_trees,):
        raise ExtractionError(f"{source}: `tree_output` must have one entry for each of {ensemble.n_trees} trees")
    if ensemble.tree_output.min() < 0 or ensemble.tree_output.max() + width > ensemble.n_outputs:
        raise ExtractionError(f"{source}: a tree feeds an output that `base` does not have")


def check_trees(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError that names the first node at which the arrays are no tree."""
    from debias.trees.kernels import nodes as kernels

    links = (ensemble.left, ensemble.right, ensemble.feature)
    given = (*links, ensemble.threshold, ensemble.value, ensemble.averaging_weight, ensemble.n_features)
    found = over_parts(
        ensemble.n_trees, lambda of: kernels.check_trees(ensemble.tree_start[of.start : of.stop + 1], *given)
    )
    at, fault = next((each for each in found if each[0] >= 0), (-1, 0))
    if at >= 0:
        tree = int(np.searchsorted(ensemble.tree_start, at, side="right")) - 1
        raise ExtractionError(
            f"{ensemble.source}: node {at - ensemble.tree_start[tree]} of tree {tree} {FAULTS[fault]}. The model is "
            "damaged, or its adapter has a fault: please report it with the library's version."
        )


def check_categories(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError if what tells which categories go left does not fit."""
    arrays = (ensemble.category_set, ensemble.category_start, ensemble.category_codes, ensemble.listed_left)
    if all(array is None for array in arrays):
        return
    which, start, codes, listed_left = arrays
    if which is None or start is None or codes is None or listed_left is None:
        raise ExtractionError(f"{ensemble.source}: some arrays of category sets are there, others are not")
    if start.size != listed_left.size + 1 or start[0] != 0 or start[-1] != codes.size or (np.diff(start) < 0).any():
        raise ExtractionError(f"{ensemble.source}: `category_start` does not divide {codes.size} codes into sets")
    if which.min() < -1 or which.max() >= listed_left.size or (which[ensemble.left < 0] >= 0).any():
        raise ExtractionError(f"{ensemble.source}: `category_set` names a set that is not there, or one at a leaf")
    within = np.ones(codes.size, dtype=bool)
    within[start[:-1][start[:-1] < codes.size]] = False  # first of its set
    if (codes < 0).any() or (np.diff(codes, prepend=-1)[within] <= 0).any():
        raise ExtractionError(f"{ensemble.source}: the codes of a category set are negative, repeated or not ascending")
