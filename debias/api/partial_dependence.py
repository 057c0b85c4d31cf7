"""``debias.partial_dependence``: how the mean prediction of fitted trees changes with one feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.groups import Grouping
from debias.data.table import Table, column_order
from debias.data.user_columns import column_values, is_missing
from debias.errors import CompositionError, RowsError, nearest
from debias.models.extraction import verify_prediction
from debias.models.wrappers import is_one, names_of
from debias.parallel import in_threads
from debias.results.partial_dependence import Curve, PartialDependence
from debias.rows.request import Request
from debias.trees.partial_dependence import ChangedRows
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from debias.models.wrappers import Member
    from debias.trees.ensemble import TreeEnsemble

OUTPUTS = ("response", "raw")
INNER_QUANTILES = (0.01, 0.99)
"""Numbers outside these quantiles get no value: few rows are there."""


@in_threads
def partial_dependence(
    model: Any,
    X: Any,
    features: str | Iterable[str] | None = None,
    *,
    output: str = "response",
    individual: bool = False,
    n_values: int = 50,
    max_rows: int = 1000,
    seed: int | None = None,
    n_jobs: int | None = None,
) -> PartialDependence:
    """Return how the mean prediction of a fitted model changes with each of some features.

    For each value, the feature is set to it in all rows, and the output of the trees is averaged over the rows. The
    average is exact for these rows. It is that of ``sklearn.inspection.partial_dependence(method="brute")``, for the
    models of all supported libraries and from the trees alone.

    Parameters
    ----------
    model : estimator or Booster
        As for :func:`score`, with one model of trees inside.
    X : array or data frame of shape (n_rows, n_features)
        Rows to average over. A feature is set to values that occur in these rows.
    features : str or iterable of str, optional
        Names of features; all by default. The columns that a pipeline makes of one column of `X` change together.
    output : {"response", "raw"}
        - "response": probability of a class, or the prediction on the scale of y. A model for which debias knows no
          such function (a custom objective, exponential or hinge loss) gives its raw output.
        - "raw": sum or mean of the trees. For boosted classifiers with logistic loss it is the log odds.
    individual : bool
        Whether to keep the output of each row too (individual conditional expectation).
    n_values : int
        Largest number of values of a feature. If numbers have more distinct values, these are quantiles from 1% to
        99%. Of labels, the most frequent are used. A missing value is one more if there are any.
    max_rows : int
        If there are more rows, this many are drawn at random.
    seed : int, optional
        Seed of this draw; 0 by default, so that the same call gives the same numbers.
    n_jobs : int, optional
        Number of threads; 1 by default.

    Returns
    -------
    PartialDependence
        ``result["age"].values`` are the values and ``result["age"].mean`` the mean outputs, of shape (n_values,
        n_outputs). For two classes there is one output, the probability (or log odds) of the second.

    Raises
    ------
    UnsupportedModelError
        No adapter supports the model.
    CompositionError
        The model holds several models of trees; the message names them.
    RowsError
        The rows do not fit the model, or a feature is not a column.

    Notes
    -----
    A feature that is set to a value beside the other columns of a row may make a row that cannot exist, if features are
    correlated. The curve says what the model does with it, not what would happen in the world.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> curve = debias.partial_dependence(forest, X, "bmi")["bmi"]
    >>> curve.mean.shape
    (50, 1)
    >>> bool(curve.mean[-1, 0] > curve.mean[0, 0])
    True
    """
    if output not in OUTPUTS:
        raise CompositionError(f"output={output!r} is not one of {', '.join(map(repr, OUTPUTS))}")
    for name, number in (("n_values", n_values), ("max_rows", max_rows)):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
            raise RowsError(f"{name}={number!r} must be a whole number, 1 or more")
    given = Table(X)
    rows = _drawn(given.n_rows, max_rows, seed)
    sample = given.native(rows)
    request = Request.of(model, sample, seed=seed, n_jobs=n_jobs)
    if not is_one(request.members):
        raise CompositionError(
            f"this {request.members[0].path[0]} combines several outputs of models of trees, and debias draws the "
            f"curves of one model. Pass one of them: {', '.join(names_of(request.members))}"
        )
    member = request.members[0]
    table, ensemble, grouping, position = _columns_of(member, sample)
    verify_prediction(ensemble, member.model, table)
    matrix = table.matrix(ensemble)
    changed, view = ChangedRows(ensemble, matrix), _View(ensemble, output)
    curves = {}
    for name in _asked(features, grouping.names):
        group = grouping.names.index(name)
        columns = np.flatnonzero(grouping.index == group)
        is_category = _splits_on_categories(ensemble, columns)
        at, values, n_omitted = _values(column_values(sample, position[group]), n_values, is_category)
        outputs = view.of(changed.outputs(columns, matrix[np.ix_(at, columns)]))
        curves[name] = Curve(name, values, outputs.mean(axis=0), outputs if individual else None, n_omitted)
    return PartialDependence(curves, view.names, view.unit, rows, ensemble.source, member.notes)


class _View:
    """What is shown of the raw output of an ensemble: its scale, and the names of its columns."""

    def __init__(self, ensemble: TreeEnsemble, output: str) -> None:
        objective = ensemble.objective.name
        fractions = ensemble.averaged and objective == "squared_error"
        self._ensemble = ensemble
        self._is_response = output == "response"
        self._without_first = ensemble.is_classifier and ensemble.n_outputs == 2
        self.names = _output_names(ensemble)[int(self._without_first) :]
        is_labelled = ensemble.is_classifier or ensemble.class_sets is not None
        has_probability = fractions or objective in ("logistic", "softmax")
        if is_labelled:
            log_odds = objective == "logistic" and ensemble.objective.parameter == (1.0,)
            raw_unit = "probability" if fractions else "log odds" if log_odds else "raw output"
            self.unit = "probability" if self._is_response and has_probability else raw_unit
        else:
            self.unit = "prediction" if self._is_response and objective != "custom" else "raw output"

    def of(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what is shown of raw outputs of shape (n_rows, n_values, n_outputs)."""
        shown = self._ensemble.objective.mean(raw) if self._is_response else raw
        return shown[..., int(self._without_first) :]


