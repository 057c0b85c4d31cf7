"""What stands in a LightGBM model text: its trees, its objective, the margin it starts from, its settings."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.objectives import Objective

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Block = dict[str, Any]
    """The lines of a tree by name: text, or the numbers that stand there."""

OBJECTIVES = {
    "regression": "squared_error",
    "regression_l1": "absolute_error",
    "huber": "huber",
    "fair": "fair",
    "poisson": "poisson",
    "quantile": "quantile",
    "mape": "absolute_percentage_error",
    "gamma": "gamma",
    "tweedie": "tweedie",
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
    "multiclassova": "logistic",
}
PARAMETERS = {
    "huber": "alpha",
    "quantile": "alpha",
    "fair": "fair_c",
    "poisson": "poisson_max_delta_step",
    "tweedie": "tweedie_variance_power",
}
REFUSED = {
    "lambdarank": "a ranking loss compares rows of one query, so a row has no gradient of its own at a constant margin",
    "rank_xendcg": "a ranking loss compares rows of one query, so a row has no gradient of its own",
    "cross_entropy_lambda": "row weights are part of its link, and the model does not keep them",
}
MISSING_NONE, MISSING_ZERO = 0, 1
WHOLE = ("decision_type", "split_feature", "left_child", "right_child", "internal_count", "leaf_count")
REAL = ("threshold", "leaf_value", "internal_weight", "leaf_weight", "split_gain")


@dataclass
class Nodes:
    """One tree, inner nodes first and then its leaves."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    zero_is_missing: NDArray[np.bool_]
    value: NDArray[np.float64]
    count: NDArray[np.int64]
    hessian: NDArray[np.float64]
    gain: NDArray[np.float64]
    category_set: NDArray[np.int32]
    sets: list[NDArray[np.int32]]
    root_value: float

    @classmethod
    def from_text(cls, block: Block, source: str) -> Nodes:
        """Read one tree of a model text; numbers in it may have been read already."""
        if int(block.get("is_linear", 0)):
            raise UnsupportedModelError(f"this {source} has linear models in its leaves (linear_tree), not constants")
        n_leaves = int(block["num_leaves"])
        inner = n_leaves - 1
        threshold = _numbers(block, "threshold", inner)
        decision = _numbers(block, "decision_type", inner).astype(np.int64)
        categorical = decision & 1 > 0
        missing = (decision >> 2) & 3
        # Without a missing type LightGBM takes NaN for 0 and compares; a missing category is in no set.
        missing_left = np.where(missing == MISSING_NONE, threshold >= 0, decision & 2 > 0) & ~categorical
        leaves, false = np.full(n_leaves, -1, dtype=np.int32), np.zeros(n_leaves, dtype=bool)
        value = _numbers(block, "leaf_value", n_leaves)
        of_leaves = n_leaves if inner else 0  # a tree of one leaf says nothing of it but its value
        return cls(
            feature=np.concatenate((_numbers(block, "split_feature", inner).astype(np.int32), leaves)),
            threshold=np.concatenate((threshold, np.zeros(n_leaves))),
            left=np.concatenate((_children(block, "left_child", inner), leaves)),
            right=np.concatenate((_children(block, "right_child", inner), leaves)),
            missing_left=np.concatenate((missing_left, false)),
            zero_is_missing=np.concatenate(((missing == MISSING_ZERO) & ~categorical, false)),
            value=np.concatenate((np.zeros(inner), value)),
            count=_nodes(block, "internal_count", "leaf_count", inner, of_leaves).astype(np.int64),
            hessian=_nodes(block, "internal_weight", "leaf_weight", inner, of_leaves),
            gain=np.concatenate((_numbers(block, "split_gain", inner), np.zeros(n_leaves))),
            category_set=np.concatenate((np.where(categorical, threshold, -1).astype(np.int32), leaves)),
            sets=_bit_sets(block),
            root_value=float(block["internal_value"].split()[0]) if inner else float(value[0]),
        )


