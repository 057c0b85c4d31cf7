"""Hooks for ONNX models: their files, their graphs, and what the sums of their trees mean."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.data.probing import probed
from debias.errors import ExtractionError, InBagUnavailableError, RowsError, UnsupportedModelError, with_article
from debias.hooks.wrapping import Inner, Unwrapped
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import Objective
from debias_adapters.onnx import LIBRARY
from debias_adapters.onnx.graph import SOURCE, labels_of
from debias_adapters.onnx.reading import arrays

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.in_bag import InBag
    from debias_adapters.onnx.reading import Nodes
    from debias_adapters.onnx.runtime import OnnxTrees

    Floats = NDArray[np.float64]

SAYS_AVERAGED = "debias.averaged"
"""Property of a model's metadata that keeps what the user said: whether the prediction is the mean over the trees."""
CLOSE = 1e-4
"""Largest difference of the runtime's output from the function of its own sums, in float32."""
SUMS_TO_1 = 1e-4
"""Largest distance of the sum of class fractions from 1."""


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_load_model(path: Path, try_apart: Callable[[], None]) -> Any | None:
    """Load an ONNX file; onnxruntime, which is native code, predicts with it in a separate process first."""
    if path.is_dir() or path.suffix != ".onnx":
        return None
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise UnsupportedModelError(f"{path} is an ONNX file, but onnx is not installed: pip install onnx") from error
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise UnsupportedModelError(f"{path} is damaged, or no ONNX file: {error}") from error
    _trees(model).nodes  # noqa: B018 - a damaged file is refused before native code gets it
    try_apart()
    return model


