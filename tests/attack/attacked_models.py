"""The models of the attack on rows: small ones of every family, trained on one kind of data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from catboost import CatBoostClassifier, CatBoostRegressor
from imblearn.ensemble import BalancedRandomForestClassifier
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from quantile_forest import RandomForestQuantileRegressor
from sklearn import ensemble
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from xgboost import XGBClassifier, XGBRegressor, XGBRFRegressor

Floats = NDArray[np.float64]
COLUMNS = ("age", "celsius", "income", "visits", "member", "region", "noise", "percent")
REGION = COLUMNS.index("region")
LEVELS = 5
SHARES = (0.35, 0.25, 0.2, 0.15, 0.05)
VALIDATED = 0.25
"""Share of the rows that models with early stopping keep for their validation."""


def draw(rng: np.random.Generator, n: int, task: str) -> tuple[Floats, NDArray[Any]]:
    """Draw rows of eight columns on scales of their own, and a response that depends on six of them.

    Parameters
    ----------
    rng : Generator
    n : int
    task : {"numbers", "positive", "two", "rare", "three", "outputs"}
        What the response is: positive numbers, counts, two classes, one of them in 15 % of the rows, three classes, or
        two columns of numbers.
    """
    age, celsius, income = rng.normal(45, 12, n), rng.normal(12, 8, n), rng.lognormal(10, 0.5, n)
    visits, member, region = rng.poisson(3, n), rng.integers(0, 2, n), rng.choice(LEVELS, n, p=SHARES)
    X = np.column_stack([age, celsius, income, visits, member, region, rng.normal(size=n), rng.uniform(0, 100, n)])
    return X, response(rng, X, task)


def response(rng: np.random.Generator, X: Floats, task: str) -> NDArray[Any]:
    """Draw the response of such rows."""
    signal = (X[:, 0] - 45) / 12 + np.sin((X[:, 1] - 12) / 8) + (np.log(X[:, 2]) - 10) + 0.3 * (X[:, 3] - 3)
    signal = signal + 0.5 * X[:, 4] + np.array([0.0, 1.0, -1.0, 0.5, 0.0])[X[:, REGION].astype(int)]
    noisy = signal + rng.normal(size=len(X))
    if task == "numbers":
        return np.maximum(60 + 10 * noisy, 1.0)
    if task == "counts":
        return rng.poisson(np.exp(np.clip(0.5 * signal, -3, 3))).astype(np.float64)
    if task == "two":
        return (noisy > 0.5).astype(np.int64)
    if task == "rare":
        return (noisy > 2.2).astype(np.int64)
    if task == "three":
        return np.digitize(noisy, [-0.5, 1.5])
    return np.column_stack([60 + 10 * noisy, rng.normal(size=len(X)) - 5 * signal])


@dataclass(frozen=True)
class Family:
    """One kind of model.

    Parameters
    ----------
    make : callable
        Returns an unfitted model.
    task : str
        As for :func:`draw`.
    bagged : bool
        Whether its bags can be redrawn, so that the training rows serve as out-of-bag rows. Behind a TargetEncoder they
        cannot: its codes of the training rows are cross-fitted, and other than those of the same rows later on.
    missing : bool
        Whether it takes NaN.
    stops : dict
        Settings with which it stops early; empty for those that cannot.
    margin : str
        What `fit` calls the margin that rows start from; empty if there is none.
    weighted : bool
        Whether `fit` takes weights of rows.
    region : bool
        Whether the region is a category to the model, by its place among the columns.
    framed : bool
        Whether rows are frames whose columns have no names of their own, the region a whole number.
    """

    make: Callable[[], Any]
    task: str = "numbers"
    bagged: bool = False
    missing: bool = False
    stops: dict[str, Any] = field(default_factory=dict)
    margin: str = ""
    weighted: bool = True
    region: bool = False
    framed: bool = False

    def table(self, X: Floats) -> Any:
        """Return rows as the model takes them."""
        if not self.framed:
            return X
        frame = pd.DataFrame(X, columns=[str(k) for k in range(X.shape[1])])
        return frame.assign(**{str(REGION): np.rint(X[:, REGION]).astype(int)})

    def fit(self, X: Floats, y: NDArray[Any], weight: Floats | None = None, margin: Floats | None = None) -> Any:
        """Fit a model."""
        more: dict[str, Any] = {} if margin is None else {self.margin: margin}
        if weight is not None:
            more["sample_weight"] = weight
        return self.make().fit(self.table(X), y, **more)

    def fit_stopping(self, X: Floats, y: NDArray[Any]) -> tuple[Any, NDArray[np.int64]]:
        """Fit a model that stops early; return it and the rows it was validated on."""
        model = self.make().set_params(**self.stops)
        every = np.arange(len(y))
        if isinstance(model, (ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier)):
            classes = y if isinstance(model, ensemble.GradientBoostingClassifier) else None
            how: dict[str, Any] = {"random_state": model.random_state, "test_size": VALIDATED, "stratify": classes}
            return model.fit(X, y), train_test_split(every, **how)[1]
        fitted, kept = every[: -int(VALIDATED * len(y))], every[-int(VALIDATED * len(y)) :]
        X_val, y_val = self.table(X[kept]), y[kept]
        more: dict[str, Any] = {"eval_set": [(X_val, y_val)]}
        if type(model).__module__.startswith("sklearn"):
            more = {"X_val": X_val, "y_val": y_val}
        if isinstance(model, XGBRegressor | XGBClassifier):
            more["verbose"] = False
        return model.fit(self.table(X[fitted]), y[fitted], **more), kept


class Booster:
    """A raw Booster, trained by the library's own function."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def fit(self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None) -> Any:
        if self.library is lightgbm:
            return lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(X, y, weight=sample_weight), 40)
        return xgboost.train({"nthread": 1, "max_depth": 4}, xgboost.DMatrix(X, y, weight=sample_weight), 40)


