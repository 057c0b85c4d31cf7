"""Stages of a Spark pipeline, and what those that debias knows do to columns.

A column of a Spark frame is a `Part`: numbers, texts, or a vector of numbers in each row. Each number comes from one
column of the user.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasWarning, RowsError, UnsupportedModelError
from debias.text import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALONE = (
    "Let Spark transform the rows, and score the last model alone (pipeline.stages[-1]) with the entries of its vector "
    "as columns"
)


@dataclass(frozen=True, eq=False)
class Stage:
    """A fitted stage of a pipeline.

    Parameters
    ----------
    kind : str
        Its class in Spark, without the package.
    params : dict
        Spark's parameters by name.
    data : dict
        What was learned from the training rows, by the names in Spark's files.
    model : object, or None
        The model of trees, if the stage is one.
    """

    kind: str
    params: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)
    model: Any = None

    @property
    def inputs(self) -> list[str]:
        """Names of the columns that it reads."""
        of_selectors = [self.params["featuresCol"]] if "featuresCol" in self.params else []
        return self._names("inputCol") or of_selectors

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that it makes."""
        return self._names("outputCol")

    def number(self, name: str) -> float:
        """Return a parameter that is a number; Spark writes some as text ("NaN", "Inf")."""
        return float(self.params[name])

    def _names(self, name: str) -> list[str]:
        several, one = self.params.get(f"{name}s"), self.params.get(name)
        # A stage of several columns has defaults for one column too.
        return list(several) if several else [one] if one else []


@dataclass(frozen=True, eq=False)
class Part:
    """A column of a Spark frame.

    Parameters
    ----------
    values : array of shape (n_rows, width)
        float64 with NaN where missing; or objects, one text in each row, with None where missing.
    names : tuple of str
        Names of the entries of a vector; the name of the column, if it is not a vector.
    sources : tuple of int
        Column of the user that each entry comes from.
    labels : tuple of str, or None
        Label of each code, if the values are codes.
    is_vector : bool
    whole : bool
        Whether the type of the column is one of whole numbers.
    """

    values: NDArray[Any]
    names: tuple[str, ...]
    sources: tuple[int, ...]
    labels: tuple[str, ...] | None = None
    is_vector: bool = False
    whole: bool = False


