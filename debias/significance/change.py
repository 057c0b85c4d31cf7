"""The comparison of two windows of periods: which scores changed, which columns shifted, and which effects faded.

Sums of several periods add up to those of a window: before (b) and after (a). The *change of the score* is the
difference of ``mdi_oob`` between the windows. Its part that is due to the response is found as follows; the rest is due
to the rows, of which other shares reach the nodes (Kitagawa 1955; Oaxaca 1973; Blinder 1973).

1. Rows are standardised. A leaf that n_b and n_a rows reach gets the weight h = n_b n_a / (n_b + n_a) in both
   windows, as strata of two samples do in Mantel and Haenszel (1959). Leaves without rows of one window drop out.
2. With these weights, the formula of ``mdi_oob`` gives three scores of a feature in each window: S of the response,
   R of the residual (y minus the prediction of the model, or the negative gradient of its loss there), and M = S - R
   of the prediction, the score that the feature would have if the model were right.
3. S / M is the *slope* of the feature: 1 if the response follows the splits as the model believes, 0 if it does not
   follow them any more, below 0 if it goes the other way. The *change of the response* is the difference between the
   slopes, times the mean of M in the two windows, so that it has the unit of the scores.

If only the distribution of X drifts, M changes with it. R changes only as far as the errors of the model differ between
the old and the new rows of a leaf. The mean of R given X does not depend on the number of rows, while S of noise loses
a share of 1 / n at a node of n rows: windows of different lengths can be compared. (Where the gradient is not y minus a
mean, as for quantiles or Huber's loss, M depends on y too, so that a drift of X is told less well from one of y.)

A model that misses a part of an interaction has errors that drift with X. So the test is not of an exact zero: a change
is called one if the slope changed by more than `least`.

Over 500 lines: all estimates, errors and tests of a comparison follow from the same sums, with the nodes, weights and
groups of both windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.p_values import holm_of_known
from debias.results.policy import SMALLEST_SHIFT
from debias.rows.period_sums import group_variance
from debias.rows.shift import compare_shares, in_words
from debias.significance.loss_change import LossesOfPeriods, PeriodLosses, compare_losses, few_periods_count
from debias.significance.margins import above, beyond
from debias.significance.pair_change import PairsOfPeriods, compare_pairs
from debias.significance.period_means import MeansComparison, PeriodMeans, compare_means, means_of, variances_of
from debias.text import counted, escaped, listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.results.loss_change import LossChange
    from debias.results.pair_changes import PairChanges
    from debias.rows.period_sums import PeriodSums
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]
    Flags = NDArray[np.bool_]

ENOUGH_PERIODS = 8
"""From so many periods on, a window shows by itself how much periods differ."""
MOST_GROUPS = 20
"""More periods than this are joined to so many groups of consecutive periods, which are left out one at a time."""
ENOUGH_ROWS = 30
"""With fewer effective rows at the splits of a feature, the groups of rows within periods do not show its variance."""
MANY_ROWS = 150
"""With so many effective rows, one row seldom makes a change. A fault may begin within the recent periods then, which
differ from one another for that reason."""
LEAST = 0.25
"""Smallest change of a slope that is called a change by default. If the means of two columns moved by half a standard
deviation and nothing else, slopes moved by up to about 0.2 (docs/results/monitor.md)."""
LITTLE_OVERLAP = 0.5
"""With a smaller share of the rows in leaves that both windows reach, a warning says so."""
LITTLE_COVERED = 0.1
"""No change in a smaller share of what the splits on a feature tell is not called none."""
HARDLY = 0.2
"""The splits on a column hardly divide the rows within periods if less than this share of the variance that they make
is there."""
MOST_NAMED = 5
"""A warning names at most this many features."""
ONE_LOOK = (
    "the error rate is of this comparison alone. If you compare again and again, pass looks=, the number of "
    "comparisons, or some of them will find a change where there is none"
)
"""What a reader of a single comparison must know."""
ROUNDING = 1e-9
"""A smaller share of the largest score is 0 up to rounding."""
LEAST_WEIGHT = 1e-9
"""A leaf with a smaller share of the weight is empty up to rounding."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowComparison:
    """What changed between two windows of periods. Arrays have one entry for each feature, or group of features.

    Parameters
    ----------
    names : tuple of str
        Features, or groups of features.
    before, after : array of float64
        Score (``mdi_oob``) in each window.
    before_error, after_error : array of float64
        Their standard errors. NaN if the score differs from 0 only between periods, and these are few.
    change : array of float64
        ``after - before = response_change + rows_change``.
    response_change : array of float64
        Part of the change that is due to the response: the same rows have another y.
    response_error : array of float64
        Its standard error. NaN for the same reason; and if no change was found in the rows that can be compared, and
        these are few of those that the splits on the feature divide.
    rows_change : array of float64
        The other part, which is due to other rows, and to their number where nodes have few.
    believed : array of float64
        Score that the feature would have in both windows if the model were right: the mean of M.
    slope_before, slope_after : array of float64
        Share of this score that the response has in each window; NaN if the model believes in no positive score.
    t : array of float64
        ``response_change / response_error``.
    p_value, p_adjusted : array of float64
        Test that the response changed by more than ``least * believed``, two-sided. Adjusted p-values are Holm's. NaN
        where the change could not be tested.
    changed : array of bool
        ``p_adjusted <= alpha / looks``.
    p_before, p_after : array of float64
        Adjusted p-values of the scores in each window, one-sided: small if the feature is distinguishable from noise.
    informative_before, informative_after : array of bool
        These are at most ``alpha / looks``.
    faded : array of bool
        The feature was informative, is not any more, and its response changed significantly downwards.
    undetected : array of bool
        The feature was informative and is not any more. This may be for lack of rows: it is weaker than `faded`.
    comparable : array of bool
        Enough of what the splits on the feature tell is in rows that can be compared, or a change was found in them.
        False if the column is stuck, empty or in another unit. True for columns that are the same for all rows of a
        period, because a few periods may have other values by chance.
    kept : array of bool
        The feature is shown not to have faded, at the level alpha: a loss of more than `least` of the slope is
        excluded, or the score after is above 0 (Holm), and no change downwards was found. `looks` do not count here:
        they keep false alarms rare, and this is no alarm.
    used : array of bool
        Trees split on the feature.
    unseen_before, unseen_after : array of float64
        Share of the rows with a category that the model never saw, in the column of the group with most.
    shift : array of float64
        Effect size w of the shift of rows at the splits on the feature, see :mod:`debias.rows.shift`. NaN if no split
        on it has enough rows, or the model has none.
    shift_p_value, shift_p_adjusted : array of float64
        Test that the shares of rows that go left are the same in both windows; NaN as `shift`.
    shifted : array of bool
        ``shift_p_adjusted <= alpha / looks``, and `shift` is at least 0.1.
    shift_split : tuple of str
        The split on the feature at which the shares differ most; "" if there is none with enough rows.
    left_before, left_after : array of float64
        Share of the rows that reach this split and go left; NaN if there is none.
    repeated : tuple of float
        Share of the rows of each window that repeat another row of the same period.
    means : MeansComparison
        Whether the means of the response, of the prediction and of the residual differ.
    loss : LossChange or None
        The change of the loss, divided into the base and each feature.
    no_loss_because : str or None
        Why the change of the loss is not known, or which periods it lacks.
    pairs : PairChanges or None
        Whether the response to named pairs of features changed; None if none are named.
    method : {"between periods", "between periods of one window", "within periods"}
        Where standard errors are from: see :func:`compare_windows`.
    degrees_of_freedom : array of float64
        Of the test of `response_change`.
    n_periods : tuple of int
        Number of periods in each window.
    n_rows : tuple of int
        Number of rows in each window.
    alpha : float
        Family-wise error rate of each of the tests, over all `looks` together.
    least : float
        Smallest change of the slope that is called a change.
    looks : int
        Number of comparisons that share alpha.
    overlap : float
        Share of the rows that can be compared: 1 if the leaves hold the same shares of rows of both windows, 0 if no
        leaf has rows of both.
    warnings : tuple of str
        What the tests do not cover.
    """

    names: tuple[str, ...]
    before: Array
    after: Array
    before_error: Array
    after_error: Array
    change: Array
    response_change: Array
    response_error: Array
    rows_change: Array
    believed: Array
    slope_before: Array
    slope_after: Array
    t: Array
    p_value: Array
    p_adjusted: Array
    changed: Flags
    p_before: Array
    p_after: Array
    informative_before: Flags
    informative_after: Flags
    faded: Flags
    undetected: Flags
    comparable: Flags
    kept: Flags
    used: Flags
    unseen_before: Array
    unseen_after: Array
    shift: Array
    shift_p_value: Array
    shift_p_adjusted: Array
    shifted: Flags
    shift_split: tuple[str, ...]
    left_before: Array
    left_after: Array
    repeated: tuple[float, float]
    means: MeansComparison
    loss: LossChange | None
    no_loss_because: str | None
    pairs: PairChanges | None
    method: str
    degrees_of_freedom: Array
    n_periods: tuple[int, int]
    n_rows: tuple[int, int]
    alpha: float
    least: float
    looks: int
    overlap: float
    warnings: tuple[str, ...]


