"""scikit-learn's random forests, extra trees and single trees, classification and regression."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.parallel import over_parts
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import SQUARED_ERROR
from debias_adapters.sklearn.reading import apply_trees, common_arrays, names_of, quiet, values_are_means
from debias_adapters.sklearn.refit import fitted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray


@debias.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Flatten the trees of a forest, or a single tree."""
    _refuse(model)
    if not _is_mine(model):
        return None
    source = f"scikit-learn {type(model).__name__}"
    if not hasattr(model, "estimators_") and not hasattr(model, "tree_"):
        raise UnsupportedModelError(f"this {source} is not fitted; fit it first")
    trees = _trees(model)
    classes, class_sets = _classes(model)
    value = _values(trees, class_sets)
    return TreeEnsemble(
        **common_arrays(trees),
        **names_of(model),
        value=value,
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(value.shape[1]),
        averaged=True,
        objective=SQUARED_ERROR,
        classes=classes,
        class_sets=class_sets,
        source=source,
        criterion=str(model.criterion),
        mean_values=values_are_means(model),
        n_train=getattr(model, "_n_samples", None),
        uniform_rows=getattr(model, "_sample_weight", None) is None or not _drew_bags(model),
        notes=_notes(model),
    )


@debias.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Apply each tree."""
    if not _is_mine(model):
        return None
    return apply_trees(_trees(model), X)


@debias.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Average the compiled predictions of the trees, which is what predict and predict_proba return, less overhead."""
    return _averaged(model, X) if _is_mine(model) else None


@debias.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Average them for the rows as predict and predict_proba read them."""
    if not _is_mine(model):
        return None
    with quiet():
        read = model._validate_X_predict(X, *([] if hasattr(model, "estimators_") else [True]))
    return _averaged(model, read)


@debias.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the bootstrap samples from the trees' seeds, one tree at a time."""
    if not _is_mine(model):
        return None
    if not _drew_bags(model):
        raise InBagUnavailableError(
            f"this scikit-learn {type(model).__name__} was grown without bootstrap, so every tree saw every row and "
            "none is out of bag. Pass rows the model has not seen, with rows='held-out'."
        )
    if not hasattr(model, "_n_samples") or not hasattr(model, "_n_samples_bootstrap"):
        raise InBagUnavailableError(
            f"this scikit-learn {type(model).__name__} does not keep how many rows its bags were drawn from (a file of "
            "an old version, or a forest put together by hand). Pass rows the model has not seen, with rows='held-out'."
        )
    indices, weighted_draws, compiled = _index_draw(model)
    class_weight = getattr(model, "class_weight", None)
    if (
        model.n_outputs_ > 1
        and class_weight is not None
        and (class_weight == "balanced_subsample" or not weighted_draws)
    ):
        raise InBagUnavailableError(
            f"the bags of a scikit-learn {type(model).__name__} with several outputs and "
            f"class_weight={class_weight!r} are not recovered. Pass rows the model has not seen, with rows='held-out'."
        )
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
        bits=_bits(model, indices) if compiled and fixed is None and class_weight is None else None,
    )


@debias.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_``, computed as scikit-learn does, less the overhead of a thread pool."""
    if not _is_mine(model):
        return None
    trees = [tree for tree in _trees(model) if tree.node_count > 1]
    parts = over_parts(len(trees), lambda of: [tree.compute_feature_importances() for tree in trees[of]])
    each = [importance for part in parts for importance in part]
    if not each or not hasattr(model, "estimators_"):
        return model.feature_importances_, "mean decrease in impurity"
    mean = np.mean(each, axis=0)
    return mean / mean.sum(), "mean decrease in impurity"


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
    if not _is_mine(model):
        return None
    return fitted(model, X, y, sample_weight, seed, {**(params or {})})


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


def _drew_bags(model: Any) -> bool:
    """Whether the trees were grown on bootstrap samples: what was so when it was fitted, whatever was set since."""
    return getattr(model, "_n_samples_bootstrap", getattr(model, "bootstrap", False) or None) is not None


def _refuse(model: Any) -> None:
    """Raise for ensembles of scikit-learn's whose trees say nothing of a response, or are not added."""
    ensemble = sys.modules.get("sklearn.ensemble")
    if ensemble is None:
        return
    if isinstance(model, (ensemble.IsolationForest, ensemble.RandomTreesEmbedding)):
        raise UnsupportedModelError(f"a {type(model).__name__} is grown without a response: there is none to score on")
    if isinstance(model, (ensemble.AdaBoostClassifier, ensemble.AdaBoostRegressor)):
        raise UnsupportedModelError(
            f"a {type(model).__name__} takes votes or medians of its trees, over which scores do not add. Score its "
            "members, model.estimators_, one by one."
        )


