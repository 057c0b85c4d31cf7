"""Bags of YDF's random forests, drawn again from the seed.

YDF draws the seed of each tree from the seed of the learner, and the rows of the tree from that seed, both with the
Mersenne twister. A model does not keep the seed of its learner. So the default and small numbers are tried, and a seed
is right if the rows that it draws have the sums of labels that the roots of the trees store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import InBagUnavailableError
from debias.trees.in_bag import InBag

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDS = (123456, *range(1000))
"""YDF's default, and the seeds that people choose most often."""
ROOTS_TO_CHECK = 10
TOLERANCE = 1e-6
"""Relative to the weight of a bag: YDF adds weights up in another order."""
_HELD_OUT = "Pass rows the model has not seen, with rows='held-out'."


def of_forest(
    roots: list[Any], source: str, y: NDArray[Any], weight: NDArray[np.float64] | None, n_train: int
) -> InBag:
    """Return the bags of a random forest.

    Parameters
    ----------
    roots : list
        YDF's message of the root of each tree.
    source : str
        The kind of the model, for errors.
    y : array of shape (n_rows,)
        Class codes, or numbers.
    weight : array of shape (n_rows,), or None
    n_train : int
        Number of training rows.

    Raises
    ------
    InBagUnavailableError
        The trees have no bags, or no seed draws them.
    """
    if saw_rows_once(roots, n_train):
        raise InBagUnavailableError(
            f"the trees of this {source} have no bags: they were grown on the same rows. {_HELD_OUT}"
        )
    n_rows = len(y)
    n_drawn = [int(root.num_pos_training_examples_without_weight) for root in roots]
    row_weight = np.ones(n_rows) if weight is None else weight
    seed = _seed(roots, n_drawn, _sums_of(y, roots[0]) * row_weight[:, None])
    if seed is None and weight is None and _is_weighted(roots[0]):
        seed = SEEDS[0]  # the proof will say that the weights are missing
    if seed is None:
        raise InBagUnavailableError(
            f"the bags of this {source} are not found: a model of YDF does not keep random_seed, and neither its "
            f"default, {SEEDS[0]}, nor 0 to {max(SEEDS[1:])} draws bags with the labels that the roots store. Either "
            "it had another seed, other weights or sampling without replacement, or these are not its training rows "
            f"in training order. {_HELD_OUT}"
        )
    tree_seeds = _words(seed, len(roots))

    def samples(tree: int) -> NDArray[np.float64]:
        return _times(tree_seeds[tree], n_drawn[tree], n_rows)

    return InBag(
        lambda tree: samples(tree) * row_weight,
        n_rows,
        len(roots),
        excluded=None if weight is None else weight == 0,
        samples=samples,
        bits=np.stack([np.packbits(samples(tree) > 0) for tree in range(len(roots))]),  # rows of weight 0 are drawn too
    )


def saw_rows_once(roots: list[Any], n_train: int) -> bool:
    """Whether all trees were grown on the same rows, each of them once: there was no bootstrap.

    Bags of a bootstrap have other labels in each tree. A single tree was drawn by a bootstrap if its root has as many
    samples as there were rows (CART sets rows apart, for pruning).
    """
    if len(roots) == 1:
        return int(roots[0].num_pos_training_examples_without_weight) < n_train
    sums = np.array([_stored_sums(root) for root in roots])
    return bool((np.abs(sums - sums[0]) <= TOLERANCE * np.abs(sums[0]).max()).all())


def _seed(roots: list[Any], n_drawn: list[int], columns: NDArray[np.float64]) -> int | None:
    """Return the seed that draws bags in which the sums of some columns are those that the roots store."""
    stored = np.array([_stored_sums(root) for root in roots[:ROOTS_TO_CHECK]])
    tolerance = TOLERANCE * np.abs(columns).mean(axis=0) * max(n_drawn)
    for seed in SEEDS if len(roots) > 2 else SEEDS[:1]:  # the sums of one or two bags may agree by chance
        drawn = zip(_words(seed, len(stored)), n_drawn, stored, strict=False)
        if all(
            (np.abs(_times(tree_seed, n, len(columns)) @ columns - sums) <= tolerance).all()
            for tree_seed, n, sums in drawn
        ):
            return seed
    return None


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
