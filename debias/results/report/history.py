"""Pictures of scores over time: a small picture for each important feature, and a strip of colours for all.

Periods are on a horizontal axis of dates, numbers or names, with labels that do not run into each other.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.figures import BAND, GRID, MUTED, name_rows, refuse_most
from debias.results.vocabulary import BLUE, ChangeVerdict
from debias.text import shortened, shortened_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

MOST_IN_HISTORY = 12
"""A picture of scores over time shows this many features."""
MOST_IN_STRIP = 1000
"""A strip shows this many features, and names the first of them:"""
NAMED = 30
LONGEST_NAME = 28
NO_SCORE = "#bdbdbd"
"""The ground of a strip. It is the same in dark pages, as the colours of the cells are."""
FEW_PERIODS = 40
"""So few periods are marked by points."""
NORMAL = 1.959964
"""The 97.5% quantile of the normal distribution: a history keeps sums of rows, and not their number of blocks."""

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


def draw_history(
    figure: Any,
    scores: pd.DataFrame,
    errors: pd.DataFrame,
    series: Sequence[str],
    most: int = MOST_IN_HISTORY,
    *,
    verdicts: Mapping[str, ChangeVerdict] | None = None,
    recent: tuple[int, int] | None = None,
) -> None:
    """Draw the scores of the most important features over time, one small picture each.

    Parameters
    ----------
    figure : matplotlib Figure
        An empty figure. It gets the constrained layout, if it has none.
    scores : DataFrame
        Index: periods, in order: dates, numbers or names. Columns: features. NaN if a period has no score.
    errors : DataFrame
        Standard errors of the scores, in the same form. NaN if they are not known.
    series : sequence of str
        Label of the model of each period.
    most : int
        Draw at most this many features: those with the largest mean score over all periods.
    verdicts : mapping of str to ChangeVerdict, optional
        What changed, by feature: verdicts of :class:`debias.Changes`.
    recent : tuple of int, optional
        First and last position in `scores` of the recent periods that the verdicts are about. They get a grey ground.

    Notes
    -----
    Each picture has a vertical range of its own, because the question is what changes in one feature: in a common
    range, a feature with a tenth of the largest score would be a flat line. All ranges include 0, so that a change can
    be compared with the whole score. A line is broken where a new model begins and where a score is missing. A model
    that is still scored after a newer one began is drawn dashed and grey from there.
    """
    time = _time(scores, series)
    refuse_most(most)
    features = important(scores)[:most]
    n_left = scores.shape[1] - features.size
    columns = columns_of(features.size)
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    grid = figure.subplots(-(-features.size // columns), columns, sharex=True, squeeze=False).ravel()
    width = 72 * figure.get_figwidth() / columns - 45 if hasattr(figure, "get_figwidth") else 170
    names = [str(scores.columns[k]) for k in features]
    for axes, k, name, shown in zip(grid, features, names, shortened_apart(names, LONGEST_NAME), strict=False):
        _draw_panel(axes, time, scores.iloc[:, k], errors.iloc[:, k].to_numpy(dtype=np.float64), recent)
        _title(axes, shown, scores.iloc[time.newest, k].dropna(), None if verdicts is None else verdicts.get(name))
        time.set_ticks(axes, width)
        time.draw_marks(axes, width)
    for unused in grid[features.size :]:
        unused.remove()
    for axes in grid[max(0, features.size - columns) : features.size]:
        axes.tick_params(labelbottom=True)
        axes.xaxis.offsetText.set_visible(True)
    labelled = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in grid[: features.size])
    handles = {label: handle for pairs in labelled for handle, label in pairs}
    title = f"+{n_left:,} more features" if n_left else None
    style = {"title": title, "frameon": False, "fontsize": 8.5, "title_fontsize": 8.5}
    is_constrained = type(figure.get_layout_engine()).__name__ == "ConstrainedLayoutEngine"
    where = "outside lower center" if is_constrained else "lower center"
    figure.legend(handles.values(), handles.keys(), loc=where, ncols=min(4, len(handles)), **style)


def draw_strip(axes: Any, scores: pd.DataFrame, series: Sequence[str], most: int = MOST_IN_STRIP) -> None:
    """Draw the scores of up to 1,000 features over time as colours: one row a feature, one column a period.

    Parameters
    ----------
    axes : matplotlib Axes
    scores, series
        As for :func:`draw_history`.
    most : int
        Draw at most this many features, those with the largest mean score on top.

    Notes
    -----
    0 is white, scores above it are blue and those below it orange; in grey the blue ones are darker. Colours follow
    the square root of the size of the score, so that weak features do not look like 0. The ground is grey where a
    period is missing or has no score. If there are more than 40 features, those after the 30th have low rows without
    names. Of two models of one period, the newer one is shown.
    """
    from matplotlib.colors import FuncNorm, LinearSegmentedColormap

    time = _time(scores, series)
    refuse_most(most)
    features = important(scores)[:most]
    n_left = scores.shape[1] - features.size
    rows = np.flatnonzero(time.newest)
    ticks, last = np.unique(time.places[rows][::-1], return_index=True)
    edges, inside = time.cells(ticks)
    values = scores.to_numpy(dtype=np.float64)[rows[::-1][last]][:, features]
    cells = np.ma.masked_invalid(np.where(inside[:, None] < 0, np.nan, values[inside]).T)
    reach = float(np.abs(cells).max()) if cells.count() else 0.0
    reach = reach or 1.0
    norm = FuncNorm((lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * x**2), -reach, reach)
    colours = LinearSegmentedColormap.from_list("debias", ["#b34700", "#f0a36b", "#ffffff", "#6baed6", "#08306b"])
    n_named = features.size if features.size <= NAMED + 10 else NAMED
    heights = np.ones(features.size)
    heights[n_named:] = min(1.0, 0.7 * NAMED / max(1, features.size - n_named))
    lines = np.concatenate([[0.0], np.cumsum(heights)]) - 0.5
    # Not the colour of the axes, which a page leaves out.
    axes.axhspan(lines[0], lines[-1], color=NO_SCORE, lw=0, zorder=0)
    mesh = axes.pcolormesh(edges, lines, cells, cmap=colours, norm=norm, rasterized=True, zorder=1)
    name_rows(axes, [str(scores.columns[k]) for k in features[:n_named]], 0, "")
    axes.set_ylim(lines[-1], -0.5)
    axes.grid(visible=False)
    if n_named < features.size:
        axes.axhline(n_named - 0.5, color=MUTED, lw=0.8)
        middle = (n_named - 0.5 + lines[-1]) / 2
        names = [label.get_text() for label in axes.get_yticklabels()]
        axes.set_yticks([*range(n_named), middle], [*names, f"{features.size - n_named:,} more"])
        axes.get_yticklabels()[-1].set_color(MUTED)
    if n_left:
        axes.set_xlabel(f"+{n_left:,} features with lower scores")
    width = 0.7 * 72 * axes.figure.get_figwidth()
    time.set_ticks(axes, width)
    time.draw_marks(axes, width, above=True)
    bar = axes.figure.colorbar(mesh, ax=axes, ticks=[-reach, -reach / 4, 0, reach / 4, reach], aspect=35, pad=0.02)
    bar.ax.set_yticklabels([f"{value:z.2g}" for value in (-reach, -reach / 4, 0, reach / 4, reach)])
    bar.set_label("score (grey: none)", fontsize=8.5)
    bar.outline.set_visible(False)


def important(scores: pd.DataFrame) -> NDArray[np.int64]:
    """Return the positions of all features: the largest mean score over periods first, those without a score last."""
    values = scores.to_numpy(dtype=np.float64)
    known = np.isfinite(values)
    mean = np.divide(
        np.where(known, values, 0.0).sum(axis=0),
        known.sum(axis=0),
        out=np.full(values.shape[1], -np.inf),
        where=known.any(axis=0),
    )
    return np.argsort(-mean, kind="stable").astype(np.int64)


def columns_of(n_features: int) -> int:
    """Return the number of columns of small pictures."""
    return {1: 1, 2: 2, 4: 2}.get(n_features, 3)


def size_of_history(n_features: int) -> tuple[float, float]:
    """Return the width and height in inches that suit small pictures of so many features."""
    columns = columns_of(n_features)
    return {1: 6.4, 2: 8.0}.get(columns, 9.6), 0.7 + 2.0 * -(-n_features // columns)


def size_of_strip(n_features: int) -> tuple[float, float]:
    """Return the width and height in inches that suit a strip of so many features."""
    n_rows = n_features if n_features <= NAMED + 10 else 1.7 * NAMED
    return 9.6, max(2.2, 1.1 + 0.18 * n_rows)


def _time(scores: pd.DataFrame, series: Sequence[str]) -> TimeAxis:
    if scores.empty:
        raise ValueError("there is nothing to draw: no period, or no feature, has a score")
    if len(series) != len(scores):
        raise ValueError(f"series has {len(series):,} labels, but scores has {len(scores):,} periods")
    return TimeAxis(scores.index, list(series))


def _draw_panel(
    axes: Any, time: TimeAxis, scores: pd.Series[Any], errors: NDArray[np.float64], recent: tuple[int, int] | None
) -> None:
    """Draw the scores of one feature with their intervals."""
    values, places = scores.to_numpy(dtype=np.float64), time.places
    labels = np.asarray(time.series, dtype=object)
    reach = NORMAL * np.where(np.isfinite(errors), errors, 0.0)
    if recent is not None:
        first, last = places[recent[0]] - time.step / 2, places[recent[1]] + time.step / 2
        axes.axvspan(first, last, color=BAND, lw=0, zorder=0, label="recent periods, compared with earlier ones")
    axes.axhline(0, color=MUTED, lw=0.8, zorder=1)
    few = np.unique(places).size <= FEW_PERIODS
    for label in time.begins:
        own = labels == label
        for current, style in ((True, {"color": BLUE}), (False, {"color": MUTED, "ls": (0, (3, 2))})):
            rows = np.flatnonzero(own & (time.newest == current))
            if not rows.size:
                continue
            told = "score" if current else "score of an earlier model"
            axes.plot(places[rows], values[rows], lw=1.2, zorder=3, label=told, **style)
            dots = rows[_alone(values[rows]) | few]
            axes.plot(places[dots], values[dots], "o", color=style["color"], ms=3, zorder=3)
            if np.isfinite(errors[rows]).any():
                low, high = values[rows] - reach[rows], values[rows] + reach[rows]
                band = {"color": style["color"], "alpha": 0.22, "lw": 0}
                axes.fill_between(places[rows], low, high, label="95% interval, splits fixed", zorder=2, **band)
                single = _alone(values[rows])
                axes.vlines(places[rows][single], low[single], high[single], color=style["color"], lw=1.2, alpha=0.5)
    if time.marks:
        axes.plot([], [], color=MUTED, lw=1.1, ls=DOTS, label=f"a new model ({len(time.begins):,} in all)")
    known = np.flatnonzero(np.isfinite(values))
    lowest, highest = (values - reach)[known].min(initial=0.0), (values + reach)[known].max(initial=0.0)
    span = highest - lowest or 1.0
    axes.set_ylim(lowest - 0.06 * span, highest + (0.24 if time.marks else 0.08) * span)
    axes.locator_params(axis="y", nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:z.3g}")
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def _title(axes: Any, name: str, known: pd.Series[Any], verdict: ChangeVerdict | None) -> None:
    """Write the name above a picture, and under it the verdict and the last score."""
    axes.set_title(name, loc="left", fontsize=9, weight="bold", pad=17)
    style = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center", "fontsize": 8}
    if verdict is not None:
        axes.annotate(f"{verdict.display.mark} {verdict.text}", (0, 1), (0, 8), color=verdict.display.colour, **style)
    last = f"last {known.iloc[-1]:z.3g}" if known.size else "no score"
    axes.annotate(last, (1, 1), (0, 8), color=MUTED, ha="right", **style)


def _alone(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which values have no neighbour, so that no line leads to them."""
    known = np.concatenate([[False], np.isfinite(values), [False]])
    return known[1:-1] & ~known[:-2] & ~known[2:]
