"""Checks of XGBoost's model documents, made before XGBoost reads them: it does not check the numbers in them.

A child with number 2147483648 wraps around to another node, a claim of 2,000,000,000 features takes all memory, and
arrays of wrong lengths are read beyond their ends. XGBoost gets bytes that can be read in one way only (UBJSON without
repeated names), or a text that is written again from the checked content (JSON).
"""

# Why not a trial in a child process alone, as for CatBoost's files (debias/models/sandbox.py)? It was tried in November
# 2026, without these checks, with XGBoost 3.2 and 4,080 damaged files. 74 ended the child, or did not end there.
# But whether they do is luck: native code reads beyond an array, and what is behind it differs between two processes.
# The child took 7 files that disagree with themselves and predict otherwise than before, and a category that is no
# code, for which every load needs 700 MB and 5 s. The child takes 1.5 s for each file, and these checks milliseconds.
# They serve the Boosters inside skops files and Spark's models too. The oldest versions were not tried.

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from packaging.version import Version

from debias.errors import UnsupportedModelError
from debias_adapters.xgboost import ubjson

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_FEATURES = 2_000_000
MOST_OUTPUTS = 100_000
MOST_CATEGORIES = 1 << 24
"""XGBoost's own limit of codes: float32 cannot hold larger ones exactly."""
MOST_THREADS = 4096
NO_PARENT = (2**31 - 1, -1)
LISTS_ITS_BASE = "3.1"
"""The first XGBoost that writes a list of base scores. Older ones read 0.5 in its place, without an error."""
_WHOLE = {
    "left_children": np.int32,
    "right_children": np.int32,
    "parents": np.int32,
    "split_indices": np.int32,
    "split_type": np.int8,
    "default_left": np.int8,
}
_SETS = {
    "categories": np.int32,
    "categories_nodes": np.int32,
    "categories_segments": np.int64,
    "categories_sizes": np.int64,
}
_REAL = ("split_conditions", "loss_changes", "sum_hessian")


class Sizes(NamedTuple):
    """Sizes that a model claims."""

    features: int
    outputs: int
    targets: int


def checked(data: bytes, source: str) -> bytearray:
    """Return a model file that is safe for XGBoost to read.

    Parameters
    ----------
    data : bytes
        JSON or UBJSON.
    source : str
        For messages.

    Raises
    ------
    UnsupportedModelError
        Its content is not as XGBoost writes it; the message says where.
    """
    if re.match(rb"\s*\{\s*[\"}]", data):
        document = _parsed(data, source)
        _check(document, source)
        try:
            return bytearray(json.dumps(document, ensure_ascii=False).encode())
        except UnicodeEncodeError:
            raise UnsupportedModelError(f"{source} is damaged: a text in it is not Unicode") from None
    _check(_binary(data, source), source)
    return bytearray(data)


def checked_state(data: bytes, source: str) -> bytearray:
    """Return the state of a Booster, its model and its configuration, that is safe for XGBoost to read."""
    document = _binary(data, source)
    if not isinstance(document, dict) or document.keys() != {"Model", "Config"}:
        raise UnsupportedModelError(f"{source} is damaged: it does not consist of a model and a configuration")
    _check(document["Model"], source)
    _guarded(_check_configuration, document["Config"], document["Model"]["learner"], source=source)
    return bytearray(data)


def _parsed(data: bytes, source: str) -> Any:
    def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) != len(pairs):
            raise ValueError("a name occurs twice in one object")
        return entries

    try:
        return json.loads(data.decode(), object_pairs_hook=only_once)
    except (ValueError, RecursionError) as error:
        raise UnsupportedModelError(f"{source} is damaged: {error}") from None


def _binary(data: bytes, source: str) -> Any:
    try:
        return ubjson.read(data)
    except ValueError as error:
        raise UnsupportedModelError(f"{source} is damaged: {error}") from None


def _check(document: Any, source: str) -> None:
    _guarded(_check_document, document, source=source)


def _guarded(check: Any, *arguments: Any, source: str) -> None:
    """Run a check. Missing entries and wrong types are reported like wrong values."""
    try:
        check(*arguments)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{source} holds {error}") from None
    except _Wrong as error:
        raise UnsupportedModelError(f"{source} is damaged: {error}") from None
    except KeyError as error:
        raise UnsupportedModelError(f"{source} is damaged: it has no {error}") from None
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise UnsupportedModelError(f"{source} is damaged: {type(error).__name__}: {error}") from None


