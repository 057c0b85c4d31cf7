"""Figures in prose are those of the pages of results; the finder finds those that are not."""

import re
import runpy
from pathlib import Path

import pandas as pd
import pytest

HERE = Path(__file__).parents[1]
FIGURES = runpy.run_path(str(HERE / "docs" / "figures.py"))
FigureError, fresh = FIGURES["FigureError"], FIGURES["page_with_fresh_figures"]
SAID = "The t-test finds .40 of them in [the tables](results/power.md).\n"
SOURCE = 'value("power", "p = 100", "correlation", "family-wise")'


@pytest.mark.thorough
@pytest.mark.parametrize("page", [str(path.relative_to(HERE)) for path in FIGURES["pages"]()])
def test_the_page_says_what_was_measured(page):
    text = (HERE / page).read_text(encoding="utf-8")
    assert fresh(text) == text, "run python docs/figures.py"


def test_results_are_quoted_on_many_pages_and_in_the_readme():
    quoting = [path.name for path in FIGURES["pages"]() if "<!-- figures" in path.read_text(encoding="utf-8")]
    assert "README.md" in quoting
    assert len(quoting) > 10


def table_with(monkeypatch, found):
    """Let power.csv have one line with this value and standard error."""
    line = {"design": "p = 100", "test": "correlation", "figure": "family-wise", "value": found, "standard_error": 0.05}
    module = FIGURES["Table"].rows.__globals__
    monkeypatch.setitem(module, "_frame", lambda page: pd.DataFrame([line]))
    monkeypatch.setitem(module, "_cells", lambda page: pd.DataFrame([line]).astype(str))


def test_a_figure_that_is_stale_is_written_anew_in_text_and_comment(monkeypatch):
    table_with(monkeypatch, 0.318)
    text = f"# Title\n\n{SAID}<!-- figures\n.40 = {SOURCE}\n-->\n\nThe end, .40 too.\n"
    assert fresh(text) == text.replace(".40 of", ".32 of").replace(".40 =", ".32 =")
    table_with(monkeypatch, 0.4)
    assert fresh(text) == text


@pytest.mark.parametrize(
    ("like", "value", "text"),
    [
        (".40", 0.318, ".32"), ("0.40", 0.318, "0.32"), ("+.079", 0.0812, "+.081"), ("-.13", -0.2, "-.20"),
        ("+.02", -0.04, "-.04"), ("48", 51.2, "51"), ("1,200", 1534.4, "1,534"), (".99", 1.0, "1.00"),
    ],
)  # fmt: skip
def test_new_numbers_have_the_form_of_the_old_ones(like, value, text):
    assert FIGURES["written"](like, value) == text


@pytest.mark.parametrize(
    ("number", "value"), [(".40", 0.4049), (".40", 0.395), ("0.32", 0.3249), ("48", 48.4), ("1,534", 1534.4)]
)
def test_a_rounded_number_agrees(number, value):
    assert FIGURES["agrees"](number, value)
    assert not FIGURES["agrees"](number, value + 1.1 * 10.0 ** -FIGURES["decimals"](number))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SAID, r"nothing says where \.40 comes from"),
        (SAID.replace(".40", "40 %"), "nothing says where 40 comes from"),
        (f"- One.\n- {SAID}- Three, .5.\n", r"nothing says where \.40 comes from"),
        (f"{SAID}<!-- figures\n.41 = {SOURCE}\n-->\n", r"nothing says where it comes from"),
        (f"{SAID}<!-- figures\n.40 = {SOURCE}\n.05 given no number\n-->\n", r"\.05 does not stand in the text"),
        (f"{SAID}<!-- figures\n.40 = {SOURCE}, 1\n-->\n", "has 2 figures, not 1"),
        (f"{SAID}<!-- figures\n.40 >= .5\n-->\n", r"\.40 >= 0\.5 does not hold"),
        (f"{SAID}<!-- figures\n.40 <= .3\n-->\n", r"\.40 <= 0\.3 does not hold"),
        (f"{SAID}<!-- figures\n.40 of the page\n-->\n", "not a line of figures"),
        (f"{SAID}<!-- figures\n.40 = value('power', 'no such test')\n-->\n", "power.csv has no row with no such test"),
        (f"{SAID}<!-- figures\n.40 = value('power', 'correlation')\n-->\n", r"has \d+ rows with correlation: name one"),
        (f"{SAID}<!-- figures\n.40 = nonsense\n-->\n", "NameError"),
        (SAID.replace(".40 ", "").strip() + "\n\n| a | .3 |\n", r"nothing says where \.3 comes from"),
    ],
)  # fmt: skip
def test_figures_without_a_source_are_found(text, message):
    with pytest.raises(FigureError, match=message):
        fresh(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{SAID}<!-- figures\n.40 given an earlier run\n-->\n",
        "Without a link, .40 of them.\n",
        "In 60 sets of 8 designs ([tables](results/power.md)).\n",
        "With `rate=.3` ([tables](results/power.md)), after [Loh](https://doi.org/10.1214/20).\n",
        "See [all](results/index.md): .3.\n",
        "- One, .5.\n- In the [tables](results/power.md).\n",
        "```text\n[x](results/power.md) .3\n```\n",
    ],
)
def test_what_is_not_looked_for(text):
    assert fresh(text) == text


def test_every_page_of_results_is_linked_from_the_manual_with_its_csv():
    linked = {
        name
        for path in FIGURES["pages"]()
        for name in re.findall(r"results/([\w-]+)\.md", path.read_text(encoding="utf-8"))
    }
    assert [name for name in linked - {"index"} if not (HERE / "docs" / "results" / f"{name}.csv").exists()] == []
