"""``debias.partial_dependence``: how the mean prediction of fitted trees changes with one feature."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias.data.table import Table, column_order, is_one_column
from debias.data.user_columns import column_values, is_missing
from debias.data.user_rows import Dataset, dataset
from debias.errors import CompositionError, RowsError, nearest
from debias.models.changed_rows import ChangedRows, TransformedRows
from debias.models.extraction import verify_prediction
from debias.models.wrappers import is_one, names_of
from debias.parallel import in_threads
from debias.progress import task, with_progress
from debias.random_state import seed_of
from debias.results.partial_dependence import Curve, PartialDependence
from debias.rows.request import Request
from debias.trees.ensemble import numbered_outputs
from debias.warning_log import WarningLog
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.random_state import RandomState
    from debias.rows.request import Level
    from debias.trees.ensemble import TreeEnsemble

Output = Literal["response", "raw"]
OUTPUTS: tuple[str, ...] = get_args(Output)
INNER_QUANTILES = (0.01, 0.99)
"""Numbers outside these quantiles get no value: few rows are there."""


@explains_wrong_arguments
@in_threads
@with_progress
def partial_dependence(
    model: Any,
    X: Any,
    features: str | Iterable[str] | None = None,
    *,
    output: Output = "response",
    individual: bool = False,
    n_values: int = 50,
    max_rows: int = 1000,
    level: Level | None = None,
    random_state: RandomState = None,
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
    X : array, sparse matrix or data frame of shape (n_rows, n_features), list of texts, or Dataset
        Rows to average over. A feature is set to values that occur in these rows. Of a :class:`Dataset`, X and
        `feature_names` are used.
    features : str or iterable of str, optional
        Names of features; all by default. In a pipeline, the transformers see the changed column of `X`.
    output : {"response", "raw"}
        - "response": probability of a class, or the prediction on the scale of y. A model for which debias knows no
          such function (a custom objective, exponential or hinge loss) gives its raw output. Of a wrapper that
          calibrates or transforms the prediction it is that of the trees inside, and ``unit`` and ``notes`` say so.
        - "raw": sum or mean of the trees. For boosted classifiers with logistic loss it is the log odds.
    individual : bool
        Whether to keep the output of each row too (individual conditional expectation).
    n_values : int
        Largest number of values of a feature. If numbers have more distinct values, these are quantiles from 1% to
        99%. Of labels, the most frequent are used. A missing value is one more if there are any.
    max_rows : int
        If there are more rows, this many are drawn at random.
    level : {None, "source", "model"}
        As for :func:`score`: whether `features` are columns of `X`, or columns that the trees see.
    random_state : int or numpy.random.Generator, optional
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
    changer = ColumnChanger(model, X, max_rows, level, random_state)
    names = list(dict.fromkeys(changer.names if features is None else _listed(features)))
    view = _View(changer.ensemble, output)
    curves = {}
    with task("features", len(names)) as advance:
        for name in names:
            at, values, n_omitted = changer.values(name, n_values)
            outputs = view.of(changer.raw_outputs(name, at))
            curves[name] = Curve(name, values, outputs.mean(axis=0), outputs if individual else None, n_omitted)
            advance()
    unit = f"{view.unit} of the trees" if changer.notes else view.unit  # a wrapper changes what the trees predict
    return PartialDependence(curves, view.names, unit, changer.rows, changer.ensemble.source, changer.notes)


def _listed(features: str | Iterable[str]) -> list[str]:
    """Return the features that were asked for as a list of at least one."""
    if isinstance(features, str):
        return [features]
    names = list(features) if isinstance(features, Iterable) else []
    if not names:
        raise RowsError(f"features={features!r} must be the name of a feature, or a list of one name or more")
    return names


class ColumnChanger:
    """Rows of X, the model of trees that they are for, and the output of the trees if one column is changed.

    Parameters
    ----------
    model, X, max_rows, level, random_state
        As for :func:`partial_dependence`.
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        max_rows: int,
        level: Level | None = None,
        random_state: RandomState = None,
    ) -> None:
        passed = dataset(X)
        n_rows = len(passed.X) if is_one_column(passed.X) else Table(passed.X).n_rows
        self.rows = _drawn(n_rows, max_rows, seed_of(random_state) or 0)
        sample = _some_rows(passed.X, self.rows)
        request = Request.of(model, Dataset(sample, feature_names=passed.feature_names), level=level, takes_lines=True)
        if not is_one(request.members):
            raise CompositionError(
                f"this {request.members[0].path[0]} combines several outputs of models of trees, and debias draws the "
                f"curves of one model. Pass one of them: {', '.join(names_of(request.members))}"
            )
        member = request.members[0]
        self.ensemble, self.notes = member.ensemble, member.notes
        table = Table(member.X).aligned_to(member.ensemble, WarningLog())
        verify_prediction(member.ensemble, member.model, table)
        self._matrix = table.matrix(member.ensemble)
        self._transformed: TransformedRows | None = None
        if member.X is sample or request.level_of_columns == "model":
            self._columns = member.X
            self._changed = ChangedRows(member.ensemble, self._matrix)
            self._categories = _categories(member.ensemble)
            given, names = Table(member.X), member.ensemble.feature_names
            self.names = names if member.ensemble.named or given.names is None else table.names or names
            order = column_order(given.names, given.shape[1], member.ensemble)
        else:
            self._columns = sample
            self._transformed = TransformedRows(model, member.ensemble, sample)
            self._categories = set[int]()
            given = Table(sample)
            self.names = given.names if given.names is not None and member.named else member.sources
            order = None
        self._positions = list(range(given.shape[1])) if order is None else order

    def values(self, name: str, most: int) -> tuple[NDArray[np.int64], NDArray[Any], int]:
        """Choose the values that a feature is set to.

        Returns
        -------
        at : array of int64 of shape (n_values,)
            A row that has each of the values.
        values : array of shape (n_values,)
            Numbers in ascending order, or labels, the most frequent first; a missing value is the last.
        n_omitted : int
            Number of labels that were left out.

        Raises
        ------
        RowsError
            There is no such feature.
        """
        k = self._number(name)
        return _values(column_values(self._columns, self._positions[k]), most, is_category=k in self._categories)

    def raw_outputs(self, name: str, at: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return raw outputs with a feature set to its value in some rows, shape (n_rows, len(at), n_outputs)."""
        k = self._number(name)
        if self._transformed is not None:
            return self._transformed.outputs(self._positions[k], at)
        return self._changed.outputs(np.array([k]), self._matrix[at, k : k + 1])

    def _number(self, name: str) -> int:
        if name not in self.names:
            if not isinstance(name, str):
                raise RowsError(
                    f"features must be names of columns, and {name!r} is none. No response is needed: leave y out"
                )
            hint = nearest(name, self.names)
            raise RowsError(f"features has {name!r}, which is not a column that can be changed.{hint}")
        return self.names.index(name)


class _View:
    """What is shown of the raw output of an ensemble: its scale, and the names of its columns."""

    def __init__(self, ensemble: TreeEnsemble, output: str) -> None:
        objective = ensemble.objective.name
        fractions = ensemble.averaged and objective == "squared_error"
        self._ensemble = ensemble
        self._is_response = output == "response"
        self._without_first = ensemble.is_classifier and ensemble.n_outputs == 2
        shown = self.of(ensemble.base[None, None]).shape[-1]
        self.names = ensemble.output_names[int(self._without_first) :]
        if len(self.names) != shown:  # the means of a distribution with other parameters beside them
            self.names = numbered_outputs(shown)
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
        values = self._ensemble.objective.mean(raw) if self._is_response else raw
        return values[..., int(self._without_first) :]


def _drawn(n_rows: int, max_rows: int, seed: int) -> NDArray[np.int64]:
    """Return the positions of at most `max_rows` rows, ascending."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False)).astype(np.int64)


def _some_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """Return some rows of X in its own container."""
    if not is_one_column(X):
        return Table(X).native(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[row] for row in rows.tolist()] if isinstance(X, (list, tuple)) else X[rows]


def _categories(ensemble: TreeEnsemble) -> set[int]:
    """Return the features that are categories to the trees."""
    labelled = set(ensemble.category_labels or {})
    if ensemble.category_set is None:
        return labelled
    return labelled | set(ensemble.feature[ensemble.category_set >= 0].tolist())


def _values(column: NDArray[Any], most: int, is_category: bool) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    """Choose the values that a feature is set to, as :meth:`ColumnChanger.values` returns them."""
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
