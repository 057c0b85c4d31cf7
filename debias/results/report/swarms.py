"""Pictures of contributions to a score: of all rows, as swarms of points, and of one row, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.figures import GRID, MUTED, drawn_features
from debias.results.vocabulary import Verdict
from debias.text import percent_in_table, shortened_apart

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.results.audit import Audit

MOST_POINTS = 1000
"""A swarm has this many points."""
PLACES = 60
"""Points of a swarm in the same one of this many places lie above one another."""
TOWARDS, AWAY = "#009e73", "#cc79a7"
"""Not the colours of verdicts."""


def draw_swarms(
    phi: NDArray[np.float64], audit: Audit, level: Callable[[int], NDArray[np.float64] | None], axes: Any, most: int
) -> None:
    """Draw one point for each row and feature, coloured by the value of the feature.

    Parameters
    ----------
    phi : array of shape (n_rows, n_features)
        Contributions whose mean over rows is the score.
    audit : Audit
    level : callable
        Returns for a feature the place of each row's value among all values, from 0 to 1 (NaN where missing); None if
        they have no order.
    axes : matplotlib Axes
    most : int
        Largest number of features.
    """
    features, n_left = drawn_features(audit, most)
    shown = np.linspace(0, len(phi) - 1, min(MOST_POINTS, len(phi))).astype(np.int64)
    reach = np.ptp(phi[np.ix_(shown, features)]) or 1.0
    points, notes = None, dict[str, None]()
    for row, k in enumerate(features):
        x, levels = phi[shown, k], level(int(k))
        y = row - swarm(x, reach / PLACES)
        if levels is None:
            axes.scatter(x, y, s=7, color=MUTED, lw=0)
            notes["grey: no order"] = None
            continue
        of_row = levels[shown]
        missing = np.isnan(of_row)
        if missing.any():
            axes.scatter(x[missing], y[missing], s=10, color=MUTED, marker="x", lw=0.8)
            notes["x: missing"] = None
        points = axes.scatter(x[~missing], y[~missing], s=7, c=of_row[~missing], cmap="viridis", vmin=0, vmax=1, lw=0)
    names = shortened_apart([audit.tested_scores.feature_names[k] for k in features])
    _frame(axes, [_titled(name, audit, k) for name, k in zip(names, features, strict=True)])
    if n_left:
        axes.set_title(f"+{n_left:,} more", loc="right", fontsize=8.5, color=MUTED)
    axes.set_xlabel(
        f"contributions of rows, times their number: their mean is {audit.tested_scores.scorer}\n{_DIRECTIONS}"
    )
    if points is not None:
        bar = axes.figure.colorbar(points, ax=axes, ticks=[0, 1], aspect=30, pad=0.02)
        bar.set_ticklabels(["low", "high"])
        bar.set_label("value" + (f" ({', '.join(notes)})" if notes else " of the feature"), fontsize=8)
        bar.outline.set_visible(False)


def draw_row(phi: NDArray[np.float64], audit: Audit, values: list[str], label: str, axes: Any, most: int) -> None:
    """Draw the contributions of one row as bars, the largest in size on top.

    Parameters
    ----------
    phi : array of shape (n_features,)
        Contributions of the row.
    audit : Audit
    values : list of str
        The value of each feature in this row, as text.
    label : str
        What the row is called.
    axes : matplotlib Axes
    most : int
        Largest number of features.
    """
    order = np.argsort(-np.abs(phi), kind="stable")
    features = order[:most]
    names = []
    shown = shortened_apart([audit.tested_scores.feature_names[k] for k in features])
    for name, k in zip(shown, features, strict=True):
        names.append(_titled(f"{name} = {values[k]}" if values[k] else name, audit, k))
    sizes = list(phi[features])
    if order.size > most:
        names.append(f"+{order.size - most:,} more")
        sizes.append(phi[order[most:]].sum())
    for row, size in enumerate(sizes):
        style = {"color": TOWARDS} if size >= 0 else {"color": "none", "edgecolor": AWAY, "hatch": "////"}
        axes.barh(row, size, height=0.62, **style)
    _frame(axes, names)
    axes.margins(x=0.08)
    axes.set_title(f"Row {label}", loc="left", fontsize=10, weight="bold")
    axes.set_xlabel(f"contribution of this row, times the number of rows\n{_DIRECTIONS}")


def swarm(x: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Return heights between -0.4 and 0.4 that lay points of nearly the same x above and below one another.

    Parameters
    ----------
    x : array of shape (n_points,)
    width : float
        Points of the same multiple of `width` are spread.

    Returns
    -------
    array of shape (n_points,)
    """
    place = np.round(x / width).astype(np.int64)
    order = np.argsort(place, kind="stable")
    _, first, inverse, count = np.unique(place[order], return_index=True, return_inverse=True, return_counts=True)
    turn = np.arange(x.size) - first[inverse]  # 0, 1, 2, ... within a place
    side = np.where(turn % 2, (turn + 1) // 2, -(turn // 2))
    height = np.empty(x.size)
    height[order] = side * min(0.08, 0.8 / max(int(count.max(initial=1)), 1))
    return height


_DIRECTIONS = (
    "\N{LEFTWARDS ARROW} splits moved the prediction away from the response, or towards it \N{RIGHTWARDS ARROW}"
)


def _frame(axes: Any, names: list[str]) -> None:
    axes.axvline(0, color=MUTED, lw=0.8, zorder=0)
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def _titled(name: str, audit: Audit, k: int) -> str:
    """Return a name with the verdict and the share below it."""
    verdict = audit.verdict[k]
    word = verdict.phrase if verdict is Verdict.UNTESTED else verdict.text
    return f"{name}\n{word}, {percent_in_table(audit.where_tested(audit.share)[k])}"
