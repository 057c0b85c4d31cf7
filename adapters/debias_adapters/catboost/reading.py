"""Reader of CatBoost's JSON: symmetric and asymmetric trees with splits on the borders of numbers."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Split = tuple[int, float, bool]
"""Feature, border, whether missing values go left."""


@dataclass
class Nodes:
    """The nodes of one tree or of all trees."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)
    value: list[list[float]] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    leaf: list[int] = field(default_factory=list)

    def add(self, split: Split | None, value: list[float], weight: float, leaf: int) -> int:
        """Append a node without children, and return its position."""
        feature, threshold, missing_left = split or (-1, 0.0, False)
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.missing_left.append(missing_left)
        self.left.append(-1)
        self.right.append(-1)
        self.value.append(value)
        self.weight.append(weight)
        self.leaf.append(leaf)
        return len(self.feature) - 1


def as_text(model: Any) -> str:
    """Return what ``save_model(format="json")`` writes.

    Raises
    ------
    UnsupportedModelError
        The model has features of text or embeddings, which CatBoost does not write as JSON.
    """
    names = np.array(model.feature_names_, dtype=object)
    for kind, features in (
        ("text", model.get_text_feature_indices()),
        ("embedding", model.get_embedding_feature_indices()),
    ):
        if features:
            raise UnsupportedModelError(
                f"this CatBoost {type(model).__name__} has {kind} features ({', '.join(names[features])}), and "
                "CatBoost does not show the columns that it makes of them. Make columns of numbers yourself (of a text "
                "with TfidfVectorizer, of an embedding one column for each entry), and train the model on these"
            )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        model.save_model(str(path), format="json")
        return path.read_text(encoding="utf-8")


def from_document(document: dict[str, Any]) -> Any:
    """Return the CatBoost model that a JSON document describes."""
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        path.write_text(json.dumps(document), encoding="utf-8")
        return catboost.CatBoost().load_model(str(path), format="json")


def margins(model: Any, X: Any, **settings: Any) -> NDArray[np.float64]:
    """Return the margins of a model, which ``predict`` of a CatBoostRanker cannot be asked for."""
    import catboost

    raw = catboost.CatBoost.predict(model, X, prediction_type="RawFormulaVal", **settings)
    return np.asarray(raw, dtype=np.float64)


def trees(stored: dict[str, Any]) -> list[Nodes]:
    """Return the trees of a model without splits on categories. Each leaf has the number that CatBoost gives it.

    The leaves of asymmetric trees have these numbers in a model that was read from JSON; others number them otherwise.
    """
    float_features = stored["features_info"].get("float_features", [])

    def read_split(split: dict[str, Any]) -> Split:
        feature = float_features[split["float_feature_index"]]
        missing_left = feature.get("nan_value_treatment") != "AsTrue"
        return feature["flat_feature_index"], float(np.float32(split["border"])), missing_left

    if "oblivious_trees" in stored:
        return [_symmetric(tree, read_split) for tree in stored["oblivious_trees"]]
    return [_asymmetric(tree, read_split) for tree in stored["trees"]]


def _symmetric(tree: dict[str, Any], read_split: Any) -> Nodes:
    """Build a tree from its table of leaves. The first split is at the root, and is the lowest bit of leaf numbers."""
    splits, weights = [read_split(split) for split in tree["splits"] or []], tree["leaf_weights"]
    values = np.reshape(tree["leaf_values"], (len(weights), -1)).tolist()
    depth, left, right, leaf = _full_tree(len(splits))
    feature, threshold, missing_left = zip(*splits, (-1, 0.0, False), strict=True)
    inner = [0.0] * len(values[0])
    return Nodes(
        feature=[feature[k] for k in depth],
        threshold=[threshold[k] for k in depth],
        left=list(left),
        right=list(right),
        missing_left=[missing_left[k] for k in depth],
        value=[values[number] if number >= 0 else inner for number in leaf],
        weight=[float(weights[number]) if number >= 0 else 0.0 for number in leaf],
        leaf=list(leaf),
    )


@cache
def _full_tree(n_levels: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the depth, the children and the leaf number of the nodes of a symmetric tree, each node before its own."""
    depth, left, right, leaf = list[int](), list[int](), list[int](), list[int]()

    def unfold(level: int, number: int) -> int:
        node = len(depth)
        is_leaf = level == n_levels
        for array, value in ((depth, level), (left, -1), (right, -1), (leaf, number if is_leaf else -1)):
            array.append(value)
        if not is_leaf:
            left[node] = unfold(level + 1, number)
            right[node] = unfold(level + 1, number | 1 << level)
        return node

    unfold(0, 0)
    return depth, left, right, leaf


def _asymmetric(tree: dict[str, Any], read_split: Any) -> Nodes:
    """Read a nested tree. Its leaves are numbered from left to right."""
    nodes, leaf_numbers = Nodes(), iter(range(2**31))

    def walk(stored: dict[str, Any]) -> int:
        if "split" not in stored:
            return nodes.add(None, np.ravel(stored["value"]).tolist(), float(stored["weight"]), next(leaf_numbers))
        node = nodes.add(read_split(stored["split"]), [], 0.0, -1)
        nodes.left[node] = walk(stored["left"])
        nodes.right[node] = walk(stored["right"])
        nodes.value[node] = [0.0] * len(nodes.value[nodes.left[node]])
        return node

    walk(tree)
    return nodes
