"""How the mean of a response depends on an additive function of the columns, and the fit of such a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ITERATIONS = 50


class Link(NamedTuple):
    """How the mean of a response depends on an additive function of the columns."""

    name: str

    @property
    def adds_up_to(self) -> str | None:
        """What the functions add up to, in words; None if that is the mean itself."""
        return {"logit": "log odds", "log": "logarithm of the mean"}.get(self.name)

    def mean(self, eta: Array) -> Array:
        """Return the mean."""
        if self.name == "logit":
            return 1 / (1 + np.exp(-np.clip(eta, -30, 30)))
        return np.exp(np.clip(eta, -30, 30)) if self.name == "log" else eta

    def predictor(self, mean: Array) -> Array:
        """Return the value of the additive function, between -30 and 30 where it is not the mean itself."""
        from scipy.special import logit

        if self.name == "logit":
            return np.asarray(np.clip(logit(mean), -30, 30), dtype=np.float64)
        return np.log(np.clip(mean, np.exp(-30.0), np.exp(30.0))) if self.name == "log" else mean

    def weight(self, mean: Array) -> Array:
        """Return the derivative of the mean, which is also the variance of a class and of a count."""
        if self.name == "logit":
            return mean * (1 - mean)
        return mean if self.name == "log" else np.ones_like(mean)


IDENTITY, LOGIT, LOG = Link("identity"), Link("logit"), Link("log")
LINKS = {"logistic": LOGIT, "softmax": LOGIT, "hinge": LOGIT, "exponential": LOGIT} | dict.fromkeys(
    ("poisson", "gamma", "tweedie"), LOG
)
"""The links of objectives; that of the others with a loss is the identity."""


def fitted_coefficients(
    functions: Array,
    y: Array,
    share: Array,
    offset: Array,
    ridge: Array,
    link: Link,
    start: Array | None = None,
) -> tuple[Array, Array]:
    """Return the coefficients of functions, and the inverse of the information, by Newton's method.

    They minimise the loss of the link plus half of the sum of `ridge` times squared coefficients.

    Parameters
    ----------
    functions : array of shape (n_rows, n_functions)
    y : array of shape (n_rows,)
        Response.
    share : array of shape (n_rows,)
        Weights.
    offset : array of shape (n_rows,)
        What is added to the sum of the functions.
    ridge : array of shape (n_functions,)
    link : Link
    start : array of shape (n_start,), optional
        Coefficients of the first functions from which to begin; 0 for the others.
    """
    from scipy.linalg import cho_factor, cho_solve

    def loss(eta: Array, coefficient: Array) -> float:
        if link is IDENTITY:
            of_rows = eta**2 / 2
        else:
            of_rows = np.logaddexp(0, eta) if link is LOGIT else np.exp(np.clip(eta, -30, 30))
        return float(share @ (of_rows - y * eta) + ridge @ coefficient**2 / 2)

    coefficient = np.zeros(functions.shape[1])
    if start is not None:
        coefficient[: start.size] = start
    eta = offset + functions @ coefficient
    before = loss(eta, coefficient)
    for _ in range(ITERATIONS):
        mean = link.mean(eta)
        working = share * link.weight(mean)
        information = functions.T @ (working[:, None] * functions) + np.diag(ridge)
        information[np.diag_indices_from(information)] += 1e-10 * np.trace(information)
        factor = cho_factor(information)
        step = cho_solve(factor, functions.T @ (share * (y - mean)) - ridge * coefficient)
        size = 1.0
        while (
            loss(offset + functions @ (coefficient + size * step), coefficient + size * step) > before and size > 1e-4
        ):
            size /= 2
        coefficient = coefficient + size * step
        eta = offset + functions @ coefficient
        after = loss(eta, coefficient)
        if before - after < 1e-8 * max(1.0, abs(before)):
            break
        before = after
    return coefficient, cho_solve(factor, np.eye(len(ridge)))
