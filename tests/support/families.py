"""One small model of every supported family, under its name in docs/support.md."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn import ensemble
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import debias
from support import mojo, pmml, simulated
from support.versions import at_least

N = 150


def rows(seed, categories=False, missing=False):
    """Return a frame of N rows and a response that depends on each of its columns."""
    rng = np.random.default_rng(seed)
    X, y = simulated.rows(N, 3, (1, 1), names="abc", seed=rng)
    y = y.to_numpy()
    if categories:
        codes = rng.integers(0, 4, N)
        X["c"] = pd.Categorical.from_codes(codes, pd.Index(list("uvwx"), dtype=object))
        y = y + 2 * (codes % 2)
    if missing:
        X.loc[rng.random(N) < 0.2, "b"] = np.nan
    return X, y


def forest(**settings):
    return ensemble.RandomForestRegressor(5, random_state=0, **settings)


def piped():
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((hot, make_column_selector(dtype_include="category")), remainder="passthrough")
    return make_pipeline(columns, forest())


def xgb(kind=xgboost.XGBRegressor, **settings):
    return kind(n_estimators=5, max_depth=3, n_jobs=1, random_state=0, enable_categorical=True, **settings)


XGB_DROPOUT = {} if at_least("xgboost", "3.3") else {"booster": "dart"}
"""What makes XGBoost use `rate_drop`: from 3.3 on it needs no booster of its own, and deprecates its name."""


def xgb_forest(kind=xgboost.XGBRFRegressor, **settings):
    deprecated = at_least("xgboost", "3.4")
    with pytest.warns(FutureWarning, match="XGBRF.* is deprecated") if deprecated else nullcontext():
        return kind(**settings)


def lgb(**settings):
    fixed = {"n_estimators": 5, "min_child_samples": 5, "min_data_per_group": 5, "n_jobs": 1, "verbose": -1}
    return lightgbm.LGBMRegressor(**fixed, random_state=0, **settings)


class Boosted:
    """A raw Booster, trained by the library's own function."""

    def __init__(self, library):
        self.library = library

    def fit(self, X, y):
        if self.library is lightgbm:
            settings = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "min_data_per_group": 5}
            return lightgbm.train(settings, lightgbm.Dataset(X, y), 5)
        return xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y, enable_categorical=True), 5)


class CatBoost:
    """CatBoost, which has to be told which columns are categories."""

    def fit(self, X, y):
        from catboost import CatBoostRegressor

        categorical = list(X.select_dtypes("category").columns)
        settings = {"iterations": 10, "depth": 3, "thread_count": 1, "verbose": False, "allow_writing_files": False}
        return CatBoostRegressor(**settings, cat_features=categorical or None).fit(X, y)


class Ydf:
    """A learner of YDF, which takes X and y in one frame."""

    def __init__(self, learner, **settings):
        self.learner, self.settings = learner, settings

    def fit(self, X, y):
        import ydf

        before = ydf.verbose(0)
        learner = getattr(ydf, self.learner)(label="y", task=ydf.Task.REGRESSION, num_threads=1, **self.settings)
        model = learner.train(X.assign(y=y))
        ydf.verbose(before or 0)
        return model


class Treelite:
    """A forest of scikit-learn that treelite has read."""

    def fit(self, X, y):
        import treelite

        return treelite.sklearn.import_model(forest().fit(X, y))


class Onnx:
    """A tree of scikit-learn that skl2onnx has converted."""

    def fit(self, X, y):
        import skl2onnx

        numbers = np.asarray(X, dtype=np.float32)
        return skl2onnx.to_onnx(DecisionTreeRegressor(max_depth=4, random_state=0).fit(numbers, y), numbers[:1])


class Mojo:
    """The trees of a model of LightGBM in a file of H2O-3."""

    def fit(self, X, y):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.zip"
            path.write_bytes(mojo.mojo(debias.plugin.extract(lgb().fit(X, y))))
            return debias.load_model(path)


class Pmml:
    """The trees of a model of LightGBM in a PMML file."""

    def fit(self, X, y):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.pmml"
            path.write_bytes(pmml.written(debias.plugin.extract(lgb().fit(X, y))))
            return debias.load_model(path)


class FlamlSearch:
    """FLAML's search, here among forests."""

    def fit(self, X, y):
        settings = {"estimator_list": ["rf"], "max_iter": 2, "time_budget": -1, "seed": 0, "n_jobs": 1, "verbose": 0}
        with warnings.catch_warnings():  # of pandas and, where it is installed, of pyspark
            warnings.simplefilter("ignore")
            from flaml import AutoML

            search = AutoML()
            search.fit(X, y, task="regression", log_file_name="", **settings)
        return search


