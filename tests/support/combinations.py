"""Write docs/combinations.md from audits that ran: ``python tests/support/combinations.py``."""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars
import pyarrow
import scipy.sparse
import xgboost
from sklearn import ensemble, pipeline, tree
from sklearn import preprocessing as prep
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyRegressor
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SelectKBest
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

import debias

PAGE = Path(__file__).parent.parent.parent / "docs" / "combinations.md"
N = 200


# ---- targets -------------------------------------------------------------------------------------------------------


def cut(latent, *cuts):
    return np.digitize(latent, cuts)


def spoilt(y, value, at=3):
    y = np.array(y, dtype=float)
    y[at] = value
    return y


TARGETS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda z: z,
    "whole numbers": lambda z: np.round(5 * z).astype(int),
    "positive": lambda z: np.exp(z / 2),
    "counts": lambda z: np.random.default_rng(3).poisson(np.exp(z / 2)),
    "shares": lambda z: 1 / (1 + np.exp(-z)),
    "0/1": lambda z: cut(z, 0),
    "-1/1": lambda z: 2 * cut(z, 0) - 1,
    "1/2": lambda z: 1 + cut(z, 0),
    "bool": lambda z: z > 0,
    "0.0/1.0": lambda z: cut(z, 0).astype(float),
    "two strings": lambda z: np.where(z > 0, "yes", "no"),
    "two objects": lambda z: np.where(z > 0, "yes", "no").astype(object),
    "pandas category": lambda z: pd.Series(np.where(z > 0, "yes", "no"), dtype="category"),
    "pandas string": lambda z: pd.Series(np.where(z > 0, "yes", "no"), dtype="string"),
    "pandas Int64": lambda z: pd.Series(cut(z, 0), dtype="Int64"),
    "pandas boolean": lambda z: pd.Series(z > 0, dtype="boolean"),
    "Arrow numbers": lambda z: pd.Series(z, dtype="float64[pyarrow]"),
    "polars series": lambda z: polars.Series(z),
    "pyarrow array": lambda z: pyarrow.array(z),
    "list": lambda z: list(z),
    "list of strings": lambda z: ["yes" if each > 0 else "no" for each in z],
    "one column": lambda z: z[:, None],
    "frame of one column": lambda z: pd.DataFrame({"y": z}),
    "rare class (5 %)": lambda z: cut(z, np.quantile(z, 0.95)),
    "three classes": lambda z: cut(z, -1, 1),
    "three strings": lambda z: np.array(["low", "middle", "high"])[cut(z, -1, 1)],
    "ordered category": lambda z: pd.Series(
        pd.Categorical.from_codes(cut(z, -1, 1), ["low", "middle", "high"], ordered=True)
    ),
    "ten classes": lambda z: cut(z, *np.quantile(z, np.arange(0.1, 1, 0.1))),
    "two columns": lambda z: np.column_stack([z, -z + np.random.default_rng(3).normal(size=len(z))]),
    "frame of two columns": lambda z: pd.DataFrame({"u": z, "v": -z}),
    "two labels": lambda z: np.column_stack([cut(z, 0), cut(z, 1)]),
    "classes of two kinds": lambda z: np.column_stack([cut(z, 0), cut(z, -1, 1)]),
    "grades in groups": lambda z: cut(z, -2, 0, 2),
    "constant": lambda z: np.ones(len(z)),
    "one class": lambda z: np.ones(len(z), dtype=int),
    "dates": lambda z: pd.Timestamp("2024-01-01") + pd.to_timedelta(np.round(1000 * z), unit="min"),
}
SPOILT: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "numbers, one NaN in the rows": ("numbers", lambda y: spoilt(y, np.nan)),
    "numbers, one infinity in the rows": ("numbers", lambda y: spoilt(y, np.inf)),
    "0/1, one NaN in the rows": ("0/1", lambda y: spoilt(y, np.nan)),
    "two strings, one None in the rows": ("two objects", lambda y: np.where(np.arange(len(y)) == 3, None, y)),
    "0/1, an unknown class in the rows": ("0/1", lambda y: np.where(np.arange(len(y)) == 3, 2, y)),
    "two strings, 0/1 in the rows": ("two strings", lambda y: (y == "yes").astype(int)),
    "numbers, strings in the rows": ("numbers", lambda y: np.where(y > 0, "yes", "no")),
    "counts, a negative one in the rows": ("counts", lambda y: spoilt(y, -1)),
    "numbers, too few in the rows": ("numbers", lambda y: y[:-1]),
    "numbers, two columns in the rows": ("numbers", lambda y: np.column_stack([y, y])),
    "numbers, constant in the rows": ("numbers", lambda y: np.ones(len(y))),
}
"""What the model was trained on, and what is done to the y that is passed to debias."""


