"""Tests of each library, container and special value: rows are scored as the model reads them, or refused.

What the library predicts for the rows as they are passed is the reference. Where it refuses a container or text in the
place of categories, the reference is what it predicts for the same rows as it was trained; where it refuses these too,
so must debias.
"""

from functools import cache

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost
from sklearn import ensemble
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import debias
from debias.data.table import Table
from debias.models.wrappers import unwrap
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog
from support.versions import at_least, needs

N = 120
LABELS = np.array(["u", "v", "w", "x"], dtype=object)
QUICK = {"n_jobs": 1, "random_state": 0}
BIN = {"min_child_samples": 5, "min_data_per_group": 5, "verbose": -1}


def hist(**settings):
    return ensemble.HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=5, random_state=0, **settings)


def fit_cat(X, y, labelled):
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 6, "depth": 3, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoostRegressor(**settings, one_hot_max_size=50, cat_features=["c"] if labelled else None)
    return model.fit(X, y)


def fit_booster(X, y, labelled):
    settings = {"nthread": 1, "max_depth": 3}
    return xgboost.train(settings, xgboost.DMatrix(X, y, enable_categorical=True), 5)


def fit_light(X, y, labelled):
    settings = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "min_data_per_group": 5}
    return lightgbm.train(settings, lightgbm.Dataset(X, y), 6)


FIT = {
    "forest": lambda X, y, _: ensemble.RandomForestRegressor(4, **QUICK).fit(X, y),
    "boosting": lambda X, y, _: ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0).fit(X, y),
    "histograms": lambda X, y, labelled: hist(categorical_features=["c"] if labelled else None).fit(X, y),
    "XGBRegressor": lambda X, y, _: xgboost.XGBRegressor(
        n_estimators=5, max_depth=3, enable_categorical=True, **QUICK
    ).fit(X, y),
    "xgboost.Booster": fit_booster,
    "LGBMRegressor": lambda X, y, _: lightgbm.LGBMRegressor(n_estimators=6, **BIN, **QUICK).fit(X, y),
    "lightgbm.Booster": fit_light,
    "CatBoost": fit_cat,
}


def predicted(model, X):
    """What the library itself predicts, of rows in any container it takes."""
    plain = isinstance(X, np.ndarray) or hasattr(X, "tocsr") or isinstance(X, pd.DataFrame)
    is_catboost = type(model).__module__.startswith("catboost.")
    if not plain and (is_catboost or isinstance(model, (lightgbm.LGBMModel, lightgbm.Booster))):
        X = X.to_pandas()  # on text in such a table LightGBM aborts the process
    if isinstance(model, xgboost.Booster):
        frame = hasattr(X, "columns")
        fields = {"feature_names": None if frame else model.feature_names}
        fields |= {"feature_types": None if frame else model.feature_types, "enable_categorical": True}
        raw = model.predict(xgboost.DMatrix(X, **fields), output_margin=True)
    elif isinstance(model, xgboost.XGBModel):
        raw = model.predict(X, output_margin=True, validate_features=False)
    elif isinstance(model, (lightgbm.LGBMModel, lightgbm.Booster)):
        raw = model.predict(X, raw_score=True)
    else:
        raw = model.predict(X)
    return np.asarray(raw, dtype=np.float64).reshape(X.shape[0], -1)


def draw(seed):
    rng = np.random.default_rng(seed)
    a, b, k, gone = rng.normal(size=N), rng.normal(size=N), rng.integers(0, 4, N), rng.random(N) < 0.2
    return {"a": a, "b": b, "k": k, "gone": gone}, a + b + 2 * (k % 2) + 3 * gone + rng.normal(size=N) * 0.3


def frame_of(values, c):
    return pd.DataFrame({"a": values["a"], "b": values["b"], "c": c})


def labels(values, missing=None, of=LABELS):
    """Labels by code, with something else where a value is gone."""
    found = np.array([of[code % len(of)] for code in values["k"]], dtype=object)
    if missing is not ...:
        found[values["gone"]] = missing
    return found


def text(dtype, missing=...):
    return lambda values: frame_of(values, pd.Series(labels(values, missing), dtype=dtype))


def category(order="uvwx", of=LABELS, missing=..., **settings):
    order = list(order) if order is not None else None
    return lambda values: frame_of(values, pd.Categorical(labels(values, missing, of), categories=order, **settings))


