"""scikit-learn's random forests, extra trees and single trees, classification and regression."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.ensemble import TreeEnsemble
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.inbag import InBag
from debias.objectives import SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MEAN_CRITERIA = {"squared_error", "friedman_mse", "poisson", "gini", "entropy", "log_loss"}


@debias.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Flatten the trees of a forest, or a single tree."""
    if not _is_mine(model):
        return None
    source = f"scikit-learn {type(model).__name__}"
    if not hasattr(model, "estimators_") and not hasattr(model, "tree_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    if model.n_outputs_ > 1:
        raise UnsupportedModelError(f"this {source} has {model.n_outputs_} outputs; only one is supported so far")
    trees = _trees(model)
    start = np.cumsum([0] + [tree.node_count for tree in trees])
    nodes = _join_nodes(trees, start)
    weight = nodes["weighted_n_node_samples"]
    classes = getattr(model, "classes_", None)
    return TreeEnsemble(
        tree_start=start,
        feature=np.maximum(nodes["feature"], -1),  # -2 at leaves
        threshold=nodes["threshold"],
        left=nodes["left_child"],
        right=nodes["right_child"],
        missing_left=nodes["missing_go_to_left"],
        value=np.concatenate([tree.value[:, 0, :] for tree in trees]),
        averaging_weight=weight,
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(1 if classes is None else len(classes)),
        averaged=True,
        objective=SQUARED_ERROR,
        feature_names=tuple(getattr(model, "feature_names_in_", [f"x{k}" for k in range(model.n_features_in_)])),
        named=hasattr(model, "feature_names_in_"),
        classes=classes,
        routing_dtype=np.dtype(np.float32),
        source=source,
        version=sys.modules["sklearn"].__version__,
        criterion=str(model.criterion),
        mean_values=str(model.criterion) in MEAN_CRITERIA and getattr(model, "monotonic_cst", None) is None,
        weight=weight,
        count=nodes["n_node_samples"],
        impurity=nodes["impurity"],
        n_train=getattr(model, "_n_samples", None),
        uniform_rows=getattr(model, "_sample_weight", None) is None or not getattr(model, "bootstrap", False),
    )


@debias.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Apply each tree."""
    if not _is_mine(model):
        return None
    return np.stack([tree.apply(X) for tree in _trees(model)], axis=1).astype(np.int32)


@debias.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Average the compiled predictions of the trees, which is what predict and predict_proba return, less overhead."""
    if not _is_mine(model):
        return None
    trees = _trees(model)
    return np.asarray(sum(tree.predict(X).reshape(len(X), -1) for tree in trees) / len(trees), dtype=np.float64)


@debias.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the bootstrap samples from the trees' seeds, one tree at a time."""
    if not _is_mine(model):
        return None
    if not getattr(model, "bootstrap", False):
        raise InBagUnavailableError(
            f"this scikit-learn {type(model).__name__} was grown without bootstrap, so every tree saw every row and "
            "none is out of bag. Pass rows the model has not seen, with rows='held-out'."
        )
    indices, weighted_draws = _index_draw(model)
    class_weight = getattr(model, "class_weight", None)
    fixed = None if weighted_draws else _node_weight(model, y, sample_weight)

    def draw(tree: int) -> NDArray[np.float64]:
        rows = indices(tree)
        weight = np.bincount(rows, minlength=model._n_samples).astype(np.float64)
        if isinstance(class_weight, str) and class_weight == "balanced_subsample":
            from sklearn.utils.class_weight import compute_sample_weight

            weight *= compute_sample_weight("balanced", y, indices=rows)
        return weight if fixed is None else weight * fixed

    def multiplicity(tree: int) -> NDArray[np.float64]:
        weight = np.bincount(indices(tree), minlength=model._n_samples).astype(np.float64)
        return weight if weighted_draws or sample_weight is None else weight * sample_weight

    return InBag(
        draw,
        n_rows=model._n_samples,
        n_trees=len(model.estimators_),
        excluded=_weightless(model, sample_weight),
        multiplicity=multiplicity,
        class_weight=_class_weight(model, y, weighted_draws),
    )


@debias.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_``."""
    return (model.feature_importances_, "mean decrease in impurity") if _is_mine(model) else None


def _is_mine(model: Any) -> bool:
    ensemble, tree = sys.modules.get("sklearn.ensemble"), sys.modules.get("sklearn.tree")
    if tree is not None and isinstance(model, (tree.DecisionTreeClassifier, tree.DecisionTreeRegressor)):
        return True
    return ensemble is not None and isinstance(
        model,
        (
            ensemble.RandomForestClassifier,
            ensemble.RandomForestRegressor,
            ensemble.ExtraTreesClassifier,
            ensemble.ExtraTreesRegressor,
        ),
    )


def _trees(model: Any) -> list[Any]:
    return [estimator.tree_ for estimator in getattr(model, "estimators_", [model])]


NODE_FIELDS = {
    "left_child": np.int32,
    "right_child": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "impurity": np.float64,
    "n_node_samples": np.int64,
    "weighted_n_node_samples": np.float64,
    "missing_go_to_left": np.bool_,
}


def _join_nodes(trees: list[Any], start: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Copy the fields of all trees' nodes to arrays of their own, tree by tree while its nodes are in the cache."""
    joined = {name: np.empty(start[-1], dtype=dtype) for name, dtype in NODE_FIELDS.items()}
    for tree, begin, end in zip(trees, start[:-1], start[1:], strict=True):
        nodes = tree.__getstate__()["nodes"]
        for name, array in joined.items():
            array[begin:end] = nodes[name]
    return joined


def _index_draw(model: Any) -> tuple[Callable[[int], NDArray[np.int32]], bool]:
    """Return a function that redraws one tree's sample, and whether weights are draw probabilities.

    The public ``estimators_samples_`` makes the lists of all trees at once, 8 bytes a row and tree; the function it
    calls, private but unchanged in what it draws, makes one. Since scikit-learn 1.9 sample and class weights decide
    with what probability a row is drawn; before, they weighed the nodes.
    """
    from sklearn.ensemble._forest import _generate_sample_indices as generate

    n_rows, n_drawn = model._n_samples, model._n_samples_bootstrap
    weighted_draws = generate.__code__.co_argcount == 4
    # A forest of an older version, loaded by this one, has no weights stored and was drawn without.
    weights = (getattr(model, "_sample_weight", None),) if weighted_draws else ()
    generator = np.random.RandomState(0)  # seeded anew for each tree, which is fifty times faster than a new one

    def draw(tree: int) -> NDArray[np.int32]:
        generator.seed(model.estimators_[tree].random_state)
        drawn: NDArray[np.int32] = generate(generator, n_rows, n_drawn, *weights)
        return drawn

    return draw, weighted_draws and hasattr(model, "_sample_weight")


def _weightless(model: Any, sample_weight: NDArray[np.float64] | None) -> NDArray[np.bool_] | None:
    """Return which rows had weight 0 in training: out of every bag, yet none the model was meant to see."""
    weight = getattr(model, "_sample_weight", sample_weight)
    return None if weight is None or weight.all() else np.asarray(weight == 0)


def _class_weight(model: Any, y: NDArray[Any], weighted_draws: bool) -> NDArray[np.float64] | str | None:
    """Return what the nodes weigh each class with, as InBag has it."""
    class_weight = getattr(model, "class_weight", None)
    if isinstance(class_weight, str) and class_weight == "balanced_subsample":
        return "balanced"
    if class_weight is None or weighted_draws:
        return None
    from sklearn.utils.class_weight import compute_class_weight

    by_class: NDArray[np.float64] = compute_class_weight(class_weight, classes=model.classes_, y=model.classes_[y])
    return by_class


def _node_weight(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Return what multiplicities are weighed with in the nodes of a forest grown before scikit-learn 1.9."""
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced_subsample"):
        return sample_weight
    from sklearn.utils.class_weight import compute_sample_weight

    by_class: NDArray[np.float64] = compute_sample_weight(class_weight, model.classes_[y])
    return by_class if sample_weight is None else by_class * sample_weight
