"""Hooks for scikit-learn's AdaBoostClassifier, scored on held-out rows.

Its decision function is a sum over trees: each votes for a class with its weight. The probabilities of
``predict_proba`` are those of a log-linear model with this sum as margin (Zhu, Zou, Rosset and Hastie 2009, equation
15), so the loss is the log-loss of these probabilities. The trees were grown by the exponential loss, whose gradient at
margin 0 is the same up to a factor. An AdaBoostRegressor predicts a median of its trees, which is no sum (`forests`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError, with_article
from debias.hooks.reported import ReportedImportance
from debias.trees.ensemble import TreeEnsemble
from debias_adapters.sklearn.reading import apply_trees, common_arrays, names_of, objective_of, quiet
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.trees.in_bag import InBag


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees, with the votes of their leaves as values."""
    if not _is_mine(model):
        return None
    source = "scikit-learn AdaBoostClassifier"
    if not hasattr(model, "estimators_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    _refuse_others(model, source)
    n_outputs = _n_outputs(model)
    # The weights of rows differ between trees, and so weights and impurities of nodes say nothing about those of users.
    arrays = common_arrays(_trees(model)) | {"weight": None, "impurity": None}
    return TreeEnsemble(
        **arrays,
        **names_of(model),
        value=np.concatenate(_votes(model)),
        tree_output=np.zeros(len(model.estimators_), dtype=np.int32),
        base=np.zeros(n_outputs),
        averaged=False,
        objective=objective_of("log_loss", n_outputs, None, source),
        classes=model.classes_,
        missing_refusal=f"{with_article(source)} does not take missing values",
        source=source,
        criterion=str(model.estimators_[0].criterion),
        sampled_share=1.0,
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaves that each tree's apply returns."""
    return apply_trees(_trees(model), X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return the margins from which predict_proba computes probabilities."""
    return _raw(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return the same as debias_predict_raw for the user's rows."""
    return _raw(model, X) if _is_mine(model) else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: every tree has seen all training rows."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted("a scikit-learn AdaBoostClassifier")


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return ``feature_importances_``: the mean of those of the trees, by the weights of their votes."""
    if not _is_mine(model):
        return None
    return ReportedImportance(model.feature_importances_, "mean decrease in impurity", None)


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any | None:
    """Fit a clone."""
    if not _is_mine(model):
        return None
    return fitted(model, X, y, sample_weight, seed, {**(params or {})})


def _is_mine(model: Any) -> bool:
    ensemble = sys.modules.get("sklearn.ensemble")
    return ensemble is not None and isinstance(model, ensemble.AdaBoostClassifier)


def _refuse_others(model: Any, source: str) -> None:
    """Refuse members that are no trees, fewer than two classes, and votes without weight."""
    from sklearn.tree import DecisionTreeClassifier

    others = {type(member).__name__ for member in model.estimators_ if not isinstance(member, DecisionTreeClassifier)}
    if others:
        raise UnsupportedModelError(
            f"the members of this {source} are {' and '.join(sorted(others))}: only those with "
            "estimator=DecisionTreeClassifier(...), which is the default, have trees"
        )
    if len(model.classes_) < 2:
        raise UnsupportedModelError(f"this {source} was trained on rows of one class, so it predicts a constant")
    if not _weights(model).sum() > 0:
        raise UnsupportedModelError(f"the trees of this {source} have no weight, so its predictions are not defined")


def _trees(model: Any) -> list[Any]:
    return [member.tree_ for member in model.estimators_]


def _weights(model: Any) -> NDArray[np.float64]:
    """Return the weight of the vote of each tree, not scaled."""
    return np.asarray(model.estimator_weights_[: len(model.estimators_)], dtype=np.float64)


def _n_outputs(model: Any) -> int:
    n_classes = len(model.classes_)
    return 1 if n_classes == 2 else n_classes


def _votes(model: Any) -> list[NDArray[np.float64]]:
    """Return the step of the margins at each node of each tree, shape (n_nodes, n_outputs)."""
    n_classes, weight, votes = len(model.classes_), _weights(model), []
    for member, share in zip(model.estimators_, weight / weight.sum(), strict=True):
        shares = np.zeros((member.tree_.node_count, n_classes))
        shares[:, np.searchsorted(model.classes_, member.classes_)] = member.tree_.value[:, 0, :]
        if getattr(model, "algorithm", None) == "SAMME.R":  # up to scikit-learn 1.5
            shares /= shares.sum(axis=1, keepdims=True)
            log = np.log(np.maximum(shares, np.finfo(shares.dtype).eps))
            vote = log - log.mean(axis=1, keepdims=True)
        else:
            vote = np.where(shares.argmax(axis=1)[:, None] == np.arange(n_classes), 1.0, -1 / (n_classes - 1))
            vote /= n_classes - 1
        votes.append(share * (2 * vote[:, 1:] if n_classes == 2 else vote))
    return votes


def _raw(model: Any, X: Any) -> NDArray[np.float64]:
    with quiet():
        raw = np.asarray(model.decision_function(X), dtype=np.float64).reshape(X.shape[0], -1)
    return raw if raw.shape[1] == 1 else raw / (raw.shape[1] - 1)