def coded(values):
    return frame_of(values, values["k"])


def object_array(values):
    return text(object)(values).to_numpy(dtype=object)


def polars_of(c):
    return lambda values: pl.DataFrame({"a": values["a"], "b": values["b"], "c": c(values)})


PLAIN, BY_NAME = text(object), category()
MISSING = {"None": None, "NaN": np.nan, "NA": pd.NA}
OF_LABELS = {
    f"{kind}, missing {name}": (text(kind, value), text(kind, value))
    for kind in ("object", "category", "str")
    for name, value in MISSING.items()
}
OF_LABELS |= {
    "None in training, NaN in new rows": (text(object, None), text(object, np.nan)),
    "NaN in training, None in new rows": (text(object, np.nan), text(object, None)),
    "None in training, a category missing in new rows": (text(object, None), text("category", None)),
    "None in training, null in polars": (
        text(object, None),
        polars_of(lambda values: pl.Series([*labels(values, None)], dtype=pl.String)),
    ),
    "missing in new rows only": (PLAIN, text(object, None)),
    "a category missing in new rows only": (text("category"), text("category", None)),
    "unseen text": (PLAIN, text(object, "new")),
    "an unseen category": (text("category"), text("category", "new")),
    "categories in another order": (BY_NAME, category("xwvu")),
    "categories in no order of theirs": (category("wuxv"), category("wuxv")),
    "fewer categories": (BY_NAME, lambda values: category("wvu")(values | {"k": values["k"] % 3})),
    "ordered categories": (category("wuxv", ordered=True), category("wuxv", ordered=True)),
    "text for categories": (BY_NAME, text(object)),
    "string for categories": (BY_NAME, text("string")),
    "polars categories": (
        BY_NAME,
        polars_of(lambda values: pl.Series([*labels(values, ...)], dtype=pl.Categorical)),
    ),
    "polars text": (BY_NAME, polars_of(lambda values: labels(values, ...).tolist())),
    "an Arrow dictionary": (BY_NAME, lambda values: pa.table(dict(category()(values)))),
    "codes for categories": (BY_NAME, coded),
    "codes in an array": (BY_NAME, lambda values: coded(values).to_numpy()),
    "labels in an array": (BY_NAME, object_array),
    "columns in another order": (BY_NAME, lambda values: category()(values)[["c", "a", "b"]]),
    "another column": (BY_NAME, lambda values: category()(values).assign(z=1.0)),
    "text after whole numbers": (category([3, 1, 2], (3, 1, 2)), category(["3", "1", "2"], ("3", "1", "2"))),
    "floats after whole numbers": (category([3, 1, 2], (3, 1, 2)), category([3.0, 1.0, 2.0], (3.0, 1.0, 2.0))),
    "dates": (
        category(pd.date_range("2020-01-01", periods=4)[::-1], pd.date_range("2020-01-01", periods=4)),
        category(pd.date_range("2020-01-01", periods=4), pd.date_range("2020-01-01", periods=4)),
    ),
}
for _name, _of in {
    "whole numbers": [30, 10, 20, 40],
    "codes shuffled": [3, 1, 0, 2],
    "negative numbers": [-1, 5, -7, 2],
    "large numbers": [2**53, 2**53 + 1, 2**60, 2**60 + 1],
    "floats": [3.5, 1.5, 2.5, 4.5],
    "bools": [True, False],
    "digits": ["10", "9", "8", "7"],
}.items():
    _trained = category(_of, _of)
    OF_LABELS[f"{_name} as categories"] = (_trained, category(sorted(_of), _of))
    OF_LABELS[f"{_name} as they are"] = (
        _trained,
        lambda values, of=_of: frame_of(values, [*labels(values, ..., of)]),
    )
    OF_LABELS[f"{_name} in an array"] = (
        _trained,
        lambda values, of=_of: frame_of(values, pd.Series([*labels(values, ..., of)])).to_numpy(),
    )

