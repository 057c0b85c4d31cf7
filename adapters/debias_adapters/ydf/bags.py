"""Bags of YDF's random forests, drawn again from the seed.

YDF draws the seed of each tree from the seed of the learner, and the rows of the tree from that seed, both with the
Mersenne twister. A model does not keep the seed of its learner, but its metadata may state it. Otherwise the default
and small numbers are tried: a seed is right if the rows that it draws have the sums of labels that the roots store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import InBagUnavailableError, TrainingRowsError
from debias.trees.in_bag import InBag

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED_FIELD = "random_seed"
"""Custom field of the metadata of a model that may state its seed. Refits have it."""
SEEDS = (123456, *range(1000))
"""YDF's default, and the seeds that people choose most often."""
ROOTS_TO_CHECK = 10
TOLERANCE = 1e-6
"""Relative to the weight of a bag: YDF adds weights up in another order."""
_HELD_OUT = "Pass rows the model has not seen, with rows='held-out'."


def of_forest(model: Any, source: str, y: NDArray[Any], weight: NDArray[np.float64] | None) -> InBag:
    """Return the bags of a random forest.

    Parameters
    ----------
    model : ydf.RandomForestModel
    source : str
        The kind of the model, for errors.
    y : array of shape (n_rows,)
        Class codes, or numbers.
    weight : array of shape (n_rows,), or None

    Raises
    ------
    InBagUnavailableError
        The trees have no bags, or no seed draws them.
    TrainingRowsError
        No seed draws them, and `y` is the training response, possibly in another order.
    """
    spec, roots = model.data_spec(), first_roots(model)
    if saw_rows_once(roots, spec.created_num_rows):
        raise InBagUnavailableError(
            f"the trees of this {source} have no bags: they were grown on the same rows. {_HELD_OUT}"
        )
    n_rows, n_trees = len(y), model.num_trees()
    n_drawn = int(roots[0].num_pos_training_examples_without_weight)
    row_weight = np.ones(n_rows) if weight is None else weight
    seeds = _seeds_to_try(model)
    seed = _seed(seeds, roots, n_drawn, _sums_of(y, roots[0]) * row_weight[:, None])
    if seed is None and weight is None and _is_weighted(roots[0]):
        seed = seeds[0]  # the proof will say that the weights are missing
    if seed is None:
        raise _not_found(source, seeds, _is_training_response(spec, model.label_col_idx(), y))
    tree_seeds = _words(seed, n_trees)

    def samples(tree: int) -> NDArray[np.float64]:
        return _times(tree_seeds[tree], n_drawn, n_rows)

    return InBag(
        lambda tree: samples(tree) * row_weight,
        n_rows,
        n_trees,
        excluded=None if weight is None else weight == 0,
        samples=samples,
        bits=np.stack([np.packbits(samples(tree) > 0) for tree in range(n_trees)]),  # rows of weight 0 are drawn too
    )


def first_roots(model: Any) -> list[Any]:
    """Return YDF's messages of the roots of the first trees."""
    return [model._model.GetTree(tree)[0] for tree in range(min(model.num_trees(), ROOTS_TO_CHECK))]


def saw_rows_once(roots: list[Any], n_train: int) -> bool:
    """Whether all trees were grown on the same rows, each of them once: there was no bootstrap.

    Bags of a bootstrap have other labels in each tree. A single tree was drawn by a bootstrap if its root has as many
    samples as there were rows (CART sets rows apart, for pruning).
    """
    if len(roots) == 1:
        return int(roots[0].num_pos_training_examples_without_weight) < n_train
    sums = np.array([_stored_sums(root) for root in roots])
    return bool((np.abs(sums - sums[0]) <= TOLERANCE * np.abs(sums[0]).max()).all())


def _seeds_to_try(model: Any) -> tuple[int, ...]:
    stated = model.metadata().custom_fields.get(SEED_FIELD)
    if stated is not None and str(stated).isdecimal():
        return (int(stated),)
    return SEEDS if model.num_trees() > 2 else SEEDS[:1]  # the sums of one or two bags may agree by chance


