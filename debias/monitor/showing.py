"""A history for a terminal, and as JSON and CSV for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.monitor.times import shown_index
from debias.results.cells import cells
from debias.text import counted, json_text, shown, to_csv

if TYPE_CHECKING:
    from rich.console import Console

    from debias.monitor.history import History

SCHEMA_VERSION = 1
MOST_PERIODS, MOST_FEATURES = 30, 6
"""A table for a terminal has at most this many of the last periods, and of the features with the largest scores."""


def print_history(console: Console, history: History, window: Any = None) -> None:
    """Print the models, and the scores of the last periods or windows for the features with the largest scores."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(repr(history)))
    scores, periods = history.scores(window), history.periods
    size = np.abs(np.nan_to_num(scores.to_numpy()[-MOST_PERIODS:])).mean(axis=0)
    drawn = np.argsort(-size, kind="stable")[:MOST_FEATURES]
    table = Table()
    for heading in ("period" if window is None else f"{window} to", "series", "rows"):
        table.add_column(Text(shown(str(heading))), justify="right" if heading == "rows" else "left", overflow="fold")
    for k in drawn:
        table.add_column(Text(shown(str(scores.columns[k]))), justify="right", overflow="fold")
    last = slice(-MOST_PERIODS, None)
    columns = [
        shown_index(scores.index)[last],
        list(periods["series"])[last],
        [f"{n:,}" for n in periods["n_rows"]][last],
    ]
    columns += [_cells(scores.iloc[last, k].to_numpy()) for k in drawn]
    for row in zip(*columns, strict=True):
        table.add_row(*(Text(shown(cell)) for cell in row))
    console.print(table)
    n_periods, n_features = len(scores) - len(columns[0]), scores.shape[1] - len(drawn)
    left_out = [counted(n, what) for n, what in ((n_periods, "earlier period"), (n_features, "other feature")) if n]
    if left_out:
        console.print(Text(f"... {' and '.join(left_out)}; CSV, JSON and data frames have all."))


def as_json(history: History, window: Any = None) -> str:
    """Return models, periods, scores and their standard errors as JSON. Figures that are not known are null."""
    scores, errors, periods = history.scores(window), history.standard_errors(window), history.periods
    models = history.models
    plain = {
        "schema_version": SCHEMA_VERSION,
        "scorer": "mdi_oob",
        "window": None if window is None else str(window),
        "models": [{"series": name, **row} for name, row in zip(models.index, models.to_dict("records"), strict=True)],
        "feature_names": list(map(str, scores.columns)),
        "periods": [
            {"at": at, **row, "scores": _plain(values), "standard_errors": _plain(of_errors)}
            for at, row, values, of_errors in zip(
                shown_index(scores.index),
                periods.to_dict("records"),
                scores.to_numpy(),
                errors.to_numpy(),
                strict=True,
            )
        ],
    }
    return json_text(plain, indent=2, allow_nan=False)


def as_csv(history: History, window: Any = None) -> str:
    """Return periods and scores as CSV that is safe to open in a spreadsheet."""
    import pandas as pd

    scores, periods = history.scores(window), history.periods
    frame = pd.concat([periods.reset_index(drop=True), scores.reset_index(drop=True)], axis=1)
    frame.index = pd.Index(shown_index(scores.index), name="at")
    return to_csv(frame)


def _cells(values: Any) -> list[str]:
    known = cells("score", np.nan_to_num(values))
    return [cell if np.isfinite(value) else "" for cell, value in zip(known, values, strict=True)]


def _plain(values: Any) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
