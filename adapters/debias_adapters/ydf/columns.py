"""Columns of a YDF model: their kinds and dictionaries, and rows of codes in the form that YDF takes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

NUMBERS = ("NUMERICAL", "DISCRETIZED_NUMERICAL")
_ADVICE = {
    "CATEGORICAL_SET": "Make one column of each item instead (for texts CountVectorizer(binary=True))",
    "NUMERICAL_VECTOR_SEQUENCE": "Make columns of numbers instead, such as the mean of each entry",
    "HASH": "Leave the column out",
}
"""Kinds of columns on which splits cannot be read: what to do."""


@dataclass(frozen=True)
class Columns:
    """The input features of a model, in the order of the model.

    Parameters
    ----------
    names, kinds : tuple of str
        Kinds are called as in ``ydf.Semantic``.
    index : dict of int to int
        Number of a column in the model's ``data_spec`` -> position among the features.
    labels : dict of int to array
        Labels of categorical features, in the order of YDF's codes. Code 0 stands for all labels that the dictionary
        does not have: unknown and rare ones.
    boundaries : dict of int to list of float
        Borders of the bins of discretized features.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    index: dict[int, int]
    labels: dict[int, NDArray[Any]]
    boundaries: dict[int, list[float]]

    def ask(self, model: Any, X: NDArray[np.floating[Any]], question: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Return what YDF answers for rows of numbers and codes.

        YDF takes no missing values in a Boolean column, but it takes datasets without the column. So rows in which the
        same Boolean columns are missing are asked about together.

        Parameters
        ----------
        model : ydf.GenericModel
        X : array of shape (n_rows, n_features)
        question : callable
            Takes a dataset of YDF, and returns one entry for each of its rows.
        """
        boolean = [k for k, kind in enumerate(self.kinds) if kind == "BOOLEAN"]
        patterns, pattern_of = np.unique(np.isnan(X[:, boolean]), axis=0, return_inverse=True)
        rows_of = [np.flatnonzero(pattern_of.ravel() == number) for number in range(len(patterns))]
        answers = [
            question(self._dataset(model, X[rows], {boolean[k] for k in np.flatnonzero(pattern)}))
            for pattern, rows in zip(patterns, rows_of, strict=True)
        ]
        together = np.concatenate(answers)
        return together[np.argsort(np.concatenate(rows_of))]

    def _dataset(self, model: Any, X: NDArray[np.floating[Any]], left_out: set[int]) -> Any:
        values = {name: self._values(k, X[:, k]) for k, name in enumerate(self.names) if k not in left_out}
        return sys.modules["ydf"].create_vertical_dataset(
            values, data_spec=model.data_spec(), required_columns=list(values)
        )

    def _values(self, k: int, column: NDArray[np.floating[Any]]) -> NDArray[Any]:
        is_missing = np.isnan(column)
        if self.kinds[k] == "BOOLEAN":
            return column > 0.5
        if self.kinds[k] in NUMBERS:
            return column.astype(np.float32)
        codes = np.where(is_missing, -1, column).astype(np.int64)
        if k not in self.labels:  # the column has codes itself
            return codes.astype(np.int32)
        texts = np.array([_text(label) for label in self.labels[k].tolist()] + [""], dtype=object)
        return texts[codes]


def columns_of(model: Any, source: str) -> Columns:
    """Return the input features of a model.

    Raises
    ------
    UnsupportedModelError
        A feature is a set of items, a sequence of vectors or a hash.
    """
    features, specs = model.input_features(), model.data_spec().columns
    labels, boundaries = {}, {}
    for k, feature in enumerate(features):
        spec, kind = specs[feature.column_idx], feature.semantic.name
        if kind in _ADVICE:
            raise UnsupportedModelError(
                f"this {source} has the column {feature.name!r} of kind {kind}, whose splits are not on one value of a "
                f"row. {_ADVICE[kind]}, and train the model on these"
            )
        if kind == "CATEGORICAL" and not spec.categorical.is_already_integerized:
            labels[k] = dictionary(spec)
        if kind == "DISCRETIZED_NUMERICAL":
            boundaries[k] = list(spec.discretized_numerical.boundaries)
    return Columns(
        names=tuple(feature.name for feature in features),
        kinds=tuple(feature.semantic.name for feature in features),
        index={feature.column_idx: k for k, feature in enumerate(features)},
        labels=labels,
        boundaries=boundaries,
    )


def dictionary(spec: Any) -> NDArray[Any]:
    """Return the labels of a categorical column in the order of its codes, in the type that they had in training."""
    labels = np.empty(spec.categorical.number_of_unique_values, dtype=object)
    for key, item in spec.categorical.items.items():
        labels[item.index] = _typed(key, spec) if item.index else key
    return labels


def _typed(key: Any, spec: Any) -> Any:
    """Return a key of a dictionary, which is a text, as the number or truth value that it was made of."""
    text = key.decode() if isinstance(key, bytes) else key
    kind = spec.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number[spec.dtype].name
    if "INT" in kind:
        return int(text)
    return text == "true" if kind == "DTYPE_BOOL" else text


def _text(label: Any) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)
