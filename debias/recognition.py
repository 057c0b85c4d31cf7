"""Are these rows the training rows in another order, or a part of them? Told from leaf counts alone.

A model that stores how many training rows each leaf holds recognises them whatever their order. Let a leaf hold n of
the D training rows its tree was grown on, and c of the m rows in question. For fresh rows c and n are independent
counts about the same unknown leaf mass; for rows from the training set they are the same rows. With e = m n / D,
r = m / D, and g the share of the training set that is among the rows in question, Pearson's dispersion of c about e
has expectation, to first order,

    E sum (c - e)^2 / e / (leaves - 1) = 1 + k r - 2 k g - (1 - k) g^2 / r,

k being the mean of 1 - 1 / (2 n) over leaves: a leaf with boundaries midway between training rows has a mass that
varies like the sum of n - 1 whole spacings and two halves. So g is read off the dispersion, and the share of the rows
that are training rows is g n_train / m. This needs no response, and no assumption on how well the model predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from debias.routing import block_size, route

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble
    from debias.response import Response
    from debias.table import Table

TREES_AT_MOST = 30
ROUNDS_AT_MOST = 10
"""Of a booster that stores sums of hessians: later ones rest on the few rows that are not yet fitted."""
THRESHOLD = 0.4
"""Value of g / r from which rows count as largely training rows; nothing but training rows have D / n_train or more."""
FALSE_ALARM = 0.05
"""Probability, at most, with which fresh rows may look as little dispersed; alarm needs THRESHOLD as well."""


@dataclass(frozen=True)
class Recognition:
    """What leaf counts say about rows.

    Parameters
    ----------
    exact : bool
        Every leaf of the trees looked at holds just its training rows (at least those, for bagged trees, where fresh
        rows would leave some short).
    share : float or None
        Estimated share of the rows that are training rows (the least it can be, if the model does not say how many it
        had); None if the model stores no usable counts.
    grown_share : float
        g / r: estimated share of the rows that an average tree was grown on.
    present : float
        g: estimated share of the training set that is among the rows.
    n_grown : float
        Number of rows an average tree was grown on.
    p_fresh : float
        Probability of a dispersion as low under fresh rows.
    power : float
        Probability that a mere subset of the training rows of this size would have been recognised.
    """

    exact: bool
    share: float | None
    grown_share: float
    present: float
    n_grown: float
    p_fresh: float
    power: float

    @property
    def suspicious(self) -> bool:
        """Whether the rows look like training rows, be it by chance."""
        return self.grown_share > THRESHOLD

    @property
    def largely_training(self) -> bool:
        """Whether the rows are the training set, or largely part of it."""
        return self.exact or (self.suspicious and self.p_fresh < FALSE_ALARM)


UNKNOWN = Recognition(exact=False, share=None, grown_share=0.0, present=0.0, n_grown=0.0, p_fresh=1.0, power=0.0)


def recognise(ensemble: TreeEnsemble, table: Table, response: Response) -> Recognition:
    """Look for the training rows among the rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        Rows in question, columns in the model's order.
    response : Response
        Not looked at; gives the margins' base its type.

    Returns
    -------
    Recognition
    """
    trees = _sample(ensemble)
    counted = _leaf_counts(ensemble, table, trees)
    if counted is None:
        return UNKNOWN
    leaves, found, stored = counted
    usable = [j for j in range(trees.size) if stored[j].size > 1]
    if not usable or table.n_rows == 0:
        return UNKNOWN
    n_rows = np.mean([found[j].sum() for j in usable])
    n_grown = np.mean([stored[j].sum() for j in usable])
    n_train = max(float(n_grown), float(ensemble.n_train or 0))
    r = n_rows / n_grown
    dispersion = float(np.mean([_dispersion(found[j], stored[j]) for j in usable]))
    kappa = float(np.mean([np.mean(1 - 0.5 / np.maximum(stored[j], 1)) for j in usable]))
    below = 1 + kappa * r - dispersion
    grown_share = below / (kappa + np.sqrt(max(0.0, kappa**2 + (1 - kappa) * below / r))) / r
    freedom = _effective_freedom(leaves, [found[j].size for j in usable], usable)
    return Recognition(
        exact=_all_there(ensemble, found, stored, usable, n_rows, n_grown),
        share=float(np.clip(grown_share * n_train / n_grown, 0.0, 1.0)),
        grown_share=grown_share,
        present=grown_share * r,
        n_grown=float(n_grown),
        p_fresh=_chi2_cdf(dispersion / (1 + kappa * r), freedom),
        power=_power(r, kappa, min(1.0, n_rows / n_train), freedom),
    )


def _sample(ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return trees spread over the ensemble; the first ones where covers depend on the margin before the tree."""
    if ensemble.count is None and ensemble.objective.name != "squared_error":
        return np.arange(min(ensemble.n_trees, ROUNDS_AT_MOST * ensemble.n_outputs))
    n = min(TREES_AT_MOST, ensemble.n_trees)
    return np.unique(np.linspace(0, ensemble.n_trees - 1, n).astype(np.int64))


