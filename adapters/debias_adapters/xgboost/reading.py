"""Reader of XGBoost's models: trees, objective, base margin, labels of categories."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.objectives import Objective
from debias.trees.ranking_objectives import AveragePrecision, Ndcg, Pairwise, RankingObjective
from debias.trees.survival_objectives import AftObjective, CoxObjective
from debias_adapters.xgboost import ubjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

OBJECTIVES = {
    "reg:squarederror": "squared_error",
    "reg:squaredlogerror": "squared_log_error",
    "reg:pseudohubererror": "pseudo_huber",
    "reg:absoluteerror": "absolute_error",
    "reg:quantileerror": "quantile",
    "reg:expectileerror": "expectile",
    "count:poisson": "poisson",
    "reg:gamma": "gamma",
    "reg:tweedie": "tweedie",
    "binary:logistic": "logistic",
    "binary:logitraw": "logistic",
    "reg:logistic": "logistic",
    "binary:hinge": "hinge",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
}
PARAMETERS = {
    "reg:pseudohubererror": ("pseudo_huber_param", "huber_slope"),
    "reg:quantileerror": ("quantile_loss_param", "quantile_alpha"),
    "reg:expectileerror": ("expectile_loss_param", "expectile_alpha"),
    "count:poisson": ("poisson_regression_param", "max_delta_step"),
    "reg:tweedie": ("tweedie_regression_param", "tweedie_variance_power"),
}
RANKING: dict[str, type[Pairwise]] = {"rank:pairwise": Pairwise, "rank:ndcg": Ndcg, "rank:map": AveragePrecision}
UNSET, FIRST_RANKS = 2**32 - 1, 32
"""XGBoost's number of pairs if it was not set, and the number of first ranks that it then takes."""
LOG_LINKS = ("poisson", "gamma", "tweedie", "cox", "aft")
"""Objectives whose margins are logs of predictions."""


@dataclass(frozen=True, eq=False)
class Trees:
    """Nodes of all trees, without pruned ones, in arrays as in a TreeEnsemble."""

    start: NDArray[np.int64]
    output: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    condition: NDArray[np.float32]
    default_left: NDArray[np.bool_]
    value: NDArray[np.float64]
    cover: NDArray[np.float64]
    gain: NDArray[np.float64]
    native_node: NDArray[np.int32] | None
    sets: dict[str, Any]
    rescaled: bool
    trees_a_round: int


def read_learner(booster: Any, source: str) -> dict[str, Any]:
    """Return the learner of a booster, read from its binary form."""
    try:
        learner: dict[str, Any] = ubjson.read(bytes(booster.save_raw("ubj")))["learner"]
    except sys.modules["xgboost"].core.XGBoostError as error:  # a Booster that was never trained
        raise UnsupportedModelError(f"this {source} cannot be read: it has no trees; train it first") from error
    return learner


def read_trees(learner: dict[str, Any], n_rounds: int, source: str) -> Trees:
    """Return the trees of the first rounds, without pruned nodes."""
    gradient_booster = learner["gradient_booster"]
    if gradient_booster["name"] == "gblinear":
        raise UnsupportedModelError(f"this {source} has booster='gblinear': it is linear and has no trees")
    model = gradient_booster["gbtree"]["model"] if gradient_booster["name"] == "dart" else gradient_booster["model"]
    first_tree_of_round = model["iteration_indptr"]
    n_trees = int(first_tree_of_round[n_rounds]) if n_rounds < len(first_tree_of_round) else len(model["trees"])
    trees = model["trees"][:n_trees]
    if not trees:
        raise UnsupportedModelError(f"this {source} has no trees; train it first")
    # Dropout scales whole trees. XGBoost 3.4 stores the factors in the model, earlier versions in the 'dart' booster.
    scale = np.asarray(gradient_booster.get("weight_drop", model.get("weight_drop", [])), dtype=np.float64)[:n_trees]
    scale = scale if scale.size else np.ones(n_trees)
    if "sum_hessian" not in trees[0]:
        raise UnsupportedModelError(
            f"this {source} has vector leaves (multi_output_tree) without the sums of hessians that node values are "
            "rebuilt with; train it with XGBoost 3.2 or later, or with one_output_per_tree"
        )
    nodes = Nodes.of(trees, source)
    left, right = nodes.children()
    leaf = left < 0
    sets = _category_sets(nodes, leaf)
    condition = nodes.joined("split_conditions")
    if sets:  # XGBoost before 3.0 stores NaN at splits on categories
        condition = np.where(np.isnan(condition) & (sets["category_set"] >= 0), np.float32(0), condition)
    return Trees(
        start=nodes.start,
        output=np.asarray(model["tree_info"][:n_trees], dtype=np.int32),
        left=left,
        right=np.where(leaf, -1, right),  # of a vector leaf, it is the position of the leaf's values
        feature=np.where(leaf, -1, nodes.joined("split_indices")),
        condition=condition,
        default_left=nodes.joined("default_left").astype(bool),
        value=_leaf_values(nodes, leaf, right, scale),
        cover=nodes.joined("sum_hessian").astype(np.float64),
        gain=np.where(leaf, 0.0, nodes.joined("loss_changes")),
        native_node=nodes.native_number(),
        sets=sets,
        rescaled=bool((scale != 1).any()),
        trees_a_round=int(first_tree_of_round[1]) if len(first_tree_of_round) > 1 else 1,
    )


