"""Tables of results for people: columns of formatted cells, laid out as text, for a terminal, as HTML or Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.vocabulary import (
    BLUE,
    GREY,
    VERMILION,
    ChangeVerdict,
    Confirmation,
    Dependence,
    DropStatus,
    Finding,
    FleetVerdict,
    LossVerdict,
    ModelVerdict,
    ScoreCause,
    Verdict,
    displayed_verdict,
)
from debias.text import ALL_DIGITS, UNKNOWN, escaped, percent_in_table, rounded_up, shortened_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    from rich.table import Table as RichTable
    from rich.text import Text

HEADING = {
    "reported_unseen": "on unseen rows",
    "share": "debiased share",
    "standard_error": "standard error, splits fixed",
    "p_value": "p",
    "p_adjusted": "adjusted p",
    "lowest_rank": "lowest rank",
    "highest_rank": "highest rank",
    "response_change": "response change",
    "rows_change": "rows change",
    "also_dropped": "also dropped",
    "lost": "gain lost",
    "lost_low": "lower bound",
    "lost_high": "upper bound",
    "rows_needed": "needed to decide",
    "saved_baseline": "saved by the baseline",
    "saved_model": "saved by the model",
    "only_in": "only in",
    "saved_before": "saved before",
    "cost_since": "cost since then",
}
FIRST = (
    "finding",
    "verdict",
    "status",
    "lost",
    "selected",
    "share",
    "reported",
    "reported_unseen",
    "p_adjusted",
    "informative_folds",
    "z",
    "dependence",
)
"""The most important columns. Where there is little room, the others give way first, the last one before the rest."""
WORDS = (
    "finding",
    "verdict",
    "dependence",
    "result",
    "model",
    "from",
    "to",
    "status",
    "also_dropped",
    "decision",
    "until",
    "since",
    "trend",
    "worst",
    "why",
    "only_in",
)
"""Columns of words. They are aligned to the left, those of numbers to the right."""
DASH = "\N{EN DASH}"
"""Stands in pages about folds and histories for a number that is not known."""
SHORTEST_NAME = 14
"""On a terminal a name is folded if it is longer than this and there is no room."""
LONGEST_WORDS = 18
"""Words in a column are wrapped if there is no room and one is longer than this."""
BETWEEN = 3
"""Columns of a terminal that a table takes for each of its columns: two spaces and a line."""
KINDS = (ScoreCause, Verdict, Finding, ChangeVerdict, LossVerdict, ModelVerdict, Confirmation, FleetVerdict)
"""Words with a mark in pages; of equal words the last one counts."""
MARK_CLASS = {BLUE: "informative", VERMILION: "indistinguishable", GREY: "untested"}
"""Classes of marks in style.css, by their colour."""


@dataclass(frozen=True)
class Column:
    """A column of formatted cells.

    Parameters
    ----------
    name : str
        By which its importance and its alignment are known.
    title : str
    cells : list of str
    long_title : str
        The title if there is room for it; `title` by default.
    """

    name: str
    title: str
    cells: list[str]
    long_title: str = ""

    @property
    def is_long(self) -> bool:
        """Whether its cells are words that are too long for one line if there is little room."""
        return self.is_text and max(map(len, self.cells), default=0) > LONGEST_WORDS

    @property
    def words(self) -> list[str]:
        """What is not wrapped: the words of the title, and the cells; of long words, the parts of the cells."""
        cells = " ".join(self.cells).split() if self.is_long else self.cells
        return [*self.title.split(), *cells]

    @property
    def is_text(self) -> bool:
        """Whether its cells are words, which are aligned to the left."""
        return self.name in WORDS


@dataclass(frozen=True)
class Table:
    """The columns of a table. The first one names the rows.

    Parameters
    ----------
    names : Column
    columns : list of Column
    """

    names: Column
    columns: list[Column]

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        columns: Iterable[str],
        titles: Mapping[str, str] | None = None,
        long_titles: Mapping[str, str] | None = None,
        *,
        unknown: str = UNKNOWN,
        head: str = "feature",
    ) -> Table:
        """Return the table of some columns of a data frame, each formatted by its name.

        Parameters
        ----------
        frame : DataFrame
            Its index has the names of the rows.
        columns : iterable of str
        titles, long_titles : mapping of str to str, optional
            Titles that differ from the usual ones, and longer ones for where there is room.
        unknown : str
            Stands for a number that is not known.
        head : str
            Title of the names.
        """
        titles, long_titles = titles or {}, long_titles or {}
        names = Column(head, head, [str(name) for name in frame.index])
        formatted = ((name, cells(name, frame[name], unknown)) for name in columns)
        return cls(
            names,
            [
                Column(name, titles.get(name, heading(name)), column, long_titles.get(name, ""))
                for name, column in formatted
            ],
        )

    @classmethod
    def of_cells(cls, columns: Mapping[str, list[str]]) -> Table:
        """Return the table of columns that are formatted already, by their titles; the first one names the rows."""
        names, *others = (Column(title, title, column) for title, column in columns.items())
        return cls(names, others)

    def to_text(self, width: int, longest_name: int) -> list[str]:
        """Return the heading and the rows as plain text, with the columns that fit."""
        names = shortened_apart(self.names.cells, longest_name)
        first = max(map(len, [self.names.title, *names]))
        widths = {each.name: 2 + max(map(len, [each.title, *each.cells])) for each in self.columns}
        fitting = set(columns_that_fit(widths, width - first))
        kept = [each for each in self.columns if each.name in fitting]

        def row(name: str, of_columns: Iterable[str]) -> str:
            parts = [
                f"  {cell:<{widths[each.name] - 2}}" if each.is_text else f"{cell:>{widths[each.name]}}"
                for each, cell in zip(kept, of_columns, strict=True)
            ]
            return f"{name:<{first}}{''.join(parts)}".rstrip()

        by_row = zip(names, *(each.cells for each in kept), strict=True)
        return [row(self.names.title, (each.title for each in kept)), *(row(name, rest) for name, *rest in by_row)]

    def to_terminal(self, width: int) -> RichTable:
        """Return a table of rich with the columns that fit a terminal of a width. Verdicts are the last to give way."""
        from rich.table import Table as RichTable

        longest = max(len(escaped(name)) for name in [self.names.title, *self.names.cells])
        room = width - 1 - BETWEEN
        wide = {each.name: max(map(len, [*each.cells, each.long_title or each.title])) for each in self.columns}
        tight = {each.name: max(map(len, each.words)) for each in self.columns}
        is_tight = sum(wide.values()) + BETWEEN * len(wide) + longest > room
        widths = tight if is_tight else wide
        with_lines = {name: length + BETWEEN for name, length in widths.items()}
        fitting = columns_that_fit(with_lines, room - min(longest, SHORTEST_NAME)) if is_tight else list(wide)
        kept = [each for each in self.columns if each.name in fitting]
        left = room - min(longest, SHORTEST_NAME) - sum(with_lines[each.name] for each in kept)
        for each in kept:  # long words need not be wrapped so often
            if is_tight and each.is_long:
                widths[each.name] += max(0, min(left, wide[each.name] - widths[each.name]))
        table = RichTable()
        table.add_column(self.names.title, overflow="fold", min_width=min(SHORTEST_NAME, longest))
        for each in kept:
            table.add_column(
                plain(each.title if is_tight else each.long_title or each.title),
                justify="left" if each.is_text else "right",
                overflow="fold",
                no_wrap=each.is_text and not each.is_long,
                max_width=widths[each.name],
            )
        for row in zip(self.names.cells, *(each.cells for each in kept), strict=True):
            table.add_row(*map(plain, row))
        return table

    def to_html(self) -> dict[str, Any]:
        """Return titles and rows as the templates of pages take them. Verdicts get their marks."""
        columns = {self.names.title: [escaped(name) for name in self.names.cells]}
        columns |= {each.title: each.cells for each in self.columns}
        return {
            "headings": list(columns),
            "rows": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
            "words": [each.title for each in self.columns if each.is_text],
            "marks": {
                word.text: (MARK_CLASS[word.display.colour], word.display.mark) for kind in KINDS for word in kind
            },
        }

    def to_markdown(self) -> list[str]:
        """Return the lines of a table in Markdown."""
        columns = (self.names, *self.columns)
        lines = [[each.title for each in columns], *zip(*(each.cells for each in columns), strict=True)]
        head, *rows = (f"| {' | '.join(map(for_markdown, line))} |" for line in lines)
        return [head, f"|{'---|' * len(columns)}", *rows]


def rows_named(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Return the rows of some names, in their order; pandas cannot look up a name with a lone surrogate."""
    position = {name: k for k, name in enumerate(frame.index)}
    return frame.iloc[[position[name] for name in names]]


