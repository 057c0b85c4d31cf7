"""Checks of LightGBM's model texts, made before LightGBM reads them: it does not check them, or ends the process.

The checks also define a grammar: each name occurs once, lines end in one way, numbers consist of digits. A text that
LightGBM might read in another way than these checks is refused.
"""

# Why not a trial in a child process alone, as for CatBoost's files (debias/models/sandbox.py)? It was tried in November
# 2026, without these checks, with LightGBM 4.7 and 421 damaged texts. The child took a text that is cut off within its
# parameters, of which LightGBM reads beyond the end: the user's process then ended (SIGSEGV, 4 times of 4), or not,
# by what was in its memory. It took leaf values with a letter inside, which LightGBM reads as other numbers, without an
# error; and claims of 2,000,000,000 classes, for which debias asked for 15 GB. The child takes 1.5 s for each file.
# These checks take milliseconds, and serve the Boosters inside skops files too.

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import UnsupportedModelError
from debias_adapters.lightgbm.leaf_lines import line_arrays
from debias_adapters.lightgbm.reading import Trees, blocks_of, lines_of, read_trees

if TYPE_CHECKING:
    from debias_adapters.lightgbm.reading import Block

MOST_FEATURES = 2_000_000
MOST_OUTPUTS = 100_000
_WHOLE = ("split_feature", "decision_type", "left_child", "right_child", "leaf_count", "internal_count")
_WHOLE_OF_LINES = ("num_features", "leaf_features")
_SETS = ("cat_boundaries", "cat_threshold")
_REAL = ("split_gain", "threshold", "leaf_value", "leaf_weight", "internal_value", "internal_weight")
_REAL_OF_LINES = ("leaf_const", "leaf_coeff")
_ONE = ("num_leaves", "num_cat", "is_linear", "shrinkage")
_DECISIONS = 12
"""Number of decision types: two bits, and three ways to treat missing values."""


def checked(text: str, source: str) -> str:
    """Return a model text that is safe for LightGBM to read.

    Parameters
    ----------
    text : str
        What ``model_to_string`` or ``save_model`` writes. Lines may end as in Windows.
    source : str
        For messages.

    Raises
    ------
    UnsupportedModelError
        The text is cut off, was edited, or has impossible numbers; the message says where.
    """
    text = text.replace("\r\n", "\n")
    if re.search(r"[\r\0]", text):
        raise UnsupportedModelError(f"{source} is damaged: it has characters that do not occur in a model text")
    body, end_mark, after_trees = text.partition("\nend of trees")
    head, blocks = blocks_of(body)
    if not end_mark:
        raise UnsupportedModelError(f"{source} is damaged: it has no end of trees")
    try:
        n_features, n_outputs = _check_head(_lines(head), len(blocks))
        _check_lengths(_lines(head).get("tree_sizes", "").split(" "), blocks)
        lines_by_tree = [_checked_lines(block, number) for number, block in enumerate(blocks)]
        trees = read_trees(lines_by_tree, "LightGBM Booster")
        trees.hessians()
        _check_structure(trees, n_features)
        _check_leaf_lines(trees, n_features)
        _check_settings(after_trees)
    except _Wrong as error:
        raise UnsupportedModelError(f"{source} is damaged: {error}") from None
    except (KeyError, ValueError, OverflowError, UnicodeEncodeError) as error:
        raise UnsupportedModelError(f"{source} is damaged: {type(error).__name__} {error}") from error
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{source}: {error}") from None
    return text


class _Wrong(ValueError):
    """The text is not as LightGBM writes it."""


def _require(condition: object, fault: str) -> None:
    if not condition:
        raise _Wrong(fault)


def _lines(text: str) -> Block:
    """Return the lines of a text by name. Names must be unique: LightGBM reads either the first or the last of two."""
    nonempty = [line for line in text.split("\n") if line]
    by_name = lines_of(text)
    _require(len(by_name) == len(nonempty), "a name occurs twice, or a line has a wrong end")
    return by_name


def _check_head(head: Block, n_trees: int) -> tuple[int, int]:
    """Check the lines before the trees; return the numbers of features and outputs."""
    n_classes = _whole(head, "num_class", 1, MOST_OUTPUTS)
    n_outputs = _whole(head, "num_tree_per_iteration", 1, MOST_OUTPUTS)
    _require(n_classes == n_outputs, f"it has {n_classes} classes and {n_outputs} trees a round")
    _require(n_trees % n_outputs == 0, f"{n_trees} trees are not a multiple of {n_outputs}")
    n_features = _whole(head, "max_feature_idx", 0, MOST_FEATURES - 1) + 1
    _whole(head, "label_index", 0, 2**31 - 1)
    for name in ("feature_names", "feature_infos", "monotone_constraints"):
        if name in head or name != "monotone_constraints":
            n_words = len(head[name].split(" "))
            _require(n_words == n_features, f"{name} has {n_words} entries for {n_features} features")
    for word in head.get("objective", "custom").split(" ")[1:]:
        name, _, number = word.partition(":")
        if name == "num_class":
            _require(
                number == str(n_classes), f"its objective has {number[:20]} classes, and the model has {n_classes}"
            )
    return n_features, n_outputs


