"""What rows without responses tell: shifts at the splits, and columns whose values may be broken.

What a feature would save if the model were right needs no response. It changes if other rows came. If it changes for
all features as it would with the recent values of one column alone in the rows of the reference, this column is to
blame: a drift moves what goes together with it, and a broken column does not. So no other column may have moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from debias.p_values import holm_of_known
from debias.results.provisional import NOT_LOOKED_FOR, Provisional
from debias.results.windows import MeanOfPeriods
from debias.rows.performance import SUM_OF_LOG_LOSSES
from debias.significance.change import compare_rows
from debias.significance.loss_causes import Steps
from debias.significance.loss_change import estimates
from debias.significance.period_means import OF, names_of_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.results.windows import WindowOfPeriods
    from debias.rows.period_sums import PeriodSums
    from debias.significance.kept_windows import KeptWindow
    from debias.significance.loss_change import PeriodLosses
    from debias.significance.period_means import MeansComparison
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

TELL_PREDICTION = {"mean squared error", "Brier score", "log loss", SUM_OF_LOG_LOSSES, "Poisson deviance"}
"""Losses whose gradient is the response less the prediction: sums over rows then have the mean prediction."""
RARELY = 0.2
"""What would acquit a broken column by chance, a difference of the parts or of another column, does so at this share of
the level."""
MOST_TRIED = 10
"""So many features are tried at most if no column moved, those whose part changed with the smallest p-values."""


def compare_waiting(
    before: Sequence[PeriodSums],
    after: Sequence[PeriodSums],
    grouping: Grouping,
    level: float,
    windows: tuple[WindowOfPeriods, WindowOfPeriods],
    times: Sequence[str],
    ensemble: TreeEnsemble | None = None,
) -> Provisional:
    """Compare periods whose responses are not known with a reference.

    Parameters
    ----------
    before, after : sequence of PeriodSums
        The reference, and the periods without responses, as ``PeriodSums`` of rows whose response is as predicted.
    grouping : Grouping
    level : float
        Largest adjusted p-value of a difference.
    windows : (WindowOfPeriods, WindowOfPeriods)
        How the two are called.
    times : sequence of str
        How the periods without responses are called.
    ensemble : TreeEnsemble, optional
        The trees of the model itself, which know its classes.

    Returns
    -------
    Provisional
        Without broken columns, which :func:`with_broken` finds if `no_broken_because` is NOT_LOOKED_FOR.
    """
    from scipy.special import stdtr

    rows = compare_rows(before, after, grouping, level)
    n, used = len(grouping.names), rows["used"]
    losses: tuple[PeriodLosses, PeriodLosses] = rows["losses"]
    names = ("expected_before", "expected_after", "expected_error", "expected_p_adjusted")
    statistics = dict.fromkeys(names, np.full(n, np.nan)) | {
        name: rows[name] for name in Provisional.STATISTICS if name in rows
    }
    because: str | None = "some rows were added without parts of the loss"
    if all(len(each.sums) for each in losses):
        means, variance, freedom = estimates(losses, grouping)
        at, error = slice(2 + n, 2 + 2 * n), np.sqrt(variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = 2 * stdtr(freedom, -np.abs((means[1] - means[0]) / error))[at]
        adjusted = holm_of_known(np.where(used, p, np.nan))
        values = (-means[0][at], -means[1][at], error[at], adjusted)
        statistics |= dict(zip(names, values, strict=True))
        because = NOT_LOOKED_FOR if (adjusted <= level).any() else None
    return Provisional(
        feature_names=grouping.names,
        reference=windows[0],
        waiting=windows[1],
        level=level,
        statistics=statistics,
        splits=rows["shift_split"],
        prediction=_prediction(rows["means"], losses, times, ensemble),
        no_broken_because=because,
    )


def with_broken(
    found: Provisional, ensemble: TreeEnsemble, grouping: Grouping, before: KeptWindow, after: KeptWindow
) -> Provisional:
    """Return what rows without responses tell, with the columns whose values may be broken.

    Parameters
    ----------
    found : Provisional
        With changes of what features are expected to save.
    ensemble : TreeEnsemble
        The trees of the model itself.
    grouping : Grouping
    before, after : KeptWindow
        Rows of both windows.
    """
    p = found.statistics["expected_p_adjusted"]
    steps = Steps(np.isfinite(p), found.level, ensemble, grouping, before, after)
    if steps.reproduced() > found.level:
        return replace(found, no_broken_because="the rows that were kept are too few to show the change")
    moved = {int(k) for k in np.flatnonzero(steps.moved_columns() <= found.level * RARELY)}
    # If one column moved, it is the only one that may be broken, also if what it saves itself changed by little.
    tried = found.changed[:MOST_TRIED].tolist() if not moved else list(moved) if len(moved) == 1 else []
    p_broken = {k: steps.reproduced(k) for k in tried}
    broken = sorted((k for k in p_broken if p_broken[k] > found.level * RARELY), key=lambda k: -p_broken[k])
    return replace(found, broken=tuple(grouping.names[k] for k in broken), no_broken_because=None)


def _prediction(
    means: MeansComparison,
    losses: tuple[PeriodLosses, PeriodLosses],
    times: Sequence[str],
    ensemble: TreeEnsemble | None,
) -> MeanOfPeriods | None:
    """Return the comparison of the mean prediction; None for losses whose gradients do not tell it."""
    if not {*losses[0].metrics, *losses[1].metrics} <= TELL_PREDICTION or not losses[1].metrics:
        return None
    return means.of(OF.index("prediction"), times, names_of_outputs(ensemble, means.n_outputs))
