"""Detection of shift: a split sends another share of these rows to the left than of the training rows.

Then the rows come from another distribution, or their columns are not those of training. :func:`shift_of` is
the entry point; :mod:`debias.rows.provenance` turns its result into a warning.

A split sends a share p of n training rows to the left. For m fresh rows this share differs from p only by chance, with
variance q (1 - q) (1 / m + 1 / n), where q is the share among all m + n rows. The squared difference
divided by this variance is 1 on average. The part above 1, times (1 / m + 1 / n) q (1 - q) / (a (1 - a)), where a is
the mean of the two shares, is the square of an effect size w that does not depend on the numbers of rows: shares of .5
and .55 have w = .1, shares of .5 and .75 have w = .52, shares of 0 and 1 have w = 2, the largest value. (With q instead
of a, w would grow like sqrt(m / n) if all rows went to a side that few training rows went to.)

If fewer than five rows are expected on a side of a split, the square is that of the normal value with the same tail
probability as the exact distribution of the rows on that side. This finds a shift, for example, if all of
200 rows have a category that only 1 % of the training rows had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.results.policy import SMALLEST_SHIFT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.leaf_counts import LeafCounts
    from debias.trees.ensemble import TreeEnsemble

FALSE_ALARM = 0.001
"""Largest probability that any feature of fresh rows is called shifted."""
ROWS_ON_EACH_SIDE = 5
"""A split is compared by the normal distribution if so many training rows, and so many other rows, are expected on each
side; by the exact distribution if twice as many rows of both kinds together are expected there."""
ROWS_AT_SPLIT = 20
"""Number of training rows, and of other rows, that must reach a split for the exact distribution."""


@dataclass(frozen=True)
class ShiftedFeature:
    """A feature whose splits do not divide the rows as they divided the training rows.

    Parameters
    ----------
    name : str
        The user's column. Of several features that are made of one column, this is the one with the largest shift.
    size : float
        Effect size w, averaged over the splits on the feature, weighted by the number of rows that reach each.
    split : str
        The split at which the shares differ most, as a clause to which "for 5% of the rows" can be added.
    left_in_training, left_here : float
        Share of the rows that reach this split and go to the left.
    """

    name: str
    size: float
    split: str
    left_in_training: float
    left_here: float

    def in_words(self) -> str:
        """Return the split and both shares."""
        return (
            f"{self.split} for {self.left_here:.1%} of these rows and for {self.left_in_training:.1%} of the "
            "training rows that reach the split"
        )


@dataclass(frozen=True)
class Shift:
    """How rows differ from the training rows at the splits.

    Parameters
    ----------
    size : float
        Largest w among the features that are shifted by more than chance; 0 if there are none.
    features : tuple of ShiftedFeature
        These features, the largest shift first.
    """

    size: float
    features: tuple[ShiftedFeature, ...]


def shift_of(ensemble: TreeEnsemble, counted: list[LeafCounts]) -> Shift | None:
    """Compare the shares of rows at the splits with those in training; None if no split has enough rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    counted : list of LeafCounts
        Counts in the leaves of some trees.

    Returns
    -------
    Shift or None
        Also None if sums of hessians give the positive class a weight (``scale_pos_weight``). Such splits depend on
        where the few rows with a large weight lie, so they divide other rows of the same distribution differently.

    Notes
    -----
    Trees repeat one another, so the mean over all splits on a feature is tested as if there were one tree: by a
    chi-square distribution with as many degrees of freedom as a tree has splits on the feature, with Bonferroni's bound
    over the features.
    """
    from scipy.stats import chi2

    if ensemble.count is None and ensemble.positive_weight != 1:
        return None
    splits = _Splits.of(ensemble, counted)
    if not splits.node.size:
        return None
    features, feature_of_split = np.unique(ensemble.feature[splits.node], return_inverse=True)
    n_splits = np.bincount(feature_of_split)
    n_trees = np.bincount(np.unique(feature_of_split * len(counted) + splits.tree) // len(counted))
    freedom = n_splits / n_trees
    p_value = chi2.sf(np.bincount(feature_of_split, splits.squared_z) / n_trees, freedom) * features.size
    n_here = np.bincount(feature_of_split, splits.n_here)
    squared_w = np.bincount(feature_of_split, splits.squared_w * splits.n_here) / n_here
    # An estimate of a square may be below 0.
    size = np.sqrt(np.maximum(squared_w, 0.0))
    shifted = np.flatnonzero((p_value < FALSE_ALARM) & (size >= SMALLEST_SHIFT))
    shifted_features: dict[str, ShiftedFeature] = {}
    for k in shifted[np.argsort(-size[shifted], kind="stable")]:
        on_feature = np.flatnonzero(feature_of_split == k)
        worst = on_feature[np.argmax((splits.squared_w * splits.n_here)[on_feature])]
        name = ensemble.source_of(features[k])
        shifted_features.setdefault(
            name,
            ShiftedFeature(
                name=name,
                size=float(size[k]),
                split=_clause(ensemble, int(splits.node[worst])),
                left_in_training=float(splits.left_in_training[worst]),
                left_here=float(splits.left_here[worst]),
            ),
        )
    found = tuple(shifted_features.values())
    return Shift(max((feature.size for feature in found), default=0.0), found)


@dataclass(frozen=True, eq=False)
class _Splits:
    """The splits with enough rows, and how they divide the rows; every array has one entry per split."""

    node: NDArray[np.int64]
    tree: NDArray[np.int64]
    n_here: NDArray[np.float64]
    left_in_training: NDArray[np.float64]
    left_here: NDArray[np.float64]
    squared_z: NDArray[np.float64]
    squared_w: NDArray[np.float64]

    @classmethod
    def of(cls, ensemble: TreeEnsemble, counted: list[LeafCounts]) -> _Splits:
        node, tree, sums = [], [], []
        for number, leaf_counts in enumerate(counted):
            start = ensemble.tree_start[leaf_counts.tree]
            split, reached, stored, left = _summed_up(ensemble, leaf_counts)
            node.append(start + split)
            tree.append(np.full(split.size, number))
            sums.append(np.stack([stored[split], stored[left], reached[split], reached[left]]))
        if not node:
            return cls(*(np.zeros(0, dtype=np.int64),) * 2, *(np.zeros(0),) * 5)
        nodes, trees = np.concatenate(node), np.concatenate(tree)
        n, n_left, m, m_left = np.concatenate(sums, axis=1)
        used, squared_z, squared_w = compare_shares(n, n_left, m, m_left)
        share, share_here = n_left[used] / n[used], m_left[used] / m[used]
        return cls(nodes[used], trees[used], m[used], share, share_here, squared_z, squared_w)


def compare_shares(
    n: NDArray[np.float64], n_left: NDArray[np.float64], m: NDArray[np.float64], m_left: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Compare the shares of two sets of rows that go to the left, at each of some splits.

    Parameters
    ----------
    n, n_left : array of shape (n_splits,)
        Number of rows of the first set that reach each split, and that go to the left. They may be fractional.
    m, m_left : array of shape (n_splits,)
        The same of the second set.

    Returns
    -------
    used : array of bool of shape (n_splits,)
        Whether a split has enough rows.
    squared_z : array of shape (n_used,)
        At these splits, the squared difference of the shares over its variance if both sets are from one distribution.
    squared_w : array of shape (n_used,)
        Estimates of the squared effect size.
    """
    pooled = (n_left + m_left) / np.maximum(n + m, 1e-300)
    rarer = np.minimum(pooled, 1 - pooled)
    normal = rarer * np.minimum(n, m) >= ROWS_ON_EACH_SIDE
    exact = (rarer * (n + m) >= 2 * ROWS_ON_EACH_SIDE) & (np.minimum(n, m) >= ROWS_AT_SPLIT)
    used = normal | exact
    n, n_left, m, m_left, pooled = (array[used] for array in (n, n_left, m, m_left, pooled))
    p, p_here = n_left / n, m_left / m
    mean, variance = (p + p_here) / 2, pooled * (1 - pooled) * (1 / m + 1 / n)
    squared = (p_here - p) ** 2
    squared_z, few = squared / variance, ~normal[used]
    squared_z[few] = _exact_squares(*(array[few] for array in (n, n_left, m, m_left)))
    return used, squared_z, (squared - variance) / (mean * (1 - mean))


