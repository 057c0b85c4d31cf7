"""The loss of each row, divided exactly into the loss of a constant prediction and what each feature saves.

The output of the model goes along the straight line from its mean output to its prediction for the row. A feature saves
its Shapley value times the mean slope of the loss on this line. Shapley values add up to the length of the line, so the
parts add up to the loss, whatever the order of trees and features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError
from debias.rows.few_trees import sums_of_few_trees
from debias.rows.performance import Measure, least_loss
from debias.trees.mean_slopes import mean_slope, y_as_predicted
from debias.trees.routing import Router
from debias.trees.shapley import expected_output, shapley_sums, shapley_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

VALUES_AT_ONCE = 2**22
"""At most about this many Shapley values are held in memory, but at least those of `FEWEST_ROWS` rows."""
FEWEST_ROWS = 256
WITH_MEAN_LOSS = ("logistic", "softmax", "poisson", "tweedie", "exponential")
"""Objectives of :attr:`Ends.tells_mean_loss`."""


@dataclass(frozen=True, eq=False)
class LossParts:
    """The parts of the loss of rows: ``loss = base - saved.sum(axis=1)``.

    Parameters
    ----------
    loss : array of shape (n_rows,)
        In the unit of the metric that :func:`metric_of` names.
    base : array of shape (n_rows,)
        The loss of the model's mean output, a constant (but for margins that the user gave for each row).
    saved : array of shape (n_rows, n_features)
        What each feature saves; below 0 if it costs loss.
    rows : array of shape (n_rows, n_features)
        What it would save if the response were what the model predicts. It does not depend on y.
    """

    loss: Array
    base: Array
    saved: Array
    rows: Array

    @property
    def response(self) -> Array:
        """What features save because the response is not what the model predicts: the rest, shape as `saved`."""
        return self.saved - self.rows


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Rows whose loss can be divided, in the form in which a history keeps them.

    Parameters
    ----------
    X : array of float64 of shape (n_rows, n_features)
        As the trees compare it, missing values as NaN.
    y : array of shape (n_rows, n_outputs)
        The response in the loss.
    start : array of shape (n_rows, n_outputs)
        What the margin of each row adds to the outputs.
    """

    X: Array
    y: Array
    start: Array

    @classmethod
    def of(cls, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], response: Response) -> KeptRows:
        """Return rows in this form; the arguments are those of :func:`loss_parts`."""
        y = Measure.of(ensemble, response).target
        start = np.zeros_like(y) if response.margin is None else response.margin - ensemble.base
        return cls(X.astype(np.float64), y, start)

    def part(self, rows: slice | NDArray[np.int64]) -> KeptRows:
        """Return some of the rows."""
        return KeptRows(self.X[rows], self.y[rows], self.start[rows])


def metric_of(ensemble: TreeEnsemble) -> str:
    """Return the name of the loss of the rows of a model, as readers know it.

    Raises
    ------
    CompositionError
        The loss of a row is not known, or the model does not store what Shapley values need.
    """
    objective = ensemble.objective
    if not ensemble.averaged and not objective.has_loss:
        raise CompositionError(f"this {ensemble.source} has no parts of the loss: {objective.no_loss}")
    if ensemble.averaging_weight is None:
        raise CompositionError(
            f"this {ensemble.source} has no parts of the loss: it stores no training weights of its leaves, which "
            "Shapley values need"
        )
    metric = Measure.metric_of(ensemble)
    if metric == "R2":
        metric = "mean squared error"
    return f"{metric} of the square root of y" if not ensemble.averaged and objective.root else metric


