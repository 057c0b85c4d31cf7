"""Record which tests ran with which versions, and write docs/versions.md from the records.

``python -m support.versions_table SESSION JUNIT...`` records what a session of ``.ci/noxfile.py`` ran. Without
arguments, the page is written from all records.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import tomllib
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.version import Version

from support import support_table

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "versions.md"
RECORDS = ROOT / "docs" / "results" / "versions"
NOT_LISTED = {"autogluon", "ngboost", "spark", "all", "test", "docs", "integration"}
"""Extras of pyproject.toml that no session of the page installs, or that repeat others."""
SESSIONS = (
    "floors",
    "released-2025-03",
    "released-2025-10",
    "released-2026-07",
    "newest-3.11",
    "newest-3.12",
    "newest-3.13",
    "newest-3.14",
)
"""Sessions of .ci/noxfile.py that write a record."""
IN_NO_SESSION = {"AutoGluon TabularPredictor", "NGBoost", "ONNX", "Spark ML random forest", "Spark ML boosted trees"}
"""Models that no session with a record makes: Spark needs Java, AutoGluon and NGBoost have sessions of their own, and
the package that converts a tree to ONNX is with the integration tests."""
ADDED_SINCE = "added since"
"""Cell of a package or model that debias did not know when the session ran."""


def requirements() -> dict[str, str]:
    """Return the packages that debias needs, and those of its extras, with their minimum versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"]]
    for extra, packages in project["optional-dependencies"].items():
        listed += packages if extra not in NOT_LISTED else []
    minimum = {}
    for requirement in map(Requirement, listed):
        if requirement.name != project["name"]:
            (lowest,) = [each.version for each in requirement.specifier if each.operator == ">="]
            minimum[requirement.name] = lowest
    return minimum


def record(session: str, junit: list[str]) -> int:
    """Write what a session ran: versions, numbers of tests, reasons for skips, and the outcomes by family.

    Return the number of tests that failed.
    """
    tests: Counter[str] = Counter()
    skips: Counter[str] = Counter()
    families: dict[str, dict[str, str]] = {}
    for path in junit:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            outcome = _outcome(case)
            tests[outcome] += 1
            if outcome == "skipped":
                skips[_reason(case)] += 1
            found = {each.get("name"): each.get("value") for each in case.iter("property")}
            if "family" in found:
                cell = str(found.get("outcome", "failed")) if outcome == "passed" else outcome
                families.setdefault(str(found["family"]), {})[str(found["capability"])] = cell
    RECORDS.mkdir(exist_ok=True)
    written = {
        "session": session,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in requirements()},
        "tests": dict(tests),
        "skips": dict(skips.most_common()),
        "families": families,
    }
    (RECORDS / f"{session}.json").write_text(json.dumps(written, indent=1) + "\n")
    return tests["failed"]


def records() -> list[dict[str, Any]]:
    """Return the records: the floors, the months, the newest of each Python."""
    written = [json.loads(path.read_text()) for path in RECORDS.glob("*.json")]
    kinds = ("floors", "released", "newest")
    return sorted(written, key=lambda each: (kinds.index(each["session"].split("-")[0]), each["session"]))


def page() -> str:
    """Return the page as Markdown."""
    ran = records()
    return "\n\n".join(
        (
            "# Versions",
            INTRODUCTION,
            _versions(ran),
            *_without_record(ran),
            "## Families of models",
            FAMILIES,
            _families(ran),
            "## Tests that do not apply to a version",
            NOT_APPLYING,
            _not_applying(ran),
            REST,
        )
    )


