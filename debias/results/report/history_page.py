"""A history as one HTML page: how scores went over time, by model, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.fleet import headline_of
from debias.results.report.changes import NO_WARNINGS, tables_of_changes
from debias.results.report.changes import READING as ABOUT_CHANGES
from debias.results.report.history import (
    MOST_IN_HISTORY,
    MOST_IN_STRIP,
    TimeAxis,
    draw_history,
    draw_strip,
    important,
    size_of_history,
    size_of_strip,
)
from debias.results.report.loss_change import READING as ABOUT_LOSS
from debias.results.report.loss_change import figure_of_loss
from debias.results.report.pages import Styles, packages_of_reports, picture, render
from debias.results.tables import DASH, Table, cells
from debias.text import counted, escaped, few_digits

if TYPE_CHECKING:
    import pandas as pd

    from debias.results.changes import Changes

MOST_PERIODS = 100
"""The numbers of the picture have this many of the last periods."""
MOST_NAMED = 5
UNJUDGED = "Not judged: these are scores over time, and no comparison of periods was asked for."
READING = (
    (
        "A score",
        "is the covariance of trees and response on rows that the model has not seen. For noise it is 0 on average.",
    ),
    (
        "The band",
        "is the 95% interval of the score of a period, with the splits of the trees fixed. It does not cover what "
        "makes whole periods different from each other.",
    ),
    (
        "A new model",
        "begins a new series. Its scores are about other trees, so a jump at its mark may be no change in the data.",
    ),
)


def history_page(
    scores: pd.DataFrame,
    errors: pd.DataFrame,
    periods: pd.DataFrame,
    models: pd.DataFrame,
    *,
    window: str | None = None,
    changes: Changes | None = None,
    recent: tuple[int, int] | None = None,
    title: str | None = None,
) -> str:
    """Return a history as one HTML page.

    Parameters
    ----------
    scores, errors : DataFrame of shape (n_periods, n_features)
        Scores and standard errors of the periods.
    periods : DataFrame
        Same index as `scores`; columns ``series`` and ``n_rows``.
    models : DataFrame
        Index: labels of models; columns ``model`` and ``version``.
    window : str, optional
        The window of periods of each score.
    changes, recent
        What changed, and the first and last position of the recent periods.
    title : str, optional

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    styles, series = Styles(), list(periods["series"])
    with packages_of_reports():  # an axis of dates needs matplotlib
        time = TimeAxis(scores.index, series)
        headline, *sentences = [
            UNJUDGED if changes is None else headline_of(changes),
            *_sentences(scores, time, window),
        ]
        figures = [_figure_of_lines(scores, errors, time, styles, changes, recent)]
        if scores.shape[1] > 1:
            figures.append(_figure_of_strip(scores, time, styles))
        if changes is not None and changes.loss is not None:
            figures.insert(0, figure_of_loss(changes.loss, styles))
        tables = [_table_of_features(scores, time), _table_of_models(periods, models, time)]
    if changes is not None:
        sentences = [*changes.summary(), *sentences]
        tables = [*tables_of_changes(changes), *tables]
    return render(
        "findings.html.j2",
        styles,
        title=title or "Scores over time",
        headline=headline,
        sentences=sentences,
        facts=[
            ("periods", f"{len(scores):,}"),
            ("rows", f"{int(periods['n_rows'].sum()):,}"),
            ("features", f"{scores.shape[1]:,}"),
            ("models", f"{len(time.begins):,}"),
        ],
        warnings=() if changes is None else changes.warnings,
        no_warnings=NO_WARNINGS
        if changes is not None
        else "Nothing was compared on this page, so nothing is warned of.",
        figures=figures,
        tables=tables,
        reading=(
            *READING,
            *(() if changes is None else ABOUT_CHANGES),
            *(() if changes is None or changes.loss is None else ABOUT_LOSS),
        ),
        provenance=[("scores", "mdi_oob"), ("each score is of", window or "one period")],
    )


def _sentences(scores: pd.DataFrame, time: TimeAxis, window: str | None) -> list[str]:
    first, last = escaped(time.texts[0]), escaped(time.texts[-1])
    span = f" from {first} to {last}" if len(scores) > 1 else f" ({first})"
    models = "" if len(time.begins) == 1 else f", with {len(time.begins):,} models"
    lines = [f"Scores of {counted(scores.shape[1], 'feature')} in {counted(len(scores), 'period')}{span}{models}."]
    if window is not None:
        lines.append(f"Each score is of the window of {window} that ends with its period.")
    of_last = scores[time.newest].iloc[-1].dropna()
    largest = of_last[of_last > 0].sort_values(ascending=False, kind="stable")[:MOST_NAMED]
    if len(largest):
        names = ", ".join(f"{escaped(str(name))} ({few_digits(value)})" for name, value in largest.items())
        lines.append(f"The largest scores of the last period: {names}.")
    elif len(of_last):
        lines.append("No score of the last period is above 0.")
    missing = int(scores.isna().all(axis=1).sum())
    if missing:
        lines.append(f"{counted(missing, 'period')} {'has' if missing == 1 else 'have'} no score.")
    return lines


