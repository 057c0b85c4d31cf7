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
        A tree claims more nodes than it has, has a child that is not behind its parent, or a feature out of range.
    """
    compiled = getattr(sys.modules.get("sklearn.tree._tree"), "Tree", ())
    of_histograms = getattr(sys.modules.get("sklearn.ensemble._hist_gradient_boosting.predictor"), "TreePredictor", ())
    binner = getattr(sys.modules.get("sklearn.ensemble._hist_gradient_boosting.binning"), "_BinMapper", ())
    for found in _reachable(model):
        if isinstance(found, compiled):
            fault = _fault_of_compiled(found)
        elif isinstance(found, of_histograms):
            fault = _fault_of_predictor(found)
        elif isinstance(found, binner):
            fault = _fault_of_binner(found)
        else:
            continue
        if fault:
            raise UnsupportedModelError(f"{source} is damaged: a tree in it {fault}")


def _reachable(model: Any) -> Iterator[Any]:
    """Yield all objects that a model holds, each once, and the model first."""
    waiting, seen = [model], {}
    while waiting:
        here = waiting.pop()
        if id(here) in seen or isinstance(here, (str, bytes, bytearray, int, float, type)):
            continue
        seen[id(here)] = here  # kept alive, so that no other object gets its id
        yield here
        if isinstance(here, np.ndarray):
            waiting += here.ravel().tolist() if here.dtype == object else []
        elif isinstance(here, dict):
            waiting += [*here.keys(), *here.values()]
        elif isinstance(here, (list, tuple, set, frozenset)):
            waiting += here
        waiting += getattr(here, "__dict__", {}).values()


def _fault_of_compiled(tree: Any) -> str | None:
    if not 0 < tree.node_count <= tree.capacity:
        return f"claims {tree.node_count} nodes and has {tree.capacity}"
    if not 0 <= tree.n_features <= MOST_FEATURES:
        return f"claims {tree.n_features} features"
    return _fault(tree.children_left, tree.children_right, tree.feature, tree.children_left != -1, tree.n_features)


def _fault_of_predictor(tree: Any) -> str | None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes, sets = tree.nodes, tree.raw_left_cat_bitsets
    if not isinstance(nodes, np.ndarray) or nodes.dtype != PREDICTOR_RECORD_DTYPE or nodes.ndim != 1 or not nodes.size:
        return "has nodes of another kind"
    split = nodes["is_leaf"] == 0
    for each in (sets, tree.binned_left_cat_bitsets):
        if not isinstance(each, np.ndarray) or each.dtype != np.uint32 or each.shape[1:] != (8,):
            return "has sets of categories of another kind"
        if (nodes["bitset_idx"][split & (nodes["is_categorical"] != 0)] >= len(each)).any():
            return "splits on a set of categories it does not have"
    return _fault(nodes["left"], nodes["right"], nodes["feature_idx"], split, MOST_FEATURES)


def _fault_of_binner(binner: Any) -> str | None:
    """Return what is wrong with the categories of a binner; scikit-learn's loops need codes from 0 to 255."""
    categorical, known = np.asarray(binner.is_categorical_), binner.bin_thresholds_
    if categorical.dtype.kind not in "bu" or categorical.ndim != 1 or len(known) != categorical.size:
        return "has bins of other features"
    codes = [np.asarray(known[k]) for k in np.flatnonzero(categorical)]
    of_bits = all(each.dtype.kind in "iuf" and ((each >= 0) & (each < 256)).all() for each in codes)
    return None if of_bits else "has categories that are no codes"


def _fault(
    left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], split: NDArray[np.bool_], n_features: int
) -> str | None:
    """Return what is wrong with the links of a tree, or None."""
    at = np.flatnonzero(split)
    child = np.stack([left[at], right[at]]).astype(np.int64)
    if not ((child > at) & (child < left.size)).all():
        return "has a child that is not behind its parent"
    if (np.bincount(child.ravel(), minlength=left.size)[1:] != 1).any():
        return "has a node that is not the child of exactly one"
    of = feature[at].astype(np.int64)
    return "splits on a feature it does not have" if not ((of >= 0) & (of < n_features)).all() else None
