"""Tables in text are read by what the model knows: Parquet, Feather and CSV of one table give the same audit."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from click.testing import CliRunner
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from xgboost import XGBRegressor

import debias
from debias.cli import main
from debias.cli.tables import TableFile
from debias.models.known_labels import known_labels
from support.missing_values import IN_FORESTS, needs_them_in_forests
from support.versions import needs

COUNTRIES = ["NA", "None", "n/a", "null", "DE"]
CODES = ["01", "1", "1e5", "100000", "007"]


@pytest.fixture(autouse=True)
def loaded_at_once(monkeypatch):
    """Leave out the child process that tries a model file first; tests/models/test_files.py tests it."""
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_, **__: None)


def rows(n=400, seed=0, missing=0.0):
    """Columns of text that looks like numbers, booleans or missing values, and a response that depends on them."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "country": random.choice(COUNTRIES, n),
            "code": random.choice(CODES, n),
            "flag": random.choice(["True", "False"], n),
            "size": random.normal(size=n),
        }
    )
    y = 2.0 * (X.country == "NA") - (X.country == "None") + (X.code == "01") + (X.flag == "True") + X["size"]
    X["country"] = X.country.mask(random.random(n) < missing)
    X["size"] = X["size"].mask(random.random(n) < missing)
    return X, y + random.normal(scale=0.1, size=n)


def written(home, X, y):
    frame = X.assign(outcome=y)
    paths = [home / f"rows.{ending}" for ending in ("parquet", "feather", "csv")]
    frame.to_parquet(paths[0])
    frame.to_feather(paths[1])
    frame.to_csv(paths[2], index=False)
    return paths


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def audits(model, paths, *options):
    found = []
    for path in paths:
        done = run("audit", model, path, "--target", "outcome", "--test", "none", "--format", "json", *options)
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout))
    return found


ONE_HOT = {"handle_unknown": "ignore", "sparse_output": False}
ENCODERS = {
    "one-hot": lambda: OneHotEncoder(**ONE_HOT),
    "ordinal": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "target": lambda: TargetEncoder(target_type="continuous"),
    "after an imputer": lambda: make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(**ONE_HOT)),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_pipeline_gets_the_same_table_from_parquet_feather_and_csv(tmp_path, encoder, seed):
    X, y = rows(seed=seed, missing=0.1 if encoder != "target" else 0.0)
    X["size"] = X["size"].fillna(0)
    if encoder == "ordinal" and not IN_FORESTS:
        X["country"] = X.country.fillna("nothing")  # it keeps missing values, and debias refuses such trees
    encode = make_column_transformer((ENCODERS[encoder](), ["country", "code", "flag"]), remainder="passthrough")
    model = make_pipeline(encode, RandomForestRegressor(10, random_state=seed)).fit(X[:200], y[:200])
    joblib.dump(model, tmp_path / "model.pkl")
    paths = written(tmp_path, X[200:], y[200:])
    parquet, feather, csv = audits(tmp_path / "model.pkl", paths, "--allow-pickle")
    assert parquet == feather == csv
    audit = debias.Audit.from_json(json.dumps(csv))
    share = dict(zip(audit.tested_scores.feature_names, audit.share, strict=True))
    assert share["country"] > 0.1, "the reproduction: CSV gave 0 to .6 %"


@pytest.mark.parametrize("marks", [(None, np.nan), (np.nan, None)], ids=["trained on None", "trained on NaN"])
@pytest.mark.parametrize("imputer", [False, True])
def test_missing_text_is_what_the_encoder_was_trained_with(marks, imputer):
    trained, read = marks
    X, y = rows(missing=0.3)
    X = X[["country"]].astype(object)
    text = X.country.notna()
    encoder = OneHotEncoder(**ONE_HOT)
    if imputer:
        encoder = make_pipeline(SimpleImputer(missing_values=trained, strategy="most_frequent"), encoder)
    known = X.assign(country=X.country.where(text, trained))
    model = make_pipeline(encoder, RandomForestRegressor(5, random_state=0)).fit(known, y)
    found = X.assign(country=X.country.where(text, read))
    for file in (TableFile("rows.parquet"), TableFile("rows.csv")):
        X_known, _ = file.as_known(found, y.rename("outcome"), known_labels(model))
        np.testing.assert_array_equal(model.predict(X_known), model.predict(known))


