"""The columns that scikit-learn's transformers make: which columns they are made of, their names, and their labels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.probing import probed
from debias.data.user_columns import copied
from debias.errors import UnsupportedModelError
from debias.hooks.wrapping import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Sources = list[tuple[int, ...]]
    from debias.hooks.wrapping import Labels


def sources(transformer: Any, n_columns: int, rows: Callable[[], Any] | None = None) -> Sources:
    """Return for each output column the input columns it comes from.

    The kind of the transformer tells them for encoders, scalers, imputers and selectors. Others are tried on rows.

    Parameters
    ----------
    transformer : fitted transformer, or "passthrough", "drop" or None
    n_columns : int
        Number of input columns.
    rows : callable, optional
        Returns rows to try the transformer on; without it, transformers of other kinds are refused.

    Returns
    -------
    list of tuple of int, of length n_columns_out

    Raises
    ------
    UnsupportedModelError
        The sources of an output column cannot be found.
    """
    if passes_through(transformer):
        return _singles(range(n_columns))
    if isinstance(transformer, str) and transformer == "drop":
        return []
    composed = _composed(transformer, n_columns, rows)
    if composed is not None:
        return composed
    for trace in (_one_input, _by_type):
        columns = trace(transformer, n_columns)
        if columns is not None:
            return _singles(columns.tolist())
    if rows is None:
        if _says_one_to_one(transformer):
            return _singles(range(n_columns))
        raise UnsupportedModelError(
            f"which columns of X the transformer {type(transformer).__name__} makes its columns of is found by trying "
            "it on rows, and there are none in memory. Pass X and y in memory, or level='model' to score the columns "
            "that the trees see"
        )
    return probed(transformer, rows())


def _composed(transformer: Any, n_columns: int, rows: Callable[[], Any] | None) -> Sources | None:
    """Follow the columns through pipelines, unions and column transformers."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline

    if isinstance(transformer, Pipeline):
        columns = _singles(range(n_columns))
        for place, (_, step) in enumerate(transformer.steps):
            seen = None if rows is None else partial(rows_before, transformer, place, rows)
            columns = after(columns, sources(step, len(columns), seen))
        return columns
    if isinstance(transformer, FeatureUnion):
        return [source for _, part in transformer.transformer_list for source in sources(part, n_columns, rows)]
    if isinstance(transformer, ColumnTransformer):
        slices = transformer.output_indices_
        columns_out: Sources = [()] * max(output_slice.stop for output_slice in slices.values())
        for name, part, _ in transformer.transformers_:
            if slices[name].stop > slices[name].start:
                inputs = np.arange(n_columns)[transformer._transformer_to_input_indices[name]].tolist()
                seen = None if rows is None else partial(rows_of_part, transformer, name, rows)
                columns_out[slices[name]] = after(_singles(inputs), sources(part, len(inputs), seen))
        return columns_out
    return None


def after(first: Sources, second: Sources) -> Sources:
    """Return the sources of columns that are made by one transformer after another."""
    return [tuple(sorted({k for j in made_of for k in first[j]})) for made_of in second]


def rows_before(pipeline: Any, place: int, rows: Callable[[], Any]) -> Any:
    """Return rows as a step of a pipeline sees them."""
    X = rows()
    return transformed(pipeline.steps[:place], copied(X)) if place else X


def transformed(steps: list[tuple[str, Any]], X: Any) -> Any:
    """Return rows after some steps of a pipeline.

    A pipeline of these steps alone would ask the last of them whether it is fitted, and a transformer of the user that
    learns nothing does not look so. The whole pipeline asks only its model.
    """
    for _, step in steps:
        if not passes_through(step):
            X = step.transform(X)
    return X


