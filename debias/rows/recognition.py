"""Recognition of training rows from leaf counts: the training rows in another order, or a part of them.

:func:`recognise` is the entry point. :mod:`debias.rows.provenance` decides from its result what to refuse and what to
warn of.

The method needs a model that stores how many training rows each leaf holds; the order of the rows does not matter. Let
a leaf hold n of the D training rows of its tree, and c of the m rows in question. For fresh rows, c and n are
independent counts with the same unknown leaf mass. For rows from the training set, they count the same rows. Let
e = m n / D, r = m / D, and let g be the share of the training set that is among the rows in question. To first order,
Pearson's dispersion of c about e has the expectation

    E sum (c - e)^2 / e / (leaves - 1) = 1 + k r - 2 k g - (1 - k) g^2 / r.

Here k is the mean of 1 - 1 / (2 n) over leaves: the boundaries of a leaf lie midway between training rows, so its mass
varies like a sum of n - 1 spacings between rows and two half spacings. The observed dispersion gives an estimate of g,
and the share of the rows that are training rows is g n_train / m. The estimate does not depend on how well the model
predicts. It assumes that fresh rows are drawn independently of the training rows. In a stratified split they are not,
because every class has a fixed share. Therefore the dispersion is taken among the leaves of each class, with one degree
of freedom less for each class.

A booster whose training was continued on other rows has trees of both. So its halves and quarters are looked at too,
and the smallest probability is multiplied by the number of looks (`_at_level`). Sums of hessians tell how many training
rows a tree had only in the first rounds. Later they are small for rows that are fitted, and too few rows would be told.
So later trees count as grown on at least as many rows as the first.

Rows count as training rows by evidence only: by the probability that fresh rows have so small a dispersion, beyond all
looks, and by the lower confidence limit of the share. They count as rows that the model has not seen by evidence, too:
by the upper confidence limit. With few rows or few leaves neither is known.

Over 500 lines, because the estimate, its limits and what they rest on are one method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, islice, repeat
from typing import TYPE_CHECKING

import numpy as np

from debias.data.table import RoutedTable, route_table
from debias.positions import evenly_spaced
from debias.rows.leaf_counts import LeafCounts, count_leaves, curvatures, first_trees, holds_hessians, looks, of_trees
from debias.rows.shared_rows import row_digests
from debias.rows.shift import Shift, shift_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.rows.shared_pass import SharedPass
    from debias.trees.ensemble import TreeEnsemble

EVIDENCE = 0.05
"""Rows look like training rows if fresh rows would have so small a dispersion with a smaller probability. The
probability is an upper bound: about 1 % of fresh sets have a smaller one, see docs/rows.md."""
CERTAIN = 0.01
"""The same for rows that are refused, and one minus the confidence of the smallest share of training rows."""
MANY = 0.2
"""Rows are refused if at least this share of them are training rows, with confidence. Fewer give a warning: the bias of
scores is in proportion to the share."""
FEW = 0.3
"""Rows are taken for rows that the model has not seen only if at most this share of them may be training rows."""
SAFE = 0.05
"""One minus the confidence of the largest share of training rows."""
LARGEST_K = 1.3
"""Largest k of real models. It is larger than that of spacings where splits are at the edges of a node or at random:
fresh rows then have a larger dispersion, which hides training rows. On 31 real data sets its mean over draws was .56 to
1.28 for forests and boosted trees, with two exceptions up to 1.9; up to 1.85 for single trees."""
WHOLE_AND_HALVES = 3
"""The first looks at a model."""
OF_THE_WHOLE = 0.5
"""Part of the level that is used for the model as a whole; the rest is for its halves and quarters."""
LEAVES_A_ROW = 5
"""If two trees have more pairs of leaves for each row, the overlap of trees is estimated from pairs of rows."""
LEAVES_TO_CROSS = 250_000
"""The same if two trees have more pairs of leaves."""
ROWS_TO_PAIR = 500
"""Number of rows whose pairs are looked at, if there are more."""
MIXED = (
    "the row counts that the model stores are mixed with weights, labels or the response, so they are not plain counts"
)
SMOOTHED = (
    "the sums of hessians that it stores are not counts of rows. XGBoost 3.4 grows trees for the absolute error and "
    "for quantiles with hessians that depend on all training rows together, so only all training rows at once, without "
    "weights, can be recognised"
)
NO_SPLITS = "no tree of the model has a split, so every feature has a score of 0"
UNKNOWN = "the model does not store how many training rows its leaves hold"
SUMS = (
    "its leaves hold sums of hessians, which are not numbers of rows: the model was trained with weights, or with a "
    "loss for which a row does not count as 1"
)
FEW_COUNTS = 5
"""With fewer degrees of freedom, as of stumps with the same split, counts agree by chance with some probability."""
SPARE_LEAVES = 2
"""Number of leaves in addition to the classes that a tree needs at least to recognise class weights."""
ROWS_TO_COMPARE = 5000
"""Number of evenly spaced rows that show whether rows repeat, if there are more."""
TOO_LARGE = 0.001
"""With a smaller probability of so large a dispersion for `LARGEST_K`, there is no upper limit of the share."""
ROUGH = 0.25
"""Standard deviation of the log of the sum of hessians at a root, times the square root of the number of rows. From
this value on, rows were drawn for each tree. On 7 real data sets it was at most .19 if all rows were used, and .31 to
1.8 if a share of .7 or .5 was; a share of .9 may not be seen, and changes the limit little."""
ROWS_AT_LEAST = 20
"""With fewer rows nothing is estimated."""


@dataclass(frozen=True)
class Recognition:
    """What the leaf counts say about rows.

    Parameters
    ----------
    exact : bool
        Whether all training rows are there: every leaf of the compared trees holds exactly as many rows as in training;
        or at least as many, where fresh rows would leave some leaf with fewer.
    share : float or None
        Estimated share of the rows that are training rows; None if the model stores no usable counts.
    at_least : float
        Lower confidence limit of the share, at the level `CERTAIN` for all looks together.
    at_most : float
        Largest upper confidence limit of the share, at the level `SAFE`, of the model as a whole, of its halves and of
        `trees`.
    p_fresh : float
        Probability that fresh rows have so small a dispersion at any look, by a chi-square approximation.
    trees : (int, int) or None
        First and last tree of the part of the model that the share was estimated from; None for the model as a whole.
    grown_share : float
        g / r: estimated share of the rows that an average tree was grown on; of the model as a whole.
    present : float
        g: estimated share of the training set that is among the rows; of the model as a whole.
    n_rows, n_grown : float
        Number of rows, and number of rows an average tree was grown on.
    sampling_known : bool
        Whether the share of the training rows in the sample of a tree is known. If not, `share` and `at_least` are of
        the rows of one tree, so that they are lower bounds, and `at_most` is 1.
    power : float
        Probability that a subset of the training rows of this size would look like training rows.
    agrees : bool
        Whether every leaf holds exactly as many rows as in training. For stumps this may be chance.
    unknown_because : str or None
        Why the share of training rows cannot be estimated (only whether all of them are training rows); None if it can.
    shift : Shift or None
        How the rows differ from the training rows at the splits; None if this is not known.
    """

    exact: bool
    share: float | None
    at_least: float
    at_most: float
    p_fresh: float
    trees: tuple[int, int] | None
    grown_share: float
    present: float
    n_rows: float
    n_grown: float
    power: float
    sampling_known: bool = True
    agrees: bool = False
    unknown_because: str | None = None
    shift: Shift | None = None

    @property
    def suspicious(self) -> bool:
        """Whether some of the rows look like training rows."""
        return self.share is not None and self.p_fresh < EVIDENCE

    @property
    def mostly_fresh(self) -> bool:
        """Whether most of the rows are certainly no training rows."""
        return self.share is not None and not self.suspicious and self.at_most <= FEW

    @property
    def largely_training(self) -> bool:
        """Whether the rows are the training set, or many of them are certainly rows of it."""
        return self.exact or (self.suspicious and self.p_fresh < CERTAIN and self.at_least > MANY)


def recognise(
    ensemble: TreeEnsemble, table: Table, response: Response, shared: SharedPass | None = None
) -> Recognition:
    """Estimate from leaf counts how many of the rows are training rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        Rows in question, columns in the model's order.
    response : Response
    shared : SharedPass, optional
        The pass of the scores over the same rows.

    Returns
    -------
    Recognition
    """
    counted = count_leaves(ensemble, table, response, shared)
    found = recognised(ensemble, counted, table.n_rows)
    if found.largely_training or not counted:
        return found
    copies, kept = _copies_of_all(ensemble, table, response)
    if copies == 1:
        return found
    once = [replace(tree, reached=tree.reached / copies, at=tree.at[kept]) for tree in counted]
    return recognised(ensemble, once, table.n_rows // copies)


def recognised(
    ensemble: TreeEnsemble, counted: list[LeafCounts], n_rows_in_all: int, with_shift: bool = True
) -> Recognition:
    """Estimate how many of `n_rows_in_all` rows are training rows, from the counts in the leaves of some trees.

    Without `with_shift`, the rows are not compared with the training rows at the splits, and the shift is None.
    """
    whole, *parts = (of_trees(counted, trees) for trees in looks(ensemble)) if counted else [[]]
    exact = bool(whole) and _all_there(whole)
    if ensemble.objective.smoothed:
        return _without_estimate(exact, SMOOTHED)
    if not counted:
        if not ensemble.splits.size:
            return _without_estimate(False, NO_SPLITS)
        holds_sums = ensemble.count is None and ensemble.cover is not None
        return _without_estimate(False, SUMS if holds_sums else UNKNOWN)
    if not ensemble.uniform_rows:
        return _without_estimate(exact, MIXED)
    shift = shift_of(ensemble, whole) if with_shift else None
    of_whole = _Look.of(whole)
    if of_whole is None:
        return _without_estimate(exact, "the trees have too few leaves", shift)
    if n_rows_in_all < ROWS_AT_LEAST:
        return _without_estimate(exact, None, shift)
    # Before late trees, hessians of training rows are smaller than those of other rows, by which their number is told.
    # Too small a number of training rows would make fresh rows look like them.
    n_at_least = of_whole.n_grown if holds_hessians(ensemble) else 0.0
    looked_at = [of_whole, *(look for part in parts if (look := _Look.of(part, n_at_least)) is not None)]
    n_train = _number_of_training_rows(ensemble, whole, of_whole.n_grown)
    sampling_known, n_train = n_train is not None, n_train or of_whole.n_grown
    agrees = _all_agree(whole)
    p_fresh = [_at_level(k, len(looked_at), look.p_fresh()) for k, look in enumerate(looked_at)]
    strongest = int(np.argmin(p_fresh)) if min(p_fresh) < EVIDENCE else 0
    look = looked_at[strongest]
    level = CERTAIN / _at_level(strongest, len(looked_at), 1.0)
    in_training = n_train / of_whole.n_grown
    at_most = max(each.largest_share(SAFE) for each in [look, *looked_at[:WHOLE_AND_HALVES]])
    return Recognition(
        exact=exact,
        share=min(1.0, look.share() * in_training),
        at_least=min(1.0, look.share(level) * in_training),
        at_most=min(1.0, at_most * in_training) if sampling_known else 1.0,
        p_fresh=max(p_fresh[strongest], _chance_of_agreement(whole)) if agrees else min(1.0, p_fresh[strongest]),
        trees=None if strongest == 0 else look.trees,
        grown_share=of_whole.grown_share,
        present=of_whole.grown_share * of_whole.r,
        n_rows=of_whole.n_rows,
        n_grown=of_whole.n_grown,
        power=of_whole.power(min(1.0, of_whole.n_rows / n_train), EVIDENCE / _at_level(0, len(looked_at), 1.0)),
        sampling_known=sampling_known,
        agrees=agrees,
        shift=shift,
    )


def _number_of_training_rows(ensemble: TreeEnsemble, whole: list[LeafCounts], n_grown: float) -> float | None:
    """Return the number of training rows, given how many an average tree was grown on; None if it is not known."""
    if ensemble.n_train is not None:
        return max(n_grown, float(ensemble.n_train))
    share = ensemble.sampled_share
    if share is None or (share == 1 and ensemble.count is None and _roots_vary(ensemble, whole, n_grown)):
        return None
    return n_grown / share


def _roots_vary(ensemble: TreeEnsemble, counted: list[LeafCounts], n_grown: float) -> bool:
    """Whether the sums of hessians at the roots vary from tree to tree as if rows were drawn for each.

    Over the trees of an output, the log of the ratio of these sums to those of the rows in question changes smoothly if
    all trees saw the same rows. If each row was drawn with a probability f, its variance is (1 - f) / f over the number
    of rows. Third differences (with squared coefficients that sum to 20) remove what is smooth.
    """
    ratios: dict[int, list[float]] = {}
    for tree in counted:
        ratios.setdefault(int(ensemble.tree_output[tree.tree]), []).append(
            float(np.log(tree.stored.sum() / tree.reached.sum()))
        )
    squares = [np.diff(ratio, 3) ** 2 / 20 for ratio in ratios.values() if len(ratio) > 3]
    return bool(squares) and float(np.mean(np.concatenate(squares))) * n_grown > ROUGH**2


def _copies_of_all(ensemble: TreeEnsemble, table: Table, response: Response) -> tuple[int, NDArray[np.int64]]:
    """Return how many times all rows are repeated at least, and the positions of the rows without these copies.

    If each row is there twice, the counts in the leaves vary twice as much as those of fresh rows. This would hide that
    they are training rows.
    """
    copies = 0
    for values in (response.codes, response.values if response.target is None else response.target):
        if values is not None and copies != 1:
            values = values.squeeze(1) if values.ndim == 2 and values.shape[1] == 1 else values  # sorted much faster
            copies = np.gcd.reduce(np.unique(values, axis=0, return_counts=True)[1], initial=copies)
    if copies == 1:  # as nearly always: y alone tells
        return 1, np.arange(table.n_rows)
    digests = row_digests(ensemble, table, response)
    copies = int(np.gcd.reduce(np.unique(digests, return_counts=True)[1]))
    return copies, np.sort(np.argsort(digests, kind="stable")[::copies])


def weighted_by_class(ensemble: TreeEnsemble, table: Table, response: Response) -> bool:
    """Whether rows are all training rows of a model that stores sums of hessians and was trained with class weights.

    Before the first tree all rows have the same margin, so the hessian of a row is its weight times a constant. If rows
    of a class have the same weight, the sum of a leaf is a linear function of its numbers of rows of each class. This
    holds at all leaves for the training rows, and hardly ever for other rows.

    Parameters
    ----------
    ensemble, table, response
        As for :func:`recognise`.
    """
    if ensemble.count is not None or ensemble.cover is None or response.margin is not None:
        return False
    if ensemble.averaged or ensemble.objective.name not in ("logistic", "softmax") or response.target is None:
        return False
    nodes = slice(0, int(ensemble.tree_start[1]))
    leaves = np.flatnonzero(ensemble.left[nodes] < 0)
    of_class = response.target if response.target.shape[1] > 1 else np.hstack([1 - response.target, response.target])
    if leaves.size < of_class.shape[1] + SPARE_LEAVES or not np.isin(of_class, (0, 1)).all():
        return False
    at = np.searchsorted(leaves, route_table(ensemble, table, np.zeros(1, dtype=np.int64))[:, 0])
    counts = np.column_stack([np.bincount(at, column, leaves.size) for column in of_class.T])
    weights = np.linalg.lstsq(counts, ensemble.cover[nodes][leaves], rcond=None)[0]
    return bool((weights > 0).all() and np.allclose(counts @ weights, ensemble.cover[nodes][leaves], rtol=1e-5, atol=0))


def weighted_by_row(
    ensemble: TreeEnsemble, table: Table, response: Response, weight: NDArray[np.float64] | None
) -> bool:
    """Whether rows are all training rows of a boosted model that stores sums of weights, and these are their weights.

    Then the cover of every leaf of the first trees is the sum of weight times hessian over its rows (CatBoost: of the
    weights). This hardly ever holds for other rows or other weights.

    Parameters
    ----------
    ensemble, table, response
        As for :func:`recognise`.
    weight : array of shape (n_rows,), or None
    """
    stored = ensemble.cover if ensemble.count is None else ensemble.count
    if weight is None or stored is None or ensemble.averaged or response.target is None:
        return False
    if not ensemble.objective.has_loss or ensemble.objective.smoothed:
        return False
    trees = first_trees(ensemble)
    if ensemble.count is None:
        added = curvatures(ensemble, trees, RoutedTable(ensemble, table), response)
    else:
        added = zip(route_table(ensemble, table, trees).T, repeat(np.ones(table.n_rows)), strict=False)
    n_compared = 0
    for tree, (reached, h) in zip(trees, added, strict=True):
        nodes = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
        leaf = np.flatnonzero(ensemble.left[nodes] < 0)
        sums = np.bincount(reached, weight * h, minlength=nodes.stop - nodes.start)[leaf]
        if not np.allclose(sums, stored[nodes][leaf], rtol=1e-4, atol=1e-4 * sums.max(initial=0.0)):
            return False
        n_compared += leaf.size - 1
    return n_compared >= SPARE_LEAVES


@dataclass(frozen=True)
class _Look:
    """The dispersion of the rows over the leaves of some trees.

    Parameters
    ----------
    trees : (int, int)
        First and last tree.
    n_rows, n_grown : float
        Number of rows, and number of rows an average tree was grown on.
    dispersion : float
        Mean of Pearson's dispersion over the trees.
    kappa : float
        The k of the expectation, see the module.
    freedom : float
        Degrees of freedom of the mean dispersion.
    at_mode : float
        Probability that fresh rows have the expected counts.
    """

    trees: tuple[int, int]
    n_rows: float
    n_grown: float
    dispersion: float
    kappa: float
    freedom: float
    at_mode: float

    @classmethod
    def of(cls, counted: list[LeafCounts], n_at_least: float = 0.0) -> _Look | None:
        """Compare the counts in the leaves of some trees; None if these have too few leaves.

        An average tree was grown on `n_at_least` rows or more.
        """
        usable = [pooled for tree in counted if (pooled := tree.pooled).freedom > 0]
        if not usable:
            return None
        return cls(
            trees=(usable[0].tree, usable[-1].tree),
            n_rows=float(np.mean([tree.n_reached for tree in usable])),
            n_grown=max(n_at_least, float(np.mean([tree.n_stored for tree in usable]))),
            dispersion=float(np.mean([tree.dispersion for tree in usable])),
            kappa=float(np.mean([tree.mean_k for tree in usable])),
            freedom=_effective_freedom(usable),
            at_mode=_chance_of_expected_counts(usable),
        )

    @property
    def r(self) -> float:
        """Number of rows per row that a tree was grown on."""
        return self.n_rows / self.n_grown

    @property
    def of_fresh(self) -> float:
        """Expected dispersion of fresh rows."""
        return 1 + self.kappa * self.r

    @property
    def grown_share(self) -> float:
        """Estimated g / r."""
        return self._share_of(self.dispersion)

    def share(self, level: float | None = None) -> float:
        """Return g / r between 0 and 1, or its lower confidence limit at a level."""
        expected = self.dispersion
        if level is not None:
            expected = self.dispersion * self.freedom / quantile_of_chi2(level, self.freedom)
        return float(np.clip(self._share_of(expected), 0.0, 1.0))

    def largest_share(self, level: float) -> float:
        """Return the upper confidence limit of g / r at a level, for any k from kappa to `LARGEST_K`.

        It is 1 if the dispersion is too large even for `LARGEST_K`. The rows then depend on one another (some repeat,
        or they come in clusters), or come from another distribution: both would hide training rows.
        """
        from scipy.special import chdtrc

        if chdtrc(self.freedom, self.dispersion / (1 + LARGEST_K * self.r) * self.freedom) < TOO_LARGE:
            return 1.0
        expected = self.dispersion * self.freedom / quantile_of_chi2(1 - level, self.freedom)
        shares = [replace(self, kappa=kappa)._share_of(expected) for kappa in (self.kappa, LARGEST_K)]
        return float(np.clip(max(shares), 0.0, 1.0))

    def p_fresh(self) -> float:
        """Return the probability that fresh rows have so small a dispersion."""
        from scipy.special import chdtr

        p = float(chdtr(self.freedom, self.dispersion / self.of_fresh * self.freedom))
        # Few counts are whole numbers, so that fresh rows may have exactly the expected ones.
        return max(p, self.at_mode) if self.freedom < FEW_COUNTS else p

    def power(self, present: float, level: float) -> float:
        """Return the probability that p_fresh is below a level if a share of the training set is among the rows."""
        from scipy.special import chdtr

        expected = self.of_fresh - 2 * self.kappa * present - (1 - self.kappa) * present**2 / self.r
        limit = quantile_of_chi2(level, self.freedom) * self.of_fresh
        return float(chdtr(self.freedom, limit / max(expected, 1e-3)))

    def _share_of(self, expected: float) -> float:
        """Return the share g / r of which a dispersion is the expectation."""
        # The root of (1 - k) r s^2 + 2 k r s = below, in the form that holds for k = 1 too.
        below = self.of_fresh - expected
        return below / (self.kappa + np.sqrt(max(0.0, self.kappa**2 + (1 - self.kappa) * below / self.r))) / self.r


def quantile_of_chi2(level: float, freedom: float) -> float:
    """Return what ``scipy.stats.chi2.ppf`` does, in a hundredth of the time."""
    from scipy.special import gammaincinv

    return 2 * float(gammaincinv(freedom / 2, level))


def _at_level(look: int, n_looks: int, p_value: float) -> float:
    """Return a p-value times the number of looks, of which the first, at the model as a whole, counts for more."""
    if n_looks == 1:
        return p_value
    return p_value / (OF_THE_WHOLE if look == 0 else (1 - OF_THE_WHOLE) / (n_looks - 1))


def _without_estimate(exact: bool, reason: str | None, shift: Shift | None = None) -> Recognition:
    """Return a recognition without an estimate."""
    return Recognition(
        exact=exact,
        share=None,
        at_least=0.0,
        at_most=1.0,
        p_fresh=1.0,
        trees=None,
        grown_share=0.0,
        present=0.0,
        n_rows=1.0,
        n_grown=1.0,
        power=0.0,
        unknown_because=reason,
        shift=shift,
    )


def _all_there(counted: list[LeafCounts]) -> bool:
    """Whether every leaf holds at least as many rows as in training, which is very unlikely for fresh rows."""
    n_rows = float(np.mean([tree.reached.sum() for tree in counted]))
    n_grown = float(np.mean([tree.stored.sum() for tree in counted]))
    if _all_agree(counted):
        return _chance_of_agreement(counted) < CERTAIN
    if short_somewhere(counted):
        return False
    from scipy.stats import nbinom

    # The count of fresh rows in a leaf that holds n of n_grown is negative binomial. Trees repeat one another, so at
    # most three are counted.
    chance = n_grown / (n_grown + n_rows)
    log_p = [np.sum(nbinom.logsf(tree.stored - 1, np.maximum(tree.stored, 1), chance)) for tree in counted]
    return bool(np.mean(log_p) * min(len(log_p), 3) < np.log(CERTAIN))


def short_somewhere(counted: list[LeafCounts]) -> bool:
    """Whether some leaf has fewer rows than in training: then some training rows are missing."""
    return any((tree.reached < tree.stored * (1 - 1e-4) - 1e-3).any() for tree in counted)


def _chance_of_agreement(counted: list[LeafCounts]) -> float:
    """Return the largest probability that as many fresh rows fall into the leaves exactly as the training rows did.

    Their numbers are multinomial, with the largest probability if each leaf has its share of the training rows as mass.
    Trees with the same counts may have the same splits and count once, and at most three trees count. Sums of hessians
    that are not numbers of rows do not agree by chance.
    """
    from scipy.special import gammaln, xlogy

    counts = {tuple(np.round(tree.stored, 3)) for tree in counted}
    if any(number % 1 for stored in counts for number in stored):
        return 0.0
    log_p = []
    for stored in map(np.array, counts):
        n_rows = stored.sum()
        log_p.append(gammaln(n_rows + 1) - gammaln(stored + 1).sum() + xlogy(stored, stored / n_rows).sum())
    return float(np.exp(sum(sorted(log_p)[:3])))


def _chance_of_expected_counts(counted: list[LeafCounts]) -> float:
    """Return the probability that fresh rows fall into the leaves of each class as is expected; of three trees at most.

    It is 0 for sums of hessians, which are no numbers of rows.
    """
    log_p = {}
    for tree in counted:
        if (tree.stored % 1).any():
            return 0.0
        log_p[tree.stored.tobytes()] = tree.log_p_of_expected
    return float(np.exp(sum(sorted(log_p.values())[:3])))


def _all_agree(counted: list[LeafCounts]) -> bool:
    return all(np.allclose(tree.reached, tree.stored, rtol=1e-4, atol=1e-3) for tree in counted)


def _effective_freedom(counted: list[LeafCounts], n_pairs: int = 45) -> float:
    """Return the degrees of freedom of the mean dispersion over trees that see the same rows.

    The Pearson sums of two trees have covariance 2 phi^2, where phi^2 is the contingency of their leaves within classes
    (less its chance part). With few rows, or too many leaves to cross, :func:`_repetition` is used instead. Small
    expected counts make the sums vary more than chi-square.
    """
    from debias.rows.kernels import leaf_counts as leaf_kernels

    n_trees, n_rows = len(counted), counted[0].at.size
    excess = [tree.excess_variance for tree in counted]
    own = float(np.mean([variance / tree.freedom for variance, tree in zip(excess, counted, strict=True)]))
    if n_trees == 1:
        return 1 / own
    every = combinations(zip(counted, excess, strict=True), 2)
    # Evenly spaced among all pairs of trees.
    pairs = list(islice(every, 0, None, max(1, n_trees * (n_trees - 1) // 2 // n_pairs)))
    # Few rows leave most pairs of leaves empty and hide the overlap.
    most_crossed = min(LEAVES_A_ROW * n_rows, LEAVES_TO_CROSS)
    if any(a.group.size * b.group.size > most_crossed for (a, _), (b, _) in pairs):
        return 1 / (own * _repetition(counted))
    shared = []
    for (a, of_a), (b, of_b) in pairs:
        phi2 = leaf_kernels.overlap(a.at, b.at, a.group, b.group) - a.freedom * b.freedom / n_rows
        # A covariance is at most the larger of the two variances.
        most = max(of_a, of_b) / min(a.freedom, b.freedom)
        shared.append(min(max(phi2, 0.0) / (a.freedom * b.freedom) * of_a, most))
    return 1 / (own / n_trees + float(np.mean(shared)) * (1 - 1 / n_trees))


def _repetition(counted: list[LeafCounts]) -> float:
    """Return the variance of the mean of Pearson's sums over trees, in units of the mean variance of one tree.

    Pearson's sum of a tree is a sum over pairs of rows: 1 over the mass of the leaf if both are in one leaf, else 0. So
    is its mean over trees, and the variance of such a sum is in proportion to the sum of the squares of its centred
    terms. It is 1 for trees with the same leaves.
    """
    from scipy.sparse import csr_array

    n_trees, rows = len(counted), evenly_spaced(counted[0].at.size, ROWS_TO_PAIR)
    mass = np.concatenate([tree.stored / tree.stored.sum() * tree.freedom for tree in counted])
    weight = np.divide(1, mass, out=np.zeros_like(mass), where=mass > 0)
    first = np.cumsum([0, *(tree.stored.size for tree in counted)])
    at = np.column_stack([tree.at[rows] + begin for tree, begin in zip(counted, first[:-1], strict=True)])
    beside = np.bincount(at.ravel(), minlength=mass.size)[at] - 1  # other rows in the leaf of each row
    of_row = beside * weight[at]
    squares = sum(_centred(float(s @ w), s) for s, w in zip(of_row.T, weight[at].T, strict=True)) / n_trees
    starts = np.arange(rows.size + 1) * n_trees
    in_leaf = csr_array((np.sqrt(weight)[at].ravel(), at.ravel(), starts), shape=(rows.size, mass.size))
    pairs = in_leaf @ in_leaf.T
    mean = _centred(float((pairs.data**2).sum() - (pairs.diagonal() ** 2).sum()) / n_trees**2, of_row.mean(axis=1))
    return min(1.0, max(mean / squares, 1 / n_trees)) if squares > 0 else 1.0


def _centred(squares: float, of_row: NDArray[np.float64]) -> float:
    """Return the sum of squares off the diagonal of a symmetric matrix, less the means of its rows and columns.

    Given are the sum of squares off the diagonal before, and the sum of each row off the diagonal.
    """
    n = of_row.size
    means = of_row / max(1, n - 1)
    left = squares - 2 * n * float(means @ means) + n * (n + 1) * float(means.mean()) ** 2
    return left if left > 1e-12 * squares else 0.0  # where nothing is left but what was rounded
