"""`debias drop`: its output, files and exit codes."""

import json
import re

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from click.testing import CliRunner

import debias
from debias.cli import main

SETTINGS = {"n_estimators": 40, "max_depth": 3, "learning_rate": 0.2, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1600, 5)), columns=["a", "b", "c", "noise 1", "noise 2"])
    table = X.assign(outcome=X["a"] + X["b"] * X["c"] + 0.7 * rng.normal(size=1600), day=np.arange(1600) // 2)
    home = tmp_path_factory.mktemp("drop")
    xgboost.XGBRegressor(**SETTINGS).fit(X[:400], table["outcome"][:400]).save_model(home / "model.ubj")
    table[:400].to_csv(home / "train.csv", index=False)
    table[400:].to_csv(home / "heldout.csv", index=False)
    table[400:460].to_csv(home / "few.csv", index=False)
    (home / "params.json").write_text(json.dumps({k: v for k, v in SETTINGS.items() if k != "n_estimators"}))
    for name, features in (("kept", ["a"]), ("noise", ["noise 1", "noise 2"]), ("undecided", ["noise 1"])):
        (home / f"{name}.toml").write_text(f"may_drop = {json.dumps(features)}\n")
    (home / "audit.toml").write_text("min_rows = 10\n")
    return home


@pytest.fixture(autouse=True)
def loaded_at_once(monkeypatch):
    """Leave out the child process that tries a model file first; tests/models/test_files.py tests it."""
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def run(home, *more, train=True, rows="heldout.csv"):
    of_train = ["--train", home / "train.csv"] if train else []
    given = [home / "model.ubj", home / rows, "--target", "outcome", "--drop", "day", *of_train]
    return CliRunner().invoke(main, ["drop", *map(str, [*given, "--params", home / "params.json", *more])])


@pytest.mark.thorough
@pytest.mark.quick
def test_it_prints_what_may_be_dropped_and_writes_the_files(files, tmp_path):
    done = run(files, "--json", tmp_path / "drop.json", "--html", tmp_path / "drop.html")
    assert done.exit_code == 0, done.output
    result = debias.Droppable.from_json(tmp_path / "drop.json")
    text = re.sub(r"\s+", " ", done.stdout)
    for sentence in result.summary():
        assert sentence in text
    assert set(result.columns) == {"noise 1", "noise 2"}
    assert result.summary()[0] in re.sub(r"\s+", " ", (tmp_path / "drop.html").read_text())


@pytest.mark.thorough
def test_the_certified_model_is_written_in_the_format_of_its_library(files, tmp_path):
    noise = ("--feature", "noise 1", "--feature", "noise 2")
    done = run(files, *noise, "--model-out", tmp_path / "small.ubj")
    assert done.exit_code == 0, done.output
    small = xgboost.Booster(model_file=str(tmp_path / "small.ubj"))
    assert small.feature_names == ["a", "b", "c"]
    rows = pd.read_csv(files / "heldout.csv")
    train = pd.read_csv(files / "train.csv")
    columns = ["a", "b", "c", "noise 1", "noise 2"]
    model = debias.load_model(files / "model.ubj", params=json.loads((files / "params.json").read_text()))
    given = ((frame[columns], frame["outcome"]) for frame in (rows, train))
    result = debias.droppable(model, *next(given), train=next(given), columns=["noise 1", "noise 2"])
    matrix = xgboost.DMatrix(rows[["a", "b", "c"]])
    np.testing.assert_array_equal(small.predict(matrix), result.model.predict(matrix))


def test_no_model_is_written_without_a_certificate_and_a_wrong_suffix_is_told_before_the_refits(files, tmp_path):
    done = run(files, "--feature", "a", "--model-out", tmp_path / "small.ubj")
    assert done.exit_code == 0, done.output
    assert "small.ubj is not written" in done.stderr
    done = run(files, "--model-out", tmp_path / "small.cbm")
    assert done.exit_code == 3
    assert "a Booster cannot be written to a .cbm. Use .skops" in re.sub(r"\s+", " ", done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_other_formats_are_those_of_the_result(files):
    as_json, as_csv = (run(files, "--format", form, "--feature", "noise 1") for form in ("json", "csv"))
    result = debias.Droppable.from_json(as_json.stdout)
    assert result.path == "given"
    assert as_csv.stdout == result.to_csv()


@pytest.mark.thorough
def test_a_policy_names_the_set_and_decides_the_exit_code(files, tmp_path):
    for name, code, word in (("noise", 0, "passed"), ("kept", 1, "failed")):
        done = run(files, "--policy", files / f"{name}.toml", "--junit", tmp_path / f"{name}.xml")
        assert done.exit_code == code, done.output
        assert f"The gate {word}" in done.stdout
        assert 'name="debias drop"' in (tmp_path / f"{name}.xml").read_text()
        assert ('failures="1"' in (tmp_path / f"{name}.xml").read_text()) == (code == 1)
    # A refit may do better on these rows by chance, as it does with some versions: not at this error rate.
    undecided = ("--policy", files / "undecided.toml", "--tolerance", "1e-6", "--alpha", "0.0001")
    assert run(files, *undecided, rows="few.csv").exit_code == 4
    assert run(files, *undecided, "--allow-not-judged", "may_drop", rows="few.csv").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--level", "model"), "leave --level out"),
        (("--feature", "a", "--policy", "noise.toml"), "leave --feature out"),
        (("--policy", "audit.toml"), "has no rule may_drop"),
        (("--junit", "some.xml"), "are for --policy"),
        (("--feature", "nose 1"), "Did you mean 'noise 1'"),
        (("--rows", "train"), "--rows train cannot be used"),
    ],
)
def test_wrong_use_is_refused(files, options, message, monkeypatch):
    monkeypatch.chdir(files)
    done = run(files, *options)
    assert done.exit_code in (2, 3)
    assert message in re.sub(r"\s+", " ", done.stderr)


