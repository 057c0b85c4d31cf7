"""`debias monitor`."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from xgboost import XGBRegressor

import debias
from debias.cli import main


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model, the rows of 24 days, and a history of them. From day 13 on age has no effect."""
    here = tmp_path_factory.mktemp("monitor")
    rng = np.random.default_rng(0)

    def rows(n_rows, effect):
        X = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["bmi", "age", "noise"])
        return X, X["bmi"] + effect * X["age"] + 0.5 * rng.normal(size=n_rows)

    X, y = rows(800, 1.0)
    model = XGBRegressor(n_estimators=30, max_depth=3, random_state=0, n_jobs=1).fit(X, y)
    model.save_model(here / "model.ubj")
    history = debias.History(model, here / "kept.history")
    for day in range(1, 25):
        X, y = rows(200, 1.0 if day < 13 else 0.0)
        X.assign(y=y, id=1).to_csv(here / f"day{day}.csv", index=False)
        history.add(X, y, at=f"2026-11-{day:02}")
    (here / "policy.toml").write_text('[history]\nmust_not_fade = ["bmi"]\nmin_periods = 5\n')
    (here / "strict.toml").write_text('min_rows = 1\n[history]\nmust_not_fade = "all"\n')
    return here


@pytest.fixture
def run(home, monkeypatch):
    monkeypatch.chdir(home)
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(main, ["monitor", *map(str, arguments)])


def add(run, history, day, *arguments, at=None):
    at = f"2026-11-{day:02}" if at is None else at
    return run("add", history, "model.ubj", f"day{day}.csv", "--target", "y", "--drop", "id", "--at", at, *arguments)


@pytest.mark.thorough
def test_adding_is_idempotent_and_refuses_other_rows(run, home, tmp_path):
    path = tmp_path / "new.history"
    done = add(run, path, 1)
    assert (done.exit_code, done.stdout) == (0, "2026-11-01: added\n")
    done = add(run, path, 1)
    assert (done.exit_code, done.stdout) == (0, "2026-11-01: these rows were there before, so nothing changed\n")
    done = add(run, path, 2, at="2026-11-01")
    assert done.exit_code == 3
    assert "Pass --replace to replace them, or --part NAME if" in done.stderr
    assert add(run, path, 2, "--part", "two", at="2026-11-01").exit_code == 0
    assert add(run, path, 3, "--replace", at="2026-11-01").exit_code == 0
    done = add(run, path, 3, at="2026-11-03")
    assert "warning: period 2026-11-03 has the same rows as period 2026-11-01" in done.stderr
    periods = debias.History.open(path).periods
    assert periods["parts"].tolist() == [2, 1]


@pytest.mark.thorough
def test_the_command_adds_what_the_library_adds(run, tmp_path):
    path = tmp_path / "new.history"
    assert add(run, path, 4).exit_code == 0
    scores, expected = debias.History.open(path).scores(), debias.History.open("kept.history").scores()
    np.testing.assert_allclose(scores.iloc[0], expected.loc["2026-11-04"], rtol=1e-9)


@pytest.mark.parametrize(("at", "kind"), [("7", "int64"), ("2.5", "float64"), ("batch", "object"), ("-3", "int64")])
def test_periods_are_dates_numbers_or_labels(run, tmp_path, at, kind):
    path = tmp_path / "new.history"
    assert add(run, path, 1, f"--at={at}").exit_code == 0
    assert debias.History.open(path).scores().index.dtype == kind


@pytest.mark.parametrize("at", ["1.10", "007", "+7", "-0", "7e3", "nan", "2026-01", "123456789012345678901"])
def test_digits_that_are_no_number_of_python_are_a_label(run, tmp_path, at):
    path = tmp_path / "new.history"
    assert add(run, path, 1, at=at).exit_code == 0
    assert debias.History.open(path).periods.index.tolist() == [at]


def test_another_number_is_not_replaced(run, tmp_path):
    path = tmp_path / "new.history"
    add(run, path, 1, at="1.1")
    done = add(run, path, 2, "--replace", at="1.10")
    assert done.exit_code == 2
    assert "--at 1.10 is of another kind" in done.stderr.replace("'", "")
    assert run("remove", path, "--at", "1.10").exit_code == 3
    assert run("remove", path, "--at", "1.1").exit_code == 0


