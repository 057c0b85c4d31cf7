"""Simultaneous intervals of the ranks of features, from the differences of their scores on the same rows.

A feature ranks below another if its score is smaller. Each ordered pair of features is tested: is the first score
larger? The rows are the same for both, so the difference has a standard error by rows, which is small if the
scores vary together. Holm's method makes the tests of all pairs hold together with probability 1 - alpha. Then the
features that are found to be larger, and those that are found to be smaller, bound the rank of every feature at
once (Mogstad, Romano, Shaikh and Wilhelm 2024, section 3; for importances Neuhof and Benjamini 2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias import p_values
from debias.results.vocabulary import RANKS
from debias.significance.contributions import contributions, effective_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.rows import Rows

    Array = NDArray[np.float64]

MOST_VALUES = 4e6
"""More values, rows times features, are not compared: they would take more than 200 MB."""
MOST_PRODUCTS = 5e8
"""Nor are features whose products over the rows would take more than about a second."""
ROUNDING = 1e-10
"""A variance of a difference below this share of the two variances is rounding."""


def ranks_of(mean: Array, deviation: Array, alpha: float) -> dict[str, Any]:
    """Return simultaneous intervals of the ranks of features, as ``details`` of their scores.

    Parameters
    ----------
    mean : array of shape (n_features,)
        The scores: means, or sums, over independent rows.
    deviation : array of shape (n_independent, n_features)
        What each row adds to the score, less its mean. The standard error of a score is the root of their sum of
        squares, times n / (n - 1).
    alpha : float
        The probability that any of the intervals does not contain the rank.

    Returns
    -------
    dict
        ``RANKS`` with the level, and the first and the last rank of each feature, from 1; or with the reason why
        the ranks were not compared.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.significance.ranks import ranks_of
    >>> rows = np.random.default_rng(0).normal([3, 2, 2.1, 0], 1, (50, 4))
    >>> ranks_of(rows.mean(axis=0), (rows - rows.mean(axis=0)) / 50, 0.05)["ranks"]["first"]
    [1, 2, 2, 4]
    """
    reason = too_many(*deviation.shape)
    if reason is not None:
        return {RANKS: {"untold_because": reason}}
    used = np.flatnonzero((mean != 0) | deviation.any(axis=0))
    unused = np.setdiff1d(np.arange(mean.size), used)  # their scores are all exactly 0, so one stands for all of them
    compared = np.append(used, unused[:1])
    n_alike = np.ones(compared.size, dtype=np.int64)
    n_alike[used.size :] = unused.size
    p_value = _p_values(mean[compared], deviation[:, compared])
    pairs = ~np.eye(compared.size, dtype=bool)
    larger = np.zeros(pairs.shape, dtype=bool)
    larger[pairs] = p_values.holm(p_value[pairs]) <= alpha
    first, last = np.zeros((2, mean.size), dtype=np.int64)
    first[compared] = 1 + n_alike @ larger
    last[compared] = mean.size - larger @ n_alike
    first[unused], last[unused] = first[unused[:1]], last[unused[:1]]
    return {RANKS: {"level": 1 - alpha, "first": first.tolist(), "last": last.tolist()}}


def ranks_of_sums(rows: Rows, node_weight: Array, grouping: Grouping, score: Array, alpha: float) -> dict[str, Any]:
    """Return the same for scores that are sums of contributions of held-out rows.

    Parameters
    ----------
    rows : Rows
        Held-out rows.
    node_weight : array of shape (n_nodes,)
        Factor of the centred covariance of each split in the score.
    grouping : Grouping
    score : array of shape (n_groups,)
    alpha : float
    """
    reason = too_many(rows.n_rows, rows.ensemble.n_features)
    if reason is not None:
        return {RANKS: {"untold_because": reason}}
    phi = grouping.sum_columns(contributions(rows.paths, rows, node_weight, enlarged=True))
    used = rows.weight > 0
    of_unit = phi[used] if rows.blocks is None else sums_of_blocks(phi[used], rows.blocks[used])
    return ranks_of(score, of_unit - of_unit.mean(axis=0), alpha)


def sums_of_blocks(values: Array, blocks: NDArray[Any]) -> Array:
    """Return the sum of the rows of each block, shape (n_blocks, n_features).

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
    blocks : array of shape (n_rows,)
        Labels of blocks of rows that depend on one another.
    """
    number = np.unique(blocks, return_inverse=True)[1]
    order = np.argsort(number, kind="stable")
    begins = np.flatnonzero(np.diff(number[order], prepend=-1))
    return np.add.reduceat(values[order], begins, axis=0) if begins.size else values[:0]


def too_many(n_rows: int, n_features: int) -> str | None:
    """Return why the scores of so many rows and features are not compared; None if they are.

    Parameters
    ----------
    n_rows, n_features : int
    """
    if n_rows * n_features <= MOST_VALUES and n_rows * n_features**2 <= MOST_PRODUCTS:
        return None
    return (
        f"{n_rows:,} rows and {n_features:,} features are too many to compare each pair of features. Pass a sample of "
        "the rows"
    )


def _p_values(mean: Array, deviation: Array) -> Array:
    """Return the p-values that the first score of each pair is larger than the second, by Student's t."""
    from scipy.special import stdtr

    n = len(deviation)
    unit = max(float(np.abs(deviation).max(initial=0.0)), np.finfo(float).tiny)  # fourth powers stay within floats
    value = deviation / unit
    square, cube = value**2, value**3
    variance, fourth = square.sum(axis=0), (square**2).sum(axis=0)
    third = cube.T @ value
    of_pair = variance[:, None] + variance - 2 * value.T @ value
    fourth_of_pair = fourth[:, None] + fourth - 4 * (third + third.T) + 6 * square.T @ square
    varies = of_pair > ROUNDING * (variance[:, None] + variance)
    sums = np.where(varies, [np.zeros_like(of_pair), of_pair, np.zeros_like(of_pair), fourth_of_pair], 0.0)
    error = unit * np.sqrt(sums[1] * n / (n - 1))
    t = np.divide(mean[:, None] - mean, error, out=np.zeros_like(error), where=varies)
    freedom = np.maximum(effective_number(sums, n) - 1, 1.0)
    return np.where(varies, stdtr(freedom, -t), 1.0)
