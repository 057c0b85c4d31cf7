"""Models of the table of combinations: how each is trained, and on what.

The file is long because it is one list: a row of the table is a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import lightgbm
import numpy as np
import xgboost
from sklearn import ensemble, pipeline, tree
from sklearn import preprocessing as prep
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyRegressor
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain

FEW: dict[str, Any] = {"n_estimators": 10, "random_state": 0}
XGB: dict[str, Any] = {"n_estimators": 10, "max_depth": 3, "n_jobs": 1, "random_state": 0, "enable_categorical": True}
LGB: dict[str, Any] = {"n_estimators": 10, "num_leaves": 7, "n_jobs": 1, "random_state": 0, "verbose": -1}


@dataclass(frozen=True)
class Model:
    """How to fit a model, and the rows to audit it on: its own if it is bagged, else others."""

    fit: Callable[[Any, Any], Any]
    target: str
    bagged: bool = False
    container: str = "pandas"


def fitting(make: Callable[..., Any], *arguments: Any, **settings: Any) -> Callable[[Any, Any], Any]:
    return lambda X, y: make(*arguments, **settings).fit(X, y)


def forest(**settings: Any) -> Any:
    return ensemble.RandomForestRegressor(**FEW | settings)


def classifier(**settings: Any) -> Any:
    return ensemble.RandomForestClassifier(**FEW | settings)


def boosted(params: dict[str, Any], **data: Any) -> Callable[[Any, Any], Any]:
    settings = {"max_depth": 3, "nthread": 1, "seed": 0} | params

    def fit(X, y):
        matrix = X if isinstance(X, xgboost.DMatrix) else xgboost.DMatrix(X, **data)
        matrix.set_label(y)
        return xgboost.train(settings, matrix, 10)

    return fit


def with_bounds(X, y):
    matrix = xgboost.DMatrix(X, label_lower_bound=y[:, 0], label_upper_bound=y[:, 1])
    return xgboost.train({"objective": "survival:aft", "max_depth": 3, "nthread": 1}, matrix, 10)


def light(params: dict[str, Any]) -> Callable[[Any, Any], Any]:
    settings = {"num_leaves": 7, "num_threads": 1, "seed": 0, "verbose": -1} | params

    def fit(X, y):
        data = X.set_label(np.asarray(y)) if isinstance(X, lightgbm.Dataset) else lightgbm.Dataset(X, y)
        return lightgbm.train(settings, data, 10)

    return fit


def ranked(make: Callable[..., Any], **settings: Any) -> Callable[[Any, Any], Any]:
    def fit(X, y):
        return make(**settings).fit(X, y, group=[len(y) // 10] * 10)

    return fit


def cross_validated(X, y):
    return lightgbm.cv(
        {"num_leaves": 7, "num_threads": 1, "verbose": -1},
        lightgbm.Dataset(X, y),
        10,
        nfold=3,
        stratified=False,
        return_cvbooster=True,
    )["cvbooster"]


def piped(*steps: Any) -> Callable[[Any, Any], Any]:
    """Fit a pipeline whose last step is a forest."""
    return lambda X, y: pipeline.make_pipeline(*(step() for step in steps), forest()).fit(X, y)


def hot(*columns: str) -> Any:
    chosen = list(columns) or make_column_selector(dtype_exclude="number")
    return make_column_transformer((prep.OneHotEncoder(handle_unknown="ignore"), chosen), remainder="passthrough")


def worded(vectoriser: Callable[..., Any], **settings: Any) -> Callable[[Any, Any], Any]:
    return lambda X, y: pipeline.make_pipeline(vectoriser(**settings), classifier()).fit(X, y)


def squared_error(y, margin):
    return margin - y, np.ones(len(y))


MODELS: dict[str, Model] = {
    # scikit-learn
    "RandomForestRegressor": Model(fitting(forest), "numbers", True),
    "RandomForestClassifier": Model(fitting(classifier), "0/1", True),
    "RandomForestClassifier(class_weight='balanced_subsample')": Model(
        fitting(classifier, class_weight="balanced_subsample"), "rare class (5 %)", True
    ),
    "RandomForestRegressor(criterion='absolute_error')": Model(
        fitting(forest, criterion="absolute_error"), "numbers", True
    ),
    "RandomForestRegressor(criterion='poisson')": Model(fitting(forest, criterion="poisson"), "counts", True),
    "RandomForestRegressor(bootstrap=False)": Model(fitting(forest, bootstrap=False, max_features=1), "numbers"),
    "RandomForestRegressor(max_samples=0.5)": Model(fitting(forest, max_samples=0.5), "numbers", True),
    "RandomForestRegressor(monotonic_cst=...)": Model(fitting(forest, monotonic_cst=[1, 0, 0]), "numbers", True),
    "RandomForestRegressor, no random_state": Model(fitting(forest, random_state=None), "numbers", True),
    "ExtraTreesRegressor": Model(fitting(ensemble.ExtraTreesRegressor, **FEW), "numbers"),
    "ExtraTreesClassifier(bootstrap=True)": Model(
        fitting(ensemble.ExtraTreesClassifier, bootstrap=True, **FEW), "0/1", True
    ),
    "DecisionTreeRegressor": Model(fitting(tree.DecisionTreeRegressor, random_state=0), "numbers"),
    "DecisionTreeClassifier(max_depth=3)": Model(
        fitting(tree.DecisionTreeClassifier, max_depth=3, random_state=0), "0/1"
    ),
    "ExtraTreeRegressor": Model(fitting(tree.ExtraTreeRegressor, random_state=0), "numbers"),
    "BaggingRegressor": Model(fitting(ensemble.BaggingRegressor, **FEW), "numbers", True),
    "BaggingClassifier(max_features=2)": Model(fitting(ensemble.BaggingClassifier, max_features=2, **FEW), "0/1", True),
    "BaggingRegressor of forests": Model(
        lambda X, y: ensemble.BaggingRegressor(forest(), n_estimators=3, random_state=0).fit(X, y), "numbers"
    ),
    "BaggingRegressor of linear models": Model(
        lambda X, y: ensemble.BaggingRegressor(LinearRegression()).fit(X, y), "numbers"
    ),
    "GradientBoostingRegressor": Model(fitting(ensemble.GradientBoostingRegressor, **FEW), "numbers"),
    "GradientBoostingClassifier": Model(fitting(ensemble.GradientBoostingClassifier, **FEW), "0/1"),
    "GradientBoostingRegressor(loss='huber')": Model(
        fitting(ensemble.GradientBoostingRegressor, loss="huber", **FEW), "numbers"
    ),
    "GradientBoostingRegressor(loss='quantile')": Model(
        fitting(ensemble.GradientBoostingRegressor, loss="quantile", **FEW), "numbers"
    ),
    "GradientBoostingClassifier(loss='exponential')": Model(
        fitting(ensemble.GradientBoostingClassifier, loss="exponential", **FEW), "0/1"
    ),
    "GradientBoostingRegressor(init=LinearRegression())": Model(
        lambda X, y: ensemble.GradientBoostingRegressor(init=LinearRegression(), **FEW).fit(X, y), "numbers"
    ),
    "GradientBoostingRegressor(init=DummyRegressor())": Model(
        lambda X, y: ensemble.GradientBoostingRegressor(init=DummyRegressor(), **FEW).fit(X, y), "numbers"
    ),
    "HistGradientBoostingRegressor": Model(
        fitting(ensemble.HistGradientBoostingRegressor, max_iter=10, random_state=0), "numbers"
    ),
    "HistGradientBoostingClassifier": Model(
        fitting(ensemble.HistGradientBoostingClassifier, max_iter=10, random_state=0), "0/1"
    ),
    "HistGradientBoostingRegressor(loss='poisson')": Model(
        fitting(ensemble.HistGradientBoostingRegressor, max_iter=10, loss="poisson"), "counts"
    ),
    "HistGradientBoostingRegressor(loss='gamma')": Model(
        fitting(ensemble.HistGradientBoostingRegressor, max_iter=10, loss="gamma"), "positive"
    ),
    "HistGradientBoostingRegressor(loss='quantile')": Model(
        fitting(ensemble.HistGradientBoostingRegressor, max_iter=10, loss="quantile", quantile=0.9), "numbers"
    ),
    "AdaBoostClassifier": Model(fitting(ensemble.AdaBoostClassifier, **FEW), "0/1"),
    "AdaBoostRegressor": Model(fitting(ensemble.AdaBoostRegressor, **FEW), "numbers"),
    "IsolationForest": Model(fitting(ensemble.IsolationForest, **FEW), "numbers"),
    "RandomTreesEmbedding": Model(fitting(ensemble.RandomTreesEmbedding, **FEW), "numbers"),
    "LinearRegression": Model(fitting(LinearRegression), "numbers"),
    "RandomForestRegressor, not fitted": Model(lambda X, y: forest(), "numbers"),
    "the class RandomForestRegressor": Model(lambda X, y: ensemble.RandomForestRegressor, "numbers"),
    "a function": Model(lambda X, y: lambda rows: rows, "numbers"),
    "a list of trees": Model(lambda X, y: forest().fit(X, y).estimators_, "numbers"),
    # XGBoost
    "XGBRegressor": Model(fitting(xgboost.XGBRegressor, **XGB), "numbers"),
    "XGBClassifier": Model(fitting(xgboost.XGBClassifier, **XGB), "0/1"),
    "XGBRFRegressor": Model(fitting(xgboost.XGBRFRegressor, **XGB), "numbers"),
    "XGBRanker": Model(ranked(xgboost.XGBRanker, **XGB), "grades in groups"),
    "XGBRegressor(objective='count:poisson')": Model(
        fitting(xgboost.XGBRegressor, objective="count:poisson", **XGB), "counts"
    ),
    "XGBRegressor(objective='reg:tweedie')": Model(
        fitting(xgboost.XGBRegressor, objective="reg:tweedie", **XGB), "positive"
    ),
    "XGBRegressor(objective='reg:gamma')": Model(
        fitting(xgboost.XGBRegressor, objective="reg:gamma", **XGB), "positive"
    ),
    "XGBRegressor(objective='reg:logistic')": Model(
        fitting(xgboost.XGBRegressor, objective="reg:logistic", **XGB), "shares"
    ),
    "XGBRegressor(objective='reg:quantileerror')": Model(
        fitting(xgboost.XGBRegressor, objective="reg:quantileerror", quantile_alpha=[0.1, 0.9], **XGB), "numbers"
    ),
    "XGBRegressor(objective='survival:cox')": Model(
        fitting(xgboost.XGBRegressor, objective="survival:cox", **XGB), "positive"
    ),
    "XGBRegressor(booster='dart')": Model(
        fitting(xgboost.XGBRegressor, booster="dart", rate_drop=0.5, **XGB), "numbers"
    ),
    "XGBRegressor(booster='gblinear')": Model(
        fitting(xgboost.XGBRegressor, booster="gblinear", n_estimators=10), "numbers"
    ),
    "XGBRegressor(objective=a function)": Model(
        fitting(xgboost.XGBRegressor, objective=squared_error, **XGB), "numbers"
    ),
    "XGBRegressor(multi_strategy='multi_output_tree')": Model(
        fitting(xgboost.XGBRegressor, multi_strategy="multi_output_tree", tree_method="hist", **XGB), "two columns"
    ),
    "xgboost.Booster": Model(boosted({}), "numbers"),
    "xgboost.Booster, binary": Model(boosted({"objective": "binary:logistic"}), "0/1"),
    "xgboost.Booster, softmax": Model(boosted({"objective": "multi:softprob", "num_class": 3}), "three classes"),
    "xgboost.Booster, survival:aft": Model(with_bounds, "bounds of times"),
    # LightGBM
    "LGBMRegressor": Model(fitting(lightgbm.LGBMRegressor, **LGB), "numbers"),
    "LGBMClassifier": Model(fitting(lightgbm.LGBMClassifier, **LGB), "0/1"),
    "LGBMRanker": Model(ranked(lightgbm.LGBMRanker, **LGB), "grades in groups"),
    "LGBMRegressor(objective='poisson')": Model(fitting(lightgbm.LGBMRegressor, objective="poisson", **LGB), "counts"),
    "LGBMRegressor(objective='tweedie')": Model(
        fitting(lightgbm.LGBMRegressor, objective="tweedie", **LGB), "positive"
    ),
    "LGBMRegressor(objective='quantile')": Model(
        fitting(lightgbm.LGBMRegressor, objective="quantile", **LGB), "numbers"
    ),
    "LGBMRegressor(objective='huber')": Model(fitting(lightgbm.LGBMRegressor, objective="huber", **LGB), "numbers"),
    "LGBMRegressor(objective='cross_entropy')": Model(
        fitting(lightgbm.LGBMRegressor, objective="cross_entropy", **LGB), "shares"
    ),
    "LGBMRegressor(objective='cross_entropy_lambda')": Model(
        fitting(lightgbm.LGBMRegressor, objective="cross_entropy_lambda", **LGB), "shares"
    ),
    "LGBMRegressor(objective=a function)": Model(
        lambda X, y: lightgbm.LGBMRegressor(objective=squared_error_of_lightgbm, **LGB).fit(X, y), "numbers"
    ),
    "LGBMRegressor(boosting_type='dart')": Model(
        fitting(lightgbm.LGBMRegressor, boosting_type="dart", **LGB), "numbers"
    ),
    "LGBMRegressor(boosting_type='rf')": Model(
        fitting(lightgbm.LGBMRegressor, boosting_type="rf", subsample=0.6, subsample_freq=1, **LGB), "numbers", True
    ),
    "LGBMRegressor(linear_tree=True)": Model(fitting(lightgbm.LGBMRegressor, linear_tree=True, **LGB), "numbers"),
    "LGBMClassifier(class_weight='balanced')": Model(
        fitting(lightgbm.LGBMClassifier, class_weight="balanced", **LGB), "rare class (5 %)"
    ),
    "lightgbm.Booster": Model(light({}), "numbers"),
    "lightgbm.Booster, multiclass": Model(light({"objective": "multiclass", "num_class": 3}), "three classes"),
    "lightgbm.CVBooster": Model(cross_validated, "numbers"),
    # models around models
    "Pipeline of a StandardScaler": Model(piped(prep.StandardScaler), "numbers", True),
    "Pipeline of a SimpleImputer": Model(piped(SimpleImputer), "numbers", True, "pandas with NaN"),
    "Pipeline of a KNNImputer": Model(piped(KNNImputer), "numbers", True, "pandas with NaN"),
    "Pipeline of a ColumnTransformer (one-hot)": Model(piped(hot), "numbers", True, "pandas objects (text)"),
    "Pipeline of an OrdinalEncoder": Model(
        piped(lambda: make_column_transformer((prep.OrdinalEncoder(), ["c"]), remainder="passthrough")),
        "numbers",
        True,
        "pandas objects (text)",
    ),
    "Pipeline of a TargetEncoder": Model(
        piped(lambda: make_column_transformer((prep.TargetEncoder(cv=2), ["c"]), remainder="passthrough")),
        "numbers",
        False,
        "pandas objects (text)",
    ),
    "Pipeline of a ColumnTransformer (Tfidf)": Model(
        piped(lambda: ColumnTransformer([("words", TfidfVectorizer(), "text")], remainder="passthrough")),
        "numbers",
        True,
        "pandas with a column of texts",
    ),
    "Pipeline of a TfidfVectorizer": Model(worded(TfidfVectorizer), "0/1", True, "list of texts"),
    "Pipeline of a CountVectorizer": Model(worded(CountVectorizer), "0/1", True, "series of texts"),
    "Pipeline of a HashingVectorizer": Model(worded(HashingVectorizer, n_features=32), "0/1", True, "array of texts"),
    "Pipeline of TfidfVectorizer and TruncatedSVD": Model(
        lambda X, y: pipeline.make_pipeline(TfidfVectorizer(), TruncatedSVD(2), classifier()).fit(X, y),
        "0/1",
        True,
        "list of texts",
    ),
    "Pipeline of a PCA": Model(piped(PCA), "numbers", True),
    "Pipeline of a StandardScaler and a PCA": Model(piped(prep.StandardScaler, PCA), "numbers", True),
    "Pipeline of PolynomialFeatures": Model(piped(prep.PolynomialFeatures), "numbers", True),
    "Pipeline of a FunctionTransformer(np.arcsinh)": Model(
        piped(partial(prep.FunctionTransformer, np.arcsinh)), "numbers", True
    ),
    "Pipeline of a FunctionTransformer (a lambda that adds a column)": Model(
        piped(partial(prep.FunctionTransformer, lambda X: X.assign(d=X["a"] * X["b"]))), "numbers", True
    ),
    "Pipeline of a KBinsDiscretizer": Model(
        piped(partial(prep.KBinsDiscretizer, quantile_method="averaged_inverted_cdf")), "numbers", True
    ),
    "Pipeline of a SplineTransformer": Model(piped(prep.SplineTransformer), "numbers", True),
    "Pipeline of a QuantileTransformer": Model(
        piped(partial(prep.QuantileTransformer, n_quantiles=50)), "numbers", True
    ),
    "Pipeline of a Normalizer": Model(piped(prep.Normalizer), "numbers", True),
    "Pipeline of a Nystroem": Model(piped(partial(Nystroem, n_components=5)), "numbers", True),
    "Pipeline of SelectKBest": Model(piped(partial(SelectKBest, f_regression, k=2)), "numbers"),
    "Pipeline of SelectFromModel": Model(
        piped(lambda: SelectFromModel(forest(), threshold=-np.inf, max_features=2)), "numbers"
    ),
    "Pipeline of a FeatureUnion (scaler, PCA)": Model(
        piped(lambda: pipeline.make_union(prep.StandardScaler(), PCA(1))), "numbers", True
    ),
    "Pipeline with a linear model": Model(
        lambda X, y: pipeline.make_pipeline(prep.StandardScaler(), LinearRegression()).fit(X, y), "numbers"
    ),
    "GridSearchCV": Model(lambda X, y: GridSearchCV(forest(), {"max_depth": [2, 4]}, cv=2).fit(X, y), "numbers", True),
    "GridSearchCV(refit=False)": Model(
        lambda X, y: GridSearchCV(forest(), {"max_depth": [2]}, cv=2, refit=False).fit(X, y), "numbers"
    ),
    "RandomizedSearchCV of a Pipeline": Model(
        lambda X, y: RandomizedSearchCV(
            pipeline.make_pipeline(prep.StandardScaler(), forest()),
            {"randomforestregressor__max_depth": [2, 4]},
            n_iter=2,
            cv=2,
            random_state=0,
        ).fit(X, y),
        "numbers",
        True,
    ),
    "RFE": Model(lambda X, y: RFE(forest(), n_features_to_select=2).fit(X, y), "numbers"),
    "RFECV": Model(lambda X, y: RFECV(forest(), cv=2).fit(X, y), "numbers"),
    "FixedThresholdClassifier": Model(
        lambda X, y: FixedThresholdClassifier(classifier(), threshold=0.3).fit(X, y), "0/1", True
    ),
    "TunedThresholdClassifierCV": Model(
        lambda X, y: TunedThresholdClassifierCV(classifier(), cv=2).fit(X, y), "0/1", True
    ),
    "FrozenEstimator": Model(lambda X, y: FrozenEstimator(forest().fit(X, y)), "numbers", True),
    "CalibratedClassifierCV": Model(lambda X, y: CalibratedClassifierCV(classifier(), cv=2).fit(X, y), "0/1"),
    "CalibratedClassifierCV(ensemble=False)": Model(
        lambda X, y: CalibratedClassifierCV(classifier(), cv=2, ensemble=False).fit(X, y), "0/1", True
    ),
    "CalibratedClassifierCV(FrozenEstimator)": Model(
        lambda X, y: CalibratedClassifierCV(FrozenEstimator(classifier().fit(X, y))).fit(X, y), "0/1", True
    ),
    "TransformedTargetRegressor": Model(
        lambda X, y: TransformedTargetRegressor(forest(), func=np.log, inverse_func=np.exp).fit(X, y), "positive", True
    ),
    "MultiOutputRegressor": Model(
        lambda X, y: MultiOutputRegressor(ensemble.GradientBoostingRegressor(**FEW)).fit(X, y), "two columns"
    ),
    "MultiOutputClassifier": Model(
        lambda X, y: MultiOutputClassifier(lightgbm.LGBMClassifier(**LGB)).fit(X, y), "two labels"
    ),
    "RegressorChain": Model(lambda X, y: RegressorChain(forest()).fit(X, y), "two columns"),
    "ClassifierChain": Model(lambda X, y: ClassifierChain(classifier()).fit(X, y), "two labels"),
    "VotingRegressor": Model(
        lambda X, y: ensemble.VotingRegressor([("f", forest()), ("x", xgboost.XGBRegressor(**XGB))]).fit(X, y),
        "numbers",
    ),
    "VotingClassifier(voting='soft')": Model(
        lambda X, y: ensemble.VotingClassifier(
            [("f", classifier()), ("e", ensemble.ExtraTreesClassifier(**FEW))], voting="soft"
        ).fit(X, y),
        "0/1",
    ),
    "VotingClassifier(voting='hard')": Model(
        lambda X, y: ensemble.VotingClassifier([("f", classifier()), ("g", classifier())]).fit(X, y), "0/1"
    ),
    "VotingClassifier of a forest and a linear model": Model(
        lambda X, y: ensemble.VotingClassifier([("f", classifier()), ("l", LogisticRegression())], voting="soft").fit(
            X, y
        ),
        "0/1",
    ),
    "StackingRegressor": Model(
        lambda X, y: ensemble.StackingRegressor(
            [("f", forest()), ("h", ensemble.HistGradientBoostingRegressor(max_iter=10))], LinearRegression(), cv=2
        ).fit(X, y),
        "numbers",
    ),
    "StackingClassifier": Model(
        lambda X, y: ensemble.StackingClassifier(
            [("f", classifier()), ("e", ensemble.ExtraTreesClassifier(**FEW))], LogisticRegression(), cv=2
        ).fit(X, y),
        "0/1",
    ),
    "StackingClassifier, more classes": Model(
        lambda X, y: ensemble.StackingClassifier([("f", classifier())], LogisticRegression(), cv=2).fit(X, y),
        "three classes",
    ),
    "StackingClassifier with a forest on top": Model(
        lambda X, y: ensemble.StackingClassifier([("f", classifier())], classifier(), cv=2).fit(X, y), "0/1"
    ),
    "OneVsRestClassifier": Model(lambda X, y: OneVsRestClassifier(classifier()).fit(X, y), "three classes"),
    "OneVsOneClassifier": Model(lambda X, y: OneVsOneClassifier(classifier()).fit(X, y), "three classes"),
    "OutputCodeClassifier": Model(
        lambda X, y: OutputCodeClassifier(classifier(), random_state=0).fit(X, y), "three classes"
    ),
}


def squared_error_of_lightgbm(y, margin):
    return margin - y, np.ones(len(y))


def _of_further_libraries() -> dict[str, Model]:
    """Return models of the libraries that are installed beside those of the tests."""
    found = {}
    if find_spec("catboost"):
        import catboost

        few: dict[str, Any] = {
            "iterations": 10,
            "depth": 3,
            "thread_count": 1,
            "random_seed": 0,
            "verbose": 0,
            "allow_writing_files": False,
        }

        def cat(make: Callable[..., Any], **settings: Any) -> Callable[[Any, Any], Any]:
            return fitting(make, **few | settings)

        regressor = catboost.CatBoostRegressor
        found |= {
            "CatBoostRegressor": Model(cat(regressor), "numbers"),
            "CatBoostClassifier": Model(cat(catboost.CatBoostClassifier), "0/1"),
            "CatBoostClassifier, three classes": Model(cat(catboost.CatBoostClassifier), "three strings"),
            "CatBoostRegressor(cat_features=['c'])": Model(
                cat(regressor, cat_features=["c"]), "numbers", container="pandas objects (text)"
            ),
            "CatBoostClassifier(cat_features=['c'])": Model(
                cat(catboost.CatBoostClassifier, cat_features=["c"]), "0/1", container="pandas categories"
            ),
            "CatBoostRegressor(cat_features=['c'], one_hot_max_size=10)": Model(
                cat(regressor, cat_features=["c"], one_hot_max_size=10), "numbers", container="pandas objects (text)"
            ),
            "CatBoostClassifier(text_features=['text'])": Model(
                cat(catboost.CatBoostClassifier, text_features=["text"]),
                "0/1",
                container="pandas with a column of texts",
            ),
            "CatBoostRegressor(grow_policy='Lossguide')": Model(cat(regressor, grow_policy="Lossguide"), "numbers"),
            "CatBoostRegressor(loss_function='MAE')": Model(cat(regressor, loss_function="MAE"), "numbers"),
            "CatBoostRegressor(loss_function='Poisson')": Model(cat(regressor, loss_function="Poisson"), "counts"),
            "CatBoostRegressor(loss_function='Quantile')": Model(cat(regressor, loss_function="Quantile"), "numbers"),
            "CatBoostRegressor(loss_function='MultiRMSE')": Model(
                cat(regressor, loss_function="MultiRMSE"), "two columns"
            ),
            "CatBoostRanker": Model(
                lambda X, y: catboost.CatBoostRanker(**few).fit(X, y, group_id=np.arange(len(y)) // 20),
                "grades in groups",
            ),
            "Pipeline of a StandardScaler and CatBoost": Model(
                lambda X, y: pipeline.make_pipeline(prep.StandardScaler(), regressor(**few)).fit(X, y), "numbers"
            ),
        }
    if find_spec("imblearn"):
        from imblearn import ensemble as balanced
        from imblearn import over_sampling, under_sampling
        from imblearn import pipeline as resampled

        rare = "rare class (5 %)"
        found |= {
            "imblearn Pipeline of SMOTE": Model(
                lambda X, y: resampled.make_pipeline(
                    over_sampling.SMOTE(random_state=0, k_neighbors=3), classifier()
                ).fit(X, y),
                rare,
            ),
            "imblearn Pipeline of RandomUnderSampler": Model(
                lambda X, y: resampled.make_pipeline(
                    under_sampling.RandomUnderSampler(random_state=0), classifier()
                ).fit(X, y),
                rare,
            ),
            "imblearn BalancedRandomForestClassifier": Model(
                fitting(balanced.BalancedRandomForestClassifier, **FEW), rare, True
            ),
            "imblearn EasyEnsembleClassifier": Model(fitting(balanced.EasyEnsembleClassifier, **FEW), rare),
            "imblearn BalancedBaggingClassifier": Model(fitting(balanced.BalancedBaggingClassifier, **FEW), rare),
            "imblearn RUSBoostClassifier": Model(fitting(balanced.RUSBoostClassifier, **FEW), rare),
        }
    if find_spec("skrub"):
        import skrub

        found["Pipeline of skrub's TableVectorizer"] = Model(
            piped(skrub.TableVectorizer), "numbers", True, "pandas objects (text)"
        )
        found["skrub.tabular_pipeline"] = Model(
            lambda X, y: skrub.tabular_pipeline("regressor").fit(X, y), "numbers", container="pandas objects (text)"
        )
    if find_spec("quantile_forest"):
        import quantile_forest

        found["RandomForestQuantileRegressor"] = Model(
            fitting(quantile_forest.RandomForestQuantileRegressor, **FEW), "numbers", True
        )
    return found


MODELS |= _of_further_libraries()