def loss_parts(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], response: Response, n_jobs: int = 1) -> LossParts:
    """Divide the loss of rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        In the ensemble's routing dtype, missing values as NaN.
    response : Response
        Of these rows.
    n_jobs : int
        Number of threads.

    Returns
    -------
    LossParts
        Of averaged trees, the squared error (Brier score) of their mean prediction, and not of single trees.

    Raises
    ------
    CompositionError
        As for :func:`metric_of`.
    """
    metric_of(ensemble)
    n_rows, kept = len(X), KeptRows.of(ensemble, X, response)
    saved, rows = np.empty((2, n_rows, ensemble.n_features))
    loss, base = np.empty((2, n_rows))
    step = max(FEWEST_ROWS, VALUES_AT_ONCE // (ensemble.n_features * ensemble.n_outputs))
    for begin in range(0, n_rows, step):
        at = slice(begin, begin + step)
        line = Line.of(ensemble, kept.part(at), n_jobs)
        loss[at], base[at] = line.ends.losses()
        saved[at], rows[at] = line.saved(line.slope), line.saved(line.expected)
    return LossParts(loss, base, saved, rows)


def loss_sums(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    response: Response,
    margin: Array,
    weight: Array,
    n_jobs: int = 1,
    n_trees: int | None = None,
) -> Array:
    """Return weighted sums over rows of the parts of their loss, which takes less time than the parts of each row.

    Parameters
    ----------
    ensemble, X, response, n_jobs
        As for :func:`loss_parts`.
    margin : array of shape (n_rows, n_outputs)
        ``Rows.margins`` of the rows.
    weight : array of shape (n_rows,)
    n_trees : int, optional
        Through how many trees of an averaged ensemble a row goes, whose parts are then estimates
        (:mod:`debias.rows.few_trees`); the rows must be in random order. All trees by default.

    Returns
    -------
    array of shape (2 + 2 n_features,)
        Sums of ``loss``, ``base``, ``saved`` and ``rows`` of :class:`LossParts`.

    Raises
    ------
    CompositionError
        As for :func:`metric_of`.
    """
    metric_of(ensemble)
    kept = KeptRows.of(ensemble, X, response)
    start = kept.start + ensemble.base
    ends = Ends.of(ensemble, kept, margin - start)
    factors = weight[:, None] * np.stack([ends.slope, ends.expected])
    sums = [np.array([weight @ of_rows for of_rows in ends.losses()])]
    if n_trees is not None and n_trees < ensemble.n_trees:
        sums.extend(sums_of_few_trees(ensemble, X, factors, ends.last - ends.first, n_trees, n_jobs))
    else:
        sums.extend(shapley_sums(ensemble, X, factors, n_jobs))
    return np.concatenate(sums)


@dataclass(frozen=True, eq=False)
class Ends:
    """The ends of the lines from the mean output to the predictions of rows, and the mean slopes of the loss on them.

    Parameters
    ----------
    measure : Measure
        The loss.
    first, last : array of shape (n_rows, n_outputs)
        The ends, on the scale of the loss.
    slope : array of shape (n_rows, n_outputs)
        Mean slope of the loss.
    expected : array of shape (n_rows, n_outputs)
        The same if the response were what the model predicts.
    """

    measure: Measure
    first: Array
    last: Array
    slope: Array
    expected: Array

    @classmethod
    def of(cls, ensemble: TreeEnsemble, kept: KeptRows, output: Array) -> Ends:
        """Return the ends of rows, whose trees have the sums, or the means, `output` (n_rows, n_outputs)."""
        measure = Measure.of_target(ensemble, kept.y)
        start = kept.start - measure.centre
        # The start of the line: the mean output over the training rows, moved by the margin of each row.
        first, last = expected_output(ensemble) + start, output + ensemble.base + start
        slope, expected = (
            measure.factor * mean_slope(measure.objective, y, first, last)
            for y in (kept.y, y_as_predicted(measure.objective, last))
        )
        return cls(measure, first, last, slope, expected)

    @classmethod
    def of_rows(cls, ensemble: TreeEnsemble, kept: KeptRows, n_jobs: int = 1) -> Ends:
        """Return the ends of rows, whose outputs are computed."""
        X = np.ascontiguousarray(kept.X, dtype=ensemble.routing_dtype)
        output = np.zeros((len(X), ensemble.n_outputs))
        Router(ensemble, X, None, n_jobs).add_outputs(np.arange(ensemble.n_trees), output)
        if ensemble.averaged:
            output /= ensemble.n_trees
        return cls.of(ensemble, kept, output)

    def losses(self) -> tuple[Array, Array]:
        """Return the loss of each row, and that of its base."""
        objective, y = self.measure.objective, self.measure.target
        least = least_loss(objective, y)
        loss, base = (self.measure.factor * (objective.loss(y, end) - least) for end in (self.last, self.first))
        return loss, base

    @property
    def tells_mean_loss(self) -> bool:
        """Whether predictions tell the mean of the loss, but for what the response alone decides."""
        return self.measure.metric == "Brier score" or self.measure.objective.name in WITH_MEAN_LOSS

    def unexpected_loss(self) -> Array:
        """Return the loss of each row less its mean over responses that are drawn as the model predicts.

        If the predictions do not tell this mean, it is the loss: the noise is taken to be the same for all rows.
        """
        objective, last = self.measure.objective, self.last
        if not self.tells_mean_loss:
            return self.losses()[0]
        mean = y_as_predicted(objective, last)
        expected = objective.loss(mean, last)  # most losses are linear in the response, but for what y alone decides
        if self.measure.metric == "Brier score":
            shares = mean + self.measure.centre
            expected = (shares * (1 - shares)).sum(axis=1)
        elif objective.name == "exponential":
            ones = np.ones_like(last)
            of_classes = objective.loss(0 * ones, last), objective.loss(ones, last)
            expected = (1 - mean[:, 0]) * of_classes[0] + mean[:, 0] * of_classes[1]
        unexpected: Array = self.measure.factor * (objective.loss(self.measure.target, last) - expected)
        return unexpected


@dataclass(frozen=True, eq=False)
class Line:
    """The lines from the mean output to the predictions of rows.

    Parameters
    ----------
    ends : Ends
    phi : array of shape (n_rows, n_features, n_outputs)
        Shapley values, which add up to the length of the line.
    """

    ends: Ends
    phi: Array

    @classmethod
    def of(cls, ensemble: TreeEnsemble, kept: KeptRows, n_jobs: int = 1) -> Line:
        """Return the lines of rows."""
        X = np.ascontiguousarray(kept.X, dtype=ensemble.routing_dtype)
        return cls(Ends.of_rows(ensemble, kept, n_jobs), shapley_values(ensemble, X, n_jobs))

    @property
    def slope(self) -> Array:
        """Mean slope of the loss, shape (n_rows, n_outputs)."""
        return self.ends.slope

    @property
    def expected(self) -> Array:
        """The same if the response were what the model predicts."""
        return self.ends.expected

    @property
    def surprise(self) -> Array:
        """The part of the slope that is because the response is not what the model predicts."""
        return self.slope - self.expected

    def saved(self, slope: Array) -> Array:
        """Return what features save with a slope, shape (n_rows, n_features)."""
        saved: Array = np.einsum("ikc,ic->ik", self.phi, slope)
        return saved
