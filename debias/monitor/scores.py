"""Scores of periods and of moving windows, as data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.monitor.figures import scores_with_errors
from debias.monitor.times import index_of
from debias.monitor.windows import moving_sums
from debias.text import feature_index

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.monitor.records import Records
    from debias.monitor.store import Series
    from debias.monitor.times import Window


def frames_of(records: Records, window: Window | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scores of all series and their standard errors, in the form of ``History.scores``.

    Parameters
    ----------
    records : Records
    window : Window or None
        None for single periods.
    """
    import pandas as pd

    figures: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    found = records.content.series()
    for series in found:
        figures |= _figures(records, series, window)
    periods = records.content.periods()
    of_series = {series.id: records.trees(series).grouping.names for series in found}
    # The columns of the latest model come first.
    names = tuple(dict.fromkeys(name for series in reversed(found) for name in of_series[series.id]))
    position = {name: k for k, name in enumerate(names)}
    places = {number: [position[name] for name in own] for number, own in of_series.items()}
    values = np.full((2, len(periods), len(names)), np.nan)
    for row, period in enumerate(periods):
        values[:, row, places[period.series]] = figures[period.id]
    index, columns = index_of([period.moment for period in periods]), feature_index(names, None)
    scores, errors = (pd.DataFrame(each, index=index, columns=columns) for each in values)
    return scores, errors


def _figures(
    records: Records, series: Series, window: Window | None
) -> dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return scores and errors of the periods of a series, or of the windows that end with them, by period."""
    periods = records.content.periods(series.id)
    if window is None:
        return {period.id: records.figures(series, period) for period in periods}
    keys = [period.key for period in periods]
    begins = [window.begin(keys, k, period.kind) for k, period in enumerate(periods)]
    trees = records.trees(series)
    states = moving_sums(lambda k: records.state_of_period(series, periods[k])[0], begins)
    return {
        period.id: scores_with_errors(trees.sums(state), trees.grouping)
        for period, state in zip(periods, states, strict=True)
    }
