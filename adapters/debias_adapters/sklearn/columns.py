"""Sources of the columns of scikit-learn's transformers: the input column that each output column is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sources(transformer: Any, n_columns: int) -> NDArray[np.int64]:
    """Return for each output column the one input column it comes from.

    Parameters
    ----------
    transformer : fitted transformer, or "passthrough", "drop" or None
    n_columns : int
        Number of input columns.

    Returns
    -------
    array of int64 of shape (n_columns_out,)

    Raises
    ------
    UnsupportedModelError
        An output column is made of several input columns (PCA, interactions), or its source is unknown.
    """
    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return np.arange(n_columns)
    if isinstance(transformer, str) and transformer == "drop":
        return np.zeros(0, dtype=np.int64)
    for trace in (_composed, _one_input, _by_type):
        columns = trace(transformer, n_columns)
        if columns is not None:
            return columns
    raise UnsupportedModelError(
        f"the transformer {type(transformer).__name__} makes a column of several columns, or the source of a column is "
        "unknown: scores cannot be traced back to the columns of X. Score the model behind it on the transformed rows, "
        "e.g. debias.score(pipeline[-1], pipeline[:-1].transform(X), y)."
    )


def _composed(transformer: Any, n_columns: int) -> NDArray[np.int64] | None:
    """Follow the columns through pipelines, unions and column transformers."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline

    if isinstance(transformer, Pipeline):
        columns = np.arange(n_columns)
        for _, step in transformer.steps:
            columns = columns[sources(step, columns.size)]
        return columns
    if isinstance(transformer, FeatureUnion):
        return np.concatenate([sources(part, n_columns) for _, part in transformer.transformer_list])
    if isinstance(transformer, ColumnTransformer):
        input_columns = {
            name: np.arange(n_columns)[transformer._transformer_to_input_indices[name]]
            for name, _, _ in transformer.transformers_
        }
        slices = transformer.output_indices_
        columns_out = np.full(max(output_slice.stop for output_slice in slices.values()), -1, dtype=np.int64)
        for name, part, _ in transformer.transformers_:
            if slices[name].stop > slices[name].start:
                columns_out[slices[name]] = input_columns[name][sources(part, input_columns[name].size)]
        return columns_out
    return None


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
        is_one_to_one = transformer.func is None or transformer.feature_names_out == "one-to-one"
        return columns if is_one_to_one else None
    # Normalizer divides by the norm of the row, so each of its columns comes from all columns.
    is_one_to_one = isinstance(transformer, OneToOneFeatureMixin) and not isinstance(transformer, Normalizer)
    return columns if is_one_to_one else None


def _imputed(imputer: Any, n_columns: int) -> NDArray[np.int64]:
    """Return the columns an imputer keeps, followed by those of its indicators, by their names."""
    names = list(getattr(imputer, "feature_names_in_", [f"x{k}" for k in range(n_columns)]))
    indicator_columns = [] if getattr(imputer, "indicator_", None) is None else imputer.indicator_.features_.tolist()
    names_out = imputer.get_feature_names_out().tolist()
    kept_columns = [names.index(name) for name in names_out[: len(names_out) - len(indicator_columns)]]
    return np.array(kept_columns + indicator_columns, dtype=np.int64)
