"""Refits of XGBoost models, and the hyper-parameters they take.

XGBoost's files do not keep hyper-parameters, so a user passes them with a loaded model. They are checked against the
trees, and stored as an attribute of the Booster, so that copies and pickles have them too.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, UnsupportedModelError, nearest, with_article
from debias.trees.ranking_objectives import required_queries
from debias_adapters.xgboost import reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIASES = {
    "learning_rate": "eta",
    "min_split_loss": "gamma",
    "reg_alpha": "alpha",
    "reg_lambda": "lambda",
    "n_jobs": "nthread",
    "random_state": "seed",
}
WRAPPER_ONLY = frozenset(
    {
        "n_estimators",
        "early_stopping_rounds",
        "callbacks",
        "enable_categorical",
        "feature_types",
        "feature_weights",
        "importance_type",
        "missing",
        "validate_parameters",
        "verbosity",
    }
)
"""Parameters of the scikit-learn wrappers that ``xgboost.train`` does not take."""
SOMETIMES_STORED = frozenset(
    {
        *("rate_drop", "one_drop", "skip_drop", "sample_type", "normalize_type"),
        *("huber_slope", "quantile_alpha", "expectile_alpha", "tweedie_variance_power", "max_delta_step"),
    }
)
"""Parameters that a configuration contains only for the booster or objective they belong to."""
PARAMS_ATTRIBUTE = "debias_params"
"""Attribute of a Booster in which the restored hyper-parameters are stored."""


def refit_wrapper(
    model: Any,
    rounds: int,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    qid: NDArray[np.int64] | None,
) -> Any:
    """Fit a clone of a scikit-learn wrapper, with `rounds` rounds and without early stopping."""
    from sklearn.base import clone

    _require_params(model.get_booster(), params, type(model).__name__)
    settings: dict[str, Any] = {"early_stopping_rounds": None, "callbacks": None}
    if not _is_forest(model):
        settings["n_estimators"] = rounds
    with _without_deprecations():
        clean = clone(model)
        clean.set_params(**{**settings, **(params or {}), **({} if seed is None else {"random_state": seed})})
        return clean.fit(X, y, **_of_rows(clean.get_params()["objective"], sample_weight, qid))


def refit_booster(
    model: Any,
    rounds: int,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    qid: NDArray[np.int64] | None,
) -> Any:
    """Train a Booster with the settings of another one."""
    import xgboost

    _require_params(model, params, "Booster")
    user_params = restored_params(model) | dict(params or {})
    train_params = {ALIASES.get(name, name): value for name, value in user_params.items() if name not in WRAPPER_ONLY}
    train_params = {name: value for name, value in train_params.items() if value is not None}
    settings = {**_settings(json.loads(model.save_config())["learner"]), **train_params, "verbosity": 0}
    _refuse_constraints_of_other_columns(settings, X.shape[1], model.num_features())
    if seed is not None:
        settings["seed"] = seed
    matrix_settings = (
        {} if hasattr(X, "columns") else {"feature_names": model.feature_names, "feature_types": model.feature_types}
    )
    if user_params.get("missing") is not None:
        matrix_settings["missing"] = user_params["missing"]
    response: dict[str, Any] = {"label": y}
    if settings["objective"] == "survival:aft":
        response = dict(zip(("label_lower_bound", "label_upper_bound"), np.asarray(y, np.float64).T, strict=True))
    of_rows = _of_rows(settings["objective"], sample_weight, qid)
    of_rows["weight"] = of_rows.pop("sample_weight")
    data = xgboost.DMatrix(X, **response, **of_rows, enable_categorical=True, **matrix_settings)
    return xgboost.train(settings, data, num_boost_round=rounds)


def _of_rows(objective: Any, sample_weight: NDArray[Any] | None, qid: NDArray[np.int64] | None) -> dict[str, Any]:
    """Return weights and queries as XGBoost takes them: of a ranker, it takes one weight for each query."""
    if not str(objective).startswith("rank:"):
        return {"sample_weight": sample_weight}
    qid = required_queries(qid)
    first = np.unique(qid, return_index=True)[1]
    return {"sample_weight": None if sample_weight is None else np.asarray(sample_weight)[first], "qid": qid}


def _refuse_constraints_of_other_columns(settings: Mapping[str, Any], n_columns: int, n_trained: int) -> None:
    """Refuse constraints, which a Booster keeps by the positions of its columns, for rows with fewer columns."""
    for name in ("monotone_constraints", "interaction_constraints"):
        if n_columns != n_trained and str(settings.get(name) or "").strip("()[]"):
            raise RowsError(
                f"this Booster has {name} by the positions of its {n_trained} columns, and these rows have "
                f"{n_columns}: train it without them"
            )


def restored(booster: Any, params: Any) -> Any:
    """Return a copy of a Booster with hyper-parameters, or an estimator with them that has the Booster's trees."""
    import xgboost

    raw = bytearray(booster.save_raw("ubj"))
    copy = xgboost.Booster(model_file=raw)
    if isinstance(params, Mapping):
        require_known(copy, params)
        try:
            copy.set_attr(**{PARAMS_ATTRIBUTE: json.dumps(dict(params))})
        except TypeError as error:
            raise RowsError(f"params must be names and plain values ({error}); pass an unfitted estimator") from None
        return copy
    if not isinstance(params, xgboost.XGBModel):
        raise RowsError(
            f"params is {with_article(type(params).__name__)}: pass a mapping of names to values, or an unfitted "
            "estimator of xgboost (XGBRegressor, XGBClassifier, ...)"
        )
    settings = params.get_params()
    require_known(copy, {**settings, "objective": None if callable(params.objective) else params.objective})
    with _without_deprecations():
        fitted = type(params)(**settings)
    copy.set_attr(**{PARAMS_ATTRIBUTE: "{}"})
    try:
        fitted.load_model(bytearray(copy.save_raw("ubj")))
    except TypeError as error:
        raise RowsError(f"params is an {type(params).__name__}, but the model in the file is not: {error}") from None
    if not callable(params.objective):
        del settings["objective"]  # the file has the objective: with several classes it is not the estimator's default
    return fitted.set_params(**settings)  # load_model has changed some


