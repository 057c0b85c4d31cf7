"""Which features made the loss rise, and how: step by step, with rows of both windows that were kept.

A feature whose values are broken takes its correlated neighbours with it, because Shapley values share what they do.
The next feature is named only if it costs more also compared with reference rows in which the features named so far are
broken too, and also if the response to those features, and its level, had stayed as they were. The first one is named
only if it costs more also if the level had stayed.

Over 500 lines: the steps and the kinds compare the same windows, broken and mended.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from itertools import permutations, product
from operator import eq
from typing import TYPE_CHECKING

import numpy as np

from debias.p_values import holm
from debias.results.loss_change import MOST_CAUSES, LossCause
from debias.results.vocabulary import LossKind
from debias.rows.dependent_columns import categorical_columns
from debias.rows.loss_parts import Line
from debias.significance.additive_functions import functions_of, standardised
from debias.significance.kept_windows import KeptWindow, losses_of, sums_of
from debias.significance.links import IDENTITY, LINKS, LOG, LOGIT, fitted_coefficients
from debias.significance.loss_change import PeriodLosses, estimates, two_sided
from debias.significance.other_rows import OtherRows, p_of_all_rows
from debias.trees.mean_slopes import mean_slope, y_as_predicted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.results.loss_change import LossChange
    from debias.significance.links import Link
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

MOST_TRIED = 5
"""At most so many features are tried as the first cause, and beside a cause, those with the largest costs."""
MOST_TOGETHER = 3
"""At most so many causes are tried together: of each the values or the response."""
SEED = 0
"""Of the values that stand for broken ones."""
MOST_FUNCTIONS = 6
"""At most so many functions of a column describe the response to it, beside its Shapley values."""
ROWS_PER_FUNCTION = 20
"""So many rows of the smaller window for each of them, and for each other feature that is fitted beside them."""
WITH_LINK = ("logistic", "softmax", "poisson", "gamma", "tweedie")
"""Objectives with a link whose slope is linear in the response. A class is taken beside all others."""
WITH_SHIFT = ("absolute_error", "quantile", "expectile", "huber", "pseudo_huber", "fair")
"""Objectives whose slope depends on the difference of response and output, and is not linear in it."""
MAY_HAVE_MOVED = 0.25
"""A feature must cost more than the level explains, unless the p-value of a move of the level is larger than this: few
rows of a rare class show little of it."""
EXPLAINED_TO = 0.03
"""What the steps leave of the cost of a neighbour is at most about this part of what the causes so far cost, because
functions of their columns describe the response nearly, not fully. The next cause must cost more than this. If nothing
reproduces all parts, it is told what alone reproduces them up to this."""
LEAST_SPREAD, FAR = 1e-9, 3.0
"""A function varies if its standard deviation is above this part of its largest value; it is far from 0 if its mean is
more than so many standard deviations."""
LEAST_SHARE = 0.001
"""A probability is taken as at least this, and at most 1 less this, where its log odds are needed."""
RIDGE = 1.0
"""Penalty of the square of the change that a standard deviation of a function makes; so coefficients stay finite."""
KINDS = {
    (True, False, False): LossKind.VALUES,
    (False, True, False): LossKind.EFFECT,
    (True, True, False): LossKind.EITHER,
    (False, False, True): LossKind.ROWS,
    (True, False, True): LossKind.ROWS_OR_VALUES,
    (False, True, True): LossKind.UNKNOWN,
    (True, True, True): LossKind.UNKNOWN,
    (False, False, False): LossKind.NEITHER,
}
"""What is said if other values of a feature, another response to it, and other rows each explain all parts, or not.
That only other rows do is said only if the response is shown to follow the feature."""


def with_causes(
    change: LossChange, ensemble: TreeEnsemble, grouping: Grouping, before: KeptWindow, after: KeptWindow
) -> LossChange:
    """Return a change of the loss with the features that are its causes, and how.

    Parameters
    ----------
    change : LossChange
    ensemble : TreeEnsemble
        The trees of the model itself.
    grouping : Grouping
    before, after : KeptWindow
        Rows of the two windows.
    """
    steps = Steps.of(change, ensemble, grouping, before, after)
    found, partly = steps.found()
    return replace(
        change,
        causes=steps.causes(found, partly),
        no_causes_because=None,
        partly_explained=tuple(change.feature_names[k] for k in partly),
        level_moved=steps.level_moved,
    )


class Steps:
    """The search for the causes of one change.

    Parameters
    ----------
    used : array of bool of shape (n_features,)
        The features that are tested.
    level : float
        Largest adjusted p-value of a difference.
    ensemble, grouping, before, after
        As for :func:`with_causes`.
    change : LossChange, optional
        That of all rows, whose causes are searched. It is not known before the responses.
    recent : Line, optional
        Of the rows of `after`, if it is known.
    """

    def __init__(
        self,
        used: NDArray[np.bool_],
        level: float,
        ensemble: TreeEnsemble,
        grouping: Grouping,
        before: KeptWindow,
        after: KeptWindow,
        change: LossChange | None = None,
        recent: Line | None = None,
    ) -> None:
        self._used, self._level, self._ensemble, self._grouping = used, level, ensemble, grouping
        self._change, self._windows, self._categorical = change, (before, after), categorical_columns(ensemble)
        self._lines = Line.of(ensemble, before.rows), recent or Line.of(ensemble, after.rows)
        self.losses = losses_of(before, self._lines[0]), losses_of(after, self._lines[1])
        rng = np.random.default_rng(SEED)
        share = after.weight / after.weight.sum()
        # One draw for each feature, so that a feature is broken in the same way at each step, wherever its columns are.
        of_names = {
            name: (rng.choice(share.size, before.weight.size, p=share), rng.random(before.weight.size))
            for name in sorted(grouping.names)
        }
        self.drawn, self.lots = zip(*map(of_names.__getitem__, grouping.names), strict=True)
        self._causes: dict[tuple[int, bool, tuple[int, ...]], LossCause] = {}
        self._of_each: dict[int, list[tuple[PeriodLosses, PeriodLosses]]] = {}

    @classmethod
    def of(
        cls, change: LossChange, ensemble: TreeEnsemble, grouping: Grouping, before: KeptWindow, after: KeptWindow
    ) -> Steps:
        """Return the search for the causes of a change of the loss."""
        used = np.isfinite(change.statistics["p_adjusted"])
        return cls(used, change.level, ensemble, grouping, before, after, change)

    def found(self) -> tuple[list[int], list[int]]:
        """Return the features that cost more, none of them explained by those before it; and others explained in part.

        The first is the one with the largest cost of those that alone reproduce all parts, or nearly all: if a weak
        feature is broken, a strong one that goes along with it may cost more. If there is none, it is the one with the
        largest cost. Each next one has the largest cost that those before it leave, more than `EXPLAINED_TO` of what
        they cost.
        """
        assert self._change is not None
        tested, level, statistics = self._used, self._level, self._change.statistics
        open_, found, partly = statistics["p_adjusted"] <= level, list[int](), list[int]()
        left = cost = statistics["cost"]
        ranked = np.argsort(-cost, kind="stable")
        most_beside = min(window.weight.size for window in self._windows) // ROWS_PER_FUNCTION
        while open_.any() and len(found) < MOST_CAUSES:
            worst = worst_of_any = np.where(tested, statistics["p_value"], 1.0)
            pairs = [self.broken(found)] if found else []
            if found or min(self._p_of_level, self._p_of_spread) <= MAY_HAVE_MOVED:
                pairs.append(self.mended(found, ranked[open_[ranked]][:most_beside].tolist()))
            for pair in pairs:
                (p, of_any), more = self._more(pair, EXPLAINED_TO * cost[found].sum())
                worst_of_any = np.maximum(worst_of_any, np.where(np.isnan(of_any), 1.0, of_any))
                left = np.minimum(left, more) if found else left
                at_least = np.where(np.isnan(p), 1.0, p)
                # The level is no reason why a feature costs more whose own values moved.
                worst = np.maximum(worst, at_least if found else np.where(self._same_rows, at_least, 0.0))
            n_left = tested.sum() - len(found)
            passed = open_ & (worst * n_left <= level)
            if not passed.any():
                partly = np.flatnonzero(open_ & (worst_of_any * n_left <= level)).tolist() if found else []
                break
            by_cost = [k for k in np.argsort(-left, kind="stable").tolist() if passed[k]]
            tried = () if found else product([False, True], by_cost[:MOST_TRIED])
            alone = (k for nearly, k in tried if self._is_alone(self.cause(k, nearly=nearly)))
            found.append(next(alone, by_cost[0]))
            open_[found[-1]] = False
        return found, partly

    def causes(self, found: list[int], partly: list[int]) -> tuple[LossCause, ...]:
        """Return the causes with their kinds: what reproduces all parts, alone or together.

        If nothing does, it is what alone reproduces them nearly, but for the parts of those that are explained in part.
        With many rows, small differences between the windows, beside a large one, are beyond chance too. Several
        together must reproduce the parts: with a margin for these, two reversed columns are like two changed effects.
        """
        causes = self._together_or_alone(found, nearly=False)
        if any(cause.kind is not LossKind.NEITHER for cause in causes):
            return causes
        nearly = self._together_or_alone(found, nearly=True, but_for=tuple(partly))
        told = (LossKind.VALUES, LossKind.EFFECT)  # under drift, both may explain the costs nearly, and neither is true
        return tuple(near if near.kind in told else cause for cause, near in zip(causes, nearly, strict=True))

    def _together_or_alone(
        self, found: list[int], *, nearly: bool, but_for: tuple[int, ...] = ()
    ) -> tuple[LossCause, ...]:
        """Return the causes; of a few that nothing explains alone, what explains all parts together.

        Each may have broken values, or a response that changed. What is said of it is what it has in all combinations
        that reproduce all parts. A feature whose values the response follows, as it does under drift, is not taken to
        be broken. But it may be in a part of the rows, so that a changed response is never all that is said of it. If
        all of them may be, in a part of the rows, it is not told what changed of those that are not broken otherwise:
        weaker effects are like this.
        """
        causes = tuple(self.cause(k, nearly=nearly, but_for=but_for) for k in found)
        kinds = {cause.kind for cause in causes}
        if not 2 <= len(found) <= MOST_TOGETHER or not kinds <= {LossKind.NEITHER, LossKind.EFFECT, LossKind.EITHER}:
            return causes
        smallest_p = partial(self._smallest_p, but_for=but_for)
        largest = np.array([[cause.p_values, cause.p_effect] for cause in causes])
        nothing_alone = kinds == {LossKind.NEITHER}
        of_each = ([False] if cause.followed else [True, False] for cause in causes)
        for of_values in product(*of_each) if nothing_alone else ():
            broken = [k for k, is_broken in zip(found, of_values, strict=True) if is_broken]
            pairs = self._together(broken, [k for k in found if k not in broken])
            p = max(map(smallest_p, pairs))
            for row, cause, is_broken in zip(largest, causes, of_values, strict=True):
                holds = is_broken or bool(cause.followed), not is_broken  # broken in a part of the rows is not tried
                row[:] = np.where(holds, np.maximum(row, p), row)
        largest[:, 0] = np.maximum(largest[:, 0], max(map(smallest_p, self._in_other_places(found)), default=0.0))
        intact = largest[:, 0] <= self._level
        if intact.any():
            largest[intact] = np.maximum(largest[intact], max(map(smallest_p, self._partly_together(found))))
        rows = any(map(self.other_rows.may_explain, found))
        return tuple(self._with_p(cause, p, rows=rows) for cause, p in zip(causes, largest.tolist(), strict=True))

    def _with_p(self, cause: LossCause, p: list[float], *, rows: bool) -> LossCause:
        """Return a cause with p-values of what several explain together, if these tell something else of it."""
        alone, together = ([each > self._level for each in of] for of in ((cause.p_values, cause.p_effect), p))
        kind = KINDS[together[0], together[1], rows]
        return cause if together == alone else replace(cause, kind=kind, p_values=p[0], p_effect=p[1])

    def _together(self, broken: list[int], changed: list[int]) -> Iterator[tuple[PeriodLosses, PeriodLosses]]:
        """Yield the reference with some broken, and the recent window if the response to the others had stayed.

        The values of several may each be those of another row, or all of one other row, as after a join by a wrong key.
        """
        if not broken:
            yield self.mended(changed, [])
            return
        before, after = self._windows
        for of_one_row in (False, True)[: len(broken)]:
            X = self._broken_values(broken, of_one_row=of_one_row)
            if changed:
                windows = replace(before, rows=replace(before.rows, X=X)), after
                of_model = self._ensemble, self._grouping
                yield Steps(self._used, self._level, *of_model, *windows, recent=self._lines[1]).mended(changed, [])
            else:
                yield self._with_reference(X), self.losses[1]

    def _partly_together(self, features: list[int]) -> Iterator[tuple[PeriodLosses, PeriodLosses]]:
        """Yield the reference with features broken in a part of the rows, and the recent window.

        Each in a part of its own, with values of rows of its own; or all in one part, with values of one other row.
        """
        for of_one_row in (False, True):
            yield self.partly_broken(features, self.broken(features, of_one_row=of_one_row), of_one_row=of_one_row)

    def _in_other_places(self, features: list[int]) -> Iterator[tuple[PeriodLosses, PeriodLosses]]:
        """Yield the reference with each of these columns in the place of another one, and the recent window."""
        before = self._windows[0].rows.X
        columns = [np.flatnonzero(self._grouping.index == feature) for feature in features]
        at = np.concatenate(columns)
        if at.size == len(features) and not self._categorical[at].any():
            for order in permutations(at.tolist()):
                if not any(map(eq, order, at.tolist())):
                    X = before.copy()
                    X[:, at] = before[:, order]
                    yield self._with_reference(X), self.losses[1]

    def _is_alone(self, cause: LossCause) -> bool:
        """Return whether the feature alone reproduces all parts."""
        return max(cause.p_values, cause.p_effect) > self._level

    def cause(self, feature: int, *, nearly: bool = False, but_for: tuple[int, ...] = ()) -> LossCause:
        """Return whether a feature alone reproduces all parts: by its values, or by the response to it.

        Parameters
        ----------
        feature : int
        nearly : bool
            Whether parts may differ by `EXPLAINED_TO` of what the feature costs.
        but_for : tuple of int
            Features whose parts may differ.
        """
        asked = feature, nearly, but_for
        if asked not in self._causes:
            self._causes[asked] = self._cause(*asked)
        return self._causes[asked]

    def _cause(self, feature: int, nearly: bool, but_for: tuple[int, ...]) -> LossCause:
        assert self._change is not None
        margin = EXPLAINED_TO * float(self._change.statistics["cost"][feature]) if nearly else 0.0
        smallest_p = partial(self._smallest_p, margin=margin, but_for=but_for)
        if feature not in self._of_each:
            broken = self.broken([feature])
            partly_broken, mended = self.partly_broken([feature], broken), self.mended([feature], [])
            self._of_each[feature] = [broken, self.moved(feature), partly_broken, mended]
        of_all_rows, moved, in_part, effect = map(smallest_p, self._of_each[feature])
        in_all, level, rows = max(of_all_rows, moved), self._level, self.other_rows
        if nearly and in_all <= level < in_part:
            effect = max(effect, in_part)  # a weaker effect beside a drift is like values that are broken in a part
        elif in_all <= level < in_part:  # and so are several weaker effects
            for other in self._costliest(feature):
                effect = max(effect, smallest_p(self.mended([feature, other], []))) if effect <= level else effect
        of_each = max(in_all, in_part), effect
        if nearly and effect <= level < of_each[0] and self.moved_columns()[feature] <= level:
            # The values moved, as those of a broken column or under drift: then the parts by the rows tell nothing.
            of_each = of_each[0], max(effect, smallest_p(self._of_each[feature][3], by_response=True))
        kind = KINDS[of_each[0] > level, of_each[1] > level, rows.may_explain(feature)]
        followed = rows.is_followed(feature)
        kind = LossKind.NEITHER if kind is LossKind.ROWS and not followed else kind
        return LossCause(self._grouping.names[feature], kind, *of_each, rows.p_value, followed)

    def _costliest(self, beside: int) -> list[int]:
        """Return the other features that cost more, those with the largest costs, `MOST_TRIED` at most."""
        assert self._change is not None
        statistics = self._change.statistics
        ranked = np.argsort(-statistics["cost"], kind="stable").tolist()
        return [k for k in ranked if k != beside and statistics["p_adjusted"][k] <= self._level][:MOST_TRIED]

    def _smallest_p(
        self,
        pair: tuple[PeriodLosses, PeriodLosses],
        *,
        margin: float = 0.0,
        but_for: tuple[int, ...] = (),
        by_response: bool = False,
    ) -> float:
        """Return the smallest adjusted p-value that a part of a feature that is used differs by more than a margin.

        The parts of the features `but_for` may differ, and the parts by the rows if only those `by_response` count.
        """
        p = self._p_values(pair, margin)[0].reshape(2, -1)[by_response:, ~np.isin(np.flatnonzero(self._used), but_for)]
        return float(holm(p[np.isfinite(p)]).min(initial=1.0))

    @cached_property
    def other_rows(self) -> OtherRows:
        """The hypothesis that other rows alone explain all parts."""
        assert self._change is not None
        ends = tuple(line.ends for line in self._lines)
        of_unexpected = self._shift(tuple(each.unexpected_loss() for each in ends))[1]
        p_value = min(p_of_all_rows(self._change, ends[1]), of_unexpected)
        return OtherRows(self._ensemble, self._grouping, self._used, *self._windows, ends[1], p_value)

    def reproduced(self, feature: int | None = None) -> float:
        """Return the smallest adjusted p-value of a difference of the parts by the rows, which need no responses.

        Of the recent window against the reference, as it is or with a feature broken: its values at random, or in the
        order of its own, whichever is less different.
        """
        pairs = [self.losses] if feature is None else [self.broken([feature]), self.moved(feature)]
        smallest = []
        for pair in pairs:
            p = self._p_values(pair)[0][: self._used.sum()]
            smallest.append(float(holm(p[np.isfinite(p)]).min(initial=1.0)))
        return max(smallest)

    def moved_columns(self) -> Array:
        """Return an adjusted p-value for each feature that its values moved, whatever goes together with it.

        Of the mean and the mean square of their ranks among the values of the reference; Holm over features and both.
        NaN for features that are not tested.
        """
        before, after = self._windows
        ranked = []
        for window in (before, after):
            ranks = np.empty_like(window.rows.X)
            for k, column in enumerate(before.rows.X.T):
                known = np.sort(column)
                sides = [np.searchsorted(known, window.rows.X[:, k], side) for side in ("left", "right")]
                ranks[:, k] = (sides[0] + sides[1]) / (2 * known.size) - 0.5
            ranked.append(sums_of(window, np.hstack([ranks, ranks**2])))
        p = self._p_values((ranked[0], ranked[1]))[1][: 2 * self._used.size].reshape(2, -1)
        known_p = np.isfinite(p) & self._used
        p[known_p] = holm(p[known_p])
        return np.where(self._used, np.fmin(p[0], p[1]), np.nan)

    def broken(self, features: list[int], *, of_one_row: bool = False) -> tuple[PeriodLosses, PeriodLosses]:
        """Return the reference with these features broken, and the recent window."""
        return self._with_reference(self._broken_values(features, of_one_row=of_one_row)), self.losses[1]

    def _broken_values(self, features: list[int], parts: Array | None = None, *, of_one_row: bool = False) -> Array:
        """Return the rows of the reference with recent values in these features, drawn at random, in parts of them."""
        before, after = self._windows
        X = before.rows.X.copy()
        for k, feature in enumerate(features):
            draw = features[0] if of_one_row else feature
            some = np.flatnonzero(self.lots[draw] < (1.0 if parts is None else parts[k]))
            columns = np.flatnonzero(self._grouping.index == feature)
            X[np.ix_(some, columns)] = after.rows.X[np.ix_(self.drawn[draw][some], columns)]
        return X

    def partly_broken(
        self, features: list[int], broken: tuple[PeriodLosses, PeriodLosses], *, of_one_row: bool = False
    ) -> tuple[PeriodLosses, PeriodLosses]:
        """Return the reference with features broken in a part of the rows, and the recent window.

        As after a join that gives some rows the values of others, which is like a weaker effect. The part is such that
        a feature costs as much as in the recent window; all together, if the values are those of one row.

        Parameters
        ----------
        features : list of int
        broken : (PeriodLosses, PeriodLosses)
            The windows with the features broken in all rows of the reference.
        of_one_row : bool
            Whether the values of all features are those of one other row, in the same part of the rows.
        """
        (intact, recent), (in_all, _) = (
            [mean[2 + np.array(features)] for mean in estimates(pair, self._grouping)[0]]
            for pair in (self.losses, broken)
        )
        if of_one_row:
            intact, recent, in_all = (np.repeat(cost.sum(), len(features)) for cost in (intact, recent, in_all))
        parts = np.divide(recent - intact, in_all - intact, out=np.zeros(len(features)), where=in_all != intact)
        return self._with_reference(self._broken_values(features, parts, of_one_row=of_one_row)), self.losses[1]

    def moved(self, feature: int) -> tuple[PeriodLosses, PeriodLosses]:
        """Return the reference with the recent values of a feature in the order of its own, and the recent window.

        So it keeps what goes together with it, as after a change of its unit. Values are exchanged at equal quantiles.
        """
        before, after = self._windows
        X = before.rows.X.copy()
        for column in np.flatnonzero(self._grouping.index == feature):
            own, recent = (np.argsort(window.rows.X[:, column], kind="stable") for window in (before, after))
            at = [np.cumsum(w[order]) / w.sum() for w, order in ((before.weight, own), (after.weight, recent))]
            middle = at[0] - before.weight[own] / before.weight.sum() / 2
            place = np.minimum(np.searchsorted(at[1], middle), recent.size - 1)
            X[own, column] = after.rows.X[recent[place], column]
        return self._with_reference(X), self.losses[1]

    def _with_reference(self, X: Array) -> PeriodLosses:
        before = self._windows[0]
        return losses_of(before, Line.of(self._ensemble, replace(before.rows, X=X)))

    def mended(self, features: list[int], beside: list[int]) -> tuple[PeriodLosses, PeriodLosses]:
        """Return the reference, and the recent window if the level and the response to these features had stayed.

        Shapley values alone do not describe the response: neighbours have a part of those of a feature, so what they
        leave out would be blamed on the neighbours. Features `beside` keep the change of the response to them.
        """
        recent, functions = self._lines[1], self._functions(features)
        excess = np.empty_like(recent.slope)
        for output in range(excess.shape[1]):
            phi = np.vstack([self._grouping.sum_columns(line.phi[:, :, output]) for line in self._lines])
            own = np.column_stack([phi[:, features], functions])
            excess[:, output] = self._excess(own, phi[:, beside], output)
        if self._has_shift:
            ends, measure = recent.ends, recent.ends.measure
            residual = _with_spread_of(self._residuals[0], self._residuals[1] - excess, self._windows)
            as_before = mean_slope(measure.objective, ends.last + residual, ends.first, ends.last)
            excess = recent.slope - measure.factor * as_before
        return self.losses[0], losses_of(self._windows[1], recent, recent.saved(excess))

    @property
    def _has_shift(self) -> bool:
        return self._ensemble.objective.name in WITH_SHIFT

    @cached_property
    def _residuals(self) -> tuple[Array, Array]:
        """What the responses of both windows are above the outputs, each of shape (n_rows, n_outputs)."""
        of_both = [line.ends.measure.target - line.ends.last for line in self._lines]
        return of_both[0], of_both[1]

    def _excess(self, own: Array, others: Array, output: int) -> Array:
        """Return by how much the means of recent responses are above what they were before, by functions of features.

        On the scale of the slope of the loss, or of the response if the objective is `WITH_SHIFT`, shape
        (n_recent_rows,).

        Parameters
        ----------
        own : array of shape (n_rows, n_functions)
            Functions of the features, of the rows of both windows, beside which there is 1. Their units do not matter.
        others : array of shape (n_rows, n_others)
            Functions of others, whose change stays.
        output : int
        """
        y, offset, unit, link = self._responses[output]
        ones = np.ones(len(own))
        own, others = standardised(own, ones), _in_standard_units(others)
        design = np.column_stack([ones, own, others])
        ridge = np.repeat([0.0, RIDGE], [1, design.shape[1] - 1])
        slopes = []
        for number in range(2):
            share = np.concatenate([w.weight / w.weight.mean() * (k == number) for k, w in enumerate(self._windows)])
            slopes.append(fitted_coefficients(design, y, share, offset, ridge, link)[0])
        window, n_own = self._windows[1], 1 + own.shape[1]
        at = slice(-window.weight.size, None)
        now = offset[at] + design[at] @ slopes[1]
        as_before = now - design[at, :n_own] @ (slopes[1] - slopes[0])[:n_own]
        return np.asarray(unit[at] * (link.mean(now) - link.mean(as_before)), dtype=np.float64)

    @cached_property
    def _responses(self) -> list[tuple[Array, Array, Array, Link]]:
        """The response of the rows of both windows, and what the model predicts, for a regression with a link.

        For each output three arrays of shape (n_rows,): the response; its predictor by the model; and what the slope of
        the loss grows by for each unit of the response. For losses without a link the response is the surprise itself.
        """
        ends = [line.ends for line in self._lines]
        surprise = np.vstack([each.slope - each.expected for each in ends])
        measure, is_share = ends[0].measure, self._ensemble.averaged and self._ensemble.is_classifier
        if self._has_shift:
            return [(each, np.zeros(each.size), np.ones(each.size), IDENTITY) for each in np.vstack(self._residuals).T]
        if not is_share and measure.objective.name not in WITH_LINK:
            return [(each, np.zeros(each.size), np.ones(each.size), IDENTITY) for each in surprise.T]
        link = LOGIT if is_share else LINKS[measure.objective.name]
        expected = [y_as_predicted(measure.objective, each.last) for each in ends]
        for_one_more = [
            mean_slope(measure.objective, mean + 1, each.first, each.last) * measure.factor - each.expected
            for mean, each in zip(expected, ends, strict=True)
        ]
        unit, mean = np.vstack(for_one_more), np.vstack(expected) + (measure.centre if is_share else 0.0)
        y = mean + surprise / unit
        if link is LOG:  # whatever the unit of the response
            scale = y.mean(axis=0)
            scale[scale == 0] = 1.0
            y, mean, unit = y / scale, mean / scale, unit * scale
        else:
            mean = np.clip(mean, LEAST_SHARE, 1 - LEAST_SHARE)
        offset = link.predictor(mean)
        return [(y[:, k], offset[:, k], unit[:, k], link) for k in range(y.shape[1])]

    @cached_property
    def level_moved(self) -> bool:
        """Whether the mean response moved, and in the same direction against the predictions.

        If only the predictions moved, a column may be broken.
        """
        return self._p_of_level <= self._level

    @cached_property
    def _p_of_level(self) -> float:
        """The smallest adjusted p-value over outputs that the mean response moved like this."""
        n_outputs, smallest = self._ensemble.n_outputs, 1.0
        for output in range(n_outputs):
            shifts = [
                self._shift(tuple(values[:, output] for values in of_both))
                for of_both in ([line.surprise for line in self._lines], [window.rows.y for window in self._windows])
            ]
            if shifts[0][0] * shifts[1][0] > 0:
                smallest = min(smallest, n_outputs * max(p for _, p in shifts))
        return smallest

    @cached_property
    def _p_of_spread(self) -> float:
        """The smallest adjusted p-value over outputs that residuals vary more or less; 1 if this explains no cost."""
        if not self._has_shift:
            return 1.0
        apart = [
            np.abs(residual - np.average(residual, axis=0, weights=window.weight))
            for window, residual in zip(self._windows, self._residuals, strict=True)
        ]
        p = [self._shift((apart[0][:, k], apart[1][:, k]))[1] for k in range(self._ensemble.n_outputs)]
        return len(p) * min(p)

    def _shift(self, values: tuple[Array, ...]) -> tuple[float, float]:
        """Return the difference of the means of two windows, and its two-sided p-value; 1 if it is not known."""
        n_columns = 2 * self._grouping.index.size
        pair = [
            sums_of(window, np.repeat(-of_window[:, None], n_columns, axis=1))  # all are alike
            for window, of_window in zip(self._windows, values, strict=True)
        ]
        means, _, _ = estimates((pair[0], pair[1]), self._grouping)
        p = float(self._p_values((pair[0], pair[1]))[1][0])
        return float((means[1] - means[0])[2]), 1.0 if np.isnan(p) else p

    @cached_property
    def _same_rows(self) -> NDArray[np.bool_]:
        """Which features have parts by the rows that do not differ, shape (n_features,)."""
        n_used = int(self._used.sum())
        p = self._p_values(self.losses)[0][:n_used]
        same = ~self._used
        same[self._used] = ~(holm(np.where(np.isnan(p), 1.0, p)) <= self._level)
        return same

    def _functions(self, features: list[int]) -> Array:
        """Return functions of the columns of features, for the rows of both windows."""
        columns = np.flatnonzero(np.isin(self._grouping.index, features))
        n_rows = [window.weight.size for window in self._windows]
        most = min(MOST_FUNCTIONS, min(n_rows) // (ROWS_PER_FUNCTION * max(columns.size, 1)))
        found = [np.empty((sum(n_rows), 0))]
        for column in columns if most > 0 else ():
            before, after = (window.rows.X[:, column] for window in self._windows)
            values, is_category = np.concatenate([before, after]), bool(self._categorical[column])
            if not is_category:
                # A slope that is known from one window says nothing about values that only the other one has.
                low = np.maximum(np.fmin.reduce(before), np.fmin.reduce(after))
                high = np.minimum(np.fmax.reduce(before), np.fmax.reduce(after))
                if not low < high:
                    continue
                values = np.clip(values, low, high)
            found.append(functions_of(values, is_category, most))
        return np.hstack(found)

    def _more(self, pair: tuple[PeriodLosses, PeriodLosses], margin: float) -> tuple[Array, Array]:
        """Return p-values that features cost more by more than a margin, and at all; and by how much they cost more."""
        from scipy.special import stdtr

        of_features = slice(2, 2 + len(self._grouping.names))
        means, variance, freedom = estimates(pair, self._grouping)
        more = (means[1] - means[0])[of_features]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (more - np.array([[margin], [0.0]])) / np.sqrt(variance[of_features])
        return np.asarray(stdtr(freedom[of_features], -t), dtype=np.float64), more

    def _p_values(self, pair: tuple[PeriodLosses, PeriodLosses], margin: float = 0.0) -> tuple[Array, Array]:
        """Return p-values that a part of each feature that is used, by rows or response, differs by more than a margin.

        The second are those of any difference of the costs, the parts by rows and the parts by response, of all.
        """
        means, variance, freedom = estimates(pair, self._grouping)
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.maximum(np.abs(means[1] - means[0]) - margin, 0.0)
            differ = two_sided(beyond / np.sqrt(variance), freedom)
        return differ[2 + len(self._grouping.names) :][np.tile(self._used, 2)], differ[2:]


def _with_spread_of(before: Array, after: Array, windows: tuple[KeptWindow, KeptWindow]) -> Array:
    """Return recent residuals with the mean absolute deviation of those before; shape (n_recent_rows, n_outputs)."""
    means, spreads = [], []
    for residual, window in zip((before, after), windows, strict=True):
        means.append(np.average(residual, axis=0, weights=window.weight))
        spreads.append(np.average(np.abs(residual - means[-1]), axis=0, weights=window.weight))
    factor = np.divide(spreads[0], spreads[1], out=np.ones_like(spreads[0]), where=spreads[1] > 0)
    found: Array = means[1] + factor * (after - means[1])
    return found


def _in_standard_units(functions: Array) -> Array:
    """Return the functions that vary, divided by their standard deviations.

    They keep their mean: if the response to a function with another mean than 0 changed, the level moved for this
    reason. If it is far from 0 beside how much the function varies, it is left out: it is hardly told from a level.
    """
    mean, spread = functions.mean(axis=0), functions.std(axis=0)
    varies = spread > LEAST_SPREAD * np.abs(functions).max(axis=0, initial=0.0)
    far = np.abs(mean) > FAR * spread
    found: Array = (functions - np.where(far, mean, 0.0))[:, varies] / spread[varies]
    return found