def _check_lengths(sizes: list[str], blocks: list[str]) -> None:
    actual = [str(len(f"Tree={block}\n".encode())) for block in blocks]
    if sizes != [""] and sizes != actual:  # texts of old versions have no lengths
        first_wrong = next(
            (k for k, pair in enumerate(zip(sizes, actual, strict=False)) if pair[0] != pair[1]), len(actual)
        )
        raise _Wrong(f"tree {first_wrong} is not as long as the text says")


def _checked_lines(block: str, number: int) -> Block:
    """Return the lines of a tree; each must have a name and a form that LightGBM knows."""
    title, _, content = block.partition("\n")
    where = f"tree {number}"
    _require(title == str(number), f"{where} has the title {title[:20]!r}")
    _require("\n\n" not in content.rstrip("\n"), f"{where} has an empty line inside")
    lines = _lines(content)
    for name, text in lines.items():
        if name in _WHOLE + _WHOLE_OF_LINES:
            form = r"[-0-9 ]*"
        elif name in _SETS:
            form = r"[0-9 ]*"
        elif name in _REAL + _REAL_OF_LINES:
            form = r"[-+0-9.eEinfa ]*"
        elif name in _ONE:
            form = r"[-0-9.e]+"
        else:
            raise _Wrong(f"{where} has a line {name[:40]!r}")
        _require(re.fullmatch(form, text), f"{name} of {where} has words that are not numbers")
    linear = lines.get("is_linear", "0")
    _require(linear in ("0", "1"), f"is_linear of {where} is {linear}")
    float(lines.get("shrinkage", "1"))
    _check_sets(lines, where)
    return lines


def _check_sets(lines: Block, where: str) -> None:
    """Refuse a tree whose categorical splits refer to sets that it does not have: LightGBM does not check this."""
    n_sets = _whole(lines, "num_cat", 0, 2**31 - 1)
    _whole(lines, "num_leaves", 1, 2**31 - 1)
    bounds = [int(part) for part in lines["cat_boundaries"].split()] if n_sets else [0]
    words = [int(part) for part in lines["cat_threshold"].split()] if n_sets else []
    _require(all(word < 2**32 for word in words), f"{where} has a set of categories that is not 32 bits")
    ascending = all(a <= b for a, b in pairwise(bounds))
    if len(bounds) != n_sets + 1 or bounds[0] != 0 or bounds[-1] != len(words) or not ascending:
        raise _Wrong(f"{where} has sets of categories whose boundaries are wrong")
    decisions = [int(part) for part in lines.get("decision_type", "").split()]
    _require(
        all(0 <= kind < _DECISIONS for kind in decisions), f"{where} has a decision_type that LightGBM does not know"
    )
    thresholds = [float(part) for part in lines.get("threshold", "").split()]
    for kind, threshold in zip(decisions, thresholds, strict=False):  # their lengths are checked later
        if kind & 1 and not (threshold.is_integer() and 0 <= threshold < n_sets):
            raise _Wrong(f"{where} splits on a set of categories it does not have")


def _check_structure(trees: Trees, n_features: int) -> None:
    first_node, size = trees.start[:-1], np.diff(trees.start)
    tree = np.repeat(np.arange(len(trees)), size)
    split = np.flatnonzero(trees.left >= 0)
    children = np.stack([trees.left[split], trees.right[split]]) + first_node[tree[split]]
    is_behind = ((children > split) & (children < trees.start[tree[split] + 1])).all(axis=0)
    n_parents = np.bincount(children[:, is_behind].ravel(), minlength=tree.size)
    n_parents[first_node] += 1  # a root has no parent
    not_a_tree = np.concatenate([tree[split[~is_behind]], tree[n_parents != 1]])
    _require(not not_a_tree.size, f"the nodes of tree {not_a_tree.min(initial=tree.size)} do not form a tree")
    wrong_feature = tree[split[(trees.feature[split] >= n_features) | (trees.feature[split] < 0)]]
    _require(
        not wrong_feature.size,
        f"tree {wrong_feature.min(initial=tree.size)} splits on a feature the model does not have",
    )


def _check_leaf_lines(trees: Trees, n_features: int) -> None:
    """Refuse lines in leaves that LightGBM would read beyond its rows, or whose numbers are not finite."""
    lines = line_arrays(trees)
    if not lines:
        return
    feature = lines["line_feature"]
    inside = not feature.size or (feature.min() >= 0 and feature.max() < n_features)
    _require(inside, "a line in a leaf uses a feature the model does not have")
    finite = np.isfinite(lines["line_slope"]).all() and np.isfinite(lines["line_offset"]).all()
    _require(finite, "a line in a leaf has a number that is not finite")


def _check_settings(after_trees: str) -> None:
    """Check the lines of the training parameters: LightGBM parses them without checks."""
    in_parameters = False
    for line in after_trees.split("\n"):
        if line == "end of parameters":
            return
        if in_parameters and line:
            _require(re.fullmatch(r"\[\w+: .*\]", line), f"{line[:40]!r} is not a parameter")
        in_parameters = in_parameters or line == "parameters:"
    _require(not in_parameters, "its parameters have no end")


def _whole(lines: Block, name: str, least: int, most: int) -> int:
    text = lines[name]
    _require(re.fullmatch(r"[0-9]{1,10}", text), f"{name} is {text[:20]!r}")
    number = int(text)
    _require(least <= number <= most, f"{name} is {number}")
    return number
