"""The OOBForests of this package, known by the name of their class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import UnsupportedModelError
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import SQUARED_ERROR
from debias_adapters.sklearn.reading import names_of, predicted
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

HOME = ("debias_plugins.oob_forest.base", "BaseOOBForest")


@debias.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Lay the trees end to end."""
    if not _is_mine(model):
        return None
    source = type(model).__name__
    if not hasattr(model, "trees_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    names = ("feature", "threshold", "left", "right", "missing_left", "value", "count", "weight", "impurity")
    joined: dict[str, Any] = {name: np.concatenate([getattr(tree, name) for tree in model.trees_]) for name in names}
    classes = getattr(model, "classes_", None)
    return TreeEnsemble(
        **joined,
        **names_of(model),
        tree_start=np.cumsum([0] + [tree.feature.size for tree in model.trees_]),
        averaging_weight=joined["weight"].copy(),
        tree_output=np.zeros(len(model.trees_), dtype=np.int32),
        base=np.zeros(joined["value"].shape[1]),
        averaged=True,
        objective=SQUARED_ERROR,
        classes=classes,
        routing_dtype=np.dtype(np.float64),
        source=source,
        version=debias.__version__,
        criterion="squared_error" if classes is None else "gini",
        mean_values=True,
        n_train=model.n_samples_,
        notes=(
            "an OOBForest chose its split features by its out-of-bag rows, so it has seen them: better judge it on "
            "others, with rows='held-out'",
        ),
    )


@debias.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Apply the forest."""
    return model.apply(_unnamed(model, X)) if _is_mine(model) else None


@debias.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return class fractions, or means."""
    if not _is_mine(model):
        return None
    X = _unnamed(model, X)
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)[:, None]


@debias.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Predict by the forest itself."""
    return predicted(model, X) if _is_mine(model) else None


@debias.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the bags; weights are those the forest was fitted with."""
    if not _is_mine(model):
        return None
    weight, factor = model._sample_weight, model._class_factor

    def multiplicity(tree: int) -> NDArray[np.float64]:
        drawn = np.bincount(model.in_bag(tree), minlength=model.n_samples_).astype(np.float64)
        return drawn if weight is None else drawn * weight

    def draw(tree: int) -> NDArray[np.float64]:
        return multiplicity(tree) if factor is None else multiplicity(tree) * factor[y]

    excluded = None if weight is None or weight.all() else np.asarray(weight == 0)
    return InBag(draw, model.n_samples_, len(model.trees_), excluded, multiplicity, factor)


@debias.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_``."""
    return (model.feature_importances_, "out-of-bag decrease in impurity") if _is_mine(model) else None


@debias.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any | None:
    """Fit a clone."""
    return fitted(model, X, y, sample_weight, seed, {**(params or {})}) if _is_mine(model) else None


def _is_mine(model: Any) -> bool:
    return any((each.__module__, each.__name__) == HOME for each in type(model).__mro__)


def _unnamed(model: Any, X: NDArray[np.floating[Any]]) -> Any:
    """Return X under the names the forest was fitted with, which it would warn about otherwise."""
    if not hasattr(model, "feature_names_in_"):
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=model.feature_names_in_)
