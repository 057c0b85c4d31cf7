"""Figures in prose that come from the pages of results: ``python docs/figures.py`` writes them, a test compares them.

A comment after a paragraph, a list or a table names the source of each figure in it, in their order::

    The t-test finds .40 (SE .05) of them, a quarter more than in [the power tables](results/power.md), or 40 %.
    <!-- figures
    .40 .05 = both("power", "p = 100", "correlation", "family-wise")
    40 = 100 * value("power", "p = 100", "correlation", "family-wise")
    -->

It is a comment and not a role of Sphinx, because the pages are read as Markdown too, on GitHub and by language models,
where a role would show its source instead of the figure.

Each line has numbers as they stand in the text, a sign, and an expression of Python with the functions of
:class:`Table`. An expression over several lines is indented. The signs:

- ``=``: the numbers are those of the expression, rounded to as many digits as they have. ``python docs/figures.py``
  writes new ones into text and comment.
- ``>=`` and ``<=``: a bound ("at most .06").
- ``given``, with a reason instead of an expression: a setting, or a figure that no page of results has.

What must be named: every number with a decimal point and every percentage in a paragraph, or an item of a list, that
links to a page of results, and in a table after such a block, but for code and links. Whole numbers are mostly counts
and settings: they may be named. What is not looked for: figures in blocks without such a link, in docstrings, and in
words ("a fifth").
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

HERE = Path(__file__).parent
RESULTS = HERE / "results"
COMMENT = re.compile(r"\s*<!-- figures\b(.*?)-->", flags=re.DOTALL)
LINK = re.compile(r"\]\([^)\s]*\bresults/(?!index\b)[\w-]+\.md")
BLOCK = re.compile(r"(?:<!--.*?-->|```.*?^```|[^\n]+\n?)+", flags=re.DOTALL | re.MULTILINE)
NOT_TEXT = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|\]\[[^\]]*\]", flags=re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,^-])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?![\w^]|,\d|\.\d)")
ENTRY = re.compile(r"(?P<numbers>[-+\d.,][-+\d., ]*?)\s+(?P<sign>=|>=|<=|given)\s+(?P<source>.+)", flags=re.DOTALL)
VALUES = ("value", "mean", "share", "found", "ratio")
"""Names of the column with the figures; text such as "1.22 (1.16 to 1.25)" counts by its first number."""


class FigureError(ValueError):
    """A figure is not bound, or has another value than its page."""


class Table:
    """The functions of expressions: each takes the name of a page, and texts that stand in cells of its table."""

    @staticmethod
    def rows(page: str, *texts: str) -> pd.DataFrame:
        """Return the rows with all texts: as cells if there are such cells, otherwise as parts of cells."""
        found, cells = _frame(page), _cells(page)
        for text in texts:
            here = (cells == text).any(axis=1)
            if not here.any():
                here = np.logical_or.reduce([cells[name].str.contains(text, regex=False) for name in cells])
            found, cells = found[here], cells[here]
        if found.empty:
            raise FigureError(f"{page}.csv has no row with {', '.join(texts)}")
        return found

    @staticmethod
    def values(page: str, *texts: str, column: str = "") -> np.ndarray:
        """Return the figures of the rows, or what another column has."""
        found = Table.rows(page, *texts)
        of = found[column or next(name for name in VALUES if name in found)]
        return of.astype(str).str.extract(r"^([-+\d.e]+)", expand=False).to_numpy(dtype=np.float64)

    @staticmethod
    def value(page: str, *texts: str, column: str = "") -> float:
        """Return the figure of the one row with these texts."""
        found = Table.values(page, *texts, column=column)
        if len(found) != 1:
            raise FigureError(f"{page}.csv has {len(found)} rows with {', '.join(texts)}: name one")
        return float(found[0])

    @staticmethod
    def error(page: str, *texts: str) -> float:
        """Return its standard error."""
        return Table.value(page, *texts, column="standard_error")

    @staticmethod
    def errors(page: str, *texts: str) -> np.ndarray:
        """Return the standard errors of rows, without those that are not known."""
        found = Table.values(page, *texts, column="standard_error")
        return found[np.isfinite(found)]

    @staticmethod
    def over(page: str, group: str, column: str, *texts: str) -> tuple[float, float]:
        """Return the mean of a column over the means of groups of rows, and its standard error over the groups."""
        means = Table.rows(page, *texts).groupby(group)[column].mean()
        return float(means.mean()), float(means.sem())

    @staticmethod
    def share_of(page: str, text: str, condition: str) -> tuple[float, float]:
        """Return the share of data sets in rows with a text and a condition of pandas, and its binomial error."""
        found = Table.rows(page, text).query(condition)
        sets = found["sets"].sum()
        share = (found["share"] * found["sets"]).sum() / sets
        return float(share), float(np.sqrt(share * (1 - share) / sets))

    @staticmethod
    def pooled(page: str, *texts: str) -> tuple[float, float]:
        """Return the mean figure of rows that are independent of each other, and its standard error."""
        errors = Table.values(page, *texts, column="standard_error")
        return float(Table.values(page, *texts).mean()), float(np.sqrt((errors**2).sum()) / len(errors))

    @staticmethod
    def grid(page: str, *texts: str | tuple[str, ...]) -> list[float]:
        """Return the figures of all combinations of texts, the last one changing first; several are a tuple."""
        each = [(text,) if isinstance(text, str) else text for text in texts]
        return [Table.value(page, *combination) for combination in product(*each)]

    @staticmethod
    def grid_with_errors(page: str, *texts: str | tuple[str, ...]) -> list[float]:
        """Return the same figures, each followed by its standard error."""
        each = [(text,) if isinstance(text, str) else text for text in texts]
        return [number for combination in product(*each) for number in Table.both(page, *combination)]

    @staticmethod
    def both(page: str, *texts: str) -> tuple[float, float]:
        """Return the figure and its standard error."""
        return Table.value(page, *texts), Table.error(page, *texts)


NAMES: dict[str, Any] = {
    name: getattr(Table, name)
    for name in (
        "rows",
        "values",
        "value",
        "error",
        "errors",
        "both",
        "over",
        "share_of",
        "pooled",
        "grid",
        "grid_with_errors",
    )
} | {"np": np}


@cache
def _frame(page: str) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(RESULTS / f"{page}.csv", keep_default_na=False)


@cache
def _cells(page: str) -> pd.DataFrame:
    return _frame(page).astype(str)


@dataclass(frozen=True)
class Entry:
    """A line of a comment: numbers as they stand in the text, and where they come from."""

    numbers: tuple[str, ...]
    sign: str
    source: str

    def fresh(self) -> tuple[str, ...]:
        """Return the numbers as they should be; raise a FigureError if a bound does not hold."""
        if self.sign == "given":
            return self.numbers
        try:
            value = eval(f"({self.source}\n)", dict(NAMES))  # noqa: S307 - they are our own pages
            found = np.atleast_1d(np.asarray(value, dtype=np.float64))
        except FigureError:
            raise
        except Exception as error:
            raise FigureError(f"{self.source}: {type(error).__name__}: {error}") from error
        if len(found) != len(self.numbers):
            raise FigureError(f"{self.source} has {len(found)} figures, not {len(self.numbers)}")
        pairs = list(zip(self.numbers, found, strict=True))
        if self.sign == "=":
            return tuple(number if agrees(number, value) else written(number, value) for number, value in pairs)
        for number, value in pairs:
            if not (as_float(number) >= value if self.sign == ">=" else as_float(number) <= value):
                raise FigureError(f"{number} {self.sign} {value:.6g} does not hold: {self.source}")
        return self.numbers


def as_float(number: str) -> float:
    """Return a number as it stands in text."""
    return float(number.replace(",", ""))


def decimals(number: str) -> int:
    """Return the number of its digits after the point."""
    return len(number.partition(".")[2])


def agrees(number: str, value: float) -> bool:
    """Whether a number in text is a value, rounded to its digits; a half may be rounded either way."""
    return abs(as_float(number) - value) <= 0.5 * 10.0 ** -decimals(number) * (1 + 1e-9) + 1e-12


def written(like: str, value: float) -> str:
    """Return a value as text, in the manner of the number that stood there."""
    text = f"{value:{'+' if like.startswith('+') else ''},.{decimals(like)}f}"
    if re.match(r"[-+]?\.", like):
        text = re.sub(r"^([-+]?)0\.", r"\1.", text)
    return text if "," in like or abs(value) < 10_000 else text.replace(",", "")


def blocks(text: str) -> list[tuple[int, int]]:
    """Return where blocks begin and end: what stands between empty lines, with a comment after it."""
    found: list[tuple[int, int]] = []
    for match in BLOCK.finditer(text):
        if found and COMMENT.match(match[0]):
            found[-1] = (found[-1][0], match.end())
        else:
            found.append(match.span())
    return found


def figures(block: str) -> list[re.Match[str]]:
    """Return the numbers of a block, without those in code, links and comments."""
    return list(NUMBER.finditer(NOT_TEXT.sub(lambda hidden: "\0" * len(hidden[0]), block)))


def must_be_named(number: re.Match[str]) -> bool:
    """Whether the number has a decimal point, or is a percentage."""
    return "." in number[0] or re.match(r"\s?%", number.string[number.end() :]) is not None


def entries(block: str) -> list[Entry]:
    """Return the lines of the comment of a block."""
    found = COMMENT.search(block)
    lines = re.split(r"\n(?!\s)|;\s", found[1].strip(" :\n")) if found else []
    matches = [(line, ENTRY.fullmatch(line.strip())) for line in lines]
    if wrong := [line for line, match in matches if match is None]:
        raise FigureError(f"not a line of figures: {wrong[0]}")
    return [Entry(tuple(match["numbers"].split()), match["sign"], match["source"]) for _, match in matches if match]


def checked(block: str, spans: list[tuple[int, int]]) -> str:
    """Return a block with the figures that it should have.

    Parameters
    ----------
    block : str
    spans : list of (int, int)
        The parts of the block in which every figure has to be named that must be.

    Raises
    ------
    FigureError
        A figure is not named, or what is named is not there.
    """
    of_text, place, new = figures(block), 0, block
    named = [(each, each.fresh()) for each in entries(block)]

    def is_missing(number: re.Match[str]) -> bool:
        return must_be_named(number) and any(begin <= number.start() < end for begin, end in spans)

    replaced: list[tuple[int, int, str]] = []
    for entry, numbers in named:
        for number, fresh in zip(entry.numbers, numbers, strict=True):
            while place < len(of_text) and of_text[place][0] != number:
                if is_missing(of_text[place]):
                    raise FigureError(
                        f"{of_text[place][0]} stands before {number}, and nothing says where it comes from"
                    )
                place += 1
            if place == len(of_text):
                raise FigureError(f"{number} does not stand in the text, or not in this order")
            replaced.append((*of_text[place].span(), fresh))
            place += 1
    if left := [each[0] for each in of_text[place:] if is_missing(each)]:
        raise FigureError(f"nothing says where {', '.join(left)} come{'s' if len(left) == 1 else ''} from")
    for begin, end, fresh in reversed(replaced):
        new = new[:begin] + fresh + new[end:]
    for entry, numbers in named:
        before, after = " ".join(entry.numbers), " ".join(numbers)
        if before != after:
            line = rf"(^|;\s|figures:?\s){re.escape(before)}(\s+=\s+{re.escape(entry.source)})"
            new = re.sub(line, rf"\g<1>{after}\2", new, flags=re.MULTILINE)
    return new


def linking(block: str) -> list[tuple[int, int]]:
    """Return where a block, or those items of a list, begin and end that link to a page of results."""
    starts = [
        0,
        *(each.start() for each in re.finditer(r"^(?:[-*]|\d+\.) ", block, flags=re.MULTILINE) if each.start()),
    ]
    items = list(zip(starts, [*starts[1:], len(block)], strict=True))
    return [(begin, end) for begin, end in items if LINK.search(block[begin:end])]


def page_with_fresh_figures(text: str) -> str:
    """Return a page with the figures that its sources have now; raise a FigureError that names all that are wrong."""
    parts, wrong, last, spans = [], [], 0, []
    for begin, end in blocks(text):
        block = text[begin:end]
        if not block.startswith("```"):
            spans = [(0, len(block))] if spans and block.startswith("|") else linking(block)
            try:
                block = checked(block, spans)
            except FigureError as error:
                wrong.append(f"{' '.join(block.split())[:70]} ...: {error}")
        parts += [text[last:begin], block]
        last = end
    if wrong:
        raise FigureError("\n".join(wrong))
    return "".join([*parts, text[last:]])


def pages() -> list[Path]:
    """Return the pages that may quote results: the README and all of the manual but the results themselves."""
    made = ("results", "gallery", "generated")
    return [HERE.parent / "README.md"] + [
        path for path in sorted(HERE.rglob("*.md")) if path.relative_to(HERE).parts[0] not in made
    ]


def main() -> int:
    """Write fresh figures into all pages; return 1 if a figure cannot be told."""
    failed = 0
    for path in pages():
        text = path.read_text(encoding="utf-8")
        try:
            fresh = page_with_fresh_figures(text)
        except FigureError as error:
            print(f"{path.relative_to(HERE.parent)}: {error}")
            failed = 1
            continue
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            print(f"{path.relative_to(HERE.parent)}: new figures")
    return failed


if __name__ == "__main__":
    sys.exit(main())
