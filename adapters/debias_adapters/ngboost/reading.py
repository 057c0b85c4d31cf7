"""Reader of NGBoost's models: their trees, and the distributions that these give parameters of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError, with_article
from debias.trees.ensemble import STOPPED_EARLY, TreeEnsemble
from debias.trees.objectives import LOGISTIC, SOFTMAX
from debias_adapters.ngboost import LIBRARY
from debias_adapters.ngboost.objective import DistributionObjective, NaturalSoftmax, global_state
from debias_adapters.sklearn.missing_values import missing_refusal, refuse_grown_otherwise
from debias_adapters.sklearn.reading import common_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.objectives import Objective

DRAWS, STEP, MANY_TIMES, MOST_NUMBERS, CLOSE = 20, 0.01, 20, 100_000, 1e-6
"""Numbers drawn to see whether they are whole, and how their probabilities are summed."""


def extract(model: Any) -> TreeEnsemble:
    """Return the trees of all parameters, round by round."""
    source = f"NGBoost {type(model).__name__}"
    if not model.base_models:
        raise UnsupportedModelError(f"this {source} is not fitted, or has no trees; fit it first")
    if is_classifier(model) and not _has_logits(model):
        raise UnsupportedModelError(
            f"this {source} has Dist={model.Dist.__name__}, which is none of NGBoost's distributions of classes. "
            "Train it with Dist=k_categorical(K)"
        )
    members = trees(model, source)
    arrays = common_arrays([tree for tree, _ in members])
    for begin, end, (_, columns) in zip(arrays["tree_start"][:-1], arrays["tree_start"][1:], members, strict=True):
        local_feature = arrays["feature"][begin:end]
        arrays["feature"][begin:end] = np.where(local_feature < 0, -1, columns[local_feature])
    arrays |= {"version": sys.modules["ngboost"].__version__, "tested_versions": LIBRARY.tested_versions}
    start = parameters_of_start(model)
    information = _information(model, start)
    unit = _units(model, start, information)
    # With less than all rounds, NGBoost was stopped by its loss on other rows.
    was_stopped = model.best_val_loss_itr is not None and len(model.base_models) < model.n_estimators
    n_rounds, first = len(model.base_models), n_before(model)
    step = -model.learning_rate * np.outer(np.asarray(model.scalings, dtype=np.float64)[:n_rounds], unit).ravel()
    return refuse_grown_otherwise(
        TreeEnsemble(
            **arrays,
            feature_names=tuple(f"x{k}" for k in range(model.n_features)),
            named=False,
            value=np.concatenate([tree.value[:, 0] * factor for (tree, _), factor in zip(members, step, strict=True)]),
            tree_output=np.tile(np.arange(start.size, dtype=np.int32) + first, n_rounds),
            base=np.concatenate([np.zeros(first), start * unit]),
            averaged=False,
            objective=_objective(model, start, unit, information, source),
            classes=getattr(model, "classes_", np.arange(model.Dist.K_)) if is_classifier(model) else None,
            labelled=hasattr(model, "classes_"),  # since NGBoost 0.6
            missing_refusal=_missing_refusal(model, source),
            source=source,
            criterion=str(getattr(model.base_models[0][0], "criterion", "squared_error")),
            sampled_share=float(model.minibatch_frac),
            trees_a_round=start.size,
            notes=(STOPPED_EARLY,) if was_stopped else (),
        )
    )


def trees(model: Any, source: str = "NGBoost model") -> list[tuple[Any, NDArray[np.int64]]]:
    """Return each compiled tree and its columns of X, round by round, in the order of the parameters."""
    from sklearn.tree import DecisionTreeRegressor

    members = []
    for learners, columns in zip(model.base_models, model.col_idxs, strict=False):
        for learner in learners:
            if not isinstance(learner, DecisionTreeRegressor):
                raise UnsupportedModelError(
                    f"this {source} has a {type(learner).__name__} as base learner (Base=). Only single regression "
                    "trees of scikit-learn can be scored"
                )
            members.append((learner.tree_, np.asarray(columns, dtype=np.int64)))
    return members


def is_classifier(model: Any) -> bool:
    """Return whether a model predicts classes."""
    return isinstance(model, sys.modules["ngboost"].NGBClassifier)


def is_survival(model: Any) -> bool:
    """Return whether a model takes times and events."""
    return isinstance(model, sys.modules["ngboost"].NGBSurvival)


def _has_logits(model: Any) -> bool:
    """Return whether the parameters of a distribution of classes are their logits, without that of the first class."""
    if not hasattr(model.Dist, "K_"):
        return False
    logits = np.append(0.0, parameters_of_start(model))
    share = np.exp(logits - logits.max())
    return np.allclose(model.Dist(logits[1:, None]).class_probs()[0], share / share.sum())


def n_before(model: Any) -> int:
    """Return the number of outputs before those of the parameters: the first of several classes has the logit 0."""
    return int(is_classifier(model) and model.Dist.K_ > 2)


def parameters_of_start(model: Any) -> NDArray[np.float64]:
    """Return the parameters before any tree, shape (n_parameters,)."""
    return np.broadcast_to(np.asarray(model.init_params, dtype=np.float64).ravel(), len(model.base_models[0])).copy()


def units_of_parameters(model: Any, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor of each parameter in the margin, see :class:`DistributionObjective`."""
    return _units(model, start, None if is_classifier(model) else _information(model, start))


