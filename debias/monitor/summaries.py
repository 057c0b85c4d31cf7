"""What is known of a period without its sums at leaves: some numbers for the period and for each feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.rows.period_sums import BEFORE_PARTS
from debias.rows.sealed import Damage
from debias.significance.period_means import OF, means_of, variances_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from debias.rows.period_sums import PeriodSums
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]


SUMMARY, VARIANCES = "summary", "variances_of_means"
"""Arrays beside scores. Earlier versions stored neither of them, or the first one only."""
FIRST = 4
"""Numbers before the means: of rows, their weight, the repeated rows, and the number of outputs of the means."""


@dataclass(frozen=True, eq=False)
class PeriodSummary:
    """A period without its sums at leaves.

    Parameters
    ----------
    n_rows, weight : float
        Number of its rows, and the sum of their weights.
    means : array of shape (3, n_outputs)
        Of the response, the prediction and the residual, see :class:`debias.significance.period_means.PeriodMeans`.
    variances : array of shape (3, n_outputs)
        Of these means, see :class:`debias.significance.period_means.PeriodMeans`. NaN where they are not known.
    loss_parts : array of shape (4 + 2 n_features,), or None
        As ``PeriodSums.loss_parts``.
    unseen : array of shape (n_features,)
        Number of rows with a category that the model never saw, of each feature.
    repeated : float
        Number of rows that repeat another row.
    notes : sequence of str
        What a reader must know about the rows.
    metric, no_loss : str or None
        As for ``PeriodSums``.
    """

    n_rows: float
    weight: float
    means: Array
    variances: Array
    loss_parts: Array | None
    unseen: Array
    repeated: float
    notes: Sequence[str]
    metric: str | None
    no_loss: str | None

    @staticmethod
    def arrays_of(sums: PeriodSums) -> dict[str, Array]:
        """Return the numbers of a period in one array, and the variances of its means, from its sums."""
        parts, means = sums.loss_parts, means_of(sums)
        first = [sums.n_rows, sums.total_weight, sums.repeated, means.shape[1]]
        numbers = np.concatenate([first, means.ravel(), sums.unseen, [] if parts is None else parts])
        return {SUMMARY: numbers, VARIANCES: variances_of(sums)}

    @classmethod
    def of(
        cls,
        arrays: Mapping[str, Array],
        ensemble: TreeEnsemble,
        notes: Sequence[str],
        metric: str | None,
        no_loss: str | None,
    ) -> PeriodSummary:
        """Return the summary with these arrays, and with what is stored beside them.

        Raises
        ------
        Damage
            No period of the model has such numbers.
        """
        numbers = arrays[SUMMARY]
        n_features, n_outputs = ensemble.n_features, ensemble.n_outputs
        if numbers.dtype != np.float64 or numbers.ndim != 1 or numbers.size <= FIRST or not np.isfinite(numbers).all():
            raise Damage("the summary of a period has values that are not finite numbers")
        n_rows, weight, repeated, n_means = numbers[:FIRST].tolist()
        if n_means not in (n_outputs, 1):  # the means of two classes mirror each other
            raise Damage("the summary of a period is of another number of outputs")
        begin = FIRST + len(OF) * int(n_means)
        means, unseen, parts = numbers[FIRST:begin], numbers[begin : begin + n_features], numbers[begin + n_features :]
        if unseen.size != n_features or parts.size not in (0, BEFORE_PARTS + 2 * n_features):
            raise Damage("the summary of a period is of another number of features")
        if min(n_rows, weight, parts[0] if parts.size else 1.0) <= 0 or min(repeated, unseen.min(initial=0.0)) < 0:
            raise Damage("the summary of a period has impossible numbers of rows")
        means, of_loss = means.reshape(len(OF), -1), parts if parts.size else None
        variances = arrays.get(VARIANCES, np.full_like(means, np.nan))  # an earlier version stored none
        if variances.dtype != np.float64 or variances.shape != means.shape or (variances < 0).any():
            raise Damage("the summary of a period has impossible variances")
        return cls(n_rows, weight, means, variances, of_loss, unseen, repeated, notes, metric, no_loss)
