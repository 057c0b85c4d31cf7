"""Reader of scikit-learn's compiled trees, shared by the adapters of all ensembles that are made of them."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.parallel import over_parts
from debias.trees.objectives import LOGISTIC, SOFTMAX, SQUARED_ERROR, Objective
from debias_adapters.sklearn import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

NODE_FIELDS = {
    "left_child": np.int32,
    "right_child": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "impurity": np.float64,
    "n_node_samples": np.int64,
    "weighted_n_node_samples": np.float64,
    "missing_go_to_left": np.bool_,
}
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
    start = np.cumsum([0] + [tree.node_count for tree in trees])
    joined = {name: np.empty(start[-1], dtype=dtype) for name, dtype in NODE_FIELDS.items()}

    def copy_part(part: slice) -> None:
        for tree, begin, end in zip(trees[part], start[:-1][part], start[1:][part], strict=True):
            nodes = tree.__getstate__()["nodes"]  # tree by tree, while its nodes are in the cache
            for name, array in joined.items():
                array[begin:end] = nodes[name]

    over_parts(len(trees), copy_part)
    np.maximum(joined["feature"], -1, out=joined["feature"])  # -2 at leaves
    return {
        "tree_start": start,
        "feature": joined["feature"],
        "threshold": joined["threshold"],
        "left": joined["left_child"],
        "right": joined["right_child"],
        "missing_left": joined["missing_go_to_left"],
        "averaging_weight": joined["weighted_n_node_samples"],
        "weight": joined["weighted_n_node_samples"],
        "count": joined["n_node_samples"],
        "impurity": joined["impurity"],
        "sparse_absent": 0.0,
        "routing_dtype": np.dtype(np.float32),
        "version": sys.modules["sklearn"].__version__,
        "tested_versions": LIBRARY.tested_versions,
    }


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

    over_parts(len(trees), apply_part)
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