class AutoGluonPredictor:
    """AutoGluon's predictor, here with one bag of forests."""

    def fit(self, X, y):
        from autogluon.tabular import TabularPredictor

        forest_settings = {"n_estimators": 10, "n_jobs": 1, "ag_args_ensemble": {"use_child_oof": True}}
        settings = {"num_bag_folds": 2, "num_stack_levels": 0, "num_cpus": 1, "num_gpus": 0}
        with warnings.catch_warnings():  # of the libraries, while they train
            warnings.simplefilter("ignore")
            predictor = TabularPredictor(label="y", path=tempfile.mkdtemp(), problem_type="regression", verbosity=0)
            return predictor.fit(
                X.assign(y=y), hyperparameters={"RF": forest_settings}, fit_weighted_ensemble=False, **settings
            )


class Spark:
    """A pipeline of Spark ML, saved and loaded. It needs the session of the fixture `spark`."""

    def __init__(self, **settings):
        self.settings = settings

    def fit(self, X, y):
        from pyspark.ml import Pipeline, feature, regression
        from pyspark.sql import SparkSession

        texts, numbers = list(X.select_dtypes("category")), list(X.select_dtypes("number"))
        frame = X.astype(dict.fromkeys(texts, str)).assign(y=y)
        codes, whole = [f"{name}_code" for name in texts], [f"{name}_whole" for name in numbers]
        stages = [
            feature.Imputer(inputCols=numbers, outputCols=whole),
            *([feature.StringIndexer(inputCols=texts, outputCols=codes, handleInvalid="keep")] if texts else []),
            feature.VectorAssembler(inputCols=whole + codes, outputCol="features"),
            getattr(regression, self.settings["kind"])(labelCol="y", seed=0, maxDepth=4, **self.settings["size"]),
        ]
        fitted = Pipeline(stages=stages).fit(SparkSession.active().createDataFrame(frame).coalesce(1))
        with tempfile.TemporaryDirectory() as folder:
            fitted.write().save(folder + "/model")
            return debias.load_model(folder + "/model")


def survival(kind, module="sksurv.ensemble", **settings):
    return lambda: getattr(import_module(module), kind)(random_state=0, **settings)


class QuantileForest:
    """A forest of quantile-forest."""

    def fit(self, X, y):
        from quantile_forest import RandomForestQuantileRegressor

        return RandomForestQuantileRegressor(5, random_state=0).fit(X, y)


class NGBoost:
    """A distribution of y by NGBoost."""

    def fit(self, X, y):
        from ngboost import NGBRegressor

        base = DecisionTreeRegressor(max_depth=3, random_state=0)  # the default breaks ties by the global random state
        return NGBRegressor(Base=base, n_estimators=5, verbose=False, random_state=0).fit(X, y)


class BalancedForest:
    """imbalanced-learn's forest, of two classes."""

    def fit(self, X, y):
        from imblearn.ensemble import BalancedRandomForestClassifier

        settings = {"sampling_strategy": "all", "replacement": True, "bootstrap": False}
        return BalancedRandomForestClassifier(5, random_state=0, **settings).fit(X, y)


