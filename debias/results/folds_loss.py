"""How the loss of the models of a cross-validation divides: the base, and what each feature saves, in each fold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.p_values import holm_of_known
from debias.results.fields import (
    Malformed,
    flag,
    number,
    numbers,
    or_missing,
    plain_numbers,
    record,
    table,
    text_of,
    texts,
    whole_numbers,
)
from debias.results.model_comparison import LEAST_UNITS
from debias.results.performance import three_digits
from debias.results.sentences import enumerated, in_a_row
from debias.text import counted, escaped, feature_index

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FIRST = 2
"""Columns before those of features: the loss and its base."""
ROUNDING = 1e-9
"""Parts of a file add up to this share of their size."""
MOST_NAMED = 5
"""A sentence names at most this many features or folds."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FoldsLoss:
    """The mean loss of each fold on its held-out rows: that of a constant, less what each feature saves.

    ``loss = base - saved.sum(axis=1)`` in each fold, exactly, and so for the means over folds.

    Parameters
    ----------
    metric : str
        The loss: "log loss", "mean squared error", ...
    fold_names, feature_names : tuple of str
    means : array of shape (n_folds, 2 + n_features)
        Of each fold the mean over its rows of the loss, of the base, and of what each feature saves.
    errors : array of the same shape
        Standard errors over the rows of the fold, with its model as it is. NaN with fewer than 10 rows (or blocks), or
        if all rows have the same.
    freedom : array of shape (n_folds,)
        Their degrees of freedom.
    n_units : array of int64 of shape (n_folds,)
        Number of rows, or of blocks of rows, of each fold.
    in_blocks : bool
        Whether the units are blocks of rows.
    error_of_mean : array of shape (2 + n_features,)
        Standard errors of the means over folds, see Notes; NaN if they are not known.
    alpha : float
        Family-wise error rate of the folds that are called worse, and of what costs more there.

    Notes
    -----
    A mean over folds is about models that are trained on as many rows, over other data sets of the same kind. Its
    standard error comes from the differences S between folds, with the correction for shared training rows of Nadeau
    and Bengio (2003): S sqrt(1 / K + n_test / n_train). It is rather too large (docs/folds.md). The error of one fold
    is about its model on other rows of the same kind. What is the same in all rows of a fold, as the part of a feature
    that its model does not use, adds nothing to the error of a comparison of folds.

    A fold is compared with the mean of the others by a one-sided Welch test over rows, adjusted by Holm's method over
    folds. A fold whose loss has no error is not compared, and is not among the others (`not_compared`). In folds that
    are worse, what features cost more than elsewhere is tested in the same way, adjusted over all features of all
    folds.
    """

    metric: str
    fold_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    means: Array
    errors: Array
    freedom: Array
    n_units: NDArray[np.int64]
    in_blocks: bool
    error_of_mean: Array
    alpha: float

    @property
    def loss(self) -> Array:
        """Mean loss of each fold, shape (n_folds,)."""
        values: Array = self.means[:, 0]
        return values

    @property
    def base(self) -> Array:
        """Mean loss of one constant prediction, the mean output of the model of the fold, shape (n_folds,)."""
        values: Array = self.means[:, 1]
        return values

    @property
    def saved(self) -> pd.DataFrame:
        """What each feature saves: one row per fold (index ``fold``), one column per feature."""
        import pandas as pd

        return pd.DataFrame(self.means[:, FIRST:], self._index, feature_index(self.feature_names))

    @cached_property
    def above_others(self) -> Array:
        """Difference of each fold from the mean of the others, of the same shape as `means`; NaN if not compared."""
        above, compared = np.full_like(self.means, np.nan), self._compared
        if compared.any():
            own = self.means[compared]
            above[compared] = own - (own.sum(axis=0) - own) / (len(own) - 1)
        return above

    @cached_property
    def above_error(self) -> Array:
        """Standard error of `above_others`, over rows; NaN if not compared."""
        error = np.sqrt(self._variances.sum(axis=1))
        error[~self._compared] = np.nan
        error[error == 0] = np.nan
        return error

    @cached_property
    def _compared(self) -> NDArray[np.bool_]:
        """Which folds are compared with one another: those whose loss has an error, if these are two or more."""
        known = np.isfinite(self.errors[:, 0])
        return known if known.sum() > 1 else np.zeros_like(known)

    @cached_property
    def _variances(self) -> Array:
        """Variance of the part of each fold in each difference, shape (n_folds, n_folds, 2 + n_features)."""
        n_folds, n_compared = len(self.means), int(self._compared.sum())
        share = np.full((n_folds, n_folds), 1 / max(n_compared - 1, 1) ** 2)
        np.fill_diagonal(share, 1.0)
        # What is the same in all rows of a fold that is compared does not vary: a feature that its model does not use.
        errors = np.where(self._compared[:, None], np.nan_to_num(self.errors), 0.0)
        variances: Array = share[:, :, None] * errors**2
        return variances

    @cached_property
    def _p_values(self) -> Array:
        """One-sided p-values that the loss is higher, and that a feature saves less, than in the other folds."""
        from scipy.special import stdtr

        variances = self._variances
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = variances.sum(axis=1) ** 2 / (variances**2 / self.freedom[:, None]).sum(axis=1)
            ratio = self.above_others / self.above_error
            ratio[:, FIRST:] *= -1
            p: Array = stdtr(freedom, -ratio)
        return p

    @cached_property
    def p_adjusted(self) -> Array:
        """Adjusted p-value of each fold that its loss is above that of the others; NaN if not tested."""
        return holm_of_known(self._p_values[:, 0])

    @cached_property
    def costs_p_adjusted(self) -> Array:
        """Adjusted p-values that features save less than in the other folds, shape (n_folds, n_features)."""
        p = self._p_values[:, FIRST:]
        return holm_of_known(p.ravel()).reshape(p.shape)

    @property
    def worse(self) -> list[str]:
        """Names of the folds whose loss is above that of the others beyond chance, the worst first."""
        return [self.fold_names[k] for k in self._worse()]

    @property
    def not_compared(self) -> list[str]:
        """Names of the folds that were not compared with the others: too few rows, or the same loss in all of them."""
        return [name for name, yes in zip(self.fold_names, self._compared, strict=True) if not yes]

    def costs_more(self, fold: str) -> dict[str, float]:
        """Return the features that save less in a fold than in the others beyond chance, and how much less.

        Parameters
        ----------
        fold : str
            Name of the fold.

        Returns
        -------
        dict of str to float
            The largest first.
        """
        k = self.fold_names.index(fold)
        cost = -self.above_others[k, FIRST:]
        found = np.flatnonzero(self.costs_p_adjusted[k] <= self.alpha)
        return {self.feature_names[j]: float(cost[j]) for j in found[np.argsort(-cost[found], kind="stable")]}

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``, the largest mean first.

        Columns: ``saved``, the mean over folds of what the feature saves; its ``standard_error``; ``lowest`` and
        ``highest``, the least and most that it saves in a fold; and ``costs_more_in``, the folds that are worse than
        the others and in which it saves less than there, beyond chance.
        """
        import pandas as pd

        saved, mean = self.means[:, FIRST:], self._mean[FIRST:]
        more = {fold: self.costs_more(fold) for fold in self.worse}
        columns = {
            "saved": mean,
            "standard_error": self.error_of_mean[FIRST:],
            "lowest": saved.min(axis=0),
            "highest": saved.max(axis=0),
            "costs_more_in": [
                ", ".join(fold for fold, costs in more.items() if name in costs) for name in self.feature_names
            ],
        }
        frame = pd.DataFrame(columns, index=feature_index(self.feature_names))
        return frame.iloc[np.argsort(-mean, kind="stable")]

    def of_folds(self) -> pd.DataFrame:
        """Return a data frame with index ``fold``, in the order of the folds.

        Columns: ``loss`` and ``base`` of the fold, the ``error`` of its loss over rows, ``above_others``, the
        difference from the mean loss of the other folds, with ``above_error`` and ``p_adjusted``, and ``worse``, which
        is NA for folds that were not compared.
        """
        import pandas as pd

        worse = set(self._worse())
        columns = {
            "loss": self.loss,
            "error": self.errors[:, 0],
            "base": self.base,
            "above_others": self.above_others[:, 0],
            "above_error": self.above_error[:, 0],
            "p_adjusted": self.p_adjusted,
            "worse": pd.array([_yes_or_na(k in worse, self._compared[k]) for k in range(len(self.means))], "boolean"),
        }
        return pd.DataFrame(columns, index=self._index)

    def __repr__(self) -> str:
        return "\n".join(self.summary())

    def summary(self) -> list[str]:
        """Return in sentences how the loss divides, and in which folds it is higher, by which features."""
        return [self._division(), *self._of_worse_folds()]

    @property
    def _index(self) -> pd.Index:
        import pandas as pd

        return pd.Index(list(self.fold_names), name="fold", dtype=object)

    @property
    def _mean(self) -> Array:
        mean: Array = self.means.mean(axis=0)
        return mean

    def _worse(self) -> list[int]:
        found = np.flatnonzero(self.p_adjusted <= self.alpha)
        return [int(k) for k in found[np.argsort(-self.above_others[found, 0], kind="stable")]]

    def _division(self) -> str:
        """Return how the mean loss divides; standard errors of features are in brackets."""
        mean, error = self._mean, self.error_of_mean
        saved = mean[FIRST:]
        order = np.argsort(-saved, kind="stable")
        told = [int(k) for k in order[:MOST_NAMED] if saved[k] > 0]
        left = sorted(set(range(saved.size)) - set(told))
        within = "" if np.isnan(error[0]) else f" (standard error {_two_digits(error[0])})"
        parts = [f"{escaped(self.feature_names[k])} {three_digits(saved[k])}{_within(error[FIRST + k])}" for k in told]
        if left:
            parts.append(f"{counted(len(left), 'other feature')} {three_digits(saved[left].sum())}")
        return (
            f"Over {counted(len(self.means), 'fold')} the {escaped(self.metric)} is {three_digits(mean[0])} on "
            f"average{within}, and that of a constant {three_digits(mean[1])}. The difference is what features save: "
            f"{'; '.join(parts)}."
        )

    def _of_worse_folds(self) -> list[str]:
        if not self._compared.any():
            return [f"Whether a fold is worse than the others was not tested: {self._untested_because}."]
        sentences = []
        for k in self._worse()[:MOST_NAMED]:
            above, name = self.above_others[k], self.fold_names[k]
            more = self.costs_more(name)
            parts = [f"{escaped(feature)} {_signed(cost)}" for feature, cost in more.items()]
            by = "No single feature saves less there beyond chance"
            if more:
                by = f"Beyond chance, features save less there: {in_a_row(parts, MOST_NAMED)}"
            others = above[0] - above[1] - sum(more.values())
            sentences.append(
                f"{escaped(name)} is worse than the other folds: its {escaped(self.metric)} is "
                f"{three_digits(self.loss[k])} ({_signed(above[0])}, standard error "
                f"{_two_digits(self.above_error[k, 0])}). {by}. The rest: the base {_signed(above[1])}, "
                f"{'other ' if more else ''}features together {_signed(others)}."
            )
        if len(self._worse()) > MOST_NAMED:
            sentences.append(f"{counted(len(self._worse()) - MOST_NAMED, 'further fold')} are worse than the others.")
        if not sentences:
            of = " that was compared" if self.not_compared else ""
            sentences.append(f"No fold{of} has a higher loss than the others beyond chance.")
        if self.not_compared:
            sentences.append(f"Left out of the comparison of folds: {self._untested_because}.")
        sentences.append(
            f"Folds are compared over {'blocks of rows' if self.in_blocks else 'rows'}, with their models as they are: "
            "a worse fold has more difficult rows, or a worse model, and this does not tell which."
        )
        return sentences

    @property
    def _untested_because(self) -> str:
        """Why folds were not compared, with their names."""
        if len(self.means) == 1:
            return "there is one fold only"
        units = "blocks of rows" if self.in_blocks else "rows"
        known, few = np.isfinite(self.errors[:, 0]), self.n_units < LEAST_UNITS
        reasons = []
        for of, what in (few, f"fewer than {LEAST_UNITS} {units}"), (~few, f"the same loss in all {units}"):
            names = [escaped(self.fold_names[k]) for k in np.flatnonzero(of & ~known)]
            if names:
                reasons.append(f"{enumerated(names, MOST_NAMED)} {'has' if len(names) == 1 else 'have'} {what}")
        if known.sum() == 1:
            reasons.append(f"so {escaped(self.fold_names[int(known.argmax())])} has no other to be compared with")
        return "; ".join(reasons)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values. Numbers that are not known are None."""
        return {
            "metric": self.metric,
            "fold_names": list(self.fold_names),
            "feature_names": list(self.feature_names),
            "means": self.means.tolist(),
            "errors": [plain_numbers(row) for row in self.errors],
            "freedom": self.freedom.tolist(),
            "n_units": self.n_units.tolist(),
            "in_blocks": self.in_blocks,
            "error_of_mean": plain_numbers(self.error_of_mean),
            "alpha": self.alpha,
            "worse": self.worse,
            "not_compared": self.not_compared,
        }

    @classmethod
    def read(cls, plain: dict[str, Any], fold_names: tuple[str, ...]) -> FoldsLoss:
        """Return what :meth:`to_dict` returned.

        Parameters
        ----------
        plain : dict
        fold_names : tuple of str
            Folds of the audit that it belongs to.

        Raises
        ------
        Malformed
            ``to_dict`` did not write this.
        """
        fields = record(plain, FIELDS, "loss.")
        worse, not_compared = list(fields.pop("worse")), list(fields.pop("not_compared"))
        found = cls(**fields)
        shape = (len(fold_names), FIRST + len(found.feature_names))
        if found.fold_names != fold_names or found.means.shape != shape or found.errors.shape != shape:
            raise Malformed(f"loss does not have {shape[0]} folds and {shape[1] - FIRST} features")
        if (found.freedom.shape, found.n_units.shape, found.error_of_mean.shape) != (shape[:1], shape[:1], shape[1:]):
            raise Malformed("loss has arrays of other lengths")
        if (found.errors < 0).any() or (found.error_of_mean < 0).any() or not (found.freedom > 0).all():
            raise Malformed("loss has standard errors or degrees of freedom below 0")
        parts = found.base - found.means[:, FIRST:].sum(axis=1)
        if not (np.abs(found.loss - parts) <= ROUNDING * np.abs(found.means).sum(axis=1)).all():
            raise Malformed("the parts of loss do not add up")
        if not 0 < found.alpha < 1 or worse != found.worse:
            raise Malformed("loss.worse does not follow from its numbers")
        if not_compared != found.not_compared:
            raise Malformed("loss.not_compared does not follow from its numbers")
        return found


def _yes_or_na(yes: bool, known: bool) -> bool | None:
    """Return whether something is so, or None, which pandas shows as NA, if it is not known."""
    return yes if known else None


def _within(error: float) -> str:
    return "" if np.isnan(error) else f" ({_two_digits(error)})"


def _two_digits(number: float) -> str:
    """Return a number with two digits, and all digits of a whole number: 0.041, 5.8, 126."""
    return three_digits(number) if abs(number) >= 10 else f"{number:.2g}"


def _signed(number: float) -> str:
    return f"{'+' if number > 0 else ''}{three_digits(number)}"


def _errors(value: Any, at: str) -> Array:
    if not isinstance(value, list) or not value:
        raise Malformed(f"{at} is not a list of rows")
    rows = [or_missing(row, at) for row in value]
    if len({row.size for row in rows}) > 1:
        raise Malformed(f"{at} has rows of different lengths")
    return np.array(rows)


FIELDS = {
    "metric": text_of,
    "fold_names": texts,
    "feature_names": texts,
    "means": table,
    "errors": _errors,
    "freedom": numbers,
    "n_units": whole_numbers,
    "in_blocks": flag,
    "error_of_mean": or_missing,
    "alpha": number,
    "worse": texts,
    "not_compared": texts,
}
