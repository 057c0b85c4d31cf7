"""The labels that transformers know: those of encoders, followed back to the columns of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.hooks.wrapping import together

if TYPE_CHECKING:
    from debias.hooks.wrapping import Labels


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
        return _of_columns(transformer, n_columns, after)
    if isinstance(transformer, FeatureUnion):
        return together([labels_before(part, n_columns, {}) for _, part in transformer.transformer_list])
    if isinstance(transformer, SelectorMixin):
        kept = np.flatnonzero(transformer.get_support()).tolist()
        return {kept[k]: labels for k, labels in after.items()}
    if isinstance(transformer, SimpleImputer):
        return _before_imputer(transformer, after)
    categories = getattr(transformer, "categories_", None)  # of encoders, also of other packages
    if isinstance(categories, list) and len(categories) == n_columns:
        return {k: np.asarray(labels, dtype=object).tolist() for k, labels in enumerate(categories)}
    return {}


def _of_columns(transformer: Any, n_columns: int, after: Labels) -> Labels:
    """Return the labels of the columns that each part of a ColumnTransformer takes."""
    found = []
    for name, part, _ in transformer.transformers_:
        inputs = np.arange(n_columns)[transformer._transformer_to_input_indices[name]].tolist()
        outputs = transformer.output_indices_[name]
        of_part = {k - outputs.start: labels for k, labels in after.items() if outputs.start <= k < outputs.stop}
        known = labels_before(part, len(inputs), of_part)
        found.append({inputs[k]: labels for k, labels in known.items()})
    return together(found)


def _before_imputer(imputer: Any, after: Labels) -> Labels:
    """Return the labels of the columns that an imputer keeps; a text that it takes for missing is one of them."""
    names = list(getattr(imputer, "feature_names_in_", [f"x{k}" for k in range(imputer.n_features_in_)]))
    kept = [names.index(name) for name in imputer.get_feature_names_out(names).tolist() if name in names]
    own = [imputer.missing_values] if isinstance(imputer.missing_values, str) else []
    return {kept[k]: labels and [*labels, *own] for k, labels in after.items() if k < len(kept)}
