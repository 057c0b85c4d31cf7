"""The site answers by questions: each leads to a page in two clicks, and by the words that people type."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
QUESTIONS = {
    "which rows training or test": "rows.md",
    "what does a verdict mean": "significance.md",
    "which features drop": "droppable.md",
    "interval without 0 verdict": "intervals.md",
    "features interact": "interactions.md",
    "one-hot columns": "recipes.md",
    "target encoder": "rows.md",
    "early stopping": "rows.md",
    "explain one row prediction": "coming-from.md",
    "how long cost speed": "results/speed.md",
    "text vectorizer": "recipes.md",
    "plot pictures": "displays.md",
    "model files": "files.md",
    "cannot tell causes": "choosing.md",
    "cite": "cite.md",
}
"""What people type into the search box, and a page that has the whole answer."""
STARTS = [f"start/{name}.md" for name in ("data-scientist", "reviewer", "mlops", "plugin-author")]
JARGON = ("splits fixed", "leaf counts", "z above")


def links(page):
    """Return the pages that a page links to, by their place in docs/, with anchors."""
    found = re.findall(r"\]\(([^)\s]+)\)", (DOCS / page).read_text())
    inside = [link for link in found if "://" not in link and ".md" in link]
    place = (DOCS / page).parent
    return [(str((place / link.split("#")[0]).resolve().relative_to(DOCS)), link.partition("#")[2]) for link in inside]


def slug(title):
    """Return the anchor that the site and a repository make of a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def words(text):
    return set(re.findall(r"[\w-]+", text.lower()))


@pytest.fixture(scope="module")
def sections():
    """The sections of the page of questions as they are read, without comments: the text by the title."""
    text = re.sub(r"<!--.*?-->", "", (DOCS / "questions.md").read_text(), flags=re.S)
    parts = re.split(r"^## (.*)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_front_page_lists_every_question_and_the_four_starts(sections):
    there = links("index.md")
    assert [anchor for page, anchor in there if page == "questions.md"] == [slug(title) for title in sections]
    assert [page for page, _ in there if page in STARTS] == STARTS
    assert len(sections) == len(QUESTIONS) == 15


@pytest.mark.parametrize("typed", QUESTIONS)
def test_a_question_is_answered_in_two_clicks_and_by_its_words(typed, sections):
    """The first click leads from the front page to the short answer, the second to the page that has the rest."""
    titles = [title for title, text in sections.items() if words(typed) <= words(f"{title} {text}")]
    assert titles, f"docs/questions.md: no section has all words of {typed!r}"
    texts = [sections[title] for title in titles]
    assert any(f"]({QUESTIONS[typed]}" in text for text in texts), titles
    assert all(len(text.split()) < 120 for text in texts)


def test_anchors_of_questions_exist(sections):
    for page in ("questions.md", *STARTS):
        for to, anchor in links(page):
            titles = re.findall(r"^#+ (.*)$", (DOCS / to).read_text(), flags=re.M)
            assert not anchor or anchor in map(slug, titles), (page, to, anchor)


@pytest.mark.parametrize("page", STARTS)
def test_a_start_page_is_short_and_leads_to_the_front_of_the_matter(page):
    text = (DOCS / page).read_text()
    assert len(text.splitlines()) <= 35
    assert len(links(page)) >= 8


def test_the_quickstart_is_read_in_five_minutes():
    """At 200 words a minute; code and tables are looked at."""
    prose = re.sub(r"^```.*?^```", "", (DOCS / "quickstart.md").read_text(), flags=re.M | re.S)
    assert len(prose.split()) <= 1000


@pytest.mark.parametrize("term", JARGON)
def test_jargon_is_linked_to_the_glossary(term):
    glossary = (DOCS / "glossary.md").read_text()
    assert re.search(rf"^(?:.*, )?{term}(?:,.*)?\n: ", glossary, flags=re.M)
    pages = ("displays.md", "report.md", "models.md", "rows.md", "significance.md", "shell.md", "questions.md")
    using = [page for page in pages if term in (DOCS / page).read_text()]
    assert using
    for page in using:
        assert "glossary.md" in (DOCS / page).read_text(), f"{page} says {term!r}: link it to the glossary"
