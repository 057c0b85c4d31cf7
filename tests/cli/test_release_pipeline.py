"""Each way a gate could fail open, as a release pipeline runs it: files, the command line, an exit code.

Exit codes: 0 passed, 1 a rule failed, 4 not judged, 2 wrong usage or policy, 3 could not load or run.
"""

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from xgboost import XGBRegressor

import debias
from debias.cli import main
from support.shell import in_bash
from support.versions import READ_EXACTLY

COMPARING = "max_verdict_changes = 0\nmax_rank_change = 0\nmax_share_change = 0.5"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A directory with a model, its training and held-out rows, and the audit of the model before.

    `temperature` and one city matter; `customer_id` and the other columns are noise.
    """
    home = tmp_path_factory.mktemp("release")
    for name, seed in (("old", 1), ("new", 0)):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"temperature": rng.normal(size=900), "humidity": rng.normal(size=900)})
        X["customer_id"] = rng.permutation(900).astype(float)
        X["city_Paris"], X["city_Rome"] = (rng.integers(0, 2, 900).astype(float) for _ in range(2))
        y = 2 * X["temperature"] + 2 * X["city_Paris"] + rng.normal(size=900)
        model = XGBRegressor(n_estimators=20, max_depth=3, random_state=0, n_jobs=1).fit(X[:500], y[:500])
        model.save_model(home / f"{name}.ubj")
        rows = X.assign(outcome=y)
        rows[:500].to_csv(home / f"{name}_train.csv", index=False)
        rows[500:].to_csv(home / f"{name}.csv", index=False)
        audit = debias.audit(model, X[500:], y[500:], random_state=0)
        assert dict(zip(X.columns, audit.verdict, strict=True)) == {
            "temperature": "informative",
            "humidity": "indistinguishable",
            "customer_id": "indistinguishable",
            "city_Paris": "informative",
            "city_Rome": "indistinguishable",
        }
        audit.to_json(home / f"{name}.json")
    return home


@pytest.fixture
def check(release, tmp_path, monkeypatch):
    """Return a function that writes a policy and runs `debias check`; what it writes goes to a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)

    def run(policy, *more, data="new.csv", name="debias.toml"):
        if policy is not None:
            (tmp_path / name).write_bytes(policy if isinstance(policy, bytes) else policy.encode())
        files = [str(release / "new.ubj"), str(release / data)]
        given = ["check", *files, "--target", "outcome", "--random-state", "0", "--policy", name, *map(str, more)]
        return CliRunner().invoke(main, given)

    return run


def ended(done, code, said):
    assert (done.exit_code, said in done.stdout + done.stderr) == (code, True), (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("rule", ["must_not_matter", "must_be_informative"])
@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("TEMPERATURE", "'temperature'"),
        ("temp", "'temperature'"),
        ("Temperatur", "'temperature'"),
        ("temperature ", "'temperature'"),
        ("CUSTOMER ID", "'customer_id'"),
        ("customerId", "'customer_id'"),
        ("city", "'city_Rome', 'city_Paris'"),
        ("passport", "no such feature"),
        ("", "no such feature"),
    ],
)
def test_a_name_that_is_no_feature_stops_the_release(check, rule, name, likely):
    ended(check(f"{rule} = [{name!r}]"), 1, likely)
    done = check(f"{rule} = [{{name = {name!r}, optional = true}}]")
    ended(done, 0, "The gate passed.")
    assert ("is that the same feature?" in done.stderr) == (name not in ("passport", ""))


