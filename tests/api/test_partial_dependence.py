"""Partial dependence against scikit-learn's brute force, and against predictions of every library for changed rows."""

import lightgbm
import numpy as np
import pandas as pd
import polars
import pytest
import xgboost
from scipy import sparse
from sklearn import inspection
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import debias
from support.versions import needs

N = 120


def table(categories=False, missing=False):
    rng = np.random.default_rng(3)
    X = pd.DataFrame({name: rng.normal(size=N).round(1) for name in ("one", "two", "three")})
    y = (X["one"] + X["two"] + X["two"] * X["three"]).to_numpy()
    if categories:
        codes = rng.integers(0, 4, N)
        X["kind"] = pd.Categorical.from_codes(codes, pd.Index(list("uvwx"), dtype=object))
        y = y + 4 * (codes % 2)
    if missing:
        X.loc[rng.random(N) < 0.3, "two"] = np.nan
    X.index = rng.permutation(N) + 100
    return X, y + 0.1 * rng.normal(size=N)


def labels(y):
    return np.array(["low", "middle", "top"])[np.digitize(y, [-0.5, 1.0])]


def set_to(X, name, value):
    changed = X.copy()
    dtype = X[name].dtype
    changed[name] = pd.Categorical([value] * len(X), categories=dtype.categories) if dtype == "category" else value
    return changed


def assert_brute(result, X, predict, atol=1e-12):
    """Compare each mean of each curve with the mean prediction for a copy of X with one column set."""
    for name, curve in result.curves.items():
        brute = [np.asarray(predict(set_to(X, name, value))).reshape(len(X), -1).mean(axis=0) for value in curve.values]
        np.testing.assert_allclose(curve.mean, brute, rtol=0, atol=atol)
    assert max(np.ptp(curve.mean) for curve in result.curves.values()) > 0.01


@pytest.mark.thorough
@pytest.mark.parametrize(
    "model",
    [RandomForestRegressor(9, random_state=0), RandomForestClassifier(9, random_state=0), ExtraTreesClassifier(4)],
    ids=lambda model: type(model).__name__,
)
def test_effects_of_forests_are_scikit_learns(model):
    X, y = table()
    model.fit(X, y if isinstance(model, RandomForestRegressor) else labels(y))
    result = debias.partial_dependence(model, X, n_values=N)
    for k, name in enumerate(X):
        theirs = inspection.partial_dependence(model, X, [k], method="brute", kind="both", grid_resolution=N)
        ours = debias.partial_dependence(model, X, name, n_values=N, individual=True)[name]
        np.testing.assert_array_equal(ours.values, theirs["grid_values"][0])
        np.testing.assert_allclose(ours.mean.T, theirs["average"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours.individual, theirs["individual"].transpose(1, 2, 0), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(ours.mean, result[name].mean)


LIGHTGBM = {"n_estimators": 6, "verbose": -1, "n_jobs": 1, "min_child_samples": 5, "min_data_per_group": 5}
NEEDS_LABELS = needs("xgboost", "3.1", "it keeps no labels of categories")
BOOSTED = {
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=6, n_jobs=1, enable_categorical=True),
    "lightgbm": lambda: lightgbm.LGBMRegressor(**LIGHTGBM),
    "hist": lambda: HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=5, categorical_features="from_dtype"),
    "poisson": lambda: lightgbm.LGBMRegressor(**LIGHTGBM, objective="poisson"),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=NEEDS_LABELS) if kind == "xgboost" else kind for kind in BOOSTED]
)
def test_effects_of_boosted_regressions_are_those_of_changed_rows(kind, missing):
    X, y = table(categories=True, missing=missing)
    model = BOOSTED[kind]().fit(X, np.exp(y / 4) if kind == "poisson" else y)
    before = X.copy()
    result = debias.partial_dependence(model, X, n_values=15)
    pd.testing.assert_frame_equal(X, before)
    assert result.unit == "prediction"
    assert result["kind"].values.tolist() == X["kind"].value_counts(sort=True).index.tolist()
    assert not result["kind"].is_numeric
    assert np.isnan(result["two"].values[-1]) == missing
    assert result["two"].n_present == result["two"].values.size - missing
    assert_brute(result, X, model.predict, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "margin"),
    [
        (lambda: xgboost.XGBClassifier(n_estimators=5, n_jobs=1), lambda m, X: m.predict(X, output_margin=True)),
        (lambda: lightgbm.LGBMClassifier(n_estimators=5, verbose=-1), lambda m, X: m.predict_proba(X, raw_score=True)),
        (lambda: GradientBoostingClassifier(n_estimators=5), lambda m, X: m.decision_function(X)),
        (lambda: HistGradientBoostingClassifier(max_iter=5), lambda m, X: m.decision_function(X)),
    ],
    ids=["xgboost", "lightgbm", "boosting", "hist"],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_effects_of_boosted_classifiers_are_those_of_changed_rows(model, margin, n_classes):
    X, y = table()
    codes = np.digitize(y, [-0.5, 1.0][: n_classes - 1])
    fitted = model().fit(X, codes)
    result = debias.partial_dependence(fitted, X, n_values=9)
    assert (result.unit, result.output_names) == ("probability", ("1",) if n_classes == 2 else ("0", "1", "2"))
    assert_brute(result, X, lambda rows: fitted.predict_proba(rows)[:, int(n_classes == 2) :], atol=1e-6)
    raw = debias.partial_dependence(fitted, X, n_values=9, output="raw")
    assert raw.unit == ("log odds" if n_classes == 2 else "raw output")
    assert_brute(raw, X, lambda rows: margin(fitted, rows), atol=1e-5)


