"""The report in a real browser: offline, without a word on the console, every section painted."""

import io
import re

import numpy as np
import pandas as pd
import pytest

from debias.results.fleet import Fleet, FleetLine
from debias.results.report import pages
from debias.results.report.history_page import history_page
from debias.results.tables import Table
from debias.results.vocabulary import FleetVerdict
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


@pytest.mark.parametrize("width", [1280, 390])
def test_names_are_whole_and_stay_while_a_table_scrolls(browser, tmp_path, width):
    names = ["monthly_transaction_amount_eur", "customerAccountIdentifier", *(f"feature_{k}" for k in range(10))]
    made(names).to_html(tmp_path / "page.html")
    browser.open(tmp_path / "page.html", width=width)
    # A line of text ends at the end of a part of the name, or the name is in one line.
    lines = """[...document.querySelectorAll('#features bdi')].map(each => {
        const ends = [], range = document.createRange();
        for (const node of each.childNodes) {
            if (node.nodeType !== Node.TEXT_NODE) continue;
            range.selectNodeContents(node);
            ends.push(new Set([...range.getClientRects()].map(box => Math.round(box.y))).size);
        }
        return Math.max(...ends);
    })"""
    assert set(browser.evaluate(lines)) == {1}, "a name is broken inside a word"
    browser.evaluate("document.querySelector('#features .scroll').scrollLeft = 100000")
    x = "document.querySelector('#features {}').getBoundingClientRect().x"
    assert browser.evaluate(x.format("tbody th")) == browser.evaluate(x.format(".scroll"))
    last = "document.querySelector('#features thead th:last-child').getBoundingClientRect().right"
    assert browser.evaluate(last) <= width


def test_a_table_sorts_and_filters(browser, page):
    browser.open(page)
    rows = "[...document.querySelectorAll('#features tbody tr')].filter(row => row.offsetHeight)"
    names = f"{rows}.map(row => row.cells[0].textContent)"
    as_written = browser.evaluate(names)
    headings = browser.evaluate("[...document.querySelectorAll('#features thead th')].map(each => each.textContent)")
    column = headings.index("z")
    press = f"document.querySelectorAll('#features thead button')[{column}].click()"
    states = []
    for _ in range(3):
        browser.evaluate(press)
        z = [float(text) for text in browser.evaluate(f"{rows}.map(row => row.cells[{column}].textContent)")]
        states.append((browser.evaluate(f"document.querySelectorAll('#features th')[{column}].ariaSort"), z))
    assert states[0] == ("descending", sorted(z, reverse=True))
    assert states[1] == ("ascending", sorted(z))
    assert states[2][0] is None
    assert browser.evaluate(names) == as_written
    field = "document.querySelector('#features input')"
    browser.evaluate(f"{field}.value = 'FEATURE 1'; {field}.dispatchEvent(new Event('input'))")
    wanted = [name for name in as_written if "feature 1" in name]
    assert browser.evaluate(names) == wanted
    count = browser.evaluate("document.querySelector('#features output').value")
    assert count == f"{len(wanted)} of {len(as_written)}"


def test_unknown_numbers_are_sorted_last_and_bounds_beside_their_number(browser, tmp_path):
    cells = {"feature": ["a", "b", "c", "d", "e"], "share": ["<0.1%", "\N{EN DASH}", "12.5%", "0.0%", "1,200.0%"]}
    table = Table.of_cells(cells).to_html()
    page = pages.render(
        "findings.html.j2", pages.Styles(), title="t", headline="h", sentences=[], facts=[], warnings=(), figures=[],
        tables=[{"name": "features", "heading": "h", "table": table, "caption": "c"}], reading=(), provenance=[],
    )  # fmt: skip
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    browser.open(tmp_path / "page.html")
    shown = "[...document.querySelectorAll('#features tbody th')].map(each => each.textContent).join('')"
    press = "document.querySelectorAll('#features thead button')[1].click()"
    assert browser.evaluate(f"{press}; {shown}") == "ecadb"
    assert browser.evaluate(f"{press}; {shown}") == "daceb"


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
    assert browser.evaluate("document.scripts.length + document.images.length") == 1
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
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.call("Emulation.setDeviceMetricsOverride", width=720, height=900, deviceScaleFactor=1, mobile=False)
    last = "[...document.querySelectorAll('#features tr > :last-child')].map(e => e.getBoundingClientRect().right)"
    assert max(browser.evaluate(last)) <= 720, "the printed table is cut"
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
    assert browser.evaluate("document.scripts.length") == 1
    picture = np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB"), dtype=int)
    blue = np.abs(picture - [8, 48, 107]).sum(axis=2) < 40  # of the strip; no text has this colour
    assert blue.sum() > 500


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_fleet_leads_to_the_pages_of_its_models(browser, tmp_path, width, scheme):
    names = [*NAMES, *(f"models/{'long_name_' * 8}{k}.history" for k in range(20))]
    lines = [
        FleetLine(
            history=name,
            verdict=list(FleetVerdict)[k % 3],
            reasons=("a reason with_a_long_name_" + "x" * 200,) * (k % 3 == 0),
            not_judged=("damaged",) * (k % 3 == 1),
            page=f"page {k}.html" if k % 3 else f"pages/{k}.html",
        )
        for k, name in enumerate(names)
    ]
    path = tmp_path / "fleet.html"
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/0.html").write_text("<title>the first</title>")
    Fleet(lines=tuple(lines), alpha=0.05, looks=1, recent="30d", reference="first 30d").to_html(path)
    assert browser.open(path, width=width, scheme=scheme) == []
    assert browser.requests() == [path.resolve().as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    link = "getComputedStyle(document.querySelector('#look a')).color"
    ground = "getComputedStyle(document.body).backgroundColor"
    colours = [tuple(map(int, re.findall(r"\d+", browser.evaluate(each))[:3])) for each in (link, ground)]
    assert contrast(*colours) >= 4.5
    assert browser.follow("#look a") == "the first"
