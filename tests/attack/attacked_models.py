"""The models of the attack on rows: small ones of every family, for numbers, classes, ranks and survival times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xgboost
from catboost import CatBoostClassifier, CatBoostRegressor
from imblearn.ensemble import BalancedRandomForestClassifier
from lightgbm import LGBMClassifier, LGBMRanker, LGBMRegressor
from numpy.typing import NDArray
from quantile_forest import RandomForestQuantileRegressor
from sklearn import ensemble
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sksurv.ensemble import RandomSurvivalForest

from attack.real_data import CLASSES, NOISE, NUMBERS, RANKS, SURVIVAL, DataSet, Rows

Floats = NDArray[np.float64]
Maker = Callable[[DataSet], Any]
"""Makes an unfitted model for a data set."""
TREES, SMALL_FORESTS = 40, 30
VALIDATED = 0.25
"""Share of the training rows that models with early stopping keep for their validation."""

BAGGED, UNBAGGED = "models with bags", "trees without bags"
BOOSTED, SAMPLING = "boosters", "boosters that sample rows"
BALANCED, AFTER_Y = "forests of balanced classes", "after a step that has seen y"
GROUPS = (BAGGED, UNBAGGED, BOOSTED, SAMPLING, BALANCED, AFTER_Y)


@dataclass(frozen=True)
class Family:
    """One kind of model.

    Parameters
    ----------
    group : str
        One of `GROUPS`. Forests of balanced classes have bags, but no counts of rows in their leaves.
    makers : dict of str to callable
        By task, what makes an unfitted model.
    stops : dict
        Settings with which it stops early; empty for those that cannot.
    continues : str
        How training is continued on other rows: by the setting "warm_start", or by the argument of `fit` that takes the
        earlier model. Empty if it cannot be.
    weighted : bool
        Whether `fit` takes weights of rows.
    margin : str
        What `fit` calls the margin that rows start from; empty if there is none.
    """

    group: str
    makers: dict[str, Maker]
    stops: dict[str, Any] = field(default_factory=dict)
    continues: str = ""
    weighted: bool = True
    margin: str = ""

    @property
    def bagged(self) -> bool:
        """Whether out-of-bag rows can be proven."""
        return self.group in (BAGGED, BALANCED)

    def make(self, data: DataSet) -> Any:
        """Return an unfitted model."""
        return self.makers[data.task](data)

    def fit(self, model: Any, rows: Rows, weight: Floats | None = None, **more: Any) -> Any:
        """Fit a model."""
        if weight is not None:
            more["sample_weight"] = weight
        if isinstance(model, LGBMRanker):
            assert rows.qid is not None
            starts = np.flatnonzero(np.diff(rows.qid, prepend=rows.qid[0] - 1))
            more["group"] = np.diff(np.append(starts, len(rows)))
        elif rows.qid is not None:
            more["qid"] = rows.qid
        return model.fit(rows.X, rows.y, **more)

    def fit_on(self, model: Any, rows: Rows, fitted: Any) -> Any:
        """Continue the training of a fitted model on other rows."""
        if self.continues == "warm_start":
            trees = "max_iter" if hasattr(fitted, "max_iter") else "n_estimators"
            return fitted.set_params(**{trees: 2 * getattr(fitted, trees)}).fit(rows.X, rows.y)
        return model.fit(rows.X, rows.y, **{self.continues: fitted})

    def fit_stopping(self, model: Any, rows: Rows) -> tuple[Any, NDArray[np.int64]]:
        """Fit a model that stops early; return it and the rows it was validated on."""
        model = model.set_params(**self.stops)
        every = np.arange(len(rows))
        if isinstance(model, ensemble.GradientBoostingRegressor | ensemble.GradientBoostingClassifier):
            classes = rows.y if isinstance(model, ensemble.GradientBoostingClassifier) else None
            how: dict[str, Any] = {"random_state": model.random_state, "test_size": VALIDATED, "stratify": classes}
            return self.fit(model, rows), train_test_split(every, **how)[1]
        fitted, kept = every[: -int(VALIDATED * len(rows))], every[-int(VALIDATED * len(rows)) :]
        chosen = rows.at(kept)
        more: dict[str, Any] = {"eval_set": [(chosen.X, chosen.y)]}
        if type(model).__module__.startswith("sklearn"):
            more = {"X_val": chosen.X, "y_val": chosen.y}
        if isinstance(model, xgboost.XGBModel):
            more["verbose"] = False
        return self.fit(model, rows.at(fitted), **more), kept


def both(for_numbers: Any, for_classes: Any, **settings: Any) -> dict[str, Maker]:
    """Return makers of a model of numbers and of a model of classes with the same settings."""
    return {
        NUMBERS: lambda data: for_numbers(**settings),
        CLASSES: lambda data: for_classes(**settings),
    }


def sklearn_both(name: str, **settings: Any) -> dict[str, Maker]:
    """Return makers of the two classes of scikit-learn of this name."""
    regressor, classifier = getattr(ensemble, f"{name}Regressor"), getattr(ensemble, f"{name}Classifier")
    return both(regressor, classifier, **{"random_state": 0, **settings})


def histogram(**settings: Any) -> dict[str, Maker]:
    """Return makers of boosters of scikit-learn that take categories as such."""

    def maker(kind: Any) -> Maker:
        fixed = {"max_iter": TREES, "early_stopping": False, "random_state": 0, **settings}
        return lambda data: kind(categorical_features=list(data.categories) or None, **fixed)

    return {
        NUMBERS: maker(ensemble.HistGradientBoostingRegressor),
        CLASSES: maker(ensemble.HistGradientBoostingClassifier),
    }


def one_hot(data: DataSet) -> Any:
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), list(data.categories)), remainder="passthrough"
    )


def target_encoded(data: DataSet) -> Any:
    columns = [*data.categories, *NOISE[1:]] if data.with_noise else list(data.categories)
    kind = "continuous" if data.task == NUMBERS else "auto"  # whole numbers would be taken for classes
    encoder = TargetEncoder(target_type=kind, random_state=0)
    return make_column_transformer((encoder, columns), remainder="passthrough")


def after(step: Callable[[DataSet], Any], makers: dict[str, Maker]) -> dict[str, Maker]:
    """Return makers of pipelines of a step and a model."""

    def maker(make: Maker) -> Maker:
        return lambda data: make_pipeline(step(data), make(data))

    return {task: maker(make) for task, make in makers.items()}


def selected() -> dict[str, Maker]:
    """Return makers of forests after the choice of half of the columns by y."""

    def of(score: Any, forest: Any) -> Maker:
        return lambda data: Pipeline([("select", SelectKBest(score, k=3)), ("forest", forest(**FOREST))])

    return {
        NUMBERS: of(f_regression, ensemble.RandomForestRegressor),
        CLASSES: of(f_classif, ensemble.RandomForestClassifier),
    }


FOREST: dict[str, Any] = {"n_estimators": SMALL_FORESTS, "random_state": 0}
XGB: dict[str, Any] = {"n_estimators": TREES, "max_depth": 4, "n_jobs": 1, "random_state": 0}
LGB: dict[str, Any] = {"n_estimators": TREES, "n_jobs": 1, "random_state": 0, "verbose": -1}
CAT: dict[str, Any] = {"iterations": TREES, "thread_count": 1, "random_seed": 0, "verbose": False}
CAT["allow_writing_files"] = False

OF_GB: dict[str, Any] = {
    "stops": {"n_iter_no_change": 5, "validation_fraction": VALIDATED, "n_estimators": 200},
    "continues": "warm_start",
}
OF_HIST: dict[str, Any] = {
    "stops": {"early_stopping": True, "n_iter_no_change": 5, "max_iter": 200},
    "continues": "warm_start",
}
OF_XGB: dict[str, Any] = {
    "stops": {"early_stopping_rounds": 5, "n_estimators": 200},
    "continues": "xgb_model",
    "margin": "base_margin",
}
OF_LGB: dict[str, Any] = {
    "stops": {"early_stopping_round": 5, "n_estimators": 200},
    "continues": "init_model",
    "margin": "init_score",
}
OF_CAT: dict[str, Any] = {"stops": {"early_stopping_rounds": 5, "iterations": 200}, "continues": "init_model"}


def forests(**settings: Any) -> dict[str, Maker]:
    return sklearn_both("RandomForest", **FOREST | settings)


def gradient(**settings: Any) -> dict[str, Maker]:
    return sklearn_both("GradientBoosting", **{"n_estimators": TREES, **settings})


def xgb(**settings: Any) -> dict[str, Maker]:
    return both(xgboost.XGBRegressor, xgboost.XGBClassifier, **XGB | settings)


def lgb(**settings: Any) -> dict[str, Maker]:
    return both(LGBMRegressor, LGBMClassifier, **LGB | settings)


def cat(**settings: Any) -> dict[str, Maker]:
    return both(CatBoostRegressor, CatBoostClassifier, **CAT | settings)


def numbers(kind: Any, **settings: Any) -> dict[str, Maker]:
    """Return a maker of a model of numbers."""
    return {NUMBERS: lambda data: kind(**settings)}


SAMPLED: dict[str, Any] = {"subsample": 0.7, "subsample_freq": 1}
BALANCED_FORESTS: dict[str, Maker] = {
    CLASSES: lambda data: BalancedRandomForestClassifier(
        **FOREST, sampling_strategy="all", replacement=True, bootstrap=False
    )
}
RANKERS: dict[str, Maker] = {RANKS: lambda data: LGBMRanker(**LGB)}
SURVIVAL_FOREST: dict[str, Maker] = {
    SURVIVAL: lambda data: RandomSurvivalForest(**FOREST, min_samples_leaf=5, low_memory=True)
}

MAIN: dict[str, Family] = {
    "RandomForest": Family(BAGGED, forests(), continues="warm_start"),
    "ExtraTrees bootstrap": Family(BAGGED, sklearn_both("ExtraTrees", bootstrap=True, n_estimators=SMALL_FORESTS)),
    "Bagging of trees": Family(BAGGED, sklearn_both("Bagging", n_estimators=SMALL_FORESTS)),
    "quantile-forest": Family(BAGGED, numbers(RandomForestQuantileRegressor, **FOREST), weighted=False),
    "OneHotEncoder, RandomForest": Family(BAGGED, after(one_hot, forests()), weighted=False),
    "RandomSurvivalForest": Family(BAGGED, SURVIVAL_FOREST),
    "ExtraTrees": Family(UNBAGGED, sklearn_both("ExtraTrees", n_estimators=SMALL_FORESTS)),
    "DecisionTree": Family(UNBAGGED, both(DecisionTreeRegressor, DecisionTreeClassifier, random_state=0)),
    "GradientBoosting": Family(BOOSTED, gradient(), **OF_GB),
    "HistGradientBoosting": Family(BOOSTED, histogram(), **OF_HIST),
    "XGBoost": Family(BOOSTED, xgb(), **OF_XGB),
    "LightGBM": Family(BOOSTED, lgb(), **OF_LGB),
    "CatBoost": Family(BOOSTED, cat(), **OF_CAT),
    "LightGBM ranker": Family(BOOSTED, RANKERS),
    "GradientBoosting, subsample .7": Family(SAMPLING, gradient(subsample=0.7), **OF_GB),
    "XGBoost, depth 2, subsample .7": Family(SAMPLING, xgb(max_depth=2, subsample=0.7), **OF_XGB),
    "LightGBM bagging": Family(SAMPLING, lgb(**SAMPLED), **OF_LGB),
    "LightGBM goss": Family(SAMPLING, lgb(data_sample_strategy="goss"), **OF_LGB),
    "BalancedRandomForest": Family(BALANCED, BALANCED_FORESTS, weighted=False),
    "TargetEncoder, LightGBM": Family(AFTER_Y, after(target_encoded, lgb()), weighted=False),
    "SelectKBest, RandomForest": Family(AFTER_Y, selected(), weighted=False),
}
MORE: dict[str, Family] = {
    "RandomForest balanced_subsample": Family(
        BALANCED, {CLASSES: lambda data: ensemble.RandomForestClassifier(class_weight="balanced_subsample", **FOREST)}
    ),
    "RandomForest max_samples": Family(BAGGED, forests(max_samples=0.5)),
    "RandomForest absolute_error": Family(
        BAGGED, numbers(ensemble.RandomForestRegressor, criterion="absolute_error", n_estimators=10, random_state=0)
    ),
    "LightGBM rf": Family(BAGGED, lgb(boosting_type="rf", **SAMPLED)),
    "TargetEncoder, ExtraTrees": Family(
        AFTER_Y, after(target_encoded, sklearn_both("ExtraTrees", n_estimators=SMALL_FORESTS)), weighted=False
    ),
    "XGBoost absolute error": Family(BOOSTED, numbers(xgboost.XGBRegressor, objective="reg:absoluteerror", **XGB)),
    "XGBoost dart": Family(BOOSTED, xgb(booster="dart", rate_drop=0.2)),
    "XGBoost forest (XGBRF)": Family(
        SAMPLING, both(xgboost.XGBRFRegressor, xgboost.XGBRFClassifier, n_estimators=TREES, n_jobs=1, random_state=0)
    ),
    "LightGBM dart": Family(BOOSTED, lgb(boosting_type="dart")),
    "CatBoost Depthwise": Family(BOOSTED, cat(grow_policy="Depthwise")),
    "CatBoost Lossguide": Family(BOOSTED, cat(grow_policy="Lossguide")),
    "CatBoost Bernoulli": Family(SAMPLING, cat(bootstrap_type="Bernoulli", subsample=0.7)),
}
"""Families that the attack uses if they are named."""
FAMILIES = MAIN | MORE
