"""The warning that consecutive evaluation rows (blocks) are alike, and which blocks to pass instead.

P-values treat rows (blocks) as independent. A test goes wrong if neighbours have similar responses and also similar
features; either alone does no harm. Two permutation tests must therefore both find similarity. The first permutes the
whole response. The second permutes each feature only within short windows of rows of one class, because rows that were
sorted by their response have similar neighbours too, but within a window of such rows nothing is left to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.vocabulary import RowsKind
from debias.significance.contributions import coded_response
from debias.text import counted, escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.warning_log import WarningLog

UNITS_TO_JUDGE = 20
"""Fewer rows (blocks) are not examined."""
LAGS = (1, 4)
"""Similarity is summed over the first lag, and over the first four; the larger sum counts."""
WINDOW = 20
"""Features are permuted within windows of this many rows."""
N_ORDERS = 199
"""Number of random orders that each of the two tests draws."""
FALSE_ALARM = 0.01
"""Each of the two tests is at this level, and both must reject."""
MOST_CELLS = 100_000
"""At most about this many values are examined."""
LEAST_ROWS = 1000
"""Features are left out rather than rows, if fewer rows than this would be examined."""
BLOCK_OF_REACHES = 2
"""Advised blocks have this many times the number of rows over which neighbours stay similar. For AR(1) .8 that number
is about 10. On held-out rows in blocks of 10, noise was informative in .071 (SE .008), of 20 in .055 (.007) instead of
.05 (docs/significance.md)."""


def warn_of_neighbours(rows: Rows, log: WarningLog, consequence: str = "noise is called informative too often") -> None:
    """Warn if consecutive rows (blocks) have similar responses and similar features, which has a consequence."""
    ensemble = rows.ensemble
    used = _examined(rows)
    y, X = coded_response(rows)[used], rows.table.matrix(ensemble, used).astype(np.float64)
    n_splits = np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features)
    block = None if rows.blocks is None else rows.blocks[used]
    units = (y, X) if block is None else (block_means(y, block), block_means(X, block))
    alike = alike_neighbours(*units, n_splits)
    if alike is None:
        return
    reach = reach_of(units[0], units[1][:, alike])
    if block is not None:
        reach *= int(np.median(np.bincount(block)[np.unique(block)]))
        if _consecutive(block):  # rows show better than few blocks how far they stay similar
            reach = max(reach, reach_of(y, X[:, alike]))
    unit, name = "rows" if block is None else "blocks", escaped(ensemble.feature_names[alike[0]])
    others = f" and {counted(alike.size - 1, 'more feature')}" if alike.size > 1 else ""
    unseen = (
        ", on rows that the model has not seen (rows='held-out'), since hardly any block of this length is out of bag"
        if rows.kind == RowsKind.OOB
        else ""
    )
    log.warn(
        f"consecutive {unit} are alike: they have similar responses and similar values of {name}{others}, as in a time "
        f"series, or if several rows are of one subject or place. P-values treat {unit} as independent. If they are "
        f"not, {consequence}. Similarity reaches over about "
        f"{counted(reach, 'row')}: pass blocks in debias.Dataset(X, y, blocks=...), of {BLOCK_OF_REACHES * reach:,} "
        f"consecutive rows or more{unseen}. If "
        "independent rows were sorted by a column, they may be alike for this reason only"
    )


def _examined(rows: Rows) -> NDArray[np.int64]:
    """Return the rows to examine, in their order; of very many, stretches of consecutive rows or blocks."""
    used = np.sort(rows.paths.order[rows.paths.weight > 0])
    if rows.blocks is None:
        return used[stretches(used.size, rows.ensemble.n_features)]
    _, first, of_row = np.unique(rows.blocks[used], return_index=True, return_inverse=True)
    in_order = np.argsort(first, kind="stable")
    chosen = np.zeros(first.size, dtype=bool)
    chosen[in_order[stretches(first.size, rows.ensemble.n_features)]] = True
    examined: NDArray[np.int64] = used[chosen[of_row.ravel()]]
    return examined


def _consecutive(block: NDArray[np.int64]) -> bool:
    """Return whether the rows of every block follow one another."""
    return int((np.diff(block) != 0).sum()) + 1 == np.unique(block).size


def alike_neighbours(
    y: NDArray[np.float64], X: NDArray[np.float64], importance: NDArray[Any] | None = None
) -> NDArray[np.int64] | None:
    """Test whether consecutive rows have similar responses and similar features.

    Parameters
    ----------
    y : array of shape (n_rows, n_outputs)
        Responses, in the order of the rows.
    X : array of shape (n_rows, n_features)
        Features, NaN where missing. Columns in ascending or descending order are left out: sorting by them is the
        reason that they are alike.
    importance : array of shape (n_features,), optional
        If there are too many features, those with the largest values are examined. All with 0 are left out.

    Returns
    -------
    array of int or None
        The columns of X whose neighbours are alike, the most similar first. None if one of the two tests, at level 0.01
        each, does not reject.
    """
    if len(y) < UNITS_TO_JUDGE:
        return None
    columns = _columns_to_examine(X, importance)
    if not columns.size:
        return None
    rng = np.random.default_rng(np.random.SeedSequence(0))  # the same rows always get the same answer
    everywhere = np.zeros(len(y), dtype=np.int64)
    if _similar(_ranks(y), everywhere, rng).size == 0:
        return None
    by_class, window = _windows(y)
    # A feature that follows the response is alike where responses are. So it is compared within short windows, and
    # within one value of y, in which its order is random if rows are independent.
    features = _without_trend(_ranks(X[np.ix_(by_class, columns)]), y[by_class], window)
    alike = _similar(features, window, rng)
    return columns[alike] if alike.size else None


def stretches(n_rows: int, n_features: int) -> NDArray[np.int64]:
    """Return the positions of rows (blocks) to examine: all, or of very many some stretches from all parts of them."""
    most = max(LEAST_ROWS, MOST_CELLS // max(n_features, 1))
    if n_rows <= most:
        return np.arange(n_rows)
    # The last rows of a stretch are no neighbours of the first ones of the next: few pairs of so many.
    stretch = 10 * WINDOW
    begins = np.linspace(0, n_rows - stretch, most // stretch).astype(np.int64)
    return np.unique((begins[:, None] + np.arange(stretch)).ravel())


def block_means(values: NDArray[np.float64], block: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean of each column over each block, in the order in which the blocks first appear; NaN is left out.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
    block : array of int of shape (n_rows,)
    """
    _, first, of_row = np.unique(block, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first, kind="stable"), kind="stable")[of_row.ravel()]
    means = np.empty((first.size, values.shape[1]))
    for k, column in enumerate(values.T):
        known = ~np.isnan(column)
        n = np.bincount(place[known], minlength=first.size)
        total = np.bincount(place[known], weights=column[known], minlength=first.size)
        means[:, k] = np.divide(total, n, out=np.full(first.size, np.nan), where=n > 0)
    return means


