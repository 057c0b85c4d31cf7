"""Adapter of imbalanced-learn's BalancedRandomForestClassifier, whose trees are grown on resampled classes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, ProvenanceError, UnsupportedModelError
from debias.hooks.library import Library
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import SQUARED_ERROR
from debias_adapters.sklearn.missing_values import missing_refusal, refuse_grown_otherwise
from debias_adapters.sklearn.reading import common_arrays, names_of, values_are_means

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    from imblearn.ensemble import BalancedRandomForestClassifier

    labels = (y > 0.5).astype(int)
    settings = {"sampling_strategy": "all", "replacement": True, "bootstrap": False}
    return BalancedRandomForestClassifier(5, random_state=0, **settings).fit(X, labels), X, labels


LIBRARY = Library(
    "imbalanced-learn",
    "imbalanced-learn",
    _small_model,
    "imblearn",
    tested=("0.13", "0.14"),
    extra="imbalanced-learn",
    page="libraries/imbalanced-learn",
)
SAMPLERS_TO_CHECK = 20
_HELD_OUT = "Pass rows the model has not seen, with rows='held-out'."


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


# The class inherits from scikit-learn's, whose adapter implements all other hooks. These two are called first.
@debias.plugin.hookimpl(tryfirst=True)
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


@debias.plugin.hookimpl(tryfirst=True)
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Recover the rows that each sampler selected, and redraw the bootstrap samples from them."""
    if not _is_mine(model):
        return None
    return _bags_of_forest(model, y, sample_weight)


def _is_mine(model: Any) -> bool:
    imblearn = sys.modules.get("imblearn.ensemble")
    return imblearn is not None and isinstance(model, imblearn.BalancedRandomForestClassifier)


def _bags_of_forest(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag:
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
    sampled_rows = [np.asarray(sampler.sample_indices_, dtype=np.int64) for sampler in model.samplers_]
    last_row = max(int(rows_of_tree.max()) for rows_of_tree in sampled_rows)
    if last_row >= len(y):
        raise InBagUnavailableError(
            f"the model was trained on {last_row + 1} rows or more, but X has {len(y)}. Pass all training rows "
            "in training order, or rows the model has not seen, with rows='held-out'."
        )
    _refuse_more_rows(model, np.asarray(y).astype(np.int64), sampled_rows)
    has_out_of_bag = np.zeros(len(model.classes_), dtype=bool)
    draw_counts = [_draw_counts(model, tree, rows_of_tree.size) for tree, rows_of_tree in enumerate(sampled_rows)]
    for rows_of_tree, counts_of_tree in zip(sampled_rows, draw_counts, strict=True):
        out_of_bag = np.ones(len(y), dtype=bool)
        out_of_bag[rows_of_tree[counts_of_tree > 0]] = False
        has_out_of_bag |= np.bincount(np.asarray(y)[out_of_bag].astype(np.int64), minlength=has_out_of_bag.size) > 0
    if not has_out_of_bag.all():
        raise InBagUnavailableError(
            f"no row of class {model.classes_[~has_out_of_bag].tolist()[0]!r} is out of bag: every tree of this "
            "BalancedRandomForestClassifier saw all rows of that class (sampling_strategy="
            f"{model.sampling_strategy!r}, replacement={model.replacement}, bootstrap={model.bootstrap}). {_HELD_OUT}"
        )

    def draw(tree: int) -> NDArray[np.float64]:
        return np.bincount(sampled_rows[tree], weights=draw_counts[tree], minlength=len(y)).astype(np.float64)

    def samples(tree: int) -> NDArray[np.float64]:
        # A row that a sampler draws twice counts as two samples of the tree.
        return np.bincount(sampled_rows[tree], weights=draw_counts[tree] > 0, minlength=len(y)).astype(np.float64)

    return InBag(draw, len(y), len(sampled_rows), samples=samples)


def _refuse_more_rows(model: Any, codes: NDArray[np.int64], sampled_rows: list[NDArray[np.int64]]) -> None:
    """Refuse X if it has more rows than the training data: the added rows would all count as out of bag.

    The model does not keep its number of rows. But its samplers draw other rows if that number differs, so they are
    run again and compared. They also draw other rows for another y. The later proof of the bags finds that case, and
    its message says what differs.
    """
    from sklearn.base import clone

    for sampler, rows_of_tree in zip(model.samplers_, sampled_rows, strict=True):
        n_by_class = np.bincount(codes[rows_of_tree], minlength=len(model.classes_))
        if any(n_by_class[int(label)] != n_wanted for label, n_wanted in sampler.sampling_strategy_.items()):
            return
    row_numbers = np.arange(codes.size)[:, None]
    for sampler, rows_of_tree in list(zip(model.samplers_, sampled_rows, strict=True))[:SAMPLERS_TO_CHECK]:
        redrawn = clone(sampler)
        try:
            redrawn.fit_resample(row_numbers, codes)
        except ValueError:  # a class has fewer rows than the sampler draws
            redrawn.sample_indices_ = None
        if not np.array_equal(redrawn.sample_indices_, rows_of_tree):
            raise ProvenanceError(
                f"X has {codes.size} rows, but from {codes.size} rows with this y the samplers of the model would draw "
                "other rows: rows were added to the training rows, or removed. Pass all training rows in training "
                "order, or rows the model has not seen, with rows='held-out'."
            )


def _draw_counts(model: Any, tree: int, n_sampled: int) -> NDArray[np.float64]:
    """Return how often the bootstrap of a tree drew each of the rows its sampler selected."""
    if not model.bootstrap:
        return np.ones(n_sampled)
    if isinstance(model.max_samples, float):  # a fraction of the number of rows, which the model does not keep
        raise InBagUnavailableError(
            "the bags of a BalancedRandomForestClassifier with max_samples as a fraction are not recovered. "
            + _HELD_OUT
        )
    from sklearn.ensemble._forest import _generate_sample_indices as generate

    n_drawn = n_sampled if model.max_samples is None else min(int(model.max_samples), n_sampled)
    row_weights = (None,) if generate.__code__.co_argcount == 4 else ()  # an argument since scikit-learn 1.9
    positions = generate(model.estimators_[tree].random_state, n_sampled, n_drawn, *row_weights)
    return np.bincount(positions, minlength=n_sampled).astype(np.float64)