def compare_windows(
    before: Sequence[PeriodSums],
    after: Sequence[PeriodSums],
    grouping: Grouping,
    *,
    alpha: float = 0.05,
    least: float = LEAST,
    looks: int = 1,
) -> WindowComparison:
    """Compare two windows of periods.

    Parameters
    ----------
    before, after : sequence of PeriodSums
        The periods of each window, in order of time. Each item is asked for once, so that it may be loaded then.
    grouping : Grouping
        Groups of features. Their scores are summed.
    alpha : float
        Family-wise error rate of the tests of this comparison; of all `looks` comparisons together.
    least : float
        The slope of a feature must have changed by more than this. 0 tests for any change; then a drift of X alone is
        called a change of the response as soon as the errors of the model differ between old and new rows.
    looks : int
        Number of comparisons that are planned, for example 365 for one a day. Each then has the level alpha / looks
        (Bonferroni), so that alpha covers all of them.

    Returns
    -------
    WindowComparison

    Raises
    ------
    RowsError
        A window has no periods or no rows, or the periods are of different models.
    CompositionError
        `alpha`, `least` or `looks` is out of range.

    Notes
    -----
    Standard errors come from the differences *between periods*, if both windows have 8 periods or more: one is left out
    at a time (delete-a-group jackknife; more than 20 periods are joined to 20 groups of consecutive periods). They
    cover effects of days, which rows of one day share. If only one window has so many periods, the other one is taken
    to vary as it does, with fewer rows more; or as the rows within its periods do, and where few rows count at the
    splits of a feature as its periods differ from one another, where that is larger. If neither has, the variance
    *within periods* is used, which takes rows as independent of one another. P-values are those of Student's t with
    Welch's degrees of freedom.

    Examples
    --------
    >>> from debias.data.groups import Grouping
    >>> from debias.rows.period_sums import PeriodSums
    >>> from debias.significance.change import compare_windows
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 3))
    >>> y = X[:, 0] + X[:, 1] + rng.normal(size=3000)
    >>> y[2000:] -= X[2000:, 1]  # the second feature has no effect any more
    >>> forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X[:1000], y[:1000])
    >>> periods = [PeriodSums(forest) for _ in range(20)]
    >>> for k, period in enumerate(periods):
    ...     rows = slice(1000 + 100 * k, 1100 + 100 * k)
    ...     period.update(X[rows], y[rows])
    >>> grouping = Grouping.of(None, periods[0].ensemble.feature_names)
    >>> found = compare_windows(periods[:10], periods[10:], grouping)
    >>> found.changed.tolist(), found.faded.tolist()
    ([False, True, False], [False, True, False])
    """
    check_settings(alpha, least, looks)
    windows = (_Window.of(before, "before"), _Window.of(after, "after"))
    ensemble = windows[0].ensemble
    if windows[0].trees_digest != windows[1].trees_digest:
        raise RowsError("the two windows are of different models. Compare periods of one model")
    level = alpha / looks
    shift = _shift(ensemble, grouping, windows, level)
    used = shift["used"]
    found = _Estimates.of(ensemble, grouping, *(window.total for window in windows))
    errors = _errors(ensemble, grouping, windows, found)
    means = compare_means(windows[0].means, windows[1].means, level)
    # Each window asks a question of its own about all features, so Holm's adjustment is within a window.
    above_0 = (above(found.score[k], 0.0, errors.score[k], errors.score_freedom[k]) for k in (0, 1))
    score_p = [holm_of_known(np.where(used, p, np.nan)) for p in above_0]
    # A change of the slope by `least`, in the unit of the scores.
    margin = least * np.abs(found.believed)
    of_periods = _of_periods(ensemble, grouping, windows[0])
    # A single period whose mean residual moved, for whatever reason, would look like a change of such a column.
    alike = of_periods & (not windows[1].has_enough)
    p_value = beyond(found.response_change, margin, np.where(alike, np.nan, errors.response), errors.freedom)
    p_adjusted = holm_of_known(np.where(used, p_value, np.nan))
    informative = [p <= level for p in score_p]
    changed = p_adjusted <= level
    # That nothing was found in a few of the rows says nothing about the others.
    little = (_covered(ensemble, grouping, windows, found.overlap) < LITTLE_COVERED) & ~changed
    response_error = np.where(little | alike | ~used, np.nan, errors.response)
    untested = np.isnan(response_error)
    change = found.score[1] - found.score[0]
    loss, no_loss = compare_losses(windows[0].losses, windows[1].losses, grouping, used, level)
    undetected = informative[0] & ~informative[1]
    # At alpha and not at the level of many looks: to say that nothing was lost is no alarm.
    excluded = above(found.response_change, -margin, response_error, errors.freedom) <= alpha
    kept = (excluded | (score_p[1] <= alpha) & ~untested) & ~(changed & (found.response_change < 0))
    return WindowComparison(
        names=grouping.names,
        before=found.score[0],
        after=found.score[1],
        before_error=errors.score[0],
        after_error=errors.score[1],
        change=change,
        response_change=found.response_change,
        response_error=response_error,
        rows_change=change - found.response_change,
        believed=found.believed,
        slope_before=found.slope[0],
        slope_after=found.slope[1],
        t=_ratio(found.response_change, response_error),
        p_value=np.where(untested, np.nan, p_value),
        p_adjusted=np.where(untested, np.nan, p_adjusted),
        changed=changed,
        p_before=score_p[0],
        p_after=score_p[1],
        informative_before=informative[0],
        informative_after=informative[1],
        faded=undetected & changed & (found.response_change < 0),
        undetected=undetected,
        comparable=~little | of_periods,
        kept=kept,
        unseen_before=largest_share(grouping, windows[0].unseen),
        unseen_after=largest_share(grouping, windows[1].unseen),
        repeated=(windows[0].repeated, windows[1].repeated),
        means=means,
        loss=loss,
        no_loss_because=no_loss,
        pairs=compare_pairs(windows[0].pairs, windows[1].pairs, grouping, alpha=alpha, least=least, looks=looks),
        **shift,
        method=errors.method,
        degrees_of_freedom=errors.freedom,
        n_periods=(windows[0].n_periods, windows[1].n_periods),
        n_rows=(windows[0].n_rows, windows[1].n_rows),
        alpha=alpha,
        least=least,
        looks=looks,
        overlap=found.overlap,
        warnings=(
            *_warnings(windows, errors, found, little, alike, grouping.names, looks),
            *means.warnings,
            *(() if loss is None else (*few_periods_count((windows[0].losses, windows[1].losses)), *loss.warnings)),
        ),
    )


