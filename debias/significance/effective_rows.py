"""How many rows a sum over rows rests on: as many as there are, or the few that carry it.

A sum of independent values has nearly a normal law where the values are of one size, whatever their number beyond a
few dozen. Where few of them are much larger than the rest, as those of the rows of a rare class, the large ones alone
count. The *effective number* is n / (1 + excess kurtosis), and n where tails are no heavier than normal. Of a class of
r rows among many it is about r; it bounds the skewness of the sum, and is the number of degrees of freedom with which
its variance is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.rows.rows import Rows

POWERS = 4
"""Power sums that the effective number is made of."""


def effective_number(sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the effective number of n values, from the sums of their first four powers.

    Parameters
    ----------
    sums : array of shape (4, n_columns)
    n : int

    Returns
    -------
    array of shape (n_columns,)
        Between 1 and n; n where all values are alike.
    """
    mean = sums[0] / n
    second = sums[1] - n * mean**2
    fourth = sums[3] - 4 * mean * sums[2] + 6 * mean**2 * sums[1] - 3 * n * mean**4
    varies = second > 1e-20 * sums[1]
    kurtosis = np.divide(n * fourth, second**2, out=np.ones_like(mean), where=varies)
    number: NDArray[np.float64] = n / np.clip(kurtosis - 2, 1.0, n)
    return number


def effective_rows(rows: Rows, by_block: bool = True) -> float:
    """Return the effective number of held-out rows (of blocks, `by_block`): the least of any column of the response.

    The values are deviations from the mean, times the weight of the row, summed by block. They depend on the response
    and on weights, not on what goes with what, so a choice made by the number is the same for permuted responses.
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
    """Whether all rows that are evaluated have one response."""
    paths = rows.paths
    evaluated = paths.evaluated
    used = paths.order[np.any(evaluated, axis=0)]
    codes, target, values = rows.response.codes, rows.response.target, rows.response.values
    given = codes if codes is not None else target if target is not None else values
    assert given is not None
    return bool((given[used] == given[used[0]]).all())


def _columns(rows: Rows, used: NDArray[np.bool_]) -> Iterator[NDArray[np.float64]]:
    """Go through the columns of the response that are not constant."""
    if rows.response.values is not None:
        yield from (column for column in rows.response.values[used].T if np.ptp(column) > 0)
        return
    assert rows.response.codes is not None
    codes = rows.response.codes[used]
    present = np.unique(codes)
    yield from ((codes == each).astype(np.float64) for each in present[present.size == 2 :])
