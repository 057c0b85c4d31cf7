"""What language models read: llms.txt is fresh and complete, and docstrings and briefs stand alone."""

import inspect
import json
import re
import runpy
from pathlib import Path

import debias
from support.audits import made

DOCS = Path(__file__).parents[1] / "docs"
LLMS = runpy.run_path(str(DOCS / "llms.py"))


def test_the_committed_list_is_that_of_the_front_page():
    assert (DOCS / "llms.txt").read_text() == LLMS["short"](), "run python docs/llms.py"


def test_every_page_is_listed_once():
    made_by_the_site = ("gallery", "generated", "index")
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    listed = re.findall(r"^- \[.+\]\((.+)\.md\)", LLMS["short"](), flags=re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == {page for page in pages if page.split("/")[0] not in made_by_the_site}


def test_comments_that_say_where_figures_come_from_are_left_out():
    assert "<!-- figures" in (DOCS / "choosing.md").read_text()
    assert "<!-- figures" not in LLMS["full"]()


def test_links_lead_into_a_version_of_the_site():
    text = LLMS["short"]("https://example.org/dev/{}.html")
    assert "(https://example.org/dev/quickstart.html)" in text
    assert ".md)" not in text


def test_the_whole_text_has_the_answers_and_all_docstrings():
    text = LLMS["full"]()
    for part in ("# Quickstart", "# Questions", "# Which columns may I drop?"):
        assert f"\n{part}\n" in text
    for name in debias.__all__:
        assert f"\n## debias.{name}" in text
        assert inspect.getdoc(getattr(debias, name)) in text
    addresses = re.findall(r"^<!-- (\S+\.md) -->$", text, flags=re.M)
    assert "rows.md" in addresses
    assert not any(address.startswith("results/") for address in addresses)


def test_the_docstring_of_an_audit_stands_alone():
    """A reader of ``?`` or a language model has no other page."""
    text = inspect.getdoc(debias.audit)
    parameters = re.split(r"^\w+\n-{3,}$", text, flags=re.M)[1]
    for name in inspect.signature(debias.audit).parameters:
        assert re.search(rf"^(?:.*, )?{name}(?:,.*)? : ", parameters, flags=re.M), name
    assert "As for" not in parameters


def test_the_page_for_language_models_describes_every_field_of_a_brief():
    page = (DOCS / "report.md").read_text()
    section = page[page.index("## For language models") : page.index("\n## JSON")]
    told = {name for cell in re.findall(r"^\| (`.*?) \|", section, flags=re.M) for name in re.findall(r"`(\w+)`", cell)}
    brief = made(["a", "b", "c"]).to_dict(brief=True)
    assert told == brief.keys() - {"kind", "schema_version", "model"}
    assert json.loads(json.dumps(brief)) == brief
