"""Tests of what docs/versions.md says, and that the warning about versions says the same."""

from pathlib import Path

import pytest

from debias.hooks.registry import libraries
from debias.trees.tested_versions import major_minor
from support import support_table, versions_table

RECORDS = versions_table.records()
TESTED = {
    each.distribution: each.tested
    for each in libraries()
    if each.distribution is not None and all(each.distribution in record["packages"] for record in RECORDS)
}
OLDEST_FILE = {"h2o": (3, 36)}
"""Version of the library that wrote the oldest of the files that the tests read (tests/old_files)."""


def test_the_page_is_written_from_the_records():
    assert versions_table.PAGE.read_text() == versions_table.page()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["session"])
def test_nothing_failed_in_any_session(record):
    assert record["tests"]["passed"] > 6000
    assert set(record["tests"]) <= {"passed", "skipped"}
    capabilities = {family: set(outcomes) for family, outcomes in record["families"].items()}
    without = versions_table.added_since(record) | versions_table.IN_NO_SESSION
    assert not without & set(capabilities)
    for family, capability in support_table.read():
        if family in without:
            continue
        assert capability in capabilities[family]
        assert record["families"][family][capability] in ("yes", "no", "refused")


@pytest.mark.parametrize("package", TESTED)
def test_the_warning_names_the_versions_that_ran(package):
    """Those of `tested` in the declaration of the library. A library that is new has no record so far."""
    ran = {major_minor(record["packages"][package]) for record in RECORDS}
    ran.add(OLDEST_FILE.get(package, min(ran)))
    assert (min(ran), max(ran)) == tuple(map(major_minor, TESTED[package]))


def test_the_floors_have_the_minimum_versions():
    (floors,) = [record for record in RECORDS if record["session"] == "floors"]
    forced = {"rich"}  # skore needs a later one
    not_of_then = versions_table.added_since(floors) | set(versions_table.raised_since(floors))
    for package, minimum in versions_table.requirements().items():
        if package in forced | not_of_then:
            continue
        found = [int(part) for part in floors["packages"][package].split(".") if part.isdigit()]
        wanted = [int(part) for part in minimum.split(".")]
        assert found[: len(wanted)] == wanted, package


def test_the_page_says_what_has_no_record():
    page = versions_table.PAGE.read_text()
    assert {record["session"] for record in RECORDS} <= set(versions_table.SESSIONS)
    for session in versions_table.SESSIONS:
        said = f"`{session}`" in page.partition("no record so far:")[2].partition("\n")[0]
        assert said == (session not in {record["session"] for record in RECORDS}), session
    assert ("*added since* marks" in page) == any(map(versions_table.added_since, RECORDS))


def test_what_a_session_did_not_know_is_marked(monkeypatch):
    known = {**RECORDS[0], "packages": dict(versions_table.requirements())}
    known["families"] = {family: {} for family, _ in support_table.read()}
    assert not versions_table.added_since(known)
    assert not versions_table.raised_since(known)
    older = {**known, "packages": {**known["packages"], "numpy": "1.9"}, "families": dict(known["families"])}
    del older["packages"]["duckdb"], older["families"]["FLAML AutoML"]
    monkeypatch.setattr(versions_table, "records", lambda: [{**older, "session": "floors"}])
    page = versions_table.page()
    assert "*added since* marks" in page
    assert "raised after *floors* ran: numpy." in page
    (package,) = [line for line in page.splitlines() if line.startswith("| duckdb |")]
    (family,) = [line for line in page.splitlines() if line.startswith("| FLAML AutoML |")]
    assert package.endswith("| added since |")
    assert family.endswith("| added since |")


def test_every_week_all_sessions_run():
    workflow = Path(__file__).parents[1] / ".github" / "workflows" / "versions.yml"
    if not workflow.exists():
        pytest.skip("the workflows are in a checkout, not in the source distribution")
    yaml = pytest.importorskip("yaml")
    matrix = yaml.safe_load(workflow.read_text())["jobs"]["session"]["strategy"]["matrix"]
    assert sorted(matrix["session"]) == sorted((*versions_table.SESSIONS, "old-files", "automl", "ngboost"))
