"""Normal scores of the response, for permutation tests where few rows dominate it.

A few rows decide a sum over rows of a skewed or heavy-tailed response, so a test of it has little power. Ranks do not
have this problem. The null hypothesis of a permutation test is that the response is independent of the features, and it
is the same for every function of the response. The choice uses the response only, so it is the same in every
permutation, and costs no level (docs/significance.md has power and error rates).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.significance.contributions import POWERS, counts, effective_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows

NORMAL_SCORES = "normal scores"
"""What ``details["test"]["response"]`` says where the normal scores of the response were tested."""
FEW = 0.5
"""If fewer than this share of the rows count in the response, its normal scores are tested. The share is 1 for a normal
response, .3 for Student's t with 5 degrees of freedom, .2 for exponential and below .1 for lognormal ones."""


def normal_scores_if_few_count(rows: Rows) -> NDArray[np.float64] | None:
    """Return the normal scores of the columns of a numeric response, shape (n_rows, n_columns).

    None if enough rows count, or if the response is a class, or a column has only two values. Weights do not matter
    otherwise, since ranks would not make more rows of a few with most of the weight; rows without weight have 0.
    """
    values = rows.response.values
    if values is None or rows.response.codes is not None or rows.ensemble.objective.compares_rows:
        return None
    used, scores = counts(rows.weight), np.zeros(values.shape)  # rows without weight are not evaluated
    values = values[used]
    if any(np.unique(column).size <= 2 for column in values.T):
        return None
    deviation = values - values.mean(axis=0)
    deviation /= np.abs(deviation).max(axis=0)  # fourth powers of large responses would overflow
    sums = np.stack([(deviation**power).sum(axis=0) for power in range(1, POWERS + 1)])
    n_rows = len(values)
    if effective_number(sums, n_rows).min() >= FEW * n_rows:
        return None
    scores[used] = normal_scores(values)
    return scores


def normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal quantile of (rank - 1/2) / n for each column; equal values get their mean rank.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from debias.significance.normal_scores import normal_scores
    >>> normal_scores(np.array([[3.0], [1000.0], [2.0]])).round(3).ravel().tolist()
    [0.0, 0.967, -0.967]
    """
    from scipy import special, stats

    rank = stats.rankdata(values, axis=0)
    scores: NDArray[np.float64] = special.ndtri((rank - 0.5) / len(values))
    return scores
