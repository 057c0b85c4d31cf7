"""Hooks for models of treelite, their files, and forests of cuML, which export themselves to treelite."""

from __future__ import annotations

import struct
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import InBagUnavailableError, RowsError, UnsupportedModelError, with_article
from debias.hooks.wrapping import Inner, Unwrapped
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import Objective, UnscoredObjective
from debias_adapters.treelite import LIBRARY
from debias_adapters.treelite.reading import Header, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.in_bag import InBag
    from debias_adapters.treelite.reading import Header

SOURCE = "treelite Model"
FLOAT_TYPES = (2, 3)
"""Codes of float32 and float64 in files."""


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the treelite model that a forest of cuML exports."""
    ensemble = sys.modules.get("cuml.ensemble")
    if ensemble is None or not isinstance(model, (ensemble.RandomForestClassifier, ensemble.RandomForestRegressor)):
        return None
    kind = f"cuML {type(model).__name__}"
    if not hasattr(model, "_treelite_model_bytes"):
        raise UnsupportedModelError(f"this {kind} is not fitted; fit it first")
    is_classifier = isinstance(model, ensemble.RandomForestClassifier)
    encode = partial(_codes, classes=np.asarray(model.classes_)) if is_classifier else None
    return Unwrapped(kind, (Inner(model.as_treelite(), "exported forest", response=encode),))


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Read treelite's arrays of nodes; None for a model of another library."""
    if not _is_treelite(model):
        return None
    if model.handle is None or model.num_tree == 0:
        raise UnsupportedModelError(f"this {SOURCE} has no trees")
    header = Header.of(model)
    _require_supported(header)
    nodes = nodes_of(model, header.width, SOURCE)
    return TreeEnsemble(
        feature_names=tuple(f"f{k}" for k in range(model.num_feature)),
        named=False,
        labelled=False,
        tree_output=header.tree_output,
        routing_dtype=np.dtype(model.input_type),
        output_dtype=np.dtype(model.output_type),
        source=SOURCE,
        version=sys.modules["treelite"].__version__,
        tested_versions=LIBRARY.tested_versions,
        **{**nodes, **(_averaged(header, nodes) if _is_mean(header) else _added(header, nodes))},
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the node ids that treelite returns."""
    if not _is_treelite(model):
        return None
    return np.asarray(_gtil().predict_leaf(model, X, nthread=1), dtype=np.int32).reshape(len(X), -1)


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return means or margins."""
    return _predict(model, X) if _is_treelite(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return means or margins; None for frames, which treelite does not take."""
    is_array = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
    return _predict(model, X) if _is_treelite(model) and is_array else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: a model of treelite keeps nothing that its bags could be drawn from."""
    if not _is_treelite(model):
        return None
    raise InBagUnavailableError(
        f"{with_article(SOURCE)} does not keep which rows its trees were grown on. Pass rows the model has not seen, "
        "with rows='held-out', or pass the model that it was made from"
    )


@debias.plugin.hookimpl
def debias_load_model(path: Path, try_apart: Callable[[], None]) -> Any | None:
    """Load a checkpoint of treelite. Only treelite reads it, so a separate process tries it first."""
    if path.is_dir() or not _is_checkpoint(path):
        return None
    try:
        import treelite
    except ImportError as error:
        raise UnsupportedModelError(
            f"{path} is a checkpoint of treelite, but treelite is not installed: pip install treelite"
        ) from error
    try_apart()
    try:
        return treelite.Model.deserialize(path)
    except treelite.TreeliteError as error:
        raise UnsupportedModelError(f"{path} cannot be loaded by treelite: {error}") from error


def _is_treelite(model: Any) -> bool:
    treelite = sys.modules.get("treelite")
    return treelite is not None and isinstance(model, treelite.Model)


def _gtil() -> Any:
    return sys.modules["treelite"].gtil


def _require_supported(header: Header) -> None:
    if header.task == "kIsolationForest":
        raise UnsupportedModelError(f"this {SOURCE} is an isolation forest: its trees were grown without a response")
    if header.n_targets > 1 and header.n_classes > 1:
        raise UnsupportedModelError(
            f"this {SOURCE} predicts classes of {header.n_targets} responses at once. Audit a model of each response"
        )


def _is_mean(header: Header) -> bool:
    """Whether leaves hold means of the response: other functions than the identity are applied to sums of steps."""
    return header.averaged and header.postprocessor in ("identity", "identity_multiclass")


def _averaged(header: Header, nodes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a forest of means or of class probabilities."""
    value, base = nodes["value"], header.base
    is_classifier = header.task in ("kBinaryClf", "kMultiClf")
    if is_classifier and base.size == 1:  # leaves hold the probability of the second class
        value, base = np.hstack([1 - value, value]), np.array([-base[0], base[0]])
    return {
        "value": value,
        "base": base,
        "averaged": True,
        "objective": Objective("squared_error"),
        "classes": np.arange(base.size) if is_classifier else None,
        # Without sums of weights beside them, the counts may be of bags in which rows are repeated.
        "uniform_rows": nodes["averaging_weight"] is not nodes["count"],
    }


def _added(header: Header, nodes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model whose trees add steps; a forest with a link function is one round of steps."""
    objective, notes = objective_of(header, SOURCE)
    n_trees, is_classifier = header.tree_output.size, header.task in ("kBinaryClf", "kMultiClf")
    # The mean of an output is over the trees that add to it.
    n_averaged = np.bincount(header.tree_output)[header.tree_output]
    of_nodes = np.repeat(n_averaged, np.diff(nodes["tree_start"]))[:, None]
    return {
        "value": nodes["value"] / of_nodes if header.averaged else nodes["value"],
        "base": header.base,
        "averaged": False,
        "objective": objective,
        "classes": np.arange(max(2, header.n_classes)) if is_classifier else None,
        "trees_a_round": n_trees if header.averaged else header.base.size // header.width,
        "notes": notes,
    }


def _predict(model: Any, X: NDArray[Any]) -> NDArray[np.float64]:
    raw = np.asarray(_gtil().predict(model, X, nthread=1, pred_margin=True), dtype=np.float64).reshape(len(X), -1)
    header = Header.of(model)
    one_probability = _is_mean(header) and header.task == "kBinaryClf" and raw.shape[1] == 1
    return np.hstack([1 - raw, raw]) if one_probability else raw


def _is_checkpoint(path: Path) -> bool:
    """Whether a file starts as treelite's checkpoints do: the version, the types, the number of trees."""
    layout = struct.Struct("<iiiBBQ")
    with open(path, "rb") as file:
        head = file.read(layout.size)
    if len(head) < layout.size:
        return False
    major, minor, patch, *types, n_trees = layout.unpack(head)
    is_version = 3 <= major <= 9 and 0 <= minor < 100 and 0 <= patch < 100
    return is_version and set(types) <= set(FLOAT_TYPES) and 0 < n_trees < path.stat().st_size


def _codes(y: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes of a cuML model."""
    labels = np.asarray(y)
    unknown = labels[~np.isin(labels, classes)]
    if unknown.size:
        raise RowsError(f"y has the label {unknown.tolist()[0]!r}, but the model was trained on {classes.tolist()}")
    return np.searchsorted(classes, labels)


_GUESS = (
    "treelite does not keep the loss that a model was trained for; it is scored with the {}, because its output is {!r}"
)


def objective_of(header: Header, source: str) -> tuple[Objective, tuple[str, ...]]:
    """Return the objective of a model whose trees are added, and a note where several losses have such an output.

    Raises
    ------
    UnsupportedModelError
        There is no loss for such an output.
    """
    name, alpha = header.postprocessor, header.sigmoid_alpha
    if header.task == "kLearningToRank":
        return UnscoredObjective(name, reason="it compares rows of one group with each other"), ()
    if name == "identity":
        return Objective("squared_error"), (_GUESS.format("squared error", name),)
    if name == "signed_square":
        return Objective("squared_error", root=True), ()
    if name == "exponential":
        return Objective("poisson", (0.0,)), (_GUESS.format("Poisson loss", name),)
    if name in ("sigmoid", "multiclass_ova"):
        return Objective("logistic", (alpha,)), ()
    if name == "softmax":
        return Objective("softmax"), ()
    if name == "hinge":
        return Objective("hinge"), ()
    if name == "logarithm_one_plus_exp":
        reason = "row weights are part of its link function, and the model does not store them"
        return UnscoredObjective(name, reason=reason, link=lambda margin: np.log1p(np.exp(margin))), ()
    raise UnsupportedModelError(f"this {source} has the output function {name!r}, for which debias has no loss")