INTRODUCTION = """\
The versions with which the tests ran. This page is written by `tests/support/versions_table.py` from what the sessions
of `.ci/noxfile.py` recorded in `docs/results/versions/`. Each column is a session: a new environment with the wheel of
debias and these versions. *floors* has the minimum version of every package, all together, except where another package
needs a later one."""
ADDED = f"""\
*{ADDED_SINCE}* marks packages and models that debias knows only since that session ran. [What is supported](support.md)
names the versions with which these models were last tested."""
NEVER = """\
No session has records of Spark, of ONNX, of AutoGluon and of NGBoost. Spark needs Java. The model of ONNX is made by
`skl2onnx`, which is installed with the integration tests only. The last two need older versions of pandas than the
other tests (sessions `automl` and `ngboost`)."""
FAMILIES = """\
The tests of [what is supported](support.md), for each family of models and each session. *all*: every capability was
tested, and the outcome is the one of that page. Otherwise the cell names what is different: what a version cannot give
is refused by debias, and the tests require that the error says why. The table below has the reasons. *no record*: see
above."""
NOT_APPLYING = """\
Tests that were skipped because of a version, with the reason that the test gives: mostly what an older version lacks,
and what a newer one does otherwise."""
REST = """\
## Other versions

A version of a model library that is older than the minimum, or newer than the newest tested one, gives one warning. It
names the version and what is checked all the same: for rows of yours, the leaves and the raw output that debias
computes are compared with those of the library, whatever its version.

## Run them

Each session is one command. It needs [nox](https://nox.thea.codes) and [uv](https://docs.astral.sh/uv/), and the Python
of that session; a Python that is not installed is skipped.

```sh
pip install nox uv   # or, in a checkout: pip install --group versions
nox -f .ci/noxfile.py --list
nox -f .ci/noxfile.py -s floors
nox -f .ci/noxfile.py -s newest-3.13
nox -f .ci/noxfile.py -s old-files
nox -f .ci/noxfile.py -s versions   # writes this page
```
"""


def _versions(records: list[dict[str, Any]]) -> str:
    sessions = [each["session"] for each in records]
    rows = [["Python", "3.11", *(each["python"] for each in records)]]
    for name, minimum in requirements().items():
        rows.append([name, minimum, *(each["packages"].get(name, ADDED_SINCE) for each in records)])
    rows += [
        [f"tests {outcome}", "", *(f"{each['tests'].get(outcome, 0):,}" for each in records)]
        for outcome in ("passed", "failed", "skipped")
    ]
    return _table(["", "minimum", *sessions], rows)


def _without_record(records: list[dict[str, Any]]) -> list[str]:
    """Return paragraphs that say what the records do not cover."""
    absent = [f"`{name}`" for name in SESSIONS if name not in {each["session"] for each in records}]
    sessions = [f"Sessions that exist and have no record so far: {', '.join(absent)}."] if absent else []
    raised = ", ".join(name for each in records for name in raised_since(each))
    return [
        *([ADDED] if any(map(added_since, records)) else []),
        *([f"The minimum was raised after *floors* ran: {raised}."] if raised else []),
        NEVER,
        *sessions,
    ]


def added_since(record: dict[str, Any]) -> set[str]:
    """Return the packages and models that a session did not know."""
    families = {family for family, _ in support_table.read()} - IN_NO_SESSION
    return (requirements().keys() - record["packages"].keys()) | (families - record["families"].keys())


def raised_since(record: dict[str, Any]) -> list[str]:
    """Return the packages whose minimum is newer than what a session had."""
    return [
        name
        for name, minimum in requirements().items()
        if Version(record["packages"].get(name, minimum)) < Version(minimum)
    ]


def _families(records: list[dict[str, Any]]) -> str:
    expected: dict[str, dict[str, str]] = {}
    for (family, capability), outcome in support_table.read().items():
        expected.setdefault(family, {})[capability] = outcome
    rows = []
    for family, outcomes in expected.items():
        cells = []
        for each in records:
            found = each["families"].get(family)
            if found is None:
                cells.append("no record" if family in IN_NO_SESSION else ADDED_SINCE)
                continue
            differing = [
                f"{capability}: {found.get(capability, 'not tested')}"
                for capability, outcome in outcomes.items()
                if found.get(capability) != outcome
            ]
            cells.append("; ".join(differing) or "all")
        rows.append([family, *cells])
    return _table(["model", *(each["session"] for each in records)], rows)


def _not_applying(records: list[dict[str, Any]]) -> str:
    """Return the reasons of skips that begin with a package and its version, as `support.versions` writes them."""
    names = "|".join(map(re.escape, requirements()))
    rows = []
    for each in records:
        for reason, count in sorted(each["skips"].items()):
            if found := re.fullmatch(rf"((?:{names}) [\d.]+): (.+)", reason):
                rows.append([each["session"], found[1], found[2], str(count)])
    return _table(["session", "version", "reason", "tests"], rows)


def _table(heading: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _outcome(case: ElementTree.Element) -> str:
    kinds = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    for child in case:
        if child.tag in kinds and child.get("type") != "pytest.xfail":
            return kinds[child.tag]
    return "passed"


def _reason(case: ElementTree.Element) -> str:
    (skipped,) = case.iter("skipped")
    return str(skipped.get("message"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(min(record(sys.argv[1], sys.argv[2:]), 1))
    PAGE.write_text(page())
