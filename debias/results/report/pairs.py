"""Pictures of interactions of pairs: all pairs as a matrix, the confirmed ones as a network, one pair as a surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, nearest, with_article
from debias.results.report.figures import GRID, INK, MUTED, name_figure, refuse_axes, refuse_most, settings
from debias.results.report.figures import new_axes as new_axes_of_size
from debias.results.vocabulary import BLUE, VERMILION, Confirmation
from debias.text import listed, percent_in_table, shortened, shortened_apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.interactions import Interactions

LONGEST = 20
"""Names of features have at most this many letters in these pictures."""
MOST_WITH_NUMBERS = 10
"""A matrix of so few features has numbers in its cells."""
MOST_CELLS = 8
"""A surface has at most this many cells in each direction,"""
ROWS_A_CELL = 8
"""and on average at least this many rows in a cell."""


def draw_matrix(found: Interactions, axes: Any, most: int) -> Any:
    """Draw the share of each pair as the cell of a matrix, with the mark of its verdict.

    Parameters
    ----------
    found : Interactions
    axes : matplotlib Axes or None
    most : int
        Draw at most this many features: those whose pairs have the largest shares.

    Returns
    -------
    matplotlib Axes
    """
    refuse_most(most)
    if not len(found.pairs):
        raise CompositionError("the model uses no two of these features together: there is no pair to draw")
    n_pairs = len(found.pairs)  # triples come after them
    share, verdicts = found.share[:n_pairs], np.array(found.verdict, dtype=object)[:n_pairs]
    n_features = len(found.feature_names)
    strength = np.zeros(n_features)
    for side in found.pairs.T:
        np.maximum.at(strength, side, np.nan_to_num(share, nan=0.0))
    used = np.unique(found.pairs)
    drawn = used[np.argsort(-strength[used], kind="stable")][:most]
    place = np.full(n_features, -1)
    place[drawn] = np.arange(drawn.size)
    at = np.sort(place[found.pairs], axis=1)
    shown = at[:, 0] >= 0
    # Below the diagonal: the first feature has no row there, and the last one no column.
    n_cells = max(1, drawn.size - 1)
    column, row = at[:, 0], at[:, 1] - 1
    cells = np.full((n_cells, n_cells), np.nan)
    cells[row[shown], column[shown]] = share[shown]
    with settings():
        is_new = axes is None
        axes = _axes(axes, *matrix_size(drawn.size))
        _cells(axes, cells, "share", is_percent=True)
        for verdict in Confirmation:
            which, look = shown & (verdicts == verdict), verdict.display
            if which.any():
                style = {"color": INK, "ms": 5, "mew": 1.4, "ls": "none", "label": verdict.text}
                up = 0.18 if drawn.size <= MOST_WITH_NUMBERS else 0.0
                axes.plot(column[which], row[which] - up, look.marker, **style)
        if drawn.size <= MOST_WITH_NUMBERS:
            _numbers(axes, cells, percent_in_table, down=0.24)
        names = shortened_apart([found.feature_names[k] for k in drawn], LONGEST)
        axes.set_xticks(range(n_cells), names[:n_cells], rotation=90 if n_cells > 3 else 0)
        axes.set_yticks(range(n_cells), names[-n_cells:])
        n_left = used.size - drawn.size
        if n_left:
            axes.set_title(f"+{n_left:,} more features", loc="right", fontsize=8.5, color=MUTED)
        axes.legend(loc="upper right", edgecolor=GRID, facecolor="none")
        if is_new:
            note = (
                "Colour and number: share of the covariance of response and output that needs both features. Mark: "
                "verdict. A pair without a cell is on no path of a tree."
            )
            name_figure(axes.figure, f"Pairs of features in {_model_of(found)}", note)
    return axes


def matrix_size(n_features: int) -> tuple[float, float]:
    """Return the width and height of a matrix of so many features, in inches."""
    height = max(3.4, 1.9 + 0.42 * n_features)
    return height + 1.4, height


def draw_network(found: Interactions, axes: Any, most: int) -> Any:
    """Draw the confirmed pairs as lines between features, wider for larger shares; dashed if it may be a similar pair.

    Parameters
    ----------
    found : Interactions
    axes : matplotlib Axes or None
    most : int
        Draw at most this many pairs, those with the largest shares.

    Returns
    -------
    matplotlib Axes
    """
    refuse_most(most)
    frame = found.to_frame()
    confirmed = frame[frame["verdict"].isin([Confirmation.CONFIRMED.value, Confirmation.SIMILAR.value])]
    confirmed = confirmed[[sum(map(bool, members)) == 2 for members in confirmed.index]]
    if not len(confirmed):
        raise CompositionError("no pair is confirmed, so there is no network: draw kind='interval' or 'matrix'")
    lines = confirmed.iloc[:most]
    nodes = list(dict.fromkeys(name for one, other, *_ in lines.index for name in (one, other)))
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    at = {name: (float(np.cos(a)), float(np.sin(a))) for name, a in zip(nodes, angle, strict=True)}
    share = np.nan_to_num(lines["share"].to_numpy(), nan=0.0)
    width = 1.2 + 6 * share / max(share.max(), 1e-300)
    with settings():
        is_new = axes is None
        axes = _axes(axes, 5.6, 4.6)
        for k, (one, other, *_) in enumerate(lines.index):
            (x0, y0), (x1, y1) = at[one], at[other]
            line = {"color": BLUE, "lw": width[k], "solid_capstyle": "round", "zorder": 1}
            is_certain = lines["verdict"].iloc[k] == Confirmation.CONFIRMED.value
            axes.plot([x0, x1], [y0, y1], ls="-" if is_certain else (0, (1.5, 1)), **line)
            box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"}
            part = 0.5 if k % 2 == 0 else 0.42  # lines that cross in the middle keep their numbers apart
            label = percent_in_table(lines["share"].iloc[k])
            axes.text(
                x0 + part * (x1 - x0), y0 + part * (y1 - y0), label, ha="center", va="center", fontsize=8, bbox=box
            )
        for name, (x, y) in zip(shortened_apart(list(at), LONGEST), at.values(), strict=True):
            axes.plot(x, y, Confirmation.CONFIRMED.display.marker, color=INK, ms=7, zorder=2)
            beside = {"ha": "center" if abs(x) < 0.3 else "left" if x > 0 else "right", "va": "center"}
            axes.text(1.12 * x, 1.12 * y, name, **beside)
        axes.set_xlim(-2.0, 2.0)
        axes.set_ylim(-1.35, 1.35)
        axes.set_aspect("equal")
        axes.set_axis_off()
        n_left = len(confirmed) - len(lines)
        if n_left:
            axes.set_title(f"+{n_left:,} more confirmed pairs", loc="right", fontsize=8.5, color=MUTED)
        if is_new:
            note = (
                "Line and number: share of the covariance of response and output that needs both features. Only "
                "confirmed pairs are drawn. Dashed: this or a similar pair."
            )
            name_figure(axes.figure, f"Confirmed pairs in {_model_of(found)}", note)
    return axes


def has_surface(found: Interactions, pair: tuple[str, ...]) -> bool:
    """Return whether a surface of this pair can be drawn: its rows are there, and its features are columns."""
    return len(pair) == 2 and found.joint is not None and all(name in found.joint.columns for name in pair)


def draw_surface(found: Interactions, axes: Any, pair: Any) -> Any:
    """Draw the joint effect of two features less their effects alone: its mean over the rows in each cell.

    Parameters
    ----------
    found : Interactions
    axes : matplotlib Axes or None
    pair : (str, str)

    Returns
    -------
    matplotlib Axes
    """
    one, other, k = _pair_of(found, pair)
    joint = found.joint
    if joint is None:
        raise CompositionError(
            "kind='surface' is drawn from rows, which are not kept in files, nor for very many pairs: call "
            "debias.interactions again, with features="
        )
    for name in (one, other):
        if name not in joint.columns:
            raise CompositionError(f"{name!r} is not one column of X, so there is no axis to draw it on")
    effect = joint.effect[:, k]
    most = int(np.clip(np.sqrt(len(effect) / ROWS_A_CELL), 2, MOST_CELLS))
    (x, x_ticks), (y, y_ticks) = (_cells_of(joint.columns[name], most) for name in (one, other))
    n_x, n_y = (1 + max(at.max(), 0) for at in (x, y))
    inside = (x >= 0) & (y >= 0)
    flat = y[inside] * n_x + x[inside]
    count = np.bincount(flat, minlength=n_x * n_y)
    total = np.bincount(flat, weights=effect[inside], minlength=n_x * n_y)
    mean = np.divide(total, count, out=np.full(count.size, np.nan), where=count > 0).reshape(n_y, n_x)
    verdict = found.verdict[k]
    with settings():
        is_new = axes is None
        axes = _axes(axes, 2.6 + 0.52 * n_x, 1.4 + 0.38 * n_y)
        of = f" of {shortened(joint.output[k], LONGEST)}" if joint.output[k] else ""
        _cells(axes, mean, f"joint effect{of}, unit of the output", is_percent=False)
        reach = np.nanmax(np.abs(mean), initial=0.0)
        decimals = max(0, 1 - int(np.floor(np.log10(reach)))) if reach > 0 else 0
        _numbers(axes, mean, lambda value: f"{round(value, decimals) + 0.0:,.{decimals}f}")  # no "-0.0"
        axes.set_ylim(-0.5, n_y - 0.5)
        for axis, (where, labels), name in ((axes.xaxis, x_ticks, one), (axes.yaxis, y_ticks, other)):
            axis.set_ticks(where, labels)
            axis.set_label_text(shortened(name, LONGEST))
        axes.tick_params(axis="x", rotation=90 if sum(map(len, x_ticks[1])) > 8 * n_x else 0)
        share = f", share {percent_in_table(found.share[k])}" if np.isfinite(found.share[k]) else ""
        axes.set_title(f"{verdict.text}{share}", loc="left", fontsize=9, color=verdict.display.colour)
        if is_new:
            note = (
                "Number: mean over the rows in the cell of what the trees do with both features together, beyond "
                "each alone. Edges of cells are quantiles. A cell without rows is empty."
            )
            name_figure(axes.figure, f"{shortened(one, LONGEST)} with {shortened(other, LONGEST)}", note)
    return axes


def _pair_of(found: Interactions, pair: Any) -> tuple[str, str, int]:
    """Return the names of a pair in the user's order, and its number."""
    if pair is None:
        pairs = (*found.confirmed, *found.confirmed_or_similar)
        known = listed([f"({one!r}, {other!r})" for one, other in pairs], 3) or "none is confirmed"
        raise CompositionError(f"kind='surface' draws one pair: pass pair=(one, other). Confirmed pairs: {known}")
    if isinstance(pair, str) or len(pair) != 2:
        raise CompositionError(f"pair must be two names of features, not {pair!r}")
    names = tuple(map(str, pair))
    for name in names:
        if name not in found.feature_names:
            hint = nearest(name, found.feature_names)
            raise CompositionError(f"there is no feature {name!r}.{hint} There are: {listed(found.feature_names)}")
    wanted = sorted(found.feature_names.index(name) for name in names)
    at = np.flatnonzero((np.sort(found.pairs, axis=1) == wanted).all(axis=1))
    if not at.size:
        raise CompositionError(
            f"{names[0]!r} and {names[1]!r} are on no path of a tree together, or were not asked for: there is no "
            "joint effect to draw"
        )
    return names[0], names[1], int(at[0])