def test_digits_are_a_label_in_a_history_of_labels(run, tmp_path):
    path = tmp_path / "new.history"
    for day, at in enumerate(("1.10", "1.11", "2"), 1):
        assert add(run, path, day, at=at).exit_code == 0
    assert debias.History.open(path).periods.index.tolist() == ["1.10", "1.11", "2"]
    assert run("remove", path, "--at", "2").exit_code == 0


def test_a_file_without_contents_has_no_kind_yet(run, tmp_path):
    path = tmp_path / "new.history"
    path.touch()  # as a process that was killed leaves it
    assert add(run, path, 1, at="7").exit_code == 0
    assert debias.History.open(path).periods.index.tolist() == [7]


def test_what_to_do_with_a_period_of_named_parts_is_told_in_options(run, tmp_path):
    path, other = tmp_path / "new.history", tmp_path / "other.history"
    add(run, path, 1, "--part", "one")
    add(run, other, 2, at="2026-11-01")
    for done in (add(run, path, 2, at="2026-11-01"), run("merge", path, other)):
        assert done.exit_code == 3
        text = " ".join(done.stderr.split())
        assert "has 1 part already ('one'): 200 rows" in text
        assert "Pass --replace to" in text
        assert "--part NAME" in text
        assert "part=" not in text


def test_wrong_use_has_its_exit_code_and_a_message(run, tmp_path):
    for arguments, code, message in (
        (("add", "x", "model.ubj", "day1.csv", "--target", "y"), 2, "--at"),
        (("add", "x", "model.ubj", "day1.csv", "--target", "z", "--at", "1"), 2, "no column 'z'"),
        (("add", "model.ubj", "model.ubj", "day1.csv", "--target", "y", "--at", "1"), 2, "the same file"),
        (
            ("add", tmp_path / "x", "model.ubj", "day1.csv", "--target", "y", "--at", "2026-02-30"),
            2,
            "day is out of range",
        ),
        (
            ("add", tmp_path / "x", "model.ubj", "day1.csv", "--target", "y", "--at", "2026-1-1"),
            2,
            "write dates as year-month-day, such as 2026-01-31",
        ),
        (("add", tmp_path / "a" / "x", "model.ubj", "day1.csv", "--target", "y", "--at", "1"), 2, "does not exist"),
        (("add", "day2.csv", "model.ubj", "day1.csv", "--target", "y", "--at", "1"), 3, "is not a history of debias"),
        (("show", "absent.history"), 3, "there is no history"),
        (("show", "kept.history", "--window", "month"), 2, "--window month is not a window"),
        (("changes", "kept.history", "--series", "x"), 2, "there is no series 'x'"),
        (("check", "kept.history", "--policy", "absent.toml"), 2, "does not exist"),
        (("check", "kept.history", "--policy", "policy.toml", "--recent", "30x"), 2, "--recent 30x is not a window"),
        (("changes", "kept.history", "--reference", "0d"), 2, "--reference 0d is not a window"),
        (("merge", "kept.history", "kept.history"), 3, "this history itself"),
    ):
        done = run(*arguments)
        assert done.exit_code == code, (arguments, done.output)
        assert message in " ".join(done.stderr.split()), (arguments, done.stderr)


def test_show_prints_scores_in_three_forms(run):
    scores = debias.History.open("kept.history").scores("3d")
    done = run("show", "kept.history", "--window", "3d")
    assert done.exit_code == 0
    assert "model 1 (XGBoost XGBRegressor): 24 periods from 2026-11-01 to 2026-11-24" in done.stdout
    assert f"{scores['bmi'].iloc[-1]:.3f}" in done.stdout
    rows = list(csv.DictReader(io.StringIO(run("show", "kept.history", "--window", "3d", "--format", "csv").stdout)))
    assert [row["at"] for row in rows][:2] == ["2026-11-01", "2026-11-02"]
    np.testing.assert_allclose([float(row["age"]) for row in rows], scores["age"], rtol=1e-12)
    plain = json.loads(run("show", "kept.history", "--window", "3d", "--format", "json").stdout)
    np.testing.assert_allclose([period["scores"] for period in plain["periods"]], scores, rtol=1e-12)
    assert plain["window"] == "3d"
    assert plain["models"][0]["series"] == "model 1"