def compare_rows(
    before: Sequence[PeriodSums], after: Sequence[PeriodSums], grouping: Grouping, level: float
) -> dict[str, Any]:
    """Return the fields of :class:`WindowComparison` that need no responses: of the shift, and of unseen categories.

    And ``means``, and ``losses`` of both windows, of which not all needs responses.
    """
    windows = (_Window.of(before, "before"), _Window.of(after, "after"))
    if windows[0].trees_digest != windows[1].trees_digest:
        raise RowsError("the two windows are of different models. Compare periods of one model")
    return {
        **_shift(windows[0].ensemble, grouping, windows, level),
        "unseen_before": largest_share(grouping, windows[0].unseen),
        "unseen_after": largest_share(grouping, windows[1].unseen),
        "means": compare_means(windows[0].means, windows[1].means, level),
        "losses": tuple(window.losses for window in windows),
    }


def groups_of(n_periods: int) -> NDArray[np.int64]:
    """Return the group of each period of a window, numbered from 0.

    Groups are of consecutive periods, so that what a day shares with the next one stays within a group.
    """
    return np.arange(n_periods) * min(MOST_GROUPS, n_periods) // max(n_periods, 1)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of some rows at every node: weights (n_nodes,), responses and residuals (n_nodes, width)."""

    n: Array
    s: Array
    e: Array

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.n + other.n, self.s + other.s, self.e + other.e)

    def __sub__(self, other: _Sums) -> _Sums:
        return _Sums(self.n - other.n, self.s - other.s, self.e - other.e)


