"""Self-contained HTML pages: they load nothing, and escape every name. Their one script sorts and filters tables.

Their figures are SVG whose text stays text, whose styles are classes, and whose colours follow the page.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from debias.results.report.figures import BAND, GRID, INK, MUTED, PAPER, settings
from debias.results.vocabulary import BLUE, GREY, VERMILION, ChangeVerdict, Dependence, Finding, Verdict
from debias.text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEEDS = "a report needs matplotlib and Jinja2: pip install matplotlib jinja2"


def render(template: str, styles: Styles, **content: Any) -> str:
    """Return a page from one of the templates of this package.

    Parameters
    ----------
    template : str
        Name of the file.
    styles : Styles
        Styles of the figures.
    **content
        What the template shows. `figures` is a list of dict; their ``svg`` is shown as it is, all else is escaped.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    with packages_of_reports():
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    environment = Environment(
        loader=FunctionLoader(resource),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: escaped(value) if type(value) is str else value,  # markup is already safe
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"Verdict": Verdict, "Dependence": Dependence, "Finding": Finding}
    environment.filters["breakable"] = lambda text: Markup("<wbr>").join(_BREAKS.split(text))
    if "reading" in content:
        content["reading"] = [
            (term.text.capitalize() if isinstance(term, ChangeVerdict) else term, meaning)
            for term, meaning in content["reading"]
        ]
    content["figures"] = [{**figure, "svg": Markup(figure["svg"])} for figure in content["figures"]]
    style, script = f"{resource('style.css')}\n{styles.rules}\n", resource("tables.js")
    has_pixels = any('href="data:' in figure["svg"] for figure in content["figures"])
    images = "img-src data:; " if has_pixels else ""  # pixels inside of the page, such as those of a strip
    own = f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    policy = f"default-src 'none'; {own}; {images}base-uri 'none'; form-action 'none'"
    parts = {"style": Markup(style), "script": Markup(script)}
    return environment.get_template(template).render(policy=policy, **parts, **content)


def _digest(text: str) -> str:
    """Return the digest by which a policy allows this text and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


_BREAKS = re.compile(r"(?<=\S{7}[_./:=|])(?=\S{3})|(?<=\S{7}[a-z])(?=[A-Z]\S\S)")
"""Where a long name may go on in the next line."""


def picture(
    name: str,
    heading: str,
    caption: str,
    styles: Styles,
    size: tuple[float, float],
    draw: Callable[[Any], None],
    *,
    legend_columns: int = 0,
    **content: Any,
) -> dict[str, Any]:
    """Return a figure as the templates take it.

    Parameters
    ----------
    name : str
        Prefix of its ids, and the salt of its hashes.
    heading, caption : str
    styles : Styles
        Collects the styles of figures.
    size : tuple of float
        Width and height in inches.
    draw : callable
        Draws on a matplotlib figure.
    legend_columns : int
        Number of columns of a legend above the axes; 0 for none.
    **content
        More that the templates show: ``table`` with ``about_table``, and whether the figure is ``wide``.
    """
    with packages_of_reports(), settings(name):
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        handles, labels = figure.axes[0].get_legend_handles_labels() if legend_columns else ([], [])
        if handles:
            look: dict[str, Any] = {"ncols": legend_columns, "frameon": False, "fontsize": 8.5}
            figure.legend(handles, labels, loc="outside upper left", **look)
        svg = to_svg(figure, name, content.pop("title", heading), caption, styles)
    return {"heading": heading, "caption": caption, "svg": svg, "wide": True, "table": None, **content}


@contextmanager
def packages_of_reports() -> Iterator[None]:
    """Say what to install if a package that reports need is missing."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{NEEDS} ({error})") from error


@cache
def resource(name: str) -> str:
    """Return the text of a file of this package."""
    return resources.files("debias.results.report").joinpath(name).read_text(encoding="utf-8")


_VARIABLE = {
    PAPER: "var(--paper)",
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    BAND: "var(--band)",
    BLUE: "var(--informative)",
    VERMILION: "var(--noise)",
    GREY: "var(--untested)",
}


class Styles:
    """Styles of figures as CSS classes, so that the page can forbid inline styles."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}

    def name(self, style: str) -> str:
        """Return the name of the class for a style."""
        style = re.sub(r"font: ([\d.]+)px [^;]*", r"font-size: \1px", style)
        style = re.sub(r"font: bold ([\d.]+)px [^;]*", r"font-weight: bold; font-size: \1px", style)
        style = re.sub(r"font-family: [^;]*;?\s*", "", style).strip()
        for colour, variable in _VARIABLE.items():
            style = style.replace(colour, variable)
        return self._classes.setdefault(style, f"s{len(self._classes)}")

    @property
    def rules(self) -> str:
        """The classes as a style sheet."""
        return "\n".join(f".debias .{name}{{{style}}}" for style, name in self._classes.items())


def to_svg(figure: Any, name: str, title: str, description: str, styles: Styles) -> str:
    """Return a figure as an ``<svg>`` element for HTML.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Prefix of every id, so that figures of one page share no id.
    title, description : str
        Text for screen readers.
    styles : Styles
        Collects the styles.

    Returns
    -------
    str
    """
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    )
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.set(_local(key), value)
        _rewrite(element, name, styles)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-description"}
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, id=f"{name}-{'title' if tag == 'title' else 'description'}")
        element.text = text
        root.insert(place, element)
    return ElementTree.tostring(root, encoding="unicode")


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


def _rewrite(element: ElementTree.Element, name: str, styles: Styles) -> None:
    if "style" in element.attrib:
        element.set("class", styles.name(element.attrib.pop("style")))
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.get('id')}")
    if str(element.get("href", "")).startswith("#"):  # pixels are data inside of the page
        element.set("href", f"#{name}-{str(element.get('href'))[1:]}")
    if "clip-path" in element.attrib:
        element.set("clip-path", str(element.get("clip-path")).replace("url(#", f"url(#{name}-"))
