"""Scorers that need only data: what they are given, with a model and without."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import debias
from debias.cli import main


@debias.plugin.data_scorer_plugin("test_n_values", unit="values")
def n_values(data, *, missing=True):
    """Count the distinct values, missing being one."""
    values = [column.values if missing else column.values[~np.isnan(column.values)] for column in data.columns]
    return np.array([len(np.unique(each)) for each in values], dtype=float)


@debias.plugin.data_scorer_plugin("test_keep", unit="none")
def keep(data):
    """Keep what came."""
    keep.function.data = data
    return np.zeros(data.n_features)


@pytest.fixture(scope="module", autouse=True)
def registered():
    debias.plugin.register(n_values)
    yield
    manager = debias.hooks.registry.plugin_manager()
    manager.unregister(name="test_n_values")


def mixed():
    return pd.DataFrame(
        {
            "number": [1.5, np.nan, 2.0, 2.0],
            "category": pd.Categorical(["u", None, "v", "u"]),
            "ordered": pd.Categorical(["lo", "hi", None, "lo"], categories=["lo", "hi"], ordered=True),
            "text": ["b", "a", "b", None],
            "whole": pd.array([1, None, 3, 3], dtype="Int64"),
            "flag": [True, False, True, True],
        }
    )


def test_columns_are_numbers_or_categories_and_keep_what_is_missing():
    data = debias.plugin.Data.of(mixed(), [0, 1, 0, 1])
    nan = np.nan
    expected = {
        "number": ([1.5, nan, 2, 2], False),
        "category": ([0, nan, 1, 0], True),
        "ordered": ([0, 1, nan, 0], False),
        "text": ([1, 0, 1, nan], True),
        "whole": ([1, nan, 3, 3], False),
        "flag": ([1, 0, 1, 1], False),
    }
    assert data.feature_names == tuple(expected)
    for column, (values, categorical) in zip(data.columns, expected.values(), strict=True):
        np.testing.assert_array_equal(column.values, values)
        assert column.categorical is categorical
    assert data.columns[0].codes.tolist() == [0, 2, 1, 1]


@pytest.mark.quick
def test_tables_of_other_libraries_give_the_same_columns():
    frame = mixed().drop(columns="ordered")
    mine = debias.plugin.Data.of(frame, [0, 1, 0, 1])
    for other in (pl.from_pandas(frame), pl.from_pandas(frame).to_arrow()):
        theirs = debias.plugin.Data.of(other, [0, 1, 0, 1])
        assert theirs.feature_names == mine.feature_names
        for a, b in zip(mine.columns, theirs.columns, strict=True):
            np.testing.assert_array_equal(a.values, b.values)
            assert a.categorical == b.categorical


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["a", "b", "a", "b"], True),
        ([True, False, True, True], True),
        ([3, 1, 1, 3], True),
        ([3.0, 1.0, 1.0, 3.0], True),
        ([0.5, 1, 1, 3], False),
    ],
)
def test_whether_y_is_of_classes(y, classes):
    assert debias.plugin.Data.of(np.eye(4), y).is_classification is classes


def test_whole_numbers_of_many_values_are_numbers_unless_a_model_says_otherwise(models):
    X, y = np.arange(84.0).reshape(42, 2), np.arange(42) // 2
    assert not debias.plugin.Data.of(X, y).is_classification
    forest = models("sklearn", "classification").fit(X, y)
    assert debias.plugin.Data.of(X, y, ensemble=debias.plugin.extract(forest)).is_classification


def test_a_score_without_a_model():
    scores = debias.score(None, mixed(), [0, 1, 0, 1], "test_n_values", missing=False)
    assert scores.values.tolist() == [2, 2, 2, 2, 2, 2]
    assert (scores.rows, scores.n_rows, scores.provenance, scores.settings["model"]) == ("data", 4, {}, None)
    assert debias.score(None, mixed(), [0, 1, 0, 1], "test_n_values").values.tolist() == [3, 3, 3, 3, 3, 2]
    assert debias.Scores.from_json(scores.to_json()).scorer == "test_n_values(missing=False)"


def test_with_a_model_the_rows_passed_are_scored_under_its_names(diabetes, models):
    X, y = diabetes
    forest = models("sklearn", n_estimators=3).fit(X, y)
    shuffled = X[:50][X.columns[::-1]].sample(frac=1, random_state=0)
    scores = debias.score(forest, shuffled, y[shuffled.index], "test_n_values")
    assert scores.feature_names == tuple(X.columns)
    np.testing.assert_array_equal(scores.values, X[:50].nunique())
    assert debias.score(forest, X.to_numpy(), y, "test_n_values").feature_names == tuple(X.columns)
    audit = debias.audit(forest, X, y, ["test_n_values"])
    np.testing.assert_array_equal(audit.to_frame()["test_n_values"][X.columns], X.nunique())


def test_other_data_share_the_decoded_columns():
    data = debias.plugin.Data.of(mixed(), [0, 1, 0, 1])
    columns = data.columns
    assert data.with_response(data.y[::-1]).columns is columns
    assert data.with_features(data.X[["flag"]]).feature_names == ("flag",)
    assert data.with_response(data.y[::-1]).y.tolist() == [1, 0, 1, 0]


def test_a_scorer_gets_weights_seed_threads_and_labels():
    debias.score(None, np.eye(3), ["a", "b", "a"], keep, sample_weight=[1, 2, 3], random_state=7, n_jobs=2)
    data = keep.function.data
    assert (data.seed, data.n_jobs, data.weight.tolist()) == (7, 2, [1, 2, 3])
    classes, codes = data.labels
    assert (classes.tolist(), codes.tolist()) == (["a", "b"], [0, 1, 0])
    with pytest.raises(debias.RowsError, match="not numeric"):
        _ = data.numbers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": None}, "pass X and y"),
        ({"y": None}, "y is missing"),
        ({"X": np.ones(3)}, r"two-dimensional \(n_rows, n_features\); it has shape \(3,\)$"),
        ({"X": ["good film", "bad film", "film"]}, r"For texts, pass what .*: vectorizer.transform\(texts\)"),
        ({"X": np.ones((3, 0))}, "nothing to score"),
        ({"X": np.ones((4, 2))}, "y has 3 entries, but X has 4 rows"),
        ({"y": [1, None, 2]}, "y is missing in 1 rows"),
        ({"X": pd.DataFrame({"when": pd.to_datetime(["2020-01-01"] * 3)})}, "'when' .* neither numbers nor categories"),
        ({"X": pd.DataFrame({"mix": [1, "a", 2]})}, "'mix' .* neither numbers nor categories"),
        ({"X": pl.DataFrame({"list": [[1], [2], [3]]})}, "'list' .* neither numbers nor categories"),
        ({"X": np.array([[np.inf], [1], [2]])}, "infinite in row 0"),
        ({"X": pd.DataFrame(np.eye(3), columns=["a", "a", "b"])}, "same name: a"),
        ({"sample_weight": [1, 2]}, "sample_weight has shape"),
        ({"rows": "oob"}, "leave `rows`"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
)
def test_bad_data_are_refused(change, message):
    given = {"model": None, "X": np.eye(3), "y": [0, 1, 0], "scorer": "test_n_values"} | change
    with pytest.raises(debias.RowsError, match=message):
        debias.score(**given)


def test_columns_a_model_does_not_know_are_refused(diabetes, models):
    X, y = diabetes
    forest = models("sklearn", n_estimators=3).fit(X, y)
    with pytest.raises(debias.RowsError, match="missing: bmi; unknown to the model: BMI"):
        debias.score(forest, X.rename(columns={"bmi": "BMI"}), y, "test_n_values")


def test_a_scorer_of_models_is_refused_without_one():
    with pytest.raises(debias.UnsupportedModelError, match="mdi_oob scores a fitted model"):
        debias.score(None, np.eye(3), [0, 1, 0])


def test_the_command_line_scores_data_alone(tmp_path):
    mixed().assign(outcome=[0, 1, 0, 1]).to_csv(tmp_path / "table.csv", index=False)
    table = str(tmp_path / "table.csv")
    given = ["score", "--no-model", table, "--target", "outcome", "--scorer", "test_n_values"]
    done = CliRunner().invoke(main, [*given, "--format", "csv"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1] == "number,3.0"
    assert "4 rows of data: test_n_values (values)" in CliRunner().invoke(main, given).stdout
    for wrong in (["score", table, "--target", "outcome"], [*given, table]):
        done = CliRunner().invoke(main, wrong)
        assert (done.exit_code, "--no-model and only DATA" in done.stderr) == (2, True)
    for wrong, message in (
        (["--scorer", "mdi_oob"], "mdi_oob scores a model"),
        (["--params", table], "--params needs a model"),
        (["--train", table], "--train needs a model"),
    ):
        done = CliRunner().invoke(main, [*given, *wrong])
        assert (done.exit_code, message in done.stderr) == (2, True)
