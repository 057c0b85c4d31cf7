"""Hooks for scikit-learn's GradientBoosting, scored on held-out rows; docs/methods.md explains why not out of bag."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError, with_article
from debias.hooks.reported import Measure, ReportedImportance
from debias.trees.ensemble import TreeEnsemble
from debias_adapters.sklearn.reading import apply_trees, common_arrays, names_of, objective_of, quiet
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.trees.in_bag import InBag


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees stage by stage. Stored leaf values do not include the learning rate."""
    if not _is_mine(model):
        return None
    source = f"scikit-learn {type(model).__name__}"
    if not hasattr(model, "estimators_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    trees = _trees(model)
    n_outputs = model.estimators_.shape[1]
    return TreeEnsemble(
        **common_arrays(trees),
        **names_of(model),
        value=np.concatenate([tree.value[:, 0, :] for tree in trees]) * model.learning_rate,
        tree_output=np.tile(np.arange(n_outputs, dtype=np.int32), len(model.estimators_)),
        base=_base(model, source),
        averaged=False,
        objective=objective_of(model.loss, n_outputs, getattr(model, "alpha", None), source),
        classes=getattr(model, "classes_", None),
        missing_refusal=f"{with_article(source)} does not take missing values",
        source=source,
        criterion=str(model.criterion),
        sampled_share=float(model.subsample),
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaves that each tree's apply returns."""
    return apply_trees(_trees(model), X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins of a classifier, and predictions of a regressor, whose link is the identity."""
    return _raw(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return the same as debias_predict_raw for the user's rows."""
    return _raw(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: other trees have seen the rows that are not in the sample of one tree."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted(f"a scikit-learn {type(model).__name__}")


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return ``feature_importances_``."""
    if not _is_mine(model):
        return None
    return ReportedImportance(model.feature_importances_, "mean decrease in impurity", Measure.IMPURITY)


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any | None:
    """Fit a clone with as many stages as the model has, without early stopping."""
    if not _is_mine(model):
        return None
    settings = {"n_estimators": model.n_estimators_, "n_iter_no_change": None, **(params or {})}
    return fitted(model, X, y, sample_weight, seed, settings)


def _is_mine(model: Any) -> bool:
    ensemble = sys.modules.get("sklearn.ensemble")
    return ensemble is not None and isinstance(
        model, (ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor)
    )


def _trees(model: Any) -> list[Any]:
    return [tree.tree_ for stage in model.estimators_ for tree in stage]


def _base(model: Any, source: str) -> NDArray[np.float64]:
    """Return the raw output before any tree, if it is one constant."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    init = model.init_
    random = isinstance(init, DummyClassifier) and init.strategy in ("stratified", "uniform")
    if not isinstance(init, str) and (random or not isinstance(init, (DummyClassifier, DummyRegressor))):
        raise UnsupportedModelError(
            f"this {source} starts from init={type(init).__name__}, whose predictions are not one constant: what it "
            "learned about features is not in the trees. Supported are init=None, 'zero' and constant Dummy estimators."
        )
    base: NDArray[np.float64] = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]
    return base.astype(np.float64)


def _raw(model: Any, X: Any) -> NDArray[np.float64]:
    with quiet():
        raw = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    return np.asarray(raw, dtype=np.float64).reshape(X.shape[0], -1)
