import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xgboost
from click.testing import CliRunner

import debias
from debias.cli import main, output
from support import simulated
from support.shell import in_bash
from support.versions import READ_EXACTLY


@pytest.fixture(scope="module")
def files(tmp_path_factory, models):
    """Model files of XGBoost and LightGBM, and held-out rows with one column more than the models know."""
    X, y = simulated.rows(300, names=["a", "b", "[red]"])
    home = tmp_path_factory.mktemp("cli")
    plain = X.rename(columns={"[red]": "c"})
    models("xgboost").fit(plain[:200], y[:200]).save_model(home / "model.ubj")
    models("xgboost").fit(plain[:200], y[:200]).save_model(home / "model.json")
    models("lightgbm").fit(plain[:200], y[:200]).booster_.save_model(home / "model.txt")
    table = plain.assign(outcome=y, spare=1.0, weight=1.0)
    table[200:].to_csv(home / "heldout.csv", index=False)
    table[200:].to_parquet(home / "heldout.parquet")
    table[200:].to_feather(home / "heldout.feather")
    table[:200].to_csv(home / "train.csv", index=False)
    return home


@pytest.fixture(autouse=True)
def loaded_at_once(monkeypatch):
    """Leave out the child process that tries a model file first; tests/models/test_files.py tests it."""
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("model", ["model.ubj", "model.json", "model.txt"])
def test_audit_prints_the_table_and_says_what_was_left_out(files, model):
    done = run("audit", files / model, files / "heldout.csv", "--target", "outcome", "--weight", "weight")
    assert done.exit_code == 0, done.output
    assert "debiased share" in done.stdout
    assert "Scored on 100 assumed held-out rows" in done.stdout
    assert "left out: spare" in done.stderr


def test_the_main_scorer_and_the_test_are_options(files):
    given = ("audit", files / "model.ubj", files / "heldout.csv", "--target", "outcome", "--weight", "weight")
    given = (*given, "--format", "json")
    audit = debias.Audit.from_json(run(*given, "--tested", "mdi_oob", "--test", "naive").stdout)
    assert audit.tested_scorer == "mdi_oob"
    assert audit.tested_scores.details["test"]["method"] == "naive"
    untested = debias.Audit.from_json(run(*given, "--test", "none").stdout)
    assert set(untested.verdict) == {"untested"}
    assert "--tested mdi uses no rows" in run(*given, "--tested", "mdi").stderr
    assert run(*given, "--test", "mirror").exit_code == 2


@pytest.mark.parametrize("data", ["heldout.parquet", "heldout.feather"])
def test_other_tables_give_the_same_numbers(files, data):
    given = ("--target", "outcome", "--weight", "weight", "--format", "csv")
    assert (
        run("audit", files / "model.ubj", files / data, *given).stdout
        == run("audit", files / "model.ubj", files / "heldout.csv", *given).stdout
    )


@pytest.mark.quick
def test_json_is_the_audit_of_the_library(files, tmp_path):
    done = run(
        "audit", files / "model.ubj", files / "heldout.csv", "--target", "outcome", "--weight", "weight",
        "--format", "json", "--json", tmp_path / "audit.json", "--scorer", "mdi_oob", "--scorer", "gain",
    )  # fmt: skip
    frame = pd.read_csv(files / "heldout.csv", **READ_EXACTLY)
    model = debias.load_model(files / "model.ubj")
    expected = debias.audit(model, frame[["a", "b", "c"]], frame["outcome"], ["mdi_oob", "gain"])
    found = debias.Audit.from_json(done.stdout)
    assert found.to_dict() == debias.Audit.from_json((tmp_path / "audit.json").read_text()).to_dict()
    np.testing.assert_array_equal(found.share, expected.share)
    assert list(found.scores) == ["mdi_oob", "gain"]


def test_score_prints_one_scorer(files):
    done = run("score", files / "model.txt", files / "heldout.csv", "--target", "outcome", "--scorer", "oob_split")
    assert done.exit_code == 0, done.output
    assert "oob_split (impurity decrease on evaluation rows)" in done.stdout