# ---- containers ----------------------------------------------------------------------------------------------------


def with_column(kind):
    """Return a function that replaces column c of a frame."""

    def replaced(X):
        return X.assign(c=kind(X["c"]))

    return replaced


def letters(c):
    return np.array(["red", "green", "blue"], dtype=object)[cut(c, -0.5, 0.5)]


def gaps(c):
    return c.mask(np.random.default_rng(5).random(len(c)) < 0.2)


def memmap(X):
    path = Path(tempfile.mkdtemp()) / "rows.npy"
    np.save(path, X.to_numpy())
    return np.load(path, mmap_mode="r")


class Tensor:
    """A table that is only an array when asked, as tensors are."""

    def __init__(self, X):
        self.of, self.shape = X.to_numpy(), X.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.of, dtype=dtype)

    def __len__(self):
        return len(self.of)


def structured(X):
    return X.to_records(index=False)


def texts(X):
    """Return a text of each row: a word that tells of column a, and words that tell nothing."""
    rng = np.random.default_rng(7)
    others = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])
    return [f"{'good' if a > 0 else 'bad'} {' '.join(rng.choice(others, 3))}" for a in X["a"]]


CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda X: X,
    "numpy": lambda X: X.to_numpy(),
    "numpy float32": lambda X: X.to_numpy(np.float32),
    "numpy float16": lambda X: X.to_numpy(np.float16),
    "numpy whole numbers": lambda X: np.round(10 * X.to_numpy()).astype(int),
    "numpy bool": lambda X: X.to_numpy() > 0,
    "numpy objects": lambda X: X.to_numpy().astype(object),
    "numpy of strings": lambda X: X.to_numpy().round(3).astype(str),
    "numpy, columns first": lambda X: np.asfortranarray(X.to_numpy()),
    "numpy, read-only": lambda X: _read_only(X.to_numpy().copy()),
    "numpy memmap": memmap,
    "numpy masked array": lambda X: np.ma.masked_greater(X.to_numpy(), 99),
    "numpy structured array": structured,
    "numpy with NaN": lambda X: with_column(gaps)(X).to_numpy(),
    "numpy with infinity": lambda X: X.assign(c=X["c"].mask(X["c"] > 2, np.inf)).to_numpy(),
    "numpy, one dimension": lambda X: X["a"].to_numpy(),
    "list of lists": lambda X: X.to_numpy().tolist(),
    "list of dicts": lambda X: X.to_dict("records"),
    "dict of columns": lambda X: X.to_dict("list"),
    "tensor": Tensor,
    "pandas with NaN": with_column(gaps),
    "pandas categories": with_column(lambda c: pd.Categorical(letters(c))),
    "pandas categories of numbers": with_column(lambda c: pd.Categorical(cut(c, -0.5, 0.5) * 10)),
    "pandas categories with NaN": with_column(lambda c: pd.Categorical(gaps(pd.Series(letters(c))))),
    "pandas objects (text)": with_column(letters),
    "pandas str": with_column(lambda c: pd.Series(letters(c), index=c.index, dtype="str")),
    "pandas bool": with_column(lambda c: c > 0),
    "pandas whole numbers": lambda X: (10 * X).round().astype(int),
    "pandas nullable": lambda X: X.convert_dtypes(),
    "pandas nullable with NA": lambda X: with_column(gaps)(X).convert_dtypes(),
    "pandas nullable boolean": with_column(lambda c: (c > 0).astype("boolean")),
    "pandas Arrow": lambda X: X.convert_dtypes(dtype_backend="pyarrow"),
    "pandas Arrow with NA": lambda X: with_column(gaps)(X).convert_dtypes(dtype_backend="pyarrow"),
    "pandas Arrow text": with_column(lambda c: pd.Series(letters(c), index=c.index, dtype="string[pyarrow]")),
    "pandas sparse": lambda X: X.round().astype(pd.SparseDtype("float64", 0.0)),
    "pandas one sparse column": with_column(lambda c: pd.arrays.SparseArray(c.round(), fill_value=0.0)),
    "pandas dates": with_column(lambda c: pd.Timestamp("2024-01-01") + pd.to_timedelta(c.round(3), unit="D")),
    "pandas time differences": with_column(lambda c: pd.to_timedelta(c.round(3), unit="D")),
    "pandas complex": with_column(lambda c: c + 1j),
    "pandas Decimal": with_column(lambda c: [__import__("decimal").Decimal(f"{each:.3f}") for each in c]),
    "pandas lists in a column": with_column(lambda c: [[each] for each in c]),
    "pandas intervals": with_column(lambda c: pd.cut(c, 3).astype(object)),
    "pandas, names of numbers": lambda X: X.set_axis([0, 1, 2], axis=1),
    "pandas, names of two kinds": lambda X: X.set_axis(["a", 1, 2], axis=1),
    "pandas, two levels of names": lambda X: X.set_axis(
        pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("c", 2)]), axis=1
    ),
    "pandas, a name twice": lambda X: X.set_axis(["a", "b", "b"], axis=1),
    "pandas, names with signs": lambda X: X.set_axis(["a [m]", "b <1>", "c, d"], axis=1),
    "pandas, dates as index": lambda X: X.set_axis(pd.date_range("2024-01-01", periods=len(X)), axis=0),
    "pandas, an index with repeats": lambda X: X.set_axis(np.arange(len(X)) // 2, axis=0),
    "pandas series": lambda X: X["a"],
    "pandas, one column": lambda X: X[["a"]],
    "polars": lambda X: polars.from_pandas(X.reset_index(drop=True)),
    "polars with null": lambda X: polars.from_pandas(with_column(gaps)(X).reset_index(drop=True)),
    "polars categories": lambda X: polars.from_pandas(X.reset_index(drop=True)).with_columns(
        polars.Series("c", list(letters(X["c"])), dtype=polars.Categorical)
    ),
    "polars text": lambda X: polars.from_pandas(X.reset_index(drop=True)).with_columns(
        polars.Series("c", list(letters(X["c"])))
    ),
    "polars lazy": lambda X: polars.from_pandas(X.reset_index(drop=True)).lazy(),
    "pyarrow table": lambda X: pyarrow.Table.from_pandas(X, preserve_index=False),
    "pyarrow with null": lambda X: pyarrow.Table.from_pandas(with_column(gaps)(X), preserve_index=False),
    "pyarrow dictionary": lambda X: pyarrow.Table.from_pandas(
        with_column(lambda c: pd.Categorical(letters(c)))(X), preserve_index=False
    ),
    "scipy CSR": lambda X: scipy.sparse.csr_matrix(X.round().to_numpy()),
    "scipy CSC": lambda X: scipy.sparse.csc_matrix(X.round().to_numpy()),
    "scipy COO": lambda X: scipy.sparse.coo_matrix(X.round().to_numpy()),
    "scipy CSR array": lambda X: scipy.sparse.csr_array(X.round().to_numpy()),
    "xgboost DMatrix": lambda X: xgboost.DMatrix(X),
    "lightgbm Dataset": lambda X: lightgbm.Dataset(X, free_raw_data=False),
    "list of texts": texts,
    "array of texts": lambda X: np.array(texts(X), dtype=object),
    "series of texts": lambda X: pd.Series(texts(X)),
    "pandas with a column of texts": lambda X: X.assign(text=texts(X)),
}