@dataclass(frozen=True, eq=False)
class ModelText:
    """A model text, read.

    Parameters
    ----------
    head : dict of str to str
        The lines before the first tree.
    trees : list of Nodes
    settings : dict of str to str
        The parameters of training that stand after the trees; empty in texts that have none.
    pandas_categories : list of list
        Labels of each categorical column of the training frame.
    shrinkage : float
        Scale of the first tree.
    """

    head: dict[str, str]
    trees: list[Nodes]
    settings: dict[str, str]
    pandas_categories: list[list[Any]]
    shrinkage: float

    @classmethod
    def parse(cls, text: str, source: str) -> ModelText:
        """Read the text that ``model_to_string`` or ``save_model`` writes."""
        body, _, rest = text.partition("\nend of trees")
        head, *blocks = body.split("\nTree=")
        if not blocks:
            raise UnsupportedModelError(f"this {source} has no trees; train it first")
        lines = [_lines(block.partition("\n")[2]) for block in blocks]
        labels = re.search(r"^pandas_categorical:(.*)$", rest, flags=re.M)
        return cls(
            head=_lines(head),
            trees=[Nodes.from_text(each, source) for each in _with_numbers(lines)],
            settings=dict(re.findall(r"^\[(\w+): (.*)\]$", rest, flags=re.M)),
            pandas_categories=(json.loads(labels.group(1)) if labels else None) or [],
            shrinkage=float(lines[0].get("shrinkage", 1)),
        )

    @property
    def n_outputs(self) -> int:
        """Trees a round."""
        return int(self.head["num_tree_per_iteration"])

    @property
    def is_forest(self) -> bool:
        """Whether it was trained with ``boosting="rf"``: outputs are means of trees."""
        return "average_output" in self.head

    @property
    def folds_constant(self) -> bool:
        """Whether the constant margin is folded into leaves: of the first round, or of every tree of a forest."""
        if self.is_forest or self.settings.get("boost_from_average") == "0":
            return self.is_forest
        # The learning rate scales a first tree of nothing but steps; dropout then scales either kind.
        of_steps = float(self.settings.get("learning_rate", 0.1))
        return self.shrinkage == 1 or (self.settings.get("boosting") == "dart" and self.shrinkage > of_steps)

    def objective(self, source: str) -> Objective | None:
        """Return the objective; None if it was a function of the user's own."""
        name, *words = self.head.get("objective", "custom").split()
        if name in REFUSED:
            raise UnsupportedModelError(
                f"this {source} has objective {name!r}, which cannot be audited: {REFUSED[name]}"
            )
        if name in ("custom", "none"):
            return None
        if name not in OBJECTIVES or ("sqrt" in words and name != "regression"):
            raise UnsupportedModelError(
                f"this {source} has objective {self.head['objective']!r}; supported are {', '.join(sorted(OBJECTIVES))}"
            )
        sigmoid = [float(word[8:]) for word in words if word.startswith("sigmoid:")]
        if name in PARAMETERS:
            setting = PARAMETERS[name]
            if setting not in self.settings:
                raise UnsupportedModelError(f"the text of this {source} does not say the {setting!r} of its objective")
            return Objective(OBJECTIVES[name], (float(self.settings[setting]),))
        return Objective(OBJECTIVES[name], tuple(sigmoid) or (1.0,), root="sqrt" in words)

    def category_labels(self) -> dict[int, NDArray[Any]]:
        """Return the labels of each categorical column of the training frame, by feature."""
        if not self.pandas_categories:
            return {}
        features = [int(k) for k in self.settings.get("categorical_feature", "").split(",") if k]
        if len(features) != len(self.pandas_categories):
            raise UnsupportedModelError(
                f"the LightGBM model text has labels of {len(self.pandas_categories)} categorical columns, but names "
                f"{len(features)}: it does not say which labels are whose. Train with the columns of dtype category "
                "as the only categorical features"
            )
        return {k: _labels(each) for k, each in zip(features, self.pandas_categories, strict=True)}


def require_whole(text: str, source: str) -> None:
    """Refuse a model text whose trees are not where, and not as long, as it says: LightGBM's own reader then aborts.

    Raises
    ------
    UnsupportedModelError
        The text is cut off or was edited; the message says where.
    """
    body, end, _ = text.partition("\nend of trees")
    head, *blocks = body.split("\nTree=")
    if not end:
        raise UnsupportedModelError(f"{source} is damaged: it has no end of trees")
    sizes = _lines(head).get("tree_sizes", "").split()
    found = [str(len(f"Tree={block}\n".encode())) for block in blocks]
    if sizes and sizes != found:  # old texts have none
        at = next((k for k, pair in enumerate(zip(sizes, found, strict=False)) if pair[0] != pair[1]), len(found))
        raise UnsupportedModelError(f"{source} is damaged: tree {at} is not as long as the text says")
    n_features = int(_lines(head).get("max_feature_idx", -1)) + 1
    for tree, block in enumerate(blocks):
        nodes = Nodes.from_text(_lines(block.partition("\n")[2]), source)
        inner = nodes.left.size // 2
        children = np.concatenate([nodes.left[:inner], nodes.right[:inner]])
        behind = (children > np.tile(np.arange(inner), 2)).all()
        if not behind or not np.array_equal(np.sort(children), np.arange(1, nodes.left.size)):
            raise UnsupportedModelError(f"{source} is damaged: the nodes of tree {tree} form no tree")
        if (nodes.feature[:inner] >= n_features).any() or (nodes.feature[:inner] < 0).any():
            raise UnsupportedModelError(f"{source} is damaged: tree {tree} splits on a feature the model does not have")