def plain(text: str) -> Text:
    """Return text for a terminal without markup: a feature may be called [red] or move the cursor."""
    from rich.text import Text

    return Text(escaped(text))


def for_markdown(text: str) -> str:
    """Return text escaped for Markdown, on one line."""
    on_line = re.sub(r"\s+", " ", escaped(text)).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_{}\[\]|~])", r"\\\1", on_line)


def heading(name: str) -> str:
    """Return the heading of a column for a reader."""
    return f"{Verdict.INFORMATIVE.text} folds" if name == "informative_folds" else HEADING.get(name, name)


def cells(name: str, values: object, unknown: str = UNKNOWN) -> list[str]:
    """Format a column of a result for a reader, by its name; `unknown` stands for NaN."""
    return [unknown if cell in ("nan", UNKNOWN) else cell for cell in FORMAT.get(name, _numbers)(values)]


def columns_that_fit(widths: Mapping[str, int], room: int) -> list[str]:
    """Return the columns that fit, in their order. The most important one is kept in any case.

    Parameters
    ----------
    widths : mapping of str to int
        The columns from left to right, with the room that each takes.
    room : int

    Examples
    --------
    >>> columns_that_fit({"reported": 10, "share": 10, "mdi_oob": 10, "verdict": 20}, room=45)
    ['reported', 'share', 'verdict']
    """
    by_importance = [name for name in FIRST if name in widths] + [name for name in widths if name not in FIRST]
    kept, left = set(by_importance[:1]), room - sum(widths[name] for name in by_importance[:1])
    for name in by_importance[1:]:
        left -= widths[name]
        if left < 0:
            break
        kept.add(name)
    return [name for name in widths if name in kept]


