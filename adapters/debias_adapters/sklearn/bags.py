"""Bags of scikit-learn's forests and bagging estimators, redrawn from the seeds of their trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import InBagUnavailableError
from debias.parallel import over_parts, worth
from debias.trees.in_bag import InBag

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def drew_bags(model: Any) -> bool:
    """Return whether the model was fitted with bootstrap samples, also if `bootstrap` was changed since."""
    return getattr(model, "_n_samples_bootstrap", getattr(model, "bootstrap", False) or None) is not None


def of_forest(
    model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None, library: str = "scikit-learn"
) -> InBag:
    """Return the bags of a forest, one tree at a time.

    Parameters
    ----------
    model, y, sample_weight
        As for the hook ``debias_in_bag``.
    library : str
        The library of the forest, for messages.

    Raises
    ------
    InBagUnavailableError
        The trees were grown without bags, or the bags cannot be redrawn.
    """
    if not drew_bags(model):
        raise InBagUnavailableError(
            f"this {library} {type(model).__name__} was grown without bootstrap, so every tree saw every row and "
            "none is out of bag. Pass rows the model has not seen, with rows='held-out'."
        )
    if not hasattr(model, "_n_samples") or not hasattr(model, "_n_samples_bootstrap"):
        raise InBagUnavailableError(
            f"this {library} {type(model).__name__} does not keep how many rows its bags were drawn from (a file of "
            "an old version, or a forest put together by hand). Pass rows the model has not seen, with rows='held-out'."
        )
    indices, weighted_draws, compiled = _draw_of_forest(model)
    class_weight = getattr(model, "class_weight", None)
    if (
        model.n_outputs_ > 1
        and class_weight is not None
        and (class_weight == "balanced_subsample" or not weighted_draws)
    ):
        raise InBagUnavailableError(
            f"the bags of a {library} {type(model).__name__} with several outputs and "
            f"class_weight={class_weight!r} are not recovered. Pass rows the model has not seen, with rows='held-out'."
        )
    node_weight = None if weighted_draws else _node_weight(model, y, sample_weight)

    def draw(tree: int) -> NDArray[np.float64]:
        rows = indices(tree)
        weight = np.bincount(rows, minlength=model._n_samples).astype(np.float64)
        if isinstance(class_weight, str) and class_weight == "balanced_subsample":
            from sklearn.utils.class_weight import compute_sample_weight

            weight *= compute_sample_weight("balanced", y, indices=rows)
        return weight if node_weight is None else weight * node_weight

    def multiplicity(tree: int) -> NDArray[np.float64]:
        weight = np.bincount(indices(tree), minlength=model._n_samples).astype(np.float64)
        return weight if weighted_draws or sample_weight is None else weight * sample_weight

    return InBag(
        draw,
        n_rows=model._n_samples,
        n_trees=len(model.estimators_),
        excluded=_weightless(model, sample_weight),
        multiplicity=multiplicity,
        class_weight=_class_weight_of_forest(model, y, weighted_draws),
        bits=_bits(model, indices) if compiled and node_weight is None and class_weight is None else None,
    )


def of_bagging(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag:
    """Return the bags of a BaggingClassifier or BaggingRegressor; the rest is as for :func:`of_forest`."""
    kind = f"scikit-learn {type(model).__name__}"
    if not model.bootstrap and model._max_samples >= model._n_samples:
        raise InBagUnavailableError(
            f"this {kind} was grown with bootstrap=False on all rows, so none is out of bag. Pass rows the model has "
            "not seen, with rows='held-out'."
        )
    indices, weighted_draws = _draw_of_bagging(model, _seeds(model, kind))
    row_weight = np.ones(model._n_samples) if weighted_draws or sample_weight is None else sample_weight
    class_weight = _class_weight_of_bagging(model, y)

    def multiplicity(tree: int) -> NDArray[np.float64]:
        return np.bincount(indices(tree), minlength=model._n_samples) * row_weight

    def draw(tree: int) -> NDArray[np.float64]:
        return multiplicity(tree) if class_weight is None else multiplicity(tree) * class_weight[y]

    weight = getattr(model, "_sample_weight", None) if weighted_draws else sample_weight
    excluded = None if weight is None or np.all(weight) else np.asarray(weight == 0)
    return InBag(
        draw,
        n_rows=model._n_samples,
        n_trees=len(model.estimators_),
        excluded=excluded,
        multiplicity=multiplicity,
        class_weight=class_weight,
    )


def _draw_of_forest(model: Any) -> tuple[Callable[[int], NDArray[np.int32]], bool, bool]:
    """Return a function that redraws one tree's sample, and whether weights are draw probabilities and it is compiled.

    The public ``estimators_samples_`` makes the samples of all trees at once, with 8 bytes for each row and tree. The
    private function that it calls makes one sample, and has always drawn the same. Since scikit-learn 1.9, sample and
    class weights are the probabilities with which rows are drawn. In older versions they are weights in the nodes.
    """
    from sklearn.ensemble._forest import _generate_sample_indices as generate

    n_rows, n_drawn = model._n_samples, model._n_samples_bootstrap
    weighted_draws = generate.__code__.co_argcount == 4
    # A forest that was pickled by an older version has no stored weights: its samples were drawn without weights.
    weights = (getattr(model, "_sample_weight", None),) if weighted_draws else ()
    generator = np.random.RandomState(0)  # re-seeded for each tree: 50 times faster than a new generator

    def draw(tree: int) -> NDArray[np.int32]:
        generator.seed(model.estimators_[tree].random_state)
        drawn: NDArray[np.int32] = generate(generator, n_rows, n_drawn, *weights)
        return drawn

    def draw_compiled(tree: int) -> NDArray[np.int32]:
        drawn = np.empty(n_drawn, dtype=np.int32)
        bootstrap.draw(np.uint32(seeds[tree]), n_rows, drawn)
        return drawn

    has_draw_weights = weighted_draws and hasattr(model, "_sample_weight")
    seeds = [estimator.random_state for estimator in model.estimators_]
    seeds_are_integers = all(isinstance(seed, (int, np.integer)) and 0 <= seed < 2**32 for seed in seeds)
    if seeds_are_integers and not any(weight is not None for weight in weights):
        from debias_adapters.sklearn.kernels import bootstrap

        if np.array_equal(draw_compiled(0), draw(0)):  # otherwise this version of scikit-learn draws in another way
            return draw_compiled, has_draw_weights, True
    return draw, has_draw_weights, False


def _bits(model: Any, indices: Callable[[int], NDArray[np.int32]]) -> NDArray[np.uint8]:
    """Return which rows are in each bag, as bits in the order of ``np.packbits``."""
    from debias_adapters.sklearn.kernels import bootstrap

    bits = np.zeros((len(model.estimators_), (model._n_samples + 7) // 8), dtype=np.uint8)

    def set_bits(part: slice) -> None:
        for k in range(part.start, part.stop):
            bootstrap.bits_of(indices(k), bits[k])

    over_parts(len(bits), set_bits, at_least=worth(len(bits), bits.size * 8))
    return bits


def _weightless(model: Any, sample_weight: NDArray[np.float64] | None) -> NDArray[np.bool_] | None:
    """Return which rows had weight 0 in training. They are in no bag, but do not count as out of bag."""
    weight = getattr(model, "_sample_weight", sample_weight)
    return None if weight is None or weight.all() else np.asarray(weight == 0)


def _class_weight_of_forest(model: Any, y: NDArray[Any], weighted_draws: bool) -> NDArray[np.float64] | str | None:
    """Return the class weights in the nodes, as `InBag.class_weight` has them."""
    class_weight = getattr(model, "class_weight", None)
    if isinstance(class_weight, str) and class_weight == "balanced_subsample":
        return "balanced"
    if class_weight is None or weighted_draws:
        return None
    from sklearn.utils.class_weight import compute_class_weight

    by_class: NDArray[np.float64] = compute_class_weight(class_weight, classes=model.classes_, y=model.classes_[y])
    return by_class


def _node_weight(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Return the weight of each row in the nodes of a forest grown before scikit-learn 1.9."""
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced_subsample"):
        return sample_weight
    from sklearn.utils.class_weight import compute_sample_weight

    by_class: NDArray[np.float64] = compute_sample_weight(class_weight, model.classes_[y])
    return by_class if sample_weight is None else by_class * sample_weight