class _Wrong(ValueError):
    """The document is not as XGBoost writes it."""


def _require(condition: Any, fault: str) -> None:
    if not condition:
        raise _Wrong(fault)


def _check_document(document: dict[str, Any]) -> None:
    learner = document["learner"]
    _require(
        isinstance(document.get("version", []), list)
        and all(type(part) is int for part in document.get("version", [])),
        "its version is not a list of whole numbers",
    )
    sizes = _check_sizes(learner["learner_model_param"])
    _check_texts(learner, sizes)
    _check_objective(learner["objective"], sizes)
    gradient_booster = learner["gradient_booster"]
    if gradient_booster["name"] == "gblinear":
        raise UnsupportedModelError("a model with booster='gblinear', which is linear and has no trees")
    _require(gradient_booster["name"] in ("gbtree", "dart"), f"it has an unknown booster {gradient_booster['name']!r}")
    gbtree = gradient_booster["gbtree"] if gradient_booster["name"] == "dart" else gradient_booster
    _require(gbtree["name"] == "gbtree" or gbtree is gradient_booster, "a booster inside a booster is not gbtree")
    model = gbtree["model"]
    _check_model(model, sizes)
    for holder in (gradient_booster, model):
        if "weight_drop" in holder:
            drop = _reals(holder["weight_drop"], "weight_drop")
            _require(drop.size in (0, len(model["trees"])), "weight_drop does not have one entry for each tree")
            _require(np.isfinite(drop).all(), "weight_drop is not finite")
    _require(
        gradient_booster["name"] != "dart" or "weight_drop" in gradient_booster or "weight_drop" in model,
        "it has no weight_drop",
    )


def _check_sizes(model_params: dict[str, Any]) -> Sizes:
    features = _whole(model_params, "num_feature", 0, MOST_FEATURES)
    classes = _whole(model_params, "num_class", 0, MOST_OUTPUTS)
    targets = _whole(model_params, "num_target", 0, MOST_OUTPUTS) if "num_target" in model_params else 1
    sizes = Sizes(features, max(1, classes, targets), max(1, targets))
    _require(
        model_params["boost_from_average"] in ("0", "1") if "boost_from_average" in model_params else True,
        "boost_from_average is not 0 or 1",
    )
    base_scores = _numbers(model_params["base_score"], "base_score")
    if model_params["base_score"].startswith("["):
        _require_reads_lists()
    _require(
        len(base_scores) in (1, sizes.outputs), f"base_score has {len(base_scores)} entries for {sizes.outputs} outputs"
    )
    return sizes


def _require_reads_lists() -> None:
    import xgboost  # which reads the file next

    if Version(xgboost.__version__) < Version(LISTS_ITS_BASE):
        raise UnsupportedModelError(
            f"a model of XGBoost {LISTS_ITS_BASE} or newer. XGBoost {xgboost.__version__} is installed, which reads "
            f"its base score as 0.5, so that its predictions are wrong: pip install 'xgboost>={LISTS_ITS_BASE}'"
        )


def _check_texts(learner: dict[str, Any], sizes: Sizes) -> None:
    attributes = learner.get("attributes", {})
    pairs = attributes.items()
    _require(all(type(part) is str for pair in pairs for part in pair), "its attributes are not texts")
    for name in ("best_iteration", "best_score"):
        _require(len(attributes.get(name, "")) < 40, f"{name} is not a number")
    for name in ("feature_names", "feature_types"):
        texts = learner.get(name, [])
        _require(type(texts) is list and all(type(text) is str for text in texts), f"its {name} are not texts")
        _require(len(texts) in (0, sizes.features), f"it has {len(texts)} {name} for {sizes.features} features")


def _check_objective(objective: dict[str, Any], sizes: Sizes) -> None:
    _require(type(objective["name"]) is str, "its objective has no name")
    for group, values in objective.items():
        if group == "name":
            continue
        if isinstance(values, (list, np.ndarray)):
            _reals(values, group)  # the position bias of lambdarank_unbiased
            continue
        for key, text in values.items():
            _require(type(text) is str and len(text) < 100_000, f"{key} of its objective is not a text")
            if key in (
                "num_class",
                "num_pairsample",
                "lambdarank_num_pair_per_sample",
                "ndcg_exp_gain",
                "n_rel_degree",
            ):
                _require(_is_whole(text), f"{key} of its objective is not a whole number")
            if key == "num_class":
                _require(int(text) in (0, sizes.outputs), f"its objective has {text} classes")
            if key == "quantile_alpha" or key == "expectile_alpha":
                alpha = _numbers(text, key)
                _require(len(alpha) == sizes.targets, f"{key} has {len(alpha)} entries for {sizes.targets} outputs")