def _exact_squares(
    n: NDArray[np.float64], n_left: NDArray[np.float64], m: NDArray[np.float64], m_left: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return squares of normal values with the same two-sided tails as the number of rows on the rarer side.

    The number is binomial given the sum of both sets of rows: each row on that side is one of the m with probability
    m / (m + n). The formula takes fractional counts, and is wider than the hypergeometric distribution.
    """
    from scipy.special import betainc, chdtri

    left = n_left + m_left <= (n + m) / 2
    here = np.where(left, m_left, m - m_left)
    both = np.where(left, n_left + m_left, n + m - n_left - m_left)
    chance = m / (n + m)
    # Binomial tails as incomplete beta functions, which take fractions of rows.
    as_many = np.where(here > 0, betainc(np.maximum(here, 1e-9), both - here + 1, chance), 1.0)
    as_few = np.where(here < both, betainc(np.maximum(both - here, 1e-9), here + 1, 1 - chance), 1.0)
    squares: NDArray[np.float64] = chdtri(1, np.minimum(1.0, 2 * np.minimum(as_many, as_few)))
    return np.minimum(squares, 1e6)  # the tail may underflow


def _summed_up(
    ensemble: TreeEnsemble, counted: LeafCounts
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the splits of a tree, the rows and training rows at every node, and the left child of each split."""
    from debias.trees.kernels import nodes as kernels

    nodes = slice(ensemble.tree_start[counted.tree], ensemble.tree_start[counted.tree + 1])
    left, right = ensemble.left[nodes], ensemble.right[nodes]
    reached, stored = np.zeros(left.size), np.zeros(left.size)
    reached[counted.node], stored[counted.node] = counted.reached, counted.stored
    kernels.sum_up(np.array([0, left.size]), left, right, reached, np.zeros((left.size, 0)), stored)
    split = np.flatnonzero((left >= 0) & (stored > 0))
    return split, reached, stored, left[split].astype(np.int64)


def in_words(ensemble: TreeEnsemble, node: int) -> str:
    """Return the rule of a split; `node` is its flat index."""
    feature = ensemble.feature[node]
    name = ensemble.feature_names[feature]
    if ensemble.made_of is not None:
        name = f"a column made of {ensemble.made_of[feature]!r}"
    return (
        f"{name} in some set of categories" if _on_categories(ensemble, node) else f"{name} <= {_limit(ensemble, node)}"
    )


def _clause(ensemble: TreeEnsemble, node: int) -> str:
    """Return the rule of a split as a clause: "age <= 40 holds", "a column made of 'sector' is at most 0.5"."""
    if ensemble.made_of is None:
        return f"{in_words(ensemble, node)} holds"
    rule = "in some set of categories" if _on_categories(ensemble, node) else f"at most {_limit(ensemble, node)}"
    return f"a column made of {ensemble.made_of[ensemble.feature[node]]!r} is {rule}"


def _on_categories(ensemble: TreeEnsemble, node: int) -> bool:
    return ensemble.category_set is not None and bool(ensemble.category_set[node] >= 0)


def _limit(ensemble: TreeEnsemble, node: int) -> str:
    return f"{ensemble.threshold[node]:.4g}"
