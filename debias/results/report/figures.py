"""The figures of audits and scores, on matplotlib axes.

Over 500 lines: the figures share their marks, colours and axes, so that one look is kept in one place.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError
from debias.results.draws import noise_band
from debias.results.sentences import rows_of, sufficient_z
from debias.results.vocabulary import VERMILION, Confirmation, Display, Verdict, error_rate_in_words
from debias.text import LONGEST, named_together, percent_in_table, shortened_apart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.comparison import Comparison
    from debias.results.interactions import Interactions
    from debias.results.scores import Scores

INK, MUTED, GRID, BAND = "#1a1a1a", "#595959", "#d9d9d9", "#e4e4e4"
PAPER = "#fffffe"
"""The colour of the page, dark on a dark one. It is not the white of a map of colours, which stays white."""
MOST_DRAWN = 30
"""A picture shows at most this many features unless the caller says otherwise."""
HIGHEST = 10
"""A picture shows this many of the features that the model reports highest."""
LONGEST_TOGETHER = 30
"""The names of features that work together have so many characters in one line."""
UNSEEN = "the same on unseen rows"
"""Names the reported importance that is computed again on the evaluation rows."""
FEW = 2
"""A picture leaves out no features if there are at most this many, and there is room."""
LABEL_HEIGHT = 0.19
"""Inches between two names beside a line."""
NORMAL_95 = 1.96
"""Half of a 95% interval, in standard errors."""
MOST_IN_SLOPES = 16
"""The figure of ranks shows this many features. A picture of no more features leaves out none."""
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


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install if matplotlib is missing."""
    try:
        import matplotlib.pyplot  # noqa: F401
    except ImportError as error:
        raise ImportError(f"a picture needs matplotlib: pip install matplotlib ({error})") from error


def drawn_features(audit: Audit, most: int = MOST_DRAWN) -> tuple[NDArray[np.int64], int]:
    """Return the features that a picture shows, and how many it leaves out.

    Parameters
    ----------
    audit : Audit
    most : int
        Largest number of features.

    Returns
    -------
    features : array of int64 of shape (n_drawn,)
        The features reported highest (10, but at most half of `most`), and then the informative ones with the
        largest debiased score while there is room; of an audit without a test, those with a share above 0. If no
        importance is reported, the highest scores take its place. Sorted by debiased share, the largest first.
    n_left : int
        Number of features left out. All are drawn if there are at most 16 and `most`, or if one or two were left.

    Raises
    ------
    ValueError
        `most` is less than 1.
    """
    score = audit.tested_scores.values
    reported = score if audit.reported is None or not audit.reported.any() else audit.reported
    of_interest = audit.share > 0 if audit.tested_scores.selected is None else audit.tested_scores.selected
    return _drawn(audit.strongest_first, reported, of_interest, most)


def drawn_of_scores(scores: Scores, most: int = MOST_DRAWN) -> tuple[NDArray[np.int64], int]:
    """Return the features that a picture of one scorer shows, the largest score first, and how many it leaves out.

    As :func:`drawn_features`, with the highest scores in place of those reported highest.
    """
    by_score = np.argsort(-scores.values, kind="stable")
    return _drawn(by_score, scores.values, scores.values > 0 if scores.selected is None else scores.selected, most)


def refuse_most(most: int, name: str = "max_features") -> None:
    """Refuse a largest number that is not a whole number, 1 or more; `name` is the argument."""
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise ValueError(f"{name} must be a whole number and at least 1, not {most!r}")


