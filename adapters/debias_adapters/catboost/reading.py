"""Reader of CatBoost's models: the objective, and from JSON symmetric and asymmetric trees with splits on borders."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.objectives import Objective, UnscoredObjective, expit
from debias.trees.ranking_objectives import Deviation, Pairwise, RankingObjective
from debias.trees.survival_objectives import CoxObjective

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

NODE_FIELDS = ("feature", "threshold", "left", "right", "missing_left", "value", "weight")
"""What a TreeEnsemble has of each node."""
Split = tuple[int, float, bool]
"""Feature, border, whether missing values go left."""
OF_CLASSES = ("Logloss", "MultiClass", "MultiClassOneVsAll")
"""Objectives of one label. The response of the others is a number or several; for CrossEntropy a probability."""
OF_SEVERAL_RESPONSES = ("MultiRMSE", "MultiLogloss", "MultiCrossEntropy")
LOSSES: dict[str, tuple[str, str | None, str]] = {
    "RMSE": ("squared_error", None, ""),
    "MultiRMSE": ("squared_error", None, ""),
    "Logloss": ("logistic", None, ""),
    "CrossEntropy": ("logistic", None, ""),
    "MultiClass": ("softmax", None, ""),
    "MultiClassOneVsAll": ("logistic", None, ""),
    "MultiLogloss": ("logistic", None, ""),
    "MultiCrossEntropy": ("logistic", None, ""),
    "MAE": ("absolute_error", None, ""),
    "MAPE": ("absolute_percentage_error", None, ""),
    "Quantile": ("quantile", "alpha", "0.5"),
    "MultiQuantile": ("quantile", "alpha", "0.5"),
    "Expectile": ("expectile", "alpha", "0.5"),
    "Huber": ("huber", "delta", ""),
    "Poisson": ("poisson", None, ""),
    "Tweedie": ("tweedie", "variance_power", ""),
}
"""CatBoost's name of a loss, the name in debias, CatBoost's name of its parameter, and the default."""

_OF_GROUPS = "it compares rows of one group with each other"
_UNKNOWN = "debias has no formula for its loss"
_PAIRS = ("pairs of the user, which the model does not keep: all pairs of a query with different y are used",)
UNSCORED = {
    **dict.fromkeys(
        (
            "LambdaMart",
            "StochasticRank",
            "QueryCrossEntropy",
        ),
        _OF_GROUPS,
    ),
    **dict.fromkeys(("SurvivalAft", "Lq", "LogCosh", "LogLinQuantile", "Focal"), _UNKNOWN),
    "PythonUserDefinedPerObject": "it is a function of the user, which the model does not keep",
}
"""CatBoost's names of losses that give rows no gradient that debias knows: the reason."""
_RANKING: dict[str, RankingObjective] = {
    "QueryRMSE": Deviation("QueryRMSE"),
    "QuerySoftMax": Deviation("QuerySoftMax"),
    "PairLogit": Pairwise("PairLogit", left_out=_PAIRS),
    "PairLogitPairwise": Pairwise("PairLogitPairwise", left_out=_PAIRS),
}
_LINKS: dict[str, Any] = {"SurvivalAft": np.exp, "LogLinQuantile": np.exp, "Focal": expit}


@dataclass
class Nodes:
    """The nodes of one tree: lists that grow, or arrays."""

    feature: Any = field(default_factory=list)
    threshold: Any = field(default_factory=list)
    left: Any = field(default_factory=list)
    right: Any = field(default_factory=list)
    missing_left: Any = field(default_factory=list)
    value: Any = field(default_factory=list)
    weight: Any = field(default_factory=list)
    leaf: Any = field(default_factory=list)

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


def objective_of(model: Any) -> tuple[str, Objective]:
    """Return CatBoost's name of the loss a model was trained for, and the objective.

    Raises
    ------
    UnsupportedModelError
        The model does not keep its objective, or debias does not know its loss.
    """
    source = f"CatBoost {type(model).__name__}"
    if "params" not in dict(model.get_metadata()):
        raise UnsupportedModelError(
            f"this {source} keeps no training parameters, so its objective is not known, as after "
            "catboost.sum_models. Audit the models that it was made of"
        )
    text = str(model.get_all_params().get("loss_function", "an objective function"))
    name, _, options = text.partition(":")
    settings = dict(option.split("=", 1) for option in options.split(";") if option)
    if name == "Cox":
        return name, CoxObjective(link=np.exp)
    if name in ("YetiRank", "YetiRankPairwise"):
        return name, _yeti_rank(name, settings)
    if name in _RANKING:
        return name, _RANKING[name]
    if name in UNSCORED:
        return name, UnscoredObjective(name, reason=UNSCORED[name], link=_LINKS.get(name))
    if name not in LOSSES:
        raise UnsupportedModelError(f"this {source} was trained for {name}. Supported are {', '.join(LOSSES)}.")
    loss, parameter, default = LOSSES[name]
    if parameter is None:
        # LOSSES of debias.trees.objectives: margins of "poisson" are taken as they are, which is 0 added to them.
        return name, Objective(loss, (0.0,)) if loss == "poisson" else Objective(loss)
    values = settings.get(parameter, default).split(",")
    return name, Objective(loss, tuple(float(value) for value in values))


def _yeti_rank(name: str, settings: dict[str, str]) -> Objective:
    mode = settings.get("mode", "Classic")
    if mode != "Classic":
        reason = f"debias has no formula for its mode {mode}, only for Classic"
        return UnscoredObjective(name, reason=reason)
    return Deviation(name, decay=float(settings.get("decay", 0.85)))


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
    splits = [read_split(split) for split in tree["splits"] or []]
    weights = np.array(tree["leaf_weights"], dtype=np.float64)
    values = np.reshape(np.array(tree["leaf_values"], dtype=np.float64), (weights.size, -1))
    depth, left, right, leaf = _full_tree(len(splits))
    feature, threshold, missing_left = (np.array(each) for each in zip(*splits, (-1, 0.0, False), strict=True))
    # Leaf number -1, of inner nodes, takes the last entry: zeros.
    return Nodes(
        feature=feature[depth],
        threshold=threshold[depth],
        left=left,
        right=right,
        missing_left=missing_left[depth],
        value=np.concatenate([values, np.zeros((1, values.shape[1]))])[leaf],
        weight=np.append(weights, 0.0)[leaf],
        leaf=leaf,
    )


@cache
def _full_tree(n_levels: int) -> tuple[NDArray[np.int64], ...]:
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
    return tuple(np.array(each) for each in (depth, left, right, leaf))


def symmetric_leaves(ensemble: TreeEnsemble, indexes: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the node of each leaf index (n_rows, n_trees) of symmetric trees, in the order of their nodes here."""
    nodes = np.empty(indexes.shape, dtype=np.int32)
    for tree, size in enumerate(np.diff(ensemble.tree_start).tolist()):
        nodes[:, tree] = _node_of_leaf(size.bit_length() - 1)[indexes[:, tree]]
    return nodes


@cache
def _node_of_leaf(n_levels: int) -> NDArray[np.int32]:
    leaf = _full_tree(n_levels)[3]
    node_of = np.empty(2**n_levels, dtype=np.int32)
    node_of[leaf[leaf >= 0]] = np.flatnonzero(leaf >= 0)
    return node_of


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