def _figure_of_lines(
    scores: pd.DataFrame,
    errors: pd.DataFrame,
    time: TimeAxis,
    styles: Styles,
    changes: Changes | None,
    recent: tuple[int, int] | None,
) -> dict[str, Any]:
    features = important(scores)[:MOST_IN_HISTORY]
    some = "" if features.size == scores.shape[1] else f", of the {features.size} with the largest mean score"
    caption = f"Score of each feature over time{some}. Vertical ranges differ and include 0."
    if time.marks:
        caption += " Dotted lines: a new model begins."
    verdicts = None
    if changes is not None and changes.compared:
        verdicts = dict(zip(changes.feature_names, changes.verdict, strict=True))
    last = slice(-MOST_PERIODS, None)
    columns = {"period": time.texts[last]}
    if time.marks:
        columns["model"] = [escaped(label) for label in time.series[last]]
    for k in features:
        columns[_distinct(escaped(str(scores.columns[k])), columns)] = cells("score", scores.iloc[last, k], DASH)
    about = f"The last {MOST_PERIODS} of {len(scores):,} periods" if len(scores) > MOST_PERIODS else "All periods"
    return picture(
        "lines",
        "The most important features",
        caption,
        styles,
        size_of_history(features.size),
        lambda figure: draw_history(figure, scores, errors, time.series, verdicts=verdicts, recent=recent),
        title="Scores over time",
        table=Table.of_cells(columns).to_html(),
        about_table=about,
    )


def _figure_of_strip(scores: pd.DataFrame, time: TimeAxis, styles: Styles) -> dict[str, Any]:
    n_features = min(scores.shape[1], MOST_IN_STRIP)
    some = (
        "all features" if n_features == scores.shape[1] else f"the {n_features:,} features with the largest mean score"
    )
    caption = (
        f"Scores of {some}: one row a feature, one column a period. Blue is above 0, orange below, white is 0, and "
        "grey has no score. Colours follow the square root of the score."
    )
    return picture(
        "strip",
        "All features",
        caption,
        styles,
        size_of_strip(n_features),
        lambda figure: draw_strip(figure.subplots(), scores, time.series),
        title="All features over time",
    )


def _table_of_features(scores: pd.DataFrame, time: TimeAxis) -> dict[str, Any]:
    ordered = scores.iloc[:, important(scores)]
    values = ordered.to_numpy(dtype=np.float64)
    known = np.isfinite(values)
    n_known = known.sum(axis=0)
    last = ordered[time.newest].ffill().iloc[-1].to_numpy(dtype=np.float64)
    some = n_known > 0
    statistics = {
        "mean": np.where(known, values, 0.0).sum(axis=0) / np.where(some, n_known, np.nan),
        "lowest": np.where(some, np.where(known, values, np.inf).min(axis=0), np.nan),
        "highest": np.where(some, np.where(known, values, -np.inf).max(axis=0), np.nan),
        "last": last,
    }
    columns = {"feature": list(map(str, ordered.columns))}
    columns |= {name: cells("score", column, DASH) for name, column in statistics.items()}
    columns["periods"] = [f"{number:,}" for number in n_known]
    caption = "Scores over all periods, sorted by the mean. “last” is the score of the last period that has one."
    return {
        "name": "features",
        "heading": "Scores of all features",
        "table": Table.of_cells(columns).to_html(),
        "caption": caption,
    }


def _table_of_models(periods: pd.DataFrame, models: pd.DataFrame, time: TimeAxis) -> dict[str, Any]:
    labels = np.asarray(time.series, dtype=object)
    rows = {label: np.flatnonzero(labels == label) for label in time.begins}
    kind, version = models["model"].to_dict(), models["version"].to_dict()
    columns = {
        "series": list(rows),
        "model": [escaped(f"{kind[label]} {version[label]}") for label in rows],
        "from": [escaped(time.texts[own[0]]) for own in rows.values()],
        "to": [escaped(time.texts[own[-1]]) for own in rows.values()],
        "periods": [f"{own.size:,}" for own in rows.values()],
        "rows": [f"{int(periods['n_rows'].to_numpy()[own].sum()):,}" for own in rows.values()],
    }
    caption = "In the order in which they began."
    return {"name": "models", "heading": "Models", "table": Table.of_cells(columns).to_html(), "caption": caption}


def _distinct(name: str, others: dict[str, list[str]]) -> str:
    """Return a heading that no other column has."""
    while name in others:
        name += "\N{NO-BREAK SPACE}"
    return name