@dataclass(frozen=True, eq=False)
class _Window:
    """The periods of a window, in groups."""

    ensemble: TreeEnsemble
    trees_digest: str
    groups: list[_Sums]
    total: _Sums
    weight: Array
    """Of each group."""
    within: Array
    """Variances within periods of the scores, of those of the residual, and covariances, shape (3, n_features)."""
    within_freedom: Array
    squared_weight: float
    n_periods: int
    n_rows: int
    means: PeriodMeans
    divided: Array
    """At each split, the sum over periods of n_left n_right / n."""
    unseen: Array
    """Share of the rows with a category that the model never saw, of each feature."""
    repeated: float
    losses: PeriodLosses
    pairs: PairsOfPeriods

    @classmethod
    def of(cls, periods: Sequence[PeriodSums], name: str) -> _Window:
        group_of = groups_of(len(periods))
        groups: dict[int, _Sums] = {}
        weight: dict[int, float] = {}
        first, n_rows, squared_weight, varied, repeated = None, 0, 0.0, 0.0, 0.0
        weights, means, of_means, pairs = [], [], [], PairsOfPeriods()
        for number, group in enumerate(group_of.tolist()):
            period = periods[number]
            if not period.total_weight > 0:
                continue
            if first is None:
                first = period
                of_sum, of_square = (np.zeros((k, period.ensemble.n_features)) for k in (3, 2))
                unseen = np.zeros(period.ensemble.n_features)
                left, right = period.ensemble.children.T
                divided = np.zeros(left.size)
                losses = LossesOfPeriods(period.ensemble.n_features)
            elif period.ensemble is not first.ensemble and period.trees_digest != first.trees_digest:
                raise RowsError(f"the periods of the window {name} are of different models. Compare those of one model")
            sums = _Sums(period.n, period.s, period.residual)
            groups[group] = groups[group] + sums if group in groups else sums
            weight[group] = weight.get(group, 0.0) + period.total_weight
            variance, freedom = period.variances()
            if np.isfinite(variance).all():
                varied += period.total_weight
                of_sum += variance * period.total_weight**2
                of_square += _ratio((variance[:2] * period.total_weight**2) ** 2, freedom)
            squared_weight += period.total_squared_weight
            n_rows += period.n_rows
            weights.append(period.total_weight)
            means.append(means_of(period))
            of_means.append(variances_of(period))
            divided += _ratio(period.n[left] * period.n[right], period.n[left] + period.n[right])
            unseen, repeated = unseen + period.unseen, repeated + period.repeated
            losses.add(period, group)
            pairs.add(period, group)
        if first is None:
            raise RowsError(f"the window {name} has no rows, so there is nothing to compare")
        in_all = sum(weight.values())
        total = _Sums(*(np.sum([getattr(group, key) for group in groups.values()], axis=0) for key in "nse"))
        return cls(
            first.ensemble,
            first.trees_digest,
            list(groups.values()),
            total,
            np.array(list(weight.values())),
            # Periods of single rows have no variance; it is taken to be that of the other rows.
            of_sum / (in_all * varied) if varied else np.full_like(of_sum, np.nan),
            # Satterthwaite: the square of a sum of variances, over the sum of their squares by degrees of freedom.
            _ratio(of_sum[:2] ** 2, of_square),
            squared_weight,
            len(periods),
            n_rows,
            PeriodMeans(np.array(weights), np.array(means), np.array(of_means)),
            divided,
            unseen / n_rows,
            repeated / n_rows,
            losses.collected(),
            pairs,
        )

    @property
    def has_enough(self) -> bool:
        """Whether the periods show how much periods differ."""
        return len(self.groups) >= ENOUGH_PERIODS

    @property
    def effective_rows(self) -> float:
        """Number of rows of equal weight whose mean would vary as much."""
        return float(self.weight.sum() ** 2 / self.squared_weight)

    @property
    def share(self) -> Array:
        """Share of the weight that each group has."""
        return self.weight / self.weight.sum()

    @property
    def squared_share(self) -> float:
        """Sum of the squared shares of the periods. Those in one group are taken to have equal ones."""
        return float((self.share**2).sum() * len(self.groups) / self.n_periods)