def forest(kind: Any = ensemble.RandomForestRegressor, **settings: Any) -> Callable[[], Any]:
    return lambda: kind(**{"n_estimators": 40, "random_state": 0, **settings})


def forest_in_pipeline(encoder: Any, **settings: Any) -> Callable[[], Any]:
    columns = make_column_transformer((encoder, [REGION]), remainder="passthrough")
    return lambda: make_pipeline(columns, forest(**settings)())


def several_outputs() -> Any:
    return MultiOutputRegressor(forest(n_estimators=20)())


def vote() -> Any:
    return ensemble.VotingRegressor(
        [("one", forest(n_estimators=20)()), ("two", forest(n_estimators=20, random_state=1)())]
    )


def bagged_trees() -> Any:
    return ensemble.BaggingRegressor(DecisionTreeRegressor(), 30, max_features=0.7, random_state=0)


def gradient(kind: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: kind(**{"n_estimators": 50, "random_state": 0, **settings})


def histogram(kind: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: kind(**{"max_iter": 50, "early_stopping": False, "random_state": 0, **settings})


def xgb(kind: Any = XGBRegressor, **settings: Any) -> Callable[[], Any]:
    return lambda: kind(**{"n_estimators": 40, "max_depth": 4, "n_jobs": 1, "random_state": 0, **settings})


def lgb(kind: Any = LGBMRegressor, **settings: Any) -> Callable[[], Any]:
    return lambda: kind(**{"n_estimators": 40, "n_jobs": 1, "random_state": 0, "verbose": -1, **settings})


def cat(kind: Any = CatBoostRegressor, **settings: Any) -> Callable[[], Any]:
    fixed = {"iterations": 60, "thread_count": 1, "random_seed": 0, "verbose": False, "allow_writing_files": False}
    return lambda: kind(**{**fixed, **settings})


BAGGED: dict[str, Any] = {"bagged": True}
GB: dict[str, Any] = {"stops": {"n_iter_no_change": 5, "validation_fraction": VALIDATED, "n_estimators": 200}}
HIST: dict[str, Any] = {"missing": True, "stops": {"early_stopping": True, "n_iter_no_change": 5, "max_iter": 200}}
XGB: dict[str, Any] = {"missing": True, "margin": "base_margin", "stops": {"early_stopping_rounds": 5}}
LGB: dict[str, Any] = {"missing": True, "margin": "init_score", "stops": {"early_stopping_round": 5}}
CAT: dict[str, Any] = {"missing": True, "stops": {"early_stopping_rounds": 5}}
SAMPLED: dict[str, Any] = {"subsample": 0.7, "subsample_freq": 1}
RF_CLASSES = ensemble.RandomForestClassifier
GB_NUMBERS, GB_CLASSES = ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier
HIST_NUMBERS, HIST_CLASSES = ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier
RANDOM_FOREST_MODE: dict[str, Any] = {"boosting_type": "rf", **SAMPLED}

FAMILIES: dict[str, Family] = {
    "RandomForest, numbers": Family(forest(), **BAGGED),
    "RandomForest, two classes": Family(forest(RF_CLASSES), "two", **BAGGED),
    "RandomForest, three classes": Family(forest(RF_CLASSES), "three", **BAGGED),
    "RandomForest balanced": Family(forest(RF_CLASSES, class_weight="balanced"), "rare", **BAGGED),
    "RandomForest balanced_subsample": Family(forest(RF_CLASSES, class_weight="balanced_subsample"), "rare", **BAGGED),
    "RandomForest max_samples": Family(forest(max_samples=0.5), **BAGGED),
    "RandomForest absolute_error": Family(forest(criterion="absolute_error", n_estimators=10), **BAGGED),
    "ExtraTrees bootstrap": Family(forest(ensemble.ExtraTreesRegressor, bootstrap=True), **BAGGED),
    "Bagging of trees": Family(bagged_trees, **BAGGED),
    "BalancedRandomForest": Family(
        forest(BalancedRandomForestClassifier, sampling_strategy="all", replacement=True, bootstrap=False),
        "rare",
        **BAGGED,
    ),
    "quantile-forest": Family(forest(RandomForestQuantileRegressor), **BAGGED),
    "pipeline of a forest": Family(
        forest_in_pipeline(OneHotEncoder(handle_unknown="ignore")), weighted=False, region=True, **BAGGED
    ),
    "pipeline with TargetEncoder": Family(
        forest_in_pipeline(TargetEncoder(random_state=0), min_samples_leaf=3), weighted=False, region=True
    ),
    "several outputs": Family(several_outputs, "outputs", **BAGGED),
    "vote of forests": Family(vote, **BAGGED),
    "ExtraTrees": Family(forest(ensemble.ExtraTreesRegressor)),
    "DecisionTree, numbers": Family(lambda: DecisionTreeRegressor(min_samples_leaf=3, random_state=0)),
    "DecisionTree, two classes": Family(lambda: DecisionTreeClassifier(random_state=0), "two"),
    "GradientBoosting, numbers": Family(gradient(GB_NUMBERS), **GB),
    "GradientBoosting, two classes, subsample": Family(gradient(GB_CLASSES, subsample=0.7), "two", **GB),
    "HistGradientBoosting, numbers": Family(histogram(HIST_NUMBERS), **HIST),
    "HistGradientBoosting, two classes": Family(histogram(HIST_CLASSES), "two", **HIST),
    "HistGradientBoosting, categories": Family(
        histogram(HIST_NUMBERS, categorical_features=[REGION]), region=True, **HIST
    ),
    "XGBoost, numbers": Family(xgb(), **XGB),
    "XGBoost, two classes": Family(xgb(XGBClassifier), "two", **XGB),
    "XGBoost, three classes": Family(xgb(XGBClassifier), "three", **{**XGB, "margin": ""}),
    "XGBoost, counts": Family(xgb(objective="count:poisson"), "counts", **XGB),
    "XGBoost absolute error": Family(xgb(objective="reg:absoluteerror"), **XGB),
    "XGBoost quantile": Family(xgb(objective="reg:quantileerror", quantile_alpha=0.5), **XGB),
    "XGBoost subsample": Family(xgb(subsample=0.7), **XGB),
    "XGBoost depth 2": Family(xgb(max_depth=2), **XGB),
    "XGBoost dart": Family(xgb(booster="dart", rate_drop=0.2), **{**XGB, "stops": {}}),
    "XGBoost forest (XGBRF)": Family(xgb(XGBRFRegressor), missing=True),
    "XGBoost Booster": Family(lambda: Booster(xgboost), missing=True),
    "LightGBM, numbers": Family(lgb(), **LGB),
    "LightGBM, two classes": Family(lgb(LGBMClassifier), "two", **LGB),
    "LightGBM, three classes": Family(lgb(LGBMClassifier), "three", **{**LGB, "margin": ""}),
    "LightGBM bagging": Family(lgb(**SAMPLED), **LGB),
    "LightGBM goss": Family(lgb(data_sample_strategy="goss"), **LGB),
    "LightGBM dart": Family(lgb(boosting_type="dart"), **{**LGB, "stops": {}}),
    "LightGBM rf": Family(lgb(**RANDOM_FOREST_MODE), missing=True, **BAGGED),
    "LightGBM Booster": Family(lambda: Booster(lightgbm), missing=True),
    "CatBoost, numbers": Family(cat(), **CAT),
    "CatBoost, two classes": Family(cat(CatBoostClassifier), "two", **CAT),
    "CatBoost, three classes": Family(cat(CatBoostClassifier), "three", **CAT),
    "CatBoost Depthwise": Family(cat(grow_policy="Depthwise"), **CAT),
    "CatBoost Lossguide": Family(cat(grow_policy="Lossguide"), **CAT),
    "CatBoost Bernoulli": Family(cat(bootstrap_type="Bernoulli", subsample=0.7), **CAT),
    "CatBoost, categories": Family(
        cat(cat_features=[REGION], one_hot_max_size=10), region=True, framed=True, stops=CAT["stops"]
    ),
}

BOOSTED = ("GradientBoosting", "HistGradientBoosting", "XGBoost", "LightGBM", "CatBoost")
GROUPS = ("models with bags", "trees without bags", *BOOSTED)


def group_of(family: str) -> str:
    """Return which of the groups a family belongs to."""
    if FAMILIES[family].bagged:
        return GROUPS[0]
    return next((name for name in BOOSTED if family.startswith(name)), GROUPS[1])