def _check_model(model: dict[str, Any], sizes: Sizes) -> None:
    trees, model_params = model["trees"], model["gbtree_model_param"]
    _require(type(trees) is list, "its trees are not a list")
    n_trees = _whole(model_params, "num_trees", 0, 2**31 - 1)
    _require(n_trees == len(trees), f"num_trees is {n_trees}, but it has {len(trees)} trees")
    n_parallel = _whole(model_params, "num_parallel_tree", 0, max(1, n_trees))
    if "size_leaf_vector" in model_params:
        _whole(model_params, "size_leaf_vector", 0, sizes.outputs)
    tree_outputs = _wholes(model["tree_info"], "tree_info", np.int32)
    _require(tree_outputs.size == n_trees, f"tree_info has {tree_outputs.size} entries for {n_trees} trees")
    _require(
        ((tree_outputs >= 0) & (tree_outputs < sizes.outputs)).all(),
        "tree_info names an output the model does not have",
    )
    if "iteration_indptr" in model:
        round_starts = _wholes(model["iteration_indptr"], "iteration_indptr", np.int32)
        _require(
            round_starts.size > 0
            and round_starts[0] == 0
            and round_starts[-1] == n_trees
            and (np.diff(round_starts) >= 0).all(),
            f"iteration_indptr does not divide {n_trees} trees into rounds",
        )
    else:  # XGBoost before 2.0 did not write it: later ones divide the trees evenly
        a_round = n_parallel * sizes.outputs
        _require(a_round and n_trees % a_round == 0, f"{n_trees} trees are no whole number of rounds")
    links = [_check_tree(tree, number, sizes) for number, tree in enumerate(trees)]
    if links:
        _check_structure(links, sizes)
    _check_labels(model.get("cats", {}), sizes)


class _Tree(NamedTuple):
    """The links of one tree."""

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    parent: NDArray[np.int32]
    feature: NDArray[np.int32]
    deleted: int


def _check_tree(tree: dict[str, Any], number: int, sizes: Sizes) -> _Tree:
    """Check the sizes that a tree claims, and the lengths of its arrays. Links of all trees are checked later."""
    tree_params, where = tree["tree_param"], f"of tree {number}"
    _require(type(tree["id"]) is int and tree["id"] == number, f"the id {where} is {tree['id']!r}")
    n_nodes = _whole(tree_params, "num_nodes", 1, 2**31 - 1)
    n_deleted = _whole(tree_params, "num_deleted", 0, n_nodes - 1)
    _require(
        _whole(tree_params, "num_feature", 0, MOST_FEATURES) == sizes.features,
        f"num_feature {where} differs from the model's",
    )
    width = _whole(tree_params, "size_leaf_vector", 0, MOST_OUTPUTS)
    _require(width <= 1 or width == sizes.outputs, f"size_leaf_vector {where} is {width} for {sizes.outputs} outputs")
    arrays = {name: _wholes(tree[name], name, dtype) for name, dtype in _WHOLE.items()}
    for name, array in arrays.items():
        _require(array.size == n_nodes, f"{name} {where} has {array.size} entries for {n_nodes} nodes")
    for name in _REAL:
        if name != "split_conditions" and name not in tree and width > 1:
            raise UnsupportedModelError(
                f"vector leaves (multi_output_tree) without {name}, which XGBoost writes since 3.2: train the model "
                "with XGBoost 3.2 or later, or with one_output_per_tree"
            )
        _require(_reals(tree[name], name).size == n_nodes, f"{name} {where} does not have one entry for each node")
    n_base_weights = _reals(tree["base_weights"], "base_weights").size
    _require(n_base_weights in (n_nodes, n_nodes * max(1, width)), f"base_weights {where} has {n_base_weights} entries")
    leaf = arrays["left_children"] == -1
    if width > 1:
        n_leaf_weights = _reals(tree["leaf_weights"], "leaf_weights").size
        leaf_number = arrays["right_children"][leaf]
        _require(
            n_leaf_weights == width * leaf.sum(),
            f"leaf_weights {where} has {n_leaf_weights} entries for {leaf.sum()} leaves",
        )
        _require(
            ((leaf_number >= 0) & (leaf_number < leaf.sum())).all(),
            f"a leaf {where} has no valid position in leaf_weights",
        )
    else:
        _require((arrays["right_children"][leaf] == -1).all(), f"a node {where} has one child only")
    for name in ("split_type", "default_left"):
        _require(np.isin(arrays[name], (0, 1)).all(), f"{name} {where} is not 0 or 1")
    _check_sets(tree, arrays["split_type"], leaf, where)
    return _Tree(
        arrays["left_children"], arrays["right_children"], arrays["parents"], arrays["split_indices"], n_deleted
    )


