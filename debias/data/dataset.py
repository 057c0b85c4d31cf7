"""The class Data: features and a response, for scorers that need no model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.chosen_rows import originals, permuted_response, row_positions, rows_of, times
from debias.data.response import one_column, refuse_missing
from debias.data.row_order import refuse_other_order, require_pairs
from debias.data.spark_rows import refuse_spark
from debias.data.table import LAZY, column_order, rows_and_columns, warn_of_unknown
from debias.errors import CompositionError, RowsError
from debias.hooks.contracts import DataScorer
from debias.hooks.scorers import values_and_details
from debias.parallel import Engine
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    import pandas as pd
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.trees.ensemble import TreeEnsemble

FEW = 20
"""Without a model, whole numbers with at most this many distinct values are taken for classes."""


@dataclass(frozen=True, eq=False)
class Column:
    """One decoded feature: numbers, or categories without an order.

    Parameters
    ----------
    values : array of float64 of shape (n_rows,)
        Numbers (of ordered categories, their positions), or codes 0, 1, 2, ... of categories; NaN where missing.
    categorical : bool
        True if the values are codes of categories without an order.
    """

    values: NDArray[np.float64]
    categorical: bool

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Codes of the distinct values, from 0 and in order; missing values have the last code. Shape (n_rows,)."""
        return np.unique(self.values, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """Features and a response, for a :class:`debias.plugin.DataScorer`. Immutable; copies share memory if possible.

    A meta-method makes changed copies with `with_response` (permuted responses) and `with_features` (permuted or
    added columns), and scores these.

    Parameters
    ----------
    X : DataFrame of shape (n_rows, n_features)
        The user's columns with their types: categories stay categories, and missing values stay missing.
    y : array of shape (n_rows,)
        Labels or numbers, none missing.
    classification : bool or None
        Whether the model is a classifier. None without a model; then `is_classification` decides by y.
    weight : array of float64 of shape (n_rows,), or None
        None if the user passed no weights.
    seed : int or None
        For scorers that draw random numbers.
    n_jobs : int
        Number of threads.
    engine : Engine
        Settings for running the replicates of a meta-method.
    copy_of : array of int64 of shape (n_rows,), or None
        If `rows` repeated rows, the original row that each row is a copy of. A scorer that holds rows out must keep
        copies together, or refuse them with `refuse_copies`.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    classification: bool | None = None
    weight: NDArray[np.float64] | None = None
    seed: int | None = None
    n_jobs: int = 1
    engine: Engine = Engine()
    copy_of: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.X.shape[1]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(str(name) for name in self.X.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Every feature as numbers or category codes.

        Raises
        ------
        RowsError
            A column is neither, for example dates; the message names it.
        """
        return tuple(_decoded(self.X.iloc[:, k], name) for k, name in enumerate(self.feature_names))

    @cached_property
    def is_classification(self) -> bool:
        """Whether y holds classes. Without a model: labels, booleans, and whole numbers with few distinct values."""
        if self.classification is not None:
            return self.classification
        if self.y.dtype.kind != "f" and self.y.dtype.kind not in "iu":
            return True
        return bool((self.y == np.round(self.y)).all()) and len(np.unique(self.y)) <= FEW

    @cached_property
    def labels(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes of y, sorted, and the class of each row, shape (n_rows,)."""
        try:
            classes, codes = np.unique(self.y, return_inverse=True)
        except TypeError:  # labels of mixed types cannot be sorted
            classes, codes = np.unique([repr(label) for label in self.y.tolist()], return_inverse=True)
        return classes, codes.astype(np.int64)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The response as numbers, shape (n_rows,).

        Raises
        ------
        RowsError
            y holds labels, or has infinite values.
        """
        try:
            numbers = self.y.astype(np.float64)
        except (TypeError, ValueError):
            raise RowsError(f"y is not numeric (dtype {self.y.dtype}), but this is a regression") from None
        if not np.isfinite(numbers).all():
            raise RowsError(f"y is infinite at position {np.flatnonzero(~np.isfinite(numbers))[0]}")
        return numbers

    def refuse_weights(self, scorer: str) -> None:
        """Raise a RowsError if the rows have weights; for scorers that count rows."""
        if self.weight is not None:
            raise RowsError(f"{scorer} counts rows and takes no sample_weight; leave it out, or repeat rows")

    def refuse_copies(self, scorer: str) -> None:
        """Raise a CompositionError if rows are repeated; for scorers that hold rows out."""
        if self.copy_of is not None:
            raise CompositionError(
                f"{scorer} holds rows out, and copies of a row could be on both sides: choose each row once at most, "
                "for example half of the rows instead of a bootstrap sample"
            )

    def with_response(self, y: NDArray[Any]) -> Self:
        """Return the same rows with another response of the same kind and shape, for example a permuted one."""
        return self._sharing(replace(self, y=y, classification=self.is_classification))

    def with_features(self, X: pd.DataFrame) -> Self:
        """Return the same response with other features, shape (n_rows, any)."""
        return replace(self, X=X)

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """Names of the columns of each feature; here each feature is one column."""
        return tuple((name,) for name in self.feature_names)

    def permuted(self, rng: np.random.Generator) -> Self:
        """Return the same rows with a permuted response; weights stay with their rows."""
        return self.with_response(permuted_response(rng, self.y, self.copy_of))

    def changed(self, change: Callable[[pd.DataFrame], pd.DataFrame], copies: Mapping[str, str] | None = None) -> Self:
        """Return the same response with changed columns; see :class:`debias.plugin.Problem`."""
        X = change(self.X.copy(deep=False))  # columns that are assigned in place do not reach the user's frame
        require_pairs(self.X, X, self.members)
        return self.with_features(X)

    def rows(self, indices: Any) -> Self:
        """Return some of the rows, by position; positions may be repeated. See :class:`debias.plugin.Problem`."""
        chosen = row_positions(indices, self.n_rows)
        return replace(
            self,
            X=rows_of(self.X, chosen),
            y=self.y[chosen],
            classification=self.is_classification,
            weight=None if self.weight is None else self.weight[chosen],
            copy_of=originals(self.copy_of, chosen),
        )

    def weighted(self, weights: Any) -> Self:
        """Return the same rows with their weights multiplied by others; see :class:`debias.plugin.Problem`."""
        return self._sharing(replace(self, weight=times(self.weight, weights, self.n_rows)))

    def inside(self, seed: int) -> Self:
        """Return the data for use inside a replicate: with another seed, one thread and a quiet engine."""
        return self._sharing(replace(self, seed=seed, n_jobs=1, engine=self.engine.inner))

    def score(self, scorer: Scorer) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number per feature, and details."""
        assert isinstance(scorer, DataScorer)
        return values_and_details(scorer, scorer.score(self), self)

    def fingerprint(self) -> str:
        """Return a text that identifies the data and the version of debias."""
        from debias._version import __version__
        from debias.data.digest import digest_of

        parts = (self.X, self.y, self.classification, self.weight, self.copy_of)
        return digest_of(*parts, self.seed, np.__version__, __version__)

    def _sharing(self, other: Self) -> Self:
        if "columns" in self.__dict__:
            other.__dict__["columns"] = self.columns
        return other

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        ensemble: TreeEnsemble | None = None,
        weight: NDArray[np.float64] | None = None,
        seed: int | None = None,
        n_jobs: int = 1,
        engine: Engine | None = None,
    ) -> Data:
        """Return the data for the arguments that the user passed.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        ensemble : TreeEnsemble, optional
            The trees of the model, if there is one: they give the order of the columns and whether y holds classes.
        weight, seed, n_jobs, engine
            As for the class.

        Raises
        ------
        RowsError
            X or y has a wrong shape, y has missing values, or X does not have the columns of the model.
        """
        refuse_other_order(X, y=y)
        if ensemble is not None and not ensemble.objective.predicts_response:
            raise CompositionError(
                "scorers of data take y as numbers or classes to be predicted, and this model was trained for "
                f"another kind of response ({ensemble.objective.name})"
            )
        frame = as_frame(X)
        if frame.shape[0] == 0 or frame.shape[1] == 0:
            raise RowsError(f"X has shape {frame.shape}: there is nothing to score")
        response = one_column(y)
        if len(response) != len(frame):
            raise RowsError(f"y has {len(response)} entries, but X has {len(frame)} rows")
        refuse_missing(response)
        if weight is not None and weight.shape != (len(frame),):
            raise RowsError(f"sample_weight has shape {weight.shape} for {len(frame)} rows")
        classification = None
        if ensemble is not None:
            frame = _aligned(frame, ensemble, has_names=hasattr(X, "columns") or hasattr(X, "column_names"))
            classification = ensemble.classes is not None
        return cls(
            X=frame,
            y=response,
            classification=classification,
            weight=weight,
            seed=seed,
            n_jobs=n_jobs,
            engine=engine or Engine(),
        )


def as_frame(X: Any) -> pd.DataFrame:
    """Return X as a pandas frame; arrays get made-up names, and tables of other libraries are converted."""
    import narwhals.stable.v2 as nw
    import pandas as pd

    if X is None:
        raise RowsError("X is missing; pass the features")
    if isinstance(X, pd.DataFrame):
        repeated = X.columns[X.columns.duplicated()]
        if len(repeated):
            raise RowsError(f"X has columns of the same name: {', '.join(map(str, repeated))}")
        return X
    refuse_spark(X)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise RowsError(LAZY)
    if isinstance(frame, nw.DataFrame):
        return pd.DataFrame({name: _series(frame[name]) for name in frame.columns})
    if hasattr(X, "tocsr") or isinstance(X, np.ma.MaskedArray):
        raise RowsError(
            "X is a sparse matrix or masked array; pass a plain array with NaN for missing, or a data frame"
        )
    array = rows_and_columns(X)
    made_up = pd.DataFrame(array, columns=[f"x{k}" for k in range(array.shape[1])])
    return made_up.infer_objects() if array.dtype.kind == "O" else made_up


def _series(series: Any) -> Any:
    """Return a polars or Arrow column as an array, a categorical or a series of pandas."""
    import narwhals.stable.v2 as nw
    import pandas as pd

    if isinstance(series.dtype, (nw.Categorical, nw.Enum, nw.String)):
        return pd.Categorical(series.cast(nw.String).to_list())
    numeric = series.dtype.is_numeric() or series.dtype == nw.Boolean
    return np.array(series.to_list(), dtype=np.float64) if numeric else pd.Series(series.to_list(), dtype=object)


def _aligned(frame: pd.DataFrame, ensemble: TreeEnsemble, has_names: bool) -> pd.DataFrame:
    """Return the columns in the order of the model, with the names that its other scores have."""
    names = tuple(str(name) for name in frame.columns) if has_names else None
    order = column_order(names, frame.shape[1], ensemble)
    if order is not None:
        warn_of_unknown(names, order, WarningLog())
        frame = frame.iloc[:, order]
    names_of_model = list(ensemble.named_as_in(names or ()).feature_names)
    rename = (ensemble.named or not has_names) and list(frame.columns) != names_of_model
    return frame.set_axis(names_of_model, axis=1) if rename else frame


def _decoded(column: pd.Series[Any], name: str) -> Column:
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = np.asarray(column.cat.codes, dtype=np.float64)
        codes[codes < 0] = np.nan
        return Column(codes, categorical=not column.dtype.ordered)
    if pd.api.types.is_complex_dtype(column.dtype):
        raise RowsError(f"column {name!r} of X has complex numbers. Complex data not supported: pass two columns")
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isinf(values).any():
            raise RowsError(f"column {name!r} of X is infinite in row {np.flatnonzero(np.isinf(values))[0]}")
        return Column(values, categorical=False)
    present = column.dropna()
    if present.map(lambda value: isinstance(value, str)).all():
        return _decoded(column.astype("category"), name)
    if present.map(lambda value: isinstance(value, (bool, int, float, np.number, np.bool_))).all():
        return _decoded(column.astype(np.float64), name)
    raise RowsError(
        f"column {name!r} of X ({column.dtype}) holds neither numbers nor categories: convert it to numbers (for "
        "example, a number of days) or to a pandas category"
    )