@needs("xgboost", "3.1", "it keeps no labels of categories")
def test_boosters_get_their_categories_from_csv(tmp_path):
    X, y = rows(missing=0.1)
    X = X.astype({"country": "category", "code": "category", "flag": "category"})
    model = XGBRegressor(n_estimators=5, enable_categorical=True, n_jobs=1).fit(X[:200], y[:200])
    model.save_model(tmp_path / "model.ubj")
    parquet, feather, csv = audits(tmp_path / "model.ubj", written(tmp_path, X[200:], y[200:]))
    assert parquet == feather == csv


@pytest.mark.parametrize("labels", [["NA", "None"], ["01", "1"], ["True", "False"], [True, False], [1, 10]])
def test_classes_keep_their_spelling(tmp_path, labels):
    X, y = rows()
    label = np.array(labels, dtype=object if isinstance(labels[0], str) else None)[(y > 0).astype(int)]
    model = RandomForestClassifier(5, random_state=0).fit(X[["size"]][:200], label[:200])
    skops.io.dump(model, tmp_path / "model.skops")
    parquet, feather, csv = audits(tmp_path / "model.skops", written(tmp_path, X[["size"]][200:], label[200:]))
    assert parquet == feather == csv


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    """A pipeline whose encoder knows countries, with NA, and a table."""
    home = tmp_path_factory.mktemp("text")
    X, y = rows()
    encode = make_column_transformer((OneHotEncoder(**ONE_HOT), ["country"]), remainder="passthrough")
    names = ["country", "size"]
    model = make_pipeline(encode, RandomForestRegressor(5, random_state=0)).fit(X[names][:200], y[:200])
    skops.io.dump(model, home / "model.skops")
    return home, X[names][200:], y[200:]


def refused(home, X, y, *options):
    X.assign(outcome=y).to_csv(home / "doubtful.csv", index=False)
    done = run("audit", home / "model.skops", home / "doubtful.csv", "--target", "outcome", "--test", "none", *options)
    assert done.exit_code == 2, done.output
    return done.stderr.replace("\n", " ")


def test_text_that_may_be_missing_or_a_category_is_refused(encoded):
    home, X, y = encoded
    unknown = refused(home, X.replace({"country": {"DE": "nan"}}), y)
    assert "column 'country'" in unknown
    assert "has the text 'nan'" in unknown
    assert "Pass --na nan if it means a missing value, or --na '' if only empty cells are missing" in unknown
    both = refused(home, X, y, "--na", "NA")
    assert "--na says that 'NA' is missing, but the model knows it as a category" in both


@needs_them_in_forests
def test_missing_numbers_written_as_text_are_said_with_na(encoded):
    home, X, y = encoded
    texts = X["size"].astype(str).where(X["size"] > -1, "NaN")
    assert "Pass --na NaN" in refused(home, X.assign(size=texts), y)
    X.assign(size=X["size"].where(X["size"] > -1), outcome=y).to_parquet(home / "na.parquet")
    X.assign(size=texts, outcome=y).to_csv(home / "na.csv", index=False)
    parquet, csv = (
        audits(home / "model.skops", [home / name], *options)[0]
        for name, options in (("na.parquet", ()), ("na.csv", ("--na", "NaN")))
    )
    assert parquet == csv


def test_text_where_trees_take_numbers_is_named(tmp_path):
    X, y = rows()
    RandomForestRegressor(5, random_state=0).fit(X[["size"]][:200], y[:200])
    XGBRegressor(n_estimators=2, n_jobs=1).fit(X[["size"]][:200], y[:200]).save_model(tmp_path / "model.ubj")
    X["size"] = X["size"].astype(str).where(X["size"] > 0, "?")
    X[["size"]].assign(outcome=y)[200:].to_csv(tmp_path / "rows.csv", index=False)
    done = run("audit", tmp_path / "model.ubj", tmp_path / "rows.csv", "--target", "outcome")
    assert done.exit_code == 2
    assert "column 'size'" in done.stderr
    assert "has the text '?'" in done.stderr
    assert "--na '?'" in done.stderr.replace("\n", " ")


def test_labels_are_followed_back_to_the_columns_of_the_user():
    X, y = rows()
    encode = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["flag", "code"]),
        (OrdinalEncoder(), ["country"]),
    )
    known = known_labels(make_pipeline(encode, RandomForestRegressor(2)).fit(X, y))
    assert known.by_name(list(X)) == {
        "flag": ["False", "True"], "code": sorted(CODES), "country": sorted(COUNTRIES)
    }  # fmt: skip
    assert not known.others_are_numbers