def restored_params(booster: Any) -> dict[str, Any]:
    """Return the hyper-parameters that were restored to a Booster."""
    params: dict[str, Any] = json.loads(booster.attr(PARAMS_ATTRIBUTE) or "{}")
    return params


def notes(booster: Any) -> tuple[str, ...]:
    """Return a note if hyper-parameters were restored to a Booster."""
    if booster.attr(PARAMS_ATTRIBUTE) is None:
        return ()
    return ("the file of this model kept no hyper-parameters: refits use those that the user passed",)


def require_known(booster: Any, params: Mapping[str, Any]) -> None:
    """Refuse names that XGBoost does not know, which it would ignore, and values that the trees contradict.

    Raises
    ------
    RowsError
    """
    import xgboost

    learner = json.loads(booster.save_config())["learner"]
    known_names = {
        *_names(learner),
        *xgboost.XGBModel().get_params(),
        *ALIASES,
        *ALIASES.values(),
        *WRAPPER_ONLY,
        *SOMETIMES_STORED,
    }
    for name in params:
        if name not in known_names:
            raise RowsError(f"XGBoost has no hyper-parameter {name!r}.{nearest(str(name), known_names)}")
    objective, stored = params.get("objective"), learner["objective"]["name"]
    # A classifier sets this objective by the number of classes.
    is_multiclass = (objective, stored) == ("binary:logistic", "multi:softprob")
    if isinstance(objective, str) and objective != stored and not is_multiclass:
        raise RowsError(f"params have objective={objective!r}, but the model has {stored!r}")
    max_depth = params.get("max_depth")
    if max_depth is not None and (isinstance(max_depth, bool) or not isinstance(max_depth, (int, float))):
        raise RowsError(f"params have max_depth={max_depth!r}, which is not a number")
    if max_depth:
        source = "XGBoost Booster"
        trees = reading.read_trees(reading.read_learner(booster, source), int(booster.num_boosted_rounds()), source)
        if (depth := _depth(trees.start, trees.left, trees.right)) > max_depth:
            raise RowsError(f"params have max_depth={max_depth}, but the model has a tree of depth {depth}")


