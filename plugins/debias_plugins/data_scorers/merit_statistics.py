"""Merits of tables of classes by values, and their exact means over permutations (Hong et al. 1996, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Merit:
    """A merit, its mean for noise, and the impurity it reduces, as functions of a table x_ij of shape (F, C)."""

    name: str
    of: Callable[[Counts], NDArray[np.float64]]
    """Merits of tables of shape (..., F, C); the result has shape (...)."""
    expected: Callable[[Counts], float]
    """Exact mean over permutations of the rows, for one table of shape (F, C)."""
    impurity: Callable[[Counts], float] | None
    """I(C) from the class frequencies, if the merit is I(C) - I(C|F)."""


def gini(frequencies: NDArray[Any]) -> Any:
    """Return the Gini impurity of frequencies along the last axis (eq. 1)."""
    total = np.maximum(frequencies.sum(axis=-1, keepdims=True), 1)
    return 1 - ((frequencies / total) ** 2).sum(axis=-1)


def entropy(frequencies: NDArray[Any]) -> Any:
    """Return the entropy of frequencies along the last axis, in nats (eq. 2)."""
    n = np.maximum(frequencies.sum(axis=-1), 1)
    value = np.log(n) - _x_log_x(frequencies).sum(axis=-1) / n
    return np.where(value < 1e-13, 0.0, value)  # with one value only it is 0 up to rounding


def expected_entropy(branches: Counts, classes: Counts) -> float:
    """Return the exact mean over permutations of H(C|F): E X log X under the hypergeometric distribution of eq. 10.

    Equation 26 as printed has wrong exponents and a wrong sign. Here X log X is summed over the distribution itself,
    once for each distinct branch size.

    Parameters
    ----------
    branches, classes : array of int64
        Frequencies a_j of the feature's values and b_i of the classes. Both sum to N.
    """
    from debias_plugins.data_scorers.kernels.merits import expected_x_log_x

    sizes, times = np.unique(branches, return_counts=True)
    n = int(branches.sum())
    inner = sum(
        t * sum(expected_x_log_x(n, int(a), int(b)) for b in classes) for a, t in zip(sizes, times, strict=True)
    )
    return float((_x_log_x(branches).sum() - inner) / n)


def _x_log_x(x: NDArray[Any]) -> NDArray[np.float64]:
    return x * np.log(np.maximum(x, 1))


def _impurity_decrease(impurity: Callable[[NDArray[Any]], Any]) -> Callable[[Counts], NDArray[np.float64]]:
    def decrease(tables: Counts) -> NDArray[np.float64]:
        sizes = tables.sum(axis=-1)
        within = (sizes * impurity(tables)).sum(axis=-1) / sizes.sum(axis=-1)
        return impurity(tables.sum(axis=-2)) - within

    return decrease


def _expected_gini_decrease(table: Counts) -> float:
    """Return I(C) - E I(C|F) = G(C) (F - 1) / (N - 1), from eq. 16."""
    n = table.sum()
    return float(gini(table.sum(axis=0)) * (len(table) - 1) / (n - 1)) if n > 1 else 0.0


def _expected_information(table: Counts) -> float:
    classes = table.sum(axis=0)
    return float(entropy(classes)) - expected_entropy(table.sum(axis=1), classes) if min(table.shape) > 1 else 0.0


def _approximate_information(table: Counts) -> float:
    return (len(table) - 1) * (table.shape[1] - 1) / (2 * float(table.sum()))


def _gain_ratio_scale(tables: Counts) -> Any:
    return entropy(tables.sum(axis=-1))


def _symmetric_scale(tables: Counts) -> Any:
    return (entropy(tables.sum(axis=-1)) + entropy(tables.sum(axis=-2))) / 2


def _scaled(name: str, scale: Callable[[Counts], Any]) -> Merit:
    """Return the merit that divides information by an entropy; permutations do not change the entropy."""
    return Merit(
        name,
        of=lambda tables: ratio(_information(tables), np.asarray(scale(tables)), 0.0),
        expected=lambda table: float(ratio(np.asarray(_expected_information(table)), np.asarray(scale(table)), 0.0)),
        impurity=None,
    )


def _chi_square(tables: Counts) -> NDArray[np.float64]:
    n = tables.sum(axis=(-2, -1))[..., None, None]
    mean = tables.sum(axis=-1, keepdims=True) * tables.sum(axis=-2, keepdims=True) / n
    return np.divide((tables - mean) ** 2, mean, out=np.zeros_like(mean), where=mean > 0).sum(axis=(-2, -1))


def _expected_chi_square(table: Counts) -> float:
    n = float(table.sum())
    return n / (n - 1) * (len(table) - 1) * (table.shape[1] - 1) if n > 1 else 0.0


def ratio(above: NDArray[np.float64], below: NDArray[np.float64], both_zero: float) -> NDArray[np.float64]:
    """Return above / below, and `both_zero` where below is 0."""
    return np.divide(above, below, out=np.full(np.shape(above), both_zero), where=below != 0)


_information = _impurity_decrease(entropy)

GINI = Merit("gini_merit", _impurity_decrease(gini), _expected_gini_decrease, gini)
ENTROPY = Merit("entropy_merit", _information, _expected_information, entropy)
APPROXIMATE_ENTROPY = Merit("entropy_merit", _information, _approximate_information, entropy)
GAIN_RATIO = _scaled("gain_ratio", _gain_ratio_scale)
SYMMETRIC_UNCERTAINTY = _scaled("symmetric_uncertainty", _symmetric_scale)
CHI_SQUARE = Merit("chi_square", _chi_square, _expected_chi_square, None)