def test_score_takes_training_rows_beside(files):
    done = run(
        "score", files / "model.txt", files / "heldout.csv", "--target", "outcome", "--scorer", "ufi",
        "--train", files / "train.csv", "--format", "json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["scorer"] == "ufi"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["heldout.csv", "--target", "nothing"], 2, "has no column 'nothing'; it has a, b, c"),
        (["heldout.csv"], 2, "Missing option '--target'"),
        (["nothing.csv", "--target", "outcome"], 2, "does not exist"),
        (["train.csv", "--target", "outcome"], 3, "error: these are the training rows"),
        (
            ["heldout.csv", "--target", "a"],
            3,
            "error: DATA does not have the columns the model was trained on; missing: a",
        ),
        (["heldout.csv", "--target", "outcome", "--scorer", "nothing"], 2, "there is no scorer 'nothing'"),
        (["heldout.csv", "--target", "outcom"], 2, "Did you mean 'outcome'?"),
        (["heldout.csv", "--target", "outcome", "--blocks", "site"], 2, "has no column 'site'"),
        (["heldout.csv", "--target", "outcome", "--drop", "site"], 2, "has no column 'site'"),
        (["heldout.csv", "--target", "outcome", "--separator", "no"], 2, "pass one character, such as ';', or tab"),
        (["heldout.csv", "--target", "outcome", "--level", "words"], 2, "is not one of 'source', 'model'"),
        (["model.ubj", "--target", "outcome"], 2, "model.ubj is no table: the model comes first, then"),
    ],
)
def test_wrong_use_has_its_exit_code_and_a_message(files, arguments, code, message):
    data, *rest = arguments
    done = run("audit", files / "model.ubj", files / data, *rest)
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--scorer", "mdi_obo"], "Did you mean 'mdi_oob'?"),
        (["--scorer", "mdi_oob(shrink=1)"], "shrink"),
        (["--tested", "guide"], "--tested guide is not a scorer of trees"),
        (["--scorer", "mdi", "--scorer", "mdi"], "mdi is asked for twice"),
        (["--html", "none/report.html"], "--html: the folder"),
        (["--json", "none/audit.json"], "--json: the folder"),
        (["--target", "nothing"], "has no column 'nothing'"),
    ],
)
def test_what_is_wrong_is_told_before_the_model_is_loaded(files, given, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("debias.models.loading.load", lambda *_, **__: pytest.fail("the model was loaded"))
    done = run("audit", files / "model.ubj", files / "heldout.csv", "--target", "outcome", *given)
    assert done.exit_code in (2, 3)
    assert message in done.stderr


@pytest.mark.parametrize(("separator", "given", "name"), [(";", ";", "';'"), ("\t", "tab", "tab"), ("|", "|", "'|'")])
def test_tables_with_another_separator_are_refused_until_it_is_given(files, tmp_path, separator, given, name):
    table = pd.read_csv(files / "heldout.csv", **READ_EXACTLY)
    table.to_csv(tmp_path / "table.csv", sep=separator, decimal=",", index=False)
    rest = ("--target", "outcome", "--rows", "held-out", "--format", "csv")
    done = run("score", files / "model.ubj", tmp_path / "table.csv", *rest)
    assert done.exit_code == 2
    assert f"seem to be separated by {name}: pass --separator {name}" in done.stderr
    assert "note: columns of " not in done.stderr
    done = run("score", files / "model.ubj", tmp_path / "table.csv", *rest, "--separator", given)
    assert "have decimal commas, so pass --decimal ',': a, b" in done.stderr
    asked = ("--separator", given, "--decimal", ",")
    done = run("score", files / "model.ubj", tmp_path / "table.csv", *rest, *asked)
    assert done.stdout == run("score", files / "model.ubj", files / "heldout.csv", *rest).stdout


def test_a_table_of_another_encoding_is_told_to_be_saved_as_utf8(files, tmp_path):
    (tmp_path / "table.csv").write_bytes("größe,outcome\n1,2\n".encode("latin-1"))
    done = run("score", files / "model.ubj", tmp_path / "table.csv", "--target", "outcome")
    assert (done.exit_code, "it is not UTF-8 text. Save it as UTF-8" in done.stderr) == (2, True), done.stderr


def test_blocks_groups_and_level_are_those_of_the_library(files, tmp_path):
    table = pd.read_csv(files / "heldout.csv", **READ_EXACTLY).assign(site=np.arange(100) // 5)
    table.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "groups.toml").write_text('both = ["a", "b"]')
    done = run(
        "audit", files / "model.ubj", tmp_path / "table.csv", "--target", "outcome", "--rows", "held-out",
        "--drop", "weight", "--blocks", "site", "--groups", tmp_path / "groups.toml", "--level", "source",
        "--format", "json",
    )  # fmt: skip
    audit = debias.Audit.from_json(done.stdout)
    with pytest.warns(debias.DebiasWarning, match="left out: outcome, spare, site|left out"):
        expected = debias.audit(
            debias.load_model(files / "model.ubj"),
            debias.Dataset(table.drop(columns="weight"), table.outcome, blocks=table.site),
            rows="held-out",
            groups={"both": ["a", "b"]},
            level="source",
        )
    assert list(audit.to_frame().index) == ["both", "c"]
    np.testing.assert_array_equal(audit.tested_scores.values, expected.tested_scores.values)
    np.testing.assert_array_equal(audit.tested_scores.p_value, expected.tested_scores.p_value)
    assert audit.tested_scores.details["test"]["blocks"]
    assert "left out: spare" in done.stderr


def test_queries_are_a_column_of_both_tables(tmp_path):
    def table(seed):
        X, y = simulated.rows(200, names="abc", seed=seed)
        return X.assign(relevance=(y > y.median()).astype(int), query=np.arange(200) // 10)

    train, test = table(0), table(1)
    ranker = xgboost.XGBRanker(n_estimators=5, n_jobs=1)
    ranker.fit(train[list("abc")], train["relevance"], qid=train["query"]).save_model(tmp_path / "model.ubj")
    for name, rows in (("train", train), ("test", test), ("bare", train.drop(columns="query"))):
        rows.to_parquet(tmp_path / f"{name}.parquet")
    given = ("score", tmp_path / "model.ubj", tmp_path / "test.parquet", "--target", "relevance", "--rows", "held-out")
    given += ("--scorer", "ufi", "--format", "json")
    done = run(*given, "--qid", "query", "--train", tmp_path / "train.parquet")
    scores = debias.Scores.from_json(done.stdout)
    expected = debias.score(
        ranker,
        debias.Dataset(test[list("abc")], test["relevance"], qid=test["query"]),
        scorer="ufi",
        rows="held-out",
        train=debias.Dataset(train[list("abc")], train["relevance"], qid=train["query"]),
    )
    np.testing.assert_array_equal(scores.values, expected.values)
    for more, said in (
        ((), "pass --qid COLUMN, the query of each row"),
        (("--qid", "query", "--train", tmp_path / "bare.parquet"), "has no column 'query'"),
    ):
        done = run(*given, *more)
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_an_interrupt_is_no_failed_gate(files, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("debias.models.loading.load", interrupted)
    done = run("audit", files / "model.ubj", files / "heldout.csv", "--target", "outcome")
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


def test_a_panic_of_a_package_is_no_failed_gate(capsys):
    class Panic(BaseException):
        """As the PanicException of packages in Rust, which is no Exception."""

    with pytest.raises(SystemExit) as ended, output.errors():
        raise Panic("of Rust")
    assert (ended.value.code, "Panic: of Rust" in capsys.readouterr().err) == (3, True)


def test_what_ends_a_generator_is_no_error():
    def results():
        with output.errors():
            yield 1

    waiting = results()
    next(waiting)
    waiting.close()


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_reader_that_is_gone_is_no_failed_gate_and_gets_no_message(files, form):
    given = ["--no-model", files / "heldout.csv", "--target", "outcome", "--scorer", "guide", "--format", form]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        command = [sys.executable, "-m", "debias.cli", "score", *map(str, given)]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "warning: " not in line]) == (141, [])


def test_another_broken_pipe_is_an_error(monkeypatch, capsys):
    with open(os.devnull, "w") as somewhere, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", somewhere)
        with pytest.raises(SystemExit) as ended, output.errors():
            raise BrokenPipeError("of a worker")
    assert (ended.value.code, capsys.readouterr().err) == (3, "error: of a worker\n")


@pytest.mark.thorough
def test_help_does_not_import_what_takes_long():
    code = (
        "import sys; from debias.cli import main; main(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'numpy'" in loaded
    for slow in ("pandas", "sklearn", "xgboost", "lightgbm", "matplotlib", "joblib", "rich"):
        assert f"'{slow}'" not in loaded


@pytest.mark.parametrize("content", [b"", b"{", b'{"learner": 3}', b"tree\nversion=v4\nrubbish", b"\x80\x04pickle"])
@pytest.mark.parametrize("name", ["model.json", "model.txt", "model.pkl"])
def test_files_that_are_no_models_are_refused(content, name, files, tmp_path):
    (tmp_path / name).write_bytes(content)
    done = run("audit", tmp_path / name, files / "heldout.csv", "--target", "outcome")
    assert done.exit_code == 3
    assert done.stderr.startswith("error: ")


def test_plugins_lists_scorers_and_adapters():
    done = run("plugins")
    assert done.exit_code == 0
    for name in ("mdi_oob", "sklearn_forests", "debias-trees"):
        assert name in done.stdout


def test_plugins_are_listed_for_programs_too():
    expected = debias.plugin.plugins().to_dict("records")
    assert json.loads(run("plugins", "--format", "json").stdout) == expected
    read = pd.read_csv(io.StringIO(run("plugins", "--format", "csv").stdout), keep_default_na=False, dtype=str)
    assert read.to_dict("records") == expected


def test_feature_names_are_shown_as_they_are(models):
    from rich.console import Console

    from debias.results.console import print_audit

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["[red]", "[/]"])
    forest = models("sklearn").fit(X, X["[red]"])
    console = Console(width=60, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - closed with the process
    print_audit(console, debias.audit(forest, X, X["[red]"]))
    console.file.close()
    assert "[red]" in (text := console.export_text())
    assert "[/]" in text


@pytest.mark.parametrize("command", [[], ["audit"], ["score"], ["check"], ["demo"], ["plugins"], ["bench"]])
def test_help_is_there(command):
    done = run(*command, "--help")
    assert done.exit_code == 0
    assert "Usage:" in done.stdout
    assert "\b" not in done.stdout
    assert r"\b" not in done.stdout
    assert not command or re.search(rf"\nExamples?:\n  debias {command[0]} ", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 80


PAGE = (Path(__file__).parents[2] / "docs/shell.md").read_text()


def printed(command):
    done = in_bash(command)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("debias a", {"audit"}),
        ("debias audit --all", {"--allow-pickle"}),
        ("debias audit m.ubj d.csv --rows h", {"held-out"}),
        ("debias bench li-", {"li-table1", "li-chip", "li-depth", "li-matched"}),
    ],
)
def test_completion_of_the_page_completes_in_bash(typed, expected):
    command = re.search(r"<!-- completion bash -->\n```sh\n(.*?)```", PAGE, re.S).group(1)
    words = typed.split(" ")
    found = printed(
        f"{command}\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        "_debias_completion debias\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    )
    assert set(found.split()) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_for_other_shells_is_printed(shell):
    command = re.search(rf"<!-- completion {shell} -->\n```sh\n(.*?)```", PAGE, re.S).group(1)
    assert f"_DEBIAS_COMPLETE={shell}_source debias" in command
    script = printed(f"_DEBIAS_COMPLETE={shell}_source debias")
    assert f"_DEBIAS_COMPLETE={shell}_complete" in script
