"""The test by rows: whether the mean of a value of every row, such as the loss a feature saves on it, is above 0.

Rows that the model has not seen are independent given the model, so the mean over them has a standard error by rows. It
is tested with Student's t. Rows of one block depend on one another: their values are summed first, and the blocks are
the independent units. The degrees of freedom are those of :mod:`debias.significance.contributions`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import p_values
from debias.errors import CompositionError, RowsError
from debias.significance.contributions import POWERS, effective_number
from debias.significance.procedure import ERRORS
from debias.significance.ranks import ranks_of, sums_of_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows

ROUNDING = 1e-12
"""A standard error below this share of the largest value is rounding: the value is the same for all rows."""


@dataclass(frozen=True, eq=False)
class RowTest:
    """The result of :func:`row_test`; the arrays have shape (n_features,).

    Parameters
    ----------
    mean : array
        Weighted mean of the values.
    standard_error : array
        Standard error of the mean, given the model.
    z : array
        The mean over its standard error; 0 where the values are the same for all rows.
    p_value : array
        One-sided, for a mean above 0; 1 where the values are the same for all rows.
    p_adjusted : array
    effective : array
        Effective number of rows, or of blocks; Student's t has one degree of freedom less.
    n_independent : int
        Number of rows, or of blocks, with a weight above 0.
    error : str
    deviation : array of shape (n_independent, n_features)
        Deviation of each row, or block, from the mean, in standard errors.
    testable : array of bool
        Whether any value of a row is not 0. Features without, such as those on which a model does not split, are no
        tests: p-values are not adjusted for them.
    """

    mean: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    z: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    effective: NDArray[np.float64]
    n_independent: int
    error: str
    deviation: NDArray[np.float64]
    testable: NDArray[np.bool_]

    def of_members(self, group: NDArray[np.int64], size: NDArray[np.int64]) -> RowTest:
        """Return the test of the columns of groups that were tested as one: a column has the p-values of its group.

        Parameters
        ----------
        group : array of shape (n_features,)
            Group of each column.
        size : array of shape (n_groups,)
            Number of columns of each group, which share its mean and standard error equally.
        """
        shared = {name: (getattr(self, name) / size)[group] for name in ("mean", "standard_error")}
        same = {name: getattr(self, name)[group] for name in ("z", "p_value", "p_adjusted", "effective", "testable")}
        return replace(self, **shared, **same, deviation=self.deviation[:, group])

    def or_other(self, other: RowTest) -> RowTest:
        """Return the test by the larger of two statistics, of other values of the same rows, for each feature.

        The p-value is ``P(max(Z, Z') >= z)``, where z is the normal quantile of the smaller of the two p-values, and Z,
        Z' are normal with the correlation that the values of the rows have. It is between the smaller p-value and
        twice that. Mean and standard error are those of this test; z is the larger one.
        """
        from scipy.special import ndtri, owens_t

        n = self.n_independent
        correlation = (self.deviation * other.deviation).sum(axis=0) * n / (n - 1)
        only_one = (self.standard_error == 0) | (other.standard_error == 0)
        # Where only one of the statistics varies, it decides alone: as if both were the same.
        correlation = np.where(only_one, 1.0, np.clip(correlation, -1.0, 1.0))
        smaller = np.minimum(self.p_value, other.p_value)
        # At a correlation of -1 the angle is infinite, and 2 T is the smaller p-value once more.
        angle = np.sqrt((1 - correlation) / np.maximum(1 + correlation, 1e-12))
        # P(max >= z) = 1 - Phi(z) + 2 T(z, a) with Owen's function T.
        p_value = np.minimum(smaller + 2 * owens_t(-ndtri(smaller), angle), 1.0)
        p_value = np.where(smaller == 1, 1.0, p_value)
        testable = self.testable | other.testable
        return replace(
            self,
            z=np.where(other.p_value < self.p_value, other.z, self.z),
            p_value=p_value,
            p_adjusted=p_values.adjusted(p_value, self.error, testable),
            testable=testable,
            effective=np.minimum(self.effective, other.effective),
        )

    def with_p_values(self, p_value: NDArray[np.float64]) -> RowTest:
        """Return the test with other p-values, adjusted by the same procedure.

        Parameters
        ----------
        p_value : array of shape (n_features,)
        """
        return replace(self, p_value=p_value, p_adjusted=p_values.adjusted(p_value, self.error, self.testable))

    def details(self, alpha: float, blocks: bool = False) -> dict[str, Any]:
        """Return the numbers of the test as a scorer reports them; they become fields of :class:`debias.Scores`.

        Parameters
        ----------
        alpha : float
            Select the features with an adjusted p-value of at most this.
        blocks : bool
            Whether the rows were in blocks.
        """
        return {
            "standard_error": self.standard_error,
            "z": self.z,
            "p_value": self.p_value,
            "p_adjusted": self.p_adjusted,
            "selected": self.p_adjusted <= alpha,
            "test": {
                "method": "rows",
                "alpha": float(alpha),
                "error": self.error,
                "n_independent": self.n_independent,
                "blocks": blocks,
                "effective_rows": [float(f"{number:.6g}") for number in self.effective],
            },
        }

    def ranks(self, alpha: float) -> dict[str, Any]:
        """Return simultaneous intervals of the ranks of the means, as details for :meth:`debias.Scores.rank_interval`.

        Only for scorers whose scores are the means that were tested.

        Parameters
        ----------
        alpha : float
            The probability that any of the intervals does not contain the rank is at most this.
        """
        return ranks_of(self.mean, self.deviation * self.standard_error, alpha)


def row_test(
    values: NDArray[np.float64],
    weight: NDArray[np.float64] | None = None,
    blocks: NDArray[Any] | None = None,
    *,
    error: str = "fwer",
) -> RowTest:
    """Test whether the means of values over rows are above 0.

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
        One value of every row for every feature, such as a difference of losses. The rows are not those the model was
        trained on.
    weight : array of shape (n_rows,), optional
        Weights of the rows; rows of weight 0 do not count.
    blocks : array of shape (n_rows,), optional
        Labels of blocks of rows that depend on one another.
    error : {"fwer", "fdr", "fdr_by"}
        Error rate of the adjusted p-values: family-wise (Holm), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).

    Returns
    -------
    RowTest

    Raises
    ------
    CompositionError
        `error` is none of these.
    RowsError
        There are fewer than two rows, or blocks, with a weight above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from debias.plugin import row_test
    >>> values = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [2.0, 0.0]])
    >>> tested = row_test(values)
    >>> tested.mean, tested.p_value.round(3)
    (array([2., 0.]), array([0.008, 1.   ]))
    """
    from scipy.special import stdtr

    if error not in ERRORS:
        raise CompositionError(f"error={error!r} is not one of {', '.join(map(repr, ERRORS))}")
    share = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
    used = share > 0
    values, share = values[used], share[used] / share.sum()
    mean = share @ values
    deviation = share[:, None] * (values - mean)
    if blocks is not None:
        deviation = sums_of_blocks(deviation, np.asarray(blocks)[used])
    n = len(deviation)
    if n < 2:
        what = "rows" if blocks is None else "blocks"
        raise RowsError(f"the test by rows needs at least two {what} with a weight above 0, and there are {n}")
    standard_error = np.sqrt((deviation**2).sum(axis=0) * n / (n - 1))
    varies = standard_error > ROUNDING * np.abs(values).max(axis=0, initial=0.0)
    standard_error = np.where(varies, standard_error, 0.0)
    z = np.divide(mean, standard_error, out=np.zeros_like(mean), where=varies)
    scaled = np.divide(deviation, standard_error, out=np.zeros_like(deviation), where=varies)
    effective = effective_number(np.array([(scaled**power).sum(axis=0) for power in range(1, POWERS + 1)]), n)
    freedom = np.maximum(effective - 1, 1.0)
    p_value = np.where(varies, np.maximum(stdtr(freedom, -z), np.finfo(float).tiny), 1.0)
    testable = (values != 0).any(axis=0)
    p_adjusted = p_values.adjusted(p_value, error, testable)
    return RowTest(mean, standard_error, z, p_value, p_adjusted, effective, n, error, scaled, testable)


def check_procedure(error: Any, alpha: Any) -> None:
    """Raise an error if the error rate of a test is not valid; call it before what takes long.

    Parameters
    ----------
    error : object
        What should be "fwer", "fdr" or "fdr_by".
    alpha : object
        What should be a number above 0 and below 1.

    Raises
    ------
    CompositionError
        One of them is not.
    """
    if error not in ERRORS:
        raise CompositionError(f"error={error!r} is not one of {', '.join(map(repr, ERRORS))}")
    real = isinstance(alpha, (int, float, np.number)) and not isinstance(alpha, bool)
    if not real or not 0 < alpha < 1:
        raise CompositionError(f"alpha must be between 0 and 1, not {alpha!r}")


def refuse_seen_rows(rows: Rows, what: str, instead: str = "") -> None:
    """Raise an error if the rows are not rows that the whole model has not seen.

    Parameters
    ----------
    rows : Rows
    what : str
        What is tested, as the beginning of the message.
    instead : str
        What to do instead on out-of-bag rows, as the end of the message.

    Raises
    ------
    CompositionError
        The rows are out-of-bag rows.
    RowsError
        The rows are training rows.
    """
    if rows.kind == "oob":
        raise CompositionError(
            f"{what} is not possible on out-of-bag rows: the trees that predict a row were grown on the other rows, so "
            "the values of the rows depend on one another, and noise is called informative too often. Pass rows the "
            f"model has not seen, with rows='held-out'{instead}"
        )
    if rows.kind == "train":
        raise RowsError(
            f"{what} is not possible on training rows: the trees were fitted to these rows, so every feature saves "
            "loss on them. Pass rows the model has not seen, with rows='held-out'"
        )