CONTAINERS = {
    "array": lambda M: M,
    "Fortran": np.asfortranarray,
    "list": lambda M: M.tolist(),
    "objects": lambda M: M.astype(object),
    "pandas": lambda M: pd.DataFrame(M, columns=list("abc")),
    "pandas nullable": lambda M: pd.DataFrame(M, columns=list("abc")).convert_dtypes(),
    "pandas Arrow": lambda M: pd.DataFrame(M, columns=list("abc")).convert_dtypes(dtype_backend="pyarrow"),
    "pandas objects": lambda M: pd.DataFrame(
        {name: pd.Series([*M[:, k]], dtype=object) for k, name in enumerate("abc")}
    ),
    "polars": lambda M: pl.DataFrame({name: pl.Series(M[:, k], nan_to_null=True) for k, name in enumerate("abc")}),
    "Arrow": lambda M: pa.table({name: pa.array(M[:, k], from_pandas=True) for k, name in enumerate("abc")}),
    "csr": sp.csr_matrix,
    "csc": sp.csc_array,
}
VALUES = {"NaN": np.nan, "inf": np.inf, "-0.0": -0.0, "tiny": -1e-36, "too large": 1e39}


def numbers(container, value=None, dtype=np.float64):
    def make(values):
        M = np.column_stack([values["a"], values["b"], values["k"]]).astype(dtype)
        if value is not None:
            M[values["gone"], 1] = value
        return container(M)

    return make


def whole(container, beyond, dtype=np.int64):
    """Neighbouring whole numbers, so large that a float may not tell them apart."""

    def make(values):
        fine = np.column_stack(
            [values["k"] * 8 + np.round(values["a"] * 3), values["k"] + 9, np.round(values["b"] * 9)]
        )
        return container((fine.astype(np.int64) + beyond).astype(dtype))

    return make


def column(c):
    return lambda values: frame_of(values, c(values))


def gone(kind, value):
    """Whole numbers or truth values, some missing."""

    def make(values):
        plain = [bool(k % 2) if kind in ("boolean", "truth") else int(k) for k in values["k"]]
        found = [value if lost else each for lost, each in zip(values["gone"], plain, strict=True)]
        return pd.Series(found, dtype=object if kind in ("object", "truth") else kind)

    return make


TRAINED = {name: numbers(CONTAINERS[name]) for name in ("array", "pandas", "csr")}
OF_NUMBERS = {
    f"{value} in {name}": (numbers(container, special), numbers(container, special))
    for name, container in CONTAINERS.items()
    for value, special in VALUES.items()
    if name in ("array", "pandas", "csr") or value in ("NaN", "inf")
}
OF_NUMBERS |= {
    f"{name} beside {trained}": (trained_on, numbers(container))
    for trained, trained_on in TRAINED.items()
    for name, container in CONTAINERS.items()
}
OF_NUMBERS |= {
    f"whole numbers near 2**{bits} in {name}": (whole(CONTAINERS[name], 2**bits), whole(CONTAINERS[name], 2**bits))
    for bits in (24, 53, 62)
    for name in ("array", "list", "objects", "pandas", "pandas nullable", "pandas Arrow")
}
OF_NUMBERS |= {
    "int32": (whole(CONTAINERS["array"], 2**24, np.int32),) * 2,
    "uint64": (whole(CONTAINERS["array"], 2**63 + 2**40, np.uint64),) * 2,
    "trained on float64, int64 in new rows": (
        whole(CONTAINERS["array"], 2**24, float),
        whole(CONTAINERS["array"], 2**24),
    ),
    "float32": (numbers(CONTAINERS["array"], dtype=np.float32),) * 2,
    "float16": (numbers(CONTAINERS["pandas"], dtype=np.float16),) * 2,
    "trained on float32, float64 in new rows": (
        numbers(CONTAINERS["array"], dtype=np.float32),
        lambda values: numbers(CONTAINERS["array"], dtype=np.float32)(values).astype(float) + 1e-9,
    ),
    "Int64 with NA": (column(gone("Int64", pd.NA)),) * 2,
    "boolean with NA": (column(gone("boolean", pd.NA)),) * 2,
    "bools": (column(lambda values: values["k"] % 2 == 1),) * 2,
    "bools as objects": (column(gone("truth", None)),) * 2,
    "None in numbers": (column(gone("object", None)),) * 2,
    "NA in numbers": (column(gone("object", pd.NA)),) * 2,
    "None in an array": (lambda values: column(gone("object", None))(values).to_numpy(dtype=object),) * 2,
    "text of numbers": (lambda values: numbers(CONTAINERS["array"])(values).astype(str).astype(object),) * 2,
    "dates": (column(lambda values: pd.Timestamp("2020") + pd.to_timedelta(values["k"], unit="D")),) * 2,
    "names that are numbers": (lambda values: pd.DataFrame(numbers(CONTAINERS["array"])(values)),) * 2,
}
CASES = {f"labels: {name}": (*made, True) for name, made in OF_LABELS.items()}
CASES |= {f"numbers: {name}": (*made, False) for name, made in OF_NUMBERS.items()}


