"""Reader of CatBoost's JSON: symmetric and asymmetric trees, with splits on borders and on single categories."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from debias.errors import UnsupportedModelError

CODES = 4096
"""Integer categories below this number are recognised by their hashes."""
LABELS = "debias_labels"
"""Key of the model's metadata under which `remember_labels` stores the labels of categories."""
Split = tuple[int, float, bool, int | None]
"""Feature, border, whether missing values go left, hash of a category."""


@dataclass
class Nodes:
    """The nodes of one tree or of all trees. A split on a category has a hash instead of a threshold."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)
    hash: list[int | None] = field(default_factory=list)
    value: list[list[float]] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    leaf: list[int] = field(default_factory=list)

    def add(
        self, split: tuple[int, float, bool, int | None] | None, value: list[float], weight: float, leaf: int
    ) -> int:
        """Append a node without children, and return its position."""
        feature, threshold, missing_left, category = split or (-1, 0.0, False, None)
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.missing_left.append(missing_left)
        self.hash.append(category)
        self.left.append(-1)
        self.right.append(-1)
        self.value.append(value)
        self.weight.append(weight)
        self.leaf.append(leaf)
        return len(self.feature) - 1


def as_json(model: Any, pool: Any = None) -> dict[str, Any]:
    """Return what ``save_model(format="json")`` writes. With a pool it contains the hashes of the pool's categories."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        model.save_model(str(path), format="json", pool=pool)
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return document


def trees(stored: dict[str, Any], source: str) -> list[Nodes]:
    """Return the trees. Each leaf has the number that CatBoost gives it.

    Raises
    ------
    UnsupportedModelError
        A split is on a statistic of the response within categories, on text or on an embedding.
    """
    float_features, categorical_features = (
        stored["features_info"].get(f"{kind}_features", []) for kind in ("float", "categorical")
    )

    def read_split(split: dict[str, Any]) -> Split:
        if split["split_type"] == "FloatFeature":
            feature = float_features[split["float_feature_index"]]
            missing_left = feature.get("nan_value_treatment") != "AsTrue"
            return feature["flat_feature_index"], float(np.float32(split["border"])), missing_left, None
        if split["split_type"] == "OneHotFeature":
            feature = categorical_features[split["cat_feature_index"]]
            return feature["flat_feature_index"], 0.0, True, split["value"] % 2**32  # all other categories go left
        raise UnsupportedModelError(
            f"this {source} splits on {split['split_type']}: a statistic of the response in each category (or on text "
            "or an embedding), which is not a set of values of one feature. Train it with one_hot_max_size= at least "
            "the largest number of categories (up to 255) to have splits on the categories themselves"
        )

    if "oblivious_trees" in stored:
        return [_symmetric(tree, read_split) for tree in stored["oblivious_trees"]]
    return [_asymmetric(tree, read_split) for tree in stored["trees"]]


def hashes(model: Any, feature: int, labels: list[Any]) -> dict[str, int]:
    """Return the hash of each label of a categorical feature, computed by CatBoost.

    Parameters
    ----------
    model : CatBoost
    feature : int
    labels : list of str or int
    """
    import catboost

    categorical = model.get_cat_feature_indices()
    rows = np.zeros((len(labels), len(model.feature_names_)), dtype=object)
    rows[:, categorical] = "0"
    rows[:, feature] = labels
    pool = catboost.Pool(rows, cat_features=categorical, feature_names=model.feature_names_)
    return {entry["value"]: entry["hash"] for entry in as_json(model, pool)["features_info"]["cat_features_hash"]}


def category_sets(model: Any, nodes: Nodes, stored_labels: dict[int, list[Any]], source: str) -> dict[str, Any]:
    """Return the arrays of category sets for TreeEnsemble. Each set holds one code.

    Parameters
    ----------
    model : CatBoost
    every : Nodes
        All nodes of all trees.
    known : dict of int to list
        Stored labels of categorical features. The others must be integer codes.
    source : str

    Raises
    ------
    UnsupportedModelError
        The label of a split is unknown.
    """
    splits = [
        (feature, hashed) for feature, hashed in zip(nodes.feature, nodes.hash, strict=True) if hashed is not None
    ]
    if not splits:
        return {}
    codes: dict[tuple[int, int], int] = {}
    for feature in sorted({feature for feature, _ in splits}):
        labels = stored_labels.get(feature, list(range(CODES)))
        by_label = hashes(model, feature, labels)
        codes |= {(feature, by_label[str(label)]): position for position, label in enumerate(labels)}
    for feature, hashed in splits:
        if (feature, hashed) not in codes:
            raise UnsupportedModelError(
                f"this {source} keeps categories as hashes, and one that it splits on in feature "
                f"{model.feature_names_[feature]!r} is not the hash of "
                + ("a label that was stored" if feature in stored_labels else f"an integer from 0 to {CODES - 1}")
                + ". Call debias_adapters.catboost.hooks.remember_labels(model, X_train) first: it stores the "
                "labels with the model"
            )
    sets = sorted(set(splits))
    set_number = {pair: position for position, pair in enumerate(sets)}
    return {
        "category_set": [
            -1 if hashed is None else set_number[feature, hashed]
            for feature, hashed in zip(nodes.feature, nodes.hash, strict=True)
        ],
        "category_start": np.arange(len(sets) + 1),
        "category_codes": [codes[pair] for pair in sets],
        "listed_left": np.zeros(len(sets), dtype=bool),
    }


def _symmetric(tree: dict[str, Any], read_split: Any) -> Nodes:
    """Build a tree from its table of leaves. The first split is at the root, and is the lowest bit of leaf numbers."""
    nodes, splits, weights = Nodes(), [read_split(split) for split in tree["splits"] or []], tree["leaf_weights"]
    values = np.reshape(tree["leaf_values"], (len(weights), -1)).tolist()

    def unfold(depth: int, leaf: int) -> int:
        if depth == len(splits):
            return nodes.add(None, values[leaf], float(weights[leaf]), leaf)
        node = nodes.add(splits[depth], [0.0] * len(values[0]), 0.0, -1)
        nodes.left[node] = unfold(depth + 1, leaf)
        nodes.right[node] = unfold(depth + 1, leaf | 1 << depth)
        return node

    unfold(0, 0)
    return nodes


def _asymmetric(tree: dict[str, Any], read_split: Any) -> Nodes:
    """Read a nested tree. If one child is a leaf and the other a subtree, CatBoost numbers the leaf first."""
    nodes, leaf_numbers = Nodes(), iter(range(2**31))

    def walk(stored: dict[str, Any]) -> int:
        if "split" not in stored:
            return nodes.add(None, np.ravel(stored["value"]).tolist(), float(stored["weight"]), next(leaf_numbers))
        node = nodes.add(read_split(stored["split"]), [], 0.0, -1)
        if "split" in stored["left"] and "split" not in stored["right"]:
            nodes.right[node] = walk(stored["right"])
            nodes.left[node] = walk(stored["left"])
        else:
            nodes.left[node] = walk(stored["left"])
            nodes.right[node] = walk(stored["right"])
        nodes.value[node] = [0.0] * len(nodes.value[nodes.left[node]])
        return node

    walk(tree)
    return nodes
