"""Scores of periods and of moving windows, from their sums, and as data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.hooks.contracts import TreeScorer
from debias.hooks.expressions import scorer
from debias.hooks.scorers import values_and_details
from debias.monitor.times import index_of, moving_sums
from debias.results.vocabulary import RowsKind
from debias.rows.provenance import Provenance
from debias.rows.rows import SummedRows
from debias.text import feature_index

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.monitor.records import Records
    from debias.monitor.store import Series
    from debias.monitor.times import Window
    from debias.rows.period_sums import PeriodSums

SCORER = "mdi_oob"
"""The scorer of a history."""
_SUMMED = Provenance(RowsKind.HELD_OUT, "cannot be told", "sums of a period")


def scores_with_errors(sums: PeriodSums, grouping: Grouping) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scores of features and their standard errors within periods, each of shape (n_groups,).

    Parameters
    ----------
    sums : PeriodSums
    grouping : Grouping

    Returns
    -------
    (array, array)
        The error of a sum over several columns is NaN: it depends on how the scores of the columns vary together. So
        is the error of a score that differs from 0 only between periods: those of features that are the same for all
        rows of a period.
    """
    rows = SummedRows(sums, None, "held-out", _SUMMED, None, None, None, "")
    chosen = scorer(SCORER)
    assert isinstance(chosen, TreeScorer)
    values, _ = values_and_details(chosen, chosen.score(sums.ensemble, rows), sums.ensemble)
    scores, variance = grouping.sum(values), grouping.sum(sums.variances()[0][0])
    several = np.bincount(grouping.index, minlength=len(grouping.names)) > 1
    unknown = several | ((variance == 0) & (scores != 0))
    return scores, np.where(unknown, np.nan, np.sqrt(variance))


def frames_of(records: Records, window: Window | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scores of all series and their standard errors, in the form of ``History.scores``.

    Parameters
    ----------
    records : Records
    window : Window or None
        None for single periods.
    """
    import pandas as pd

    by_period: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    found = records.content.series()
    for series in found:
        by_period |= _scores_and_errors(records, series, window)
    periods = records.content.periods()
    of_series = {series.id: records.trees(series).grouping.names for series in found}
    # The columns of the latest model come first.
    names = tuple(dict.fromkeys(name for series in reversed(found) for name in of_series[series.id]))
    position = {name: k for k, name in enumerate(names)}
    places = {number: [position[name] for name in own] for number, own in of_series.items()}
    values = np.full((2, len(periods), len(names)), np.nan)
    for row, period in enumerate(periods):
        values[:, row, places[period.series]] = by_period[period.id]
    index, columns = index_of([period.moment for period in periods]), feature_index(names, None)
    scores, errors = (pd.DataFrame(each, index=index, columns=columns) for each in values)
    return scores, errors


def _scores_and_errors(
    records: Records, series: Series, window: Window | None
) -> dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return scores and errors of the periods of a series, or of the windows that end with them, by period."""
    periods = records.content.periods(series.id)
    if window is None:
        return {period.id: records.scores_and_errors(series, period) for period in periods}
    keys = [period.key for period in periods]
    begins = [window.begin(keys, k, period.kind) for k, period in enumerate(periods)]
    trees = records.trees(series)
    states = moving_sums(lambda k: records.state_of_period(series, periods[k])[0], begins)
    return {
        period.id: scores_with_errors(trees.sums(state), trees.grouping)
        for period, state in zip(periods, states, strict=True)
    }