@cache
def fitted(fit, trained, labelled):
    """Return a model and its trees; None if the library does not train on the container, or the model is refused."""
    values, y = draw(0)
    try:
        model = fit(trained(values), y, labelled)
        return model, debias.plugin.extract(model)
    except Exception:
        return None


def outcome(fit, trained, new, labelled):
    """Score, and compare the trees on every row with the library: what became of it."""
    values_new, y_new = draw(1)
    made = fitted(fit, trained, labelled)
    if made is None:
        return "no such model"
    model, trees = made
    X = new(values_new)
    try:
        scores = debias.score(model, X, y_new, rows="held-out")
    except debias.DebiasError:
        return "refused"
    assert np.isfinite(scores.values).all()
    try:
        theirs = predicted(model, np.asarray(X) if isinstance(X, list) else X)
    except Exception:
        try:
            theirs = predicted(model, trained(values_new))
        except Exception:
            return "SCORED, though the model refuses the rows"
    if [*getattr(X, "columns", "")] == ["c", "a", "b"]:
        theirs = predicted(model, X[["a", "b", "c"]])  # LightGBM takes columns by position, whatever their names are
    (member,) = unwrap(model, X)  # CatBoost's categories are encoded
    found = Table(member.X).aligned_to(trees, WarningLog(quiet=True)).matrix(trees)
    gap = np.abs(raw_output(trees, route(trees, found)) - theirs).max()
    return "as the model" if gap < 1e-5 else f"OTHERWISE than the model, by {gap:.3g}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_rows_are_read_as_the_model_reads_them_or_refused(case):
    trained, new, labelled = CASES[case]
    found = {name: outcome(fit, trained, new, labelled) for name, fit in FIT.items()}
    assert set(found.values()) <= {"as the model", "refused", "no such model"}, found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FIT)
def test_ordinary_rows_are_not_refused(name):
    for container in ("array", "pandas", "polars", "Arrow"):
        made = numbers(CONTAINERS["pandas" if container != "array" else "array"])
        assert outcome(FIT[name], made, numbers(CONTAINERS[container]), False) == "as the model", container
    if name not in ("forest", "boosting"):
        made = category()
        labels_kept = "xgb" not in name.lower() or at_least("xgboost", "3.1")
        assert outcome(FIT[name], made, made, True) == ("as the model" if labels_kept else "refused")


@pytest.mark.parametrize("name", ["forest", "boosting", "histograms", "XGBRegressor", "LGBMRegressor"])
def test_a_model_that_predicts_0_for_every_row_is_scored(name):
    X = numbers(CONTAINERS["pandas"])(draw(0)[0])
    model = FIT[name](X, np.zeros(N), False)
    assert np.array_equal(debias.score(model, X, np.arange(N) % 2.0, rows="held-out").values, np.zeros(3))


def missing_text(seed):
    """Rows in which only a missing label says something."""
    rng = np.random.default_rng(seed)
    gone = rng.random(400) < 0.2
    town = rng.choice(np.array(["Aarhus", "Bonn", "Cork"], dtype=object), 400)
    X = pd.DataFrame({"town": pd.Series(np.where(gone, None, town), dtype=object), "a": rng.normal(size=400)})
    return X, 3 * gone + rng.normal(size=400)


def test_none_is_a_category_of_hist_gradient_boosting():
    """It once was missing to debias: the column scored .001 instead of 1.7, and 25 rows went another way."""
    (X, y), (X_new, y_new) = missing_text(0), missing_text(1)
    model = ensemble.HistGradientBoostingRegressor(categorical_features=["town"], random_state=0).fit(X, y)
    found = debias.audit(model, X_new, y_new, rows="held-out", random_state=0).to_frame()
    as_nan = ensemble.HistGradientBoostingRegressor(categorical_features=["town"], random_state=0)
    as_nan.fit(X.fillna({"town": np.nan}), y)
    expected = debias.score(as_nan, X_new.fillna({"town": np.nan}), y_new, rows="held-out")
    assert found.loc["town", "verdict"] == "informative"
    np.testing.assert_allclose(found["mdi_oob"], expected.values, rtol=0.05)


