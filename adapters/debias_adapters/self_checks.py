"""Small models of every library, which ``debias doctor`` trains and compares with what the adapters say about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import debias
from debias.hooks.self_check import SelfCheck
from debias_adapters import CATBOOST, LIGHTGBM, SCIKIT_LEARN, SCIKIT_SURVIVAL, SPARK, TREELITE, XGBOOST, YDF

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_TREES = 5


@debias.hookimpl
def debias_self_checks() -> Sequence[SelfCheck]:
    """Return one check for each library."""
    return [
        SelfCheck("scikit-learn", "scikit-learn", _scikit_learn, "sklearn", tested=SCIKIT_LEARN),
        SelfCheck("XGBoost", "xgboost", _xgboost, tested=XGBOOST),
        SelfCheck("LightGBM", "lightgbm", _lightgbm, tested=LIGHTGBM),
        SelfCheck("CatBoost", "catboost", _catboost, tested=CATBOOST),
        SelfCheck("imbalanced-learn", "imbalanced-learn", _imbalanced_learn, "imblearn"),
        SelfCheck("quantile-forest", "quantile-forest", _quantile_forest),
        SelfCheck("scikit-survival", "scikit-survival", _scikit_survival, "sksurv", tested=SCIKIT_SURVIVAL),
        SelfCheck("YDF", "ydf", _ydf, tested=YDF),
        SelfCheck("treelite", "treelite", _treelite, tested=TREELITE),
        SelfCheck("Spark", "pyspark", "training a model of Spark needs Java and a session", tested=SPARK),
        SelfCheck("FLAML", "flaml", "its models are those of the other libraries"),
        SelfCheck("AutoGluon", "autogluon.tabular", "its models are those of the other libraries"),
    ]


def _scikit_learn(X: Array, y: Array) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(N_TREES, random_state=0).fit(X, y)


def _xgboost(X: Array, y: Array) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=N_TREES, max_depth=3, n_jobs=1).fit(X, y)


def _lightgbm(X: Array, y: Array) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=N_TREES, min_child_samples=5, n_jobs=1, verbose=-1).fit(X, y)


def _catboost(X: Array, y: Array) -> Any:
    from catboost import CatBoostRegressor

    settings = {"allow_writing_files": False, "thread_count": 1, "verbose": False}
    return CatBoostRegressor(iterations=N_TREES, depth=3, **settings).fit(X, y)


def _imbalanced_learn(X: Array, y: Array) -> Any:
    from imblearn.ensemble import BalancedRandomForestClassifier

    labels = (y > 0.5).astype(int)
    settings = {"sampling_strategy": "all", "replacement": True, "bootstrap": False}
    return BalancedRandomForestClassifier(N_TREES, random_state=0, **settings).fit(X, labels), X, labels


def _quantile_forest(X: Array, y: Array) -> Any:
    from quantile_forest import RandomForestQuantileRegressor

    return RandomForestQuantileRegressor(N_TREES, random_state=0).fit(X, y)


def _scikit_survival(X: Array, y: Array) -> Any:
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.util import Surv

    times = Surv.from_arrays(y > y.min(), y - y.min() + 1)
    return RandomSurvivalForest(N_TREES, random_state=0).fit(X, times), X, times


def _treelite(X: Array, y: Array) -> Any:
    import treelite

    return treelite.sklearn.import_model(_scikit_learn(X, y))


def _ydf(X: Array, y: Array) -> Any:
    import pandas as pd
    import ydf

    frame = pd.DataFrame(X, columns=list("abcd"))
    ydf.verbose(0)
    learner = ydf.RandomForestLearner("y", task=ydf.Task.REGRESSION, num_trees=N_TREES, num_threads=1)
    return learner.train(frame.assign(y=y)), frame, y