@dataclass(frozen=True, eq=False)
class _Estimates:
    """Estimates of two windows; arrays have one entry for each group of features."""

    score: tuple[Array, Array]
    response_change: Array
    believed: Array
    slope: tuple[Array, Array]
    factor: tuple[Array, Array]
    """The response change is the difference of the scores of the residual in the two windows, times these."""
    steady: Flags
    """Where these factors do not depend on the rows to first order."""
    overlap: float

    @classmethod
    def of(cls, ensemble: TreeEnsemble, grouping: Grouping, before: _Sums, after: _Sums) -> _Estimates:
        share = _standardised(ensemble, before, after)
        width = before.s.shape[1]
        scores = _scores(ensemble, grouping, share[0], share[1].reshape(-1, 4, width)).T
        believed_each = np.stack([scores[0] - scores[2], scores[1] - scores[3]])
        believed = believed_each.mean(axis=0)
        # A slope is a ratio to M. Without a positive M, scores of the residual are compared as they are.
        usable = (believed_each > 0).all(axis=0)
        # A ratio beyond 2 is of a score near 0, and says nothing.
        ratio = _ratio(believed, believed_each)
        factor = np.where(usable, np.clip(ratio, 0.5, 2.0), 1.0)
        slope = np.where(usable, _ratio(scores[:2], believed_each), np.nan)
        compared = share[0][ensemble.tree_start[:-1]].mean()
        # The sum of h over leaves is at most h of all rows: if every leaf holds the same shares of both windows.
        possible = 1 / (1 / before.n[0] + 1 / after.n[0])
        own = [_scores(ensemble, grouping, sums.n, sums.s[:, None])[:, 0] for sums in (before, after)]
        return cls(
            (own[0], own[1]),
            factor[1] * scores[3] - factor[0] * scores[2],
            believed,
            (slope[0], slope[1]),
            (factor[0], factor[1]),
            ~usable | (factor != ratio).any(axis=0),
            float(compared / possible),
        )


@dataclass(frozen=True, eq=False)
class _Errors:
    """Standard errors of estimates, and their degrees of freedom."""

    method: str
    score: tuple[Array, Array]
    score_freedom: tuple[Array, Array]
    response: Array
    freedom: Array


def _errors(ensemble: TreeEnsemble, grouping: Grouping, windows: tuple[_Window, _Window], found: _Estimates) -> _Errors:
    """Return the standard errors of the scores of both windows, and of the change of the response."""
    enough = [window.has_enough for window in windows]
    variance, freedom = np.zeros((2, 2, len(grouping.names))), np.ones((2, 2, len(grouping.names)))
    within = _within(ensemble, grouping, windows, found)
    effective = [_effective_rows(ensemble, grouping, window) for window in windows]
    for k in (0, 1):
        if enough[k]:
            variance[k], freedom[k] = _between(ensemble, grouping, windows, k, found)
    for k, window in enumerate(windows):
        if enough[k]:
            continue
        variance[k], freedom[k] = within[k]
        if not enough[1 - k]:
            variance[k, :, effective[k] < ENOUGH_ROWS] = np.nan
            continue
        of_rows = np.where(effective[1 - k] < ENOUGH_ROWS, np.nan, within[1 - k][0])
        carried = _carried(variance[1 - k], of_rows, windows[1 - k], window)
        larger = ~(variance[k] > carried)  # also where the variance within periods is not known
        variance[k] = np.where(larger, carried, variance[k])
        freedom[k] = np.where(larger, freedom[1 - k], freedom[k])
        few = effective[k] < MANY_ROWS
        if len(window.groups) > 1 and few.any():
            # A few periods show their variance badly. But where few rows count, one of them may make the change.
            own = _between(ensemble, grouping, windows, k, found)[0]
            variance[k] = np.where(few, np.maximum(variance[k], own), variance[k])
    of_response, its_freedom = variance[:, 1], freedom[:, 1]
    welch = _ratio(of_response.sum(axis=0) ** 2, (of_response**2 / its_freedom).sum(axis=0))
    methods = ("within periods", "between periods of one window", "between periods")
    least = ROUNDING * np.abs([*found.score, found.believed]).max(initial=0.0)

    def known(squared: Array, estimate: Array) -> Array:
        """Return standard errors; NaN for unknown variances, and for estimates that are not 0 and do not vary."""
        return np.where((squared == 0) & (np.abs(estimate) > least), np.nan, np.sqrt(squared))

    return _Errors(
        methods[sum(enough)],
        (known(variance[0, 0], found.score[0]), known(variance[1, 0], found.score[1])),
        (freedom[0, 0], freedom[1, 0]),
        known(of_response.sum(axis=0), found.response_change),
        np.maximum(welch, 1.0),
    )


def _between(
    ensemble: TreeEnsemble, grouping: Grouping, windows: tuple[_Window, _Window], k: int, found: _Estimates
) -> tuple[Array, float]:
    """Return variances, by leaving out groups of window k, of its scores and of the change; and their freedom."""
    window = windows[k]
    # Recomputed from sums: a ratio of scores is not a mean over periods, so its jackknife needs the whole estimate.
    without = []
    for group in window.groups:
        totals = [windows[0].total, windows[1].total]
        totals[k] = totals[k] - group
        estimates = _Estimates.of(ensemble, grouping, *totals)
        without.append([estimates.score[k], estimates.response_change])
    return group_variance(np.stack([found.score[k], found.response_change]), np.array(without), window.share)


def _carried(variance: Array, within: Array, window: _Window, other: _Window) -> Array:
    """Return the variances that another window would have if its periods and rows varied as those of a window do.

    The part that rows make within periods is divided by the number of rows, the rest by the number of periods. Where it
    is not known how much rows make, it is taken to be all.
    """
    of_rows = np.where(np.isnan(within), variance, np.minimum(within, variance))
    periods = other.squared_share / window.squared_share
    rows = window.effective_rows / other.effective_rows
    carried: Array = (variance - of_rows) * periods + of_rows * rows
    return carried