NONE = ensemble.HistGradientBoostingRegressor(categorical_features=["town"], max_iter=20, random_state=0)
PASSED_ON = make_column_transformer(("passthrough", ["town", "a"]))
WRAPPED = {
    "pipeline": make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), NONE),
    "pipeline that makes an array": make_pipeline(PASSED_ON, hist(categorical_features=[0])),
    "search": GridSearchCV(NONE, {"max_depth": [3]}, cv=2),
    "vote": ensemble.VotingRegressor([("one", NONE), ("two", NONE)]),
}


@pytest.mark.parametrize("wrapper", WRAPPED)
def test_none_is_a_category_inside_wrappers(wrapper):
    (X, y), (X_new, y_new) = missing_text(0), missing_text(1)
    model = WRAPPED[wrapper].fit(X, y)
    scores = debias.score(model, X_new, y_new, rows="held-out")
    assert scores.values[0] > 0.5


def test_none_is_a_category_inside_a_calibration():
    (X, y), (X_new, y_new) = missing_text(0), missing_text(1)
    inner = ensemble.HistGradientBoostingClassifier(categorical_features=["town"], max_iter=20, random_state=0)
    model = CalibratedClassifierCV(inner, cv=2).fit(X, y > 1)
    assert debias.score(model, X_new, y_new > 1, rows="held-out").values[0] > 0.1


@pytest.fixture
def none_read_as_missing(monkeypatch):
    """Break the reading of labels as it once was."""
    right = Table._labels

    def wrong(table, k, rows=None):
        return np.array([np.nan if label is None else label for label in right(table, k, rows)], dtype=object)

    return lambda: monkeypatch.setattr(Table, "_labels", wrong)


@pytest.mark.filterwarnings("ignore:these rows differ from the training rows:debias.DebiasWarning")
def test_a_reading_of_labels_that_is_wrong_is_seen_by_rare_rows(none_read_as_missing):
    """One row in 5,000 has the label that is read in another way than the model reads it."""
    (X, y), (_, y_new) = missing_text(0), missing_text(1)
    model = ensemble.HistGradientBoostingRegressor(categorical_features=["town"], random_state=0).fit(X, y)
    many = pd.DataFrame({"town": pd.Series(["Bonn"] * 5000, dtype=object), "a": np.linspace(-2, 2, 5000)})
    many.loc[1234, "town"] = None
    response = np.resize(y_new, 5000)
    assert debias.score(model, many, response, rows="held-out").rows == "held-out"
    none_read_as_missing()
    with pytest.raises(debias.errors.ExtractionError, match="predicts otherwise for X as it was passed.* row 1234 "):
        debias.score(model, many, response, rows="held-out")


def test_labels_of_later_batches_are_compared_too(none_read_as_missing):
    """Of a batch after the first, rows with labels that were not there before."""
    (X, y), (X_new, y_new) = missing_text(0), missing_text(1)
    model = ensemble.HistGradientBoostingRegressor(categorical_features=["town"], random_state=0).fit(X, y)
    known = X_new["town"].notna()
    batches = [(X_new[known], y_new[known]), (X_new[~known], y_new[~known])]
    assert debias.score(model, batches).values[0] > 1
    none_read_as_missing()
    with pytest.raises(debias.errors.ExtractionError, match="predicts otherwise for X as it was passed"):
        debias.score(model, batches)


@needs("xgboost", "3.1", "it keeps no labels of categories")
def test_training_rows_beside_held_out_ones_are_compared_too():
    """A Booster takes the numbers of a plain column for codes of the categories it was trained on."""
    (values, y), (values_new, y_new) = draw(0), draw(1)
    train = category([3, 1, 0, 2], [3, 1, 0, 2])
    model = fit_booster(train(values), y, True)
    wrong = frame_of(values, [*labels(values, ..., [3, 1, 0, 2])])
    with pytest.raises(debias.errors.ExtractionError, match="predicts otherwise for X as it was passed"):
        debias.score(model, train(values_new), y_new, "mdi", rows="held-out", train=(wrong, y))
