"""Periods on a horizontal axis: dates, numbers or names, with labels that do not run into each other."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.figures import MUTED
from debias.text import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

MOST_LABELS = 6
"""An axis has at most this many labels,"""
FEW = 3
"""and so few periods have a label each."""
LONGEST = 14
"""A mark shows this many characters of the label of a model,"""
LONGEST_LABEL = 20
"""and an axis of the name of a period."""
DOTS = (0, (1, 1.5))
GAP = 1.5
"""Between two periods that are more than this many usual steps apart, others are missing."""
OF_MARK, OF_TICK = 4.4, 5.3
"""Widths of a letter of the label of a mark, and of a tick, in points."""


@dataclass(frozen=True)
class TimeAxis:
    """Where the periods of a history lie, which model scored them, and how the axis is labelled.

    Parameters
    ----------
    index : pandas Index
        Periods: dates (those with a time zone are shown in UTC), numbers, or names.
    series : sequence of str
        Label of the model of each period.
    """

    index: pd.Index[Any]
    series: Sequence[str]

    @cached_property
    def kind(self) -> str:
        """Either "dates", "numbers" or "names"."""
        if self.index.dtype.kind == "M" or hasattr(self.index, "tz"):
            return "dates"
        if self.index.dtype.kind in "iuf":
            return "numbers"
        are_dates = [isinstance(at, (datetime.date, np.datetime64)) for at in self.index]
        return "dates" if are_dates and all(are_dates) else "names"

    @cached_property
    def places(self) -> NDArray[np.float64]:
        """Place of each period, shape (n_periods,): days since 1970, numbers, or 0, 1, 2, ... in order for names."""
        import pandas as pd

        if self.kind == "numbers":
            return self.index.to_numpy(dtype=np.float64)
        if self.kind == "names":
            return pd.factorize(self.index)[0].astype(np.float64)
        from matplotlib.dates import date2num

        return np.asarray(date2num(self.dates.to_numpy()), dtype=np.float64)  # type: ignore[no-untyped-call]

    @cached_property
    def begins(self) -> dict[str, float]:
        """The models in the order in which they began, and the place where each began."""
        labels = np.asarray(self.series, dtype=object)
        first = {label: float(self.places[labels == label].min()) for label in dict.fromkeys(self.series)}
        return dict(sorted(first.items(), key=lambda item: item[1]))

    @cached_property
    def marks(self) -> dict[str, float]:
        """For each model after the first one, the place of its mark: between its first period and the one before."""
        ticks = np.unique(self.places)
        before = {label: ticks[ticks < begin] for label, begin in list(self.begins.items())[1:]}
        return {
            label: float((self.begins[label] + (earlier[-1] if earlier.size else self.begins[label])) / 2)
            for label, earlier in before.items()
        }

    @cached_property
    def newest(self) -> NDArray[np.bool_]:
        """For each period whether no newer model had begun, shape (n_periods,)."""
        labels = list(self.begins)
        ends = dict(zip(labels, [*list(self.begins.values())[1:], np.inf], strict=True))
        return self.places < np.array([ends[label] for label in self.series])

    @cached_property
    def step(self) -> float:
        """The usual distance of two periods; 1 for a single period."""
        ticks = np.unique(self.places)
        return float(np.median(np.diff(ticks))) if ticks.size > 1 else 1.0

    def cells(self, ticks: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the edges of cells around ascending places, and which place is in each cell: -1 in a gap.

        Neighbours share an edge halfway between them, unless periods are missing between them.
        """
        edges, inside = [ticks[0] - self.step / 2], [0]
        for k, (one, other) in enumerate(zip(ticks[:-1], ticks[1:], strict=True), start=1):
            if other - one > GAP * self.step:
                edges += [one + self.step / 2, other - self.step / 2]
                inside += [-1, k]
            else:
                edges.append((one + other) / 2)
                inside.append(k)
        edges.append(ticks[-1] + self.step / 2)
        return np.array(edges), np.array(inside)

    def set_ticks(self, axes: Any, width: float) -> None:
        """Put ticks and labels on the horizontal axis of a width in points, and the limits around all periods."""
        ticks, first = np.unique(self.places, return_index=True)
        axes.set_xlim(ticks[0] - self.step / 2, ticks[-1] + self.step / 2)
        axis = axes.xaxis
        if self.kind == "names" or ticks.size <= FEW:
            longest = min(LONGEST_LABEL, int(width / 2 / OF_TICK) - 2)  # two labels fit in any case
            labels = [shortened(text, longest) for text in self.texts]
            fit = int(width / (OF_TICK * max(map(len, labels)) + 12))
            number = min(ticks.size, MOST_LABELS, max(2, fit))
            shown = np.unique(np.linspace(0, ticks.size - 1, number).round().astype(np.int64))
            axis.set_ticks(ticks[shown], [labels[first[k]] for k in shown])
            if shown.size > 1:  # the outer labels stay above their own axis
                first_tick, *_, last_tick = axis.get_major_ticks()
                first_tick.label1.set_horizontalalignment("left")
                last_tick.label1.set_horizontalalignment("right")
        elif self.kind == "dates":
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator(minticks=2, maxticks=MOST_LABELS)  # type: ignore[no-untyped-call]
            axis.set_major_locator(locator)
            axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        else:
            from matplotlib.ticker import MaxNLocator

            whole = bool((ticks == np.round(ticks)).all())
            axis.set_major_locator(MaxNLocator(MOST_LABELS - 1, integer=whole))

    def draw_marks(self, axes: Any, width: float, above: bool = False) -> None:
        """Draw a dotted line where each new model begins, with its label if there is room.

        Parameters
        ----------
        axes : matplotlib Axes
            Its horizontal limits are set.
        width : float
            Approximate width of the axes, in points.
        above : bool
            Whether the labels are above the axes, or inside of them.
        """
        left, right = axes.get_xlim()
        taken = left
        ends = [right] * len(self.marks) if above else [*self.marks.values(), right][1:]
        for (label, place), end in zip(self.marks.items(), ends, strict=True):
            if above:  # the line crosses dark colours
                axes.axvline(place, color="white", lw=2.2, zorder=2)
            axes.axvline(place, color="black" if above else MUTED, lw=1.1, ls=DOTS, zorder=2 if above else 1)
            text = shortened(label, LONGEST)
            needed = (OF_MARK * len(text) + 6) * (right - left) / width
            to_the_left = place + needed > right
            begin = place - needed if to_the_left else place
            if begin >= taken and (to_the_left or begin + needed <= end):
                style = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "color": MUTED}
                side, away = ("right", -3) if to_the_left else ("left", 3)
                axes.annotate(text, (place, 1), (away, 6 if above else -6), ha=side, va="center", fontsize=7.5, **style)
                taken = begin + needed
            if not above:
                taken = max(taken, place)

    @cached_property
    def texts(self) -> list[str]:
        """Each period as text: dates without a time if all are midnights."""
        if self.kind != "dates":
            return [f"{at:g}" if self.kind == "numbers" else str(at) for at in self.index]
        if (self.dates == self.dates.normalize()).all():
            return list(self.dates.strftime("%Y-%m-%d"))
        zone = " UTC" if getattr(self.index, "tz", None) is not None else ""
        return list(self.dates.strftime(f"%Y-%m-%d %H:%M{zone}"))

    @cached_property
    def dates(self) -> pd.DatetimeIndex:
        """The dates of the periods, without a time zone; those with a zone are converted to UTC."""
        import pandas as pd

        dates = pd.DatetimeIndex(pd.to_datetime(self.index))
        return dates if dates.tz is None else dates.tz_convert("UTC").tz_localize(None)
