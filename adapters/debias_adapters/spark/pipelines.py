"""A Spark pipeline around a model of trees: the columns of the user, and what the trees see of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.user_columns import column_values
from debias.errors import RowsError, UnsupportedModelError
from debias.hooks.wrapping import Inner, Unwrapped
from debias.text import listed
from debias_adapters.spark.stages import ALONE, Part, Stage, applied, codes_of, refuse_hidden_columns, vector_width
from debias_adapters.spark.trees import SparkTrees

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Reader = Callable[[str, int | None], Part]


@dataclass(frozen=True, eq=False)
class SparkPipeline:
    """The stages of a fitted or saved pipeline, as data that needs neither Spark nor Java.

    Parameters
    ----------
    kind : str
        Its class in Spark.
    stages : tuple of Stage
        Pipelines inside it are replaced by their stages.
    """

    kind: str
    stages: tuple[Stage, ...]

    def __repr__(self) -> str:
        return f"<Spark {self.kind} of {listed([stage.kind for stage in self.stages])}>"

    def unwrapped(self) -> Unwrapped:
        """Return the trees, the columns that they see, and the labels of the user's y.

        Raises
        ------
        UnsupportedModelError
            There is not one model of trees, or debias cannot repeat a stage that its columns come from.
        """
        features = Features(self.stages, self._position)
        stage, labels = self.stages[self._position], self._labels()
        model = replace(stage.model, labels=labels) if isinstance(stage.model, SparkTrees) and labels else stage.model
        names = features.layout.names
        inner = Inner(
            model,
            f"stage {stage.kind}",
            transform=features.encode,
            response=None if labels is None else LabelsOf(labels, isinstance(stage.model, SparkTrees)),
            columns=np.array(features.layout.sources, dtype=np.int64),
            feature_names=names if len(set(names)) == len(names) else None,
            labels=lambda _: self._indexed(features.columns),
        )
        return Unwrapped(self.kind, (inner,), features.columns, named=features.vector is None)

    @property
    def classes_(self) -> NDArray[Any] | None:
        """Labels of the classes, if the pipeline keeps them."""
        labels = self._labels()
        return None if labels is None else np.array(labels, dtype=object)

    def _indexed(self, columns: tuple[str, ...]) -> dict[int, list[Any] | None]:
        """Return the labels of the user's columns of text."""
        return {
            columns.index(name): list(labels)
            for stage in self.stages
            if stage.kind == "StringIndexerModel"
            for name, labels in zip(stage.inputs, stage.data["labelsArray"], strict=True)
            if name in columns
        }

    @cached_property
    def _position(self) -> int:
        """Position of the model of trees."""
        found = [k for k, stage in enumerate(self.stages) if stage.model is not None]
        if len(found) != 1:
            kinds = listed([stage.kind for stage in self.stages])
            raise UnsupportedModelError(
                f"this Spark {self.kind} has {len(found) or 'no'} models of trees that debias knows among its stages "
                f"({kinds}); it must have one"
            )
        return found[0]

    def _labels(self) -> tuple[str, ...] | None:
        """Return the labels of the classes, if a stage before or after the model tells them."""
        params = self.stages[self._position].params
        for stage in self.stages[: self._position]:
            if stage.kind == "StringIndexerModel" and params["labelCol"] in stage.outputs:
                return tuple(stage.data["labelsArray"][stage.outputs.index(params["labelCol"])])
        for stage in self.stages[self._position + 1 :]:
            if stage.kind == "IndexToString" and params["predictionCol"] in stage.inputs and stage.params.get("labels"):
                return tuple(stage.params["labels"])
        return None


@dataclass(frozen=True)
class LabelsOf:
    """The user's y as the model of trees has it.

    Parameters
    ----------
    labels : tuple of str
        Labels of the classes.
    as_text : bool
        True to return the labels; False to return their codes.
    """

    labels: tuple[str, ...]
    as_text: bool

    def __call__(self, y: Any) -> NDArray[Any]:
        """Return labels or codes of shape (n_rows,)."""
        columns = np.asarray(y, dtype=object).reshape(len(y), -1)
        if columns.shape[1] != 1:
            raise RowsError(f"y must have one value per row; it has {columns.shape[1]} columns")
        values = column_values(columns, 0)
        codes = codes_of(values, self.labels)
        if (codes < 0).any():
            row = int((codes < 0).argmax())
            raise RowsError(
                f"y has the label {values[row]!r} (row {row}), which the pipeline never saw; it knows "
                f"{list(self.labels[:10])}. Pass y as the pipeline was trained on"
            )
        return np.array(self.labels, dtype=object)[codes] if self.as_text else codes


