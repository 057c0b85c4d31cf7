"""A history for people and programs: for a terminal, as JSON and CSV, as pictures and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import HistoryError
from debias.monitor.times import times_as_text
from debias.results.tables import cells
from debias.results.windows import ADD_RESPONSES
from debias.text import counted, escaped, json_text, to_csv

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from debias.monitor.history import History
    from debias.results.changes import Changes
    from debias.results.vocabulary import ChangeVerdict

SCHEMA_VERSION = 1
MOST_PERIODS, MOST_FEATURES = 30, 6
"""A table for a terminal has at most this many of the last periods, and of the features with the largest scores."""


def print_history(console: Console, history: History, window: Any = None) -> None:
    """Print the models, and the scores of the last periods or windows for the features with the largest scores."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(repr(history)))
    scores, periods = history.scores(window), history.periods
    if not len(scores):
        return
    size = np.abs(np.nan_to_num(scores.to_numpy()[-MOST_PERIODS:])).mean(axis=0)
    drawn = np.argsort(-size, kind="stable")[:MOST_FEATURES]
    table = Table()
    for heading in ("period" if window is None else f"{window} to", "series", "rows"):
        table.add_column(Text(escaped(str(heading))), justify="right" if heading == "rows" else "left", overflow="fold")
    for k in drawn:
        table.add_column(Text(escaped(str(scores.columns[k]))), justify="right", overflow="fold")
    last = slice(-MOST_PERIODS, None)
    columns = [
        times_as_text(scores.index)[last],
        list(periods["series"])[last],
        [f"{n:,}" for n in periods["n_rows"]][last],
    ]
    columns += [_cells(scores.iloc[last, k].to_numpy()) for k in drawn]
    for row in zip(*columns, strict=True):
        table.add_row(*(Text(escaped(cell)) for cell in row))
    console.print(table)
    n_periods, n_features = len(scores) - len(columns[0]), scores.shape[1] - len(drawn)
    left_out = [counted(n, what) for n, what in ((n_periods, "earlier period"), (n_features, "other feature")) if n]
    if left_out:
        console.print(Text(f"... {' and '.join(left_out)}; CSV, JSON and data frames have all."))


def as_json(history: History, window: Any = None) -> str:
    """Return models, periods, scores and their standard errors as JSON. Numbers that are not known are null."""
    scores, errors, periods = history.scores(window), history.standard_errors(window), history.periods
    models, waiting = history.models, history.waiting
    plain = {
        "schema_version": SCHEMA_VERSION,
        "scorer": "mdi_oob",
        "window": None if window is None else str(window),
        "models": [{"series": name, **row} for name, row in zip(models.index, models.to_dict("records"), strict=True)],
        "feature_names": list(map(str, scores.columns)),
        "periods": [
            {"at": at, **row, "scores": _plain(values), "standard_errors": _plain(of_errors)}
            for at, row, values, of_errors in zip(
                times_as_text(scores.index),
                periods.to_dict("records"),
                scores.to_numpy(),
                errors.to_numpy(),
                strict=True,
            )
        ],
        "waiting": [
            {"at": at, **row} for at, row in zip(times_as_text(waiting.index), waiting.to_dict("records"), strict=True)
        ],
    }
    return json_text(plain, indent=2, allow_nan=False)


def as_csv(history: History, window: Any = None) -> str:
    """Return periods and scores as CSV that is safe to open in a spreadsheet."""
    import pandas as pd

    scores, periods = history.scores(window), history.periods
    frame = pd.concat([periods.reset_index(drop=True), scores.reset_index(drop=True)], axis=1)
    frame.index = pd.Index(times_as_text(scores.index), name="at")
    return to_csv(frame)


def _cells(values: Any) -> list[str]:
    known = cells("score", np.nan_to_num(values))
    return [cell if np.isfinite(value) else "" for cell, value in zip(known, values, strict=True)]


def _plain(values: Any) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def drawn(history: History, window: Any, kind: str, most: int | None, changes: Changes | None) -> Any:
    """Return a new pyplot figure of a history; see ``History.plot``."""
    from debias.results.report import history as pictures
    from debias.results.report.figures import refuse_most, require_matplotlib, settings

    if kind not in ("lines", "strip"):
        raise ValueError(f"kind={kind!r} is not one of 'lines', 'strip'")
    most = (pictures.MOST_IN_HISTORY if kind == "lines" else pictures.MOST_IN_STRIP) if most is None else most
    refuse_most(most)
    require_matplotlib()
    import matplotlib.pyplot as plt

    scores, series = _scores(history, window), list(history.periods["series"])
    n_drawn = min(most, scores.shape[1])
    with settings():
        if kind == "strip":
            figure, axes = plt.subplots(figsize=pictures.size_of_strip(n_drawn), layout="constrained")
            pictures.draw_strip(axes, scores, series, most)
            return figure
        figure = plt.figure(figsize=pictures.size_of_history(n_drawn), layout="constrained")
        errors, recent = history.standard_errors(window), _recent(scores, series, changes)
        pictures.draw_history(figure, scores, errors, series, most, verdicts=_verdicts(changes), recent=recent)
    return figure


def page(history: History, window: Any, changes: Changes | None, title: str | None) -> str:
    """Return the page of a history; see ``History.to_html``."""
    from debias.results.report.history_page import history_page

    scores, periods = _scores(history, window), history.periods
    return history_page(
        scores,
        history.standard_errors(window),
        periods,
        history.models,
        window=None if window is None else f"{window} periods" if isinstance(window, int) else str(window),
        changes=changes,
        recent=_recent(scores, list(periods["series"]), changes),
        title=title,
    )


def _scores(history: History, window: Any) -> pd.DataFrame:
    scores = history.scores(window)
    if scores.empty:
        n_waiting = len(history.waiting)
        if not n_waiting:
            raise HistoryError(f"there is nothing to draw: there is no period in {history.path}")
        wait = counted(n_waiting, "period") + (" waits" if n_waiting == 1 else " wait")
        raise HistoryError(
            f"there is nothing to draw: no period of {history.path} has responses, and {wait} for them. {ADD_RESPONSES}"
        )
    return scores


def _verdicts(changes: Changes | None) -> dict[str, ChangeVerdict] | None:
    if changes is None or not changes.compared:
        return None
    return dict(zip(changes.feature_names, changes.verdict, strict=True))


def _recent(scores: pd.DataFrame, series: list[str], changes: Changes | None) -> tuple[int, int] | None:
    """Return the positions of the first and last recent period of the changes."""
    if changes is None or not changes.compared:
        return None
    position = {
        at: k
        for k, (at, label) in enumerate(zip(times_as_text(scores.index), series, strict=True))
        if label == changes.series
    }
    first, last = (position.get(str(at)) for at in (changes.recent.first, changes.recent.last))
    return None if first is None or last is None else (first, last)