def _columns_to_examine(X: NDArray[np.float64], importance: NDArray[Any] | None) -> NDArray[np.int64]:
    order = np.arange(X.shape[1])
    if importance is not None:
        order = np.argsort(-importance, kind="stable")
        order = order[importance[order] > 0]
    order = order[: max(1, MOST_CELLS // LEAST_ROWS)]
    sorted_by = []
    for k in order:
        step = np.diff(X[:, k][~np.isnan(X[:, k])])
        sorted_by.append(bool((step >= 0).all() or (step <= 0).all()))
    return order[~np.array(sorted_by, dtype=bool)]


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return centred ranks of each column, 0 where missing."""
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=0, nan_policy="omit")
    return np.nan_to_num(ranks - np.nanmean(ranks, axis=0), nan=0.0)


def _windows(y: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order of the rows, and the window of each row in it.

    If y has few values, the rows of each value are put together, in their order.
    """
    label = np.unique(y, axis=0, return_inverse=True)[1].ravel()
    if label.max() + 1 > len(y) / WINDOW:
        label = np.zeros(len(y), dtype=np.int64)
    order = np.argsort(label, kind="stable")
    label = label[order]
    begins = np.flatnonzero(np.r_[True, label[1:] != label[:-1]])
    size = np.diff(np.r_[begins, len(y)])
    place = np.arange(len(y)) - np.repeat(begins, size)
    return order, np.cumsum(place % WINDOW == 0) - 1


def _without_trend(
    features: NDArray[np.float64], y: NDArray[np.float64], window: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return features without their regression on each response within each window.

    If rows are sorted by a response that a feature nearly equals, the feature ascends within windows, too.
    """
    n, without = np.bincount(window), np.array(features)
    for response in y.T:
        deviation = response - (np.bincount(window, weights=response) / n)[window]
        squares = np.bincount(window, weights=deviation**2)
        unit = np.divide(deviation, squares[window], out=np.zeros_like(deviation), where=squares[window] > 0)
        for k, column in enumerate(without.T):
            without[:, k] = column - np.bincount(window, weights=unit * column)[window] * deviation
    return without


def _similar(values: NDArray[np.float64], window: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the columns whose neighbours in a window are more similar than in random orders, the most similar first.

    The largest similarity of all columns is compared with the largest one in each random order, so the probability of
    finding any column is at most `FALSE_ALARM` if all orders within windows are equally probable.
    """
    n = np.bincount(window)
    centred = np.empty_like(values)
    for k, column in enumerate(values.T):
        centred[:, k] = column - (np.bincount(window, weights=column) / n)[window]
    scale = np.sqrt((centred**2).sum(axis=0))
    centred = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    together = [(window[lag:] == window[:-lag]).astype(np.float64) for lag in range(1, max(LAGS) + 1)]
    observed = _similarity(centred, together)
    drawn, orders = np.empty((N_ORDERS, observed.size)), _orders_within(n, rng)
    for similarity in drawn:
        similarity[:] = _similarity(centred[next(orders)], together)
    # The observed order is one of the orders under the hypothesis, so it belongs to the mean and the spread.
    both = np.concatenate([observed[None], drawn])
    spread = both.std(axis=0)
    # In units of its own spread, so that no lag and no column decides the maximum more often than others.
    score = np.divide(both - both.mean(axis=0), spread, out=np.zeros_like(both), where=spread > 1e-12)
    largest = score.max(axis=1)
    # 0.01 times 200 may be a little less than 2.
    n_allowed = int(FALSE_ALARM * (1 + N_ORDERS) + 1e-9)
    critical = np.sort(largest[1:])[-n_allowed] if n_allowed else np.inf
    best = score[0].reshape(len(LAGS), -1).max(axis=0)
    found = np.flatnonzero(best > critical)
    return found[np.argsort(-best[found], kind="stable")]


def _orders_within(n: NDArray[np.int64], rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield random orders of the rows within windows of n rows."""
    while n.size == 1:
        yield rng.permutation(int(n[0]))
    # A line of random numbers for each window: lines are sorted faster than all rows by window and number.
    begin, is_row = np.cumsum(n) - n, np.arange(n.max()) < n[:, None]
    numbers = np.full(is_row.shape, np.inf)
    while True:
        numbers[is_row] = rng.random(int(n.sum()))
        yield (begin[:, None] + np.argsort(numbers, axis=1))[is_row]


def _similarity(values: NDArray[np.float64], together: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return sums of products of neighbours in a window over the lags, shape (n_lag_sums * n_columns,).

    `together` has, for each lag, 1 for pairs of rows in one window, and 0 for others.
    """
    total, sums = np.zeros(values.shape[1]), []
    for lag, same in enumerate(together, 1):
        total = total + np.einsum("ij,ij,i->j", values[lag:], values[:-lag], same)
        if lag in LAGS:
            sums.append(total)
    return np.concatenate(sums)


def reach_of(y: NDArray[np.float64], X: NDArray[np.float64]) -> int:
    """Return over how many rows a response and a feature stay more similar than by chance; 1 or more.

    Sums over rows vary more than those of independent rows, by the products of the two similarities.

    Parameters
    ----------
    y : array of shape (n_rows, n_outputs)
    X : array of shape (n_rows, n_features)
    """
    n = len(y)
    similar = np.minimum(_autocorrelation(_ranks(y)).max(axis=1), _autocorrelation(_ranks(X)).max(axis=1))
    # Autocorrelations of independent values have a standard error of about 1 / sqrt(n).
    below = np.flatnonzero(similar[1:] < 2 / np.sqrt(n))
    return max(1, int(below[0]) if below.size else n // 2)


def _autocorrelation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the autocorrelations of columns at lags 0 to n / 2."""
    n = len(values)
    # Padded with zeros to twice the length, or the end would be compared with the beginning.
    spectrum = np.abs(np.fft.rfft(values, n=2 * n, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[: n // 2 + 1]
    return np.divide(covariance, covariance[:1], out=np.zeros_like(covariance), where=covariance[:1] > 0)
