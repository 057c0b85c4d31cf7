"""Pictures of shares: bars, and lines from the reported to the debiased share. Intervals are in figures.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.drawn import drawn_features
from debias.results.report.figures import COLOUR, GRID, INK, LABEL, MARKER, MUTED
from debias.text import percent_in_table, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit

HATCH = {"informative": "", "indistinguishable": "////", "untested": "...."}
"""Patterns of bars: a verdict is visible without its colour."""
DASHES: dict[str, Any] = {"informative": "-", "indistinguishable": (0, (4, 2)), "untested": (0, (1, 1.5))}
LABEL_HEIGHT = 0.19
"""Inches between two names beside a line."""


def draw_bars(audit: Audit, axes: Any, most: int) -> None:
    """Draw the debiased share of each feature as a bar and the reported share as a diamond, the largest on top.

    Both are numbers on the right too. The last row has the sums of the features that are left out.
    """
    features, n_left = drawn_features(audit, most)
    verdicts, share, reported = audit.verdict, audit.where_tested(audit.share), audit.reported
    for verdict, colour in COLOUR.items():
        rows = np.flatnonzero([verdicts[k] == verdict for k in features])
        if rows.size:
            fill = {"color": "none", "edgecolor": colour} if HATCH[verdict] else {"color": colour}
            axes.barh(rows, share[features[rows]], height=0.62, hatch=HATCH[verdict], label=LABEL[verdict], **fill)
    names = [shortened(audit.main.feature_names[k]) for k in features]
    parts = [features[row : row + 1] for row in range(features.size)]
    if n_left:
        names.append(f"+{n_left:,} more")
        parts.append(np.setdiff1d(np.arange(share.size), features))
    columns = {"debiased": share} if reported is None else {"debiased": share, "reported": reported}
    for column, (heading, shares) in enumerate(columns.items()):
        away = 50 + 52 * column
        style: dict[str, Any] = {
            "xycoords": axes.get_yaxis_transform(),
            "textcoords": "offset points",
            "ha": "right",
            "fontsize": 8.5,
        }
        axes.annotate(heading, (1, -0.5), (away, 2), color=MUTED, **style)
        for row, part in enumerate(parts):
            axes.annotate(percent_in_table(_sum(shares[part])), (1, row), (away, 0), va="center", **style)
    if reported is not None:
        where = range(features.size)
        axes.plot(reported[features], where, "D", mfc="white", mec=INK, ms=5, ls="none", label="reported", zorder=3)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(_in_percent())
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("share of the importance (bars: debiased)")


def draw_slopes_of_shares(audit: Audit, axes: Any, most: int) -> None:
    """Draw a line for each feature, from its reported share on the left to its debiased share on the right."""
    assert audit.reported is not None
    features, n_left = drawn_features(audit, most)
    verdicts, labelled, share = audit.verdict, set[str](), audit.where_tested(audit.share)
    for k in features:
        verdict = verdicts[k]
        axes.plot(
            [0, 1],
            [audit.reported[k], share[k]],
            color=COLOUR[verdict],
            ls=DASHES[verdict],
            lw=1.4,
            marker=MARKER[verdict],
            ms=5,
            mew=1.6,
            label=None if verdict in labelled else LABEL[verdict],
        )
        labelled.add(verdict)
    top = max(audit.reported[features].max(), audit.share[features].max(), 1e-9)
    height = axes.get_window_extent().height / axes.figure.dpi
    gap = top * LABEL_HEIGHT / max(height - 0.9, 1.0)
    lowest = highest = 0.0
    for side, shares in ((0, audit.reported), (1, share)):
        known = features[~np.isnan(shares[features])]
        order = known[np.argsort(shares[known], kind="stable")]
        places = apart(shares[order], gap)
        lowest, highest = min(lowest, places[0]), max(highest, places[-1])
        for k, place in zip(order, places, strict=True):
            name, figure = shortened(audit.main.feature_names[k], 18), percent_in_table(shares[k])
            text = f"{figure}  {name}" if side else f"{name}  {figure}"
            beside = side + (0.13 if side else -0.13)
            axes.plot([side + (0.03 if side else -0.03), beside], [shares[k], place], color=MUTED, lw=0.5)
            axes.text(
                beside + (0.02 if side else -0.02),
                place,
                text,
                ha="left" if side else "right",
                va="center",
                fontsize=8.5,
            )
    head = highest + 1.6 * gap
    axes.text(-0.15, head, "reported", ha="right", weight="bold")
    axes.text(1.15, head, "debiased", ha="left", weight="bold")
    if n_left:
        axes.text(0.5, head, f"+{n_left:,} more", ha="center", color=MUTED, fontsize=8.5)
    axes.set(xlim=(-1.25, 2.25), ylim=(lowest - 0.8 * gap, head + gap))
    axes.axis("off")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False)


def apart(at: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Return ascending positions moved as little as possible, so that neighbours are at least `gap` apart."""
    from scipy.optimize import isotonic_regression

    steps = gap * np.arange(at.size)
    places: NDArray[np.float64] = isotonic_regression(at - steps).x + steps
    return places


def _in_percent() -> Any:
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1.0, symbol="%")


def _sum(shares: NDArray[np.float64]) -> float:
    """Return the sum of the shares that are known; NaN if none is."""
    return float("nan") if np.isnan(shares).all() else float(np.nansum(shares))