def _p_values(values: object) -> list[str]:
    return ["< 0.001" if value < 0.001 else f"{value:.3f}" for value in np.asarray(values, dtype=np.float64)]


def _z(values: object) -> list[str]:
    return [f"{value + 0.0:.2f}" for value in np.round(np.asarray(values, dtype=np.float64), 2)]


def _verdicts(values: object) -> list[str]:
    return [displayed_verdict(str(value)) for value in np.asarray(values, dtype=object)]


def _dependence(values: object) -> list[str]:
    return [Dependence(value).text for value in np.asarray(values, dtype=object)]


def _findings(values: object) -> list[str]:
    return [Finding(value).text for value in np.asarray(values, dtype=object)]


def _as_they_are(values: object) -> list[str]:
    return [str(value) for value in np.asarray(values, dtype=object)]


def _labels(values: object) -> list[str]:
    """Format labels of the user, such as those of periods; "" stands for none."""
    return [escaped(str(value)) or UNKNOWN for value in np.asarray(values, dtype=object)]


def _statuses(values: object) -> list[str]:
    return [DropStatus(value).text for value in np.asarray(values, dtype=object)]


def _yes(values: object) -> list[str]:
    return ["yes" if value else "" for value in np.asarray(values, dtype=bool)]


def _percent(values: object) -> list[str]:
    return [percent_in_table(value) for value in np.asarray(values, dtype=np.float64)]


def _percent_or_more(values: object) -> list[str]:
    """Format shares that may be negative or above 1, or have no bound."""
    return ["none" if np.isinf(value) else f"{value:z.1%}" for value in np.asarray(values, dtype=np.float64)]


def _needed(values: object) -> list[str]:
    """Format numbers of rows as plans: two digits, NaN for none."""
    return ["" if np.isnan(value) else f"{rounded_up(value):,}" for value in np.asarray(values, dtype=np.float64)]


def _counts(values: object) -> list[str]:
    return [f"{value:,.0f}" for value in np.asarray(values, dtype=np.float64)]


def _numbers(values: object) -> list[str]:
    """Format a column with the same number of decimals everywhere: the largest entry has four digits.

    Columns of very small or very large numbers have exponents, so that they are not wide.
    """
    array = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    if largest == 0:
        return [f"{value:g}" for value in array + 0.0]
    decimals = 3 - int(np.floor(np.log10(largest)))
    if decimals > 8 or largest >= ALL_DIGITS:
        return [f"{value:.3e}" for value in array]
    return [f"{value + 0.0:,.{max(0, decimals)}f}" for value in np.round(array, max(0, decimals))]


FORMAT = {
    "reported": _percent,
    "reported_unseen": _percent,
    "share": _percent,
    "z": _z,
    "p_value": _p_values,
    "p_adjusted": _p_values,
    "data_p_adjusted": _p_values,
    "model_p_adjusted": _p_values,
    "shift": _z,
    "shift_p_adjusted": _p_values,
    "shifted": _yes,
    "verdict": _verdicts,
    "dependence": _dependence,
    "dependence_p_adjusted": _p_values,
    "finding": _findings,
    "selected": _yes,
    "rank": _counts,
    "lowest_rank": _counts,
    "highest_rank": _counts,
    "informative_folds": _counts,
    "folds": _counts,
    "kept": _counts,
    "lost": _percent_or_more,
    "lost_low": _percent_or_more,
    "lost_high": _percent_or_more,
    "rows_needed": _needed,
    "also_dropped": _as_they_are,
    "status": _statuses,
    "n_features": _counts,
    "informative_alone": _counts,
    "likeness": _z,
    "together": _as_they_are,
    "only_in": _as_they_are,
    "since": _labels,
    "expected_p_adjusted": _p_values,
    "may_be_broken": _yes,
}
