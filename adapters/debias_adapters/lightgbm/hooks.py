"""Hooks for LightGBM: scikit-learn wrappers and Boosters, of every objective with a gradient for each single row."""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError, with_article
from debias.hooks.cross_validated import CrossValidated
from debias.hooks.reported import LeafSums, Measure, ReportedImportance
from debias.hooks.training_weights import TrainingWeights
from debias.hooks.wrapping import Inner, Unwrapped
from debias.trees.ensemble import PERHAPS_STOPPED_EARLY, STOPPED_EARLY, TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import CustomObjective, Objective
from debias_adapters.lightgbm import LIBRARY, bags, changed_leaves, file_checks, refit
from debias_adapters.lightgbm.leaf_lines import line_arrays
from debias_adapters.lightgbm.reading import ModelText, take_base, text_in_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.hooks.library import Library

MEANS_OF_Y = ("squared_error", "absolute_error", "huber", "fair", "quantile", "absolute_percentage_error")
"""Objectives whose margins are on the scale of y. The leaf values of their forests are averages of y."""


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the boosters of a cross-validation, ``lgb.cv(..., return_cvbooster=True)["cvbooster"]``."""
    lightgbm = sys.modules.get("lightgbm")
    if lightgbm is None or not isinstance(model, lightgbm.CVBooster):
        return None
    if not model.boosters:
        raise UnsupportedModelError("this CVBooster has no boosters: pass the one that lightgbm.cv returns")
    n_folds = len(model.boosters)
    inner = tuple(Inner(booster, f"fold {k}", 1 / n_folds) for k, booster in enumerate(model.boosters))
    note = f"scores are means over the boosters of {n_folds} folds; each has seen the training rows of the other folds"
    return Unwrapped("CVBooster", inner, note=note)


@debias.plugin.hookimpl
def debias_cross_validated(results: Any) -> CrossValidated | None:
    """Return the boosters of ``lgb.cv(..., return_cvbooster=True)``, or of the CVBooster in it."""
    lightgbm = sys.modules.get("lightgbm")
    if lightgbm is None:
        return None
    bag = results.get("cvbooster") if isinstance(results, dict) else results
    if not isinstance(bag, lightgbm.CVBooster):
        return None
    if not bag.boosters:
        raise UnsupportedModelError("this CVBooster has no boosters: pass the one that lightgbm.cv returns")
    stopped = _was_stopped(bag.boosters[0], bag.best_iteration)
    tuned = "LightGBM chose the number of trees by the loss on the test rows of the folds" if stopped else None
    return CrossValidated("CVBooster", tuple(bag.boosters), tuned_on_test=tuned)


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Parse the model text, which has leaf values and counts in full precision."""
    if not _is_mine(model):
        return None
    source = _source(model)
    text = _text(model)
    objective = text.objective(source) or _own_objective(model, source)
    averaged = _averages(text, objective)
    leaves_changed = changed_leaves.were_changed(text)
    lines = line_arrays(text.trees)
    if lines and text.is_forest:
        raise UnsupportedModelError(
            f"this {source} is a forest (boosting='rf') with linear models in its leaves (linear_tree), so its output "
            "is a mean of lines: train it without linear_tree, or with another boosting"
        )
    base = np.zeros(text.n_outputs) if averaged else take_base(text)
    trees, names = text.trees, text.head["feature_names"].split(" ")
    value = trees.value[:, None]
    if text.is_forest and not averaged:
        value /= len(trees) // text.n_outputs  # margins are means over trees: divide, so that they become sums
    weight = _leaf_bag_weights(text) if text.is_forest else None
    ensemble = TreeEnsemble(
        tree_start=trees.start,
        feature=trees.feature,
        threshold=trees.threshold,
        left=trees.left,
        right=trees.right,
        missing_left=trees.missing_left,
        zero_is_missing=trees.zero_is_missing if trees.zero_is_missing.any() else None,
        value=value,
        averaging_weight=trees.count.astype(np.float64) if weight is None else weight,
        tree_output=np.arange(len(trees), dtype=np.int32) % text.n_outputs,
        base=base,
        averaged=averaged,
        objective=objective,
        feature_names=tuple(names),
        named=names != [f"Column_{k}" for k in range(len(names))],
        classes=_classes(model, text.n_outputs),
        labelled=hasattr(model, "classes_"),
        spaces_in_names=False,
        routing_dtype=np.dtype(np.float64),
        narrowed_kinds="iu" if hasattr(model, "booster_") else "iuO",
        sparse_absent=0.0,
        takes_tables=False,  # LightGBM aborts the process on a column of text in an Arrow or polars table
        category_labels=text.category_labels() or None,
        source=source,
        version=sys.modules["lightgbm"].__version__,
        tested_versions=LIBRARY.tested_versions,
        mean_values=averaged and not leaves_changed and _leaves_are_means(text, objective),
        gain=trees.gain,
        cover=None if leaves_changed else trees.count.astype(np.float64),
        count=None if leaves_changed else trees.count,
        notes=_notes(model, leaves_changed) + objective.notes,
        trees_a_round=text.n_outputs,
        sampled_share=text.sampled_share,
        rescaled=text.settings.get("boosting") == "dart",
        uniform_rows=all(text.settings.get(f"{name}_bagging_fraction", "1") == "1" for name in ("pos", "neg")),
        **trees.category_arrays(),
        **lines,
    )
    if weight is None:
        return ensemble
    weight = _summed_up(ensemble, weight)
    return replace(ensemble, averaging_weight=weight, weight=weight)


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Predict leaf indices. The nodes of a tree are its inner nodes, followed by its leaves."""
    if not _is_mine(model):
        return None
    leaves = np.asarray(_booster(model).predict(X, pred_leaf=True, num_threads=1)).reshape(len(X), -1).astype(np.int32)
    n_inner = np.diff(ensemble.tree_start) // 2
    return leaves + n_inner.astype(np.int32)


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins. The raw score of a forest is a sum over trees; its prediction is the mean."""
    if not _is_mine(model):
        return None
    return _mean_of_forest(model, _booster(model).predict(X, raw_score=True, num_threads=1), len(X))


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return margins."""
    if not _is_mine(model):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _mean_of_forest(model, model.predict(X, raw_score=True, num_threads=1), X.shape[0])


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Redraw the bags of a forest. Refuse boosted trees, which have seen every training row."""
    if not _is_mine(model):
        return None
    source = _source(model)
    if not _is_forest(_booster(model)):
        raise InBagUnavailableError.of_boosted(with_article(source))
    text = _text(model)
    if changed_leaves.were_changed(text):
        raise InBagUnavailableError(
            f"the leaf values of this {source} were changed after its trees were grown, e.g. by Booster.refit: its "
            "bags are not those of the rows the values come from. Pass rows the model has not seen, with "
            "rows='held-out'."
        )
    if _leaf_bag_weights(text) is None:
        raise InBagUnavailableError(
            f"this {source} was trained with weights of rows or classes, or with a loss that weighs rows by their "
            "response: node counts cannot prove the bags. Pass rows the model has not seen, with rows='held-out'."
        )
    in_bag = bags.replay(text, len(y), source)
    if not _averages(text, text.objective(source) or _own_objective(model, source)):
        # Standard errors on out-of-bag rows need node values that are means of the response.
        raise InBagUnavailableError(
            f"this {source} is a forest whose leaves are steps of a margin, not means of y; standard errors and tests "
            "on its out-of-bag rows are not defined. Pass rows the model has not seen, with rows='held-out'."
        )
    row_weight = np.ones(len(y)) if sample_weight is None or _unweighted(text) else sample_weight
    return InBag(lambda tree: in_bag[tree // text.n_outputs] * row_weight, len(y), len(text.trees))


@debias.plugin.hookimpl
def debias_training_weights(model: Any) -> TrainingWeights | None:
    """Return whether the wrapper weighs classes."""
    if not _is_mine(model):
        return None
    weighed = getattr(model, "class_weight", None) is not None
    return TrainingWeights(classes=weighed, multiplied=weighed)


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return ``feature_importances_`` of a wrapper, the default ``feature_importance()`` of a Booster."""
    if not _is_mine(model):
        return None
    kind = getattr(model, "importance_type", "split")
    importances = model.feature_importances_ if hasattr(model, "booster_") else model.feature_importance(kind)
    measure = {"split": Measure.SPLITS, "gain": Measure.TOTAL_GAIN}.get(kind)
    return ReportedImportance(np.asarray(importances, dtype=np.float64), kind, measure, partial(_leaf_sums, model))


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    n_jobs: int | None,
    qid: NDArray[np.int64] | None,
) -> Any | None:
    """Refit the wrapper, or a Booster with its parameters."""
    if not _is_mine(model):
        return None
    text = _text(model)
    if not hasattr(model, "booster_"):
        return refit.refit_booster(model, text, X, y, sample_weight, seed, params, qid)
    params = params if n_jobs is None else {"n_jobs": n_jobs, **(params or {})}
    return refit.refit_wrapper(model, text, X, y, sample_weight, seed, params, qid)


@debias.plugin.hookimpl
def debias_load_model(path: Path) -> Any | None:
    """Load text files of ``save_model``, which are checked before LightGBM reads them."""
    if path.is_dir():
        return None
    with open(path, "rb") as file:
        head = file.read(200)
    if not re.match(rb"tree\r?\nversion=", head):
        return None
    try:
        import lightgbm
    except ImportError as error:
        raise UnsupportedModelError(
            f"{path} is a LightGBM model, but lightgbm is not installed: pip install lightgbm"
        ) from error
    text = file_checks.checked(path.read_bytes().decode(), str(path))
    try:
        with tempfile.TemporaryDirectory() as folder:  # before 4.7, LightGBM restores no parameters from strings
            checked_file = Path(folder, "model.txt")
            checked_file.write_bytes(text.encode())
            return lightgbm.Booster(model_file=checked_file)
    except lightgbm.basic.LightGBMError as error:
        raise UnsupportedModelError(f"{path} cannot be loaded by LightGBM: {error}") from error


@debias.plugin.hookimpl
def debias_save_model(model: Any, path: Path) -> bool | None:
    """Write text files. They hold a Booster, without what a scikit-learn wrapper adds to it, such as labels."""
    if not _is_mine(model) or path.suffix != ".txt":
        return None
    _booster(model).save_model(path)
    return True


def _leaf_sums(model: Any, ensemble: TreeEnsemble) -> LeafSums:
    """Return the sums of hessians in the leaves; LightGBM shrinks leaves below sets of categories more than others."""
    text, below_sets = _text(model), np.zeros(ensemble.n_nodes, dtype=bool)
    hessian = np.zeros(ensemble.n_nodes)
    hessian[ensemble.left < 0] = text.trees.hessians()
    if ensemble.category_set is not None:
        below_sets[ensemble.children[ensemble.category_set[ensemble.splits] >= 0]] = True
    of_sets = below_sets * float(text.settings.get("cat_l2", "10"))
    return LeafSums(hessian=hessian, penalty=float(text.settings.get("lambda_l2", "0")) + of_sets)


def _is_mine(model: Any) -> bool:
    lightgbm = sys.modules.get("lightgbm")
    return lightgbm is not None and isinstance(model, (lightgbm.Booster, lightgbm.LGBMModel))


def _booster(model: Any) -> Any:
    if not hasattr(model, "get_params"):
        return model
    if not model.__sklearn_is_fitted__():
        raise UnsupportedModelError(f"this LightGBM {type(model).__name__} is not fitted; fit it first")
    return model.booster_


def _source(model: Any) -> str:
    return f"LightGBM {type(model).__name__}"


def _notes(model: Any, leaves_changed: bool) -> tuple[str, ...]:
    booster = _booster(model)
    of_stopping = {True: (STOPPED_EARLY,), None: (PERHAPS_STOPPED_EARLY,), False: ()}
    return ((changed_leaves.NOTE,) if leaves_changed else ()) + of_stopping[
        _was_stopped(booster, booster.best_iteration)
    ]


def _was_stopped(booster: Any, best_iteration: int) -> bool | None:
    """Whether fewer trees are used than were asked for; None if it cannot be told, because other trees came before.

    A text file does not keep the best iteration.
    """
    asked = re.search(r"\n\[num_iterations: (\d+)\]\n", _short_text(booster))
    if best_iteration <= 0 or (asked is not None and best_iteration == int(asked[1])):
        return False
    return True if asked is not None and best_iteration < int(asked[1]) else None


def _is_forest(booster: Any) -> bool:
    return "\naverage_output\n" in _short_text(booster)


def _short_text(booster: Any) -> str:
    """Return the text of the model with one tree instead of all."""
    text: str = booster.model_to_string(num_iteration=1)
    return text


def _mean_of_forest(model: Any, score: Any, n_rows: int) -> NDArray[np.float64]:
    """Return raw scores as margins. The raw scores of a forest are sums over trees: divide by the number of trees."""
    booster, raw = _booster(model), np.asarray(score, dtype=np.float64).reshape(n_rows, -1)
    return raw / (booster.num_trees() // raw.shape[1]) if _is_forest(booster) else raw


def _text(model: Any) -> ModelText:
    return ModelText.parse(text_in_parts(_booster(model)), _source(model))


def _own_objective(model: Any, source: str) -> Objective:
    """Return the objective function that was passed to a wrapper. A Booster does not keep it."""
    function = getattr(model, "objective", None)
    if not callable(function):
        raise UnsupportedModelError(
            f"this {source} was trained with a function as its objective, and the model does not keep the function. "
            "Pass a scikit-learn wrapper that was trained with objective=your_function: the wrapper keeps the "
            "function; its booster_ and its text files do not"
        )
    is_multiclass = getattr(model, "n_classes_", 2) > 2

    def gradient(y: NDArray[np.float64], margin: NDArray[np.float64]) -> NDArray[np.float64]:
        gradients: NDArray[np.float64] = function(y.argmax(axis=1) if is_multiclass else y, margin)[0]
        return gradients

    return CustomObjective(gradient=gradient)


def _averages(text: ModelText, objective: Objective) -> bool:
    """Return whether leaf values are means of y, and not steps of a margin."""
    return text.is_forest and text.n_outputs == 1 and objective.name in MEANS_OF_Y and not objective.root


def _leaves_are_means(text: ModelText, objective: Objective) -> bool:
    regularization = ("lambda_l1", "lambda_l2", "max_delta_step", "path_smooth", "linear_lambda")
    return (
        objective.name == "squared_error"
        and all(float(text.settings.get(name, "1")) == 0 for name in regularization)
        and not text.settings.get("monotone_constraints")
        and not text.trees.sets  # cat_l2 shrinks leaves below splits on categories
    )


def _leaf_bag_weights(text: ModelText) -> NDArray[np.float64] | None:
    """Return the in-bag weight of each leaf of a forest, 0 at inner nodes; None if the model does not show it.

    All trees of a forest are grown at the same margin. Hessians then differ between rows only by sample weights or by
    the response. If they do not differ, the weight is the count. If they do, it is known for squared error only, where
    the hessian of a row is its weight.
    """
    trees = text.trees
    is_leaf = trees.left < 0
    if _unweighted(text):
        return np.where(is_leaf, trees.count, 0.0)
    if text.head.get("objective", "").split()[:1] != ["regression"]:
        return None
    weight = np.zeros(is_leaf.size)
    weight[is_leaf] = trees.hessians()
    return weight


def _summed_up(ensemble: TreeEnsemble, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of every node. This needs an ensemble, because it follows links that must have been checked."""
    from debias.trees.kernels import nodes as kernels

    weight = weight.copy()
    links = (ensemble.tree_start, ensemble.left, ensemble.right)
    kernels.sum_up(*links, weight, np.zeros((weight.size, 0)), np.zeros(0))
    return weight


def _unweighted(text: ModelText) -> bool:
    """Return whether the hessian per row is the same in all leaves of an output."""
    trees = text.trees
    count, output = trees.count[trees.left < 0], trees.tree_of_leaf() % text.n_outputs
    nonempty = count > 0
    ratio, output = trees.hessians()[nonempty] / count[nonempty], output[nonempty]
    return all(np.allclose(ratio[output == k], ratio[output == k][:1], rtol=1e-4) for k in range(text.n_outputs))


def _classes(model: Any, n_outputs: int) -> NDArray[Any] | None:
    if hasattr(model, "classes_"):
        return np.asarray(model.classes_)
    return np.arange(n_outputs) if n_outputs > 1 else None
