"""The figures of audits and scores, on matplotlib axes.

Colours come from the palette of Okabe and Ito. Every colour goes with a marker, so no meaning depends on colour alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.drawn import MOST_DRAWN, drawn_features, drawn_of_scores
from debias.results.sentences import sufficient_z
from debias.text import percent_in_table, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.scores import Scores

INK, MUTED, GRID, BAND = "#1a1a1a", "#595959", "#d9d9d9", "#e4e4e4"
INFORMATIVE, NOISE, UNTESTED = "#0072b2", "#d55e00", "#707070"
COLOUR = {"informative": INFORMATIVE, "indistinguishable": NOISE, "untested": UNTESTED}
MARKER = {"informative": "o", "indistinguishable": "x", "untested": "s"}
LABEL = {"informative": "informative", "indistinguishable": "indistinguishable from noise", "untested": "not tested"}
MOST_IN_SLOPES = 16
"""The figure of ranks shows this many features."""
SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.parse_math": False,  # a feature may be called $x$
    "svg.fonttype": "none",
}


@contextmanager
def settings(salt: str = "debias") -> Iterator[None]:
    """Draw in the style of these figures, without warnings about letters that only the reader's fonts have."""
    from matplotlib import rc_context

    with rc_context({**SETTINGS, "svg.hashsalt": salt}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from font")
        yield


def draw_shares(audit: Audit, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw debiased shares with their intervals and the reported shares, the largest on top."""
    features, n_left = drawn_features(audit, most)
    place, verdicts = np.arange(len(features)), audit.verdict
    total = np.maximum(audit.main.values, 0.0).sum() or 1.0
    if audit.main.standard_error is not None:
        interval = audit.main.interval().to_numpy()[features] / total
        for row, (lower, upper) in enumerate(interval):
            if verdicts[features[row]] == "untested" and audit.tested:
                continue
            axes.plot([lower, upper], [row, row], color=COLOUR[verdicts[features[row]]], lw=1.6, solid_capstyle="butt")
    if audit.reported is not None:
        axes.plot(audit.reported[features], place, "D", mfc="none", mec=MUTED, ms=5, label="reported")
    _dots(axes, audit, audit.where_tested(audit.share)[features], place, features)
    axes.vlines(0, -0.5, len(features) - 0.5, color=MUTED, lw=0.8, zorder=0)
    name_rows(axes, [audit.main.feature_names[k] for k in features], n_left, _shares_left(audit, features))
    _percent(axes.xaxis)
    axes.set_xlabel("share of the importance")


def draw_evidence(audit: Audit, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw the test statistic of each feature, and the band in which noise would lie."""
    assert audit.main.z is not None
    features, n_left = drawn_features(audit, most)
    place = np.arange(len(features))
    low, high = _noise_band(audit, features)
    axes.barh(place, high - low, left=low, height=0.72, color=BAND, label="90% of noise", zorder=0)
    axes.use_sticky_edges = False  # else bars end at the frame
    z = audit.where_tested(audit.main.z)
    _dots(axes, audit, z[features], place, features)
    if audit.main.threshold is not None:
        label = "family-wise limit" if sufficient_z(audit) is None else "minimum detectable z"
        dashes = (0, (4, 3))
        axes.vlines(audit.main.threshold, -0.5, len(features) - 0.5, color=INK, lw=1, ls=dashes, label=label)
    left = np.delete(z, features)
    about_left = "" if np.isnan(left).all() else f"z from {np.nanmin(left):z.1f} to {np.nanmax(left):z.1f}"
    name_rows(axes, [audit.main.feature_names[k] for k in features], n_left, about_left)
    axes.set_xlabel("z (score divided by its spread)")


def noise_distribution(audit: Audit) -> str:
    """Return the name of the distribution from which the band of noise comes."""
    if audit.main.null is not None:
        return "from permuted responses"
    return "standard normal" if _independent(audit) is None else "Student's t"


def draw_slopes(audit: Audit, axes: Any, most: int = MOST_IN_SLOPES) -> None:
    """Draw the rank of each feature by the reported importance and after debiasing."""
    assert audit.reported is not None
    features, n_left = drawn_features(audit, most)
    verdicts, reported_shares, shares = audit.verdict, audit.reported, audit.where_tested(audit.share)
    before = {k: rank for rank, k in enumerate(sorted(features, key=lambda k: -reported_shares[k]))}
    for after, k in enumerate(features):
        verdict = verdicts[k]
        dashes = (0, (4, 2)) if verdict == "indistinguishable" else "-"
        is_known = not np.isnan(shares[k])
        x, places = ([0, 1], [before[k], after]) if is_known else ([0], [before[k]])
        axes.plot(x, places, color=COLOUR[verdict], lw=1.4, ls=dashes, marker=MARKER[verdict], ms=5, mew=1.6)
        name = shortened(audit.main.feature_names[k], 16)
        reported = percent_in_table(audit.reported[k])
        share = percent_in_table(shares[k]) if is_known else LABEL["untested"]
        axes.text(-0.1, before[k], f"{name}  {reported}", ha="right", va="center", fontsize=8.5)
        axes.text(1.1, after, f"{share}  {name}", ha="left", va="center", fontsize=8.5)
    axes.text(-0.1, -1.1, "reported", ha="right", weight="bold")
    axes.text(1.1, -1.1, "debiased", ha="left", weight="bold")
    if n_left:
        axes.text(0.5, len(features), f"+{n_left:,} more", ha="center", va="center", color=MUTED, fontsize=8.5)
    axes.set(xlim=(-1.35, 2.35), ylim=(len(features) - 0.5 + bool(n_left), -1.5))
    axes.axis("off")


def draw_values(audit: Audit, axes: Any) -> None:
    """Draw reported and debiased shares against the number of distinct values; name the most inflated feature."""
    assert audit.reported is not None
    assert audit.n_values is not None
    x, share = np.maximum(audit.n_values, 1), audit.where_tested(audit.share)
    few = x.size <= 200
    if few:
        axes.vlines(x, np.minimum(audit.reported, share), np.maximum(audit.reported, share), color=GRID, lw=1)
    axes.plot(x, audit.reported, "D", mfc="none", mec=MUTED, ms=5 if few else 3, label="reported", ls="none")
    _dots(axes, audit, share, x, np.arange(x.size), flipped=True, size=6.0 if few else 3.5)
    k = int(np.nanargmax(audit.reported - share))
    if audit.reported[k] - share[k] > 0.01:
        side = "right" if np.log(x[k]) > np.log([x.min(), x.max()]).mean() else "left"
        name, at = shortened(audit.main.feature_names[k], 18), (x[k], audit.reported[k])
        away = (-7 if side == "right" else 7, 4)
        axes.annotate(name, at, away, textcoords="offset points", ha=side, va="bottom", fontsize=8.5)
    axes.set_xscale("log")
    axes.margins(x=0.08)
    axes.set_xlabel("number of distinct values (log scale)")
    axes.set_ylabel("share of the importance")
    _whole_numbers(axes.xaxis, x)
    _percent(axes.yaxis)
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def draw_scores(scores: Scores, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw the scores of one scorer, the largest on top, with intervals if they have standard errors."""
    features, n_left = drawn_of_scores(scores, most)
    place, values = np.arange(len(features)), scores.values[features]
    if scores.standard_error is not None:
        reach = scores.interval().to_numpy()[features]
        axes.hlines(place, reach[:, 0], reach[:, 1], color=MUTED, lw=1.4)
    chosen = np.zeros(len(features), bool) if scores.selected is None else scores.selected[features]
    for which, verdict in ((chosen, "informative"), (~chosen, "untested" if scores.selected is None else "")):
        name = verdict or "indistinguishable"
        if which.any():
            label = {"informative": "selected", "indistinguishable": "not selected"}.get(name)
            axes.plot(
                values[which], place[which], MARKER[name], color=COLOUR[name], ms=6, mew=1.8, ls="none", label=label
            )
    if scores.selected is not None:
        axes.legend(loc="lower right", edgecolor=GRID)  # where the smallest scores are
    axes.vlines(0, -0.5, len(features) - 0.5, color=MUTED, lw=0.8, zorder=0)
    left = np.delete(scores.values, features)
    about_left = f"{left.min():z.3g} to {left.max():z.3g}" if n_left else ""
    name_rows(axes, [scores.feature_names[k] for k in features], n_left, about_left)
    axes.set_xlabel(f"{scores.scorer} ({scores.unit})")


def on_axes(draw: Any, result: Any, axes: Any, most: int) -> Any:
    """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
    with settings():
        if axes is None:
            import matplotlib.pyplot as plt

            features, n_left = drawn_of_scores(result, most) if draw is draw_scores else drawn_features(result, most)
            n_rows = len(features) + bool(n_left)
            axes = plt.subplots(figsize=(6.4, 1.2 + 0.24 * n_rows), layout="constrained")[1]
        draw(result, axes, most)
        if axes.get_legend() is None and axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best", edgecolor=GRID)
    return axes


def _shares_left(audit: Audit, drawn: NDArray[np.int64]) -> str:
    """Return the shares of the features that are not drawn, together."""
    debiased = f"{percent_in_table(np.delete(audit.share, drawn).sum())} debiased"
    if audit.reported is None:
        return f"together {debiased}"
    return f"together {percent_in_table(np.delete(audit.reported, drawn).sum())} reported, {debiased}"


def _noise_band(audit: Audit, drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the 5% and 95% quantiles of z of noise, shape (2, n_drawn)."""
    from scipy.special import ndtri, stdtrit

    if audit.main.null is not None:
        return np.quantile(audit.main.null[:, drawn], [0.05, 0.95], axis=0)
    rows = _independent(audit)
    upper = np.full(len(drawn), ndtri(0.95)) if rows is None else stdtrit(np.maximum(rows - 1, 1.0), 0.95)[drawn]
    return np.stack([-upper, upper])


def _independent(audit: Audit) -> NDArray[np.float64] | None:
    """Return the number of independent rows of each score, as the test used it; None if the test does not say."""
    test = audit.main.details.get("test", {})
    rows = test.get("effective_rows", test.get("n_independent"))
    return None if rows is None else np.broadcast_to(np.asarray(rows, dtype=np.float64), audit.share.shape)


def _dots(
    axes: Any,
    audit: Audit,
    values: NDArray[np.float64],
    place: Any,
    features: NDArray[np.int64],
    flipped: bool = False,
    size: float = 6.0,
) -> None:
    verdicts = np.array(audit.verdict, dtype=object)[features]
    for verdict, colour in COLOUR.items():
        which = verdicts == verdict
        if which.any():
            points = (place[which], values[which]) if flipped else (values[which], place[which])
            axes.plot(
                *points,
                MARKER[verdict],
                color=colour,
                ms=size,
                mew=0.3 * size,
                ls="none",
                label=LABEL[verdict],
                zorder=3,
            )


def name_rows(axes: Any, names: list[str], n_left: int, about_left: str) -> None:
    """Name the rows, with a last row about the features that are left out."""
    labels = [shortened(name) for name in names] + [f"+{n_left:,} more"] * bool(n_left)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    if n_left:
        axes.get_yticklabels()[-1].set_color(MUTED)
        beside = {"transform": axes.get_yaxis_transform(), "color": MUTED, "fontsize": 8.5, "va": "center"}
        axes.text(0.01, len(names), about_left, **beside)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def _percent(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axis.set_major_locator(MaxNLocator(6))  # more labels would run into each other
    axis.set_major_formatter(PercentFormatter(1.0, symbol="%"))


def _whole_numbers(axis: Any, values: NDArray[np.int64]) -> None:
    """Put ticks at round whole numbers in the range of the values; a logarithmic axis may otherwise have none."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    steps = [m * 10**e for e in range(16) for m in ((1, 3) if values.max() < 3000 else (1,))]
    ticks = [t for t in steps if values.min() / 1.2 <= t <= values.max() * 1.2] or [int(values.max())]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
