"""What an audit says beside its scores: how well the model predicts the rows, and which columns are nearly the same."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from debias.errors import DebiasError
from debias.text import percent

CHANCE = 0.05
"""From this p-value on, a skill above 0 may be chance."""
CLEAR = 0.5
"""From this correlation on, y follows predictions that are no better than a constant, so that its scale is wrong;"""
CLEAR_AUC = 0.7
"""and from this area under the curve on, the probabilities."""
ROWS_TO_SEPARATE, NEARLY_ONE = 20, 0.9999
"""Fewer rows may be separated without an error by chance; from this R2 on, y is predicted nearly without an error."""
Y_IS_PREDICTED = "y is equal to the prediction"
"""Warnings that y seems to be what the model predicts begin so, those that a history stored too."""
ROWS_DIFFER = "these rows differ from the training rows at the splits of the model"
"""Warnings of rows that are distributed in another way than the training rows begin so."""
_NUMBERS = ("value", "constant", "skill", "auc", "correlation", "p_value")
OF_QUERIES = "NDCG"
"""The metric of rankers, whose queries count as rows do elsewhere."""
OF_DISTRIBUTIONS = ("negative log likelihood", "CRPS")
"""Metrics of models that predict a distribution of y."""
HIGHER_IS_BETTER = ("R2", "concordance", OF_QUERIES)
"""Metrics that are no losses."""
_REFERENCE = {"concordance": "a constant", OF_QUERIES: "a random order"}
_TOO_CLOSE = (
    "The probabilities are too close to 0 and 1, as those of models that follow their training rows too closely"
)
_CHECK = (
    "Check that y belongs to these rows, in this order, with the labels and units of training. If it does, the model "
    "is no better than a constant here."
)
_OFFSET = " If it was trained with a start margin for each row, such as the log of an exposure, these rows need theirs."
_RECALIBRATE = "Use its order of rows only, or calibrate its probabilities on other rows before anyone decides by them."


@dataclass(frozen=True, kw_only=True)
class Recalibration:
    """How well probabilities of classes would predict with other class frequencies, and with more or less spread.

    Parameters
    ----------
    label : str
        The positive class; of more than two classes that whose frequency is predicted worst.
    predicted, observed : float
        Its mean probability, and its share of the rows.
    shifted, shifted_p_value : float, float or None
        The metric of the probabilities if each is multiplied by a factor for its class, so that the frequencies are
        those of the rows (the sum over classes is 1 again), and the one-sided p-value that these predict no better than
        the best constant.
    power, raised, raised_p_value : float, float, float or None
        The power to which probabilities are taken, below 1 if they are too close to 0 and 1; the metric with it, and
        its p-value.
    power_of_both, both, both_p_value : float, float, float or None
        The same with a power and with factors.
    """

    PROBABILITIES: ClassVar[tuple[str, ...]] = (
        "predicted",
        "observed",
        "shifted_p_value",
        "raised_p_value",
        "both_p_value",
    )
    OTHERS: ClassVar[tuple[str, ...]] = ("shifted", "power", "raised", "power_of_both", "both")

    label: str
    predicted: float
    observed: float
    shifted: float
    shifted_p_value: float | None
    power: float
    raised: float
    raised_p_value: float | None
    power_of_both: float
    both: float
    both_p_value: float | None

    def in_words(self, metric: str | None) -> str:
        """Return what is wrong with the probabilities: the simplest that explains it, or nothing."""
        frequencies = (
            f"The model gives class {self.label} a mean probability of {percent(self.predicted)}, and "
            f"{percent(self.observed)} of these rows are of this class. Class weights, resampling before training, and "
            "rows of another population have this effect. "
        )
        if _is_small(self.shifted_p_value):
            return f"{frequencies}With the frequencies of these rows the {metric} is {three_digits(self.shifted)}."
        if self.power < 1 and _is_small(self.raised_p_value):
            return (
                f"{_TOO_CLOSE}. With {self.power:.2f} times the log odds the {metric} is {three_digits(self.raised)}."
            )
        if self.power_of_both < 1 and _is_small(self.both_p_value):
            return (
                f"{frequencies}{_TOO_CLOSE}. With the frequencies of these rows and {self.power_of_both:.2f} times the "
                f"log odds the {metric} is {three_digits(self.both)}."
            )
        return ""

    def check(self) -> None:
        """Raise a DebiasError unless the numbers are finite and in range."""
        for name in (*self.PROBABILITIES, *self.OTHERS):
            number, most = getattr(self, name), 1 + 1e-9 if name in self.PROBABILITIES else math.inf
            if number is not None and not (math.isfinite(number) and 0 <= number <= most):
                raise DebiasError(f"performance.recalibration.{name} is {number}, which it cannot be")


def _is_small(p_value: float | None) -> bool:
    return p_value is not None and p_value <= CHANCE


@dataclass(frozen=True, kw_only=True)
class Performance:
    """How well a model predicts the audited rows. All numbers are of these rows, with their weights.

    Parameters
    ----------
    metric : str or None
        "R2" for numbers; "Brier score" for the classes of averaged trees and "log loss" for those of boosted trees;
        "concordance" for survival; "NDCG" for rankers; otherwise the loss the model was trained for. None if nothing
        was computed.
    value : float or None
        The metric of the predictions; of the out-of-bag predictions, if these are out-of-bag rows.
    constant : float or None
        The metric of the best constant for these rows; for rankers its mean over all orders of the rows.
    skill : float or None
        (value - constant) / (best - constant), where `best` is the metric of perfect predictions: 1 if the predictions
        are perfect, 0 if they are as good as the constant, negative if they are worse. For R2 it is R2 itself, and for
        losses the share of the loss of the constant that the model saves. For log likelihoods of distributions, which
        have no best value, it is the share of Cox and Snell, 1 - exp(-2 (constant - value)).
    auc : float or None
        Area under the ROC curve, for classes; for more than two its mean over the classes, each against all others.
    correlation : float or None
        Correlation of predictions and y, for one number a row; None also if the predictions are all the same.
    n_rows : int or None
        Number of rows with a prediction and a weight above 0. A row that was in every bag has no prediction.
    p_value : float or None
        One-sided p-value that the model predicts no better than the constant, from the losses of rows (of blocks or
        queries); for survival from the predictions and the log-rank scores of the rows. None for fewer than 10 rows.
    untold_because : str or None
        Why nothing was computed.
    recalibration : Recalibration or None
        For probabilities of classes that are no better than a constant, but order the rows well; else None.
    before_calibration : bool
        Whether there is a `recalibration` of the trees inside a model that calibrates their probabilities itself. How
        well the model predicts is not known then.

    Examples
    --------
    >>> from debias.results.performance import Performance
    >>> performance = Performance(metric="R2", value=0.43, constant=0.0, skill=0.43, n_rows=442, p_value=1e-9)
    >>> performance.better_than_constant, performance.in_words()
    (True, 'R2 0.430')
    """

    metric: str | None = None
    value: float | None = None
    constant: float | None = None
    skill: float | None = None
    auc: float | None = None
    correlation: float | None = None
    n_rows: int | None = None
    p_value: float | None = None
    untold_because: str | None = None
    recalibration: Recalibration | None = None
    before_calibration: bool = False

    @property
    def better_than_constant(self) -> bool | None:
        """Whether the model predicts better than the best constant, beyond chance.

        False if its metric is not better on these rows. None if it is better, but this may be chance or there are too
        few rows to tell; if nothing was computed; and `before_calibration`.
        """
        if self.skill is None or self.before_calibration:
            return None
        if self.skill <= 0:
            return False
        return True if self.p_value is not None and self.p_value <= CHANCE else None

    @property
    def separates_all(self) -> bool:
        """Whether the predictions separate the classes of enough rows without an error (AUC 1)."""
        return self.auc == 1 and (self.n_rows or 0) >= ROWS_TO_SEPARATE

    @property
    def nearly_without_error(self) -> bool:
        """Whether the predictions of enough rows are nearly equal to y, a number (R2 of .9999 or more)."""
        return self.metric == "R2" and (self.skill or 0.0) >= NEARLY_ONE and (self.n_rows or 0) >= ROWS_TO_SEPARATE

    @property
    def too_good(self) -> str | None:
        """Why these predictions are too good to be taken for those of rows that the model has not seen, or None."""
        if not (self.separates_all or self.nearly_without_error):
            return None
        found = "no row is on the wrong side" if self.separates_all else "that is nearly without an error"
        return (
            f"{found}, which is rare for rows that a model has not seen: check that y was observed and not predicted, "
            "and that no feature gives it away"
        )

    @property
    def why_probabilities_fail(self) -> str:
        """What is wrong with probabilities that are no better than a constant, if other ones in their order are better.

        Empty if that is not so, or not known.
        """
        return "" if self.recalibration is None else self.recalibration.in_words(self.metric)

    def in_words(self) -> str:
        """Return the metric of the model and that of the constant: "log loss 0.412 (0.655 for the best constant)"."""
        if self.metric is None or self.value is None or self.constant is None:
            return f"not computed: {self.untold_because}"
        auc = "" if self.auc is None else f", AUC {three_digits(self.auc)}"
        if self.metric == "R2":
            return f"R2 {three_digits(self.value)}"
        value, constant = three_digits(self.value), three_digits(self.constant)
        before = ", before calibration" if self.before_calibration else ""
        return f"{self.metric} {value} ({constant} for {self.reference}){auc}{before}"

    @property
    def reference(self) -> str:
        """What `constant` is the metric of: "the best constant", or for rankers "a random order"."""
        return _REFERENCE.get(str(self.metric), "the best constant")

    def named_values(self) -> list[tuple[str, float]]:
        """Return the metric of the model and, for classes, its AUC, each with its name."""
        named = {self.metric: self.value, "AUC": self.auc}
        return [(str(name), value) for name, value in named.items() if value is not None]

    def sentence(self) -> str:
        """Return the performance as a sentence."""
        if self.metric is None:
            return f"How well the model predicts these rows was not computed: {self.untold_because}."
        if self.before_calibration:
            return (
                f"The trees predict these rows with {self.in_words()}. The model calibrates these probabilities, and "
                "its own were not judged."
            )
        found = f"The model predicts these rows with {self.in_words()}{self.chance()}."
        if self.too_good is not None:
            found += f" {self.too_good[:1].upper()}{self.too_good[1:]}."
        return found

    def chance(self) -> str:
        """Return a clause that says that a positive skill may be chance; empty if that is not so, or not known."""
        if self.better_than_constant is not None or self.p_value is None or self.before_calibration:
            return ""
        by = "" if self.auc is None else f"by the {self.metric}, "
        return f"; {by}a constant may be as good, because chance alone gives this with probability {self.p_value:.2g}"

    def doubts(self) -> list[str]:
        """Return that the model predicts no better than a constant, and what to check; empty if it is better."""
        if self.better_than_constant is not False:
            return []
        if self.why_probabilities_fail:
            return [
                "The model puts these rows in a better order than chance, but its probabilities are no better than a "
                f"constant: {self.in_words()}.",
                f"{self.why_probabilities_fail} {_RECALIBRATE}",
            ]
        hint = ""
        if self.correlation is not None and self.correlation >= CLEAR and self.metric in OF_DISTRIBUTIONS:
            hint = (
                f"The means of the predicted distributions follow y (correlation {self.correlation:.2f}), but the "
                "distributions do not fit. Either y is on another scale than in training, or the model predicts too "
                "little spread, as one with too many rounds does: stop earlier then, or use the means only. "
            )
        elif self.correlation is not None and self.correlation >= CLEAR:
            hint = (
                f"y rises with the predictions (correlation {self.correlation:.2f}), but it is on another scale: it "
                "may have other units than in training, or be transformed. "
            )
        elif self.auc is not None and self.auc >= CLEAR_AUC:
            hint = "The predictions put these rows in a better order than chance, but the probabilities do not fit. "
        offset = _OFFSET if self.metric is not None and self.metric.endswith("deviance") else ""
        begins = f"On these rows the model predicts no better than a constant: {self.in_words()}."
        return [begins, hint + _CHECK + offset]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {**asdict(self), "better_than_constant": self.better_than_constant}

    def check(self) -> None:
        """Raise a DebiasError unless the numbers are finite, in range, and all there or all absent."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        for name, number in numbers.items():
            if number is not None and not math.isfinite(number):
                raise DebiasError(f"performance.{name} is {number}")
        if (self.metric is None) != (self.untold_because is not None):
            raise DebiasError("performance must have either a metric or the reason why it was not computed")
        for name in ("value", "constant", "skill", "n_rows"):
            if (self.metric is None) != (getattr(self, name) is None):
                raise DebiasError(f"performance.{name} contradicts performance.metric")
        if self.recalibration is not None:
            self.recalibration.check()
        for name in ("auc", "p_value"):
            if numbers[name] is not None and not 0 <= numbers[name] <= 1:
                raise DebiasError(f"performance.{name} is outside 0 to 1")
        if self.correlation is not None and abs(self.correlation) > 1 + 1e-9:
            raise DebiasError("performance.correlation is outside -1 to 1")


def three_digits(number: float) -> str:
    """Return a number with three digits: 0.412, 12.3, -35,600."""
    if number == 0 or abs(number) >= 100:
        return f"{number:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(number))))
    return f"{number:.3g}" if digits > 6 else f"{number:.{digits}f}"


@dataclass(frozen=True)
class NearDuplicates:
    """Features whose columns have nearly the same order of rows, so that trees can use one in place of another.

    Parameters
    ----------
    features : tuple of str
        Two or more features, the one with the largest score first.
    correlation : float
        The smallest absolute rank correlation (Spearman) of two of them; 1 for columns of categories that differ only
        in their labels.
    """

    features: tuple[str, ...]
    correlation: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {"features": list(self.features), "correlation": self.correlation}