def _seed(seeds: tuple[int, ...], roots: list[Any], n_drawn: int, columns: NDArray[np.float64]) -> int | None:
    """Return the first seed that draws bags in which the sums of some columns are those that the roots store."""
    stored = np.array([_stored_sums(root) for root in roots])
    tolerance = TOLERANCE * np.abs(columns).mean(axis=0) * n_drawn
    for seed in seeds:
        drawn = zip(_words(seed, len(stored)), stored, strict=True)
        if all(
            (np.abs(_times(tree_seed, n_drawn, len(columns)) @ columns - sums) <= tolerance).all()
            for tree_seed, sums in drawn
        ):
            return seed
    return None


def _not_found(source: str, seeds: tuple[int, ...], is_training_response: bool) -> Exception:
    tried = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} and 0 to {max(seeds[1:])}"
    why = (
        f"the bags of this {source} are not found: with random_seed {tried}, YDF draws bags with other labels than the "
        "roots of the trees store, and a model does not keep random_seed."
    )
    if not is_training_response:
        return InBagUnavailableError(f"{why} Perhaps it had another seed, or these are other rows. {_HELD_OUT}")
    return TrainingRowsError(
        f"{why} But y has the number of rows and the values of the training response. So these are the training rows, "
        "either in another order, or with another seed, other weights, or sampling without replacement. Pass all "
        "training rows in training order. For another seed, state it in the metadata of the model "
        f"(custom_fields[{SEED_FIELD!r}] and model.set_metadata). For other bags pass rows the model has not seen, "
        "with rows='held-out'"
    )


def _is_training_response(spec: Any, label: int, y: NDArray[Any]) -> bool:
    """Whether a response has the values of the training response, in any order, by what the model stores of them."""
    if len(y) != spec.created_num_rows:
        return False
    column = spec.columns[label]
    if column.HasField("categorical"):
        counts = {item.index: item.count for item in column.categorical.items.values()}
        return all(count == (np.asarray(y) == index - 1).sum() for index, count in counts.items() if index)
    values, stored = np.ravel(y).astype(np.float32).astype(np.float64), column.numerical
    found = (values.mean(), values.min(), values.max())
    return bool(np.allclose(found, (stored.mean, stored.min_value, stored.max_value), rtol=TOLERANCE, atol=0))


def _is_weighted(root: Any) -> bool:
    counted = root.num_pos_training_examples_without_weight
    return bool(abs(sum(_stored_sums(root)[: None if root.HasField("classifier") else 1]) / counted - 1) > TOLERANCE)


def _stored_sums(root: Any) -> list[float]:
    """Return the weight of each class in the bag of a tree; of a regression, the weight and the sum of y."""
    if root.HasField("classifier"):
        return list(root.classifier.distribution.counts)[1:]  # the first one is of labels out of the dictionary
    return [root.regressor.distribution.count, root.regressor.distribution.sum]


def _sums_of(y: NDArray[Any], root: Any) -> NDArray[np.float64]:
    """Return what each row adds to the sums of a root."""
    if root.HasField("classifier"):
        return np.eye(len(root.classifier.distribution.counts) - 1)[np.asarray(y, dtype=np.int64)]
    return np.column_stack([np.ones(len(y)), np.ravel(y).astype(np.float32).astype(np.float64)])


def _times(tree_seed: int, n_drawn: int, n_rows: int) -> NDArray[np.float64]:
    """Return how often each row is drawn, by the method of Lemire (2019), https://doi.org/10.1145/3230636.

    It is that of ``std::uniform_int_distribution``. The upper half of the product of a random word and the number of
    rows is the row. The few words that would make some rows more likely are left out.
    """
    n_words = n_drawn
    while True:
        products = _words(tree_seed, n_words).astype(np.uint64) * np.uint64(n_rows)
        kept = products[(products & np.uint64(2**32 - 1)) >= np.uint64(2**32 % n_rows)]
        if kept.size >= n_drawn:
            rows = (kept[:n_drawn] >> np.uint64(32)).astype(np.int64)
            return np.bincount(rows, minlength=n_rows).astype(np.float64)
        n_words += n_drawn - kept.size + 10


def _words(seed: int, n: int) -> NDArray[np.uint64]:
    """Return the first words of 32 bits of a Mersenne twister with a seed, as ``std::mt19937`` has them."""
    generator = np.random.MT19937()
    generator._legacy_seeding(int(seed))
    words: NDArray[np.uint64] = generator.random_raw(n)
    return words
