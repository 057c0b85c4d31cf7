"""Pictures of partial dependence: one small picture for each feature, with its verdict and share in the title."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.figures import GRID, INK, MUTED, refuse_most, require_matplotlib, settings
from debias.results.vocabulary import Verdict
from debias.text import percent_in_table, shortened, shortened_apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.partial_dependence import Curve, PartialDependence

STYLES: tuple[tuple[str, str, Any], ...] = (
    ("#0072b2", "o", "-"),
    ("#d55e00", "s", (0, (5, 2))),
    ("#009e73", "^", (0, (1, 1.2))),
    ("#cc79a7", "D", (0, (5, 1.5, 1, 1.5))),
    ("#7a5c00", "v", (0, (8, 2))),
    ("#56b4e9", "P", (0, (2, 2))),
)
"""Colour, marker and dashes of each output; no more outputs are drawn."""
MOST_LABELS = 10
"""A picture shows this many labels of a feature."""
MOST_ROWS = 40
"""A picture shows the curves of this many single rows."""
FEW_VALUES = 12
"""So few numbers are marked on their curve."""
LONGEST_TITLE = 30
"""A name above a picture has at most this many characters."""
FEW_TICKS = 3
"""So few numbers are all the ticks of their axis."""


def draw_effects(
    curves: PartialDependence, audit: Audit | None, axes: Any, columns: int, most: int | None = None
) -> NDArray[Any]:
    """Draw a small picture for each of the first curves, on a new figure or the user's axes, and return the axes."""
    refuse_most(columns, "columns")
    require_matplotlib()
    n_left = 0
    if most is not None:
        refuse_most(most)
        n_left = max(0, len(curves.curves) - most)
        curves = replace(curves, curves=dict(list(curves.curves.items())[:most]))
    with settings():
        is_new = axes is None
        axes = _axes(axes, len(curves.curves), columns)
        outputs = _outputs_that_move(curves)
        names = shortened_apart([curve.feature for curve in curves.curves.values()], LONGEST_TITLE)
        for place, name, curve in zip(axes, names, curves.curves.values(), strict=True):
            colour, marker = _title(place, name, curve, audit)
            styles = [(colour, marker, "-")] if len(curves.output_names) == 1 else list(STYLES)
            for output, style in zip(outputs, styles, strict=False):
                _draw_curve(place, curve, output, style, label=shortened(curves.output_names[output]))
            place.grid(axis="y", color=GRID, lw=0.6)
            place.set_axisbelow(True)
        _share_range(axes)
        if n_left:
            axes[-1].set_title(f"+{n_left:,} more", loc="right", fontsize=8.5, color=MUTED)
        what = f"mean {curves.unit}"
        if len(curves.output_names) == 1 and curves.output_names != ("prediction",):
            what += f" of {shortened(curves.output_names[0], 16)}"
        for place in axes:
            if place.get_subplotspec() is None or place.get_subplotspec().is_first_col():
                place.set_ylabel(what)
        if len(outputs) > 1:
            n_left = len(curves.output_names) - len(outputs)
            title = f"+{n_left} more that move less" if n_left else None
            look = {"title": title, "edgecolor": GRID, "fontsize": 8, "title_fontsize": 8}
            if is_new:
                handles = axes[0].get_legend_handles_labels()
                axes[0].figure.legend(*handles, loc="outside lower center", ncols=min(columns, len(axes)), **look)
            else:
                axes[0].legend(**look)
    return axes