def _output_names(ensemble: TreeEnsemble) -> tuple[str, ...]:
    if ensemble.class_sets is not None:
        return tuple(f"response {k}: {label}" for k, labels in enumerate(ensemble.class_sets) for label in labels)
    if ensemble.classes is not None:
        labels = ensemble.classes.tolist()
        return tuple(map(str, labels[-1:] if ensemble.n_outputs == 1 else labels))
    if ensemble.n_outputs == 1:
        return ("prediction",)
    return tuple(f"output {k}" for k in range(ensemble.n_outputs))


def _drawn(n_rows: int, max_rows: int, seed: int | None) -> NDArray[np.int64]:
    """Return the positions of at most `max_rows` rows, ascending."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed or 0).choice(n_rows, max_rows, replace=False)).astype(np.int64)


def _columns_of(member: Member, sample: Any) -> tuple[Table, TreeEnsemble, Grouping, list[int]]:
    """Return the rows as the model sees them, and the column of the user's X that each of its columns comes from.

    The last value is the position in `sample` of each name of the grouping.
    """
    ensemble, seen, given = member.ensemble, Table(member.X), Table(sample)
    table = seen.aligned_to(ensemble, WarningLog())
    if member.columns is None and not ensemble.named and table.names is not None:
        ensemble = ensemble.renamed(table.names)
    grouping = member.grouping(None, ensemble)
    if member.columns is None:
        order = column_order(given.names, given.shape[1], ensemble)
        return table, ensemble, grouping, list(range(given.shape[1])) if order is None else order
    if given.names is not None and set(grouping.names) <= set(given.names):
        return table, ensemble, grouping, [given.names.index(name) for name in grouping.names]
    return table, ensemble, grouping, list(range(len(grouping.names)))


def _asked(features: str | Iterable[str] | None, known: tuple[str, ...]) -> list[str]:
    if features is None:
        return list(known)
    names = [features] if isinstance(features, str) else list(features)
    for name in names:
        if name not in known:
            hint = nearest(str(name), known)
            raise RowsError(f"features has {name!r}, which is not a column of X as the model knows it.{hint}")
    return list(dict.fromkeys(names))


def _splits_on_categories(ensemble: TreeEnsemble, columns: NDArray[np.int64]) -> bool:
    """Whether one of the columns is a category to the trees."""
    labelled = any(int(k) in (ensemble.category_labels or {}) for k in columns)
    if labelled or ensemble.category_set is None:
        return labelled
    on_categories = ensemble.category_set >= 0
    return bool(np.isin(columns, ensemble.feature[on_categories]).any())


def _values(column: NDArray[Any], most: int, is_category: bool) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    """Choose the values that a feature is set to.

    Returns
    -------
    at : array of int64 of shape (n_values,)
        A row that has each of the values.
    values : array of shape (n_values,)
        Numbers in ascending order, or labels, the most frequent first; a missing value is the last.
    n_omitted : int
        Number of labels that were left out.
    """
    import pandas as pd

    missing = np.flatnonzero(is_missing(column))[:1]
    present = np.flatnonzero(~is_missing(column))
    n_omitted = 0
    if is_category or column.dtype.kind == "O":
        codes, labels = pd.factorize(column[present])
        first = present[np.unique(codes, return_index=True)[1]]
        by_frequency = np.argsort(-np.bincount(codes, minlength=len(labels)), kind="stable")
        at, n_omitted = first[by_frequency[:most]], max(len(labels) - most, 0)
        column = column.astype(object)
    else:
        distinct, first = np.unique(column[present], return_index=True)
        if distinct.size > most:
            quantiles = np.quantile(column[present], np.linspace(*INNER_QUANTILES, most), method="inverted_cdf")
            first = first[np.searchsorted(distinct, np.unique(quantiles))]
        at = present[first]
    at = np.concatenate([at, missing]).astype(np.int64)
    return at, column[at], n_omitted
