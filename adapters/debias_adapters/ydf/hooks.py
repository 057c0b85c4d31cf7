"""Hooks for models of YDF: random forests, CART and gradient boosted trees, and saved models."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError, with_article
from debias.hooks.reported import Measure, ReportedImportance
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import Objective, UnscoredObjective, expit
from debias_adapters.ydf import LIBRARY, bags, refit
from debias_adapters.ydf.columns import columns_of, dictionary
from debias_adapters.ydf.reading import Trees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.in_bag import InBag

TASKS = {
    "CATEGORICAL_UPLIFT": "its trees predict effects of treatments, and no response of a row is their truth",
    "NUMERICAL_UPLIFT": "its trees predict effects of treatments, and no response of a row is their truth",
    "ANOMALY_DETECTION": "its trees were grown without a response",
}
"""Tasks that are not supported: the reason."""
_VOTES = (
    "the trees of this model vote for one class each (winner_take_all=True), so that the value of a leaf is 1 for the "
    "class it votes for and 0 for the others"
)


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Read YDF's nodes; None for a model of another library."""
    if not _is_ydf(model):
        return None
    source = _source(model)
    _require_supported(model, source)
    columns = columns_of(model, source)
    trees = Trees(model, columns, source)
    values = _of_boosted(model, trees, source) if _is_boosted(model) else _of_forest(model, trees)
    sets: dict[str, Any] = {}
    if trees.sets:
        sets = {
            "category_set": trees.category_set,
            "category_start": np.cumsum([0] + [len(codes) for codes in trees.sets]),
            "category_codes": np.array([code for codes in trees.sets for code in codes]),
            "listed_left": np.zeros(len(trees.sets), dtype=bool),
        }
    has_counts = bool((trees.count > 0).all())
    has_weights = bool(trees.weight.any())
    return TreeEnsemble(
        tree_start=trees.start,
        feature=trees.feature,
        threshold=trees.threshold,
        left=trees.left,
        right=trees.right,
        missing_left=trees.missing_left,
        averaging_weight=trees.weight if has_weights else None,
        weight=trees.weight if has_weights and has_counts else None,
        count=trees.count if has_counts else None,
        gain=trees.gain,
        feature_names=columns.names,
        named=True,
        category_labels=columns.labels or None,
        unknown_label=0.0,
        n_train=model.data_spec().created_num_rows or None,
        routing_dtype=np.dtype(np.float32),
        output_dtype=np.dtype(np.float32),
        source=source,
        version=sys.modules["ydf"].version.version,
        tested_versions=LIBRARY.tested_versions,
        **values,
        **sets,
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the node of each leaf number that YDF returns; it numbers leaves in the order of nodes."""
    if not _is_ydf(model):
        return None
    columns = columns_of(model, _source(model))
    numbers = columns.ask(model, X, model.predict_leaves)
    nodes = np.empty(numbers.shape, dtype=np.int32)
    for tree in range(model.num_trees()):
        nodes[:, tree] = np.flatnonzero(ensemble.tree(tree).left < 0)[numbers[:, tree]]
    return nodes


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return class probabilities, means or margins."""
    if not _is_ydf(model):
        return None
    return columns_of(model, _source(model)).ask(model, X, partial(_predict, model))


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return class probabilities, means or margins; None for arrays, which YDF does not take."""
    if not _is_ydf(model) or not hasattr(X, "columns"):
        return None
    if hasattr(X, "iloc"):  # YDF takes missing labels in columns of objects, and not in columns of categories
        X = X.astype({name: object for name, dtype in X.dtypes.items() if str(dtype) == "category"})
    return _predict(model, X)


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Draw the bags of a random forest again, with the seed that gives what the roots store."""
    if not _is_ydf(model):
        return None
    source = _source(model)
    if _is_boosted(model):
        raise InBagUnavailableError.of_boosted(with_article(source))
    return bags.of_forest(model, source, y, sample_weight)


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return the sum of the scores of the splits; the number of splits, if the model was saved without scores."""
    if not _is_ydf(model):
        return None
    found = model.variable_importances()
    name = "SUM_SCORE" if "SUM_SCORE" in found else "NUM_NODES"
    of_feature = {feature: importance for importance, feature in found.get(name, [])}
    values = np.array([of_feature.get(feature, 0.0) for feature in model.input_feature_names()])
    return ReportedImportance(values, name, Measure.TOTAL_GAIN if name == "SUM_SCORE" else Measure.SPLITS)


@debias.plugin.hookimpl
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
) -> Any | None:
    """Train a learner of the same kind with the settings of the user, because a model keeps none."""
    if not _is_ydf(model):
        return None
    return refit.refit_model(model, _source(model), X, y, sample_weight, seed, params)


@debias.plugin.hookimpl
def debias_load_model(path: Path, try_apart: Callable[[], None]) -> Any | None:
    """Load a directory of YDF or TensorFlow Decision Forests. Only YDF reads it: a separate process tries it first."""
    is_tensorflow = (path / "saved_model.pb").is_file()
    if not any((path / "assets" if is_tensorflow else path).glob("*data_spec.pb")):
        return None
    try:
        import ydf
    except ImportError as error:
        raise UnsupportedModelError(f"{path} is a model of YDF, but ydf is not installed: pip install ydf") from error
    try_apart()
    load = ydf.from_tensorflow_decision_forests if is_tensorflow else ydf.load_model
    try:
        return load(str(path))
    except ValueError as error:
        raise UnsupportedModelError(f"{path} cannot be loaded by YDF: {error}") from error


def _is_ydf(model: Any) -> bool:
    ydf = sys.modules.get("ydf")
    return ydf is not None and isinstance(model, ydf.GenericModel)


def _is_boosted(model: Any) -> bool:
    return isinstance(model, sys.modules["ydf"].GradientBoostedTreesModel)


def _source(model: Any) -> str:
    return f"YDF {type(model).__name__}"


def _require_supported(model: Any, source: str) -> None:
    ydf = sys.modules["ydf"]
    task = model.task().name
    if task in TASKS:
        raise UnsupportedModelError(f"this {source} has the task {task}: {TASKS[task]}")
    if not isinstance(model, (ydf.RandomForestModel, ydf.GradientBoostedTreesModel)):
        raise UnsupportedModelError(
            f"{with_article(source)} is not supported. Supported are models of RandomForestLearner, CartLearner and "
            "GradientBoostedTreesLearner"
        )
    if model.num_trees() == 0:
        raise UnsupportedModelError(f"this {source} has no trees")


def _of_forest(model: Any, trees: Trees) -> dict[str, Any]:
    """Return the fields of the ensemble that differ between forests and boosted trees."""
    is_classifier = model.task().name == "CLASSIFICATION"
    notes: tuple[str, ...] = ()
    if is_classifier:
        distribution = np.array([node.classifier.distribution.counts[1:] for node in trees.outputs])
        trees.weight[:] = distribution.sum(axis=1)
        if model.winner_takes_all():
            winners = np.array([node.classifier.top_value for node in trees.outputs]) - 1
            value, notes = np.eye(distribution.shape[1])[winners], (_VOTES,)
        else:
            value = distribution / np.maximum(trees.weight, np.finfo(np.float64).tiny)[:, None]
    else:
        trees.weight[:] = [node.regressor.distribution.count for node in trees.outputs]
        value = np.array([[node.regressor.top_value] for node in trees.outputs])
    return {
        "value": value,
        "tree_output": np.zeros(model.num_trees(), dtype=np.int32),
        "base": np.zeros(value.shape[1]),
        "averaged": True,
        "objective": Objective("squared_error"),
        "classes": _classes(model) if is_classifier else None,
        "mean_values": not notes,
        # A row that a bag has twice is counted twice, so the counts are not those of rows.
        "uniform_rows": bags.saw_rows_once(bags.first_roots(model), model.data_spec().created_num_rows),
        "notes": notes,
    }


def _of_boosted(model: Any, trees: Trees, source: str) -> dict[str, Any]:
    name, objective = objective_of(model, source)
    outputs = [node.regressor for node in trees.outputs]
    trees.weight[:] = [output.distribution.count for output in outputs]
    value = np.array([[output.top_value] for output in outputs])
    base = np.asarray(model.initial_predictions(), dtype=np.float64)
    # Samples that depend on gradients (GOSS) give the rows weights, also where training had none.
    plain = np.allclose(trees.weight, trees.count) or model._model.weighted_training()
    return {
        "value": value,
        "tree_output": np.arange(model.num_trees(), dtype=np.int32) % base.size,
        "base": base,
        "averaged": False,
        "objective": objective,
        "classes": _classes(model) if name in LOSSES and model.task().name == "CLASSIFICATION" else None,
        "trees_a_round": base.size,
        "uniform_rows": bool(plain),
    }


def _classes(model: Any) -> NDArray[Any]:
    """Return the labels as they were in training: YDF itself returns texts."""
    labels = dictionary(model.data_spec().columns[model.label_col_idx()])[1:]
    return np.array(labels.tolist())


def _predict(model: Any, rows: Any) -> NDArray[np.float64]:
    """Return the raw output of a model, one column for each output."""
    name = ""
    if _is_boosted(model):
        name, _ = objective_of(model, _source(model))
        if model.task().name == "CLASSIFICATION" and not model.output_logits():
            model = sys.modules["ydf"].deserialize_model(model.serialize())
            model.set_output_logits(True)
    use_slow_engine = not model.list_compatible_engines()
    predicted = model.predict(rows, use_slow_engine=use_slow_engine, num_threads=1).astype(np.float64)
    if not _is_boosted(model) and model.task().name == "CLASSIFICATION" and predicted.ndim == 1:
        return np.column_stack([1 - predicted, predicted])
    return np.asarray(margins_of(name, predicted)).reshape(len(predicted), -1)


LOSSES = {
    "BINOMIAL_LOG_LIKELIHOOD": Objective("logistic"),
    "MULTINOMIAL_LOG_LIKELIHOOD": Objective("softmax"),
    "SQUARED_ERROR": Objective("squared_error"),
    "MEAN_AVERAGE_ERROR": Objective("absolute_error"),
    "POISSON": Objective("poisson", (0.0,)),
}
DEFAULTS = ("BINOMIAL_LOG_LIKELIHOOD", "MULTINOMIAL_LOG_LIKELIHOOD", "SQUARED_ERROR")
_OF_GROUPS = "it compares rows of one group with each other"
UNSCORED: dict[str, tuple[str, Any]] = {
    "LAMBDA_MART_NDCG": (_OF_GROUPS, None),
    "LAMBDA_MART_NDCG5": (_OF_GROUPS, None),
    "XE_NDCG_MART": (_OF_GROUPS, None),
    "COX_PROPORTIONAL_HAZARD": ("it compares each row with the rows at risk at its time", None),
    "BINARY_FOCAL_LOSS": ("debias has no formula for its loss", expit),
}
"""Losses that give rows no gradient that debias knows: the reason, and the link function."""


def objective_of(model: Any, source: str) -> tuple[str, Objective]:
    """Return YDF's name of the loss a model was trained for, and the objective.

    Raises
    ------
    UnsupportedModelError
        The loss is a function of the user, which models do not keep.
    """
    from yggdrasil_decision_forests.model.gradient_boosted_trees import gradient_boosted_trees_pb2 as messages

    name = messages.Loss.Name(model._model.loss())
    logs = model.training_logs()
    # For a loss of the user, the model names the default of the task. But only YDF's own loss logs a metric beside it.
    if name in DEFAULTS and logs and not logs[0].training_evaluation.to_dict().keys() - {"loss"}:
        raise UnsupportedModelError(
            f"this {source} was trained for a loss of the user, which it does not keep. Supported are "
            f"{', '.join([*LOSSES, *UNSCORED])}"
        )
    if name in LOSSES:
        return name, LOSSES[name]
    reason, link = UNSCORED.get(name, ("debias has no formula for its loss", None))
    return name, UnscoredObjective(name, reason=reason, link=link)


def margins_of(name: str, predictions: Any) -> Any:
    """Return margins from what ``predict`` returns: log of the mean for POISSON; other losses predict margins."""
    return np.log(predictions) if name == "POISSON" else predictions