def _check_sets(tree: dict[str, Any], kind: NDArray[Any], leaf: NDArray[np.bool_], where: str) -> None:
    """Check that each split on categories has one set of them, inside its array."""
    codes, nodes, begin, size = (_wholes(tree[name], name, dtype) for name, dtype in _SETS.items())
    _require(
        nodes.size == begin.size == size.size,
        f"the number of sets of categories {where} differs from the number of their nodes",
    )
    _require((nodes[1:] > nodes[:-1]).all(), f"categories_nodes {where} are not ascending")
    _require(((nodes >= 0) & (nodes < kind.size)).all(), f"categories_nodes {where} name a node that does not exist")
    wrong = (begin < 0) | (size < 0) | (begin > codes.size) | (size > codes.size - begin)
    _require(not wrong.any(), f"a set of categories {where} ends beyond the array of categories")
    _require(((codes >= 0) & (codes < MOST_CATEGORIES)).all(), f"a category {where} is not a valid code")
    has_set = np.zeros(kind.size, dtype=bool)
    has_set[nodes] = True
    _require((has_set | leaf)[kind == 1].all(), f"a split {where} is on categories but has no set of them")
    _require(
        (kind[nodes[~leaf[nodes]]] == 1).all(), f"a split {where} has a set of categories but is not on categories"
    )


def _check_structure(trees: list[_Tree], sizes: Sizes) -> None:
    """Check the links of all trees at once: each node in use is the child of one node, which is its `parent`."""
    start = np.cumsum([0] + [tree.left.size for tree in trees])
    left, right, parent, feature = (np.concatenate([tree[k] for tree in trees]) for k in range(4))
    tree = np.repeat(np.arange(len(trees)), np.diff(start))
    size = np.diff(start)[tree]

    def first_of(wrong: NDArray[np.bool_]) -> str:
        node = int(np.argmax(wrong))
        return f"node {node - start[tree[node]]} of tree {tree[node]}"

    split = left != -1
    for child in (left, right):
        wrong = split & ((child < 1) | (child >= size))
        _require(not wrong.any(), f"{first_of(wrong)} has a child that is not in its tree")
    wrong = ((parent < 0) | (parent >= size)) & ~np.isin(parent, NO_PARENT)
    _require(not wrong.any(), f"{first_of(wrong)} has a parent that is not in its tree")
    n_visits, level = np.zeros(left.size, dtype=np.int64), start[:-1].copy()
    _require(np.isin(parent[level], NO_PARENT).all(), "a root has a parent")
    while level.size:
        np.add.at(n_visits, level, 1)
        _require(n_visits[level].max() == 1, "the nodes of a tree do not form a tree")
        splits = level[split[level]]
        tree_start = start[tree[splits]]
        children = np.concatenate([tree_start + left[splits], tree_start + right[splits]])
        _require(
            (tree_start[:, None] + parent[children].reshape(2, -1).T == splits[:, None]).all(),
            "a node names a parent that is not its own",
        )
        level = children
    used = n_visits == 1
    wrong = used & split & ((feature < 0) | (feature >= sizes.features))
    _require(not wrong.any(), f"{first_of(wrong)} splits on a feature the model does not have")
    n_unused = np.bincount(tree[~used], minlength=len(trees))
    wrong_tree = n_unused != np.array([links.deleted for links in trees])
    _require(not wrong_tree.any(), f"the number of deleted nodes of tree {np.argmax(wrong_tree)} is wrong")