@pytest.mark.parametrize(
    ("policy", "name", "said"),
    [
        (
            'must_not_matter = ["temperature"]\n[tool.debias]\nmin_rows = 5',
            "debias.toml",
            "'must_not_matter' is outside",
        ),
        ('must_not_mater = ["temperature"]\n[tool.debias]\nmin_rows = 5', "debias.toml", "'must_not_mater' is outside"),
        ("min_rows = 9999\n[tool.debias]\nmin_rows = 5", "pyproject.toml", "'min_rows' is outside"),
        ("[debias]\nmin_rows = 9999\n[tool.debias]\nmin_rows = 5", "pyproject.toml", "a table [debias]"),
        ("[debias]\nmin_rows = 9999\n[tool.debias]\nmin_rows = 5", "debias.toml", "a table [debias]"),
        ("[rules]\nmin_rows = 9999\n[tool.debias]\nmin_rows = 5", "debias.toml", "a table [rules]"),
        ("[debias]\nmin_rows = 9999", "debias.toml", "no rule 'debias'"),
        ("[debias]\nmin_rows = 9999", "pyproject.toml", "'debias' is at the top"),
        ("[tool.Debias]\nmin_rows = 9999", "pyproject.toml", "It has [tool.Debias]"),
        ("[tool.Debias]\nmin_rows = 9999", "debias.toml", "no rule 'tool'"),
        ("[tool.debias.rules]\nmin_rows = 9999", "pyproject.toml", "no rule 'rules'"),
        ("[[tool.debias]]\nmin_rows = 9999", "pyproject.toml", "not a table of rules"),
        ("min_rows = 5\n[gate]\nmin_rows = 9999", "debias.toml", "no rule 'gate'"),
        ("[tool.debias]", "pyproject.toml", "without rules would pass everything"),
        ("tool = 3\nmin_rows = 5", "debias.toml", "no rule 'tool'"),
        ("", "debias.toml", "without rules would pass everything"),
        ("min_rows = 5\nmin_rows = 9999", "debias.toml", "cannot be read"),
        ("min_rows = 5".encode("utf-16"), "debias.toml", "cannot be read"),
        ("max_shift = 20.0", "debias.toml", "max_shift must be an effect size"),
        ("max_shift = nan", "debias.toml", "max_shift must be an effect size"),
        ("must_not_matter = [{name = 'a', optinal = true}]", "debias.toml", "optional = true}"),
        ("must_not_matter = [{name = 'a', optional = 'no'}]", "debias.toml", "optional must be true or false"),
        ("must_not_matter = [{optional = true}]", "debias.toml", "must list feature names"),
        ("must_not_matter = ['a', {name = 'a', optional = true}]", "debias.toml", "a feature name twice"),
        ("min_provenance = ['proven']", "debias.toml", "min_provenance must be one of"),
    ],
)
def test_rules_that_would_be_ignored_are_wrong_use(check, policy, name, said):
    ended(check(policy, name=name), 2, said)


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (
            "[project]\nname = 'x'\n[tool.a]\nmin_rows = 3\n[b]\nc = 1\n[tool.debias]\nmin_rows = 9999",
            "pyproject.toml",
        ),
        ("[project]\nname = 'x'\n[tool.debias]\nmin_rows = 9999", "debias.toml"),
        ("\ufeffmin_rows = 9999", "debias.toml"),
    ],
)
def test_what_is_for_other_tools_does_not_matter(check, policy, name):
    ended(check(policy, name=name), 1, "but the policy requires 9999")


def test_a_policy_that_is_no_file_is_wrong_use(check, tmp_path):
    (tmp_path / "here").mkdir()
    ended(check(None, name="here"), 2, "is a directory")
    ended(check(None, name="absent.toml"), 2, "does not exist")


def of_baseline(release, **changes):
    """Return the JSON of the old model's audit with entries of `scores.mdi_oob`, or of the top, replaced."""
    plain = json.loads((release / "old.json").read_text())
    for name, value in changes.items():
        (plain if name in plain else plain["scores"]["mdi_oob"])[name] = value
    return plain


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"selected": [True] * 4}, "for 5 features"),
        ({"selected": [False] * 5}, "selected contradicts p_adjusted"),
        ({"selected": None}, "unsupported_share does not follow"),
        ({"values": [float("nan")] * 5}, "NaN"),
        ({"values": [1.0, float("inf"), 0, 0, 0]}, "Infinity"),
        ({"values": ["0.5"] * 5}, "not a list of numbers"),
        ({"feature_names": ["temperature"] * 5}, "'temperature' twice"),
        ({"feature_names": ["temperature"]}, "for 1 features"),
        ({"verdict": ["indistinguishable"] * 5}, "verdict contradicts"),
        ({"share": [0.2] * 5}, "share does not follow"),
        ({"reported": [2.0, -1.0, 0, 0, 0]}, "outside 0 to 1"),
        ({"scores": {}}, "no 'mdi_oob'"),
        ({"scores": None}, "scores is not a JSON object"),
        ({"rows": None}, "of kind None"),
        ({"schema_version": 0}, "An older debias wrote it: write it again"),
        ({"schema_version": 9}, "A newer debias wrote it"),
    ],
)
def test_a_malformed_baseline_could_not_be_loaded(release, check, tmp_path, changes, said):
    (tmp_path / "old.json").write_text(json.dumps(of_baseline(release, **changes)))
    for policy in (COMPARING, "min_rows = 5"):
        ended(check(policy, "--baseline", "old.json"), 3, said)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "[" * 10**5, '{"scores":' * 10**5, "\x00\x01", "{'a': 1}"])
def test_a_baseline_that_is_no_audit_could_not_be_loaded(check, tmp_path, text):
    (tmp_path / "old.json").write_text(text)
    ended(check(COMPARING, "--baseline", "old.json"), 3, "old.json: not an audit")