def _require_params(booster: Any, params: Mapping[str, Any] | None, kind: str) -> None:
    """Refuse a model that was loaded from a file, which keeps the trees and the objective but no other setting.

    It is recognised by its evaluation metric: training sets one, loading does not. Other settings have their defaults.
    """
    if params is not None:
        require_known(booster, params)
    elif not json.loads(booster.save_config())["learner"].get("metrics") and booster.attr(PARAMS_ATTRIBUTE) is None:
        raise UnsupportedModelError(
            f"this XGBoost {kind} was loaded from a file, which does not keep its hyper-parameters; pass them as "
            "refits=debias.Refits(params={...}) (params={} if it was trained with the defaults), or as params= of "
            "debias.refit"
        )


def _settings(learner: dict[str, Any]) -> dict[str, Any]:
    """Return the training parameters, which are spread over sections in the configuration of a Booster."""
    gradient_booster = learner["gradient_booster"]
    settings: dict[str, Any] = {
        **_section(learner, "tree_train_param"),
        **gradient_booster.get("dart_train_param", {}),  # XGBoost 3.3 has it for trees without dropout too
        **{
            name: value
            for section in learner["objective"].values()
            if isinstance(section, dict)
            for name, value in section.items()
        },
    }
    settings = {name: value for name, value in settings.items() if name not in ALIASES and value not in ("", "()")}
    settings |= {name: learner["learner_train_param"][name] for name in ("booster", "objective", "multi_strategy")}
    settings |= {name: learner["generic_param"][name] for name in ("seed", "seed_per_iteration", "device", "nthread")}
    settings["tree_method"] = _section(learner, "gbtree_train_param")["tree_method"]
    settings["num_parallel_tree"] = _section(learner, "gbtree_model_param")["num_parallel_tree"]
    if learner["learner_model_param"]["boost_from_average"] == "0":
        settings["base_score"] = learner["learner_model_param"]["base_score"]
    return settings


def _gbtree(learner: dict[str, Any]) -> dict[str, Any]:
    gradient_booster: dict[str, Any] = learner["gradient_booster"]
    return gradient_booster.get("gbtree", gradient_booster)


def _section(learner: dict[str, Any], name: str) -> dict[str, Any]:
    section: dict[str, Any] = _gbtree(learner).get(name, {})
    return section


def _is_forest(model: Any) -> bool:
    """Return whether `n_estimators` is the number of parallel trees, not of rounds."""
    import xgboost

    # XGBoost 3.4 says that it will remove them.
    return isinstance(model, (getattr(xgboost, "XGBRFRegressor", ()), getattr(xgboost, "XGBRFClassifier", ())))


@contextmanager
def _without_deprecations() -> Iterator[None]:
    """Hide what XGBoost 3.3 and 3.4 say of models they deprecate: users were told so when they made the model."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`XGBRF\w+` is deprecated", FutureWarning)
        warnings.filterwarnings("ignore", r".*`booster=dart` is deprecated", UserWarning)
        yield


def _names(section: dict[str, Any]) -> set[str]:
    """Return the names in all sections of a configuration."""
    return {
        entry for name, value in section.items() for entry in (_names(value) if isinstance(value, dict) else {name})
    }


def _depth(start: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32]) -> int:
    depth = np.zeros(left.size, dtype=np.int64)
    for begin, end in zip(start[:-1], start[1:], strict=True):
        for node in range(begin, end):  # parents precede children
            if left[node] >= 0:
                depth[[begin + left[node], begin + right[node]]] = depth[node] + 1
    return int(depth.max())
