"""Checks of scikit-learn's compiled trees that come from a file: scikit-learn itself does not check their numbers.

All trees that a model holds are checked, not only those that are scored: a feature selector or an imputer inside a
pipeline may use trees too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MOST_FEATURES = 2_000_000


def require_sound(model: Any, source: str) -> None:
    """Refuse a model that holds a damaged tree.

    Parameters
    ----------
    model : object
        The loaded model.
    source : str
        For messages.

    Raises
    ------
    UnsupportedModelError
        A tree claims more nodes than it has, has a child that does not come after its parent, or splits on a
        feature out of range.
    """
    compiled_tree = getattr(sys.modules.get("sklearn.tree._tree"), "Tree", ())
    histogram_tree = getattr(sys.modules.get("sklearn.ensemble._hist_gradient_boosting.predictor"), "TreePredictor", ())
    binner = getattr(sys.modules.get("sklearn.ensemble._hist_gradient_boosting.binning"), "_BinMapper", ())
    for part in _reachable(model):
        if isinstance(part, compiled_tree):
            fault = _fault_of_compiled(part)
        elif isinstance(part, histogram_tree):
            fault = _fault_of_predictor(part)
        elif isinstance(part, binner):
            fault = _fault_of_binner(part)
        else:
            continue
        if fault:
            raise UnsupportedModelError(f"{source} is damaged: a tree in it {fault}")


def _reachable(model: Any) -> Iterator[Any]:
    """Yield all objects that a model holds, each once, and the model first."""
    waiting, visited = [model], {}
    while waiting:
        part = waiting.pop()
        if id(part) in visited or isinstance(part, (str, bytes, bytearray, int, float, type)):
            continue
        visited[id(part)] = part  # kept alive, so that no other object gets its id
        yield part
        if isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        elif isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting += part
        waiting += getattr(part, "__dict__", {}).values()


def _fault_of_compiled(tree: Any) -> str | None:
    if not 0 < tree.node_count <= tree.capacity:
        return f"claims {tree.node_count} nodes and has {tree.capacity}"
    if not 0 <= tree.n_features <= MOST_FEATURES:
        return f"claims {tree.n_features} features"
    return _fault(tree.children_left, tree.children_right, tree.feature, tree.children_left != -1, tree.n_features)


def _fault_of_predictor(tree: Any) -> str | None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes, raw_bitsets = tree.nodes, tree.raw_left_cat_bitsets
    if not isinstance(nodes, np.ndarray) or nodes.dtype != PREDICTOR_RECORD_DTYPE or nodes.ndim != 1 or not nodes.size:
        return "has nodes of another kind"
    split = nodes["is_leaf"] == 0
    for bitsets in (raw_bitsets, tree.binned_left_cat_bitsets):
        if not isinstance(bitsets, np.ndarray) or bitsets.dtype != np.uint32 or bitsets.shape[1:] != (8,):
            return "has sets of categories of another kind"
        if (nodes["bitset_idx"][split & (nodes["is_categorical"] != 0)] >= len(bitsets)).any():
            return "splits on a set of categories it does not have"
    return _fault(nodes["left"], nodes["right"], nodes["feature_idx"], split, MOST_FEATURES)


def _fault_of_binner(binner: Any) -> str | None:
    """Return what is wrong with the categories of a binner; scikit-learn's loops need codes from 0 to 255."""
    categorical, bins = np.asarray(binner.is_categorical_), binner.bin_thresholds_
    if categorical.dtype.kind not in "bu" or categorical.ndim != 1 or len(bins) != categorical.size:
        return "has bins of other features"
    codes_by_feature = [np.asarray(bins[k]) for k in np.flatnonzero(categorical)]
    are_codes = all(codes.dtype.kind in "iuf" and ((codes >= 0) & (codes < 256)).all() for codes in codes_by_feature)
    return None if are_codes else "has categories that are not codes"


def _fault(
    left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], split: NDArray[np.bool_], n_features: int
) -> str | None:
    """Return what is wrong with the links of a tree, or None."""
    splits = np.flatnonzero(split)
    children = np.stack([left[splits], right[splits]]).astype(np.int64)
    if not ((children > splits) & (children < left.size)).all():
        return "has a child that does not come after its parent"
    if (np.bincount(children.ravel(), minlength=left.size)[1:] != 1).any():
        return "has a node that is not the child of exactly one"
    split_feature = feature[splits].astype(np.int64)
    in_range = (split_feature >= 0) & (split_feature < n_features)
    return None if in_range.all() else "splits on a feature it does not have"
