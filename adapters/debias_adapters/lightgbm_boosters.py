"""LightGBM: the scikit-learn wrappers and raw Boosters; regression, binary, multi-class."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.ensemble import TreeEnsemble
from debias.errors import InBagUnavailableError, UnsupportedModelError
from debias.objectives import LOGISTIC, SOFTMAX, SQUARED_ERROR, Objective

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.inbag import InBag

OBJECTIVES = {"regression": SQUARED_ERROR, "binary": LOGISTIC, "multiclass": SOFTMAX}
MISSING_NONE, MISSING_ZERO = 0, 1


@debias.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Parse the model text: leaf values and counts stand there in full."""
    if not _is_mine(model):
        return None
    source = f"LightGBM {type(model).__name__}"
    text = _booster(model).model_to_string()
    head, blocks = _parse(text)
    objective = _objective(head, source)
    if not blocks:
        raise UnsupportedModelError(f"this {source} has no trees; train it first")
    trees = [_Nodes.from_text(block, number, source) for number, block in enumerate(blocks)]
    n_outputs = int(head["num_tree_per_iteration"])
    output = np.arange(len(trees), dtype=np.int32) % n_outputs
    folded = "[boost_from_average: 0]" not in text and blocks[0].get("shrinkage") == "1"
    base = _take_base(trees[:n_outputs]) if folded else np.zeros(n_outputs)
    names = head["feature_names"].split()
    zero_is_missing = _join(trees, "zero_is_missing")
    return TreeEnsemble(
        tree_start=np.cumsum([0] + [tree.left.size for tree in trees]),
        feature=_join(trees, "feature"),
        threshold=_join(trees, "threshold"),
        left=_join(trees, "left"),
        right=_join(trees, "right"),
        missing_left=_join(trees, "missing_left"),
        zero_is_missing=zero_is_missing if zero_is_missing.any() else None,
        value=_join(trees, "value")[:, None],
        averaging_weight=_join(trees, "count").astype(np.float64),
        tree_output=output,
        base=base,
        averaged=False,
        objective=objective,
        feature_names=tuple(names),
        named=names != [f"Column_{k}" for k in range(len(names))],
        classes=_classes(model, n_outputs),
        labelled=hasattr(model, "classes_"),
        routing_dtype=np.dtype(np.float64),
        sparse_absent=0.0,
        source=source,
        version=sys.modules["lightgbm"].__version__,
        gain=_join(trees, "gain"),
        cover=_join(trees, "count").astype(np.float64),
        count=_join(trees, "count"),
        uniform_rows=not re.search(r"^\[(pos|neg)_bagging_fraction: (?!1\])", text, flags=re.M),
    )


@debias.hookimpl
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Predict leaf indices; a leaf's node id is its index after all inner nodes of its tree."""
    if not _is_mine(model):
        return None
    leaves = np.asarray(_booster(model).predict(X, pred_leaf=True)).reshape(len(X), -1).astype(np.int32)
    n_inner = np.diff(ensemble.tree_start) // 2
    return leaves + n_inner.astype(np.int32)


@debias.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return margins."""
    if not _is_mine(model):
        return None
    return np.asarray(_booster(model).predict(X, raw_score=True), dtype=np.float64).reshape(len(X), -1)


@debias.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Refuse: rows out of one boosted tree's sample were seen by the others."""
    if not _is_mine(model):
        return None
    raise InBagUnavailableError.of_boosted(f"a LightGBM {type(model).__name__}")


