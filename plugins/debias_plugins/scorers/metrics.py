"""scikit-learn metrics of raw outputs, with or without an estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import RowsError
from debias.errors import nearest
from debias.plugin import CompositionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import Rows, TreeEnsemble


ROW_LOSSES = ("accuracy", "neg_mean_squared_error", "neg_mean_absolute_error", "neg_log_loss", "neg_brier_score")
"""Metrics that are means over rows, and have a loss of each row."""
OF_SHARES = ("logistic", "softmax", "squared_error")
"""Objectives of classifiers whose outputs are probabilities on the scale of y."""
TIED = 1e-8
"""Risks that differ by at most this much are tied, as in scikit-survival."""
PAIRS_AT_ONCE = 2**22
"""Pairs of rows that are compared at once by :func:`concordance`."""


class Metric:
    """A metric of raw outputs; higher is better.

    Parameters
    ----------
    metric : str, callable or None
        The name of a scikit-learn scorer, or a scorer ``(estimator, X, y) -> float``. It gets an estimator with the
        predictions of the model (``predict`` and, for classes, ``predict_proba``), and an X without columns. None:
        "accuracy" for classifiers, "neg_mean_squared_error" for regressors, "concordance" for models of survival.
    ensemble : TreeEnsemble
    rows : Rows
        Their response and weights are used. If all weights are equal, the metric gets none.
    """

    def __init__(self, metric: str | Callable[..., float] | None, ensemble: TreeEnsemble, rows: Rows) -> None:
        self.ensemble = ensemble
        of_survival = ensemble.objective.predicts_risk
        if of_survival and isinstance(metric, str) and metric != "concordance":
            raise CompositionError(
                f"this {ensemble.source} predicts risks of censored times, which metric {metric!r} cannot "
                "compare: use metric='concordance', the default, or a function (estimator, X, y) -> number, higher is "
                "better"
            )
        if metric is None and not of_survival and not ensemble.objective.predicts_response:
            raise CompositionError(
                f"this {ensemble.source} with objective {ensemble.objective.name!r} has no metric by default: "
                "pass metric=, a function (estimator, X, y) -> number, higher is better, or the name of a scikit-learn "
                "metric"
            )
        if metric is None:
            metric = (
                "concordance" if of_survival else "accuracy" if ensemble.is_classifier else "neg_mean_squared_error"
            )
        self.name = metric if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))
        self._is_callable = not isinstance(metric, str)
        self._scorer = None if of_survival and not self._is_callable else _scorer(metric)
        response = rows.response
        if ensemble.classes is not None:
            assert response.codes is not None
            self._codes, self._y = response.codes, np.asarray(ensemble.classes)[response.codes]
        elif response.target is not None:
            target = response.target  # for LightGBM's reg_sqrt it is on the scale of margins
            self._y = _columns(np.sign(target) * target**2 if ensemble.objective.root else target)
        else:
            assert response.values is not None
            self._y = _columns(response.values + ensemble.centre)
        self._margin = response.margin
        self._weight = None if (rows.weight == rows.weight[0]).all() else rows.weight

    def __call__(self, raw: NDArray[np.float64], at: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the metric of each of several outputs for the rows `at`.

        Parameters
        ----------
        raw : array of shape (n_outcomes, n, n_outputs)
            Sums or means of the trees, without the constant or the margin of each row before the first tree.
        at : array of shape (n,)

        Returns
        -------
        array of shape (n_outcomes,)
        """
        weight = None if self._weight is None else self._weight[at]
        raw = raw + (self.ensemble.base if self._margin is None else self._margin[at])
        if self.name == "accuracy" and self.ensemble.is_classifier:
            return np.average(_codes(raw) == self._codes[at], axis=1, weights=weight)
        if self.name == "neg_mean_squared_error" and not self.ensemble.is_classifier:
            error = self.ensemble.objective.mean(raw) - self._y[at].reshape(at.size, -1)
            return -np.average((error**2).mean(axis=2), axis=1, weights=weight)
        if self._scorer is None:
            return self._concordance(raw, at, weight)
        return np.array([self._by_scorer(output, self._y[at], weight) for output in raw])

    def row_losses(self, raw: NDArray[np.float64], at: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the loss of each row for each of several outputs; its weighted mean is the metric with a minus sign.

        Parameters
        ----------
        raw, at
            As for a call.

        Returns
        -------
        array of shape (n_outcomes, n)
            For "accuracy" the loss is 0 or 1, and the mean is 1 minus the metric.

        Raises
        ------
        CompositionError
            The metric is not a mean over rows, or is not one of ``ROW_LOSSES``.
        """
        self.require_row_losses()
        raw = raw + (self.ensemble.base if self._margin is None else self._margin[at])
        if self.name == "accuracy":
            return (_codes(raw) != self._codes[at]).astype(np.float64)
        if not self.ensemble.is_classifier:
            error = self.ensemble.objective.mean(raw) - self._y[at].reshape(at.size, -1)
            return (error**2 if self.name == "neg_mean_squared_error" else np.abs(error)).mean(axis=2)
        share = _class_shares(self.ensemble, raw)
        rows = np.arange(at.size)
        if self.name == "neg_log_loss":
            share = share / share.sum(axis=-1, keepdims=True)
            return -np.log(np.maximum(share[:, rows, self._codes[at]], np.finfo(np.float64).eps))
        error = share - np.eye(share.shape[-1])[self._codes[at]]
        return (error**2).sum(axis=-1) / (2 if share.shape[-1] == 2 else 1)

    def require_row_losses(self) -> None:
        """Raise a CompositionError if the metric has no loss of each row."""
        of_numbers = ("neg_mean_squared_error", "neg_mean_absolute_error")
        if self.ensemble.objective.predicts_risk:
            raise CompositionError(
                f"metric {self.name!r} has no p-values by rows: it compares rows of survival times with each other, so "
                "that no row has a loss by itself. Leave p_values out; debias.audit tests mdi_oob"
            )
        possible = [name for name in ROW_LOSSES if (name not in of_numbers) == self.ensemble.is_classifier]
        if self._is_callable or self.name not in possible:
            raise CompositionError(
                f"metric {self.name!r} has no p-values by rows: it must be the mean of a loss that every row has by "
                f"itself, which roc_auc or r2 is not. Use {' or '.join(map(repr, possible))}, or leave p_values out"
            )
        if self.name in ("neg_log_loss", "neg_brier_score"):
            _require_shares(self.ensemble)

    def _concordance(
        self, raw: NDArray[np.float64], at: NDArray[np.int64], weight: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        bounds = self.ensemble.objective.time_bounds(self._y[at].reshape(at.size, -1))
        assert bounds is not None
        values = concordance(bounds[0], np.isfinite(bounds[1]), raw[:, :, 0], weight)
        if np.isnan(values).any():
            raise RowsError(
                f"no two of {at.size} rows can be compared by concordance, because too few have an event: pass more "
                "rows, or a metric= that is defined there"
            )
        return values

    def _by_scorer(self, raw: NDArray[np.float64], y: NDArray[Any], weight: NDArray[np.float64] | None) -> float:
        assert self._scorer is not None
        predicted = _predicted(self.ensemble, raw)
        empty = np.empty((len(raw), 0))
        try:
            value = (
                self._scorer(predicted, empty, y)
                if weight is None
                else self._scorer(predicted, empty, y, sample_weight=weight)
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise CompositionError(
                f"the metric {self.name} cannot be computed from these predictions: {error}"
                + ("" if weight is None else " (the rows have weights, so the metric gets sample_weight)")
            ) from error
        if not np.isfinite(value):
            raise RowsError(f"the metric {self.name} is {value} on {len(y)} rows; use a metric that is defined there")
        return float(value)


def _scorer(metric: str | Callable[..., float]) -> Callable[..., float]:
    from sklearn.metrics import get_scorer, get_scorer_names

    if callable(metric):
        return metric
    if metric not in get_scorer_names():
        raise CompositionError(
            f"scikit-learn has no metric {metric!r}.{nearest(metric, get_scorer_names())} "
            "sklearn.metrics.get_scorer_names() lists the metrics."
        )
    return get_scorer(metric)


def _columns(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers in scikit-learn's shape: (n_rows,) for one response, (n_rows, n_outputs) for several."""
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers


def _codes(raw: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the predicted class for outputs of shape (..., n_outputs); in a tie the first."""
    return (raw[..., 0] > 0).astype(np.int64) if raw.shape[-1] == 1 else raw.argmax(axis=-1)


def _class_shares(ensemble: TreeEnsemble, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the predicted probabilities for outputs of shape (..., n_outputs), with two columns for two classes."""
    mean = ensemble.objective.mean(raw)
    return np.concatenate([1 - mean, mean], axis=-1) if mean.shape[-1] == 1 else mean


def _require_shares(ensemble: TreeEnsemble) -> None:
    if ensemble.objective.name not in OF_SHARES:
        raise CompositionError(f"outputs of {ensemble.objective.name} are not probabilities; use metric 'accuracy'")


def _predicted(ensemble: TreeEnsemble, raw: NDArray[np.float64]) -> Any:
    """Return an estimator that returns these outputs as its predictions."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    mean = ensemble.objective.mean(raw)

    class Classes(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
        classes_ = ensemble.classes

        def predict(self, X: Any) -> NDArray[Any]:
            return np.asarray(ensemble.classes)[_codes(raw)]

        def predict_proba(self, X: Any) -> NDArray[np.float64]:
            if ensemble.objective.name not in OF_SHARES:
                raise AttributeError(f"outputs of {ensemble.objective.name} are not probabilities")
            return _class_shares(ensemble, raw)

    class Numbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        fitted_ = True

        def predict(self, X: Any) -> NDArray[np.float64]:
            return _columns(mean)

    return Classes() if ensemble.is_classifier else Numbers()


def concordance(
    time: NDArray[np.float64],
    event: NDArray[np.bool_],
    risk: NDArray[np.float64],
    weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return Harrell's index: in which share of comparable pairs the row with the earlier event has the higher risk.

    A pair is comparable if one row has an event, and the other is known to have none until then: its time is later, or
    it was censored at the same time. Tied risks count one half.

    Parameters
    ----------
    time : array of shape (n_rows,)
    event : array of bool of shape (n_rows,)
        False for rows that were censored at this time.
    risk : array of shape (n_outcomes, n_rows)
        Several predictions of each row.
    weight : array of shape (n_rows,), optional
        A pair counts as the product of the weights of its rows; ones by default.

    Returns
    -------
    array of shape (n_outcomes,)
        NaN if no pair is comparable.
    """
    weight = np.ones(time.size) if weight is None else weight
    with_event = np.flatnonzero(event)
    concordant, comparable = np.zeros(len(risk)), 0.0
    step = max(1, PAIRS_AT_ONCE // (time.size * len(risk)))
    for begin in range(0, with_event.size, step):
        first = with_event[begin : begin + step]
        outlives = (time > time[first, None]) | ((time == time[first, None]) & ~event)
        pair_weight = outlives * weight[first, None] * weight
        comparable += pair_weight.sum()
        higher_by = risk[:, first, None] - risk[:, None, :]
        share = np.where(np.abs(higher_by) <= TIED, 0.5, higher_by > 0)
        concordant += np.einsum("kij,ij->k", share, pair_weight)
    return concordant / comparable if comparable else np.full(len(risk), np.nan)