def _drawn(
    order: NDArray[np.int64], reported: NDArray[np.float64], of_interest: NDArray[np.bool_], most: int
) -> tuple[NDArray[np.int64], int]:
    refuse_most(most)
    drawn = np.zeros(reported.size, dtype=bool)
    drawn[np.argsort(-reported, kind="stable")[: min(HIGHEST, -(-most // 2))]] = True
    room = most - int(drawn.sum())
    drawn[[k for k in order if of_interest[k] and not drawn[k]][:room]] = True
    if drawn.size <= min(most, MOST_IN_SLOPES) or (~drawn).sum() <= min(FEW, most - drawn.sum()):
        drawn[:] = True
    return order[drawn[order]].astype(np.int64), int((~drawn).sum())


def draw_shares(audit: Audit, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw debiased shares with their intervals, and what the model reports, the largest on top."""
    features, n_left = drawn_features(audit, most)
    place, verdicts = np.arange(len(features)), audit.verdict
    intervals = share_intervals(audit)
    if intervals is not None:
        for row, (lower, upper) in enumerate(intervals[features]):
            verdict = verdicts[features[row]]
            if verdict is Verdict.UNTESTED and audit.tested:
                continue
            axes.plot([lower, upper], [row, row], color=verdict.display.colour, lw=1.6, solid_capstyle="butt")
    if interval_differs(audit)[features].any():
        axes.plot([], [], color=MUTED, lw=1.6, label="95% interval of one feature;\nmarks: test of all features")
    _diamonds(axes, audit, features, place)
    _dots(axes, audit, audit.where_tested(audit.share)[features], place, features)
    axes.vlines(0, -0.5, len(features) - 0.5, color=MUTED, lw=0.8, zorder=0)
    name_rows(axes, [audit.tested_scores.feature_names[k] for k in features], n_left, _shares_left(audit, features))
    _percent(axes.xaxis)
    axes.set_xlabel("share of the importance")


def share_intervals(audit: Audit) -> NDArray[np.float64] | None:
    """Return 95% intervals of the scores, divided by what the shares are divided by, shape (n_features, 2).

    A share is at most 1. None if the scores have no intervals, if no score is above 0, or if a test found no feature:
    then the sum that they are divided by may be chance.
    """
    total = np.maximum(audit.tested_scores.values, 0.0).sum()
    found_none = audit.tested and not audit.which(Verdict.INFORMATIVE).any()
    if not audit.tested_scores.has_intervals or total == 0 or found_none:
        return None
    intervals: NDArray[np.float64] = np.minimum(audit.tested_scores.interval().to_numpy() / total, 1.0)
    return intervals


def interval_differs(audit: Audit) -> NDArray[np.bool_]:
    """Return for each feature whether its interval excludes 0 and its verdict is not informative, or the reverse."""
    if not audit.tested or share_intervals(audit) is None:
        return np.zeros(audit.share.size, dtype=bool)
    above = audit.tested_scores.interval()["lower"].to_numpy() > 0
    differs: NDArray[np.bool_] = (above != audit.which(Verdict.INFORMATIVE)) & ~audit.which(Verdict.UNTESTED)
    return differs


def _diamonds(axes: Any, audit: Audit, features: NDArray[np.int64], place: NDArray[np.int64]) -> None:
    """Draw what the model reports and the same figure on these rows, joined by a line: both have one unit.

    Without the second nothing is drawn: beside the debiased share, which has another unit, the first says nothing.
    """
    if audit.reported is None or audit.reported_unseen is None:
        return
    reported, unseen = audit.reported[features], audit.where_tested(audit.reported_unseen)[features]
    known = ~np.isnan(unseen)
    ends = np.stack([reported[known], unseen[known]])
    axes.hlines(place[known], ends.min(axis=0), ends.max(axis=0), color=MUTED, lw=0.7, zorder=1)
    style: dict[str, Any] = {"ms": 5, "ls": "none", "zorder": 2}
    axes.plot(reported, place, "D", mfc=PAPER, mec=MUTED, label="reported", **style)
    axes.plot(unseen, place, "D", mfc=MUTED, mec=PAPER, label=UNSEEN, **style)  # the edge shows on a bar


def draw_evidence(audit: Audit, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw the test statistic of each feature, and the band in which noise would lie."""
    assert audit.tested_scores.z is not None
    features, n_left = drawn_features(audit, most)
    place = np.arange(len(features))
    low, high = _noise_band(audit, features)
    axes.barh(place, high - low, left=low, height=0.72, color=BAND, label="90% of noise", zorder=0)
    axes.use_sticky_edges = False  # else bars end at the frame
    z = audit.where_tested(audit.tested_scores.z)
    _dots(axes, audit, z[features], place, features)
    if audit.tested_scores.threshold is not None:
        label = "family-wise limit" if sufficient_z(audit) is None else "minimum detectable z"
        dashes = (0, (4, 3))
        axes.vlines(audit.tested_scores.threshold, -0.5, len(features) - 0.5, color=INK, lw=1, ls=dashes, label=label)
    left = np.delete(z, features)
    about_left = "" if np.isnan(left).all() else f"z from {np.nanmin(left):z.1f} to {np.nanmax(left):z.1f}"
    name_rows(axes, [audit.tested_scores.feature_names[k] for k in features], n_left, about_left)
    axes.set_xlabel("z (score divided by its spread)")


def noise_distribution(audit: Audit) -> str:
    """Return the name of the distribution from which the band of noise comes."""
    if noise_band(audit.tested_scores) is not None:
        test = audit.tested_scores.details.get("test", {})
        return "from permuted residuals" if test.get("method") == "residuals" else "from permuted responses"
    return "standard normal" if _independent(audit) is None else "Student's t"


def draw_slopes(audit: Audit, axes: Any, most: int = MOST_IN_SLOPES) -> None:
    """Draw the rank of each feature by the reported importance, and by the same figure on these rows."""
    assert audit.reported is not None
    assert audit.reported_unseen is not None
    features, n_left = drawn_features(audit, most)
    verdicts, reported_shares, shares = audit.verdict, audit.reported, audit.where_tested(audit.reported_unseen)
    before = {k: rank for rank, k in enumerate(sorted(features, key=lambda k: -reported_shares[k]))}
    names = dict(zip(features, _names(audit, features, 16), strict=True))
    for after, k in enumerate(sorted(features, key=lambda k: -np.nan_to_num(shares[k], nan=-1.0))):
        look = verdicts[k].display
        dashes = look.dashes if verdicts[k] is Verdict.INDISTINGUISHABLE else "-"
        is_known = not np.isnan(shares[k])
        x, places = ([0, 1], [before[k], after]) if is_known else ([0], [before[k]])
        axes.plot(x, places, color=look.colour, lw=1.4, ls=dashes, marker=look.marker, ms=5, mew=1.6)
        name = names[k]
        reported = percent_in_table(audit.reported[k])
        share = percent_in_table(shares[k]) if is_known else Verdict.UNTESTED.phrase
        axes.text(-0.1, before[k], f"{name}  {reported}", ha="right", va="center", fontsize=8.5)
        axes.text(1.1, after, f"{share}  {name}", ha="left", va="center", fontsize=8.5)
    axes.text(-0.1, -1.1, "reported", ha="right", weight="bold")
    axes.text(1.1, -1.1, "on unseen rows", ha="left", weight="bold")
    if n_left:
        axes.text(0.5, len(features), f"+{n_left:,} more", ha="center", va="center", color=MUTED, fontsize=8.5)
    axes.set(xlim=(-1.35, 2.35), ylim=(len(features) - 0.5 + bool(n_left), -1.5))
    axes.axis("off")


def draw_values(audit: Audit, axes: Any) -> None:
    """Draw what is reported, and the same on these rows, against the number of distinct values.

    The feature that is reported too high by the most is named.
    """
    assert audit.reported is not None
    assert audit.reported_unseen is not None
    assert audit.n_values is not None
    x, share = np.maximum(audit.n_values, 1), audit.where_tested(audit.reported_unseen)
    few = x.size <= 200
    if few:
        axes.vlines(x, np.minimum(audit.reported, share), np.maximum(audit.reported, share), color=GRID, lw=1)
    axes.plot(x, audit.reported, "D", mfc="none", mec=MUTED, ms=5 if few else 3, label="reported", ls="none")
    _dots(axes, audit, share, x, np.arange(x.size), flipped=True, size=6.0 if few else 3.5)
    k = 0 if np.isnan(share).all() else int(np.nanargmax(audit.reported - share))
    if audit.reported[k] - share[k] > 0.01:
        side = "right" if np.log(x[k]) > np.log([x.min(), x.max()]).mean() else "left"
        name, at = _names(audit, np.arange(x.size), 18)[k], (x[k], audit.reported[k])
        away = (-7 if side == "right" else 7, 4)
        axes.annotate(name, at, away, textcoords="offset points", ha=side, va="bottom", fontsize=8.5)
    axes.set_xscale("log")
    axes.margins(x=0.08)
    axes.set_xlabel("number of distinct values (log scale)")
    axes.set_ylabel("share of the reported importance")
    _whole_numbers(axes.xaxis, x)
    _percent(axes.yaxis)
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def draw_scores(scores: Scores, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw the scores of one scorer, the largest on top, with intervals if they have standard errors."""
    features, n_left = drawn_of_scores(scores, most)
    place, values = np.arange(len(features)), scores.values[features]
    if scores.has_intervals:
        reach = scores.interval().to_numpy()[features]
        axes.hlines(place, reach[:, 0], reach[:, 1], color=MUTED, lw=1.4)
    chosen = np.zeros(len(features), bool) if scores.selected is None else scores.selected[features]
    left_out: tuple[Display, str | None] = (Verdict.INDISTINGUISHABLE.display, "not selected")
    if scores.selected is None:
        left_out = (Verdict.UNTESTED.display, None)
    for which, (look, label) in ((chosen, (Verdict.INFORMATIVE.display, "selected")), (~chosen, left_out)):
        if which.any():
            style = {"color": look.colour, "ms": 6, "mew": 1.8, "ls": "none", "label": label}
            axes.plot(values[which], place[which], look.marker, **style)
    if scores.selected is not None:
        axes.legend(loc="lower right", edgecolor=GRID)  # where the smallest scores are
    axes.vlines(0, -0.5, len(features) - 0.5, color=MUTED, lw=0.8, zorder=0)
    left = np.delete(scores.values, features)
    about_left = f"{left.min():z.3g} to {left.max():z.3g}" if n_left else ""
    name_rows(axes, [scores.feature_names[k] for k in features], n_left, about_left)
    axes.set_xlabel(f"{scores.scorer} ({scores.unit})")


def draw_bars(audit: Audit, axes: Any, most: int) -> None:
    """Draw the debiased share of each feature as a bar, the largest on top, and what the model reports as diamonds.

    All are numbers on the right too. The last row has the sums of the features that are left out.
    """
    features, n_left = drawn_features(audit, most)
    share, columns = audit.where_tested(audit.share), {"debiased": audit.where_tested(audit.share)}
    if audit.reported is not None:
        columns["reported"] = audit.reported
    if audit.reported_unseen is not None:
        columns["unseen"] = audit.where_tested(audit.reported_unseen)
    for verdict in Verdict:
        rows, look = np.flatnonzero(audit.which(verdict)[features]), verdict.display
        if rows.size:
            fill = {"color": "none", "edgecolor": look.colour} if look.hatch else {"color": look.colour}
            axes.barh(rows, share[features[rows]], height=0.62, hatch=look.hatch, label=verdict.phrase, **fill)
    names = _names(audit, features)
    parts = [features[row : row + 1] for row in range(features.size)]
    if n_left:
        names.append(f"+{n_left:,} more")
        parts.append(np.setdiff1d(np.arange(share.size), features))
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
    _diamonds(axes, audit, features, np.arange(features.size))
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)
    _percent(axes.xaxis)
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("share of the importance (bars: debiased)")


def draw_slopes_of_shares(audit: Audit, axes: Any, most: int) -> None:
    """Draw a line for each feature, from its reported share on the left to the same on these rows on the right."""
    assert audit.reported is not None
    assert audit.reported_unseen is not None
    features, n_left = drawn_features(audit, most)
    verdicts, labelled, share = audit.verdict, set[Verdict](), audit.where_tested(audit.reported_unseen)
    for k in features:
        verdict = verdicts[k]
        axes.plot(
            [0, 1],
            [audit.reported[k], share[k]],
            color=verdict.display.colour,
            ls=verdict.display.dashes,
            lw=1.4,
            marker=verdict.display.marker,
            ms=5,
            mew=1.6,
            label=None if verdict in labelled else verdict.phrase,
        )
        labelled.add(verdict)
    top = max(audit.reported[features].max(), audit.reported_unseen[features].max(), 1e-9)
    height = axes.get_window_extent().height / axes.figure.dpi
    names = dict(zip(features, _names(audit, features, 18), strict=True))
    gap = top * LABEL_HEIGHT / max(height - 0.9, 1.0)
    lowest = highest = 0.0
    for side, shares in ((0, audit.reported), (1, share)):
        known = features[~np.isnan(shares[features])]
        order = known[np.argsort(shares[known], kind="stable")]
        places = apart(shares[order], gap)
        lowest, highest = min(lowest, places[0]), max(highest, places[-1])
        for k, place in zip(order, places, strict=True):
            name, percentage = names[k], percent_in_table(shares[k])
            text = f"{percentage}  {name}" if side else f"{name}  {percentage}"
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
    axes.text(1.15, head, "on unseen rows", ha="left", weight="bold")
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


def _sum(shares: NDArray[np.float64]) -> float:
    """Return the sum of the shares that are known; NaN if none is."""
    return float("nan") if np.isnan(shares).all() else float(np.nansum(shares))


def draw_ranks(comparison: Comparison, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw a line for each feature through its ranks by the scorers, 1 on top; the largest disagreement stands out."""
    refuse_most(most)
    ranks = comparison.ranks
    order = np.argsort(ranks.mean(axis=1).to_numpy(), kind="stable")[:most]
    drawn, n_left = ranks.iloc[order].to_numpy(), len(ranks) - len(order)
    names = shortened_apart(list(map(str, ranks.index[order])), 18)
    reach = np.ptp(drawn, axis=1)
    widest = int(np.argmax(reach)) if reach.any() else None
    last = drawn.shape[1] - 1
    for k, places in enumerate(drawn):
        style: dict[str, Any] = {"color": MUTED, "lw": 1.2, "marker": "o", "ms": 4}
        if k == widest:
            style = {"color": VERMILION, "lw": 2, "marker": "s", "ms": 5, "label": "largest disagreement", "zorder": 3}
        axes.plot(range(last + 1), places, **style)
        for x, side, away in ((0, "right", -6), (last, "left", 6)):
            beside = {"textcoords": "offset points", "ha": side, "va": "center", "fontsize": 8.5}
            axes.annotate(names[k], (x, places[x]), (away, 0), color=style["color"] if k == widest else INK, **beside)
    axes.set_xticks(range(last + 1), shortened_apart(list(ranks.columns), 20))
    axes.set_xlim(-0.6, last + 0.6)
    axes.set_ylim(drawn.max() + 0.5, 0.5)
    axes.set_ylabel("rank (1: largest score)")
    if n_left:
        axes.set_title(f"+{n_left:,} more", loc="right", fontsize=8.5, color=MUTED)
    if widest is not None:
        axes.legend(loc="upper left", bbox_to_anchor=(0, 1.08), frameon=False)


def draw_interactions(found: Interactions, axes: Any, most: int = MOST_DRAWN) -> None:
    """Draw the share of each tested pair with its interval, in the style of its verdict, the confirmed pairs on top.

    Parameters
    ----------
    found : Interactions
    axes : matplotlib Axes
    most : int
        Draw at most this many pairs. A last line says how many others there are.
    """
    refuse_most(most)
    table = found.to_frame()
    table = table[table["verdict"] != Confirmation.UNTESTED.value]
    drawn, n_left = table.iloc[:most], max(0, len(table) - most)
    at, reach = drawn["share"].to_numpy(), NORMAL_95 * drawn["share_error"].to_numpy()
    place, labels = np.arange(len(drawn)), {each: each.text for each in Confirmation}
    draw_by_verdict(axes, drawn["verdict"].to_numpy(dtype=object), place, (at - reach, at + reach), at, labels)
    axes.vlines(0, -0.5, len(drawn) - 0.5, color=MUTED, lw=1, zorder=1)
    names = sorted({name for members in drawn.index for name in members if name})
    longest = LONGEST_TOGETHER // max(drawn.index.nlevels, 1)
    shown = dict(zip(names, shortened_apart(names, longest), strict=True)) | {"": ""}
    labels_of_rows = [named_together([shown[name] for name in members]) for members in drawn.index]
    name_rows(axes, labels_of_rows, n_left, "with smaller shares", LONGEST_TOGETHER + LONGEST)
    axes.set_xlabel("share and 95% interval of each pair alone")
    _percent(axes.xaxis)


def draw_audit(audit: Audit, kind: str, axes: Any, most: int) -> Any:
    """Draw the picture of an audit of a kind; see ``Audit.plot``."""
    pictures: dict[str, Any] = {
        "bar": draw_bars,
        "interval": draw_shares,
        "slope": draw_slopes_of_shares,
        "evidence": draw_evidence,
    }
    refuse_kind(kind, tuple(pictures))
    if kind == "slope" and (audit.reported is None or audit.reported_unseen is None):
        raise CompositionError(
            f"kind='slope' needs the reported importance on these rows, which is not known: {audit.no_unseen_because}"
        )
    if kind == "evidence" and audit.tested_scores.z is None:
        raise CompositionError("kind='evidence' draws the z of the test, and these scores have none")
    drawn = on_axes(pictures[kind], audit, axes, most)
    if axes is None:
        title = f"Which features of this {audit.tested_scores.settings['model']} matter"
        name_figure(drawn.figure, title, note_of_plot(audit, kind))
    return drawn


def note_of_plot(audit: Audit, kind: str) -> str:
    """Return what the marks and lines of a picture of an audit are."""
    of_all = ""
    test = audit.tested_scores.details.get("test", {})
    if "alpha" in test:
        of_all = f" of the test of all features ({error_rate_in_words(test.get('error'), test['alpha'])})"
    verdicts = f"Colour and marker: verdict{of_all}." if audit.tested else "No feature was tested."
    if kind == "evidence":
        return f"Marker: the statistic z of each feature; for noise, 90% of z lie in the grey band. {verdicts}"
    rows = f"on {rows_of(audit.tested_scores)}"
    if kind == "slope":
        return f"Right: debiased share {rows}. {verdicts}"
    if kind == "bar":
        return f"Bar: debiased share {rows}. {verdicts}"
    marks = f"Filled marker: debiased share {rows}."
    if share_intervals(audit) is None:
        return f"{marks} {verdicts}"
    line = "Line: its 95% interval, each feature alone, splits fixed."
    beside = " A line that excludes 0 alone is no verdict." if audit.tested else ""
    return f"{marks} {line} {verdicts}{beside}"


def name_figure(figure: Any, title: str, note: str) -> None:
    """Put a title above and a note below a figure, and make room for them."""
    width, height = figure.get_size_inches()
    text = textwrap.fill(note, int(15 * width))
    with settings():
        figure.set_size_inches(width, height + 0.5 + 0.16 * len(text.splitlines()))
        at_left: dict[str, Any] = {"x": 0.01, "ha": "left"}
        figure.suptitle(title, fontsize=11, **at_left)
        figure.supxlabel(text, fontsize=8, color=MUTED, **at_left)


def refuse_kind(kind: Any, kinds: tuple[str, ...]) -> None:
    """Raise a CompositionError unless there is such a kind of picture."""
    if kind not in kinds:
        raise CompositionError(f"kind={kind!r} is not one of {', '.join(map(repr, kinds))}")


def refuse_axes(axes: Any) -> None:
    """Raise a CompositionError unless this is None or one matplotlib Axes."""
    if axes is not None and not hasattr(axes, "get_legend_handles_labels"):
        raise CompositionError(f"ax must be one matplotlib Axes, or None for new ones, not {type(axes).__name__}")


def on_axes(draw: Any, result: Any, axes: Any, most: int) -> Any:
    """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
    refuse_most(most)
    refuse_axes(axes)
    require_matplotlib()
    with settings():
        if axes is None:
            axes = new_axes(6.4, 1.2 + 0.24 * _n_lines(draw, result, most))
        draw(result, axes, most)
        if axes.get_legend() is None and axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best", edgecolor=GRID)
    return axes


def new_axes(width: float, height: float) -> Any:
    """Return the axes of a new pyplot figure of a size in inches."""
    require_matplotlib()
    import matplotlib.pyplot as plt

    with settings():
        return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _n_lines(draw: Any, result: Any, most: int) -> int:
    """Return the number of lines of a picture: its features, and one for those that are left out."""
    if draw is draw_ranks:
        return min(most, len(result.ranks)) + 1
    if draw is draw_interactions:
        return min(most, int(result.tested.sum())) + 1
    features, n_left = drawn_of_scores(result, most) if draw is draw_scores else drawn_features(result, most)
    return len(features) + bool(n_left)


def _shares_left(audit: Audit, drawn: NDArray[np.int64]) -> str:
    """Return the shares of the features that are not drawn, together."""
    debiased = f"{percent_in_table(np.delete(audit.share, drawn).sum())} debiased"
    if audit.reported is None:
        return f"together {debiased}"
    return f"together {percent_in_table(np.delete(audit.reported, drawn).sum())} reported, {debiased}"


def _noise_band(audit: Audit, drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the 5% and 95% quantiles of z of noise, shape (2, n_drawn)."""
    from scipy.special import ndtri, stdtrit

    of_draws = noise_band(audit.tested_scores)
    if of_draws is not None:
        return of_draws[:, drawn]
    rows = _independent(audit)
    upper = np.full(len(drawn), ndtri(0.95)) if rows is None else stdtrit(np.maximum(rows - 1, 1.0), 0.95)[drawn]
    return np.stack([-upper, upper])


def _independent(audit: Audit) -> NDArray[np.float64] | None:
    """Return the number of independent rows of each score, as the test used it; None if the test does not say."""
    test = audit.tested_scores.details.get("test", {})
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
    for verdict in Verdict:
        which, look = audit.which(verdict)[features], verdict.display
        if which.any():
            points = (place[which], values[which]) if flipped else (values[which], place[which])
            axes.plot(
                *points,
                look.marker,
                color=look.colour,
                ms=size,
                mew=0.3 * size,
                ls="none",
                label=verdict.phrase,
                zorder=3,
            )


def draw_by_verdict(
    axes: Any,
    verdicts: NDArray[Any],
    place: NDArray[np.int64],
    line: tuple[NDArray[np.float64], NDArray[np.float64]],
    at: NDArray[np.float64],
    labels: Mapping[Any, str],
) -> None:
    """Draw a horizontal line and a marker in each row, in the style of its verdict; `labels` has all verdicts."""
    begin, end = line
    for verdict, label in labels.items():
        which, look = verdicts == verdict, verdict.display
        if which.any():
            axes.hlines(place[which], begin[which], end[which], color=look.colour, lw=1.6)
            style = {"color": look.colour, "ms": 6, "mew": 1.8, "ls": "none", "zorder": 3}
            axes.plot(at[which], place[which], look.marker, label=label, **style)


def _names(audit: Audit, features: NDArray[np.int64], longest: int = LONGEST) -> list[str]:
    """Return the names of some features as a picture shows them."""
    return shortened_apart([audit.tested_scores.feature_names[k] for k in features], longest)


def name_rows(axes: Any, names: list[str], n_left: int, about_left: str, longest: int = LONGEST) -> None:
    """Name the rows, with a last row about the features that are left out."""
    labels = shortened_apart(names, longest) + [f"+{n_left:,} more"] * bool(n_left)
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
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # more labels would run into each other
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.6g}%"))


def _whole_numbers(axis: Any, values: NDArray[np.int64]) -> None:
    """Put ticks at round whole numbers in the range of the values; a logarithmic axis may otherwise have none."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    steps = [m * 10**e for e in range(16) for m in ((1, 3) if values.max() < 3000 else (1,))]
    ticks = [t for t in steps if values.min() / 1.2 <= t <= values.max() * 1.2] or [int(values.max())]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