@debias.plugin.hookimpl
def debias_restore(model: Any, params: Any) -> Any | None:
    """Keep what the user says about a regression whose file does not say it: ``averaged``."""
    if not _is_onnx(model):
        return None
    given = dict(params) if isinstance(params, dict) else {"": None}
    averaged = given.pop("averaged", None)
    if given or not isinstance(averaged, bool):
        raise RowsError(
            f"of {with_article(SOURCE)} one thing can be said: params={{'averaged': True}} if its prediction is the "
            "mean over its trees (forests), and False if they are added (boosting)"
        )
    restored = type(model)()
    restored.CopyFrom(model)
    restored.metadata_props.add(key=SAYS_AVERAGED, value=str(averaged))
    return restored


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the trees of an ONNX model, and what its graph makes of their columns before."""
    if not _is_onnx(model):
        return None
    trees = _trees(model)
    if trees.is_direct:
        return Unwrapped(SOURCE, (Inner(trees, "trees"),))
    columns = trees.parts.columns
    named = all(each.alone for each in columns)
    names = tuple(each.of_input if each.alone else f"{each.of_input}[{each.position}]" for each in columns)
    inner = Inner(trees, "trees", transform=trees.transform, columns=partial(_columns, trees))
    return Unwrapped(SOURCE, (inner,), feature_names=names, named=named)


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Read the node of trees; None for a model of another library."""
    if not _is_trees(model):
        return None
    nodes = model.nodes
    read = _reading(model)
    dtype = np.dtype(np.float64 if model.input_type == 11 else np.float32)
    return TreeEnsemble(
        feature_names=tuple(f"f{k}" for k in range(model.n_features)),
        named=False,
        labelled=read.classes is not None and read.labelled,
        routing_dtype=dtype,
        output_dtype=np.dtype(np.float32),
        source=SOURCE,
        version=sys.modules["onnx"].__version__,
        tested_versions=LIBRARY.tested_versions,
        value=read.value,
        tree_output=read.tree_output,
        base=read.base,
        averaged=read.averaged,
        objective=read.objective,
        classes=read.classes,
        trees_a_round=1 if read.averaged else read.base.size // read.value.shape[1],
        notes=read.notes,
        **arrays(nodes, dtype),
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaves that onnxruntime finds."""
    return model.leaves(X) if _is_trees(model) else None


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> Floats | None:
    """Return the raw output that onnxruntime computes."""
    return _predict(model, X) if _is_trees(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> Floats | None:
    """Return the raw output that onnxruntime computes; None for frames, which it does not take."""
    is_array = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
    return _predict(model, X) if _is_trees(model) and is_array else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: Floats | None) -> InBag | None:
    """Refuse: an ONNX model keeps nothing that its bags could be drawn from."""
    if not _is_trees(model):
        return None
    raise InBagUnavailableError(
        f"{with_article(SOURCE)} does not keep which rows its trees were grown on. Pass rows the model has not seen, "
        "with rows='held-out', or pass the model that it was made from"
    )


def _is_onnx(model: Any) -> bool:
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(model, onnx.ModelProto)


def _is_trees(model: Any) -> bool:
    runtime = sys.modules.get("debias_adapters.onnx.runtime")
    return runtime is not None and isinstance(model, runtime.OnnxTrees)


def _trees(model: Any) -> OnnxTrees:
    from debias_adapters.onnx.runtime import OnnxTrees

    return OnnxTrees.of(model)


def _columns(trees: OnnxTrees, X: Any) -> list[tuple[int, ...]]:
    """Return for each column of the trees the input columns that it is made of."""
    if len(trees.parts.columns) == 1:
        return [(0,)] * trees.n_features
    if X is None:
        raise UnsupportedModelError(
            f"the columns that this {SOURCE} makes can be traced to its inputs with rows only: pass X, or level='model'"
        )
    return probed(trees, trees.in_order(X))


@dataclass(frozen=True, eq=False)
class _Reading:
    """What the sums of the trees mean, as fields of a TreeEnsemble."""

    value: Floats
    tree_output: NDArray[np.int32]
    base: Floats
    averaged: bool
    objective: Objective
    classes: NDArray[Any] | None = None
    labelled: bool = True
    notes: tuple[str, ...] = ()


_GUESS = "ONNX does not keep the loss that a model was trained for; it is scored with the {}, because its output is {}"


def _reading(trees: OnnxTrees) -> _Reading:
    """Return what the sums of the trees mean.

    Raises
    ------
    UnsupportedModelError
        It is not known what they mean.
    """
    nodes, output = trees.nodes, trees.parts.output
    if nodes.aggregate not in ("SUM", "AVERAGE"):
        raise UnsupportedModelError(f"this {SOURCE} takes the {nodes.aggregate.lower()} of its trees, which is no sum")
    link = output.link if nodes.transform == "NONE" else _of_transform(nodes.transform, output.link)
    n_trees, n_ids = nodes.tree_ids.shape
    share = n_trees if nodes.aggregate == "AVERAGE" else 1
    # What the trees add to the output in the end, over the number of trees if they are averaged.
    value = nodes.scores * output.scale / share
    base = (nodes.base if nodes.base.size == n_ids else np.full(n_ids, nodes.base.sum())) * output.scale + output.shift
    labels, labelled = _labels(trees, n_ids, link)
    if labels is None:
        return _regression(trees, value, base, link)
    if link == "none":
        return _fractions(trees, value, base, labels, labelled)
    if len(labels) == 2:
        if n_ids == 2:
            opposite = np.abs(value[:, 0] + value[:, 1]).max() <= 1e-6 * max(np.abs(value).max(), 1e-300)
            if link == "logistic" and not (opposite and abs(base.sum()) <= 1e-6):
                raise _unknown("two independent scores of two classes")
            if link == "logistic":
                value, base = value[:, 1:], base[1:]
        if link == "logistic":
            return _added(nodes, value, base, Objective("logistic", (1.0,)), labels, labelled)
    if n_ids != len(labels):
        raise _unknown(f"{n_ids} scores of {len(labels)} classes")
    objective = Objective("softmax") if link == "softmax" else Objective("logistic", (1.0,))
    return _added(nodes, value, base, objective, labels, labelled)


def _unknown(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"this {SOURCE} has {what}, and debias does not know what they mean")


def _of_transform(transform: str, link: str) -> str:
    if transform in ("LOGISTIC", "SOFTMAX") and link == "none":
        return transform.lower()
    raise _unknown(f"the function of scores {transform}")


def _labels(trees: OnnxTrees, n_ids: int, link: str) -> tuple[NDArray[Any] | None, bool]:
    """Return the labels of classes, and whether the file has them; None for a regression."""
    parts = trees.parts
    found = parts.output.labels or labels_of(parts.node)
    if found is not None:
        return np.array(found), True
    if link in ("logistic", "softmax"):
        return np.arange(max(2, n_ids)), False
    return None, False


def _regression(trees: OnnxTrees, value: Floats, base: Floats, link: str) -> _Reading:
    nodes = trees.nodes
    n_trees = nodes.tree_ids.shape[0]
    if link == "exp":
        note = _GUESS.format("Poisson loss", "an exponential")
        return _added(nodes, value, base, Objective("poisson", (0.0,)), None, False, (note,))
    if _is_averaged(trees):
        everywhere = nodes.tree_ids.all(axis=0).all()
        if not everywhere:
            raise _unknown("trees for some outputs only, which are averaged")
        of_trees = np.zeros(n_trees, dtype=np.int32)
        return _Reading(value * n_trees, of_trees, base, True, Objective("squared_error"))
    note = _GUESS.format("squared error", "the sum itself")
    return _added(nodes, value, base, Objective("squared_error"), None, False, (note,))


def _is_averaged(trees: OnnxTrees) -> bool:
    """Whether a regression is a forest. A file that adds scores without a base may be of either kind."""
    nodes, output = trees.nodes, trees.parts.output
    n_trees = nodes.tree_ids.shape[0]
    for each in trees.parts.model.metadata_props:
        if each.key == SAYS_AVERAGED:
            return bool(each.value == "True")
    if nodes.aggregate == "AVERAGE" or n_trees == 1 or abs(output.scale * n_trees - 1) < 1e-6:
        return True
    if nodes.base.any():
        return False
    raise UnsupportedModelError(
        f"this {SOURCE} adds up {n_trees} trees, and the file does not say whether they are parts of a mean (a forest) "
        "or steps (boosting). Say so: debias.load_model(path, params={'averaged': True}) for forests, False for "
        "boosted models; in the shell --params"
    )


def _fractions(trees: OnnxTrees, value: Floats, base: Floats, labels: NDArray[Any], labelled: bool) -> _Reading:
    """Return the reading of scores that are fractions of classes, as forests have."""
    nodes = trees.nodes
    n_trees = nodes.tree_ids.shape[0]
    value = value * n_trees
    is_leaf = nodes.feature < 0
    if value.shape[1] == 1 and labels.size == 2:
        value, base = np.hstack([np.where(is_leaf[:, None], 1 - value, 0), value]), np.array([-base[0], base[0]])
    total = value[is_leaf].sum(axis=1)
    if value.shape[1] != labels.size or np.abs(total - 1).max() > SUMS_TO_1 or value[is_leaf].min() < -SUMS_TO_1:
        raise _unknown("scores of classes that are neither fractions nor passed to a logistic function or softmax")
    of_trees = np.zeros(n_trees, dtype=np.int32)
    return _Reading(value, of_trees, base, True, Objective("squared_error"), labels, labelled)


def _added(
    nodes: Nodes,
    value: Floats,
    base: Floats,
    objective: Objective,
    labels: NDArray[Any] | None,
    labelled: bool,
    notes: tuple[str, ...] = (),
) -> _Reading:
    """Return the reading of trees that add steps: each to one output, or each to all."""
    n_outputs = base.size
    of_trees = nodes.tree_ids if nodes.tree_ids.shape[1] == n_outputs else nodes.tree_ids[:, -1:]
    if n_outputs > 1 and (of_trees.sum(axis=1) == 1).all():
        first = of_trees.argmax(axis=1).astype(np.int32)
        of_nodes = np.repeat(first, np.diff(nodes.tree_start))
        value = value[np.arange(len(value)), of_nodes][:, None]
    else:
        first = np.zeros(len(of_trees), dtype=np.int32)
    return _Reading(value, first, base, False, objective, labels, labelled, notes)


def _predict(trees: OnnxTrees, X: NDArray[Any]) -> Floats:
    """Return the raw output, and check that the model's own output is the function of it that it is read as.

    Raises
    ------
    ExtractionError
        It is not.
    """
    read = _reading(trees)
    output = trees.parts.output
    sums = trees.sums(X) * output.scale + output.shift
    if read.averaged and read.classes is not None and sums.shape[1] == 1:
        raw = np.hstack([1 - sums, sums])
    else:
        raw = sums[:, -1:] if read.base.size == 1 else sums
    theirs = trees.output(X)
    ours = _linked(raw, read)
    if theirs.shape != ours.shape:
        theirs = theirs[:, -ours.shape[1] :] if theirs.shape[1] > ours.shape[1] else theirs
    known = np.isfinite(theirs) & np.isfinite(ours)
    if theirs.shape != ours.shape or (np.abs(theirs - ours) > CLOSE * (1 + np.abs(ours)))[known].any():
        raise ExtractionError(
            f"this {SOURCE} predicts otherwise than the function that debias reads from its graph ({_function(read)}) "
            "of the sums of its trees"
        )
    return raw


def _function(read: _Reading) -> str:
    return "the sum itself" if read.averaged else read.objective.name.replace("_", " ")


def _linked(raw: Floats, read: _Reading) -> Floats:
    """Return predictions: probabilities of all classes, or of the second one alone, or means."""
    if read.averaged or read.objective.name == "squared_error":
        return raw
    with np.errstate(over="ignore"):
        if read.objective.name == "poisson":
            return np.asarray(np.exp(raw))
        if read.objective.name == "softmax":
            shifted = np.exp(raw - raw.max(axis=1, keepdims=True))
            return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
        return np.asarray(1 / (1 + np.exp(-raw)))
