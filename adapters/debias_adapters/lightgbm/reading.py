"""Reader of LightGBM's model text: objective, constant margin, settings, and the trees.

Each field is read for all trees at once, which is much faster than tree by tree.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.objectives import Objective, UnscoredObjective
from debias.trees.ranking_objectives import CrossEntropyNdcg, Ndcg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Block = dict[str, str]
    """The lines of a tree by name."""
    from collections.abc import Sequence


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
UNSCORED = {
    "cross_entropy_lambda": "row weights are part of its link, and the model does not keep them",
}
MISSING_NONE, MISSING_ZERO = 0, 1
WHOLE = (
    *("decision_type", "split_feature", "left_child", "right_child", "internal_count", "leaf_count"),
    *("num_features", "leaf_features"),
)
TEXT_AT_ONCE = 2**20
"""Bytes of the first buffer of LightGBM's Python package; it writes a longer text twice."""
FRAME_AT_MOST = TEXT_AT_ONCE // 8
"""Largest size of the text around the trees, in bytes, for reading in parts: each part repeats it."""
LARGEST_POWER = 100
"""Powers of ten from minus this to this are in a table; numbers beyond are left to ``float``."""


@dataclass(frozen=True, eq=False)
class ModelText:
    """A parsed model text.

    Parameters
    ----------
    head : dict of str to str
        The lines before the first tree.
    trees : Trees
    settings : dict of str to str
        The training parameters, written after the trees; empty if the text has none.
    pandas_categories : list of list
        Labels of each categorical column of the training frame.
    shrinkage : float
        Factor that the first tree was scaled by.
    """

    head: dict[str, str]
    trees: Trees
    settings: dict[str, str]
    pandas_categories: list[list[Any]]
    shrinkage: float

    @classmethod
    def parse(cls, text: str | Iterable[str], source: str) -> ModelText:
        """Parse a text of ``model_to_string`` or ``save_model``, or the texts of consecutive rounds."""
        head, after_trees, blocks = "", "", list[dict[str, str]]()
        for part in [text] if isinstance(text, str) else text:
            body, _, after_trees = part.partition("\nend of trees")
            head, blocks_of_part = blocks_of(body)
            blocks += map(lines_of, blocks_of_part)
        if not blocks:
            raise UnsupportedModelError(f"this {source} has no trees; train it first")
        labels = re.search(r"^pandas_categorical:(.*)$", after_trees, flags=re.M)
        return cls(
            head=lines_of(head),
            trees=read_trees(blocks, source),
            settings=dict(re.findall(r"^\[(\w+): (.*)\]$", after_trees, flags=re.M)),
            pandas_categories=(json.loads(labels.group(1)) if labels else None) or [],
            shrinkage=float(blocks[0].get("shrinkage", 1)),
        )

    @property
    def n_outputs(self) -> int:
        """Number of trees in a round."""
        return int(self.head["num_tree_per_iteration"])

    @property
    def is_forest(self) -> bool:
        """Whether the model was trained with ``boosting="rf"``: outputs are means over trees."""
        return "average_output" in self.head

    @property
    def sampled_share(self) -> float | None:
        """Share of the training rows in the sample of a tree; None if the text has no settings.

        GOSS starts after some rounds with all rows. Only the trees with the most rows are compared, so it counts as 1.
        """
        if "bagging_fraction" not in self.settings:
            return None
        bagged = int(self.settings.get("bagging_freq", "0")) > 0 and self.settings.get("data_sample_strategy") != "goss"
        return float(self.settings["bagging_fraction"]) if bagged else 1.0

    @property
    def folds_constant(self) -> bool:
        """Whether leaves contain the constant margin: those of the first round, or of all trees of a forest."""
        if self.is_forest or self.settings.get("boost_from_average") == "0":
            return self.is_forest
        # A first tree without the constant is scaled by the learning rate; dropout scales both kinds again.
        learning_rate = float(self.settings.get("learning_rate", 0.1))
        return self.shrinkage == 1 or (self.settings.get("boosting") == "dart" and self.shrinkage > learning_rate)

    def objective(self, source: str) -> Objective | None:
        """Return the objective, or None if it was a function of the user."""
        name, *words = self.head.get("objective", "custom").split()
        if name in UNSCORED:
            link = (lambda margin: np.log1p(np.exp(margin))) if name == "cross_entropy_lambda" else None
            return UnscoredObjective(name, reason=UNSCORED[name], link=link)
        if name == "rank_xendcg":
            return CrossEntropyNdcg()
        if name == "lambdarank":
            return self._lambdarank(source)
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
                raise UnsupportedModelError(
                    f"the text of this {source} does not contain {setting!r}, a parameter of its objective"
                )
            return Objective(OBJECTIVES[name], (float(self.settings[setting]),))
        return Objective(OBJECTIVES[name], tuple(sigmoid) or (1.0,), root="sqrt" in words)

    def _lambdarank(self, source: str) -> Objective:
        if "lambdarank_truncation_level" not in self.settings:
            raise UnsupportedModelError(
                f"the text of this {source} does not contain 'lambdarank_truncation_level', a parameter of its "
                "objective"
            )
        gains = tuple(float(gain) for gain in self.settings.get("label_gain", "").split(",") if gain)
        return Ndcg(
            "lambdarank",
            (float(self.settings.get("sigmoid", "1")),),
            gains=gains or None,
            truncation=int(self.settings["lambdarank_truncation_level"]),
            normalised=self.settings.get("lambdarank_norm", "1") == "1",
        )

    def category_labels(self) -> dict[int, NDArray[Any]]:
        """Return the labels of each categorical column of the training frame, by feature."""
        if not self.pandas_categories:
            return {}
        features = [int(k) for k in self.settings.get("categorical_feature", "").split(",") if k]
        if len(features) != len(self.pandas_categories):
            raise UnsupportedModelError(
                f"the LightGBM model text has labels of {len(self.pandas_categories)} categorical columns, but names "
                f"{len(features)}: it does not say which labels belong to which. Train with the columns of dtype "
                "category as the only categorical features"
            )
        return {k: _labels(labels) for k, labels in zip(features, self.pandas_categories, strict=True)}


