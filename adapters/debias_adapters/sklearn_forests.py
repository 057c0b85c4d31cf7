"""scikit-learn's random forests, extra trees and single trees, classification and regression."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.ensemble import TreeEnsemble
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.inbag import InBag
from debias.objectives import SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MEAN_CRITERIA = {"squared_error", "friedman_mse", "poisson", "gini", "entropy", "log_loss"}


@debias.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Flatten the trees of a forest, or a single tree."""
    if not _is_mine(model):
        return None
    source = f"scikit-learn {type(model).__name__}"
    if not hasattr(model, "estimators_") and not hasattr(model, "tree_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    if model.n_outputs_ > 1:
        raise UnsupportedModelError(f"this {source} has {model.n_outputs_} outputs; only one is supported so far")
    trees = _trees(model)
    nodes = [tree.__getstate__()["nodes"] for tree in trees]
    together = np.concatenate(nodes)
    leaf = together["left_child"] < 0
    classes = getattr(model, "classes_", None)
    return TreeEnsemble(
        tree_start=np.cumsum([0] + [len(part) for part in nodes]),
        feature=np.where(leaf, -1, together["feature"]),
        threshold=together["threshold"],
        left=together["left_child"],
        right=np.where(leaf, -1, together["right_child"]),
        missing_left=together["missing_go_to_left"].astype(bool),
        value=np.concatenate([tree.value[:, 0, :] for tree in trees]),
        averaging_weight=together["weighted_n_node_samples"],
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(1 if classes is None else len(classes)),
        averaged=True,
        objective=SQUARED_ERROR,
        feature_names=tuple(getattr(model, "feature_names_in_", [f"x{k}" for k in range(model.n_features_in_)])),
        named=hasattr(model, "feature_names_in_"),
        classes=classes,
        routing_dtype=np.dtype(np.float32),
        source=source,
        version=sys.modules["sklearn"].__version__,
        criterion=str(model.criterion),
        mean_values=str(model.criterion) in MEAN_CRITERIA and getattr(model, "monotonic_cst", None) is None,
        weight=together["weighted_n_node_samples"],
        count=together["n_node_samples"],
        impurity=together["impurity"],
        n_train=int(getattr(model, "_n_samples", 0) or trees[0].n_node_samples[0]),
    )


@debias.hookimpl
def debias_leaves(
    model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], in_bag: NDArray[np.bool_] | None, n_jobs: int
) -> NDArray[np.int32] | None:
    """Apply each tree to the rows out of its bag; trees in parallel threads, since apply releases the GIL."""
    if not _is_mine(model):
        return None
    trees = _trees(model)
    leaves = np.full((len(trees), len(X)), -1, dtype=np.int32)

    def route(t: int) -> None:
        if in_bag is None:
            leaves[t] = trees[t].apply(X)
            return
        rows = np.flatnonzero(~in_bag[t])
        if rows.size:
            leaves[t, rows] = trees[t].apply(X.take(rows, axis=0))

    if n_jobs == 1:
        for t in range(len(trees)):
            route(t)
    else:
        from joblib import Parallel, delayed

        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(route)(t) for t in range(len(trees)))
    return leaves.T


@debias.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return class probabilities, or means."""
    if not _is_mine(model):
        return None
    if hasattr(model, "feature_names_in_"):
        import pandas as pd

        X = pd.DataFrame(X, columns=model.feature_names_in_)  # scikit-learn warns of rows without the names
    output = model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)
    return np.asarray(output, dtype=np.float64).reshape(len(X), -1)


@debias.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any]) -> InBag | None:
    """Redraw the bootstrap samples from the trees' seeds, one tree at a time."""
    if not _is_mine(model):
        return None
    if not getattr(model, "bootstrap", False):
        raise InBagUnavailableError(
            f"this scikit-learn {type(model).__name__} was grown without bootstrap, so every tree saw every row and none "
            "is out of bag. Pass rows the model has not seen, with rows='held-out'."
        )
    indices = _index_draw(model)

    def draw(tree: int) -> NDArray[np.float64]:
        rows = indices(tree)
        weight = np.bincount(rows, minlength=model._n_samples).astype(np.float64)
        if getattr(model, "class_weight", None) == "balanced_subsample":
            from sklearn.utils.class_weight import compute_sample_weight

            weight *= compute_sample_weight("balanced", y, indices=rows)
        return weight

    return InBag(draw, n_rows=model._n_samples, n_trees=len(model.estimators_))


@debias.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_``."""
    return (model.feature_importances_, "mean decrease in impurity") if _is_mine(model) else None


def _is_mine(model: Any) -> bool:
    ensemble, tree = sys.modules.get("sklearn.ensemble"), sys.modules.get("sklearn.tree")
    if tree is not None and isinstance(model, (tree.DecisionTreeClassifier, tree.DecisionTreeRegressor)):
        return True
    return ensemble is not None and isinstance(
        model,
        (
            ensemble.RandomForestClassifier,
            ensemble.RandomForestRegressor,
            ensemble.ExtraTreesClassifier,
            ensemble.ExtraTreesRegressor,
        ),
    )


def _trees(model: Any) -> list[Any]:
    return [estimator.tree_ for estimator in getattr(model, "estimators_", [model])]


def _index_draw(model: Any) -> Callable[[int], NDArray[np.int32]]:
    """Return a function that redraws one tree's sample.

    The public ``estimators_samples_`` makes the lists of all trees at once, 8 bytes a row and tree; the function it
    calls, private but unchanged in what it draws, makes one.
    """
    try:
        from sklearn.ensemble._forest import _generate_sample_indices as generate

        n_rows, n_drawn = model._n_samples, model._n_samples_bootstrap
    except (ImportError, AttributeError):
        samples = model.estimators_samples_
        return lambda tree: samples[tree]
    weights: tuple[Any, ...] = ()
    if generate.__code__.co_argcount == 4:  # scikit-learn 1.9: sample weights are draw probabilities
        weights = (getattr(model, "_sample_weight", None),)
    return lambda tree: generate(model.estimators_[tree].random_state, n_rows, n_drawn, *weights)
