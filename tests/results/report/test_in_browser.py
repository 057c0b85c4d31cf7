"""The report in a real browser: offline, without a word on the console, every section painted."""

import io
import re

import numpy as np
import pandas as pd
import pytest

from debias.results.report.history_page import history_page
from support import chromium
from support.audits import made
from support.contrast import contrast
from support.made_over_time import made_scores

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(chromium.PATH is None, reason="no Chromium on this machine (apt-get install chromium)"),
]
SECTIONS = ("headline", "warnings", "figures", "features", "reading", "provenance")
NAMES = ["<script>alert(1)</script>", "a" * 200, "年齢", "$x$", "</style>", *[f"feature {k}" for k in range(20)]]


@pytest.fixture(scope="module")
def browser():
    with chromium.Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    made(NAMES, warnings=["a warning"]).to_html(path)
    return path


@pytest.mark.parametrize("width", [1200, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_whole_and_asks_for_nothing(browser, page, width, scheme):
    from PIL import Image

    assert browser.open(page, width=width, scheme=scheme) == []
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    picture = np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB"), dtype=int)
    ground = picture[2, 2]
    assert (ground.mean() > 200) == (scheme == "light")
    boxes = {f"#{name}": f"document.getElementById('{name}')" for name in SECTIONS}
    boxes |= {f"figure {k}": f"document.querySelectorAll('svg')[{k}]" for k in range(4)}
    for name, element in boxes.items():
        x, y, w, h = browser.evaluate(
            f"(b => [b.x, b.y + scrollY, b.width, b.height])({element}.getBoundingClientRect())"
        )
        part = picture[int(y) : int(y + h), int(x) : int(x + w)]
        painted = (np.abs(part - ground).sum(axis=2) > 60).mean()
        assert 0.01 < painted < 0.6, (name, painted)


def test_captions_are_read_without_scrolling_the_table(browser, page):
    browser.open(page, width=360)
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    ends = browser.evaluate("[...document.querySelectorAll('caption span')].map(e => e.getBoundingClientRect().right)")
    assert len(ends) == 5
    assert max(ends) <= 360


def test_styles_reach_the_figures_and_follow_the_scheme(browser, page):
    """The policy forbids inline styles; were the classes refused, everything would be black."""
    fill = "getComputedStyle(document.querySelector('#shares-figure_1 text, svg text')).fill"
    colours = {}
    for scheme in ("light", "dark"):
        browser.open(page, scheme=scheme)
        colours[scheme] = browser.evaluate(fill)
    assert colours == {"light": "rgb(26, 26, 26)", "dark": "rgb(236, 239, 241)"}


def test_no_name_became_markup(browser, page):
    browser.open(page)
    assert browser.evaluate("document.scripts.length + document.images.length") == 0
    shown = browser.evaluate("[...document.querySelectorAll('#features bdi')].map(each => each.textContent)")
    assert sorted(shown) == sorted(NAMES)
    assert browser.evaluate("[...document.querySelectorAll('svg text')].some(t => t.textContent.includes('script'))")


def test_assistive_technology_finds_names_for_figures_tables_and_regions(browser, page):
    browser.open(page)
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = {}
    for node in tree:
        if not node.get("ignored"):
            named.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    pictures = [name for role in ("image", "img", "graphics-document") for name in named.get(role, [])]
    assert len(pictures) == 4
    assert all(pictures)
    assert len(named["table"]) == 5
    assert all(named["table"])
    assert all(named["region"])
    assert "columnheader" in named
    assert "rowheader" in named
    levels = browser.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(each => +each.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))


def test_text_has_contrast_where_it_stands(browser, page):
    """WCAG 2.2, 1.4.3, as computed by the browser, in both schemes."""
    colours = """[...document.querySelectorAll('p, li, dt, dd, th, td, h1, h2, h3, figcaption, summary, caption')].map(
        each => [getComputedStyle(each).color,
                 getComputedStyle(each.closest('.facts div, .warnings, .debias')).backgroundColor])"""
    for scheme in ("light", "dark"):
        browser.open(page, scheme=scheme)
        for pair in {tuple(each) for each in browser.evaluate(colours)}:
            one, other = ([int(part) for part in re.findall(r"\d+", colour)[:3]] for colour in pair)
            assert contrast(one, other) >= 4.5, pair


def test_it_prints(browser, page):
    import base64

    browser.open(page, scheme="dark")
    data = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    assert data.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 12
    browser.call(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [1200, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_over_time_shows_its_pixels_and_asks_for_nothing(browser, tmp_path, width, scheme):
    from PIL import Image

    scores, errors, series = made_scores(30, NAMES, n_models=2, missing=0.1)
    periods = pd.DataFrame({"series": series, "n_rows": 1}, index=scores.index)
    models = pd.DataFrame({"model": "forest", "version": "1"}, index=["model 1", "model 2"])
    path = tmp_path / "history.html"
    path.write_text(history_page(scores, errors, periods, models), encoding="utf-8")
    assert browser.open(path, width=width, scheme=scheme) == []
    asked = [address for address in browser.requests() if not address.startswith("data:image/png;base64,")]
    assert asked == [path.resolve().as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert browser.evaluate("document.scripts.length") == 0
    picture = np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB"), dtype=int)
    blue = np.abs(picture - [8, 48, 107]).sum(axis=2) < 40  # of the strip; no text has this colour
    assert blue.sum() > 500