def _read_only(array):
    array.flags.writeable = False
    return array


# ---- models --------------------------------------------------------------------------------------------------------

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
    "xgboost.Booster, survival:aft": Model(boosted({"objective": "survival:aft"}), "positive"),
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
    "Pipeline of SelectKBest": Model(piped(partial(SelectKBest, k=2)), "numbers", True),
    "Pipeline of SelectFromModel": Model(
        piped(lambda: SelectFromModel(forest(), threshold=-np.inf, max_features=2)), "numbers", True
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
    "RFE": Model(lambda X, y: RFE(forest(), n_features_to_select=2).fit(X, y), "numbers", True),
    "RFECV": Model(lambda X, y: RFECV(forest(), cv=2).fit(X, y), "numbers", True),
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
        lambda X, y: ensemble.StackingClassifier([("f", classifier())], LogisticRegression(), cv=2).fit(X, y), "0/1"
    ),
    "OneVsRestClassifier": Model(lambda X, y: OneVsRestClassifier(classifier()).fit(X, y), "three classes"),
    "OneVsOneClassifier": Model(lambda X, y: OneVsOneClassifier(classifier()).fit(X, y), "three classes"),
    "OutputCodeClassifier": Model(
        lambda X, y: OutputCodeClassifier(classifier(), random_state=0).fit(X, y), "three classes"
    ),
}


def squared_error_of_lightgbm(y, margin):
    return margin - y, np.ones(len(y))


# ---- combinations --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Combination:
    """One line of the table: a model, what X is, what y is."""

    model: str
    container: str
    target: str

    def __str__(self) -> str:
        return f"{self.model}, {self.container}, {self.target}"


