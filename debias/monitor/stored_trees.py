"""The trees of a model as arrays: what sums at the leaves need so that they can be scored without the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.groups import Grouping
from debias.errors import ExtractionError
from debias.rows.sealed import Damage
from debias.trees.ensemble import NODE_ARRAYS, OTHER_ARRAYS, TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

STORED = ("tree_start", "feature", "threshold", "left", "right", "value", "tree_output", "base")
OPTIONAL = ("averaging_weight",)
BY_CATEGORY = "by_category"
"""Name of the array that says which splits are on categories. It is stored if there are any."""


def to_arrays(ensemble: TreeEnsemble, grouping: Grouping) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return plain facts and arrays from which :func:`from_arrays` makes the trees again.

    Parameters
    ----------
    ensemble : TreeEnsemble
    grouping : Grouping
        The columns of the user that each feature of the trees belongs to.
    """
    arrays = {name: getattr(ensemble, name) for name in STORED}
    arrays |= {name: getattr(ensemble, name) for name in OPTIONAL if getattr(ensemble, name) is not None}
    if ensemble.category_set is not None:
        arrays[BY_CATEGORY] = ensemble.category_set >= 0
    facts = {
        "source": ensemble.source,
        "version": ensemble.version,
        "averaged": ensemble.averaged,
        "n_classes": 0 if ensemble.classes is None else len(ensemble.classes),
        "feature_names": list(ensemble.feature_names),
        "group_names": list(grouping.names),
    }
    return facts, {**arrays, "group_of_feature": grouping.index}


def from_arrays(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[TreeEnsemble, Grouping]:
    """Return the trees and the grouping of features.

    Sums at their leaves have the scores that they have with the model. Rows cannot be added: the objective, the labels
    and what routes missing values and categories are not stored. Splits on categories are known to be so, but all have
    an empty set.

    Raises
    ------
    Damage
        The arrays are not those that :func:`to_arrays` returns, or do not form trees.
    """
    try:
        n_classes, n_nodes = int(facts["n_classes"]), arrays["feature"].size
        known = NODE_ARRAYS | OTHER_ARRAYS
        node_arrays: dict[str, Any] = {name: arrays[name] for name in (*STORED, *OPTIONAL) if name in arrays}
        if any(array.dtype != known[name] for name, array in node_arrays.items()):
            raise ValueError("an array has another type")
        if not 0 <= n_classes <= max(2, arrays["base"].size):
            raise ValueError("the number of classes is not possible")
        ensemble = TreeEnsemble(
            **node_arrays,
            **_unknown_sets(arrays),
            missing_left=np.zeros(n_nodes, dtype=bool),
            averaged=bool(facts["averaged"]),
            objective=SQUARED_ERROR,
            feature_names=tuple(map(str, facts["feature_names"])),
            named=True,
            classes=np.arange(n_classes) if n_classes else None,
            routing_dtype=np.dtype(np.float64),
            source=str(facts["source"]),
            version=str(facts["version"]),
        )
        grouping = Grouping(tuple(map(str, facts["group_names"])), arrays["group_of_feature"])
        index, names = grouping.index, grouping.names
        if index.dtype != np.int64 or index.shape != (ensemble.n_features,) or len(set(names)) < len(names):
            raise ValueError("the groups of features do not fit the trees")
        if index.size and not 0 <= index.min() <= index.max() < len(names):
            raise ValueError("the groups of features do not fit the trees")
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, ExtractionError) as error:
        raise Damage(f"the stored trees are not complete: {error}") from None
    return ensemble, grouping


def _unknown_sets(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return one empty set of categories for all splits on categories; nothing if there are none."""
    if BY_CATEGORY not in arrays:
        return {}
    by_category = arrays[BY_CATEGORY]
    if by_category.dtype != bool:
        raise ValueError("an array has another type")
    return {
        "category_set": np.where(by_category, 0, -1),
        "category_start": np.zeros(2, dtype=np.int64),
        "category_codes": np.zeros(0, dtype=np.int32),
        "listed_left": np.ones(1, dtype=bool),
    }