def _trees(model: Any) -> list[Any]:
    return [estimator.tree_ for estimator in getattr(model, "estimators_", [model])]


def _averaged(model: Any, X: Any) -> NDArray[np.float64]:
    trees, (_, class_sets) = _trees(model), _classes(model)

    def part(of: slice) -> NDArray[np.float64]:
        return np.asarray(sum(_flat(tree.predict(X), class_sets) for tree in trees[of]), dtype=np.float64)

    return np.asarray(sum(over_parts(len(trees), part)) / len(trees), dtype=np.float64)


def _classes(model: Any) -> tuple[NDArray[Any] | None, tuple[NDArray[Any], ...] | None]:
    """Return the labels of one response, or of each of several."""
    classes = getattr(model, "classes_", None)
    return (None, tuple(classes)) if isinstance(classes, list) else (classes, None)


def _values(trees: list[Any], class_sets: tuple[NDArray[Any], ...] | None) -> NDArray[np.float64]:
    return np.concatenate([_flat(tree.value, class_sets) for tree in trees])


def _flat(value: NDArray[np.float64], class_sets: tuple[NDArray[Any], ...] | None) -> NDArray[np.float64]:
    """Set the columns of all responses side by side; where they have classes, each is padded to the largest number."""
    if class_sets is None:
        return value.reshape(len(value), -1)
    return np.concatenate([value[:, k, : classes.size] for k, classes in enumerate(class_sets)], axis=1)


def _notes(model: Any) -> tuple[str, ...]:
    if model.n_outputs_ == 1:
        return ()
    return (
        f"the model has {model.n_outputs_} responses: scores are sums over them, so one on a larger scale weighs more",
    )


def _index_draw(model: Any) -> tuple[Callable[[int], NDArray[np.int32]], bool, bool]:
    """Return a function that redraws one tree's sample, whether weights are draw probabilities, whether it is compiled.

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

    def draw_compiled(tree: int) -> NDArray[np.int32]:
        drawn = np.empty(n_drawn, dtype=np.int32)
        _bootstrap_kernels.draw(np.uint32(seeds[tree]), n_rows, drawn)
        return drawn

    weighted = weighted_draws and hasattr(model, "_sample_weight")
    seeds = [estimator.random_state for estimator in model.estimators_]
    plain = all(isinstance(seed, (int, np.integer)) and 0 <= seed < 2**32 for seed in seeds)
    if plain and not any(weight is not None for weight in weights):
        from debias_adapters.sklearn.kernels import bootstrap as _bootstrap_kernels

        if np.array_equal(draw_compiled(0), draw(0)):  # else scikit-learn draws otherwise than it did
            return draw_compiled, weighted, True
    return draw, weighted, False


def _bits(model: Any, indices: Callable[[int], NDArray[np.int32]]) -> NDArray[np.uint8]:
    """Return who is in each bag, as bits packed by ``np.packbits``."""
    from debias_adapters.sklearn.kernels import bootstrap as _bootstrap_kernels

    bits = np.zeros((len(model.estimators_), (model._n_samples + 7) // 8), dtype=np.uint8)
    over_parts(
        len(bits), lambda of: [_bootstrap_kernels.bits_of(indices(k), bits[k]) for k in range(of.start, of.stop)]
    )
    return bits


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