def test_changes_are_those_of_the_library(run):
    expected = debias.History.open("kept.history").changes("10d", looks=9)
    done = run("changes", "kept.history", "--recent", "10d", "--looks", "9", "--format", "json")
    assert json.loads(done.stdout) == expected.to_dict()
    table = run("changes", "kept.history", "--recent", "10d").stdout
    assert table.startswith(expected.summary()[0][:60])
    assert "faded" in table
    assert run("changes", "kept.history", "--recent", "10", "--format", "csv").stdout.startswith("feature,before")
    assert "Nothing was compared" in run("changes", "kept.history").stdout


@pytest.mark.thorough
def test_any_number_of_looks(run, tmp_path):
    """The history that `debias monitor add` makes, the changes and the gate of it, and errors that say what to type."""
    path, (policy, both) = tmp_path / "any.history", (tmp_path / "any.toml", tmp_path / "both.toml")
    for day in range(1, 13):
        assert add(run, path, day, "--kept-rows", "0", at=str(day)).exit_code == 0
    policy.write_text("[history]\nmust_not_be_biased = true\n")
    both.write_text('[history]\nmust_not_be_biased = true\nmust_not_fade = ["age"]\n')
    given = ("--looks", "any", "--recent", "2", "--reference", "first 10")
    expected = debias.History.open(path).changes(2, "first 10", looks="any")
    done = run("changes", path, *given, "--format", "json")
    assert json.loads(done.stdout) == expected.to_dict()
    table = " ".join(run("changes", path, *given).stdout.split())
    assert "Not judged at any look" in table
    done = run("check", path, "--policy", policy, *given)
    assert done.exit_code in (0, 4)  # 4 if the mean residual of these ten periods shows a memory
    assert done.exit_code == (4 if np.isnan(expected.means[2].p_value) else 0)
    done = run("check", path, "--policy", both, *given)
    assert done.exit_code == 4
    assert "not judged at any look" in " ".join(done.stdout.split())
    assert run("fleet", path, *given).exit_code in (0, 4)
    for wrong, code, said in (
        (("--recent", "2", "--reference", "10"), 2, "--reference 10 moves along with time, and --looks any needs"),
        (("--recent", "2", "--reference", "10"), 2, "pass the first periods, such as --reference 'first 60d'"),
        (("--recent", "2"), 0, ""),
        ((), 2, "--recent 30d is a length of time"),
        ((), 2, "pass a number of periods, such as --recent 7"),
        (("--looks", "often"), 2, "'often' is not a number of comparisons: pass 1 or more, such as 365, or any"),
        (("--looks", "0"), 2, "'0' is not a number of comparisons"),
    ):
        done = run("changes", path, "--looks", "any", *wrong)
        assert done.exit_code == code, done.output
        assert said in " ".join(done.stderr.split())


def test_check_has_the_exit_codes_of_the_gate(run, tmp_path):
    passed = run("check", "kept.history", "--policy", "policy.toml", "--recent", "10d")
    assert passed.exit_code == 0, passed.output
    assert "The gate passed." in passed.stdout
    files = ("--junit", tmp_path / "x.xml", "--json", tmp_path / "x.json", "--summary", tmp_path / "x.md")
    failed = run("check", "kept.history", "--policy", "strict.toml", "--recent", "10d", *files)
    assert failed.exit_code == 1
    assert "age: " in " ".join(failed.stdout.split())
    assert "failures=" in (tmp_path / "x.xml").read_text()
    assert json.loads((tmp_path / "x.json").read_text())["series"] == "model 1"
    summary = (tmp_path / "x.md").read_text()
    assert "must\\_not\\_fade" in summary
    assert "\n\nChecked: kept.history. Compared: 10 periods (2026-11-" in summary
    assert "pass --looks, the number of comparisons" in summary
    too_few = run("check", "kept.history", "--policy", "policy.toml", "--recent", "4")
    assert too_few.exit_code == 1
    assert "The gate failed: min_periods. Not judged: must_not_fade: bmi." in " ".join(too_few.stdout.split())
    unjudged = run("check", "kept.history", "--policy", "policy.toml")
    assert unjudged.exit_code == 4
    assert "no period is in the reference window" in " ".join(unjudged.stdout.split())
    assert ". Pass a shorter recent window, such as --recent " in unjudged.stderr
    assert "The gate was not judged: must_not_fade: bmi." in " ".join(unjudged.stdout.split())


