"""Are these rows the training rows in another order, or a part of them? Told from leaf counts alone.

A model that stores how many training rows each leaf holds recognises them whatever their order. Let a leaf hold n of
the D training rows its tree was grown on, and c of the m rows in question. For fresh rows c and n are independent
counts about the same unknown leaf mass; for rows from the training set they are the same rows. With e = m n / D,
r = m / D, and g the share of the training set that is among the rows in question, Pearson's dispersion of c about e
has expectation, to first order,

    E sum (c - e)^2 / e / (leaves - 1) = 1 + k r - 2 k g - (1 - k) g^2 / r,

k being the mean of 1 - 1 / (2 n) over leaves: a leaf with boundaries midway between training rows has a mass that
varies like the sum of n - 1 whole spacings and two halves. So g is read off the dispersion, and the share of the rows
that are training rows is g n_train / m. This assumes nothing of how well the model predicts, but that fresh rows are
drawn independently of the training rows. A stratified split is not: it gives every class its share. So dispersion is
taken among the leaves that speak for one class, with as many degrees of freedom less.

Where rows repeat, as with categories only, all trees tell of the same few counts, and the probability that fresh rows
look like training rows is the nominal one. Rows that share all their leaves are such repetitions: where each has
three or more, rows are refused at a smaller probability, unless no leaf has fewer rows than in training. So they are
where there are many more of them than training rows: a small share of training rows is enough to refuse them then.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from debias.rows.leaf_counts import LeafCounts, count_leaves
from debias.rows.shift import Shift, shift_of

if TYPE_CHECKING:
    from debias.data.response import Response
    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble

THRESHOLD = 0.4
"""Value of g / r from which rows count as largely training rows, if there are no more of them than a tree was grown on;
with more rows it falls in proportion, as g / r of the whole training set does."""
FALSE_ALARM = 0.05
"""Probability, at most, with which fresh rows may look as little dispersed; alarm needs THRESHOLD as well."""
LOW_FALSE_ALARM = 0.01
"""The same of doubtful rows, see `Recognition`, and of many."""
MANY_ROWS = 1.5
"""Number of rows, per training row, from which the same holds: the threshold of g / r is so low then that it refuses
hardly fewer fresh rows than the probability does (5 % of four times as many fresh as training rows at 0.05)."""
FEW_ROWS = 0.4
"""Number of rows, per row a tree was grown on, below which the overlap of trees is not estimated."""
MIXED = "what the model stores of its training rows mixes their number with weights, labels or the response"
ROWS_TO_COMPARE = 5000
"""Of more rows so many, evenly spaced, show whether they repeat: then there are few different ones."""
ROWS_AT_LEAST = 20
"""With fewer rows there is no telling."""


@dataclass(frozen=True)
class Recognition:
    """What leaf counts say about rows.

    Parameters
    ----------
    exact : bool
        All training rows are there: every leaf of the trees looked at holds just its training rows, or at least those
        where fresh rows would leave some short.
    share : float or None
        Estimated share of the rows that are training rows (the least it can be, if the model does not say how many it
        had); None if the model stores no usable counts.
    grown_share : float
        g / r: estimated share of the rows that an average tree was grown on.
    present : float
        g: estimated share of the training set that is among the rows.
    n_rows, n_grown : float
        Number of rows, and of rows an average tree was grown on.
    p_fresh : float
        Probability of a dispersion as low under fresh rows, by a chi-square approximation.
    power : float
        Probability that a mere subset of the training rows of this size would have been recognised.
    agrees : bool
        Every leaf holds just its training rows, be it that the trees are stumps and this may be chance.
    doubtful : bool
        Some leaf has fewer rows than in training, and either each row shares all its leaves with three others or more,
        on average, or one tree has more leaves than there are rows: `p_fresh` is too small then.
    false_alarm : float
        Value of `p_fresh` below which rows are refused, however small the share of training rows among them.
    untold : str or None
        Why nothing could be told of any number of rows but whether they are all training rows; None if it can.
    shift : Shift or None
        How the rows differ from the training rows at the splits; None if that cannot be told.
    """

    exact: bool
    share: float | None
    grown_share: float
    present: float
    n_rows: float
    n_grown: float
    p_fresh: float
    power: float
    agrees: bool = False
    doubtful: bool = False
    false_alarm: float = FALSE_ALARM
    untold: str | None = None
    shift: Shift | None = None

    @property
    def suspicious(self) -> bool:
        """Whether the rows look like training rows, be it by chance."""
        return self.share is not None and self.grown_share > THRESHOLD * min(1.0, self.n_grown / self.n_rows)

    @property
    def largely_training(self) -> bool:
        """Whether the rows are the training set, or largely part of it."""
        if self.exact or not self.suspicious:
            return self.exact
        mostly = not self.doubtful and self.share is not None and self.share > THRESHOLD
        return self.p_fresh < (FALSE_ALARM if mostly else self.false_alarm)


def recognise(ensemble: TreeEnsemble, table: Table, response: Response) -> Recognition:
    """Look for the training rows among the rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        Rows in question, columns in the model's order.
    response : Response

    Returns
    -------
    Recognition
    """
    return recognised(ensemble, count_leaves(ensemble, table, response), table.n_rows)


def recognised(ensemble: TreeEnsemble, counted: list[LeafCounts], n_rows_in_all: int) -> Recognition:
    """Look for the training rows among so many rows by what was counted in the leaves."""
    if not counted:
        return _untold(False, "the model stores no numbers of training rows in its leaves")
    exact = _all_there(ensemble, counted)
    if not ensemble.uniform_rows:
        return _untold(exact, MIXED)
    shift = shift_of(ensemble, counted)
    told = [pooled for tree in counted if (pooled := tree.pooled).freedom > 0]
    if not told:
        return _untold(exact, "the trees have too few leaves", shift)
    if n_rows_in_all < ROWS_AT_LEAST:
        return _untold(exact, None, shift)
    n_rows = float(np.mean([tree.found.sum() for tree in told]))
    n_grown = float(np.mean([tree.stored.sum() for tree in told]))
    n_train = max(n_grown, float(ensemble.n_train or 0))
    r = n_rows / n_grown
    dispersion = float(np.mean([_dispersion(tree) for tree in told]))
    kappa = float(np.mean([np.mean(1 - 0.5 / np.maximum(tree.stored, 1)) for tree in told]))
    below = 1 + kappa * r - dispersion
    grown_share = below / (kappa + np.sqrt(max(0.0, kappa**2 + (1 - kappa) * below / r))) / r
    freedom = _effective_freedom(told)
    doubtful = (_mostly_repeated(told) or _sparse(told)) and _short_somewhere(counted)
    false_alarm = LOW_FALSE_ALARM if doubtful or n_rows > MANY_ROWS * n_train else FALSE_ALARM
    return Recognition(
        exact=exact,
        share=float(np.clip(grown_share * n_train / n_grown, 0.0, 1.0)),
        grown_share=float(grown_share),
        present=float(grown_share * r),
        n_rows=n_rows,
        n_grown=n_grown,
        p_fresh=_chi2_cdf(dispersion / (1 + kappa * r), freedom),
        power=_power(r, kappa, min(1.0, n_rows / n_train), freedom, false_alarm),
        agrees=_all_agree(counted),
        doubtful=doubtful,
        false_alarm=false_alarm,
        shift=shift,
    )


def _untold(exact: bool, why: str | None, shift: Shift | None = None) -> Recognition:
    return Recognition(
        exact=exact,
        share=None,
        grown_share=0.0,
        present=0.0,
        n_rows=1.0,
        n_grown=1.0,
        p_fresh=1.0,
        power=0.0,
        untold=why,
        shift=shift,
    )


def _dispersion(tree: LeafCounts) -> float:
    """Return Pearson's sum over its degrees of freedom, expectations taken within each class's leaves."""
    found, stored = np.bincount(tree.group, tree.found), np.bincount(tree.group, tree.stored)
    expected = tree.stored * (found / np.maximum(stored, 1e-300))[tree.group]
    some = expected > 0
    return float(((tree.found - expected) ** 2)[some] @ (1 / expected[some])) / tree.freedom


def _all_there(ensemble: TreeEnsemble, counted: list[LeafCounts]) -> bool:
    """Whether every leaf holds its training rows, or at least those, and fresh rows would hardly have managed that."""
    n_rows = float(np.mean([tree.found.sum() for tree in counted]))
    n_grown = float(np.mean([tree.stored.sum() for tree in counted]))
    if _all_agree(counted):
        # One stump may agree by chance, and so may all that split alike.
        return any(tree.stored.size > 2 for tree in counted) or len({tuple(tree.stored) for tree in counted}) > 2
    if _short_somewhere(counted):
        return False
    from scipy.stats import nbinom

    # Fresh counts given a leaf that holds n of n_grown: negative binomial. Trees repeat one another, so three count.
    chance = n_grown / (n_grown + n_rows)
    log_p = [np.sum(nbinom.logsf(tree.stored - 1, np.maximum(tree.stored, 1), chance)) for tree in counted]
    return bool(np.mean(log_p) * min(len(log_p), 3) < np.log(0.01))


def _short_somewhere(counted: list[LeafCounts]) -> bool:
    """Whether a leaf has fewer rows than it held in training: then not all training rows are there."""
    return any((tree.found < tree.stored * (1 - 1e-4) - 1e-3).any() for tree in counted)


def _all_agree(counted: list[LeafCounts]) -> bool:
    return all(np.allclose(tree.found, tree.stored, rtol=1e-4, atol=1e-3) for tree in counted)


def _mostly_repeated(counted: list[LeafCounts]) -> bool:
    """Whether each row shares all its leaves with three others or more, on average."""
    some = slice(None, None, -(-counted[0].at.size // ROWS_TO_COMPARE) or 1)
    mixed = np.zeros(counted[0].at[some].size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for tree in counted:
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + tree.at[some].astype(np.uint64) + np.uint64(1)
    return 4 * np.unique(mixed).size < mixed.size


def _sparse(counted: list[LeafCounts]) -> bool:
    """Whether one tree has more leaves than there are rows: most are empty then, and chi-square is a poor law."""
    return len(counted) == 1 and counted[0].stored.size > counted[0].found.sum()


def _effective_freedom(counted: list[LeafCounts], n_pairs: int = 45) -> float:
    """Return the degrees of freedom of the mean dispersion over trees that see the same rows.

    Two trees' Pearson sums have covariance 2 phi^2, phi^2 being the contingency of their leaves within classes (its
    chance part taken off). Where that cannot be seen, trees are counted as if they repeated one another: with too many
    leaves to cross, and with few rows.
    Small expected counts make the sums vary more than chi-square.
    """
    from debias.rows.kernels import leaf_counts as leaf_kernels

    n_trees, n_rows = len(counted), counted[0].at.size
    excess = [_excess_variance(tree) for tree in counted]
    own = float(np.mean([each / tree.freedom for each, tree in zip(excess, counted, strict=True)]))
    if n_trees == 1:
        return 1 / own
    # Few rows leave most pairs of leaves empty and hide the overlap.
    few = n_rows < FEW_ROWS * np.mean([tree.stored.sum() for tree in counted])
    pairs = list(combinations(range(n_trees), 2))
    shared = []
    for j, k in pairs[:: max(1, len(pairs) // n_pairs)]:
        a, b = counted[j], counted[k]
        most = max(excess[j], excess[k]) / min(a.freedom, b.freedom)
        if few or a.group.size * b.group.size > 250_000:
            shared.append(most)
            continue
        phi2 = leaf_kernels.overlap(a.at, b.at, a.group, b.group) - a.freedom * b.freedom / n_rows
        shared.append(min(max(phi2, 0.0) / (a.freedom * b.freedom) * excess[j], most))
    return 1 / (own / n_trees + float(np.mean(shared)) * (1 - 1 / n_trees))


def _excess_variance(tree: LeafCounts) -> float:
    """Return the variance of Pearson's sum over that of chi-square: 1 + sum(1 / p) / m for m rows, to first order."""
    share = tree.stored / tree.stored.sum()
    n_leaves, n_rows = share.size, max(tree.found.sum(), 1.0)
    extra = (np.sum(1 / share) - n_leaves**2 - 2 * n_leaves + 2) / n_rows
    return float(max(1.0, (1 - 1 / n_rows) + extra / (2 * max(n_leaves - 1, 1))))


def _chi2_cdf(ratio: float, freedom: float) -> float:
    from scipy.stats import chi2

    return float(chi2.cdf(ratio * freedom, freedom))


def _power(r: float, kappa: float, present: float, freedom: float, false_alarm: float) -> float:
    from scipy.stats import chi2

    # Alarm takes both a small p and a share beyond the threshold.
    least = THRESHOLD * min(1.0, 1 / r) * r
    at_threshold = 1 + kappa * r - 2 * kappa * least - (1 - kappa) * least**2 / r
    limit = min(chi2.ppf(false_alarm, freedom) * (1 + kappa * r), at_threshold * freedom)
    expected = 1 + kappa * r - 2 * kappa * present - (1 - kappa) * present**2 / r
    return float(chi2.cdf(limit / max(expected, 1e-3), freedom))