def test_a_cut_baseline_could_not_be_loaded(release, check, tmp_path):
    text = (release / "old.json").read_text()
    (tmp_path / "old.json").write_text(text[: len(text) // 2])
    ended(check(COMPARING, "--baseline", "old.json"), 3, "cannot be read as JSON")
    done = check("min_rows = 5", "--format", "json")
    (tmp_path / "gate.json").write_text(done.stdout)
    ended(check(COMPARING, "--baseline", "gate.json"), 3, "gate.json: not an audit")


def test_a_baseline_as_a_windows_shell_writes_it_is_read(release, check, tmp_path):
    (tmp_path / "old.json").write_text((release / "old.json").read_text(), encoding="utf-16")
    ended(check(COMPARING, "--baseline", "old.json"), 0, "The gate passed.")


def renamed(release, names):
    plain = of_baseline(release)
    for each in plain["scores"].values():
        each["feature_names"] = [names.get(name, name) for name in each["feature_names"]]
        alone = each["details"].get("explained_alone", {})
        each["details"] |= {"explained_alone": {names.get(name, name): part for name, part in alone.items()}}
    return json.dumps(plain)


def test_a_baseline_with_which_nothing_can_be_compared_fails(release, check, tmp_path):
    old = tmp_path / "old.json"
    names = ["temperature", "humidity", "customer_id", "city_Paris", "city_Rome"]
    old.write_text(renamed(release, {name: name.upper() for name in names}))
    ended(check("max_verdict_changes = 0", "--baseline", old), 1, "the two models have no feature in common")
    old.write_text(renamed(release, {name: name.upper() for name in ("temperature", "city_Paris")}))
    for rule in ("max_verdict_changes = 0", "max_rank_change = 0"):
        done = check(rule, "--baseline", old)
        ended(done, 1, "this model has none of the features that were informative")
        assert "features only in the baseline" in done.stderr


def test_a_baseline_tested_in_another_way_is_wrong_use(release, check, tmp_path):
    old = tmp_path / "old.json"
    plain = of_baseline(release)
    plain["scores"]["mdi_oob"]["details"]["test"]["error"] = "fdr"
    old.write_text(json.dumps(plain))
    ended(check("max_verdict_changes = 0", "--baseline", old), 2, "the error rates differ")
    ended(
        check("max_rank_change = 0", "--baseline", release / "old.json", "--error-rate", "0.2"),
        2,
        "('fwer', 0.05) in the baseline",
    )
    plain = of_baseline(release)
    plain["scores"]["mdi_oob"]["threshold"] = None
    old.write_text(json.dumps(plain))
    ended(check("max_verdict_changes = 0", "--baseline", old), 2, "too few permutations: at its error rate")


def test_a_baseline_of_training_rows_could_not_be_judged(release, check, tmp_path):
    plain = of_baseline(release, rows="train")
    plain["scores"]["mdi_oob"]["provenance"]["kind"] = plain["provenance"]["kind"] = "train"
    (tmp_path / "old.json").write_text(json.dumps(plain))
    ended(check("min_rows = 5", "--baseline", "old.json"), 3, "training rows cannot pass a gate")


def test_the_baseline_is_not_written_over(release, check, tmp_path):
    """Or the next run would compare a model that failed with itself, and pass."""
    old = tmp_path / "old.json"
    old.write_text((release / "old.json").read_text())
    before = old.read_bytes()
    (tmp_path / "link.json").symlink_to(old)
    os.link(old, tmp_path / "hard.json")
    for other in ("old.json", "./old.json", "link.json", "hard.json"):
        for option in ("--json", "--html", "--junit", "--summary"):
            ended(check(COMPARING, "--baseline", "old.json", option, other), 2, "and --baseline are the same file")
    ended(check(COMPARING, "--json", "debias.toml"), 2, "and --policy are the same file")
    ended(check("min_rows = 5", "--json", "a.json", "--junit", "./a.json"), 2, "and --json are the same file")
    ended(check("min_rows = 5", "--junit", release / "new.csv"), 2, "and DATA are the same file")
    assert old.read_bytes() == before
    assert not (tmp_path / "a.json").exists()
    ended(check("min_rows = 5", "--json", "/dev/null", "--junit", "/dev/null"), 0, "The gate passed.")


@pytest.mark.thorough
def test_a_gate_that_passes_says_what_it_did_not_judge(release, check):
    here, old = release / "new.json", release / "old.json"
    done = check(COMPARING, "--baseline", here)
    ended(done, 0, "of the same model on the same rows")
    ended(check("min_rows = 5", "--baseline", old), 0, "no rule of the policy uses it")
    ended(check("max_rank_change = 5", "--baseline", old), 0, "max_rank_change = 5 sets no limit")
    ended(check("min_rows = 1\nmin_informative = 0"), 0, "min_informative = 0 sets no limit")
    summary = Path("summary.md")
    done = check("min_informative = 0", "--summary", summary, "--junit", "gate.xml", "--format", "json")
    ended(done, 0, "sets no limit")
    assert json.loads(done.stdout)["warnings"] == ["min_informative = 0 sets no limit"]
    assert "min\\_informative = 0 sets no limit" in summary.read_text()
    assert "sets no limit" in ElementTree.parse("gate.xml").getroot().findtext("testsuite/system-err")


def test_warnings_are_annotations(check, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = check("min_informative = 0")
    assert "::warning title=debias check::min_informative = 0 sets no limit" in done.stderr.splitlines()
    assert "::error" not in done.stderr


def test_training_rows_stop_the_release_whatever_they_are_said_to_be(check):
    for rows, code, said in (
        ("auto", 3, "these are the training rows"),
        ("train", 3, "training rows cannot pass a gate"),
        ("oob", 3, "error: "),
        ("held-out", 1, "The gate failed: min_provenance."),
    ):
        ended(check("min_rows = 5", "--rows", rows, data="new_train.csv"), code, said)
    assert check("min_provenance = 'stated'", "--rows", "held-out", data="new_train.csv").exit_code == 0


@pytest.mark.thorough
def test_rows_that_shifted_or_are_of_other_columns_stop_the_release(release, check, tmp_path):
    rows = pd.read_csv(release / "new.csv", **READ_EXACTLY)
    ended(check("max_shift = 0.3"), 0, "The gate passed.")
    for name, changed in (
        ("drifted", rows.assign(temperature=rows["temperature"] + 1.5)),
        ("units", rows.assign(temperature=rows["temperature"] * 1000)),
        ("swapped", rows.assign(temperature=rows["customer_id"], customer_id=rows["temperature"])),
    ):
        changed.to_csv(tmp_path / f"{name}.csv", index=False)
        done = check("max_shift = 0.3", "--format", "json", data=tmp_path / f"{name}.csv")
        ended(done, 1, "differently from the training rows")
        (result,) = (each for each in json.loads(done.stdout)["results"] if each["rule"] == "max_shift")
        assert "'temperature'" in result["reason"]


def test_a_test_that_can_find_nothing_does_not_pass(release, check, tmp_path):
    ended(check('must_not_matter = ["temperature"]', "--permutations", "5"), 2, "no feature can be called informative")
    pd.read_csv(release / "new.csv")[:8].to_csv(tmp_path / "few.csv", index=False)
    few = tmp_path / "few.csv"
    done = check('must_not_matter = ["temperature"]\nmin_rows = 100', "--rows", "held-out", data=few)
    ended(done, 1, "not judged")
    done = check('must_not_matter = ["temperature"]\nmin_provenance = "stated"', "--rows", "held-out", data=few)
    ended(done, 0, "no feature at all is informative")


@pytest.mark.thorough
def test_an_error_is_told_in_junit_where_an_earlier_run_passed(check, tmp_path):
    junit = tmp_path / "gate.xml"
    ended(check("min_rows = 5", "--junit", junit), 0, "passed")
    assert ElementTree.parse(junit).getroot().get("errors") == "0"
    for policy, more, code in (
        ("min_row = 5", [], 2),
        ("min_rows = 5", ["--no-such-option"], 2),
        ("min_rows = 5", ["--error-rate", "much"], 2),
        ("min_rows = 5", ["--rows", "train"], 3),
        ("min_rows = 5", ["--rows", "oob"], 3),
        ("max_rank_change = 1", [], 2),
    ):
        assert check("min_rows = 5", "--junit", junit).exit_code == 0
        assert check(policy, *more, "--junit", junit).exit_code == code
        root = ElementTree.parse(junit).getroot()
        assert (root.get("tests"), root.get("errors")) == ("1", "1")
        assert len(root.find("testsuite/testcase/error").get("message")) > 10


def test_what_ends_the_run_with_0_is_no_gate_that_passed(check, monkeypatch):
    monkeypatch.setattr("debias.results.gate._results", lambda *_: sys.exit(0))
    ended(check("min_rows = 9999"), 3, "ended before it printed its result")


def shell(release, tmp_path, policy, rest):
    (tmp_path / "debias.toml").write_text(policy)
    command = f'debias check "$0/new.ubj" "$0/new.csv" --target outcome --random-state 0 --policy debias.toml {rest}'
    return in_bash(command, str(release), cwd=tmp_path, options="-eu -o pipefail")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("rest", "n_informative", "code"),
    [
        (">&-", 5, 1),  # nobody wants to see it: the exit code tells
        ("--format json >&- 2>&-", 2, 0),
        (">/dev/full", 2, 3),
        ("| true", 2, 141),  # neither passed nor failed
        ("--format json | true", 5, 141),
    ],
)
def test_output_that_cannot_be_written_does_not_pass_a_gate(release, tmp_path, rest, n_informative, code):
    done = shell(release, tmp_path, f"min_informative = {n_informative}", rest)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
