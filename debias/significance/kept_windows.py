"""Rows of windows of periods that were kept, and sums over their periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.positions import evenly_spaced
from debias.rows.loss_parts import KeptRows
from debias.rows.period_sums import BEFORE_PARTS
from debias.significance.loss_change import PeriodLosses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.loss_parts import Line

    Array = NDArray[np.float64]

MOST_ROWS = 3000
"""At most about this many rows of a window are used."""


@dataclass(frozen=True, eq=False)
class KeptWindow:
    """Rows of a window that were kept.

    Parameters
    ----------
    rows : KeptRows
    weight : array of shape (n_rows,)
    period : array of int64 of shape (n_rows,)
        Period of each row, numbered from 0 in order of time.
    group : array of int64 of shape (n_periods,)
        Groups of consecutive periods.
    """

    rows: KeptRows
    weight: Array
    period: NDArray[np.int64]
    group: NDArray[np.int64]

    @classmethod
    def of(cls, kept: list[tuple[KeptRows, Array]], group: NDArray[np.int64]) -> KeptWindow:
        """Return the rows of the periods of a window; if there are too many, as many of each part of a period."""
        most = max(1, MOST_ROWS // max(len(kept), 1))
        # Rows stand part after part, and those of a part in random order.
        chosen = [evenly_spaced(len(weight), min(most, len(weight))) for _, weight in kept]
        weights = [weight[at] * (weight.sum() / weight[at].sum()) for (_, weight), at in zip(kept, chosen, strict=True)]
        parts = [rows.part(at) for (rows, _), at in zip(kept, chosen, strict=True)]
        return cls(
            KeptRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "start"))),
            np.concatenate(weights),
            np.repeat(np.arange(len(kept)), [at.size for at in chosen]),
            group,
        )


def losses_of(window: KeptWindow, line: Line, costs: Array | float = 0.0) -> PeriodLosses:
    """Return sums of periods of what features save, less some costs; their losses and bases are left out."""
    return sums_of(window, np.hstack([line.saved(line.slope) - costs, line.saved(line.expected)]))


def sums_of(window: KeptWindow, columns: Array) -> PeriodLosses:
    """Return weighted sums of periods of two columns for each feature, where the parts of the loss have theirs."""
    n_periods = window.group.size
    sums = np.zeros((n_periods, BEFORE_PARTS + columns.shape[1]))
    sums[:, 0] = np.bincount(window.period, window.weight, n_periods)
    sums[:, 1] = np.bincount(window.period, minlength=n_periods)
    for k, column in enumerate(columns.T, BEFORE_PARTS):
        sums[:, k] = np.bincount(window.period, window.weight * column, n_periods)
    return PeriodLosses(sums, window.group, n_periods, (), ())
