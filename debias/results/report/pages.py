"""Self-contained HTML pages: they have no script, load nothing, and escape every name."""

from __future__ import annotations

import base64
import hashlib
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.cells import cells
from debias.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from debias.results.report.svg import Styles

WORDS = ("verdict", "dependence", "model", "from", "to")
"""Columns of text, which are aligned to the left."""
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
        finalize=lambda value: shown(value) if type(value) is str else value,  # markup is already safe
        trim_blocks=True,
        lstrip_blocks=True,
    )
    content["figures"] = [{**figure, "svg": Markup(figure["svg"])} for figure in content["figures"]]
    style = f"{resource('style.css')}\n{styles.rules}\n"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    has_pixels = any('href="data:' in figure["svg"] for figure in content["figures"])
    images = "img-src data:; " if has_pixels else ""  # pixels inside of the page, such as those of a strip
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; {images}base-uri 'none'; form-action 'none'"
    return environment.get_template(template).render(style=Markup(style), policy=policy, **content)


@contextmanager
def packages_of_reports() -> Iterator[None]:
    """Say what to install if a package that reports need is missing."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{NEEDS} ({error})") from error


def rows_of(columns: dict[str, list[str]], marks: Mapping[str, tuple[str, str]] | None = None) -> dict[str, Any]:
    """Return headings and rows of a table of formatted text, as the templates take it.

    Parameters
    ----------
    columns : dict of str to list of str
        The first column heads the rows.
    marks : mapping of str to (str, str), optional
        For each verdict the class and the character of its mark; those of audits by default.
    """
    return {
        "headings": list(columns),
        "rows": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "words": WORDS,
        "marks": marks,
    }


def cells_or_dash(name: str, values: Any) -> list[str]:
    """Return the cells of a column by its name, with a dash for NaN."""
    array = np.asarray(values, dtype=np.float64)
    known = np.isfinite(array)
    formatted = cells(name, np.where(known, array, 0.0))
    return [cell if is_known else "\N{EN DASH}" for cell, is_known in zip(formatted, known, strict=True)]


@cache
def resource(name: str) -> str:
    """Return the text of a file of this package."""
    return resources.files("debias.results.report").joinpath(name).read_text(encoding="utf-8")