def _check_labels(cats: dict[str, Any], sizes: Sizes) -> None:
    """Check the labels of categorical columns, which XGBoost stores since 3.1."""
    encoded = cats.get("enc", [])
    _require(
        type(encoded) is list and len(encoded) in (0, sizes.features),
        "the number of lists of labels differs from the number of features",
    )
    counts = []
    for encoding in encoded:
        values = encoding["values"]
        n_values = len(values)
        if "offsets" in encoding:
            values = _wholes(values, "the text of labels", np.int16)
            offsets = _wholes(encoding["offsets"], "offsets of labels", np.int32)
            ascending = (np.diff(offsets) >= 0).all() and (not offsets.size or offsets[0] == 0)
            _require(
                ascending and (offsets[-1] if offsets.size else 0) == n_values,
                "offsets of labels do not match the text of labels",
            )
            counts.append(max(0, offsets.size - 1))
        else:
            _require(type(encoding["type"]) is int and 0 <= encoding["type"] < 32, "labels are of an unknown type")
            _reals(values, "labels")
            counts.append(n_values)
    segments = _wholes(cats.get("feature_segments", []), "feature_segments", np.int32)
    sorted_index = _wholes(cats.get("sorted_idx", []), "sorted_idx", np.int32)
    expected_segments = np.cumsum([0, *counts]) if encoded else np.zeros(0)
    _require(
        np.array_equal(segments, expected_segments) or not (segments.size or sum(counts)),
        "feature_segments do not match the labels",
    )
    _require(sorted_index.size == sum(counts), "sorted_idx does not have one entry for each label")
    for begin, n_labels in zip(expected_segments[:-1], counts, strict=True):
        sorted_part = np.sort(sorted_index[int(begin) : int(begin) + n_labels])
        _require(np.array_equal(sorted_part, np.arange(n_labels)), "sorted_idx is not an order of the labels")


def _check_configuration(
    config: Any, learner: dict[str, Any], checked_sections: tuple[str, ...] = ("learner_model_param",)
) -> None:
    """Check that a configuration claims the sizes of its model, and a possible number of threads."""
    config_learner = config["learner"]
    for name in checked_sections:
        _require(config_learner[name] == learner[name], f"{name} of the configuration differs from the model's")
    _require(
        config_learner["objective"] == learner["objective"],
        "the objective of the configuration differs from the model's",
    )
    config_booster, model_booster = config_learner["gradient_booster"], learner["gradient_booster"]
    _require(
        config_booster["name"] == model_booster["name"], "the booster of the configuration differs from the model's"
    )
    config_booster, model_booster = (
        booster["gbtree"] if booster["name"] == "dart" else booster for booster in (config_booster, model_booster)
    )
    _require(
        config_booster["gbtree_model_param"] == model_booster["model"]["gbtree_model_param"],
        "the number of trees of the configuration differs from the model's",
    )
    for name in ("nthread", "n_jobs"):
        if name in config_learner["generic_param"]:
            _whole(config_learner["generic_param"], name, -1, MOST_THREADS)


def _whole(section: dict[str, Any], name: str, least: int, most: int) -> int:
    """Return a whole number that is stored as text."""
    text = section[name]
    _require(type(text) is str and _is_whole(text), f"{name} is {str(text)[:40]!r}")
    number = int(text)
    _require(least <= number <= most, f"{name} is {number}")
    return number


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", text) is not None


def _numbers(text: Any, name: str) -> list[float]:
    """Return the finite numbers of a text, in brackets or without."""
    _require(type(text) is str and re.fullmatch(r"\[[^\[\]]*\]|[^\[\],]+", text), f"{name} is {str(text)[:40]!r}")
    words = text.strip("[]").split(",")
    _require(
        all(re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]{1,3})?", word) for word in words), f"{name} is {text[:40]!r}"
    )
    numbers = [float(word) for word in words]
    _require(np.isfinite(numbers).all(), f"{name} is {text[:40]!r}")
    return numbers


def _wholes(stored: Any, name: str, dtype: Any) -> NDArray[Any]:
    """Return an array of whole numbers that fit into the type."""
    array = _flat(stored, name)
    _require(
        array.dtype.kind in "iu" or not array.size, f"{name} is not of whole numbers, or has one that is too large"
    )
    limits = np.iinfo(dtype)
    _require(((array >= limits.min) & (array <= limits.max)).all(), f"{name} has a number that is too large")
    return array.astype(dtype)


def _reals(stored: Any, name: str) -> NDArray[np.float64]:
    array = _flat(stored, name)
    _require(array.dtype.kind in "iuf", f"{name} is not of numbers")
    return array.astype(np.float64)


def _flat(stored: Any, name: str) -> NDArray[Any]:
    _require(isinstance(stored, (list, np.ndarray)), f"{name} is not a list")
    array = np.asarray(stored)  # a list with other values than numbers becomes an array of another dtype
    _require(array.ndim == 1, f"{name} is not a list of numbers")
    return array
