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
        The trees have no bags, were sampled in another way, or no seed draws these bags.
    """
    if len(y) != n_train:
        raise InBagUnavailableError(
            f"this {source} was trained on {n_train} rows, but X has {len(y)}. Pass all training rows in training "
            f"order. {_HELD_OUT}"
        )
    n_drawn = [root.num_pos_training_examples_without_weight for root in roots]
    if saw_rows_once(roots, n_train):
        raise InBagUnavailableError(
            f"the trees of this {source} have no bags: they were grown on the same rows. {_HELD_OUT}"
        )
    row_weight = np.ones(len(y)) if weight is None else weight
    columns = _sums_of(y, roots[0]) * row_weight[:, None]
    stored = np.array([_stored_sums(root) for root in roots[:ROOTS_TO_CHECK]])
    tolerance = TOLERANCE * np.abs(columns).mean(axis=0) * max(n_drawn)
    tries = SEEDS if len(roots) > 2 else SEEDS[:1]  # the sums of one or two bags may agree by chance
    for seed in tries:
        tree_seeds = _words(seed, len(roots))
        if all(
            (np.abs(_times(tree_seed, n, len(y)) @ columns - sums) <= tolerance).all()
            for tree_seed, n, sums in zip(tree_seeds, n_drawn, stored, strict=False)
        ):
            break
    else:
        raise InBagUnavailableError(
            f"the bags of this {source} are not found: a model of YDF does not keep random_seed, and neither its "
            f"default, {SEEDS[0]}, nor 0 to {len(SEEDS) - 2} draws bags with the labels that the roots store. Either "
            "it had another seed or other weights, or was sampled without replacement, or these are not its training "
            f"rows in training order. {_HELD_OUT}"
        )

    def samples(tree: int) -> NDArray[np.float64]:
        return _times(tree_seeds[tree], n_drawn[tree], len(y))

    def draw(tree: int) -> NDArray[np.float64]:
        return samples(tree) * row_weight

    excluded = None if weight is None else weight == 0
    return InBag(draw, len(y), len(roots), excluded=excluded, samples=samples)


def saw_rows_once(roots: list[Any], n_train: int) -> bool:
    """Whether all trees were grown on the same rows, each of them once: there was no bootstrap.

    Bags of a bootstrap have other labels in each tree. A single tree was drawn by a bootstrap if its root has as many
    samples as there were rows (CART sets rows apart, for pruning).
    """
    if len(roots) == 1:
        return int(roots[0].num_pos_training_examples_without_weight) < n_train
    sums = np.array([_stored_sums(root) for root in roots])
    return bool((np.abs(sums - sums[0]) <= TOLERANCE * np.abs(sums[0]).max()).all())


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