def _within(
    ensemble: TreeEnsemble, grouping: Grouping, windows: tuple[_Window, _Window], found: _Estimates
) -> list[tuple[Array, Array]]:
    """Return the same variances from those within periods, for each window.

    To first order, S / M varies as ((1 - slope) S + slope R) / M. The variances of S and R are of rows with their own
    shares at the nodes. They are scaled by the ratio of the variances that standardised and own shares would give if
    trees and nodes were independent.
    """
    share = _standardised(ensemble, windows[0].total, windows[1].total)[0]
    value = ensemble.centred_value
    plain = [
        _scores(ensemble, grouping, n, (n[:, None] * value)[:, None], squared=True)[:, 0]
        for n in (windows[0].total.n, windows[1].total.n, share)
    ]
    scale = np.where(plain[0] + plain[1] > 0, _ratio(plain[2], plain[0] + plain[1]), 1.0)
    results = []
    for window, factor, slope in zip(windows, found.factor, found.slope, strict=True):
        part = np.where(found.steady, 1.0, slope)[grouping.index]  # of the residual
        of_score, of_residual, covariance = window.within
        mixed = (1 - part) ** 2 * of_score + part**2 * of_residual + 2 * part * (1 - part) * covariance
        # The standard deviation of a sum is at most the sum of the standard deviations.
        variance = np.stack([grouping.sum(np.sqrt(np.maximum(row, 0.0))) ** 2 for row in (of_score, mixed)])
        freedom = np.full_like(variance, np.inf)
        for row, known, of_features in zip(freedom, window.within[:2] > 0, window.within_freedom, strict=True):
            np.minimum.at(row, grouping.index[known], of_features[known])
        variance[1] *= scale * factor**2
        results.append((variance, np.where(np.isfinite(freedom), np.maximum(freedom, 1.0), 1.0)))
    return results


def _effective_rows(ensemble: TreeEnsemble, grouping: Grouping, window: _Window) -> Array:
    """Return how many rows of a window the scores of groups of features rest on; infinity for scores of 0.

    A row on the left of a split counts with d n_right / n, and one on the right with d n_left / n, where d is the
    distance between the children's values: this is its share in the score per unit of its response. The number is
    (sum of squares)^2 / (sum of fourth powers) of these, over all rows and splits (Kish 1965). Trees are taken to
    divide the rows in different ways, so it is an upper limit.
    """
    (left, right), at = ensemble.children.T, ensemble.splits
    n_left, n_right = window.total.n[left], window.total.n[right]
    n = n_left + n_right
    squared_distance = ((ensemble.centred_value[left] - ensemble.centred_value[right]) ** 2).sum(axis=1)
    root = window.total.n[ensemble.tree_start[:-1]][ensemble.tree_of_split]
    one = _ratio(squared_distance, root**2)
    # n_left (n_right / n)^2 + n_right (n_left / n)^2 is n_left n_right / n; so for fourth powers.
    squares = _ratio(one * n_left * n_right, n)
    fourths = _ratio(one**2 * n_left * n_right * (n_left**3 + n_right**3), n**4)
    group = grouping.index[ensemble.feature[at]]
    sums = [np.bincount(group, each, len(grouping.names)) for each in (squares, fourths)]
    rows_a_weight = window.weight.sum() / window.squared_weight
    return np.where(sums[1] > 0, _ratio(sums[0] ** 2, sums[1]) * rows_a_weight, np.inf)


def _standardised(ensemble: TreeEnsemble, before: _Sums, after: _Sums) -> tuple[Array, Array]:
    """Return the weights h at all nodes, and sums with these weights: of s and of e, before and after, side by side."""
    from debias.trees.kernels import nodes as kernels

    leaf = ensemble.left < 0
    n, m = before.n[leaf], after.n[leaf]
    both = (n > LEAST_WEIGHT * before.n[0]) & (m > LEAST_WEIGHT * after.n[0])
    per_row = [np.divide(1.0, array, out=np.zeros_like(array), where=both) for array in (n, m)]
    h = np.zeros(ensemble.n_nodes)
    # n m / (n + m), without a product that may overflow or vanish.
    at_leaves = np.divide(1.0, per_row[0] + per_row[1], out=np.zeros_like(n), where=both)
    h[leaf] = at_leaves
    columns = [
        (at_leaves * per_row[k])[:, None] * getattr(sums, key)[leaf]
        for key in ("s", "e")
        for k, sums in enumerate((before, after))
    ]
    sums = np.zeros((ensemble.n_nodes, 4 * before.s.shape[1]))
    sums[leaf] = np.concatenate(columns, axis=1)
    kernels.sum_up(ensemble.tree_start, ensemble.left, ensemble.right, h, sums, np.zeros(0))
    return h, sums


def _covered(ensemble: TreeEnsemble, grouping: Grouping, windows: tuple[_Window, _Window], overlap: float) -> Array:
    """Return how much of the variance that the splits on each group of features make is in rows that can be compared.

    0 if no split on it divides such rows. NaN if the model has no split on it.
    """
    value = ensemble.centred_value
    compared, *own = (
        _scores(ensemble, grouping, n, (n[:, None] * value)[:, None])[:, 0]
        for n in (_standardised(ensemble, *(w.total for w in windows))[0], *(w.total.n for w in windows))
    )
    (left, right), group = ensemble.children.T, grouping.index[ensemble.feature[ensemble.splits]]
    n_telling = np.bincount(group[(value[left] != value[right]).any(axis=1)], minlength=len(grouping.names))
    return np.where(n_telling > 0, overlap * _ratio(compared, np.mean(own, axis=0)), np.nan)


def _of_periods(ensemble: TreeEnsemble, grouping: Grouping, before: _Window) -> Flags:
    """Return the groups of features that hardly divide the rows within a period, such as the weekday of a day."""
    (left, right), n = ensemble.children.T, before.total.n
    value, group = ensemble.centred_value, grouping.index[ensemble.feature[ensemble.splits]]
    squared_distance = ((value[left] - value[right]) ** 2).sum(axis=1)
    parts = before.divided, _ratio(n[left] * n[right], n[left] + n[right])
    within, whole = (np.bincount(group, squared_distance * part, len(grouping.names)) for part in parts)
    return np.asarray(within < HARDLY * whole)