def test_check_refuses_rules_for_audits(run, tmp_path):
    (tmp_path / "audit.toml").write_text("min_informative = 1\n")
    done = run("check", "kept.history", "--policy", tmp_path / "audit.toml", "--junit", tmp_path / "x.xml")
    assert done.exit_code == 2
    assert "that rule is for an audit" in done.stderr
    assert 'errors="0"' in (tmp_path / "x.xml").read_text() or "<error" in (tmp_path / "x.xml").read_text()
    done = run("check", "absent.history", "--policy", "policy.toml")
    assert done.exit_code == 3


def test_a_period_can_be_removed(run, tmp_path):
    path = tmp_path / "new.history"
    add(run, path, 1)
    add(run, path, 2)
    add(run, path, 3, "--part", "two", at="2026-11-02")
    done = run("remove", path, "--at", "2026-11-02", "--part", "two")
    assert (done.exit_code, done.stdout) == (0, "2026-11-02: 1 part removed\n")
    expected = debias.History.open("kept.history").scores()
    np.testing.assert_allclose(debias.History.open(path).scores(), expected[:2], rtol=1e-9)
    assert run("remove", path, "--at", "2026-11-02").exit_code == 0
    assert debias.History.open(path).periods["n_rows"].tolist() == [200]
    done = run("remove", path, "--at", "2026-11-02")
    assert done.exit_code == 3
    assert "'model 1' has no period 2026-11-02: nothing was removed" in done.stderr
    absent = tmp_path / "absent.history"
    assert run("remove", absent, "--at", "1").exit_code == 3
    assert not absent.exists()


def test_the_policy_of_the_page_is_one(run, tmp_path):
    page = (Path(__file__).parents[2] / "docs/gate.md").read_text()
    policy = page.partition("<!-- history policy -->\n```toml\n")[2].partition("```")[0]
    (tmp_path / "page.toml").write_text(policy)
    done = run("check", "kept.history", "--policy", tmp_path / "page.toml", "--recent", "10d", "--format", "json")
    rules = [result["rule"] for result in json.loads(done.stdout)["results"]]
    assert rules == [
        "min_rows",
        "max_unseen",
        "max_repeated",
        "must_not_be_biased",
        "max_shift",
        "must_not_fade: income",
    ]


@pytest.mark.thorough
def test_reports_are_written(run, tmp_path):
    assert run("show", "kept.history", "--window", "3", "--html", tmp_path / "show.html").exit_code == 0
    assert run("changes", "kept.history", "--recent", "9", "--html", tmp_path / "changes.html").exit_code == 0
    for name in ("show", "changes"):
        assert "bmi" in (tmp_path / f"{name}.html").read_text()
    path = tmp_path / "numbers.history"
    for day in (1, 2):
        assert add(run, path, day, at=str(day)).exit_code == 0
    assert run("show", path, "--html", tmp_path / "numbers.html").exit_code == 0
    assert "Not judged: no period is in the reference window" in (tmp_path / "numbers.html").read_text()


