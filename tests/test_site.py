"""The documentation site: built from clean, without a warning; every internal link and anchor leads somewhere."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from test_questions import QUESTIONS

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, its examples run anew; a proxy that does not exist sees to it that nothing is fetched."""
    for made in ("gallery", "generated"):
        shutil.rmtree(DOCS / made, ignore_errors=True)
    out = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", out / "trees", DOCS, out / "html"]
    done = subprocess.run(command, env=os.environ | nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return out / "html"


class Page(HTMLParser):
    """Where a page links to, and what in it can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[name] for name in ("id", "name") if found.get(name))
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


def test_internal_links_and_anchors_lead_somewhere(site):
    pages = {path: Page(path) for path in site.rglob("*.html") if path.parent.name != "_static"}  # the theme's template
    assert len(pages) > 80
    broken, checked = [], 0
    for path, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            to = (path.parent / unquote(target.path)).resolve() if target.path else path
            checked += 1
            if not to.exists() or (to in pages and unquote(target.fragment) not in pages[to].anchors):
                broken.append(f"{path.relative_to(site)} -> {link}")
    assert checked > 1000
    assert broken == []


def test_every_example_has_run(site):
    examples = {path.stem for path in (DOCS / "examples").glob("plot_*.py")}
    assert examples == {path.stem for path in (site / "gallery").glob("plot_*.html")}
    for name in examples:
        text = (site / "gallery" / f"{name}.html").read_text()
        assert "Total running time of the script" in text
        assert "<img alt" in text or "sphx-glr-single-img" in text


def test_no_page_loads_anything_from_elsewhere(site):
    def loads(path):
        page = path.read_text(encoding="utf-8")
        return [part for part in ('src="http', 'rel="stylesheet" href="http') if part in page]

    assert {path.name: found for path in site.rglob("*.html") if (found := loads(path))} == {}


def test_the_picture_of_the_readme_can_be_drawn_again(tmp_path):
    names = runpy.run_path(str(DOCS / "pictures/noise.py"))
    names["main"](tmp_path / "noise.svg")
    assert (tmp_path / "noise.svg").read_text().count("<path") > 50


def test_the_pictures_over_folds_and_time_can_be_drawn_again(tmp_path):
    runpy.run_path(str(DOCS / "pictures/over_time.py"))["main"](tmp_path)
    for name in ("folds.svg", "history.svg"):
        assert (tmp_path / name).read_text().count("<path") > 30  # letters, points and lines


@pytest.mark.parametrize("typed", QUESTIONS)
def test_the_search_box_finds_the_answer(site, typed):
    """As the page of results does: pages that have all words, by their stems."""
    written = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(written.removeprefix("Search.setIndex(").removesuffix(")"))
    english = pytest.importorskip("sphinx.search.en").SearchEnglish({})
    stems = [english.stem(word) for word in english.split(typed.lower()) if english.word_filter(english.stem(word))]
    assert stems
    pages = [
        {index["docnames"][k] for part in ("terms", "titleterms") for k in listed(index[part].get(stem, []))}
        for stem in stems
    ]
    found = set.intersection(*pages)
    assert {"questions", QUESTIONS[typed].removesuffix(".md")} & found, (stems, found)


def listed(pages):
    """The index has a number instead of a list of one."""
    return pages if isinstance(pages, list) else [pages]


def test_what_language_models_read_is_on_the_site(site):
    short, full = ((site / name).read_text(encoding="utf-8") for name in ("llms.txt", "llms-full.txt"))
    addresses = re.findall(r"\]\((https://[^)]+)\)", short)
    assert len(addresses) > 80
    for address in addresses:
        assert (site / address.split("/dev/")[1]).exists(), address
    assert "## debias.audit(model: Any, X: Any" in full