def _cells_of(values: NDArray[Any], most: int) -> tuple[NDArray[np.int64], tuple[list[float], list[str]]]:
    """Return the cell of each row, -1 for none, and where the ticks of the axis are, with their labels.

    Numbers of many values have cells of equal numbers of rows, with ticks at their edges. Others have a cell for each
    of the most frequent values. Missing values have the last cell.
    """
    import pandas as pd

    missing = np.asarray(pd.isna(values), dtype=bool)
    known = values[~missing]
    at = np.full(len(values), -1, dtype=np.int64)
    ticks: tuple[list[float], list[str]]
    if known.dtype != object and np.unique(known).size > most:
        edges = np.unique(np.quantile(known, np.linspace(0, 1, most + 1)))
        at[~missing] = np.clip(np.searchsorted(edges, known, side="right") - 1, 0, edges.size - 2)
        ticks = [k - 0.5 for k in range(edges.size)], [f"{edge:.3g}" for edge in edges]
        n_cells = edges.size - 1
    else:
        counts = pd.Series(known).value_counts()
        kept = list(counts.index[:most])
        kept = sorted(kept, key=lambda value: (isinstance(value, str), value))
        at[~missing] = pd.Index(kept).get_indexer(pd.Index(known))
        labels = [f"{value:g}" if isinstance(value, float) else shortened(str(value), 10) for value in kept]
        ticks, n_cells = (list(map(float, range(len(kept)))), labels), len(kept)
    if missing.any():
        at[missing] = n_cells
        ticks[0].append(float(n_cells))
        ticks[1].append("missing")
    return at, ticks