def _axes(axes: Any, n: int, columns: int) -> NDArray[Any]:
    if axes is not None:
        given: NDArray[Any] = np.asarray(axes, dtype=object).ravel()
        if given.size != n:
            drawn = "there is 1 feature" if n == 1 else f"there are {n} features"
            raise ValueError(f"ax holds {given.size} axes, but {drawn} to draw: pass one for each")
        return given
    import matplotlib.pyplot as plt

    columns = min(columns, n)
    rows = -(-n // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(2.9 * columns, 2.5 * rows), layout="constrained", squeeze=False)
    for unused in grid.ravel()[n:]:
        unused.remove()
    return np.asarray(grid.ravel()[:n], dtype=object)


def _title(axes: Any, name: str, curve: Curve, audit: Audit | None) -> tuple[str, str]:
    """Write the name and the verdict above a picture, and return the colour and the marker of the verdict."""
    from matplotlib.transforms import offset_copy

    if audit is None or curve.feature not in audit.tested_scores.feature_names:
        axes.set_title(name, loc="left", fontsize=9.5, weight="bold")
        return INK, "o"
    k = audit.tested_scores.feature_names.index(curve.feature)
    verdict = audit.verdict[k]
    look = verdict.display
    axes.set_title(name, loc="left", fontsize=9.5, weight="bold", pad=18)
    share = audit.where_tested(audit.share)[k]
    text = f"{verdict.phrase if verdict is Verdict.UNTESTED else verdict.text}, share {percent_in_table(share)}"
    above = {"xycoords": "axes fraction", "textcoords": "offset points", "color": look.colour, "fontsize": 8.5}
    axes.annotate(text, (0, 1), (12, 8), va="center", **above)
    above_frame = offset_copy(axes.transAxes, axes.figure, 4, 8, units="points")
    axes.plot(0, 1, look.marker, color=look.colour, ms=5, mew=1.5, transform=above_frame, clip_on=False)
    return look.colour, look.marker


def _draw_curve(axes: Any, curve: Curve, output: int, style: tuple[str, str, Any], label: str) -> None:
    if curve.is_numeric:
        _draw_line(axes, curve, output, style, label)
    else:
        _draw_labels(axes, curve, output, style, label)


def _draw_line(axes: Any, curve: Curve, output: int, style: tuple[str, str, Any], label: str) -> None:
    colour, marker, dashes = style
    n = curve.n_present
    values, mean = curve.values[:n], curve.mean[:, output]
    if curve.individual is not None and curve.mean.shape[1] == 1:
        rows = np.linspace(0, len(curve.individual) - 1, min(MOST_ROWS, len(curve.individual))).astype(int)
        axes.plot(values, curve.individual[rows, :n, output].T, color=MUTED, lw=0.5, alpha=0.35, zorder=1)
    axes.plot(
        values, mean[:n], color=colour, ls=dashes, lw=1.8, label=label, marker=marker if n <= FEW_VALUES else None, ms=4
    )
    if n:  # an empty line that is not clipped would take all the room of the figure
        rug = {"ms": 5, "mew": 0.7, "transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(values, np.zeros(n), "|", color=MUTED, **rug)
    if n < curve.values.size:  # the output for missing values, to the right of all numbers
        width = (values[-1] - values[0] or 1.0) if n else 1.0
        at = (values[-1] if n else 0.0) + 0.15 * width
        axes.plot(at, mean[n], marker, color=colour, mfc="none", ms=6, mew=1.4)
        note = {"textcoords": "offset points", "ha": "center", "fontsize": 7.5, "color": MUTED}
        if output == 0:
            axes.annotate("missing", (at, mean[n]), (0, 7), **note)
        axes.margins(x=0.09)
    if n <= FEW_TICKS:
        axes.set_xticks(values)
    else:
        axes.locator_params(axis="x", nbins=4)


def _draw_labels(axes: Any, curve: Curve, output: int, style: tuple[str, str, Any], label: str) -> None:
    colour, marker, _ = style
    drawn = [*range(min(MOST_LABELS, curve.n_present)), *range(curve.n_present, curve.values.size)]
    if curve.individual is not None and curve.mean.shape[1] == 1:
        for place, k in enumerate(drawn):
            low, high = np.quantile(curve.individual[:, k, output], [0.25, 0.75])
            axes.vlines(place, low, high, color=MUTED, lw=3, alpha=0.35)
    axes.plot(range(len(drawn)), curve.mean[drawn, output], marker, color=colour, ms=6, mew=1.4, ls="none", label=label)
    names = ["missing" if k >= curve.n_present else shortened(str(curve.values[k]), 14) for k in drawn]
    long = max(map(len, names)) * len(names) > 26
    axes.set_xticks(range(len(drawn)), names, rotation=45 if long else 0, ha="right" if long else "center", fontsize=8)
    axes.set_xlim(-0.6, len(drawn) - 0.4)
    n_left = curve.n_present - MOST_LABELS + curve.n_omitted
    if n_left > 0:
        axes.set_xlabel(f"most frequent labels, {n_left:,} more not drawn", fontsize=8)


def _outputs_that_move(curves: PartialDependence) -> NDArray[np.int64]:
    """Return the outputs with the largest ranges over all curves, at most as many as there are styles."""
    reach = np.max([np.ptp(curve.mean, axis=0) for curve in curves.curves.values()], axis=0)
    return np.sort(np.argsort(-reach, kind="stable")[: len(STYLES)])


def _share_range(axes: NDArray[Any]) -> None:
    """Give all pictures one vertical range, so that effects can be compared."""
    limits = np.array([place.get_ylim() for place in axes])
    for place in axes:
        place.set_ylim(limits[:, 0].min(), limits[:, 1].max())
