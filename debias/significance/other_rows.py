"""Whether other rows alone explain that features cost more, so that nothing is broken and no response changed.

Nothing by the response may then differ. This alone would acquit broken columns: few rows show what an omitted column
does to predicted probabilities. So a column in which a default may have been filled in speaks against other rows, and a
feature is acquitted only if the response is shown to follow its values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from debias.rows.dependent_columns import categorical_columns
from debias.rows.loss_parts import Ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.results.loss_change import LossChange
    from debias.significance.kept_windows import KeptWindow
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

LEAST_P = 0.05
"""Other rows may explain the costs if the p-value is above this, with any number of looks. The small level of many
looks would acquit a feature that is broken."""
FILLED_SHARE, FILLED_ERRORS, FEW_VALUES = 0.1, 4.0, 10
"""A value is filled in if its share rose by this, and by so many standard errors. In other columns than that of the
feature it counts only if the column had more than ten values: shares of few values move in a drift too."""
SHOWN = 0.001
"""One-sided p-value at which the response is shown to follow the values of a feature."""
SEED = 0
"""Of the order in which values are exchanged."""


@dataclass(frozen=True, eq=False)
class OtherRows:
    """The hypothesis that other rows came, and that the response follows the features as before.

    Parameters
    ----------
    ensemble : TreeEnsemble
    grouping : Grouping
    used : array of bool of shape (n_features,)
        The features that are tested.
    before, after : KeptWindow
    recent : Ends
        Of the rows of `after`.
    p_value : float
        The smallest p-value that something by the response differs.
    """

    ensemble: TreeEnsemble
    grouping: Grouping
    used: NDArray[np.bool_]
    before: KeptWindow
    after: KeptWindow
    recent: Ends
    p_value: float

    def may_explain(self, feature: int) -> bool:
        """Return whether they may be why a feature costs more.

        Not so if a default may have been filled in: in the feature itself, or in any other column of numbers.
        """
        suspected = self.filled & ((self.grouping.index == feature) | self._is_number)
        return self.p_value > LEAST_P and not bool(suspected.any())

    def is_followed(self, feature: int) -> bool:
        """Return whether the recent rows show that the response follows the values of a feature.

        The loss is then larger if these are exchanged among the rows. It stays if they are stuck, and on average also
        if they are at random already.
        """
        from scipy.special import stdtr

        rows, share = self.after.rows, self.after.weight / self.after.weight.sum()
        columns, X = self.grouping.index == feature, rows.X.copy()
        X[:, columns] = X[np.random.default_rng(SEED).permutation(share.size)][:, columns]
        exchanged = Ends.of_rows(self.ensemble, replace(rows, X=X))
        more = exchanged.losses()[0] - self.recent.losses()[0]
        mean = float(share @ more)
        error = float(np.sqrt(share**2 @ (more - mean) ** 2))
        return error > 0 and bool(stdtr(share.size - 1, -mean / error) <= SHOWN)

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Which columns have their commonest recent value in a larger share of rows than before, shape (n_columns,)."""
        found = np.zeros(self.grouping.index.size, dtype=bool)
        shares = [window.weight / window.weight.sum() for window in (self.before, self.after)]
        for k, (known, recent) in enumerate(zip(self.before.rows.X.T, self.after.rows.X.T, strict=True)):
            values, at = np.unique(recent, return_inverse=True)
            of_values = np.bincount(at, shares[1])
            commonest, now = values[of_values.argmax()], of_values.max()
            before = float(shares[0] @ (np.isnan(known) if np.isnan(commonest) else known == commonest))
            mean = (before * known.size + now * recent.size) / (known.size + recent.size)
            error = np.sqrt(mean * (1 - mean) * (1 / known.size + 1 / recent.size))
            found[k] = now - before >= FILLED_SHARE and now - before > FILLED_ERRORS * error
        return found

    @cached_property
    def _is_number(self) -> NDArray[np.bool_]:
        """Which columns that are tested are numbers with many values, shape (n_columns,)."""
        many = np.array([np.unique(column).size > FEW_VALUES for column in self.before.rows.X.T], dtype=bool)
        return many & ~categorical_columns(self.ensemble) & self.used[self.grouping.index]


def p_of_all_rows(change: LossChange, ends: Ends) -> float:
    """Return the smallest p-value that something by the response differs over all rows, and not only those kept.

    Of what features cost by the response; and of the loss itself, if the predictions do not tell its mean. 0 if one of
    them is not known.
    """
    loss = change.loss
    p = [change.p_response, *([] if ends.tells_mean_loss else [min(1.0, 2 * min(loss.p_value, loss.p_fall))])]
    return min(0.0 if each is None or np.isnan(each) else each for each in p)