def _scores(ensemble: TreeEnsemble, grouping: Grouping, n: Array, s: Array, squared: bool = False) -> Array:
    """Return ``mdi_oob`` of several responses, shape (n_groups, n_responses).

    Parameters
    ----------
    ensemble : TreeEnsemble
    grouping : Grouping
    n : array of shape (n_nodes,)
    s : array of shape (n_nodes, n_responses, width)
    squared : bool
        Whether to divide by the square of the weight of a tree, as for a variance.
    """
    (left, right), at = ensemble.children.T, ensemble.splits
    # A split with rows on one side only contributes 0 for any response.
    reached = (n[left] > 0) & (n[right] > 0)
    scale = np.divide(1.0, n[left] + n[right], out=np.zeros(at.size), where=reached)
    deviation = n[right, None, None] * s[left] - n[left, None, None] * s[right]
    value = ensemble.centred_value
    terms = np.einsum("ijk,ik->ij", deviation, value[left] - value[right]) * scale[:, None]
    root = n[ensemble.tree_start[:-1]]
    of_tree = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    of_tree = of_tree**2 if squared else of_tree
    terms *= of_tree[ensemble.tree_of_split, None] / (ensemble.n_trees if ensemble.averaged else 1)
    group = grouping.index[ensemble.feature[at]]
    return np.stack([np.bincount(group, column, len(grouping.names)) for column in terms.T], axis=1)


def _shift(
    ensemble: TreeEnsemble, grouping: Grouping, windows: tuple[_Window, _Window], level: float
) -> dict[str, Any]:
    """Return the fields about the shift of the rows at the splits.

    As in :func:`debias.rows.shift.shift_of`, the mean over all splits on a feature is tested as if there were one tree.
    Rows of one period may be alike, so that their number counts for less: numbers of rows are divided by the design
    effect, which is the variance of the shares between periods over that of independent rows. This is known if a
    window has 8 periods or more.
    """
    from scipy.stats import chi2, f

    n_groups, split = len(grouping.names), ensemble.splits
    group, left = grouping.index[ensemble.feature[split]], ensemble.children[:, 0]
    design, freedom_between = _design_effects(ensemble, grouping, windows)
    counts = []
    for window, effect in zip(windows, design, strict=True):
        rows_a_weight = window.weight.sum() / window.squared_weight / effect[group]
        counts += [window.total.n[split] * rows_a_weight, window.total.n[left] * rows_a_weight]
    used, squared_z, squared_w = compare_shares(*counts)
    at, tree = group[used], ensemble.tree_of_split[used]
    n_splits = np.bincount(at, minlength=n_groups)
    n_trees = np.bincount(np.unique(np.stack([at, tree]), axis=1)[0], minlength=n_groups)
    one_tree = freedom = np.maximum(_ratio(n_splits, n_trees), 1.0)
    statistic = _ratio(np.bincount(at, squared_z, n_groups), n_trees)
    if freedom_between:
        # A part of the deviations is shared by the rows of a period, and may move all splits on a feature together.
        alone = 1 / np.maximum(*design)
        freedom = 1 / (alone * (2 - alone) / freedom + (1 - alone) ** 2)
        tail = f.sf(_ratio(statistic, one_tree), freedom, freedom_between)
    else:
        tail = chi2.sf(statistic, freedom)
    testable = n_splits > 0
    p_value = np.where(testable, tail, 1.0)
    # As in `shift_of`, a split counts by the rows in question that reach it, here the recent ones.
    n_here = counts[2][used]
    squared_size = _ratio(np.bincount(at, squared_w * n_here, n_groups), np.bincount(at, n_here, n_groups))
    size = np.where(testable, np.sqrt(np.maximum(squared_size, 0)), np.nan)
    worst = _worst(at, squared_w * n_here, n_groups)
    known = worst >= 0
    number = np.flatnonzero(used)[worst] if known.any() else np.zeros(n_groups, dtype=np.int64)
    shares, at_worst = np.full((len(windows), n_groups), np.nan), number[known]
    for of_window, window in zip(shares, windows, strict=True):  # without splits in the model all stay missing
        of_window[known] = _ratio(window.total.n[left[at_worst]], window.total.n[split[at_worst]])
    p_adjusted = holm_of_known(np.where(testable, p_value, np.nan))
    made_of = tuple(grouping.names[k] for k in grouping.index)
    told = ensemble if made_of == ensemble.feature_names else ensemble.with_sources(made_of)
    return {
        "used": np.bincount(group, minlength=n_groups) > 0,
        "shift": size,
        "shift_p_value": np.where(testable, p_value, np.nan),
        "shift_p_adjusted": np.where(testable, p_adjusted, np.nan),
        "shifted": (p_adjusted <= level) & (size >= SMALLEST_SHIFT),
        "shift_split": tuple(
            in_words(told, int(split[k])) if is_known else "" for k, is_known in zip(number, known, strict=True)
        ),
        "left_before": shares[0],
        "left_after": shares[1],
    }


def _worst(group: NDArray[np.int64], size: Array, n_groups: int) -> NDArray[np.int64]:
    """Return the position of the largest entry of each group; -1 for groups without any."""
    order = np.lexsort((size, group))
    worst = np.full(n_groups, -1)
    worst[group[order]] = order  # the last entry of a group stays, which is the largest
    return worst