class Features:
    """How a pipeline makes the columns that its trees see.

    Parameters
    ----------
    stages : tuple of Stage
    position : int
        The stage with the trees.

    Attributes
    ----------
    columns : tuple of str
        The columns of the user, in the order in which the trees see what is made of them.
    vector : str, or None
        The column of vectors whose entries are these columns, if the pipeline starts from one.
    layout : Part
        What the trees see, without rows.

    Raises
    ------
    UnsupportedModelError
        A stage is not known, or the number of columns is not that of the trees.
    """

    def __init__(self, stages: tuple[Stage, ...], position: int) -> None:
        self._stages, self._position = stages, position
        self._width = n_features_of(stages[position].model)
        for stage in stages[:position]:
            refuse_hidden_columns(stage)
        register = _Register()
        self.layout = self._made(register)
        self.columns, self.vector = tuple(register.columns), register.vector
        if len(self.layout.names) != self._width:
            raise UnsupportedModelError(
                f"the stages of this Spark pipeline make {len(self.layout.names)} columns, but its trees were trained "
                f"on {self._width}: some column of the frame is a vector, and no stage says how long. {ALONE}"
            )

    def encode(self, X: Any) -> NDArray[np.float64]:
        """Return the columns that the trees see, as Spark makes them of rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            A frame has `columns` among its columns; an array has them in this order.

        Returns
        -------
        array of float64 of shape (n_rows, n_features)

        Raises
        ------
        RowsError
            Columns are missing, or Spark refuses or leaves out some of the rows.
        """
        return self._made(_UserRows(X, self)).values

    def _made(self, read: Reader) -> Part:
        params = self._stages[self._position].params
        names = params.get("features_cols")  # of xgboost.spark
        if not names:
            return self._column(params["featuresCol"], self._position, self._width, read)
        joins = Stage("VectorAssembler", {"inputCols": names, "outputCol": "features", "handleInvalid": "keep"})
        return applied(joins, 0, [self._column(name, self._position, None, read) for name in names])

    def _column(self, name: str, before: int, width: int | None, read: Reader) -> Part:
        """Return a column that a stage before some stage makes, or a column of the user."""
        for k in range(before - 1, -1, -1):
            stage = self._stages[k]
            if stage.model is None and name in stage.outputs:
                number, of = stage.outputs.index(name), vector_width(stage)
                inputs = stage.inputs if stage.kind == "VectorAssembler" else stage.inputs[number : number + 1]
                return applied(stage, number, [self._column(each, k, of, read) for each in inputs])
        return read(name, width)


def n_features_of(model: Any) -> int:
    """Return the number of columns of the trees: of Spark, or of a model of XGBoost or LightGBM."""
    if isinstance(model, SparkTrees):
        return model.n_features
    return int(model.get_booster().num_features() if hasattr(model, "get_booster") else model.num_feature())


class _Register:
    """Notes the columns of the user that a pipeline reads, and gives them without rows."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.vector: str | None = None

    def __call__(self, name: str, width: int | None) -> Part:
        if self.vector not in (None, name) or (self.columns and width is not None and self.vector is None):
            raise UnsupportedModelError(
                f"this Spark pipeline reads a column of vectors ({self.vector or name!r}) beside other columns of the "
                f"frame. {ALONE}"
            )
        if width is not None:
            self.vector, self.columns = name, [f"f{k}" for k in range(width)]
            return Part(np.empty((0, width)), tuple(self.columns), tuple(range(width)), is_vector=True)
        if name not in self.columns:
            self.columns.append(name)
        return Part(np.empty((0, 1)), (name,), (self.columns.index(name),))


class _UserRows:
    """Gives the columns of the user's rows."""

    def __init__(self, X: Any, features: Features) -> None:
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise RowsError("X is a lazy frame; collect() it first")
        self._frame = frame if isinstance(frame, nw.DataFrame) else None
        self._X = X.toarray() if hasattr(X, "tocsr") else X
        self._columns, names = features.columns, None if self._frame is None else self._frame.columns
        self._place = {name: k for k, name in enumerate(features.columns)}
        if names is not None and features.vector is None:
            missing = [name for name in features.columns if name not in names]
            if missing:
                raise RowsError(
                    f"X does not have all columns that the pipeline reads; missing: {listed(missing)}. Pass the "
                    "columns that the pipeline was fitted to, with their names"
                )
            self._place = {name: names.index(name) for name in features.columns}
        elif np.ndim(self._X) != 2 or np.shape(self._X)[1] != len(features.columns):
            what = f"entries of the vector {features.vector!r}" if features.vector else "columns"
            raise RowsError(
                f"X has shape {np.shape(self._X)}, but the pipeline reads {len(features.columns)} {what}"
                + ("" if features.vector else f": {listed(list(features.columns))}")
            )

    def __call__(self, name: str, width: int | None) -> Part:
        columns = self._columns if width is not None else (name,)
        read = [self._values(self._place[column]) for column in columns]
        sources = tuple(self._columns.index(column) for column in columns)
        return Part(
            np.column_stack([values for values, _ in read]),
            columns,
            sources,
            is_vector=width is not None,
            whole=read[0][1],
        )

    def _values(self, position: int) -> tuple[NDArray[Any], bool]:
        """Return a column as float64 or objects, and whether its type is one of whole numbers."""
        import narwhals.stable.v2 as nw

        if self._frame is not None:
            column = self._frame.get_column(self._frame.columns[position])
            if column.dtype.is_numeric() or column.dtype == nw.Boolean:
                native = column.to_native()
                is_pandas = hasattr(native, "iloc")
                values = native.to_numpy(dtype=np.float64, na_value=np.nan) if is_pandas else column.to_numpy()
                return np.asarray(values, dtype=np.float64), bool(column.dtype.is_integer())
        elif isinstance(self._X, np.ndarray) and self._X.dtype.kind in "fiub":
            return self._X[:, position].astype(np.float64), self._X.dtype.kind in "iu"
        return column_values(self._X, position), False