def read_sampled_share(booster: Any) -> float | None:
    """Return the share of the training rows that was drawn for each round; None if it depended on their gradients.

    It is a setting of the training, which a pickled model keeps. A model file does not have it: XGBoost then says 1.
    The sums of hessians at the roots show whether that is right (:mod:`debias.rows.recognition`).
    """
    settings = dict(_settings(json.loads(booster.save_config())["learner"]["gradient_booster"]))
    share = float(settings.get("subsample", 1.0))
    return None if share < 1 and settings.get("sampling_method", "uniform") != "uniform" else share


def read_penalty(booster: Any) -> float:
    """Return the penalty of leaf values (``reg_lambda``): a setting that a model file does not keep."""
    return float(dict(_settings(json.loads(booster.save_config())["learner"]["gradient_booster"]))["lambda"])


def _settings(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a configuration; their place depends on the version and on the kind of booster."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _settings(value)
        elif isinstance(value, str):
            yield name, value


def read_objective(learner: dict[str, Any], trees: Trees, source: str) -> Objective:
    """Return the objective.

    XGBoost grows trees for the absolute error and for quantiles with hessians of 1 until 3.3, and for smooth losses
    close to them from 3.4 on. The model does not say which: it has the version that wrote it, not the one that trained
    it. Hessians of 1 have whole sums. (Sums of training weights may look like those of smooth losses.) Scores take the
    gradient of the absolute error or quantile loss itself in both cases.
    """
    name = learner["objective"]["name"]
    if name == "survival:cox":
        return CoxObjective(link=np.exp)
    if name == "survival:aft":
        settings = learner["objective"]["aft_loss_param"]
        scale = float(settings["aft_loss_distribution_scale"])
        return AftObjective(parameter=(scale,), distribution=settings["aft_loss_distribution"])
    if name in RANKING:
        return _ranking(name, learner["objective"]["lambdarank_param"])
    if name not in OBJECTIVES:
        raise UnsupportedModelError(
            f"this {source} has objective {name!r}; supported are {', '.join(sorted(OBJECTIVES))}"
        )
    parameter: tuple[float, ...] = (1.0,)
    if name in PARAMETERS:
        group, key = PARAMETERS[name]
        parameter = tuple(float(part) for part in _numbers(learner["objective"][group][key]))
    whole = np.array_equal(trees.cover, np.round(trees.cover))
    smoothed = name in ("reg:absoluteerror", "reg:quantileerror") and not whole
    return Objective(OBJECTIVES[name], parameter, smoothed=smoothed)


def _ranking(name: str, settings: dict[str, str]) -> RankingObjective:
    """Return the objective of a ranker. Settings that its response does not have are listed."""
    n_pairs, by_rank = int(settings["lambdarank_num_pair_per_sample"]), settings["lambdarank_pair_method"] == "topk"
    left_out = [] if by_rank else ["sampled pairs (lambdarank_pair_method='mean'): all pairs are used"]
    if settings.get("lambdarank_unbiased") == "1":
        left_out.append("the estimate of position bias (lambdarank_unbiased)")
    more: dict[str, Any] = {}
    if name == "rank:ndcg":
        more["linear"] = settings.get("ndcg_exp_gain", "1") == "0"
    return RANKING[name](
        name,
        truncation=(FIRST_RANKS if n_pairs == UNSET else n_pairs) if by_rank else None,
        normalised=by_rank and settings.get("lambdarank_normalization", "1") == "1",
        left_out=tuple(left_out),
        **more,
    )


def objective_notes(learner: dict[str, Any], trees: Trees, source: str) -> tuple[str, ...]:
    """Refuse a model that claims squared error but was trained with an objective function, or return a note.

    A model does not keep such a function. XGBoost then stores its default objective, and a base score of 0.5 that is
    not yet estimated. If hessians are not whole numbers, the loss was another one: refuse. If they are, the base score
    may be 0.5 by chance (as many labels 0 as 1): return a note.
    """
    model_params = learner["learner_model_param"]
    has_default_base = model_params.get("boost_from_average") == "1" and all(
        float(part) == 0.5 for part in _numbers(model_params["base_score"])
    )
    if learner["objective"]["name"] != "reg:squarederror" or not has_default_base:
        return ()
    if np.array_equal(trees.cover, np.round(trees.cover)):
        return (
            "the model starts from 0.5, like XGBoost models that were trained with a function as objective, which "
            "they do not keep; if so, its loss is not squared error, and these scores are not those of its loss",
        )
    raise UnsupportedModelError(
        f"this {source} was trained with a function as its objective, as its base score of 0.5 and its hessians show, "
        "and does not keep the function: its loss is unknown. Train the scikit-learn wrapper with "
        "objective=your_function: it can be scored as long as it is not saved to a file."
    )


def read_base(learner: dict[str, Any], objective: Objective, source: str) -> NDArray[np.float64]:
    """Return the margin before any tree, shape (n_outputs,).

    XGBoost stores it as float32 on the scale of the response, but as margins for softmax, logitraw and hinge.
    """
    model_params = learner["learner_model_param"]
    base_score = model_params["base_score"]
    score = np.array([np.float32(part) for part in _numbers(base_score)]).astype(np.float64)
    if objective.name == "logistic" and learner["objective"]["name"] != "binary:logitraw":
        if score.min() <= 0 or score.max() >= 1:
            raise UnsupportedModelError(f"this {source} has base_score {base_score}: it was trained on a single class")
        score = np.log(score) - np.log1p(-score)
    elif objective.name in LOG_LINKS:
        if score.min() <= 0:
            raise UnsupportedModelError(f"this {source} has base_score {base_score}: it was trained on zeros only")
        score = np.log(score)
    n_outputs = max(1, int(model_params["num_class"]), int(model_params.get("num_target", 1)))
    return np.broadcast_to(score, (n_outputs,)).copy()


def category_labels(learner: dict[str, Any], source: str) -> dict[int, NDArray[Any]]:
    """Return the labels of each categorical column of the training frame, by feature; XGBoost stores them since 3.1.

    Raises
    ------
    UnsupportedModelError
        XGBoost stored labels of a pandas frame that it had cut at wrong places.
    """
    gradient_booster = learner["gradient_booster"]
    model = gradient_booster["gbtree"]["model"] if gradient_booster["name"] == "dart" else gradient_booster["model"]
    labels_by_feature = {}
    for k, encoded in enumerate(model.get("cats", {}).get("enc", [])):
        labels: list[Any] = [value.item() for value in encoded["values"]]
        if "offsets" in encoded:
            text, ends = np.asarray(encoded["values"]).tobytes(), encoded["offsets"].tolist()
            try:
                labels = [text[begin:end].decode() for begin, end in zip(ends[:-1], ends[1:], strict=True)]
            except UnicodeDecodeError:  # it takes numbers of letters for numbers of bytes
                names = learner.get("feature_names")
                raise UnsupportedModelError(
                    f"this {source} does not keep the labels of column {names[k] if names else k!r} as they were: "
                    "XGBoost cuts the labels of a pandas frame at wrong places if one has a letter that is not ASCII, "
                    "such as \u00e9, and it then refuses rows with the same labels in another order itself. Train it "
                    "with labels of ASCII letters, or from a polars frame"
                ) from None
        if labels:
            labels_by_feature[k] = np.empty(len(labels), dtype=object)
            labels_by_feature[k][:] = labels
    return labels_by_feature


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of the trees that are in use: those that were not pruned.

    Parameters
    ----------
    trees : list of dict
        The trees of the model's document.
    source : str
    stored : array of int64 of shape (n_trees + 1,)
        Where each tree begins, with pruned nodes.
    kept : array of bool of shape (stored[-1],), or None
        Nodes that can be reached from a root. Pruning leaves the others in the arrays. None if there are no others.
    start : array of int64 of shape (n_trees + 1,)
        Where each tree begins, without pruned nodes.
    tree : array of int64 of shape (start[-1],)
        The tree of each kept node.
    """

    trees: list[dict[str, Any]]
    source: str
    stored: NDArray[np.int64]
    kept: NDArray[np.bool_] | None
    start: NDArray[np.int64]
    tree: NDArray[np.int64]

    @classmethod
    def of(cls, trees: list[dict[str, Any]], source: str) -> Nodes:
        """Find the nodes that are in use."""
        stored = np.cumsum([0] + [tree["left_children"].size for tree in trees])
        tree = np.repeat(np.arange(len(trees)), np.diff(stored))
        unpruned = cls(trees, source, stored, None, stored, tree)
        pruned = np.array([int(document["tree_param"]["num_deleted"]) > 0 for document in trees])
        if not pruned.any():
            return unpruned
        kept = unpruned._reachable() | ~pruned[tree]
        start = np.concatenate(([0], np.cumsum(kept)[stored[1:] - 1]))
        return unpruned if kept.all() else cls(trees, source, stored, kept, start, tree[kept])

    def joined(self, name: str) -> NDArray[Any]:
        """Return a node array of all trees."""
        parts = [tree[name] for tree in self.trees]
        sizes = np.array([part.size for part in parts])
        if not np.array_equal(sizes, np.diff(self.stored)):
            tree = int(np.argmax(sizes != np.diff(self.stored)))
            raise UnsupportedModelError(
                f"this {self.source} is damaged: tree {tree} has {sizes[tree]} entries of {name} for "
                f"{np.diff(self.stored)[tree]} nodes"
            )
        array: NDArray[Any] = np.concatenate(parts)  # concatenate returns native byte order
        return array if self.kept is None else array[self.kept]

    def children(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return both children of each node, numbered within its tree. Entries of leaves are unchanged."""
        left, right = self.joined("left_children"), self.joined("right_children")
        if self.kept is None:
            return left, right
        split, new_position = left >= 0, np.cumsum(self.kept) - 1
        old_start, new_start = self.stored[self.tree[split]], self.start[self.tree[split]]
        for child in (left, right):
            child[split] = new_position[old_start + child[split]] - new_start
        return left, right

    def place(self, tree: int, node: int) -> int:
        """Return the position of a node of a tree among the kept nodes; -1 if it was pruned."""
        position = int(self.stored[tree]) + node
        if self.kept is None:
            return position
        return int(self.kept[:position].sum()) if self.kept[position] else -1

    def native_number(self) -> NDArray[np.int32] | None:
        """Return the model's number of each node within its tree; None if no node was pruned."""
        if self.kept is None:
            return None
        positions = np.flatnonzero(self.kept)
        return (positions - self.stored[self.tree]).astype(np.int32)

    def _reachable(self) -> NDArray[np.bool_]:
        """Return the nodes that can be reached from a root, found level by level."""
        left, right = self.joined("left_children"), self.joined("right_children")
        reachable = np.zeros(self.tree.size, dtype=bool)
        level = self.stored[:-1]
        while level.size:
            reachable[level] = True
            split = level[left[level] >= 0]
            tree_start = self.stored[self.tree[split]]
            level = np.concatenate([tree_start + left[split], tree_start + right[split]])
            level = level[~reachable[level]]  # a damaged model may have cycles
        return reachable


def _numbers(text: str) -> list[str]:
    return text.strip("[]").split(",")


def _leaf_values(
    nodes: Nodes, leaf: NDArray[np.bool_], right: NDArray[np.int32], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what each leaf adds to the margins, shape (n_nodes, width); 0 at inner nodes."""
    (width,) = {max(1, int(tree["tree_param"]["size_leaf_vector"])) for tree in nodes.trees}
    value = np.zeros((leaf.size, width))
    if width == 1:
        value[leaf, 0] = nodes.joined("split_conditions")[leaf]
    else:
        weights_by_tree = [tree["leaf_weights"] for tree in nodes.trees]
        first_leaf = np.cumsum([0] + [leaf_weights.size // width for leaf_weights in weights_by_tree])[nodes.tree[leaf]]
        value[leaf] = np.concatenate(weights_by_tree).reshape(-1, width)[first_leaf + right[leaf]]
    return value * scale[nodes.tree, None]


def _category_sets(nodes: Nodes, leaf: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the sets of categories that go right, as arguments of TreeEnsemble; empty without such splits."""
    set_of_node = np.full(leaf.size, -1, dtype=np.int32)
    sets: list[NDArray[np.int32]] = []
    for tree_number, tree in enumerate(nodes.trees):
        if not tree["categories_nodes"].size:
            continue
        segments, sizes = tree["categories_segments"], tree["categories_sizes"]
        for node, begin, size in zip(tree["categories_nodes"], segments, sizes, strict=True):
            position = nodes.place(tree_number, int(node))
            if position >= 0 and not leaf[position]:
                set_of_node[position] = len(sets)
                sets.append(np.unique(tree["categories"][begin : begin + size]).astype(np.int32))
    if not sets:
        return {}
    return {
        "category_set": set_of_node,
        "category_start": np.cumsum([0] + [codes.size for codes in sets]),
        "category_codes": np.concatenate(sets),
        "listed_left": np.zeros(len(sets), dtype=bool),
    }