def take_base(model: ModelText) -> NDArray[np.float64]:
    """Take the constant margin out of the trees it is folded into, and return it, shape (n_outputs,).

    That is the first tree of each output; in a forest, every tree. It is what the root of such a tree holds: the
    constant itself, up to one step of the root where rows are sampled or where the loss is smallest elsewhere (huber,
    fair). No centred score depends on it but through the response, which stays a function of y alone. Roots are written
    with six digits; where the leaves average to the same, they have all.
    """
    n_outputs = model.n_outputs
    if not model.folds_constant:
        return np.zeros(n_outputs)
    base = np.zeros(n_outputs)
    for k in range(n_outputs):
        folded = model.trees[k::n_outputs] if model.is_forest else [model.trees[k]]
        base[k] = np.mean([_root_value(tree) for tree in folded]) / (1 if model.is_forest else model.shrinkage)
        for tree in folded:
            tree.value[tree.left < 0] -= base[k]
    return base


def joined(trees: list[Nodes], name: str) -> NDArray[Any]:
    """Return an array of all trees' nodes, side by side."""
    return np.concatenate([getattr(tree, name) for tree in trees])


def category_sets(trees: list[Nodes]) -> dict[str, Any]:
    """Return the sets of categories that go left, as a TreeEnsemble takes them; nothing if no split has one."""
    sets = [each for tree in trees for each in tree.sets]
    if not sets:
        return {}
    begin = np.cumsum([0] + [len(tree.sets) for tree in trees])
    numbered = [
        np.where(tree.category_set >= 0, tree.category_set + first, -1)
        for tree, first in zip(trees, begin, strict=False)
    ]
    return {
        "category_set": np.concatenate(numbered).astype(np.int32),
        "category_start": np.cumsum([0] + [each.size for each in sets]),
        "category_codes": np.concatenate(sets),
        "listed_left": np.ones(len(sets), dtype=bool),
    }


def _root_value(tree: Nodes) -> float:
    leaf = tree.left < 0
    weight = tree.hessian[leaf] if tree.hessian[leaf].sum() else np.ones(leaf.sum())
    mean = float(np.average(tree.value[leaf], weights=weight))
    return mean if abs(mean - tree.root_value) <= 1e-5 * abs(tree.root_value) else tree.root_value


def _lines(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        found[name] = value if equals else "yes"
    return found


def _with_numbers(blocks: list[dict[str, str]]) -> list[Block]:
    """Read the numbers of all trees at once, a field at a time: one by one they take most of the time of reading.

    A field with anything but numbers between single spaces is left as text.
    """
    read: list[Block] = [dict(block) for block in blocks]
    for name in (*WHOLE, *REAL):
        texts = [block.get(name, "") for block in blocks]
        end = np.cumsum([text.count(" ") + 1 if text else 0 for text in texts])
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # of a text that is not read to its end
            try:
                values = np.fromstring(
                    " ".join(filter(None, texts)), np.int64 if name in WHOLE else np.float64, sep=" "
                )
            except (ValueError, DeprecationWarning):
                continue
        if values.size == end[-1]:
            for block, text, a, b in zip(read, texts, [0, *end[:-1].tolist()], end.tolist(), strict=True):
                if text:
                    block[name] = values[a:b]
    return read


def _numbers(block: Block, name: str, size: int) -> NDArray[Any]:
    given = block.get(name, "") if size else np.zeros(0)
    found = np.array(given.split(), dtype=np.float64) if isinstance(given, str) else given
    if found.size != size:
        raise UnsupportedModelError(f"the LightGBM model text has {found.size} entries of {name} for {size} nodes")
    return found


def _nodes(block: Block, inner: str, leaf: str, n_inner: int, n_leaves: int) -> NDArray[Any]:
    if not n_inner:
        return np.zeros(1)
    return np.concatenate((_numbers(block, inner, n_inner), _numbers(block, leaf, n_leaves)))


def _children(block: Block, name: str, inner: int) -> NDArray[np.int32]:
    child = _numbers(block, name, inner).astype(np.int32)
    return np.where(child < 0, inner + ~child, child).astype(np.int32)


def _bit_sets(block: Block) -> list[NDArray[np.int32]]:
    """Return the categories of each set of a tree, which stand as bits of 32-bit words."""
    if not int(block.get("num_cat", 0)):
        return []
    words = np.array(block["cat_threshold"].split(), dtype="<u4")
    bounds = [int(part) for part in block["cat_boundaries"].split()]
    return [
        np.flatnonzero(np.unpackbits(words[a:b].view(np.uint8), bitorder="little")).astype(np.int32)
        for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def _labels(labels: list[Any]) -> NDArray[Any]:
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
