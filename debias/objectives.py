"""What trees were grown for: the loss, its gradient and its curvature, in the three families of the plain cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Objective:
    """A loss of a response given a margin.

    Parameters
    ----------
    name : str
        "squared_error": (y - F)^2; "logistic": log-loss of y in [0, 1] given a logit F; "softmax": log-loss of
        a class given one margin a class.
    code : int
        How the compiled loops know it.
    """

    name: str
    code: int

    def response(self, y: NDArray[np.float64], margin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the negative gradient -g of the loss (half of it, for the squared error) at a margin.

        Parameters
        ----------
        y : array of shape (n_rows, n_outputs)
            Response; one-hot for "softmax".
        margin : array broadcastable to the shape of `y`

        Returns
        -------
        array of shape (n_rows, n_outputs)
            The response r_0 a boosted model is scored on, when `margin` is the constant F_0.
        """
        return y - self.mean(margin)

    def mean(self, margin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected response at a margin of shape (..., n_outputs): the inverse link."""
        if self.name == "squared_error":
            return margin
        if self.name == "logistic":
            return np.exp(-np.logaddexp(0.0, -margin))
        shifted = np.exp(margin - margin.max(axis=-1, keepdims=True))
        total: NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
        return total

    def curvature(self, margin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each row's hessian up to the factor its library chooses, shape as `margin`."""
        if self.name == "squared_error":
            return np.ones_like(margin)
        mean = self.mean(margin)
        return mean * (1 - mean)

    def loss(self, y: NDArray[np.float64], margin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the loss of each row, shape (n_rows,); `y` and `margin` as in `response`."""
        if self.name == "squared_error":
            return ((y - margin) ** 2).sum(axis=-1)
        if self.name == "logistic":
            return (np.logaddexp(0.0, margin) - y * margin).sum(axis=-1)
        top = margin.max(axis=-1, keepdims=True)
        return (top[..., 0] + np.log(np.exp(margin - top).sum(axis=-1))) - (y * margin).sum(axis=-1)


SQUARED_ERROR = Objective("squared_error", 0)
LOGISTIC = Objective("logistic", 1)
SOFTMAX = Objective("softmax", 2)
