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
    for structure in (_composed, _one_input, _known):
        found = structure(transformer, n_columns)
        if found is not None:
            return found
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
        at = np.arange(n_columns)
        for _, step in transformer.steps:
            at = at[sources(step, at.size)]
        return at
    if isinstance(transformer, FeatureUnion):
        return np.concatenate([sources(each, n_columns) for _, each in transformer.transformer_list])
    if isinstance(transformer, ColumnTransformer):
        places = {
            name: np.arange(n_columns)[transformer._transformer_to_input_indices[name]]
            for name, _, _ in transformer.transformers_
        }
        slices = transformer.output_indices_
        out = np.full(max(part.stop for part in slices.values()), -1, dtype=np.int64)
        for name, each, _ in transformer.transformers_:
            if slices[name].stop > slices[name].start:
                out[slices[name]] = places[name][sources(each, places[name].size)]
        return out
    return None


def _one_input(transformer: Any, n_columns: int) -> NDArray[np.int64] | None:
    """Return 0 for each output column if there is one input column only."""
    if n_columns != 1 or not hasattr(transformer, "get_feature_names_out"):
        return None
    return np.zeros(len(transformer.get_feature_names_out()), dtype=np.int64)


def _known(transformer: Any, n_columns: int) -> NDArray[np.int64] | None:
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

    same = np.arange(n_columns)
    if isinstance(transformer, SelectorMixin):
        return np.flatnonzero(transformer.get_support())
    if isinstance(transformer, OneHotEncoder):
        return np.repeat(same, transformer._n_features_outs)
    if isinstance(transformer, KBinsDiscretizer):
        return same if transformer.encode == "ordinal" else np.repeat(same, transformer.n_bins_)
    if isinstance(transformer, SplineTransformer):
        return np.repeat(same, transformer.n_features_out_ // n_columns)
    if isinstance(transformer, TargetEncoder):  # one column for each class if there are more than two
        return np.repeat(same, len(transformer.get_feature_names_out()) // n_columns)
    if isinstance(transformer, _BaseImputer):
        return _imputed(transformer, n_columns)
    if isinstance(transformer, MissingIndicator):
        return np.asarray(transformer.features_, dtype=np.int64)
    if isinstance(transformer, FunctionTransformer):
        identity = transformer.func is None or transformer.feature_names_out == "one-to-one"
        return same if identity else None
    # Normalizer divides by the norm of the row, so each of its columns comes from all columns.
    return same if isinstance(transformer, OneToOneFeatureMixin) and not isinstance(transformer, Normalizer) else None


def _imputed(imputer: Any, n_columns: int) -> NDArray[np.int64]:
    """Return the columns an imputer keeps, followed by those of its indicators, by their names."""
    names = list(getattr(imputer, "feature_names_in_", [f"x{k}" for k in range(n_columns)]))
    indicated = [] if getattr(imputer, "indicator_", None) is None else imputer.indicator_.features_.tolist()
    kept = imputer.get_feature_names_out().tolist()
    return np.array([names.index(name) for name in kept[: len(kept) - len(indicated)]] + indicated, dtype=np.int64)
