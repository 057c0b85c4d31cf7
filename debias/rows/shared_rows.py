"""Evaluation rows that are also training rows: both tables are there, so their rows are compared one by one.

Rows with the same features and response may be different cases, as with a few categorical columns. So the number of
shared rows is compared with its distribution if all rows of both tables were divided between them by chance. A group of
k equal rows has then a rows in the evaluation, a binomial number, and all of these are shared unless a = k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.rows.unordered_digest import mixed
from debias.trees.routing import row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble

CHANCE = 0.001
"""More rows are shared than by chance if a division by chance shares as many with a smaller probability."""
PERHAPS_CHANCE = 0.01
"""From this probability on, nothing is said of shared rows but the probability itself."""
MOST_SHARED = 0.05
"""Largest share of training rows, beyond chance, that scores are given for, with a warning."""
MOST_REPEATED = 0.5
"""If more of the training rows repeat one another, copies of them cannot be told from other cases."""


@dataclass(frozen=True)
class SharedRows:
    """How many evaluation rows are also training rows.

    Parameters
    ----------
    share : float
        Share of the evaluation rows that occur among the training rows, with the same features and response.
    repeated : float
        Share of the training rows that occur more than once among them: fresh rows repeat training rows as often.
    p_value : float
        Probability that a division by chance shares as many rows, by a normal approximation.
    """

    share: float
    repeated: float
    p_value: float

    @classmethod
    def of(cls, ours: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> SharedRows:
        """Compare the digests of evaluation rows with those of training rows."""
        from scipy.stats import norm

        values, group = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
        here = np.bincount(group[: ours.size], minlength=values.size)
        there = np.bincount(group[ours.size :], minlength=values.size)
        size, at_random = here + there, ours.size / group.size
        all_here = at_random**size
        mean = size * (at_random - all_here)
        variance = size * at_random * (1 - at_random) + size**2 * (at_random**2 - all_here) - mean**2
        n_shared, spread = int(here[there > 0].sum()), float(np.sqrt(max(variance.sum(), 0.0)))
        # Half a row less, because the number is whole: without repeated rows, no row is shared and the p-value is 1.
        p_value = float(norm.sf((n_shared - 0.5 - mean.sum()) / spread)) if n_shared else 1.0
        return cls(n_shared / ours.size, float(there[there > 1].sum() / theirs.size), p_value)

    @property
    def more_than_chance(self) -> bool:
        """Whether more rows are shared than repeated rows explain."""
        return self.beyond_chance > 0 and self.p_value < CHANCE

    @property
    def perhaps_training(self) -> bool:
        """Whether more rows are shared than repeated rows are likely to explain."""
        return self.beyond_chance > 0 and self.p_value < PERHAPS_CHANCE

    @property
    def cannot_be_told(self) -> bool:
        """Whether shared rows may be training rows: by their number, or because too many rows repeat."""
        return self.share > 0 and (self.perhaps_training or self.repeated > MOST_REPEATED)

    @property
    def too_many(self) -> bool:
        """Whether so many are shared that scores on these rows would be far too high."""
        return self.more_than_chance and self.beyond_chance > MOST_SHARED

    @property
    def beyond_chance(self) -> float:
        """Estimated share of the evaluation rows that are training rows."""
        return (self.share - self.repeated) / (1 - self.repeated) if self.repeated < 1 else 0.0


def row_digests(ensemble: TreeEnsemble, table: Table, response: Response) -> NDArray[np.uint64]:
    """Return a number for each row that is the same for equal features, as the trees see them, and equal responses."""
    values = response.target if response.target is not None else response.values
    arrays = [array for array in (response.codes, values) if array is not None]
    # A response may be passed as float32 at one place and as float64 at another.
    y = np.column_stack([array.astype(np.float32) for array in arrays]) + np.float32(0)
    digests = np.empty(table.n_rows, dtype=np.uint64)
    for part in row_blocks(table.n_rows, ensemble.n_features):
        digest = np.zeros(part.stop - part.start, dtype=np.uint64)
        for block in (table.matrix(ensemble, part), y[part]):
            for column in block.T:
                numbers = column.astype(np.float64) + 0.0  # -0.0 equals 0.0
                # NaN has many bit patterns.
                numbers[np.isnan(numbers)] = np.nan
                digest = mixed(digest ^ numbers.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        digests[part] = digest
    return digests