def _axes(axes: Any, width: float, height: float) -> Any:
    refuse_axes(axes)
    return new_axes_of_size(width, height) if axes is None else axes


def _cells(axes: Any, values: NDArray[np.float64], label: str, is_percent: bool) -> None:
    """Draw cells from vermilion, below 0, to blue, above 0; those without a value stay empty."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from matplotlib.ticker import FuncFormatter

    # 0 is transparent, so that the paper is seen there, which is dark on a page that is shown so.
    ends = [(0.0, VERMILION, 0.75), (0.5, VERMILION, 0.0), (0.5, BLUE, 0.0), (1.0, BLUE, 0.75)]
    colours = LinearSegmentedColormap.from_list("debias", [(at, to_rgba(colour, alpha)) for at, colour, alpha in ends])
    known = values[np.isfinite(values)]
    reach = float(np.abs(known).max()) if known.size and known.any() else 1.0
    shown = axes.imshow(values, cmap=colours, vmin=-reach, vmax=reach, aspect="auto")
    rows, columns = np.nonzero(np.isfinite(values))
    for row, column in zip(rows, columns, strict=True):
        corners = [column - 0.5, column + 0.5, column + 0.5, column - 0.5, column - 0.5]
        axes.plot(corners, [row - 0.5, row - 0.5, row + 0.5, row + 0.5, row - 0.5], color=GRID, lw=0.6)
    bar = axes.figure.colorbar(shown, ax=axes, shrink=0.8)
    bar.set_label(label, fontsize=8.5)
    bar.outline.set_visible(False)
    if is_percent:
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g}%"))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _model_of(found: Interactions) -> str:
    return with_article(str(found.settings.get("model", "model")))


def _numbers(axes: Any, values: NDArray[np.float64], words: Any, down: float = 0.0) -> None:
    rows, columns = np.nonzero(np.isfinite(values))
    for row, column in zip(rows, columns, strict=True):
        text = words(values[row, column])
        axes.text(column, row + down, text, ha="center", va="center", fontsize=7.5, color=INK)
