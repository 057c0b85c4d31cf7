"""Write docs/support.md from the tests that ran: ``python tests/support/support_table.py``.

``python tests/support/support_table.py texts`` writes everything but the table of models, and runs no test.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from debias.hooks.registry import libraries
from debias.testing.installed import installed, requirements

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "support.md"
OF_MODELS = "## Models"
HEADING = "## Libraries"
CAPABILITIES = ("out-of-bag", "held-out", "weights", "missing", "categories", "refit")
NOT_ALWAYS_INSTALLED = {"AutoGluon TabularPredictor", "NGBoost"}
"""Families whose library needs older versions than other tests: sessions ``automl``, ``ngboost`` of .ci/noxfile.py."""
SOURCES = (Path(__file__).parent / "where_models_come_from.md").read_text() + "\n"
MEANING = """\
Written by `tests/support/support_table.py` from the tests in `tests/adapters/test_support.py`; the tests fail if a cell
no longer holds. *yes*: ran, and its checks passed. *refused*: debias says why it does not. *no*: the library itself
does not take such columns.

- *out-of-bag*: the bags are recovered and proven; the same rows in another order are refused.
- *held-out*: leaves and raw output are the library's; scores are the same from a frame in another column order.
- *weights*: integer weights of held-out rows score as repeated rows do, to 1e-10 (`mdi_oob`, `oob_split`).
- *missing*, *categories*: columns with missing values, or of pandas categories, in training and in the rows scored.
- *refit*: `debias.refit` gives the same model from the same seed, another from other rows, and leaves yours alone.

What each model is scored on, and what is refused, is in [models](models.md) and [boosters](models-boosters.md).
"""
OF_LIBRARIES = """\
Written from what each adapter declares (`LIBRARY` in its folder of `adapters/debias_adapters/`) and from
`pyproject.toml`. Extras are installed as in the [quickstart](quickstart.md). *minimum*: the oldest version that debias
works with; saved models may be of an older Spark. *tested*: the versions of the tests, by [session](versions.md) where
there is a record.
"""


class Outcomes:
    """A pytest plugin that collects the outcome each test recorded."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties)
        if report.when == "call" and "family" in found:
            cell = str(found["outcome"]) if "outcome" in found else "FAILED"
            self.cells.setdefault(str(found["family"]), {})[str(found["capability"])] = cell


def page(cells: dict[str, dict[str, str]]) -> str:
    """Return the page as Markdown, with the rows of families whose library is not installed here as they were."""
    packaged = [each for each in libraries() if each.distribution is not None]
    found = [*filter(None, (installed(each.distribution, each.module) for each in packaged)), installed("pandas")]
    ran = ", ".join(f"{each.distribution} {each.version}" for each in found if each is not None)
    lines = ["| model | " + " | ".join(CAPABILITIES) + " |", "|---" * (1 + len(CAPABILITIES)) + "|"]
    for family, found in cells.items():
        lines.append(f"| {family} | " + " | ".join(found[each] for each in CAPABILITIES) + " |")
    table = "\n".join(lines)
    return (
        f"# What is supported\n\n{SOURCES}{OF_MODELS}\n\n{MEANING}\nRun with {ran}.\n\n{table}\n\n{libraries_section()}"
    )


def libraries_section() -> str:
    """Return the section about the libraries, as their adapters declare them."""
    minimum = {name: requirement.minimum for name, requirement in requirements().items()}
    lines = ["| library | extra | minimum | tested | page |", "|---|---|---|---|---|"]
    for each in libraries():
        extra = f"`{each.extra}`" if each.extra else "always installed" if each.distribution else "none is needed"
        tested = " to ".join(dict.fromkeys(each.tested or ("unknown",)))
        page = f"[{(each.page or '').rpartition('/')[2]}]({each.page}.md)"
        lines.append(
            f"| {each.name} | {extra} | {minimum.get(each.distribution, each.tested[0])} | {tested} | {page} |"
        )
    table = "\n".join(lines)
    return f"{HEADING}\n\n{OF_LIBRARIES}\n{table}\n"


def with_texts() -> str:
    """Return the page as it stands, with the sections beside the table of models written again."""
    return f"# What is supported\n\n{SOURCES}{OF_MODELS}{_models()}{libraries_section()}"


def read() -> dict[tuple[str, str], str]:
    """Return the cells of the page by family and capability."""
    found = {}
    for line in _models().splitlines() if PAGE.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "model":
            found.update({(cells[0], each): cell for each, cell in zip(CAPABILITIES, cells[1:], strict=True)})
    return found


def _models() -> str:
    """Return the section about the families of models as it stands on the page."""
    return PAGE.read_text().partition(OF_MODELS)[2].partition(HEADING)[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["texts"]:
        PAGE.write_text(with_texts())
        sys.exit()
    outcomes = Outcomes()
    before = {}
    for (family, capability), cell in read().items():
        before.setdefault(family, {})[capability] = cell
    PAGE.unlink(missing_ok=True)  # without a page the tests record what they find
    status = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-m", "not slow", str(ROOT / "tests/adapters/test_support.py")], [outcomes]
    )
    if status == 0:
        not_installed = {family: before[family] for family in NOT_ALWAYS_INSTALLED & before.keys()}
        PAGE.write_text(page({**outcomes.cells, **not_installed}))
    sys.exit(status)
