"""The effective number of rows in a sum over rows: all of them, or the few that dominate it.

A sum of independent values of similar size is close to normal if there are more than a few dozen. If few values are
much larger than the others, such as those of the rows of a rare class, only the large ones count. The *effective
number* is n / (1 + excess kurtosis), and n if the tails are not heavier than normal. For a rare class of r rows it is
about r. It bounds the skewness of the sum, and it is the number of degrees of freedom of the estimated variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.rows.rows import Rows

POWERS = 4
"""Number of power sums from which the effective number is computed."""


def effective_number(sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the effective number of n values, from the sums of their first four powers.

    Parameters
    ----------
    sums : array of shape (4, n_columns)
    n : int

    Returns
    -------
    array of shape (n_columns,)
        Between 1 and n; n if all values are equal.
    """
    mean = sums[0] / n
    second = sums[1] - n * mean**2
    fourth = sums[3] - 4 * mean * sums[2] + 6 * mean**2 * sums[1] - 3 * n * mean**4
    varies = second > 1e-20 * sums[1]
    kurtosis = np.divide(n * fourth, second**2, out=np.ones_like(mean), where=varies)
    number: NDArray[np.float64] = n / np.clip(kurtosis - 2, 1.0, n)
    return number


def effective_rows(rows: Rows, by_block: bool = True) -> float:
    """Return the effective number of held-out rows (of blocks, if `by_block`): the minimum over response columns.

    The values are deviations from the mean, times the weight of the row, summed by block. They depend only on the
    response and the weights, not on X. So a test chosen by this number is the same for permuted responses.
    """
    used = rows.weight > 0
    weight = rows.weight[used] / rows.weight.max()
    block = (
        np.arange(used.sum())
        if rows.blocks is None or not by_block
        else np.unique(rows.blocks[used], return_inverse=True)[1]
    )
    numbers = []
    for column in _columns(rows, used):
        value = np.bincount(block, weights=weight * (column - np.average(column, weights=weight)))
        value = value / max(np.abs(value).max(), np.finfo(float).tiny)
        sums = np.array([(value**power).sum() for power in range(1, POWERS + 1)])
        numbers.append(effective_number(sums[:, None], value.size)[0])
    return float(min(numbers, default=0.0))


def is_constant(rows: Rows) -> bool:
    """Whether all rows that are evaluated have the same response."""
    paths = rows.paths
    evaluated = paths.evaluated
    used = paths.order[np.any(evaluated, axis=0)]
    codes, target, values = rows.response.codes, rows.response.target, rows.response.values
    if rows.ensemble.objective.compares_rows:
        target = None  # rows with different y may have the same gradient
    response = codes if codes is not None else target if target is not None else values
    assert response is not None
    return bool((response[used] == response[used[0]]).all())


def _columns(rows: Rows, used: NDArray[np.bool_]) -> Iterator[NDArray[np.float64]]:
    """Yield the columns of the response that are not constant."""
    if rows.response.values is not None:
        yield from (column for column in rows.response.values[used].T if np.ptp(column) > 0)
        return
    assert rows.response.codes is not None
    codes = rows.response.codes[used]
    present = np.unique(codes)
    yield from ((codes == code).astype(np.float64) for code in present[present.size == 2 :])
