"""The comparison of two windows of a history from a few numbers a period, without the sums at leaves.

The loss and what each feature costs, the mean residual, new categories and repeated rows are those of the full
comparison of the same windows. Shifts of the rows and the response to single features need the sums at leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.monitor.comparing import mixed_margins, nothing_to_compare, reference_of, window_of
from debias.monitor.records import HAS_MARGINS
from debias.monitor.times import time_text
from debias.results.fleet import MORE_FAULTS, Findings
from debias.results.performance import Y_IS_PREDICTED
from debias.significance.change import groups_of, largest_share
from debias.significance.loss_change import LossesOfPeriods, compare_losses
from debias.significance.period_means import OF, PeriodMeans, compare_means, names_of_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.monitor.records import Records
    from debias.monitor.store import Series
    from debias.monitor.summaries import PeriodSummary
    from debias.results.loss_change import LossChange
    from debias.significance.loss_change import PeriodLosses
    from debias.trees.ensemble import TreeEnsemble

RESIDUAL = OF.index("residual")


class Summaries:
    """The periods of a series, each without its sums at leaves.

    Parameters
    ----------
    records : Records
    series : Series
    own : TreeEnsemble, optional
        The trees of the model itself, which know its classes.
    """

    def __init__(self, records: Records, series: Series, own: TreeEnsemble | None = None) -> None:
        self.own = own
        trees = records.trees(series)
        ensemble = trees.ensemble
        self.label, self.model = series.label, ensemble.source
        self.periods, self.grouping = records.content.periods(series.id), trees.grouping
        self.used = (
            np.bincount(self.grouping.index[ensemble.feature[ensemble.splits]], None, len(trees.grouping.names)) > 0
        )
        self._records, self._series = records, series
        self._known: dict[int, PeriodSummary] = {}
        self._windows: dict[range, _Window] = {}

    def compared(self, after: range, *, recent: Any, reference: Any, alpha: float, looks: int) -> Findings | str:
        """Return what the recent periods show, or why there is nothing to compare.

        Parameters
        ----------
        after : range
            Positions of the recent periods.
        recent, reference : int, str, timedelta, (first, last), or None
            As for ``History.changes``. By default the reference ends before a week that differs, as far as this is
            known without sums at leaves.
        alpha, looks
            As for :func:`debias.significance.change.compare_windows`.
        """
        level = alpha / looks
        before = reference_of(self.periods, reference, after, lambda one, other: self._differs(one, other, level))
        because = nothing_to_compare(self.periods, before, after, reference is not None)
        return self.between(before, after, level) if because is None else because

    def between(self, before: range, after: range, level: float) -> Findings:
        """Return what the periods at some positions show against those at others; there are some of both."""
        windows = self._window(before), self._window(after)
        loss, no_loss_because = self._loss(windows, level)
        means = compare_means(windows[0].means, windows[1].means, level)
        return Findings(
            reference=window_of(self.periods, before, self._n_rows),
            recent=window_of(self.periods, after, self._n_rows),
            feature_names=self.grouping.names,
            loss=loss,
            no_loss_because=no_loss_because,
            residual=means.of(
                RESIDUAL,
                [time_text(self.periods[at].moment) for at in after],
                names_of_outputs(self.own, means.n_outputs),
            ),
            unseen=(windows[0].unseen, windows[1].unseen),
            repeated=(windows[0].repeated, windows[1].repeated),
            response_predicted=next(
                (note for window in windows for note in window.notes if note.startswith(Y_IS_PREDICTED)), None
            ),
            mixed_margins=self._mixed_margins([*before, *after]),
            warnings=means.warnings,
        )

    def _mixed_margins(self, compared: list[int]) -> str | None:
        with_margins = {position for position in compared if HAS_MARGINS in self._known[position].notes}
        return mixed_margins(self.periods, compared, with_margins)

    def _differs(self, before: range, after: range, level: float) -> bool:
        """Return whether two windows differ, as far as this is known without sums at leaves."""
        windows = self._window(before), self._window(after)
        more = np.append(windows[1].unseen - windows[0].unseen, windows[1].repeated - windows[0].repeated)
        means = compare_means(windows[0].means, windows[1].means, level)
        if means.changed[RESIDUAL] or (more > MORE_FAULTS).any():
            return True
        loss, _ = self._loss(windows, level)
        return loss is not None and (loss.costs_more.size > 0 or loss.direction is not None)

    def _loss(self, windows: tuple[_Window, _Window], level: float) -> tuple[LossChange | None, str | None]:
        return compare_losses(windows[0].losses, windows[1].losses, self.grouping, self.used, level)

    def each(self, positions: range) -> list[PeriodSummary]:
        """Return the periods at some positions; each is read once."""
        new = [position for position in positions if position not in self._known]
        found = self._records.summaries(self._series, [self.periods[position] for position in new])
        self._known |= dict(zip(new, found, strict=True))
        return [self._known[position] for position in positions]

    def _window(self, positions: range) -> _Window:
        """Return the window of the periods at some positions; each window is made once."""
        if positions not in self._windows:
            self._windows[positions] = _Window.of(self.each(positions), self.grouping)
        return self._windows[positions]

    def _n_rows(self, position: int) -> int:
        return int(self._known[position].n_rows)


@dataclass(frozen=True, eq=False)
class _Window:
    """What is compared of the periods of a window."""

    losses: PeriodLosses
    means: PeriodMeans
    unseen: NDArray[np.float64]
    """Share of the rows with a category that the model never saw, of each group of features."""
    repeated: float
    notes: list[str]

    @classmethod
    def of(cls, periods: list[PeriodSummary], grouping: Grouping) -> _Window:
        losses = LossesOfPeriods(grouping.index.size)
        for period, group in zip(periods, groups_of(len(periods)).tolist(), strict=True):
            losses.add(period, group)
        n_rows = sum(each.n_rows for each in periods)
        return cls(
            losses.collected(),
            PeriodMeans(
                *(np.array([getattr(each, of) for each in periods]) for of in ("weight", "means", "variances"))
            ),
            largest_share(grouping, np.sum([each.unseen for each in periods], axis=0) / n_rows),
            sum(each.repeated for each in periods) / n_rows,
            [note for each in periods for note in each.notes],
        )