def codes_of(values: NDArray[Any], labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each value among labels; -1 where it is missing or unknown.

    Spark writes numbers as text before it looks them up. Here numbers are compared with the numbers that the labels
    stand for, so that 1, 1.0 and "1.0" are the same label.

    Parameters
    ----------
    values : array of shape (n_rows,)
        float64, or objects.
    labels : sequence of str

    Raises
    ------
    RowsError
        Several labels stand for the same number, or values are neither text nor numbers.
    """
    import pandas as pd

    if values.dtype.kind == "f":
        numbers = np.array([_as_number(label) for label in labels], dtype=np.float64)
        at = np.flatnonzero(~np.isnan(numbers))
        if np.unique(numbers[at]).size < at.size:
            raise RowsError("several labels of a StringIndexer stand for one number: pass the column as text")
        return np.append(at, -1)[pd.Index(numbers[at]).get_indexer(pd.Index(values))]
    place = {label: k for k, label in enumerate(labels)}
    other = next((value for value in values if value is not None and not isinstance(value, str)), None)
    if other is not None:
        raise RowsError(
            f"a StringIndexer of Spark reads text and numbers, and a column of X has a {type(other).__name__} "
            f"({other!r}): pass the text that Spark made of it"
        )
    return np.array([place.get(value, -1) for value in values.tolist()], dtype=np.int64)


def applied(stage: Stage, number: int, parts: list[Part]) -> Part:
    """Return the column that a stage makes.

    Parameters
    ----------
    stage : Stage
    number : int
        Which of `stage.outputs`.
    parts : list of Part
        What it is made of: for most stages one column, for a VectorAssembler all its inputs.

    Raises
    ------
    UnsupportedModelError
        debias does not know what the stage does.
    RowsError
        Spark refuses or leaves out some of these rows.
    """
    if stage.kind == "VectorAssembler":
        return _assembled(stage, parts)
    if stage.kind not in OF_ONE_COLUMN:
        raise UnsupportedModelError(
            f"the pipeline makes column {stage.outputs[number]!r} by a {stage.kind}, which debias cannot repeat. "
            f"{KNOWN}. {ALONE}"
        )
    return OF_ONE_COLUMN[stage.kind](stage, number, parts[0])


def refuse_hidden_columns(stage: Stage) -> None:
    """Raise an UnsupportedModelError if a stage may change any columns: it does not name those that it makes."""
    if not stage.outputs and stage.kind not in OF_ONE_COLUMN:
        raise UnsupportedModelError(
            f"the pipeline has a {stage.kind} before its trees, which debias cannot repeat: it does not say which "
            f"columns it makes. {KNOWN}. {ALONE}"
        )


def vector_width(stage: Stage) -> int | None:
    """Return the number of entries of the vector that a stage reads; None if it reads no vector, or does not say."""
    if stage.kind == "VectorIndexerModel":
        return int(stage.data["numFeatures"])
    learned = {
        "StandardScalerModel": "mean",
        "MinMaxScalerModel": "originalMin",
        "MaxAbsScalerModel": "maxAbs",
        "RobustScalerModel": "range",
    }
    return len(stage.data[learned[stage.kind]]) if stage.kind in learned else None


def _as_number(label: str) -> float:
    if label in ("true", "false"):
        return float(label == "true")
    try:
        return float(label)
    except ValueError:
        return np.nan


def _refuse(stage: Stage, part: Part, wrong: NDArray[np.bool_], what: str) -> None:
    """Refuse rows that Spark refuses or leaves out."""
    if not wrong.any():
        return
    row = int(wrong.argmax())
    does = "leaves such rows out" if stage.params.get("handleInvalid") == "skip" else "refuses such rows"
    name = part.names[0] if not part.is_vector else listed(list(part.names[:3]))
    raise RowsError(
        f"the {stage.kind} of the pipeline {does}: {what} in column {name!r} (row {row} of X). Leave them out of X and "
        "y, or fit the pipeline with handleInvalid='keep'"
    )


def _indexed(stage: Stage, number: int, part: Part) -> Part:
    labels = tuple(stage.data["labelsArray"][number])
    codes = codes_of(part.values[:, 0], labels)
    if stage.params["handleInvalid"] == "keep":
        codes = np.where(codes < 0, len(labels), codes)
        labels = (*labels, "__unknown")
    unknown = codes < 0
    shown = part.values[unknown, 0][:1].tolist()
    what = "a missing value" if not shown or shown[0] is None or shown[0] != shown[0] else f"the new label {shown[0]!r}"
    _refuse(stage, part, unknown, what)
    return replace(part, values=codes[:, None].astype(np.float64), labels=labels, whole=False)


def _one_hot(stage: Stage, number: int, part: Part) -> Part:
    size = int(stage.data["categorySizes"][number])
    keeps, drops = stage.params["handleInvalid"] == "keep", bool(stage.params["dropLast"])
    codes = part.values[:, 0]
    outside = ~((codes >= 0) & (codes < size))
    if not keeps:
        _refuse(stage, part, outside, f"a code that is not one of 0 to {size - 1}")
    columns = np.where(outside, size, codes).astype(np.int64)
    width = size + keeps - drops
    labels = part.labels if part.labels is not None and len(part.labels) >= size else tuple(map(str, range(size)))
    names = (*labels[:size], *(["invalidValues"] if keeps else []))[:width]
    values = (columns[:, None] == np.arange(width)).astype(np.float64)
    return Part(values, names, part.sources * width, is_vector=True)


def _imputed(stage: Stage, number: int, part: Part) -> Part:
    surrogate, missing = float(stage.data["surrogates"][stage.inputs[number]]), stage.number("missingValue")
    values = _numbers(stage, part)
    is_missing = np.isnan(values) | (values == missing)
    if part.whole:
        surrogate = float(int(surrogate))  # Spark casts it to the type of the column
    elif surrogate % 1 and is_missing.any() and (np.floor(values) == values)[~is_missing].all():
        warnings.warn(
            f"the floats of column {part.names[0]!r} are whole numbers, and {surrogate:g} is imputed. If Spark had "
            f"integers, it imputed {int(surrogate)}: then pass the column as integers (Int64 of pandas)",
            DebiasWarning,
            stacklevel=2,
        )
    return replace(part, values=np.where(is_missing, surrogate, values))


def _bucketed(stage: Stage, number: int, part: Part) -> Part:
    several = stage.params.get("splitsArray")
    splits = np.array([float(edge) for edge in (several[number] if several else stage.params["splits"])])
    values = _numbers(stage, part)[:, 0]
    missing = np.isnan(values)
    if stage.params["handleInvalid"] != "keep":
        _refuse(stage, part, missing, "a missing value")
    _refuse(replace(stage, params={}), part, (values < splits[0]) | (values > splits[-1]), "a value beyond the splits")
    buckets = np.minimum(np.searchsorted(splits, values, side="right") - 1, splits.size - 2).astype(np.float64)
    return replace(part, values=np.where(missing, splits.size - 1, buckets)[:, None], whole=False)


def _binarized(stage: Stage, number: int, part: Part) -> Part:
    several = stage.params.get("thresholds")
    threshold = float(several[number]) if several else stage.number("threshold")
    return replace(part, values=(_numbers(stage, part) > threshold).astype(np.float64), whole=False)


def _vector_indexed(stage: Stage, number: int, part: Part) -> Part:
    values = part.values.copy()
    for entry, codes in stage.data["categoryMaps"].items():
        column, code = part.values[:, int(entry)], np.full(len(values), np.nan)
        for value, of_value in codes.items():
            code[column == float(value)] = of_value
        if stage.params["handleInvalid"] == "keep":
            code[np.isnan(code)] = len(codes)
        of_entry = replace(part, names=(part.names[int(entry)],), is_vector=False)
        _refuse(stage, of_entry, np.isnan(code), "a value that is not one of the categories")
        values[:, int(entry)] = code
    return replace(part, values=values)


def _standardized(stage: Stage, number: int, part: Part) -> Part:
    mean, scale = np.array(stage.data["mean"]), _inverse(stage.data["std"])
    values = part.values - mean if stage.params["withMean"] else part.values
    return replace(part, values=values * scale if stage.params["withStd"] else values)


def _robust(stage: Stage, number: int, part: Part) -> Part:
    median, scale = np.array(stage.data["median"]), _inverse(stage.data["range"])
    values = part.values - median if stage.params["withCentering"] else part.values
    return replace(part, values=values * scale if stage.params["withScaling"] else values)


def _min_max(stage: Stage, number: int, part: Part) -> Part:
    low, high = stage.number("min"), stage.number("max")
    smallest, span = (
        np.array(stage.data["originalMin"]),
        np.subtract(stage.data["originalMax"], stage.data["originalMin"]),
    )
    factor = np.divide(high - low, span, out=np.zeros_like(span), where=span != 0)
    scaled = (part.values - smallest) * factor + low
    constant = np.where(np.isnan(part.values), np.nan, (low + high) / 2)
    return replace(part, values=np.where(factor != 0, scaled, constant))


def _max_abs(stage: Stage, number: int, part: Part) -> Part:
    largest = np.array(stage.data["maxAbs"])
    return replace(part, values=part.values * (1 / np.where(largest == 0, 1.0, largest)))


def _selected(stage: Stage, number: int, part: Part) -> Part:
    chosen = [int(k) for k in stage.data["selectedFeatures"]]
    return _entries(part, chosen)


def _sliced(stage: Stage, number: int, part: Part) -> Part:
    by_name = [part.names.index(name) for name in stage.params.get("names") or []]
    return _entries(part, [*map(int, stage.params.get("indices") or []), *by_name])


def _entries(part: Part, chosen: list[int]) -> Part:
    names, sources = tuple(part.names[k] for k in chosen), tuple(part.sources[k] for k in chosen)
    return replace(part, values=part.values[:, chosen], names=names, sources=sources)


OF_ONE_COLUMN: dict[str, Callable[[Stage, int, Part], Part]] = {
    "StringIndexerModel": _indexed,
    "OneHotEncoderModel": _one_hot,
    "ImputerModel": _imputed,
    "Bucketizer": _bucketed,
    "Binarizer": _binarized,
    "VectorIndexerModel": _vector_indexed,
    "StandardScalerModel": _standardized,
    "RobustScalerModel": _robust,
    "MinMaxScalerModel": _min_max,
    "MaxAbsScalerModel": _max_abs,
    "VectorSlicer": _sliced,
    "ChiSqSelectorModel": _selected,
    "UnivariateFeatureSelectorModel": _selected,
    "VarianceThresholdSelectorModel": _selected,
}
"""What a stage makes of one of its columns."""
KNOWN = f"debias knows {listed([*OF_ONE_COLUMN, 'VectorAssembler'])}"


def _assembled(stage: Stage, parts: list[Part]) -> Part:
    values: list[NDArray[np.float64]] = []
    names: list[str] = []
    sources: list[int] = []
    for name, part in zip(stage.inputs, parts, strict=True):
        numbers = _numbers(stage, part)
        if stage.params["handleInvalid"] != "keep":
            _refuse(stage, part, np.asarray(np.isnan(numbers).any(axis=1)), "a missing value")
        values.append(numbers)
        names += [f"{name}_{entry}" for entry in part.names] if part.is_vector else [name]
        sources += part.sources
    return Part(np.hstack(values), tuple(names), tuple(sources), is_vector=True)


def _numbers(stage: Stage, part: Part) -> NDArray[np.float64]:
    """Return the values of a part, which must be numbers."""
    if part.values.dtype.kind == "O" and len(part.values):
        shown = next((value for value in part.values[:, 0] if value is not None), None)
        raise RowsError(
            f"the {stage.kind} of the pipeline takes numbers, and column {part.names[0]!r} of X has the value "
            f"{shown!r}: pass the column with the type that it had in training"
        )
    return part.values.astype(np.float64)


def _inverse(scale: Any) -> NDArray[np.float64]:
    array = np.array(scale, dtype=np.float64)
    return np.divide(1.0, array, out=np.zeros_like(array), where=array != 0)