def combinations() -> Iterator[Combination]:
    """Yield each model on its usual rows, then each container and each target with the models that take them."""
    seen = set()
    for combination in _every():
        if combination not in seen:
            seen.add(combination)
            yield combination


def _every() -> Iterator[Combination]:
    for name, model in MODELS.items():
        yield Combination(name, model.container, model.target)
    for container in CONTAINERS:
        for name in _takers(container):
            yield Combination(name, container, MODELS[name].target)
    for target in (*TARGETS, *SPOILT):
        for name in _learners(target):
            yield Combination(name, "pandas", target)


ABORTS = ("polars categories", "polars text", "pyarrow dictionary")
BOOSTERS = ("HistGradientBoostingRegressor", "XGBRegressor", "LGBMRegressor")


def _takers(container: str) -> tuple[str, ...]:
    """Return the models whose libraries are tried with a container."""
    if "DMatrix" in container:
        return ("xgboost.Booster", "XGBRegressor")
    if "Dataset" in container:
        return ("lightgbm.Booster",)
    if "texts" in container:
        return () if "pandas" in container else ("Pipeline of a TfidfVectorizer",)
    if "categories" in container or "dictionary" in container:
        return (*BOOSTERS, "Pipeline of a ColumnTransformer (one-hot)")
    if "text" in container or "str" in container:
        return ("Pipeline of a ColumnTransformer (one-hot)", "RandomForestRegressor", "LGBMRegressor")
    return ("RandomForestRegressor", *BOOSTERS)


def _learners(target: str) -> tuple[str, ...]:
    """Return the models that are tried with a target."""
    known = SPOILT[target][0] if target in SPOILT else target
    sort = np.asarray(TARGETS[known](np.linspace(-3, 3, 40)))
    regression = sort.dtype.kind == "f" and known not in ("0.0/1.0",) or known in ("whole numbers", "counts", "dates")
    if known == "counts" and target != known:
        return ("XGBRegressor(objective='count:poisson')", "HistGradientBoostingRegressor(loss='poisson')")
    if sort.ndim == 2 and sort.shape[1] == 2:
        return ("RandomForestRegressor", "XGBRegressor") if regression else ("RandomForestClassifier", "XGBClassifier")
    if target == "grades in groups":
        return ()
    return (
        ("RandomForestRegressor", "XGBRegressor", "LGBMRegressor")
        if regression
        else ("RandomForestClassifier", "HistGradientBoostingClassifier", "XGBClassifier", "LGBMClassifier")
    )


# ---- running -------------------------------------------------------------------------------------------------------


def run(combination: Combination) -> str:
    """Return what an audit of the combination says: the rows it used, or the first sentence of the refusal."""
    model, container = MODELS[combination.model], CONTAINERS[combination.container]
    known, spoil = SPOILT.get(combination.target, (combination.target, lambda y: y))
    X, latent = rows(0)
    fresh, latent_of_fresh = (X, latent) if model.bagged else rows(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if combination.model.startswith("LGBM") and combination.container in ABORTS:
                raise ValueError("aborts the process")
            fitted = model.fit(container(X), TARGETS[known](latent))
            trained = ""
        except Exception as error:
            if combination.container == "pandas":
                return f"NOT FITTED: {type(error).__name__}: {first_sentence(str(error))}"
            trained = f"[not fitted {type(error).__name__}] "
            fitted = model.fit(X, TARGETS[known](latent))
        try:
            audit = debias.audit(
                fitted, container(fresh), spoil(TARGETS[known](latent_of_fresh)), seed=0, n_permutations=20, n_jobs=1
            )
        except debias.DebiasError as error:
            return f"{trained}refused: {first_sentence(str(error))}"
        except Exception as error:
            return f"{trained}RAW: {type(error).__name__}: {first_sentence(str(error))}"
    best = audit.table["share"].astype(float).idxmax()
    return f"{trained}{audit.rows_in_words}; {best}; {audit.untested_because}"


def rows(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    return X, 2 * X["a"].to_numpy() + 0.5 * X["b"].to_numpy() + rng.normal(scale=0.5, size=N)


def first_sentence(message: str) -> str:
    return re.split(r"(?<=[.;:])\s", " ".join(message.split()), maxsplit=1)[0][:300]


if __name__ == "__main__":
    from time import perf_counter

    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for combination in combinations():
        if wanted in str(combination):
            begin = perf_counter()
            found = run(combination)
            print(f"{perf_counter() - begin:5.2f}  {combination}  ->  {found}", flush=True)
