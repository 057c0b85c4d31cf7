"""Tests of what docs/versions.md says, and that the warning about versions says the same."""

import pytest

from debias.trees.tested_versions import major_minor
from debias_adapters import CATBOOST, LIGHTGBM, SCIKIT_LEARN, XGBOOST
from support import support_table, versions_table

RECORDS = versions_table.records()
TESTED = {
    "scikit-learn": SCIKIT_LEARN,
    "xgboost": XGBOOST,
    "lightgbm": LIGHTGBM,
    "catboost": CATBOOST,
}


def test_the_page_is_written_from_the_records():
    assert versions_table.PAGE.read_text() == versions_table.page()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["session"])
def test_nothing_failed_in_any_session(record):
    assert record["tests"]["passed"] > 6000
    assert set(record["tests"]) <= {"passed", "skipped"}
    capabilities = {family: set(outcomes) for family, outcomes in record["families"].items()}
    assert not versions_table.ADDED_SINCE & set(capabilities)
    for family, capability in support_table.read():
        if family in versions_table.ADDED_SINCE:
            continue
        assert capability in capabilities[family]
        assert record["families"][family][capability] in ("yes", "no", "refused")


@pytest.mark.parametrize("package", TESTED)
def test_the_warning_names_the_versions_that_ran(package):
    ran = {major_minor(record["packages"][package]) for record in RECORDS}
    assert (min(ran), max(ran)) == (major_minor(TESTED[package].oldest), major_minor(TESTED[package].newest))


def test_the_floors_have_the_minimum_versions():
    (floors,) = [record for record in RECORDS if record["session"] == "floors"]
    forced = {"rich"}  # skore needs a later one
    for package, minimum in versions_table.requirements().items():
        if package in forced:
            continue
        found = [int(part) for part in floors["packages"][package].split(".") if part.isdigit()]
        wanted = [int(part) for part in minimum.split(".")]
        assert found[: len(wanted)] == wanted, package
