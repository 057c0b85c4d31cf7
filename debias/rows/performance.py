"""The performance of a model on evaluation rows: its loss beside that of the best constant, and a test of the two.

The loss is the one that the trees were grown for: of averaged trees the squared error (of classes the Brier score), of
boosted trees that of the objective. Survival models and rankers compare rows, so their metrics do too:
concordance and NDCG (:mod:`debias.rows.order_of_predictions`). Models that are sums of others are asked for their own
predictions, whose loss is the squared error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from debias.results.performance import CLEAR_AUC, Performance
from debias.rows.classes import class_codes
from debias.rows.order_of_predictions import concordance, ndcg, roc_area, weighted_sum
from debias.rows.recalibration import PredictedClasses, recalibrated
from debias.trees.objectives import SQUARED_ERROR, RowLoss
from debias.trees.survival_objectives import cumulative_hazard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.objectives import Objective

    Array = NDArray[np.float64]

METRICS = {
    "squared_error": "R2",
    "logistic": "log loss",
    "softmax": "log loss",
    "absolute_error": "mean absolute error",
    "squared_log_error": "halved mean squared log error",
    "quantile": "pinball loss",
    "poisson": "Poisson deviance",
    "gamma": "gamma deviance",
    "tweedie": "Tweedie deviance",
}
"""Names of losses as readers know them; others are called after their objective."""
SUM_OF_LOG_LOSSES = "sum of log losses"
"""That of each class against the others, or of each label. It is larger than the log loss of the same probabilities."""
UNITS_AT_LEAST = 10
"""With fewer rows (blocks, queries) nothing is tested."""
LARGEST_MARGIN = 700.0
"""The exponential of a larger one overflows."""
HALVINGS = 60
"""So often the interval of a constant is halved: its length is then below the rounding of a double."""


def performance_of(rows: Rows, *, of_loss: bool = False) -> Performance:
    """Return how well the model predicts evaluation rows in memory.

    Parameters
    ----------
    rows : Rows
    of_loss : bool
        Whether the metric must be a linear function of the loss by which models are compared
        (:mod:`debias.rows.compared_losses`): of accelerated failure times it is then not the concordance.
    """
    ensemble, objective = rows.ensemble, rows.ensemble.objective
    if rows.margins is None:
        return Performance(
            untold_because="these are out-of-bag rows of an additive model, and no row is out of every bag, so that "
            "none has a prediction of all trees"
        )
    used = np.flatnonzero(~np.isnan(rows.margins[:, 0]) & (rows.weight > 0))
    if used.size < 2:
        return Performance(untold_because="fewer than two rows have a prediction")
    response, margin, weight = rows.response.part(used), rows.margins[used], rows.weight[used]
    units = None if rows.blocks is None else rows.blocks[used]
    if objective.by_query:
        assert rows.query is not None
        return _of_ranker(objective, response, margin, weight, rows.query[used])
    bounds = None if response.target is None else objective.time_bounds(response.target)
    if bounds is not None and not (of_loss and objective.compared_by == "rows"):
        value = concordance(objective.risk(margin), *bounds, weight)
        predicted, scores = _prediction_and_scores(objective, response, margin, bounds, weight)
        return _of_survival(value, predicted, scores, weight, units)
    if objective.compared_by != "rows":
        return Performance(untold_because=objective.no_loss)
    if _is_constant(response):
        return Performance(untold_because="y has the same value in all these rows")
    metric, losses = _losses(ensemble, response, margin, weight)
    return _told(
        metric,
        losses,
        weight,
        units,
        unit_is_least=not isinstance(objective, RowLoss),
        auc=_auc(ensemble, response, margin, weight),
        correlation=_correlation(ensemble, response, margin, weight),
        classes=_classes(ensemble, response, margin),
    )


def performance_of_predictions(
    predicted: Array,
    target: Array,
    weight: Array,
    units: NDArray[np.int64] | None = None,
    labels: tuple[str, ...] | None = None,
) -> Performance:
    """Return how well predictions fit rows that the model has not seen, whatever model made them.

    Parameters
    ----------
    predicted : array of shape (n_rows, n_outputs)
        Probabilities of classes, or numbers.
    target : array of shape (n_rows, n_outputs)
        One-hot classes, or numbers.
    weight : array of shape (n_rows,)
    units : array of shape (n_rows,), optional
        Blocks of rows that depend on one another.
    labels : tuple of str, optional
        Names of the classes; None for numbers.

    Returns
    -------
    Performance
        With the Brier score of classes, or R2 of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.arange(20.0)[:, None]
    >>> performance_of_predictions(y + 1, y, np.ones(20)).in_words()
    'R2 0.970'
    """
    if len(target) < 2:
        return Performance(untold_because="fewer than two rows have a prediction")
    if (target == target[0]).all():
        return Performance(untold_because="y has the same value in all these rows")
    if not np.isfinite(predicted).all():
        return Performance(untold_because="predictions of the model are not finite")
    factor = 0.5 if labels is not None and len(labels) == 2 else 1.0  # both columns say the same
    measure = Measure("R2" if labels is None else "Brier score", SQUARED_ERROR, target, factor, np.zeros(1))
    losses = Losses(measure.loss(predicted), measure.loss_of_constant(weight), np.zeros(len(target)))
    if labels is None:
        auc, classes = None, None
        correlation = _correlation_of(predicted[:, 0], target[:, 0], weight) if target.shape[1] == 1 else None
    else:
        codes, correlation = target.argmax(axis=1), None
        auc = _auc_of_shares(predicted, codes, weight)
        classes = PredictedClasses(predicted, codes, labels, of_trees=True)
    return _told(
        measure.metric, losses, weight, units, unit_is_least=True, auc=auc, correlation=correlation, classes=classes
    )


def _told(
    metric: str,
    losses: Losses,
    weight: Array,
    units: NDArray[np.int64] | None,
    *,
    unit_is_least: bool,
    auc: float | None,
    correlation: float | None,
    classes: PredictedClasses | None,
) -> Performance:
    """Return a performance from the losses of rows; with `unit_is_least`, the metric is without the least loss."""
    model, constant, least = (weighted_sum(weight, loss) / float(weight.sum()) for loss in losses)
    if not np.isfinite([model, constant]).all():
        return Performance(untold_because=f"the {metric} of these rows is not finite")
    if constant - least <= 1e-12 * abs(constant):
        return Performance(untold_because="y has the same value in all these rows")
    skill, p_value = _skill(model, constant, least), _p_value(losses.constant - losses.model, weight, units)
    is_share, unit = metric == "R2", least if unit_is_least else 0.0
    recalibration = None
    if skill <= 0 and auc is not None and auc >= CLEAR_AUC and classes is not None:
        recalibration = recalibrated(classes, weight, losses.constant, lambda more: _p_value(more, weight, units))
    return Performance(
        metric=metric,
        value=skill if is_share else model - unit,
        constant=0.0 if is_share else constant - unit,
        skill=skill,
        auc=auc,
        correlation=correlation,
        n_rows=weight.size,
        p_value=p_value,
        recalibration=recalibration,
    )


def _skill(model: float, constant: float, least: float) -> float:
    """Return the share of what a constant loses that a model saves.

    A density may be as high as one likes. For it, this is the share of Cox and Snell (1989, The Analysis of Binary
    Data, section 5.3), which for normal distributions with one variance is R2.
    """
    if np.isinf(least):
        return float(-np.expm1(min(2 * (model - constant), LARGEST_MARGIN)))
    return (constant - model) / (constant - least)


def _is_constant(response: Response) -> bool:
    values = (response.codes, response.values, response.target)
    return all(each is None or bool((each == each[0]).all()) for each in values)


class Losses(NamedTuple):
    """The loss of each row: of the model, of the best constant for these rows, and of a perfect prediction."""

    model: Array
    constant: Array
    least: Array


def _losses(ensemble: TreeEnsemble, response: Response, margin: Array, weight: Array) -> tuple[str, Losses]:
    measure = Measure.of(ensemble, response)
    least = measure.factor * least_loss(measure.objective, measure.target)
    return measure.metric, Losses(measure.loss(margin), measure.loss_of_constant(weight), least)


class Measure(NamedTuple):
    """The loss by which predictions of some rows are measured, in the unit of its metric.

    Parameters
    ----------
    metric : str
        As in :class:`debias.results.performance.Performance`.
    objective : Objective
    target : array of shape (n_rows, n_outputs)
    factor : float
        Of the loss of the objective, for the unit of the metric.
    centre : array
        What is subtracted from margins.
    """

    metric: str
    objective: Objective
    target: Array
    factor: float
    centre: Array

    @classmethod
    def of(cls, ensemble: TreeEnsemble, response: Response) -> Measure:
        """Return the loss that trees were grown for; it must be known for single rows."""
        if not ensemble.averaged:
            assert response.target is not None
            return cls.of_target(ensemble, response.target)
        if response.codes is not None:
            return cls.of_target(ensemble, np.eye(ensemble.n_outputs)[response.codes])
        assert response.values is not None
        return cls.of_target(ensemble, response.values)

    @classmethod
    def of_target(cls, ensemble: TreeEnsemble, target: Array) -> Measure:
        """Return the same from the response in the loss: one-hot for the classes of averaged trees."""
        metric = cls.metric_of(ensemble)
        if not ensemble.averaged:
            factor = 2.0 if metric.endswith("deviance") else 1.0
            return cls(metric, ensemble.objective, target, factor, ensemble.centre)
        factor = 0.5 if ensemble.is_classifier and ensemble.n_outputs == 2 else 1.0  # both columns say the same
        return cls(metric, SQUARED_ERROR, target, factor, ensemble.centre)

    @staticmethod
    def metric_of(ensemble: TreeEnsemble) -> str:
        """Return the name of this loss."""
        if ensemble.averaged:
            return "R2" if ensemble.classes is None and ensemble.class_sets is None else "Brier score"
        if isinstance(ensemble.objective, RowLoss):
            return ensemble.objective.metric
        if ensemble.objective.name == "logistic" and ensemble.n_outputs > 1:
            return SUM_OF_LOG_LOSSES
        return METRICS.get(ensemble.objective.name, f"{ensemble.objective.name.replace('_', ' ')} loss")

    def loss(self, margin: Array) -> Array:
        """Return the loss of each row at raw outputs of shape (n_rows, n_outputs)."""
        return self.factor * self.objective.loss(self.target, margin - self.centre)

    def loss_of_constant(self, weight: Array) -> Array:
        """Return the loss of each row at the constant with the least weighted loss."""
        constant = np.tile(best_constant(self.objective, self.target, weight), (len(self.target), 1))
        return self.factor * self.objective.loss(self.target, constant)


def best_constant(objective: Objective, target: Array, weight: Array) -> Array:
    """Return the constant margin with the least weighted loss, shape (n_outputs,).

    Parameters
    ----------
    objective : Objective
        With a loss.
    target : array of shape (n_rows, n_outputs)
    weight : array of shape (n_rows,)
    """
    if isinstance(objective, RowLoss):
        return objective.best_constant(target, weight)
    mean, factor = (weight[:, None] * target).sum(axis=0) / weight.sum(), np.asarray(objective.parameter)
    with np.errstate(divide="ignore"):
        if objective.name == "squared_error":
            return mean
        if objective.name in ("logistic", "exponential"):
            # With labels of one class only they are infinite, and are clipped below.
            log_odds = (np.log(mean) - np.log1p(-mean)) / (factor if objective.name == "logistic" else 2)
            return np.clip(log_odds, -LARGEST_MARGIN, LARGEST_MARGIN)
        if objective.name in ("softmax", "poisson", "gamma", "tweedie"):
            return np.maximum(np.log(mean), -LARGEST_MARGIN)
    if objective.name in ("absolute_error", "quantile"):
        share = np.broadcast_to(0.5 if objective.name == "absolute_error" else factor, mean.shape)
        return np.array([_quantile(column, weight, a) for column, a in zip(target.T, share, strict=True)])
    # The weighted gradient has one change of sign between the smallest and the largest y; labels are -1 and 1.
    low, high = (
        (-np.ones(mean.size), np.ones(mean.size)) if objective.name == "hinge" else (target.min(0), target.max(0))
    )
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rises = (weight[:, None] * objective.response(target, middle)).sum(axis=0) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return (low + high) / 2


def least_loss(objective: Objective, target: Array) -> Array:
    """Return the loss of each row at the best prediction for it alone, shape (n_rows,)."""
    from scipy.special import xlog1py, xlogy

    y = target
    if objective.name == "logistic":
        least = -xlogy(y, y) - xlog1py(1 - y, -y)
    elif objective.name == "poisson":
        least = y - xlogy(y, y)
    elif objective.name == "gamma":
        with np.errstate(divide="ignore"):
            least = 1 + np.log(y)
    elif objective.name == "tweedie":
        power = np.asarray(objective.parameter)
        least = y ** (2 - power) * (1 / (2 - power) - 1 / (1 - power))
    elif isinstance(objective, RowLoss):
        return objective.least_loss(y)
    else:
        return np.zeros(len(y))
    total: Array = least.sum(axis=1)
    return total


def _quantile(values: Array, weight: Array, share: float) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(sums, share * sums[-1])]])


def _auc(ensemble: TreeEnsemble, response: Response, margin: Array, weight: Array) -> float | None:
    """Return the area under the ROC curve of classes; None if y has no classes, or only one among these rows."""
    codes = class_codes(ensemble, response)
    if codes is None:
        return None
    n_classes = max(2, ensemble.n_outputs)
    if n_classes == 2:
        return roc_area(margin[:, -1] - (margin[:, 0] if margin.shape[1] == 2 else 0.0), codes == 1, weight)
    return _auc_of_shares(margin if ensemble.averaged else ensemble.objective.mean(margin), codes, weight)


def _auc_of_shares(share: Array, codes: NDArray[np.int64], weight: Array) -> float | None:
    """Return the area under the ROC curve; of several classes its mean over each against all others."""
    if share.shape[1] == 2:
        return roc_area(share[:, 1], codes == 1, weight)
    areas = [roc_area(share[:, k], codes == k, weight) for k in range(share.shape[1])]
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if known else None


def _classes(ensemble: TreeEnsemble, response: Response, margin: Array) -> PredictedClasses | None:
    """Return the predicted probabilities of classes; None if the loss is of something else."""
    codes, name, n_outputs = class_codes(ensemble, response), ensemble.objective.name, margin.shape[1]
    if codes is None or not (ensemble.averaged or name == "softmax" or (name == "logistic" and n_outputs == 1)):
        return None
    probability = margin if ensemble.averaged else ensemble.objective.mean(margin)
    if n_outputs == 1:
        probability = np.column_stack([1 - probability, probability])
    labels = range(probability.shape[1]) if ensemble.classes is None else ensemble.classes
    return PredictedClasses(probability, codes, tuple(map(str, labels)), ensemble.averaged)


def _correlation(ensemble: TreeEnsemble, response: Response, margin: Array, weight: Array) -> float | None:
    """Return the correlation of predictions and y; None for classes, several outputs, or predictions all the same."""
    if ensemble.classes is not None or ensemble.class_sets is not None:
        return None
    y, mean = response.values if ensemble.averaged else response.target, margin
    assert y is not None
    if not ensemble.averaged:
        mean = ensemble.objective.mean(margin)
    return None if mean.shape[1] > 1 else _correlation_of(mean[:, 0], y[:, 0], weight)


def _correlation_of(predicted: Array, y: Array, weight: Array) -> float | None:
    """Return the correlation of predictions and y; None if one of them is constant, or predictions are not finite."""
    if not np.isfinite(predicted).all():
        return None
    share = weight / weight.sum()
    a, b = (values - weighted_sum(share, values) for values in (predicted, y))
    spread = float(np.sqrt(weighted_sum(share, a**2) * weighted_sum(share, b**2)))
    if np.ptp(predicted) <= 1e-9 * np.abs(predicted).max() or spread == 0:
        return None
    return float(np.clip(weighted_sum(share, a * b) / spread, -1, 1))


def _prediction_and_scores(
    objective: Objective, response: Response, margin: Array, bounds: tuple[Array, Array], weight: Array
) -> tuple[Array, Array]:
    """Return a prediction for each row, and the log-rank score or gradient that goes with it.

    Of a distribution with several parameters, no output alone is the prediction: its risk is taken by its ranks.
    """
    if margin.shape[1] == 1:
        assert response.values is not None
        return margin[:, 0], response.values[:, 0]
    from scipy.stats import rankdata

    time, event = bounds[0], np.isfinite(bounds[1])
    return rankdata(objective.risk(margin)), event - cumulative_hazard(time, event, weight, weight)


def _of_survival(
    value: float | None, predicted: Array, scores: Array, weight: Array, units: NDArray[np.int64] | None
) -> Performance:
    """Return the concordance, and the p-value of the score test of Cox's model with the prediction as its variable."""
    if value is None:
        return Performance(untold_because="no pair of rows can be compared: too few of them have an event")
    product = (predicted - weighted_sum(weight, predicted) / weight.sum()) * scores
    p_value = _p_value(product, weight, units)
    return Performance(
        metric="concordance", value=value, constant=0.5, skill=2 * value - 1, n_rows=predicted.size, p_value=p_value
    )