def test_two_classes_have_one_output_the_second_class():
    X, y = table()
    model = RandomForestClassifier(5, random_state=0).fit(X, np.where(y > 0, "yes", "no"))
    result = debias.partial_dependence(model, X, n_values=9)
    assert result.output_names == ("yes",)
    assert_brute(result, X, lambda rows: model.predict_proba(rows)[:, 1])


def test_a_loss_without_a_known_probability_gives_the_raw_output():
    X, y = table()
    model = GradientBoostingClassifier(n_estimators=5, loss="exponential").fit(X, y > 0)
    result = debias.partial_dependence(model, X, n_values=5)
    assert result.unit == "raw output"
    assert_brute(result, X, model.decision_function)


def test_effects_of_several_responses_are_those_of_changed_rows():
    X, y = table()
    model = RandomForestRegressor(4, random_state=0).fit(X, np.column_stack([y, -(y**2)]))
    result = debias.partial_dependence(model, X, n_values=6)
    assert result.output_names == ("output 0", "output 1")
    assert_brute(result, X, model.predict)


PIPELINES = {
    "one-hot": [(OneHotEncoder(sparse_output=False), ["kind"])],
    "scaled": [(StandardScaler(), ["one", "two"]), (OneHotEncoder(), ["kind"])],
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", PIPELINES)
def test_pipelines_see_the_changed_column(kind, monkeypatch):
    X, y = table(categories=True)
    columns = make_column_transformer(*PIPELINES[kind], remainder="passthrough")
    model = make_pipeline(columns, RandomForestRegressor(5, random_state=0)).fit(X, y)
    result = debias.partial_dependence(model, X, n_values=8)
    assert list(result.curves) == list(X)
    assert_brute(result, X, model.predict)
    monkeypatch.setattr("debias.models.changed_rows.VALUES_AT_ONCE", 2000)
    in_blocks = debias.partial_dependence(model, X, n_values=8)
    for name in X:
        np.testing.assert_array_equal(in_blocks[name].mean, result[name].mean)


@pytest.mark.parametrize("transformer", [PCA(2), PolynomialFeatures(2)], ids=["pca", "products"])
def test_columns_that_are_computed_from_several_columns(transformer):
    X, y = table()
    model = make_pipeline(transformer, RandomForestRegressor(5, random_state=0)).fit(X, y)
    assert_brute(debias.partial_dependence(model, X, n_values=8), X, model.predict)
    seen = pd.DataFrame(model[:-1].transform(X), columns=model[:-1].get_feature_names_out())
    result = debias.partial_dependence(model, X, n_values=8, level="model")
    assert list(result.curves) == list(seen)
    assert_brute(result, seen, lambda rows: model[-1].predict(rows.to_numpy()))


def test_names_for_an_array():
    X, y = table()
    model = RandomForestRegressor(5, random_state=0).fit(X.to_numpy(), y)
    result = debias.partial_dependence(model, debias.Dataset(X.to_numpy(), "two", feature_names=list(X)), n_values=8)
    assert_brute(result, X, lambda rows: model.predict(rows.to_numpy()))


def test_effects_of_an_array_through_a_pipeline_are_those_of_changed_rows():
    X, y = table()
    model = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)).fit(X.to_numpy(), y)
    result = debias.partial_dependence(model, X.to_numpy(), n_values=8)
    assert list(result.curves) == ["x0", "x1", "x2"]
    assert_brute(result, X.set_axis(["x0", "x1", "x2"], axis=1), lambda rows: model.predict(rows.to_numpy()))


