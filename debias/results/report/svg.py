"""Matplotlib figures as SVG for a page: text stays text, styles are classes, colours follow the page."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

from debias.results.report import figures

_VARIABLE = {
    figures.INK: "var(--ink)",
    figures.MUTED: "var(--muted)",
    figures.GRID: "var(--grid)",
    figures.BAND: "var(--band)",
    figures.INFORMATIVE: "var(--informative)",
    figures.NOISE: "var(--noise)",
    figures.UNTESTED: "var(--untested)",
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
