"""Hooks for imbalanced-learn's BalancedRandomForestClassifier, whose trees are grown on resampled classes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import UnsupportedModelError
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR
from debias_adapters.imbalanced_learn import bags
from debias_adapters.sklearn.missing_values import missing_refusal, refuse_grown_otherwise
from debias_adapters.sklearn.reading import common_arrays, names_of, values_are_means

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.in_bag import InBag


# The class inherits from scikit-learn's, whose adapter implements all other hooks. These two are called first.
@debias.hookimpl(tryfirst=True)
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Concatenate the trees. Their rows are not a uniform sample of the training rows."""
    if not _is_mine(model):
        return None
    source = "imbalanced-learn BalancedRandomForestClassifier"
    if not hasattr(model, "estimators_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    if model.n_outputs_ > 1:
        raise UnsupportedModelError(f"this {source} has {model.n_outputs_} responses; fit one forest for each")
    trees = [tree.tree_ for tree in model.estimators_]
    value = np.concatenate([tree.value[:, 0, :] for tree in trees])
    ensemble = TreeEnsemble(
        **common_arrays(trees),
        **names_of(model),
        value=value,
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(value.shape[1]),
        averaged=True,
        objective=SQUARED_ERROR,
        classes=model.classes_,
        source=source,
        criterion=str(model.criterion),
        mean_values=values_are_means(model),
        uniform_rows=False,
        missing_refusal=missing_refusal(),
        notes=("each tree was grown on resampled classes: most out-of-bag rows are of large classes",),
    )
    return refuse_grown_otherwise(ensemble)


@debias.hookimpl(tryfirst=True)
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Recover the rows that each sampler selected, and redraw the bootstrap samples from them."""
    if not _is_mine(model):
        return None
    return bags.of_forest(model, y, sample_weight)


def _is_mine(model: Any) -> bool:
    imblearn = sys.modules.get("imblearn.ensemble")
    return imblearn is not None and isinstance(model, imblearn.BalancedRandomForestClassifier)
