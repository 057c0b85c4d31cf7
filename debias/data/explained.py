"""How much of the variation of the response a column explains by itself, whatever the form of the relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def explained_alone(columns: NDArray[np.floating[Any]], y: NDArray[np.float64]) -> float | None:
    """Return the share of the variation of y that columns explain: 1 if rows with near values have the same y.

    The rows are sorted by the columns, and rows with equal values are put in random order. Half the mean squared
    difference of y between neighbours estimates the variance of y that is left if the columns are known.

    Parameters
    ----------
    columns : array of shape (n_rows, n_columns)
        One column, or the columns that are made of one, with the first as the most important one.
    y : array of shape (n_rows, any)
        Numbers, or classes as one-hot columns. The variances of several columns are added up.

    Returns
    -------
    float or None
        At most 1, and about 0 for columns that have nothing to do with y. None if y is constant.

    References
    ----------
    von Neumann, J. (1941). Distribution of the ratio of the mean square successive difference to the variance. Annals
    of Mathematical Statistics 12, 367-395.

    Examples
    --------
    >>> x = np.linspace(-3, 3, 1000)
    >>> round(explained_alone(x[:, None], x[:, None] ** 2), 3)
    1.0
    """
    variance = float(y.var(axis=0, ddof=1).sum()) if len(y) > 1 else 0.0
    if not variance > 0:
        return None
    mixed = np.random.default_rng(0).permutation(len(y))
    codes = [
        np.unique(column[mixed], return_inverse=True)[1] for column in columns.T
    ]  # all missing values get one code
    order = mixed[np.lexsort(codes[::-1])]
    left = float((np.diff(y[order], axis=0) ** 2).sum(axis=1).mean()) / 2
    return 1 - left / variance