def test_merge_makes_the_history_and_adds_what_is_missing(run, tmp_path):
    path = tmp_path / "all.history"
    done = run("merge", path, "kept.history")
    assert (done.exit_code, done.stdout) == (0, "kept.history: 24 parts added\n")
    assert run("merge", path, "kept.history").stdout == "kept.history: 0 parts added\n"
    assert len(debias.History.open(path).periods) == 24
    other = tmp_path / "other.history"
    add(run, other, 1, "--part", "two")
    done = run("merge", path, other)  # the rows of the whole period, under a name
    assert (done.exit_code, done.stdout) == (0, f"{other}: 0 parts added\n")
    again = tmp_path / "again.history"
    add(run, again, 1, "--part", "two", at="2026-11-02")
    done = run("merge", path, again)
    assert (done.exit_code, done.stdout) == (0, f"{again}: 1 part added\n")
    assert "warning: period 2026-11-02, part 'two' has the same rows as period 2026-11-01" in done.stderr


def test_a_rule_may_be_allowed_not_to_be_judged(run, tmp_path):
    given = ("check", "kept.history", "--policy", "policy.toml", "--junit", tmp_path / "x.xml")
    unjudged = run(*given)
    assert (unjudged.exit_code, "<error" in (tmp_path / "x.xml").read_text()) == (4, True)
    allowed = run(*given, "--allow-not-judged", "must_not_fade", "--format", "json")
    assert allowed.exit_code == 0, allowed.output
    assert json.loads(allowed.stdout)["allowed_not_judged"] == ["must_not_fade"]
    assert "<skipped" in (tmp_path / "x.xml").read_text()
    assert run(*given, "--allow-not-judged", "must_not_fade: bmi").exit_code == 0
    assert run(*given, "--allow-not-judged", "must_not_fade: age").exit_code == 4  # another result of the rule
    misspelt = run(*given, "--allow-not-judged", "must_not_fde")
    assert misspelt.exit_code == 2
    assert "there is no rule 'must_not_fde'; rules are must_not_fade," in " ".join(misspelt.stderr.split())


@pytest.mark.thorough
def test_how_many_rows_have_parts_of_the_loss(run, tmp_path):
    for options, expected in (((), 200), (("--loss-rows", "30"), 30), (("--loss-rows", "0"), None)):
        path = tmp_path / f"{len(options)}{expected}.history"
        for day in (1, 2):
            assert add(run, path, day, *options).exit_code == 0
        done = run("changes", path, "--recent", "1", "--reference", "first 1", "--format", "json")
        found = json.loads(done.stdout)
        assert (found["loss"] and found["loss"]["n_rows"]) == (expected and [expected, expected])
    assert "added without parts of the loss" in found["no_loss_because"]


def test_no_rows_are_kept_where_they_may_not_be(run, home, tmp_path):
    rows = pd.read_csv(home / "day1.csv")[["bmi", "age", "noise"]].to_numpy(dtype=np.float32).astype("<f8")
    for options, kept in (((), 50), (("--kept-rows", "7"), 7), (("--kept-rows", "0"), 0)):
        path = tmp_path / f"{kept}.history"
        assert add(run, path, 1, *options).exit_code == 0
        content = path.read_bytes()
        assert sum(row.tobytes() in content for row in rows) >= 0.9 * kept  # some may be on two pages of the file
        assert sum(row.tobytes() in content for row in rows) <= kept
    assert add(run, tmp_path / "x.history", 1, "--loss-rows", "-1").exit_code == 2


def test_with_the_model_causes_of_a_higher_loss_are_told(run, home):
    windows = ("--recent", "8", "--reference", "first 12")
    done = run("changes", "kept.history", *windows, "--model", "model.ubj", "--format", "json")
    assert done.exit_code == 0, done.output
    model = debias.load_model(home / "model.ubj")
    expected = debias.History(model, home / "kept.history").changes("8", "first 12")
    assert [cause.feature for cause in expected.loss.causes] == ["age"]
    assert json.loads(done.stdout) == expected.to_dict()
    without = " ".join(run("changes", "kept.history", *windows).stdout.split())
    assert "not known: this history was opened without the model" in without
    done = run("check", "kept.history", *windows, "--model", "model.ubj", "--policy", "policy.toml")
    assert done.exit_code in (0, 1), done.output