def passes_through(step: Any) -> bool:
    """Return whether a step of a pipeline leaves rows as they are."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def rows_of_part(transformer: Any, name: str, rows: Callable[[], Any]) -> Any:
    """Return rows as a transformer of a ColumnTransformer sees them."""
    from sklearn.utils import _safe_indexing

    positions = np.arange(transformer.n_features_in_)[transformer._transformer_to_input_indices[name]]
    asked = next(columns for part, _, columns in transformer.transformers_ if part == name)
    is_one = isinstance(asked, (str, int, np.integer))  # the transformer then sees a column of one dimension
    X = rows()
    X = np.asarray(X) if isinstance(X, list) else X  # a ColumnTransformer takes lists of rows
    names = getattr(transformer, "feature_names_in_", None)
    # It takes the columns of a table by their names, which may have another order than in training.
    inputs = (positions if names is None or not hasattr(X, "columns") else names[positions]).tolist()
    return _safe_indexing(X, inputs[0] if is_one else inputs, axis=1)


def _singles(columns: Any) -> Sources:
    return [(column,) for column in columns]


def _one_input(transformer: Any, n_columns: int) -> NDArray[np.int64] | None:
    """Return 0 for each output column if there is one input column only."""
    if n_columns != 1 or not hasattr(transformer, "get_feature_names_out"):
        return None
    return np.zeros(len(transformer.get_feature_names_out()), dtype=np.int64)


def _by_type(transformer: Any, n_columns: int) -> NDArray[np.int64] | None:
    """Return the sources for encoders, scalers, imputers and selectors."""
    from sklearn.base import OneToOneFeatureMixin
    from sklearn.feature_selection import SelectorMixin
    from sklearn.impute import MissingIndicator
    from sklearn.impute._base import _BaseImputer
    from sklearn.preprocessing import (
        FunctionTransformer,
        KBinsDiscretizer,
        Normalizer,
        OneHotEncoder,
        SplineTransformer,
        TargetEncoder,
    )

    columns = np.arange(n_columns)
    if isinstance(transformer, SelectorMixin):
        return np.flatnonzero(transformer.get_support())
    if isinstance(transformer, OneHotEncoder):
        return np.repeat(columns, transformer._n_features_outs)
    if isinstance(transformer, KBinsDiscretizer):
        return columns if transformer.encode == "ordinal" else np.repeat(columns, transformer.n_bins_)
    if isinstance(transformer, SplineTransformer):
        return np.repeat(columns, transformer.n_features_out_ // n_columns)
    if isinstance(transformer, TargetEncoder):  # one column for each class if there are more than two
        return np.repeat(columns, len(transformer.get_feature_names_out()) // n_columns)
    if isinstance(transformer, _BaseImputer):
        return _imputed(transformer, n_columns)
    if isinstance(transformer, MissingIndicator):
        return np.asarray(transformer.features_, dtype=np.int64)
    if isinstance(transformer, FunctionTransformer):
        return columns if transformer.func is None else None
    # Normalizer divides by the norm of the row, so each of its columns comes from all columns.
    is_known = type(transformer).__module__.startswith("sklearn.") and not isinstance(transformer, Normalizer)
    return columns if is_known and isinstance(transformer, OneToOneFeatureMixin) else None


def _says_one_to_one(transformer: Any) -> bool:
    """Whether a transformer of the user gives its columns the names of its inputs: believed without rows to try."""
    from sklearn.base import OneToOneFeatureMixin
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    if isinstance(transformer, FunctionTransformer):
        return bool(transformer.feature_names_out == "one-to-one")
    return isinstance(transformer, OneToOneFeatureMixin) and not isinstance(transformer, Normalizer)


def _imputed(imputer: Any, n_columns: int) -> NDArray[np.int64]:
    """Return the columns an imputer keeps, followed by those of its indicators, by their names."""
    names = list(getattr(imputer, "feature_names_in_", [f"x{k}" for k in range(n_columns)]))
    indicator_columns = [] if getattr(imputer, "indicator_", None) is None else imputer.indicator_.features_.tolist()
    made = imputer.get_feature_names_out().tolist()
    kept_columns = [names.index(name) for name in made[: len(made) - len(indicator_columns)]]
    return np.array(kept_columns + indicator_columns, dtype=np.int64)


def names_out(transformer: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names that a transformer gives to its columns; None if it gives none, or one twice.

    A part of a ColumnTransformer that gives no names, as a function, has those of its input columns if it makes as many
    columns as it takes, and otherwise numbers.

    Parameters
    ----------
    transformer : fitted transformer, or "passthrough" or None
    names : tuple of str
        Names of its input columns.
    """
    found = _names(transformer, names)
    return found if found is not None and len(set(found)) == len(found) else None