def _design_effects(
    ensemble: TreeEnsemble, grouping: Grouping, windows: tuple[_Window, _Window]
) -> tuple[list[Array], float]:
    """Return the design effects, 1 or more, of each group of features in each window, and their degrees of freedom.

    The latter are 0 if no window has enough periods.
    """
    split, left = ensemble.splits, ensemble.children[:, 0]
    group = grouping.index[ensemble.feature[split]]
    effects, freedom = [], 0.0
    for window in windows:
        if not window.has_enough:
            effects.append(np.ones(len(grouping.names)))
            continue
        n, n_left = window.total.n[split], window.total.n[left]
        share = _ratio(n_left, n)
        # Where a group has no rows the square is 0 too: the limit only avoids a division by 0.
        squares = sum(
            (sums.n[left] - share * sums.n[split]) ** 2 / np.maximum(sums.n[split], 1e-300) for sums in window.groups
        )
        usual = n > 0
        # Weighted by the rows of the split, so that small nodes, which give rough ratios, count for little.
        observed = np.bincount(group[usual], (squares * n)[usual], len(grouping.names))
        n_groups = sum((sums.n[split] > 0).astype(float) for sums in window.groups)
        per_row = window.squared_weight / window.weight.sum()
        # Of independent rows: the shares of n groups vary about their mean with n - 1 degrees of freedom.
        expected = share * (1 - share) * np.maximum(n_groups - 1, 0) * per_row
        expected_by_group = np.bincount(group[usual], (expected * n)[usual], len(grouping.names))
        effects.append(np.maximum(np.where(expected_by_group > 0, _ratio(observed, expected_by_group), 1.0), 1.0))
        freedom += len(window.groups) - 1
    enough = [window.has_enough for window in windows]
    if sum(enough) == 1:
        known, other = enough.index(True), enough.index(False)
        rows_each = [window.weight.sum() * window.squared_share for window in windows]
        # What rows of a period share enlarges the variance in proportion to the number of rows in a period.
        effects[other] = 1 + (effects[known] - 1) * rows_each[other] / rows_each[known]
    return effects, freedom


def largest_share(grouping: Grouping, share: Array) -> Array:
    """Return the largest share of the columns of each group."""
    largest = np.zeros(len(grouping.names))
    np.maximum.at(largest, grouping.index, share)
    return largest


def _ratio(numerator: Any, denominator: Any) -> Array:
    """Return a ratio, and 0 where the denominator is 0 or NaN."""
    numerator, denominator = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (numerator, denominator)))
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=np.abs(denominator) > 0)


def check_settings(alpha: float, least: float, looks: int | str) -> None:
    """Raise a CompositionError if a setting of a comparison is out of range."""
    numbers = (int, float, np.integer, np.floating)
    if isinstance(alpha, bool) or not isinstance(alpha, numbers) or not 0 < alpha < 1:
        raise CompositionError(f"the error rate must be between 0 and 1, not {alpha!r}")
    if isinstance(least, bool) or not isinstance(least, numbers) or not 0 <= least < np.inf:
        raise CompositionError(f"least must be 0 or more, and finite, not {least!r}")
    if isinstance(looks, bool) or not isinstance(looks, (int, np.integer)) or looks < 1:
        raise CompositionError(f"looks must be a whole number, 1 or more, or 'any' in a history, not {looks!r}")


def _warnings(
    windows: tuple[_Window, _Window],
    errors: _Errors,
    found: _Estimates,
    little: Flags,
    alike: Flags,
    names: tuple[str, ...],
    looks: int,
) -> list[str]:
    """Return what the tests do not cover."""
    texts = []
    if little.any():
        named = listed([escaped(name) for name, is_little in zip(names, little, strict=True) if is_little], MOST_NAMED)
        texts.append(
            f"the change of {named} was not tested: less than {LITTLE_COVERED:.0%} of what the splits on "
            f"{'it' if little.sum() == 1 else 'them'} tell is in rows that can be compared, those in leaves that rows "
            "of both windows reach"
        )
    of_periods = alike & ~little
    if of_periods.any():
        named = listed([escaped(name) for name, is_one in zip(names, of_periods, strict=True) if is_one], MOST_NAMED)
        texts.append(
            f"the change of {named} was not tested: "
            f"{'this column is' if of_periods.sum() == 1 else 'these columns are'} nearly the same for all rows of a "
            f"period, and fewer than {ENOUGH_PERIODS} recent periods do not tell a change of "
            f"{'it' if of_periods.sum() == 1 else 'them'} from one of whole periods"
        )
    if errors.method == "within periods":
        texts.append(
            f"standard errors are from differences within the periods ({windows[0].n_periods} before, "
            f"{windows[1].n_periods} after): days that differ as a whole look like a change. From {ENOUGH_PERIODS} "
            "periods on, differences between periods are used"
        )
        tested = np.isfinite(errors.response)
        if not tested.any():
            texts.append(
                "nothing was tested: so few rows, or batches that differ, do not show how much scores vary. Add more "
                "periods, or more rows"
            )
        elif not tested.all():
            texts.append(
                f"the change of {counted(int((~tested).sum()), 'feature')} was not tested: fewer than {ENOUGH_ROWS} "
                "rows count at the splits, or the column is the same for all rows of a period. More periods show how "
                "much the score varies"
            )
    elif errors.method == "between periods of one window":
        texts.append(
            f"one window has fewer than {ENOUGH_PERIODS} periods: periods are taken to vary as in the other window"
        )
    if found.overlap < LITTLE_OVERLAP:
        texts.append(
            f"only {found.overlap:.0%} of the rows are in leaves that have rows of both windows: longer windows can be "
            "compared better"
        )
    if looks == 1:
        texts.append(ONE_LOOK)
    return texts
