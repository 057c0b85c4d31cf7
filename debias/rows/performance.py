"""The performance of a model on evaluation rows: its loss beside that of the best constant, and a test of the two.

The loss is the one that the trees were grown for: of averaged trees the squared error (of classes the Brier score), of
boosted trees that of the objective. Survival models and rankers compare rows, so their metrics do too:
concordance and NDCG. Equal predictions count as half in the right order; for NDCG, all orders of rows with equal
predictions count the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from debias.results.performance import CLEAR_AUC, Performance
from debias.rows.classes import class_codes
from debias.rows.recalibration import PredictedClasses, recalibrated
from debias.trees.objectives import SQUARED_ERROR
from debias.trees.survival_objectives import AftObjective

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
    "quantile": "pinball loss",
    "poisson": "Poisson deviance",
    "gamma": "gamma deviance",
    "tweedie": "Tweedie deviance",
    "aft": "negative log likelihood",
}
"""Names of losses as readers know them; others are called after their objective."""
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
        return _of_survival(value, response, margin[:, 0], weight, units)
    if objective.compared_by != "rows":
        return Performance(untold_because=objective.no_loss)
    if _is_constant(response):
        return Performance(untold_because="y has the same value in all these rows")
    metric, losses = _losses(ensemble, response, margin, weight)
    model, constant, least = (_weighted_sum(weight, loss) / float(weight.sum()) for loss in losses)
    if not np.isfinite([model, constant, least]).all():
        return Performance(untold_because=f"the {metric} of these rows is not finite")
    if constant - least <= 1e-12 * abs(constant):
        return Performance(untold_because="y has the same value in all these rows")
    skill, p_value = (constant - model) / (constant - least), _p_value(losses.constant - losses.model, weight, units)
    is_share, unit = metric == "R2", 0.0 if isinstance(objective, AftObjective) else least
    auc = _auc(ensemble, response, margin, weight)
    recalibration = None
    if skill <= 0 and auc is not None and auc >= CLEAR_AUC:
        classes = _classes(ensemble, response, margin)
        if classes is not None:
            recalibration = recalibrated(classes, weight, losses.constant, lambda more: _p_value(more, weight, units))
    return Performance(
        metric=metric,
        value=skill if is_share else model - unit,
        constant=0.0 if is_share else constant - unit,
        skill=skill,
        auc=auc,
        correlation=_correlation(ensemble, response, margin, weight),
        n_rows=used.size,
        p_value=p_value,
        recalibration=recalibration,
    )


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
    if isinstance(objective, AftObjective):
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
    elif isinstance(objective, AftObjective):
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
    share = margin if ensemble.averaged else ensemble.objective.mean(margin)
    areas = [roc_area(share[:, k], codes == k, weight) for k in range(n_classes)]
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
    if ensemble.classes is not None or margin.shape[1] > 1 or ensemble.class_sets is not None:
        return None
    y = response.values if ensemble.averaged else response.target
    assert y is not None
    predicted = (margin if ensemble.averaged else ensemble.objective.mean(margin))[:, 0]
    share = weight / weight.sum()
    a, b = (values - _weighted_sum(share, values) for values in (predicted, y[:, 0]))
    spread = float(np.sqrt(_weighted_sum(share, a**2) * _weighted_sum(share, b**2)))
    if np.ptp(predicted) <= 1e-9 * np.abs(predicted).max() or spread == 0:
        return None
    return float(np.clip(_weighted_sum(share, a * b) / spread, -1, 1))


def _of_survival(
    value: float | None, response: Response, margin: Array, weight: Array, units: NDArray[np.int64] | None
) -> Performance:
    """Return the concordance, and the p-value of the score test of Cox's model with the margin as its variable."""
    assert response.values is not None
    if value is None:
        return Performance(untold_because="no pair of rows can be compared: too few of them have an event")
    product = (margin - _weighted_sum(weight, margin) / weight.sum()) * response.values[:, 0]
    p_value = _p_value(product, weight, units)
    return Performance(
        metric="concordance", value=value, constant=0.5, skill=2 * value - 1, n_rows=margin.size, p_value=p_value
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
    value, constant = (_weighted_sum(weight, losses) / float(weight.sum()) for losses in (reached, by_chance))
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

    mean = _weighted_sum(weight, gained) / float(weight.sum())
    deviations = weight * (gained - mean)
    if units is not None:
        _, number = np.unique(units, return_inverse=True)
        deviations = np.bincount(number, weights=deviations).astype(np.float64)
    n = deviations.size
    if n < UNITS_AT_LEAST:
        return None
    error = float(np.sqrt(_weighted_sum(deviations, deviations) * n / (n - 1))) / weight.sum()
    # The same gain in every row: chance has no part in it.
    if error == 0:
        return float(mean <= 0)
    return float(stdtr(n - 1, -mean / error))


def roc_area(predicted: Array, positive: NDArray[np.bool_], weight: Array) -> float | None:
    """Return the area under the ROC curve; None if all rows, or none, are positive.

    Parameters
    ----------
    predicted : array of shape (n_rows,)
    positive : array of bool of shape (n_rows,)
    weight : array of shape (n_rows,)
    """
    _, level = np.unique(predicted, return_inverse=True)
    of_positive = np.bincount(level, weights=weight * positive)
    of_negative = np.bincount(level, weights=weight * ~positive)
    pairs = of_positive.sum() * of_negative.sum()
    if pairs == 0:
        return None
    # Rows with equal predictions count as half in the right order.
    below = np.cumsum(of_negative) - of_negative / 2
    return _weighted_sum(of_positive, below) / float(pairs)


def concordance(risk: Array, lower: Array, upper: Array, weight: Array) -> float | None:
    """Return Harrell's concordance; None if no pair of rows can be compared.

    Of the pairs of which one row is sure to have the event first, it is the share whose first row has the higher risk.

    Parameters
    ----------
    risk : array of shape (n_rows,)
        Higher for rows whose event is predicted to be earlier.
    lower, upper : arrays of shape (n_rows,)
        Bounds of the time of the event: equal if it is known, an infinite upper bound if the row was censored.
    weight : array of shape (n_rows,)
        A pair has the product of the weights of its rows.
    """
    later, pairs = _compared(risk, lower, upper, weight, first=True)
    n_pairs = _weighted_sum(weight, pairs)
    if n_pairs == 0:
        return None
    return 0.5 + _weighted_sum(weight, later) / (2 * n_pairs)


def pairs_of_rows(risk: Array, lower: Array, upper: Array, weight: Array) -> tuple[Array, Array]:
    """Return for each row its pairs in the right order less those in the wrong one, and all its comparable pairs.

    Each pair counts for both of its rows, with the weight of the other one. The arguments are those of
    :func:`concordance`, which is 1/2 + (the sum of the first, times weight) / (twice that of the second).
    """
    of_first, of_later = (_compared(risk, lower, upper, weight, first=first) for first in (True, False))
    return of_first[0] + of_later[0], of_first[1] + of_later[1]


def _compared(risk: Array, lower: Array, upper: Array, weight: Array, *, first: bool) -> tuple[Array, Array]:
    """Return what :func:`pairs_of_rows` does, of the pairs in which the row is the first one, or of the others."""
    known = np.flatnonzero(np.isfinite(upper))
    # Rows as the later ones of a pair, and as the first ones, in one sequence from the last time to the first. At equal
    # times censored rows come before an event, and the row of another event after it.
    time = np.concatenate([lower, upper[known]])
    place = np.concatenate([np.where(lower < upper, 0, 2), np.ones(known.size, dtype=np.int64)])
    order = np.lexsort((place, -time))
    row, is_first = np.concatenate([np.arange(risk.size), known])[order], (place == 1)[order]
    if not first:  # a row is later than those that follow in the sequence
        row, is_first = row[::-1], is_first[::-1]
    asks = is_first == first
    counted = np.where(asks, 0.0, weight[row])
    lower_risk = _sums_before(risk[row], counted)[asks]
    higher_risk = _sums_before(-risk[row], counted)[asks]
    ordered, pairs = np.zeros(risk.size), np.zeros(risk.size)
    ordered[row[asks]] = (lower_risk - higher_risk) if first else (higher_risk - lower_risk)
    pairs[row[asks]] = np.cumsum(counted)[asks]
    return ordered, pairs


def ndcg(predicted: Array, gain: Array, query: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the queries with rows to rank, the NDCG of each, and its mean over all orders of the rows of the query.

    Parameters
    ----------
    predicted, gain : arrays of shape (n_rows,)
    query : array of int64 of shape (n_rows,)
        The query of each row, numbered from 0. Rows of a query need not be together.
    """
    size = np.bincount(query)
    start = np.concatenate(([0], np.cumsum(size)[:-1]))
    discount = 1 / np.log2(np.arange(size.max()) + 2)
    order = np.lexsort((-predicted, query))
    ordered = query[order]
    of_rank = discount[np.arange(query.size) - start[ordered]]
    # Rows with equal predictions share their discounts.
    new = np.ones(query.size, dtype=bool)
    new[1:] = (np.diff(ordered) != 0) | (np.diff(predicted[order]) != 0)
    tie = np.cumsum(new) - 1
    shared = (np.bincount(tie, weights=of_rank) / np.bincount(tie))[tie]
    reached = np.bincount(ordered, weights=gain[order] * shared, minlength=size.size)
    best_order = np.lexsort((-gain, query))
    best = np.bincount(ordered, weights=gain[best_order] * of_rank, minlength=size.size)
    by_chance = np.bincount(query, weights=gain) * np.bincount(ordered, weights=of_rank) / np.maximum(size, 1)
    # Where all rows of a query have the same gain, every order is the best one.
    to_rank = np.flatnonzero(best > by_chance * (1 + 1e-12))
    return to_rank, reached[to_rank] / best[to_rank], by_chance[to_rank] / best[to_rank]


def _sums_before(values: Array, weight: Array) -> Array:
    """Return, for each entry of a sequence, the sum of the weights of entries before it with a smaller value.

    Blocks of 1, 2, 4, ... entries are merged in pairs: the entries of the first block are counted for the second.
    """
    n = values.size
    by_value = np.argsort(values, kind="stable")
    total, half = np.zeros(n), 1
    while half < n:
        at = by_value[np.argsort(by_value // (2 * half), kind="stable")]  # by pair of blocks, then by value
        pair, is_first = at // (2 * half), (at // half) % 2 == 0
        before = np.concatenate(([0.0], np.cumsum(np.where(is_first, weight[at], 0.0))))
        new = np.ones(n, dtype=bool)
        new[1:] = (np.diff(pair) != 0) | (np.diff(values[at]) != 0)
        smaller = np.maximum.accumulate(np.where(new, np.arange(n), 0))  # where entries of this value begin
        begin = pair * 2 * half
        total[at[~is_first]] += (before[smaller] - before[begin])[~is_first]
        half *= 2
    return total


def _weighted_sum(weight: NDArray[np.float64] | NDArray[np.int_], values: Array) -> float:
    """Return the sum of weight times value.

    ``weight @ values`` would start threads of its own for many rows, which wait actively for the next product, and its
    last bits depend on their number and on the processor.
    """
    return float(np.sum(weight * values))