def _leaf_counts(
    ensemble: TreeEnsemble, table: Table, trees: NDArray[np.int64]
) -> tuple[NDArray[np.int32], list[NDArray[np.float64]], list[NDArray[np.float64]]] | None:
    """Return leaf ids, and for each tree the rows found and the training rows stored in each leaf.

    Where the library stores sums of hessians instead of counts, both are hessian sums, in units of a typical row.
    """
    if ensemble.count is None and (ensemble.cover is None or ensemble.averaged):
        return None
    leaves = np.empty((trees.size, table.n_rows), dtype=np.int32).T
    step = block_size(trees.size)
    for begin in range(0, table.n_rows, step):
        rows = slice(begin, begin + step)
        leaves[rows] = route(ensemble, table.matrix(ensemble, rows), trees=trees)
    found, stored = [], []
    margin = np.tile(ensemble.base, (table.n_rows, 1))
    for j, tree in enumerate(trees):
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        leaf = np.flatnonzero(ensemble.left[nodes] < 0)
        at = leaves[:, j]
        if ensemble.count is not None:
            found.append(np.bincount(at, minlength=leaf[-1] + 1)[leaf].astype(np.float64))
            stored.append(ensemble.count[nodes][leaf].astype(np.float64))
            continue
        assert ensemble.cover is not None
        if tree % ensemble.n_outputs == 0:
            before = ensemble.objective.curvature(margin)
        h = before[:, ensemble.tree_output[tree]]
        unit = (h @ h) / h.sum() * _curvature_factor(ensemble)
        found.append(np.bincount(at, weights=h, minlength=leaf[-1] + 1)[leaf] * _curvature_factor(ensemble) / unit)
        stored.append(ensemble.cover[nodes][leaf] / unit)
        margin[:, ensemble.tree_output[tree]] += ensemble.value[nodes][at, 0]
    return leaves, found, stored


def _curvature_factor(ensemble: TreeEnsemble) -> float:
    return 2.0 if ensemble.objective.name == "softmax" else 1.0  # XGBoost's hessian of softmax is 2 p (1 - p)


def _dispersion(found: NDArray[np.float64], stored: NDArray[np.float64]) -> float:
    expected = stored * (found.sum() / stored.sum())
    some = expected > 0
    return float((((found - expected) ** 2)[some] / expected[some]).sum() / (some.sum() - 1)) if some.sum() > 1 else 1.0


def _all_there(
    ensemble: TreeEnsemble,
    found: list[NDArray[np.float64]],
    stored: list[NDArray[np.float64]],
    usable: list[int],
    n_rows: float,
    n_grown: float,
) -> bool:
    """Whether every leaf holds its training rows, and fresh rows would hardly have managed that."""
    if all(np.allclose(found[j], stored[j], rtol=1e-4, atol=1e-3) for j in usable):
        return sum(stored[j].size for j in usable) > 2 * len(usable)  # stumps may agree by chance
    if not ensemble.averaged or any((found[j] < stored[j]).any() for j in usable):
        return False
    from scipy.stats import nbinom

    # Fresh counts given a leaf that holds n of n_grown: negative binomial. Trees repeat one another, so one counts.
    chance = n_grown / (n_grown + n_rows)
    log_p = [np.sum(nbinom.logsf(stored[j] - 1, np.maximum(stored[j], 1), chance)) for j in usable]
    return bool(np.mean(log_p) < np.log(0.01))


def _effective_freedom(leaves: NDArray[np.int32], sizes: list[int], usable: list[int], n_pairs: int = 45) -> float:
    """Return the degrees of freedom of the mean dispersion over trees that see the same rows.

    Two trees' Pearson sums have covariance 2 phi^2, phi^2 being the contingency of their leaves (its chance part
    taken off). Pairs of trees with too many leaves to cross are counted as if one repeated the other.
    """
    n_trees, n_rows = len(usable), leaves.shape[0]
    own = float(np.mean([1 / (size - 1) for size in sizes]))
    if n_trees == 1:
        return 1 / own
    pairs = list(combinations(range(n_trees), 2))
    shared = []
    for a, b in pairs[:: max(1, len(pairs) // n_pairs)]:
        freedom = (sizes[a] - 1) * (sizes[b] - 1)
        if freedom > 250_000:
            shared.append(1 / (min(sizes[a], sizes[b]) - 1))
            continue
        phi2 = _contingency(leaves[:, usable[a]], leaves[:, usable[b]]) - freedom / n_rows
        shared.append(min(max(phi2, 0.0) / freedom, 1 / (min(sizes[a], sizes[b]) - 1)))
    return 1 / (own / n_trees + float(np.mean(shared)) * (1 - 1 / n_trees))


def _contingency(a: NDArray[np.int32], b: NDArray[np.int32]) -> float:
    """Return phi^2 = chi^2 / n of two partitions of the same rows."""
    _, code_a = np.unique(a, return_inverse=True)
    _, code_b = np.unique(b, return_inverse=True)
    table = np.bincount(code_a * (code_b.max() + 1) + code_b, minlength=(code_a.max() + 1) * (code_b.max() + 1))
    joint = table.reshape(code_a.max() + 1, code_b.max() + 1) / a.size
    chance = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return float(np.sum(joint**2 / chance)) - 1


def _chi2_cdf(ratio: float, freedom: float) -> float:
    from scipy.stats import chi2

    return float(chi2.cdf(ratio * freedom, freedom))


def _power(r: float, kappa: float, present: float, freedom: float) -> float:
    from scipy.stats import chi2

    limit = chi2.ppf(FALSE_ALARM, freedom) * (1 + kappa * r)
    expected = 1 + kappa * r - 2 * kappa * present - (1 - kappa) * present**2 / r
    return float(chi2.cdf(limit / max(expected, 1e-3), freedom))