def _names(transformer: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    if passes_through(transformer):
        return names
    for arguments in ((), (names,)):
        try:
            return tuple(str(name) for name in transformer.get_feature_names_out(*arguments))
        except (AttributeError, ValueError, TypeError):  # it has no names, or takes others, or a part of it has none
            continue
    if isinstance(transformer, Pipeline):
        found: tuple[str, ...] | None = names
        for _, step in transformer.steps:
            found = None if found is None else _names(step, found)
        return found
    return _names_of_parts(transformer, names) if isinstance(transformer, ColumnTransformer) else None


def _names_of_parts(transformer: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    slices = transformer.output_indices_
    found = [""] * max(output_slice.stop for output_slice in slices.values())
    for name, part, _ in transformer.transformers_:
        n_columns = slices[name].stop - slices[name].start
        if n_columns == 0:
            continue
        inputs = tuple(names[k] for k in transformer._transformer_to_input_indices[name])
        of_part = _names(part, inputs)
        if of_part is None:
            of_part = inputs if len(inputs) == n_columns else tuple(f"{name}{k}" for k in range(n_columns))
        prefix = f"{name}__" if transformer.verbose_feature_names_out is True else ""
        found[slices[name]] = [prefix + column for column in of_part]
    return tuple(found)


def labels_before(transformer: Any, n_columns: int, after: Labels) -> Labels:
    """Return the labels of the input columns of a transformer.

    Parameters
    ----------
    transformer : fitted transformer, or "passthrough", "drop" or None
    n_columns : int
        Number of input columns.
    after : dict of int to list or None
        The labels of its output columns that are known further on.

    Returns
    -------
    dict of int to list or None
        Without the columns of which the transformer tells nothing.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_selection import SelectorMixin
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer

    if transformer is None or (isinstance(transformer, FunctionTransformer) and transformer.func is None):
        return after
    if isinstance(transformer, str):
        return after if transformer == "passthrough" else {}
    if isinstance(transformer, Pipeline):
        for _, step in reversed(transformer.steps):
            after = labels_before(step, getattr(step, "n_features_in_", n_columns), after)
        return after
    if isinstance(transformer, ColumnTransformer):
        return _labels_of_parts(transformer, n_columns, after)
    if isinstance(transformer, FeatureUnion):
        return together([labels_before(part, n_columns, {}) for _, part in transformer.transformer_list])
    if isinstance(transformer, SelectorMixin):
        kept = np.flatnonzero(transformer.get_support()).tolist()
        return {kept[k]: labels for k, labels in after.items()}
    if isinstance(transformer, SimpleImputer):
        return _labels_before_imputer(transformer, after)
    categories = getattr(transformer, "categories_", None)  # of encoders, also of other packages
    if isinstance(categories, list) and len(categories) == n_columns:
        return {k: np.asarray(labels, dtype=object).tolist() for k, labels in enumerate(categories)}
    return {}


def _labels_of_parts(transformer: Any, n_columns: int, after: Labels) -> Labels:
    """Return the labels of the columns that each part of a ColumnTransformer takes."""
    found = []
    for name, part, _ in transformer.transformers_:
        inputs = np.arange(n_columns)[transformer._transformer_to_input_indices[name]].tolist()
        outputs = transformer.output_indices_[name]
        if outputs.stop == outputs.start:  # it may not be fitted: no column was chosen for it
            continue
        of_part = {k - outputs.start: labels for k, labels in after.items() if outputs.start <= k < outputs.stop}
        known = labels_before(part, len(inputs), of_part)
        found.append({inputs[k]: labels for k, labels in known.items()})
    return together(found)


def _labels_before_imputer(imputer: Any, after: Labels) -> Labels:
    """Return labels of the columns that an imputer keeps; a text or None that it takes for missing is one of them."""
    names = list(getattr(imputer, "feature_names_in_", [f"x{k}" for k in range(imputer.n_features_in_)]))
    kept = [names.index(name) for name in imputer.get_feature_names_out(names).tolist() if name in names]
    own = [imputer.missing_values] if isinstance(imputer.missing_values, str | None) else []
    return {kept[k]: labels and [*labels, *own] for k, labels in after.items() if k < len(kept)}
