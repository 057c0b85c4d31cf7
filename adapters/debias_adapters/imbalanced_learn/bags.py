"""Bags of imbalanced-learn's BalancedRandomForestClassifier, from the rows its samplers kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import InBagUnavailableError, ProvenanceError
from debias.trees.in_bag import InBag

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLERS_TO_CHECK = 20
_HELD_OUT = "Pass rows the model has not seen, with rows='held-out'."


def of_forest(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag:
    """Return the bags of a forest.

    Parameters
    ----------
    model, y, sample_weight
        As for the hook ``debias_in_bag``.

    Raises
    ------
    InBagUnavailableError
        The model has weights, `max_samples` is a fraction, or no row of a class is out of bag.
    ProvenanceError
        Some training rows are missing, or rows were added.
    """
    if sample_weight is not None or model.class_weight is not None:
        raise InBagUnavailableError(
            "the bags of a BalancedRandomForestClassifier with sample weights or class_weight are not recovered. "
            + _HELD_OUT
        )
    kept = [np.asarray(sampler.sample_indices_, dtype=np.int64) for sampler in model.samplers_]
    beyond = max(int(rows.max()) for rows in kept)
    if beyond >= len(y):
        raise InBagUnavailableError(
            f"the model was trained on {beyond + 1} rows or more, but X has {len(y)}. Pass all training rows "
            "in training order, or rows the model has not seen, with rows='held-out'."
        )
    _refuse_more_rows(model, np.asarray(y).astype(np.int64), kept)
    out = np.zeros(len(model.classes_), dtype=bool)
    times = [_times(model, tree, rows.size) for tree, rows in enumerate(kept)]
    for rows, drawn in zip(kept, times, strict=True):
        outside = np.ones(len(y), dtype=bool)
        outside[rows[drawn > 0]] = False
        out |= np.bincount(np.asarray(y)[outside].astype(np.int64), minlength=out.size) > 0
    if not out.all():
        raise InBagUnavailableError(
            f"every tree of this BalancedRandomForestClassifier saw every row of class {model.classes_[~out][0]!r}, so "
            f"none of them is out of bag (sampling_strategy={model.sampling_strategy!r}, "
            f"replacement={model.replacement}, bootstrap={model.bootstrap}). {_HELD_OUT}"
        )

    def draw(tree: int) -> NDArray[np.float64]:
        return np.bincount(kept[tree], weights=times[tree], minlength=len(y)).astype(np.float64)

    def samples(tree: int) -> NDArray[np.float64]:
        # A row that a sampler draws twice counts as two samples of the tree.
        return np.bincount(kept[tree], weights=times[tree] > 0, minlength=len(y)).astype(np.float64)

    return InBag(draw, len(y), len(kept), samples=samples)


def _refuse_more_rows(model: Any, codes: NDArray[np.int64], kept: list[NDArray[np.int64]]) -> None:
    """Refuse X if it has more rows than the training data: the added rows would all count as out of bag.

    The model does not keep its number of rows. But its samplers draw other rows if that number differs, so they are
    run again and compared. They also draw other rows for another y: that case is left to the proof of the bags, whose
    message says what differs.
    """
    from sklearn.base import clone

    for sampler, rows in zip(model.samplers_, kept, strict=True):
        of_class = np.bincount(codes[rows], minlength=len(model.classes_))
        if any(of_class[int(each)] != wanted for each, wanted in sampler.sampling_strategy_.items()):
            return
    places = np.arange(codes.size)[:, None]
    for sampler, rows in list(zip(model.samplers_, kept, strict=True))[:SAMPLERS_TO_CHECK]:
        again = clone(sampler)
        try:
            again.fit_resample(places, codes)
        except ValueError:  # a class has fewer rows than the sampler wants
            again.sample_indices_ = None
        if not np.array_equal(again.sample_indices_, rows):
            raise ProvenanceError(
                f"X has {codes.size} rows, but from {codes.size} rows with this y the samplers of the model would draw "
                "other rows: rows were added to the training rows, or removed. Pass all training rows in training "
                "order, or rows the model has not seen, with rows='held-out'."
            )


def _times(model: Any, tree: int, n_kept: int) -> NDArray[np.float64]:
    """Return how often the bootstrap of a tree drew each of the rows its sampler kept."""
    if not model.bootstrap:
        return np.ones(n_kept)
    if isinstance(model.max_samples, float):  # a fraction of a number of rows that the model does not keep
        raise InBagUnavailableError(
            "the bags of a BalancedRandomForestClassifier with max_samples as a fraction are not recovered. "
            + _HELD_OUT
        )
    from sklearn.ensemble._forest import _generate_sample_indices as generate

    n_drawn = n_kept if model.max_samples is None else min(int(model.max_samples), n_kept)
    weights = (None,) if generate.__code__.co_argcount == 4 else ()  # of rows, an argument since scikit-learn 1.9
    drawn = generate(model.estimators_[tree].random_state, n_kept, n_drawn, *weights)
    return np.bincount(drawn, minlength=n_kept).astype(np.float64)
