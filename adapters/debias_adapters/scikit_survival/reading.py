"""Reader of scikit-survival's trees: forests, extra trees, single trees, and boosted trees with the Cox likelihood.

The prediction of a forest is the mean over trees of the risk score of a leaf: the sum of the leaf's cumulative hazard
over the event times of training. So a tree is an averaged tree with one number in each leaf.
"""

from __future__ import annotations

import sys
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError, with_article
from debias.positions import evenly_spaced
from debias.trees.ensemble import TreeEnsemble
from debias.trees.survival_objectives import CoxObjective
from debias_adapters.scikit_survival import LIBRARY
from debias_adapters.sklearn import bags
from debias_adapters.sklearn.missing_values import missing_refusal, refuse_grown_otherwise, with_doubt
from debias_adapters.sklearn.reading import common_arrays, names_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.in_bag import InBag

ROOTS_TO_CHECK = 10
"""Number of roots whose risk scores are computed again from times and events."""
NOT_SCORED = {
    "squared": (
        "the model starts at the logarithm of time 0, so that the gradient of a row before any tree depends on the "
        "unit of time and leaves out the rows that were censored before time 1"
    ),
    "ipcwls": "its trees weigh rows by the inverse probability of censoring, and the model does not keep these weights",
}
"""Losses of boosted trees that give rows no gradient, and the reasons."""


def extract_forest(model: Any) -> TreeEnsemble:
    """Return the trees of a fitted forest, or a single tree."""
    estimators = _estimators(model)
    arrays = common_arrays(trees(model))
    arrays |= {
        "impurity": None,
        "version": sys.modules["sksurv"].__version__,
        "tested_versions": LIBRARY.tested_versions,
    }
    ensemble = TreeEnsemble(
        **arrays,
        **names_of(model),
        value=np.concatenate([_risk_scores(estimator) for estimator in estimators])[:, None],
        tree_output=np.zeros(len(estimators), dtype=np.int32),
        base=np.zeros(1),
        averaged=True,
        objective=CoxObjective(signed=False),
        classes=None,
        source=f"scikit-survival {type(model).__name__}",
        criterion="logrank",
        n_train=_n_train(model, arrays),
        uniform_rows=getattr(model, "_sample_weight", None) is None or not bags.drew_bags(model),
        missing_refusal=missing_refusal(),
    )
    return with_doubt(model, refuse_grown_otherwise(ensemble))


def extract_boosted(model: Any) -> TreeEnsemble:
    """Return the trees stage by stage. Stored leaf values do not include the learning rate and factors of dropout."""
    source = f"scikit-survival {type(model).__name__}"
    if model.loss in NOT_SCORED:
        raise UnsupportedModelError(
            f"this {source} has loss={model.loss!r}: {NOT_SCORED[model.loss]}. Train it with loss='coxph'"
        )
    compiled = trees(model)
    scale = getattr(model, "_scale", np.ones(len(compiled)))[: len(compiled)]
    arrays = common_arrays(compiled)
    arrays |= {"version": sys.modules["sksurv"].__version__, "tested_versions": LIBRARY.tested_versions}
    return TreeEnsemble(
        **arrays,
        **names_of(model),
        value=np.concatenate([tree.value[:, 0] * factor for tree, factor in zip(compiled, scale, strict=True)])
        * model.learning_rate,
        tree_output=np.zeros(len(compiled), dtype=np.int32),
        base=np.zeros(1),
        averaged=False,
        objective=CoxObjective(signed=False),
        classes=None,
        missing_refusal=f"{with_article(source)} does not take missing values",
        rescaled=hasattr(model, "_scale"),
        source=source,
        criterion="squared_error",
        sampled_share=float(model.subsample),
    )


def trees(model: Any) -> list[Any]:
    """Return the compiled trees; those of a boosted model stage by stage."""
    return [estimator.tree_ for estimator in _estimators(model)]


def in_bag(model: Any, y: NDArray[np.float64], sample_weight: NDArray[np.float64] | None) -> InBag:
    """Redraw the bootstrap samples as those of scikit-learn's forests, and check times and events, the columns of y."""
    redrawn = bags.of_forest(_with_sizes(model, len(y)), y, sample_weight, "scikit-survival")
    redrawn.fits_response = len(y) == redrawn.n_rows and _gives_root_risks(model, redrawn, *y.T)
    return redrawn


def _estimators(model: Any) -> list[Any]:
    estimators = getattr(model, "estimators_", [model])
    return list(estimators[:, 0] if isinstance(estimators, np.ndarray) else estimators)  # an array: boosted


def _risk_scores(estimator: Any, nodes: slice = slice(None)) -> NDArray[np.float64]:
    """Return the risk score of every node, added up as in `predict`. With low_memory=True the nodes store it."""
    value = estimator.tree_.value[nodes]  # (n_nodes, 1, 1), or (n_nodes, n_times, 2): cumulative hazard and survival
    if value.shape[2] == 1:
        return np.asarray(value[:, 0, 0])
    return np.asarray(value[:, estimator.is_event_time_, 0].sum(axis=1))


def _n_train(model: Any, arrays: dict[str, Any]) -> int | None:
    """Return the number of training rows. Forests of scikit-survival 0.23 show it if bags have as many draws."""
    if hasattr(model, "_n_samples") or not getattr(model, "bootstrap", False) or model.max_samples is not None:
        return getattr(model, "_n_samples", None)
    n_draws = arrays["weight"][arrays["tree_start"][:-1]]
    is_one_number = (n_draws == n_draws[0]).all() and n_draws[0] == int(n_draws[0])
    return int(n_draws[0]) if is_one_number else None


def _with_sizes(model: Any, n_rows: int) -> Any:
    """Return the forest with the numbers of rows and of draws, which scikit-survival 0.23 does not keep.

    The counts of the nodes prove them afterwards.
    """
    if hasattr(model, "_n_samples") or not getattr(model, "bootstrap", False):
        return model
    from sklearn.ensemble._forest import _get_n_samples_bootstrap

    sized = copy(model)
    sized._n_samples, sized._n_samples_bootstrap = n_rows, _get_n_samples_bootstrap(n_rows, model.max_samples)
    return sized


def _gives_root_risks(model: Any, redrawn: InBag, time: NDArray[np.float64], event: NDArray[np.float64]) -> bool:
    """Whether times and events give the risk scores that the trees store at their roots; up to 10 trees are compared.

    The risk score of a root is the sum, over the times of events among all rows, of the Nelson-Aalen estimate of the
    rows in its bag.
    """
    _, number = np.unique(time, return_inverse=True)
    at_event = np.bincount(number, weights=event) > 0
    for tree in evenly_spaced(redrawn.n_trees, ROOTS_TO_CHECK):
        weight = redrawn.draw(tree)
        events = np.bincount(number, weights=weight * event)
        at_risk = np.cumsum(np.bincount(number, weights=weight)[::-1])[::-1]
        hazard = np.cumsum(np.divide(events, at_risk, out=np.zeros_like(events), where=events > 0))
        stored = _risk_scores(model.estimators_[tree], slice(1))[0]
        if not np.isclose(hazard[at_event].sum(), stored, rtol=1e-9, atol=0):
            return False
    return True