def take_base(model: ModelText) -> NDArray[np.float64]:
    """Subtract the constant margin from the trees that contain it, and return it, shape (n_outputs,).

    LightGBM adds the constant to the first tree of each output, and to all trees of a forest. The value of the root of
    such a tree is used as the constant. The two are equal before LightGBM 4.6. Later they may differ by one step of the
    root: if rows are sampled, or if the minimum of the loss is elsewhere (huber, fair). Centred scores depend on it
    only through the response, which remains a function of y alone. The text has six digits of a root's value. If the
    mean of the leaves agrees with these, it is used, as it has all digits.
    """
    n_outputs = model.n_outputs
    if not model.folds_constant:
        return np.zeros(n_outputs)
    trees, base = model.trees, np.zeros(n_outputs)
    for k in range(n_outputs):
        trees_with_constant = range(k, len(trees) if model.is_forest else k + 1, n_outputs)
        base[k] = np.mean([_root_value(trees, tree) for tree in trees_with_constant]) / (
            1 if model.is_forest else model.shrinkage
        )
        for tree in trees_with_constant:
            trees.value[trees.leaves(tree)] -= base[k]
    return base


@dataclass(frozen=True, eq=False)
class Trees:
    """Nodes of all trees side by side, as in a TreeEnsemble. Inner nodes of a tree precede its leaves.

    Parameters
    ----------
    start : array of int64 of shape (n_trees + 1,)
    feature, threshold, left, right, missing_left, zero_is_missing, value, count, gain : arrays of shape (n_nodes,)
    category_set : array of int32 of shape (n_nodes,)
        For a split on categories, the index of its set in `sets`, which goes left; -1 elsewhere.
    sets : list of array of int32
    root_value : array of float64 of shape (n_trees,)
        Value of the root in the text, with six digits.
    blocks : list of dict of str to str
        The lines of each tree.
    """

    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    zero_is_missing: NDArray[np.bool_]
    value: NDArray[np.float64]
    count: NDArray[np.int64]
    gain: NDArray[np.float64]
    category_set: NDArray[np.int32]
    sets: list[NDArray[np.int32]]
    root_value: NDArray[np.float64]
    blocks: list[Block]

    def __len__(self) -> int:
        return self.start.size - 1

    def leaves(self, tree: int) -> slice:
        """Return the positions of the leaves of a tree."""
        begin, end = int(self.start[tree]), int(self.start[tree + 1])
        return slice(begin + (end - begin) // 2, end)

    def tree_of_leaf(self) -> NDArray[np.int64]:
        """Return the tree of each leaf, in the order of the trees."""
        return np.repeat(np.arange(len(self)), np.diff(self.start) // 2 + 1)

    def hessians(self, trees: slice = slice(None)) -> NDArray[np.float64]:
        """Return the sum of hessians of each leaf of some trees, by default of all.

        Few models need them for all trees. For inner nodes the text has six digits only.
        """
        n_leaves = np.diff(self.start)[trees] // 2 + 1
        return _of_leaves(self.blocks[trees], "leaf_weight", n_leaves).astype(np.float64)

    def category_arrays(self) -> dict[str, Any]:
        """Return the sets of categories as arguments of TreeEnsemble; empty without such splits."""
        if not self.sets:
            return {}
        return {
            "category_set": self.category_set,
            "category_start": np.cumsum([0] + [codes.size for codes in self.sets]),
            "category_codes": np.concatenate(self.sets),
            "listed_left": np.ones(len(self.sets), dtype=bool),
        }


def text_in_parts(booster: Any) -> Iterator[str]:
    """Yield the model text in parts. They are short enough that LightGBM's package writes each of them only once."""
    rounds = booster.current_iteration()
    rounds = min(rounds, booster.best_iteration) if booster.best_iteration > 0 else rounds
    first_round = booster.model_to_string(num_iteration=1)
    round_length = len(first_round.partition("\nend of trees")[0]) - first_round.find("\nTree=")
    frame_length = len(first_round) - round_length
    rounds_per_part = max(1, rounds)
    if frame_length <= FRAME_AT_MOST:
        # A later round may be twice as long.
        rounds_per_part = max(1, (TEXT_AT_ONCE - frame_length) // (2 * round_length))
    for begin in range(0, max(1, rounds), rounds_per_part):
        yield booster.model_to_string(start_iteration=begin, num_iteration=min(rounds_per_part, rounds - begin))


def blocks_of(body: str) -> tuple[str, list[str]]:
    """Split a text at its trees: return what comes before the first tree, and the trees."""
    head, *blocks = body.split("\nTree=")
    return head, blocks


def lines_of(text: str) -> dict[str, str]:
    """Return the values of lines ``name=value`` by name, and "yes" for a name without a value."""
    by_name = {}
    for line in text.split("\n"):
        if not line:
            continue
        name, equals, value = line.partition("=")
        by_name[name] = value if equals else "yes"
    return by_name


def read_trees(blocks: list[Block], source: str) -> Trees:
    """Read the lines of all trees.

    Raises
    ------
    UnsupportedModelError
        A field does not have as many entries as its tree has nodes.
    """
    n_leaves = np.array([int(block["num_leaves"]) for block in blocks], dtype=np.int64)
    n_inner = n_leaves - 1

    def of_splits(name: str) -> NDArray[Any]:
        return numbers(blocks, name, n_inner)

    threshold, decision = of_splits("threshold"), of_splits("decision_type")
    left_child, right_child = of_splits("left_child"), of_splits("right_child")
    leaf_value = numbers(blocks, "leaf_value", n_leaves)
    n_nodes = n_leaves + n_inner
    start = np.concatenate(([0], np.cumsum(n_nodes)))
    split = np.arange(start[-1]) - np.repeat(start[:-1], n_nodes) < np.repeat(n_inner, n_nodes)
    leaf, n_inner_of_tree = ~split, np.repeat(n_inner, n_inner)

    def nodes(at_splits: Any, at_leaves: Any, dtype: Any) -> NDArray[Any]:
        array = np.empty(split.size, dtype=dtype)
        array[split], array[leaf] = at_splits, at_leaves
        return array

    categorical, missing_type = decision & 1 > 0, (decision >> 2) & 3
    # Without a missing type LightGBM compares NaN as 0. Sets do not contain missing categories.
    missing_left = np.where(missing_type == MISSING_NONE, threshold >= 0, decision & 2 > 0) & ~categorical
    sets = [_bit_sets(block) for block in blocks]
    first_set = np.repeat(np.cumsum([0] + [len(sets_of_tree) for sets_of_tree in sets])[:-1], n_inner)
    return Trees(
        start=start,
        feature=nodes(of_splits("split_feature"), -1, np.int32),
        threshold=nodes(threshold, 0, np.float64),
        left=nodes(np.where(left_child < 0, n_inner_of_tree - 1 - left_child, left_child), -1, np.int32),
        right=nodes(np.where(right_child < 0, n_inner_of_tree - 1 - right_child, right_child), -1, np.int32),
        missing_left=nodes(missing_left, False, np.bool_),
        zero_is_missing=nodes((missing_type == MISSING_ZERO) & ~categorical, False, np.bool_),
        value=nodes(0, leaf_value, np.float64),
        count=nodes(of_splits("internal_count"), _of_leaves(blocks, "leaf_count", n_leaves), np.int64),
        gain=nodes(of_splits("split_gain"), 0, np.float64),
        category_set=nodes(np.where(categorical, threshold + first_set, -1), -1, np.int32),
        sets=[category_set for sets_of_tree in sets for category_set in sets_of_tree],
        root_value=np.array(
            [
                float(block["internal_value"].partition(" ")[0]) if n_splits else last_leaf_value
                for block, n_splits, last_leaf_value in zip(
                    blocks, n_inner, leaf_value[np.cumsum(n_leaves) - 1], strict=True
                )
            ]
        ),
        blocks=blocks,
    )


def _root_value(trees: Trees, tree: int) -> float:
    leaves = trees.leaves(tree)
    weight = trees.hessians(slice(tree, tree + 1))
    weight = weight if weight.sum() else np.ones(weight.size)
    mean, stated = float(np.average(trees.value[leaves], weights=weight)), float(trees.root_value[tree])
    return mean if abs(mean - stated) <= 1e-5 * abs(stated) else stated


def _labels(labels: list[Any]) -> NDArray[Any]:
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _of_leaves(blocks: list[Block], name: str, n_leaves: NDArray[np.int64]) -> NDArray[Any]:
    """Return the numbers of a field of leaves; 0 for a tree of one leaf, for which the text has the value only."""
    is_single_leaf = n_leaves == 1
    if not is_single_leaf.any():
        return numbers(blocks, name, n_leaves)
    values = np.zeros(n_leaves.sum())
    values[~np.repeat(is_single_leaf, n_leaves)] = numbers(blocks, name, np.where(is_single_leaf, 0, n_leaves))
    return values


def numbers(blocks: list[Block], name: str, sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Return the numbers of a field of some trees, one tree after another; tree t must have ``sizes[t]`` of them."""
    values, n_found = read_lines(
        [block.get(name, "") if n else "" for block, n in zip(blocks, sizes.tolist(), strict=True)]
    )
    wrong_trees = np.flatnonzero(n_found != sizes)
    if wrong_trees.size:
        wrong = wrong_trees[0]
        raise UnsupportedModelError(
            f"the LightGBM model text has {n_found[wrong]} entries of {name} for {sizes[wrong]} nodes (tree {wrong})"
        )
    if name not in WHOLE:
        return values
    fits_int32 = np.abs(values) < 2**31
    if not fits_int32.all():
        raise UnsupportedModelError(
            f"the LightGBM model text has {values[~fits_int32][0]} in {name}: it is not in the range of int32"
        )
    return values.astype(np.int64)


def _bit_sets(block: Block) -> list[NDArray[np.int32]]:
    """Return the categories of each set of a tree, which are stored as bits of 32-bit words."""
    if block.get("num_cat", "0") == "0":
        return []
    words = np.array(block["cat_threshold"].split(), dtype="<u4")
    bounds = [int(part) for part in block["cat_boundaries"].split()]
    return [
        np.flatnonzero(np.unpackbits(words[begin:end].view(np.uint8), bitorder="little")).astype(np.int32)
        for begin, end in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def read_lines(lines: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read the numbers of lines: correctly rounded, and several times as fast as ``float``.

    Parameters
    ----------
    lines : sequence of str
        Numbers separated by white space, without line breaks.

    Returns
    -------
    values : array of float64
        The numbers of all lines in order, as ``float`` reads them.
    in_line : array of int64 of shape (len(lines),)
        How many numbers each line has.

    Raises
    ------
    ValueError
        A word is not a number.

    Examples
    --------
    >>> read_lines(["1 2.5", "", "-5e-1"])
    (array([ 1. ,  2.5, -0.5]), array([2, 0, 1]))
    """
    from debias_adapters.lightgbm.kernels import decimals

    data = "\n".join(lines).encode()
    values = np.empty(len(data) // 2 + 1)
    begin, in_line = np.empty(values.size, dtype=np.int64), np.zeros(len(lines), dtype=np.int64)
    decimals.read_numbers(np.frombuffer(data, dtype=np.uint8), *_powers_of_ten(), values, begin, in_line)
    n = int(in_line.sum())
    values, begin = values[:n].copy(), np.append(begin[:n], len(data))
    for k in np.flatnonzero(np.isnan(values)):
        values[k] = float(data[begin[k] : begin[k + 1]])
    return values, in_line


@cache
def _powers_of_ten() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 10^-100 to 10^100 as sums of two doubles, exact to 106 bits."""
    exact = [Fraction(10) ** exponent for exponent in range(-LARGEST_POWER, LARGEST_POWER + 1)]
    high = np.array([float(power) for power in exact])
    return high, np.array(
        [float(power - Fraction(rounded)) for power, rounded in zip(exact, high.tolist(), strict=True)]
    )