@pytest.mark.thorough
def test_a_new_model_gets_the_past_days_and_the_changes_are_divided(run, home, tmp_path):
    path = tmp_path / "both.history"
    path.write_bytes((home / "kept.history").read_bytes())
    days = [pd.read_csv(home / f"day{day}.csv").assign(day=f"2026-11-{day:02}") for day in range(1, 25)]
    pd.concat(days).to_csv(tmp_path / "past.csv", index=False)
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(800, 3)), columns=["bmi", "age", "noise"])
    model = XGBRegressor(n_estimators=30, max_depth=3, random_state=1, n_jobs=1)
    model.fit(X, X["bmi"] + 0.5 * rng.normal(size=800)).save_model(tmp_path / "new.ubj")
    given = ("--target", "y", "--drop", "id", "--period", "day", "--label", "new", "--trained-until")
    past = ("backfill", path, tmp_path / "new.ubj", tmp_path / "past.csv", *given)
    refused = run(*past, "2026-11-24")
    assert refused.exit_code == 3
    assert "no period was added: 24 periods left out" in " ".join(refused.stderr.split())
    part = run(*past, "2026-11-21")
    assert (part.exit_code, part.stdout) == (0, "3 periods added\n")
    assert "21 periods left out (2026-11-01, " in " ".join(part.stderr.split())
    done = run(*past, "none")
    assert (done.exit_code, done.stdout) == (0, "21 periods added, 3 were there before\n")
    assert run(*past, "none").stdout == "0 periods added, 24 were there before\n"
    new = debias.History(debias.load_model(tmp_path / "new.ubj"), path)
    expected = new.data_or_model(recent="12d", old="model 1")
    shown = run(
        *("data-or-model", path, "--recent", "12d", "--new", "new", "--json", tmp_path / "a.json"),
        *("--html", tmp_path / "a.html", "--format", "csv"),
    )
    assert (shown.exit_code, shown.stdout) == (0, expected.to_csv())
    assert (tmp_path / "a.json").read_text() == expected.to_json() + "\n"
    assert "Data or model" in (tmp_path / "a.html").read_text()
    table = run("data-or-model", path, "--recent", "12d", "--new", "new")
    assert expected.summary()[0] in " ".join(table.stdout.split())
    assert expected.to_frame().loc["age", "verdict"] in ("data", "data and model")
    wrong = run("data-or-model", path, "--recent", "12 moons")
    assert wrong.exit_code == 2


@pytest.mark.thorough
def test_rows_without_a_period_and_other_columns_are_refused(run, home, tmp_path):
    table = pd.read_csv(home / "day1.csv").assign(day=["2026-11-01"] * 199 + [None])
    table.to_csv(tmp_path / "past.csv", index=False)
    given = ("model.ubj", tmp_path / "past.csv", "--target", "y", "--drop", "id", "--trained-until", "none")
    done = run("backfill", home / "kept.history", *given, "--period", "day")
    assert done.exit_code == 2
    assert "does not name the period of every row" in done.stderr
    done = run("backfill", home / "kept.history", *given, "--period", "days")
    assert done.exit_code == 2
    assert "has no column 'days'" in done.stderr


@pytest.mark.thorough
def test_pairs_are_named_with_each_period(run, home, tmp_path):
    path = tmp_path / "pairs.history"
    for day in range(1, 17):
        assert add(run, path, day, "--interaction", "bmi", "age").exit_code == 0
    done = run("changes", path, "--recent", "8", "--reference", "8")
    assert done.exit_code == 0
    assert "Two features together" in done.stdout
    assert "bmi with age" in done.stdout
    plain = json.loads(run("changes", path, "--recent", "8", "--reference", "8", "--format", "json").stdout)
    found = debias.History.open(path).changes(8, 8).pairs
    assert plain["pairs"]["pairs"] == [["bmi", "age"]]
    assert plain["pairs"]["statistics"]["slope_before"] == found.statistics["slope_before"].tolist()
    done = add(run, path, 17, "--interaction", "bmi", "bmi")
    assert (done.exit_code, "two different features" in done.stderr) == (2, True)
    done = add(run, path, 17, "--interaction", "bmi", "weight")
    assert done.exit_code == 2
    assert "--interaction names 'weight', which is no column" in done.stderr