@debias.hookimpl
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return ``feature_importances_`` of a wrapper, the default ``feature_importance()`` of a Booster."""
    if not _is_mine(model):
        return None
    kind = getattr(model, "importance_type", "split")
    figures = model.feature_importances_ if hasattr(model, "booster_") else model.feature_importance(kind)
    return np.asarray(figures, dtype=np.float64), kind


@debias.hookimpl
def debias_load_model(path: Path) -> Any | None:
    """Load ``save_model`` text files."""
    with open(path, "rb") as file:
        head = file.read(200)
    if not head.startswith(b"tree\nversion="):
        return None
    try:
        import lightgbm
    except ImportError as error:
        raise UnsupportedModelError(
            f"{path} is a LightGBM model, but lightgbm is not installed: pip install debias-trees[lightgbm]"
        ) from error
    try:
        return lightgbm.Booster(model_file=path)
    except lightgbm.basic.LightGBMError as error:
        raise UnsupportedModelError(f"{path} cannot be loaded by LightGBM: {error}") from error


@dataclass
class _Nodes:
    """One tree, inner nodes first and then its leaves."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    zero_is_missing: NDArray[np.bool_]
    value: NDArray[np.float64]
    count: NDArray[np.int64]
    gain: NDArray[np.float64]

    @classmethod
    def from_text(cls, block: dict[str, str], number: int, source: str) -> _Nodes:
        if int(block.get("num_cat", 0)):
            raise UnsupportedModelError(
                f"tree {number} of this {source} splits on categories; only numeric splits are supported so far"
            )
        if int(block.get("is_linear", 0)):
            raise UnsupportedModelError(f"this {source} has linear models in its leaves (linear_tree), not constants")
        n_leaves = int(block["num_leaves"])
        inner = n_leaves - 1
        threshold = _numbers(block, "threshold", inner)
        decision = _numbers(block, "decision_type", inner).astype(np.int64)
        missing = (decision >> 2) & 3
        # Without a missing type LightGBM takes NaN for 0 and compares.
        missing_left = np.where(missing == MISSING_NONE, threshold >= 0, decision & 2 > 0)
        leaves, false = np.full(n_leaves, -1, dtype=np.int32), np.zeros(n_leaves, dtype=bool)
        return cls(
            feature=np.append(_numbers(block, "split_feature", inner).astype(np.int32), leaves),
            threshold=np.append(threshold, np.zeros(n_leaves)),
            left=np.append(_children(block, "left_child", inner), leaves),
            right=np.append(_children(block, "right_child", inner), leaves),
            missing_left=np.append(missing_left, false),
            zero_is_missing=np.append(missing == MISSING_ZERO, false),
            value=np.append(np.zeros(inner), _numbers(block, "leaf_value", n_leaves)),
            count=np.append(
                _numbers(block, "internal_count", inner), _numbers(block, "leaf_count", n_leaves if inner else 0)
            ).astype(np.int64)
            if inner
            else np.zeros(1, dtype=np.int64),
            gain=np.append(_numbers(block, "split_gain", inner), np.zeros(n_leaves)),
        )


def _is_mine(model: Any) -> bool:
    lightgbm = sys.modules.get("lightgbm")
    return lightgbm is not None and isinstance(model, (lightgbm.Booster, lightgbm.LGBMModel))


def _booster(model: Any) -> Any:
    if not hasattr(model, "get_params"):
        return model
    if not model.__sklearn_is_fitted__():
        raise UnsupportedModelError(f"this LightGBM {type(model).__name__} is not fitted; fit it first")
    return model.booster_


def _parse(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the header and one dictionary a tree, of the ``name=value`` lines of a model text."""
    body = text.split("\nend of trees", 1)[0]
    head, *trees = body.split("\nTree=")
    return _lines(head), [_lines(tree.partition("\n")[2]) for tree in trees]


def _lines(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        found[name] = value if equals else "yes"
    return found


def _objective(head: dict[str, str], source: str) -> Objective:
    name, *settings = head.get("objective", "none").split()
    if "average_output" in head:
        raise UnsupportedModelError(f"this {source} was trained with boosting='rf', which is not supported so far")
    if name not in OBJECTIVES or "sqrt" in settings or (name == "binary" and settings != ["sigmoid:1"]):
        raise UnsupportedModelError(
            f"this {source} has objective {head.get('objective', 'none')!r}; supported so far: "
            f"{', '.join(sorted(OBJECTIVES))} (without reg_sqrt, sigmoid 1)"
        )
    return OBJECTIVES[name]


def _numbers(block: dict[str, str], name: str, size: int) -> NDArray[np.float64]:
    found = np.array(block.get(name, "").split(), dtype=np.float64) if size else np.zeros(0)
    if found.size != size:
        raise UnsupportedModelError(f"the LightGBM model text has {found.size} entries of {name} for {size} nodes")
    return found


def _children(block: dict[str, str], name: str, inner: int) -> NDArray[np.int32]:
    child = _numbers(block, name, inner).astype(np.int32)
    return np.where(child < 0, inner + ~child, child).astype(np.int32)


def _take_base(trees: list[_Nodes]) -> NDArray[np.float64]:
    """Take the constant margin out of the first tree of each output, where LightGBM folds it in.

    It is the mean of the leaves weighted by training rows: the constant itself, up to one step of the root where rows
    have weights or the loss is not squared. No centred score depends on it.
    """
    base = np.empty(len(trees))
    for k, tree in enumerate(trees):
        leaf = tree.left < 0
        weight = tree.count[leaf] if tree.count[leaf].sum() else np.ones(leaf.sum())
        base[k] = np.average(tree.value[leaf], weights=weight)
        tree.value[leaf] -= base[k]
    return base


def _join(trees: list[_Nodes], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(tree, name) for tree in trees])


def _classes(model: Any, n_outputs: int) -> NDArray[Any] | None:
    if hasattr(model, "classes_"):
        return np.asarray(model.classes_)
    return np.arange(n_outputs) if n_outputs > 1 else None
