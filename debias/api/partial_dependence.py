"""``debias.partial_dependence``: how the mean prediction of fitted trees changes with one feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import Table, column_order
from debias.data.user_columns import column_values, is_missing
from debias.errors import CompositionError, RowsError, nearest
from debias.models.changed_columns import TransformedRows
from debias.models.extraction import verify_prediction
from debias.models.wrappers import is_one, names_of
from debias.parallel import in_threads
from debias.results.partial_dependence import Curve, PartialDependence
from debias.rows.request import Request, whole_seed
from debias.trees.partial_dependence import ChangedRows
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        Names of features; all by default. In a pipeline, the transformers see the changed column of `X`.
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
    rows = _drawn(given.n_rows, max_rows, whole_seed(seed) or 0)
    sample = given.native(rows)
    request = Request.of(model, sample, seed=seed, n_jobs=n_jobs)
    if not is_one(request.members):
        raise CompositionError(
            f"this {request.members[0].path[0]} combines several outputs of models of trees, and debias draws the "
            f"curves of one model. Pass one of them: {', '.join(names_of(request.members))}"
        )
    member, ensemble = request.members[0], request.members[0].ensemble
    table = Table(member.X).aligned_to(ensemble, WarningLog())
    verify_prediction(ensemble, member.model, table)
    names, positions = _names_and_positions(member, Table(sample), table)
    categories = _categories(ensemble) if member.X is sample else set[int]()
    raw_outputs = _changer(model, member, sample, table.matrix(ensemble))
    view, curves = _View(ensemble, output), {}
    for name in _asked(features, names):
        k = names.index(name)
        column = column_values(sample, positions[k])
        at, values, n_omitted = _values(column, n_values, is_category=k in categories)
        outputs = view.of(raw_outputs(k, positions[k], at))
        curves[name] = Curve(name, values, outputs.mean(axis=0), outputs if individual else None, n_omitted)
    return PartialDependence(curves, view.names, view.unit, rows, ensemble.source, member.notes)


def _changer(
    model: Any, member: Member, sample: Any, matrix: NDArray[np.floating[Any]]
) -> Callable[[int, int, NDArray[np.int64]], NDArray[np.float64]]:
    """Return a function that gives the raw outputs of all rows with one feature set to its values in some rows.

    It takes the number of the feature, its position in X, and these rows.
    """
    if member.X is not sample:
        transformed = TransformedRows(model, member.ensemble, sample)
        return lambda k, position, at: transformed.outputs(position, at)
    changed = ChangedRows(member.ensemble, matrix)
    return lambda k, position, at: changed.outputs(np.array([k]), matrix[at, k : k + 1])


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


def _drawn(n_rows: int, max_rows: int, seed: int) -> NDArray[np.int64]:
    """Return the positions of at most `max_rows` rows, ascending."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False)).astype(np.int64)


def _names_and_positions(member: Member, given: Table, table: Table) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of the columns, as in an audit, and the position of each in X."""
    ensemble, n_columns = member.ensemble, given.shape[1]
    in_order = list(range(n_columns))
    if member.columns is not None:
        return given.names if given.names and member.named else member.columns.names, in_order
    names = ensemble.feature_names if ensemble.named or table.names is None else table.names
    return names, column_order(given.names, n_columns, ensemble) or in_order


def _asked(features: str | Iterable[str] | None, known: tuple[str, ...]) -> list[str]:
    if features is None:
        return list(known)
    names = [features] if isinstance(features, str) else list(features)
    for name in names:
        if name not in known:
            hint = nearest(str(name), known)
            raise RowsError(f"features has {name!r}, which is not a column of X as the model knows it.{hint}")
    return list(dict.fromkeys(names))


def _categories(ensemble: TreeEnsemble) -> set[int]:
    """Return the features that are categories to the trees."""
    labelled = set(ensemble.category_labels or {})
    if ensemble.category_set is None:
        return labelled
    return labelled | set(ensemble.feature[ensemble.category_set >= 0].tolist())


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