SURVIVAL = {
    "RandomSurvivalForest": survival("RandomSurvivalForest", n_estimators=5),
    "ExtraSurvivalTrees": survival("ExtraSurvivalTrees", n_estimators=5),
    "SurvivalTree": survival("SurvivalTree", "sksurv.tree"),
    "GradientBoostingSurvivalAnalysis": survival("GradientBoostingSurvivalAnalysis", n_estimators=5),
}
ADABOOST = {} if at_least("scikit-learn", "1.6") else {"algorithm": "SAMME"}  # the only one since
SAMPLED = {"subsample": 0.6, "subsample_freq": 1}
FAMILIES = {
    "RandomForest": forest,
    "ExtraTrees (bootstrap)": lambda: ensemble.ExtraTreesRegressor(5, bootstrap=True, random_state=0),
    "ExtraTrees": lambda: ensemble.ExtraTreesRegressor(5, random_state=0),
    "DecisionTree": lambda: DecisionTreeRegressor(random_state=0, min_samples_leaf=3),
    "Bagging of trees": lambda: ensemble.BaggingRegressor(
        DecisionTreeRegressor(), 5, max_features=2, bootstrap_features=True, random_state=0
    ),
    "GradientBoosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
    "AdaBoostClassifier": lambda: ensemble.AdaBoostClassifier(
        DecisionTreeClassifier(max_depth=2), n_estimators=5, random_state=0, **ADABOOST
    ),
    "HistGradientBoosting": lambda: ensemble.HistGradientBoostingRegressor(
        max_iter=5, min_samples_leaf=5, random_state=0, categorical_features="from_dtype"
    ),
    "XGBoost gbtree": xgb,
    "XGBoost dart": lambda: xgb(rate_drop=0.5, **XGB_DROPOUT),
    "XGBoost forest (XGBRF)": lambda: xgb(xgb_forest),
    "XGBoost Booster": lambda: Boosted(xgboost),
    "LightGBM gbdt": lgb,
    "LightGBM dart": lambda: lgb(boosting_type="dart", drop_rate=0.5),
    "LightGBM goss": lambda: lgb(data_sample_strategy="goss"),
    "LightGBM rf": lambda: lgb(boosting_type="rf", **SAMPLED),
    "LightGBM Booster": lambda: Boosted(lightgbm),
    **({"CatBoost": CatBoost} if find_spec("catboost") else {}),
    **({"YDF RandomForest": lambda: Ydf("RandomForestLearner", num_trees=5)} if find_spec("ydf") else {}),
    **({"YDF CART": lambda: Ydf("CartLearner")} if find_spec("ydf") else {}),
    **(
        {"YDF GradientBoostedTrees": lambda: Ydf("GradientBoostedTreesLearner", num_trees=5)}
        if find_spec("ydf")
        else {}
    ),
    **({"treelite": Treelite} if find_spec("treelite") else {}),
    **({"ONNX": Onnx} if find_spec("skl2onnx") else {}),
    "H2O MOJO": Mojo,
    "PMML": Pmml,
    **({"FLAML AutoML": FlamlSearch} if find_spec("flaml") else {}),
    **({"AutoGluon TabularPredictor": AutoGluonPredictor} if find_spec("autogluon") else {}),
    **({"quantile-forest": QuantileForest} if find_spec("quantile_forest") else {}),
    **({"BalancedRandomForest": BalancedForest} if find_spec("imblearn") else {}),
    **(SURVIVAL if find_spec("sksurv") else {}),
    **({"NGBoost": NGBoost} if find_spec("ngboost") else {}),
    "Pipeline with ColumnTransformer": piped,
    "GridSearchCV": lambda: GridSearchCV(piped(), {"randomforestregressor__max_depth": [3]}, cv=2),
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(
        make_pipeline(piped()[:-1], ensemble.RandomForestClassifier(5, random_state=0)), cv=2, ensemble=False
    ),
    "TransformedTargetRegressor": lambda: TransformedTargetRegressor(piped(), func=np.sinh, inverse_func=np.arcsinh),
    "MultiOutputRegressor": lambda: MultiOutputRegressor(piped()),
    "VotingRegressor": lambda: ensemble.VotingRegressor([("one", piped()), ("two", piped())], weights=[1, 2]),
    "StackingRegressor": lambda: ensemble.StackingRegressor([("one", piped())], LinearRegression(), cv=2),
    "StackingClassifier": lambda: ensemble.StackingClassifier(
        [
            (str(seed), make_pipeline(piped()[:-1], ensemble.RandomForestClassifier(5, random_state=seed)))
            for seed in range(2)
        ],
        cv=2,
    ),
}

ON_SPARK = {
    "Spark ML random forest": lambda: Spark(kind="RandomForestRegressor", size={"numTrees": 5}),
    "Spark ML boosted trees": lambda: Spark(kind="GBTRegressor", size={"maxIter": 5}),
}
"""Families that need the fixture `spark`: their tests are marked integration."""


UNPICKLED = {"treelite", "ONNX"}
"""Models that cannot be pickled."""
UNNAMED = {*UNPICKLED, "NGBoost"}
"""Models that keep no names, so that columns are taken in their order."""


def response(family, y):
    """Return the response as a family needs it: labels, two columns for several outputs, or events and times."""
    if family in ("CalibratedClassifierCV", "StackingClassifier", "BalancedRandomForest", "AdaBoostClassifier"):
        return np.where(y > 0, "yes", "no")
    if family in SURVIVAL:
        times = [(k % 4 != 0, time) for k, time in enumerate(np.exp(-y / y.std()))]  # a quarter is censored
        return np.array(times, dtype=[("event", bool), ("time", float)])
    return np.column_stack([y, -y]) if family == "MultiOutputRegressor" else y