def test_columns_in_another_order_and_other_containers():
    X, y = table()
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    expected = debias.partial_dependence(model, X, n_values=8)
    with pytest.warns(debias.DebiasWarning, match="another order"):
        reordered = debias.partial_dependence(model, X[["three", "one", "two"]], n_values=8)
    of_polars = debias.partial_dependence(model, polars.from_pandas(X.reset_index(drop=True)), n_values=8)
    for result in (reordered, of_polars):
        assert list(result.curves) == list(X)
        for name in X:
            np.testing.assert_array_equal(result[name].mean, expected[name].mean)
    unnamed = RandomForestRegressor(5, random_state=0).fit(X.to_numpy(), y)
    of_sparse = debias.partial_dependence(unnamed, sparse.csr_matrix(X.to_numpy()), "x1", n_values=8)["x1"]
    np.testing.assert_array_equal(of_sparse.mean, expected["two"].mean)


def test_numbers_are_quantiles_and_labels_the_most_frequent():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"number": rng.normal(size=1000), "code": rng.choice(list("abcde"), 1000, p=[0.1, 0.4, 0.3, 0.15, 0.05])}
    )
    X["code"] = X["code"].astype("category")
    model = HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype").fit(X, rng.normal(size=1000))
    result = debias.partial_dependence(model, X, n_values=3)
    expected = np.quantile(X["number"], [0.01, 0.5, 0.99], method="inverted_cdf")
    np.testing.assert_array_equal(result["number"].values, expected)
    assert result["code"].values.tolist() == ["b", "c", "d"]
    assert result["code"].n_omitted == 2
    frame = result.to_frame()
    assert frame["feature"].tolist() == ["number"] * 3 + ["code"] * 3
    np.testing.assert_array_equal(frame["prediction"], np.concatenate([c.mean[:, 0] for c in result.curves.values()]))


def test_rows_are_drawn_by_seed():
    X, y = table()
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    np.random.seed(5)  # noqa: NPY002 - the state of others, which must stay
    expected = np.random.RandomState(5).random()
    drawn = [debias.partial_dependence(model, X, max_rows=30, random_state=seed) for seed in (None, 0, 1)]
    assert np.random.random() == expected  # noqa: NPY002
    assert drawn[0].rows.size == np.unique(drawn[0].rows).size == 30
    np.testing.assert_array_equal(drawn[0].rows, drawn[1].rows)
    assert (drawn[0].rows != drawn[2].rows).any()
    assert_brute(drawn[2], X.iloc[drawn[2].rows], model.predict)
    threaded = debias.partial_dependence(model, X, max_rows=30, n_jobs=2)
    np.testing.assert_array_equal(threaded["one"].mean, drawn[0]["one"].mean)


def test_a_calibrated_model_says_that_its_trees_are_not_calibrated():
    X, y = table()
    model = CalibratedClassifierCV(RandomForestClassifier(5, random_state=0), ensemble=False, cv=2).fit(X, y > 0)
    result = debias.partial_dependence(model, X, "one")
    assert "before their probabilities are calibrated" in result.notes[0]
    assert result.unit == "probability of the trees"


@pytest.mark.parametrize(
    ("passed", "error", "message"),
    [
        (
            {"features": "on"},
            debias.RowsError,
            "features has 'on', which is not a column.*Did you mean 'one'",
        ),
        ({"features": []}, debias.RowsError, r"features=\[\] must be the name of a feature, or a list"),
        ({"features": 0}, debias.RowsError, "features=0 must be the name of a feature, or a list"),
        ({"output": "margin"}, debias.plugin.CompositionError, "output='margin' is not one of 'response', 'raw'"),
        ({"n_values": 0}, debias.RowsError, "n_values=0 must be a whole number"),
        ({"max_rows": 2.5}, debias.RowsError, "max_rows=2.5 must be a whole number"),
        ({"random_state": -1}, debias.RowsError, "random_state=-1 must be"),
    ],
)
def test_wrong_use_is_refused(passed, error, message):
    X, y = table()
    model = RandomForestRegressor(2, random_state=0).fit(X, y)
    with pytest.raises(error, match=message):
        debias.partial_dependence(model, X, max_rows=passed.pop("max_rows", 20), **passed)


def test_a_wrapper_of_several_models_is_refused_by_name():
    X, y = table()
    members = [("first", RandomForestRegressor(2)), ("second", RandomForestRegressor(2))]
    with pytest.raises(
        debias.plugin.CompositionError, match="VotingRegressor combines.*member 'first', member 'second'"
    ):
        debias.partial_dependence(VotingRegressor(members).fit(X, y), X)
