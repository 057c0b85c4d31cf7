"""Reader of scikit-learn's compiled trees, shared by the adapters of all ensembles that are made of them."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.parallel import over_parts, worth
from debias.trees.objectives import LOGISTIC, SOFTMAX, SQUARED_ERROR, Objective
from debias_adapters.sklearn import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

NODE = np.dtype(
    [
        ("left_child", np.int64),
        ("right_child", np.int64),
        ("feature", np.int64),
        ("threshold", np.float64),
        ("impurity", np.float64),
        ("n_node_samples", np.int64),
        ("weighted_n_node_samples", np.float64),
        ("missing_go_to_left", np.uint8),
    ],
    align=True,
)
"""A node as the compiled loop reads it. This is how scikit-learn stores nodes; others are converted."""
LOSSES = {
    "squared_error": SQUARED_ERROR,
    "absolute_error": Objective("absolute_error"),
    "poisson": Objective("poisson"),
    "gamma": Objective("gamma"),
    "exponential": Objective("exponential"),
}
MEAN_CRITERIA = {"squared_error", "friedman_mse", "poisson", "gini", "entropy", "log_loss"}


def common_arrays(trees: list[Any]) -> dict[str, Any]:
    """Return the arguments of TreeEnsemble that are the same for all ensembles of compiled trees.

    Parameters
    ----------
    trees : list of sklearn.tree._tree.Tree

    Returns
    -------
    dict
    """
    from debias_adapters.sklearn.kernels import nodes as kernels

    start = np.cumsum([0] + [tree.node_count for tree in trees])
    left, right, feature = (np.empty(start[-1], dtype=np.int32) for _ in range(3))
    threshold, impurity, weight = (np.empty(start[-1]) for _ in range(3))
    count, missing_left = np.empty(start[-1], dtype=np.int64), np.empty(start[-1], dtype=np.bool_)
    joined = (left, right, feature, threshold, impurity, count, weight, missing_left)

    def copy_part(part: slice) -> None:
        for tree, begin, end in zip(trees[part], start[:-1][part], start[1:][part], strict=True):
            kernels.copy_nodes(_nodes(tree), *(array[begin:end] for array in joined))

    over_parts(len(trees), copy_part, at_least=worth(len(trees), int(start[-1])))
    return {
        "tree_start": start,
        "feature": feature,
        "threshold": threshold,
        "left": left,
        "right": right,
        "missing_left": missing_left,
        "averaging_weight": weight,
        "weight": weight,
        "count": count,
        "impurity": impurity,
        "sparse_absent": 0.0,
        "routing_dtype": np.dtype(np.float32),
        "version": sys.modules["sklearn"].__version__,
        "tested_versions": LIBRARY.tested_versions,
    }


def _nodes(tree: Any) -> NDArray[np.uint8]:
    """Return the nodes of a tree, in the types of `NODE`, as bytes (n_nodes, bytes of a node)."""
    nodes = tree.__getstate__()["nodes"]
    if nodes.dtype != NODE:
        nodes = nodes[list(NODE.names or ())].astype(NODE)
    return np.ascontiguousarray(nodes).view(np.uint8).reshape(nodes.size, NODE.itemsize)


def names_of(model: Any) -> dict[str, Any]:
    """Return the arguments `feature_names` and `named` of TreeEnsemble."""
    named = hasattr(model, "feature_names_in_")
    names = model.feature_names_in_ if named else [f"x{k}" for k in range(model.n_features_in_)]
    return {"feature_names": tuple(names), "named": named}


def values_are_means(tree: Any) -> bool:
    """Return whether the node values of a tree are means of the response of its rows, so that they can prove y."""
    return str(tree.criterion) in MEAN_CRITERIA and getattr(tree, "monotonic_cst", None) is None


def apply_trees(trees: list[Any], X: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
    """Return the leaf of every row in every compiled tree, shape (n_rows, n_trees)."""
    leaves = np.empty((len(trees), len(X)), dtype=np.int32)

    def apply_part(part: slice) -> None:
        for k in range(part.start, part.stop):
            leaves[k] = trees[k].apply(X)

    over_parts(len(trees), apply_part, at_least=worth(len(trees), leaves.size))
    return leaves.T


def predicted(model: Any, X: Any) -> NDArray[np.float64]:
    """Return what predict_proba or predict returns for the user's rows, the columns of several responses side by side.

    Use one thread: there are only few rows.
    """
    single_threaded = copy(model)
    if hasattr(model, "n_jobs"):
        single_threaded.n_jobs = 1
    with quiet():
        output = single_threaded.predict_proba(X) if hasattr(model, "classes_") else single_threaded.predict(X)
    joined = np.concatenate(output, axis=1) if isinstance(output, list) else np.asarray(output)
    return joined.astype(np.float64).reshape(X.shape[0], -1)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings of a library while it predicts for the rows of a check, such as those about missing names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def objective_of(loss: Any, n_outputs: int, quantile: float | None, source: str) -> Objective:
    """Return the loss a boosted model was grown for.

    Raises
    ------
    UnsupportedModelError
        The loss is not supported, or depends on a number that the model does not keep.
    """
    if loss == "log_loss":
        return SOFTMAX if n_outputs > 1 else LOGISTIC
    if loss == "quantile" and quantile is not None:
        return Objective("quantile", (float(quantile),))
    if not isinstance(loss, str) or loss not in LOSSES:
        of_huber = "; its threshold changes in each stage, and the model keeps only the last one"
        reason = of_huber if loss == "huber" else ""
        raise UnsupportedModelError(
            f"this {source} has loss={loss!r}{reason}. Supported are log_loss, quantile, {', '.join(LOSSES)}."
        )
    return LOSSES[loss]
