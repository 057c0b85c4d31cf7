"""Whether probabilities of classes fail by their level or by their spread alone.

Models that were trained with class weights, or on rows that were drawn by class, predict the frequencies of their
training, and models that fit their training rows too closely predict probabilities near 0 and 1. Both may be no better
than a constant on rows whose order they predict well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from debias.results.performance import Recalibration

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEAST_OF_TREES, LEAST_OF_MARGINS = 1e-4, 1e-15
"""Smaller probabilities are raised to it. Averages over trees may be 0: in leaves of few rows a class may have none."""


class PredictedClasses(NamedTuple):
    """Predicted probabilities, and the classes of the rows.

    Parameters
    ----------
    probability : array of shape (n_rows, n_classes)
    codes : array of int64 of shape (n_rows,)
        Class of each row.
    labels : tuple of str
        Names of the classes.
    of_trees : bool
        Whether the probabilities are averages over trees, whose loss is the Brier score, and not those of margins,
        whose loss is the log loss.
    """

    probability: Array
    codes: NDArray[np.int64]
    labels: tuple[str, ...]
    of_trees: bool

    def loss(self, probability: Array) -> Array:
        """Return the loss of each row at other probabilities."""
        if not self.of_trees:
            return -np.log(probability[np.arange(len(self.codes)), self.codes])
        factor = 0.5 if len(self.labels) == 2 else 1.0  # both columns say the same
        total: Array = factor * ((probability - np.eye(len(self.labels))[self.codes]) ** 2).sum(axis=1)
        return total


def recalibrated(
    classes: PredictedClasses, weight: Array, of_constant: Array, p_value: Callable[[Array], float | None]
) -> Recalibration:
    """Return the metric of probabilities with other class frequencies, with more or less spread, and with both.

    The log of the probability of class c is ``power * log p_c + shift_c``, less what makes the sum 1. The shifts, the
    power, and both have the largest likelihood on these rows.

    Parameters
    ----------
    classes : PredictedClasses
    weight : array of shape (n_rows,)
    of_constant : array of shape (n_rows,)
        The loss of each row at the best constant.
    p_value : callable
        One-sided p-value that the weighted mean of numbers of rows is not above 0.
    """
    least = LEAST_OF_TREES if classes.of_trees else LEAST_OF_MARGINS
    log_p, share = np.log(np.maximum(classes.probability, least)), weight / weight.sum()
    (_, shifted), (power, raised), (power_of_both, both) = (
        _fitted(log_p, classes.codes, share, with_power=with_power, with_shifts=with_shifts)
        for with_power, with_shifts in ((False, True), (True, False), (True, True))
    )
    mean, observed = share @ classes.probability, np.bincount(classes.codes, share, log_p.shape[1])
    # Of two classes the second one is the positive one.
    named = 1 if mean.size == 2 else int(np.abs(mean - observed).argmax())
    of_shifted, of_raised, of_both = (classes.loss(probability) for probability in (shifted, raised, both))
    return Recalibration(
        label=classes.labels[named],
        predicted=float(mean[named]),
        observed=float(observed[named]),
        shifted=float(share @ of_shifted),
        shifted_p_value=p_value(of_constant - of_shifted),
        power=power,
        raised=float(share @ of_raised),
        raised_p_value=p_value(of_constant - of_raised),
        power_of_both=power_of_both,
        both=float(share @ of_both),
        both_p_value=p_value(of_constant - of_both),
    )


def _fitted(
    log_p: Array, codes: NDArray[np.int64], share: Array, *, with_power: bool, with_shifts: bool
) -> tuple[float, Array]:
    """Return the power of largest likelihood, 1 without one, and the probabilities."""
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    own, observed = log_p[np.arange(len(codes)), codes], np.bincount(codes, share, log_p.shape[1])
    # The first class needs no shift, and that of a class without rows has no largest likelihood.
    shifts = np.flatnonzero(observed[1:] > 0) + 1 if with_shifts else np.zeros(0, dtype=np.int64)

    def unpacked(parameters: Array) -> tuple[float, Array]:
        shift = np.zeros(observed.size)
        shift[shifts] = parameters[int(with_power) :]
        return (float(parameters[0]) if with_power else 1.0), shift

    def loss(parameters: Array) -> tuple[float, Array]:
        power, shift = unpacked(parameters)
        eta = power * log_p + shift
        total = logsumexp(eta, axis=1)
        p = np.exp(eta - total[:, None])
        of_power = [share @ ((p * log_p).sum(axis=1) - own)] if with_power else []
        return float(share @ (total - power * own - shift[codes])), np.append(of_power, (share @ p - observed)[shifts])

    begin = np.append([1.0] if with_power else [], np.zeros(shifts.size))
    bounds = [(0.0, None)] * with_power + [(None, None)] * shifts.size
    power, shift = unpacked(minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds).x)
    eta = power * log_p + shift
    return power, np.exp(eta - logsumexp(eta, axis=1, keepdims=True))