def _units(model: Any, start: NDArray[np.float64], information: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return np.ones(start.size) if information is None or is_classifier(model) else np.sqrt(np.diag(information))


def _objective(
    model: Any,
    start: NDArray[np.float64],
    unit: NDArray[np.float64],
    information: NDArray[np.float64] | None,
    source: str,
) -> Objective:
    scaled = None if information is None else tuple(map(tuple, (information / np.outer(unit, unit)).tolist()))
    if is_classifier(model):
        if model.Dist.K_ == 2:
            return LOGISTIC
        return SOFTMAX if scaled is None or not model.natural_gradient else NaturalSoftmax(information=scaled)
    is_log_score = issubclass(model.Score, sys.modules["ngboost"].scores.LogScore)
    if not is_log_score:
        _refuse_interchanged(model, source)
    n_columns = _n_columns(model, start)
    return DistributionObjective(
        name=f"{'log score' if is_log_score else 'CRPS'} of {_name(model)}",
        parameter=tuple(unit.tolist()),
        information=scaled,
        natural=bool(model.natural_gradient),
        start=tuple((start * unit).tolist()),
        rule=model.Manifold,
        as_y=_censored_y if is_survival(model) else _whole if n_columns > 1 else _first_column,
        n_columns=n_columns,
        censored=is_survival(model),
        is_log_score=is_log_score,
        is_normalised=_is_normalised(model, start),
    )


def _refuse_interchanged(model: Any, source: str) -> None:
    """Refuse a CRPS that is lowest for infinitely long times: NGBoost's of the exponential distribution.

    Its formulas of events and of censored rows are interchanged, so that a model does not learn when events happen.
    """
    with np.errstate(all="ignore"):
        if not issubclass(model.Dist, sys.modules["ngboost"].distns.Exponential):
            return
        event = _censored_y(np.ones((2, 2))) if is_survival(model) else np.ones(2)
        of_long, of_equal = model.Manifold(np.array([[5.0, 0.0]])).score(event)
    if of_long < of_equal:
        raise UnsupportedModelError(
            f"this {source} was trained with Dist=Exponential and Score=CRPScore. In this version of NGBoost the "
            "formulas of this score for events and for censored rows are interchanged: it is best for infinitely long "
            "times. Train with Score=LogScore"
        )


def _information(model: Any, start: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the information matrix at the start; None if NGBoost has no formula for it and draws numbers."""
    with global_state(0), np.errstate(all="ignore"):
        rule = model.Manifold(np.column_stack([start, start]))  # some distributions turn one row into a number
        try:
            once, again = (np.asarray(rule.metric(), dtype=np.float64)[0] for _ in range(2))
        except Exception:  # noqa: BLE001 - a distribution of the user needs no metric without natural gradients
            return None
    is_known = np.array_equal(once, again) and np.isfinite(once).all() and (np.diag(once) > 0).all()
    return once if is_known else None


def _is_normalised(model: Any, start: NDArray[np.float64]) -> bool:
    """Return False if a distribution of whole numbers has probabilities that do not sum to 1, near the start."""
    with global_state(0), np.errstate(all="ignore"):
        try:
            drawn = np.asarray(model.Manifold(np.column_stack([start, start])).sample(DRAWS), dtype=np.float64)
        except Exception:  # noqa: BLE001 - from some distributions NGBoost cannot draw
            return True
        n_numbers = MANY_TIMES * (drawn.max() + 1)
        if drawn.ndim != 2 or (drawn != np.round(drawn)).any() or not n_numbers < MOST_NUMBERS:
            return True
        y = np.arange(float(n_numbers))
        near = np.tile((start + STEP)[:, None], y.size)
        return bool(abs(np.exp(-model.Manifold(near).score(y)).sum() - 1) < CLOSE)


def _name(model: Any) -> str:
    """Return the name of the distribution, without the classes that NGBoost derives from it."""
    home = model.Dist
    while home.__name__ in ("SurvivalDistn", "DistWithUncensoredScore"):
        home = home.__base__
    return str(home.__name__)


def _n_columns(model: Any, start: NDArray[np.float64]) -> int:
    if is_survival(model):
        return 2
    if not model.multi_output:
        return 1
    with global_state(0), np.errstate(all="ignore"):
        mean = np.asarray(model.Manifold(np.column_stack([start, start])).predict())
    return mean.shape[1] if mean.ndim == 2 else 1


def _first_column(y: NDArray[np.float64]) -> NDArray[np.float64]:
    return y[:, 0]


def _whole(y: NDArray[np.float64]) -> NDArray[np.float64]:
    return y


def _censored_y(y: NDArray[np.float64]) -> Any:
    from ngboost.helpers import Y_from_censored

    return Y_from_censored(y[:, 0], y[:, 1])


def _missing_refusal(model: Any, source: str) -> str | None:
    if is_survival(model):
        return f"{with_article(source)} does not take missing values"
    return missing_refusal()