def test_training_rows_and_hyper_parameters_are_needed(files):
    done = run(files, train=False)
    assert done.exit_code == 2
    assert "pass its training rows as --train FILE" in done.stderr
    given = ["drop", files / "model.ubj", files / "heldout.csv", "--target", "outcome", "--drop", "day"]
    done = CliRunner().invoke(main, [*map(str, given), "--train", str(files / "train.csv")])
    assert done.exit_code == 3
    assert "--params FILE" in done.stderr


def test_weights_and_categories_of_training_rows_come_from_their_file(tmp_path):
    """The refit of the shell is that of Python, with the weights of training and texts as categories."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 3)), columns=["a", "b", "noise"])
    X["town"], X["code"] = rng.choice(["Bonn", "Köln", "Ulm"], 600), rng.choice([10, 20, 30], 600)
    y = X["a"] + (X["town"] == "Ulm") + (X["code"] == 20) + rng.normal(size=600)
    weight = np.where(y > 0, 5.0, 1.0)
    table = X.assign(y=y, weight=weight)
    table[:300].to_csv(tmp_path / "train.csv", index=False)
    table[300:].to_csv(tmp_path / "fresh.csv", index=False)
    labelled = X.astype({"town": "category", "code": "category"})
    settings = {"n_estimators": 20, "num_leaves": 7, "verbose": -1, "n_jobs": 1}
    model = lightgbm.LGBMRegressor(**settings).fit(labelled[:300], y[:300], sample_weight=weight[:300])
    model.booster_.save_model(tmp_path / "model.txt")
    given = ["drop", *(str(tmp_path / name) for name in ("model.txt", "fresh.csv"))]
    given += ["--target", "y", "--weight", "weight"]
    done = CliRunner().invoke(
        main, [*given, "--train", str(tmp_path / "train.csv"), "--feature", "noise", "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    train = debias.Dataset(labelled[:300], y[:300], sample_weight=weight[:300])
    fresh = debias.Dataset(labelled[300:], y[300:], sample_weight=weight[300:])
    expected = debias.droppable(model.booster_, fresh, train=train, columns=["noise"])
    assert debias.Droppable.from_json(done.stdout).lost == pytest.approx(expected.lost, rel=1e-6)


def test_a_ranker_takes_the_column_of_queries_from_both_files(tmp_path):
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(120), 8)
    X = pd.DataFrame(rng.normal(size=(query.size, 3)), columns=["a", "noise 1", "noise 2"])
    grade = np.digitize(2 * X["a"] + rng.normal(size=query.size), [-1, 0.5, 2])
    booster = xgboost.train(
        {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1}, xgboost.DMatrix(X[:400], grade[:400], qid=query[:400])
    )
    booster.save_model(tmp_path / "model.ubj")
    (tmp_path / "params.json").write_text('{"max_depth": 3}')
    rows = X.assign(target=grade, page=query)
    rows[:400].to_csv(tmp_path / "train.csv", index=False)
    rows[400:].to_csv(tmp_path / "held_out.csv", index=False)
    parts = {name: str(tmp_path / name) for name in ("model.ubj", "held_out.csv", "train.csv", "params.json")}
    options = ["drop", parts["model.ubj"], parts["held_out.csv"], "--target", "target", "--rows", "held-out"]
    options += ["--train", parts["train.csv"], "--params", parts["params.json"], "--tolerance", "0.2"]
    done = CliRunner().invoke(main, [*options, "--qid", "page", "--format", "json"])
    assert done.exit_code == 0, done.output
    result = debias.Droppable.from_json(done.stdout)
    assert result.feature_names == ("a", "noise 1", "noise 2")
    assert result.units == "held-out queries"
    assert "a" not in result.columns
    done = CliRunner().invoke(main, options)
    assert done.exit_code in (2, 3)
    assert "this is a ranker" in done.stderr


def test_the_help_leaves_out_what_is_refused():
    text = CliRunner().invoke(main, ["drop", "--help"]).output
    assert "--level" not in text
    assert "--groups" in text
