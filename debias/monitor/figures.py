"""Scores of the rows of a period or a window, from their sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.hooks.contracts import TreeScorer
from debias.hooks.expressions import scorer
from debias.hooks.scorers import figures_of
from debias.rows.provenance import Provenance
from debias.rows.rows import SummedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.period_sums import PeriodSums

SCORER = "mdi_oob"
"""The scorer of a history."""
_SUMMED = Provenance("held-out", "cannot be told", "sums of a period")


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
    values, _ = figures_of(chosen, chosen.score(sums.ensemble, rows), sums.ensemble)
    scores, variance = grouping.sum(values), grouping.sum(sums.variances()[0][0])
    several = np.bincount(grouping.index, minlength=len(grouping.names)) > 1
    unknown = several | ((variance == 0) & (scores != 0))
    return scores, np.where(unknown, np.nan, np.sqrt(variance))