def _of_ranker(
    objective: Objective, response: Response, margin: Array, weight: Array, query: NDArray[np.int64]
) -> Performance:
    assert response.target is not None
    number = np.unique(query, return_inverse=True)[1].astype(np.int64)
    to_rank, reached, by_chance = ndcg(margin[:, 0], objective.gain(response.target[:, 0]), number)
    if not to_rank.size:
        return Performance(untold_because="no query has rows to rank")
    of_query = np.zeros(number.max() + 1)
    of_query[number] = weight  # the same for all rows of a query
    weight = of_query[to_rank]
    value, constant = (weighted_sum(weight, losses) / float(weight.sum()) for losses in (reached, by_chance))
    return Performance(
        metric="NDCG",
        value=value,
        constant=constant,
        skill=(value - constant) / (1 - constant),
        n_rows=query.size,
        p_value=_p_value(reached - by_chance, weight, None),
    )


def _p_value(gained: Array, weight: Array, units: NDArray[np.int64] | None) -> float | None:
    """Return the one-sided p-value of a t-test that a weighted mean is not above 0; None if there are few units."""
    from scipy.special import stdtr

    mean = weighted_sum(weight, gained) / float(weight.sum())
    deviations = weight * (gained - mean)
    if units is not None:
        _, number = np.unique(units, return_inverse=True)
        deviations = np.bincount(number, weights=deviations).astype(np.float64)
    n = deviations.size
    if n < UNITS_AT_LEAST:
        return None
    error = float(np.sqrt(weighted_sum(deviations, deviations) * n / (n - 1))) / weight.sum()
    # The same gain in every row: chance has no part in it.
    if error == 0:
        return float(mean <= 0)
    return float(stdtr(n - 1, -mean / error))