def _class_weight_of_bagging(model: Any, y: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return the class weights of the trees. Each tree gets all rows, so "balanced" refers to all of y."""
    class_weight = getattr(model.estimators_[0], "class_weight", None)
    if class_weight is None:
        return None
    from sklearn.utils.class_weight import compute_sample_weight

    by_class = np.ones(len(model.classes_))
    by_class[y] = compute_sample_weight(class_weight, y)
    return by_class


def _seeds(model: Any, kind: str) -> NDArray[np.int64]:
    """Return the seed of every tree. After a warm start the model keeps the last ones only; the others are redrawn."""
    seeds, n_trees = np.asarray(model._seeds), len(model.estimators_)
    if seeds.size < n_trees and isinstance(model.random_state, (int, np.integer)):
        redrawn = np.random.RandomState(model.random_state).randint(np.iinfo(np.int32).max, size=n_trees)
        if (redrawn[-seeds.size :] == seeds).all():
            return redrawn
    if seeds.size != n_trees:
        raise InBagUnavailableError(
            f"this {kind} was fitted in parts (warm_start) and keeps the seeds of its last {seeds.size} trees only, so "
            "the bags of the others are lost. Pass rows the model has not seen, with rows='held-out'."
        )
    return seeds


def _draw_of_bagging(model: Any, seeds: NDArray[np.int64]) -> tuple[Callable[[int], NDArray[np.int64]], bool]:
    """Return a function that redraws one tree's sample, and whether weights are draw probabilities.

    Weights are draw probabilities since scikit-learn 1.9. In older versions they are weights in the nodes.
    """
    from sklearn.ensemble._bagging import _generate_bagging_indices as generate

    weighted_draws = generate.__code__.co_argcount == 8
    weights = (getattr(model, "_sample_weight", None),) if weighted_draws else ()
    settings = (model.bootstrap_features, model.bootstrap, model.n_features_in_, model._n_samples)

    def draw(tree: int) -> NDArray[np.int64]:
        drawn = generate(int(seeds[tree]), *settings, model._max_features, model._max_samples, *weights)
        return np.asarray(drawn[1])

    return draw, weighted_draws
