"""Reader of nodes of trees: the attributes of one ONNX node as the flat arrays of debias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias_adapters.onnx.graph import SOURCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
"""Tests of a value x against the number t of a node, in the order of their codes in TreeEnsemble; the last is none."""
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""Of the scores of trees, in the order of their codes in TreeEnsemble."""
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, eq=False)
class Nodes:
    """All nodes of the trees, as the file has them but for their order: parents precede children, in each tree.

    Parameters
    ----------
    tree_start : array of shape (n_trees + 1,)
    feature, true, false : array of int64 of shape (n_nodes,)
        Feature of a test, and the children of rows for which it holds or not, within their tree; -1 at leaves.
    mode : array of int64 of shape (n_nodes,)
        Position of the test in `MODES`.
    number : array of shape (n_nodes,)
        Number that a test compares with, in the precision of the file.
    missing_true : array of bool of shape (n_nodes,)
        Whether rows with a missing value count as rows for which the test holds.
    members : list of array
        Of each test of membership, in the order of the nodes, the values that it lists.
    scores : array of float64 of shape (n_nodes, n_ids)
        What a leaf adds to each output; 0 at other nodes.
    tree_ids : array of bool of shape (n_trees, n_ids)
        The outputs that leaves of a tree name.
    base : array of float64
        Start of the outputs; empty if the file has none.
    aggregate, transform : str
        As in `AGGREGATES` and `TRANSFORMS`.
    leaf_order : array of int64
        Positions of the leaves in the order in which the file lists them.
    file_tree, leaf_number : array of int64
        Number of each tree in the file, and number of each leaf in its tree; empty if the file has no such numbers.
    weight_dtype : dtype
        Precision of the scores of leaves.
    """

    tree_start: Integers
    feature: Integers
    true: Integers
    false: Integers
    mode: Integers
    number: NDArray[np.floating[Any]]
    missing_true: NDArray[np.bool_]
    members: list[Floats]
    scores: Floats
    tree_ids: NDArray[np.bool_]
    base: Floats
    aggregate: str
    transform: str
    leaf_order: Integers
    file_tree: Integers
    leaf_number: Integers
    weight_dtype: np.dtype[Any]


def nodes_of(node: Any) -> Nodes:
    """Read a TreeEnsembleClassifier, TreeEnsembleRegressor (ai.onnx.ml 1 to 4) or TreeEnsemble (5).

    Parameters
    ----------
    node : onnx.NodeProto

    Raises
    ------
    UnsupportedModelError
        Its attributes do not fit each other, or are no trees.
    """
    given = {attribute.name: attribute for attribute in node.attribute}
    try:
        return _of_version_5(given) if node.op_type == "TreeEnsemble" else _of_versions_1_to_4(node.op_type, given)
    except (IndexError, KeyError, ValueError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from error


def _damaged(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"the trees of this {SOURCE} are damaged: {what}")


def _integers(given: dict[str, Any], name: str) -> Integers:
    return np.array(given[name].ints, dtype=np.int64) if name in given else np.empty(0, dtype=np.int64)


def _numbers(given: dict[str, Any], name: str) -> NDArray[np.floating[Any]]:
    """Return numbers: a list of float32, or a tensor of any precision."""
    from onnx import numpy_helper

    tensor = given.get(f"{name}_as_tensor")
    if tensor is None and name in given and given[name].HasField("t"):
        tensor = given[name]
    if tensor is not None:
        if tensor.t.data_location == 1:
            raise _damaged(f"{name} is kept in another file")
        return np.asarray(numpy_helper.to_array(tensor.t)).ravel()
    return np.array(given[name].floats, dtype=np.float32) if name in given else np.empty(0, dtype=np.float32)


def _of_versions_1_to_4(kind: str, given: dict[str, Any]) -> Nodes:
    of_leaf = "class" if kind == "TreeEnsembleClassifier" else "target"
    tree, number_in_tree = _integers(given, "nodes_treeids"), _integers(given, "nodes_nodeids")
    names = {mode.encode(): code for code, mode in enumerate(MODES)}
    mode = np.array([names[each] for each in given["nodes_modes"].strings], dtype=np.int64)
    trees, tree = np.unique(tree, return_inverse=True)
    key = _Keys(tree, number_in_tree)
    is_leaf = mode == LEAF
    children = np.full((2, tree.size), -1, dtype=np.int64)
    for row, name in enumerate(("nodes_truenodeids", "nodes_falsenodeids")):
        children[row, ~is_leaf] = key.find(tree[~is_leaf], _integers(given, name)[~is_leaf])
    weights, ids = _numbers(given, f"{of_leaf}_weights"), _integers(given, f"{of_leaf}_ids")
    at_tree = np.searchsorted(trees, _integers(given, f"{of_leaf}_treeids"))
    leaf = key.find(at_tree, _integers(given, f"{of_leaf}_nodeids"))
    if not is_leaf[leaf].all():
        raise _damaged("a node has a test and a score")
    n_ids = int(given["n_targets"].i) if "n_targets" in given else int(ids.max()) + 1
    if of_leaf == "class" and np.unique(ids).size == 1 and n_ids <= 2:  # two classes with one score
        ids, n_ids = np.zeros_like(ids), 1
    tracks = _integers(given, "nodes_missing_value_tracks_true")
    return _ordered(
        tree,
        _integers(given, "nodes_featureids"),
        children,
        mode,
        _numbers(given, "nodes_values"),
        tracks if tracks.size else np.zeros_like(tree),
        [],
        _scores(tree.size, n_ids, leaf, ids, weights),
        (tree[leaf], ids),
        _numbers(given, "base_values").astype(np.float64),
        given["aggregate_function"].s.decode() if "aggregate_function" in given else "SUM",
        given["post_transform"].s.decode() if "post_transform" in given else "NONE",
        np.flatnonzero(is_leaf),
        trees,
        number_in_tree[is_leaf],
        weights.dtype,
    )


def _of_version_5(given: dict[str, Any]) -> Nodes:
    """Read a TreeEnsemble: inner nodes and leaves are lists of their own, and trees are named by their roots."""
    roots = _integers(given, "tree_roots")
    feature, mode = _integers(given, "nodes_featureids"), _numbers(given, "nodes_modes").astype(np.int64)
    number = _numbers(given, "nodes_splits")
    n_inner = feature.size
    weights, ids = _numbers(given, "leaf_weights"), _integers(given, "leaf_targetids")
    children = np.empty((2, n_inner + weights.size), dtype=np.int64)
    children[:, n_inner:] = -1
    for row, name in enumerate(("true", "false")):
        child, to_leaf = _integers(given, f"nodes_{name}nodeids"), _integers(given, f"nodes_{name}leafs") != 0
        children[row, :n_inner] = child + n_inner * to_leaf
    # A tree of one leaf is written as a test whose two children are that leaf.
    alike = children[0] == children[1]
    children = np.where(alike, -1, children)
    of_alone = np.flatnonzero(alike[:n_inner])
    source = np.concatenate([np.arange(n_inner), np.arange(weights.size) + n_inner])
    source[of_alone] = _integers(given, "nodes_truenodeids")[of_alone] + n_inner
    is_leaf = children[0] < 0
    tree = _trees_of(roots, children)
    kept = tree >= 0  # the leaf of a tree of one leaf has no parent
    new = np.cumsum(kept) - 1
    children = np.where(children >= 0, new[children], -1)[:, kept]
    scores = np.zeros((source.size, int(given["n_targets"].i)))
    leaves = np.flatnonzero(is_leaf & kept)
    scores[leaves, ids[source[leaves] - n_inner]] = weights[source[leaves] - n_inner]
    pad = np.zeros(weights.size)
    tracks = _integers(given, "nodes_missing_value_tracks_true")
    tracks = tracks if tracks.size else np.zeros(n_inner, dtype=np.int64)
    membership = _numbers(given, "membership_values").astype(np.float64)
    ends = np.flatnonzero(np.isnan(membership))
    return _ordered(
        tree[kept],
        np.concatenate([feature, pad.astype(np.int64) - 1])[kept],
        children,
        np.concatenate([np.where(is_leaf[:n_inner], LEAF, mode), np.full(weights.size, LEAF)])[kept],
        np.concatenate([number, pad.astype(number.dtype)])[kept],
        np.concatenate([tracks, pad.astype(np.int64)])[kept],
        [part[~np.isnan(part)] for part in np.split(membership, ends)[: (mode == MEMBER).sum()]],
        scores[kept],
        (tree[leaves], ids[source[leaves] - n_inner]),
        np.empty(0),
        AGGREGATES[given["aggregate_function"].i if "aggregate_function" in given else 1],
        TRANSFORMS[given["post_transform"].i if "post_transform" in given else 0],
        _leaves_of_file(weights.size, leaves, source[leaves] - n_inner, new),
        np.empty(0, dtype=np.int64),
        np.empty(0, dtype=np.int64),
        weights.dtype,
    )


def _leaves_of_file(n_leaves: int, leaves: Integers, of_file: Integers, new: Integers) -> Integers:
    """Return the node of each leaf of the file; the first node for leaves of no tree."""
    node = np.zeros(n_leaves, dtype=np.int64)
    node[of_file] = new[leaves]
    return node


class _Keys:
    """Finds the position of a node by its tree and its number there."""

    def __init__(self, tree: Integers, number: Integers) -> None:
        self.span = int(number.max()) + 1
        key = tree * self.span + number
        self.order = np.argsort(key, kind="stable")
        self.sorted = key[self.order]
        if number.min() < 0 or (np.diff(self.sorted) == 0).any():
            raise _damaged("two nodes of a tree have the same number")

    def find(self, tree: Integers, number: Integers) -> Integers:
        key = tree * self.span + number
        at = np.minimum(np.searchsorted(self.sorted, key), self.sorted.size - 1)
        if number.size and (number.min() < 0 or number.max() >= self.span or (self.sorted[at] != key).any()):
            raise _damaged("a node that is named does not exist")
        return self.order[at]


def _trees_of(roots: Integers, children: Integers) -> Integers:
    """Return the number of the tree of each node; -1 for nodes of no tree."""
    tree = np.full(children.shape[1], -1, dtype=np.int64)
    level, of = roots, np.arange(roots.size)
    while level.size:
        if (tree[level] >= 0).any() or np.unique(level).size < level.size:
            raise _damaged("a node has two parents")
        tree[level] = of
        inner = children[0, level] >= 0
        level, of = children[:, level[inner]].ravel(), np.tile(of[inner], 2)
    return tree


def _scores(n_nodes: int, n_ids: int, leaf: Integers, ids: Integers, weights: NDArray[Any]) -> Floats:
    """Return what nodes add to outputs; scores of one leaf for one output are added."""
    if ids.size and (ids.min() < 0 or ids.max() >= n_ids):
        raise _damaged("a leaf names an output that does not exist")
    scores = np.zeros((n_nodes, n_ids))
    np.add.at(scores, (leaf, ids), weights.astype(np.float64))
    return scores


def _ordered(
    tree: Integers,
    feature: Integers,
    children: Integers,
    mode: Integers,
    number: NDArray[Any],
    tracks: Integers,
    members: list[Floats],
    scores: Floats,
    named: tuple[Integers, Integers],
    base: Floats,
    aggregate: str,
    transform: str,
    leaf_order: Integers,
    file_tree: Integers,
    leaf_number: Integers,
    weight_dtype: np.dtype[Any],
) -> Nodes:
    """Sort the nodes by tree and depth, and state children by their positions within their tree."""
    n_nodes, n_trees = tree.size, int(tree.max()) + 1
    lengths = {len(each) for each in (feature, mode, number, tracks, scores)}
    if lengths != {n_nodes}:
        raise _damaged("its lists of nodes have different lengths")
    is_root = np.ones(n_nodes, dtype=bool)
    is_root[children[children >= 0]] = False
    roots = np.flatnonzero(is_root)
    roots = roots[np.argsort(tree[roots], kind="stable")]
    if not np.array_equal(tree[roots], np.arange(n_trees)):
        raise _damaged("a tree has no root, or several")
    depth, level = np.full(n_nodes, -1, dtype=np.int64), roots
    while level.size:
        if (depth[level] >= 0).any() or np.unique(level).size < level.size:
            raise _damaged("a node has two parents")
        depth[level] = 0 if level is roots else depth.max() + 1
        level = children[:, level[children[0, level] >= 0]].ravel()
    if (depth < 0).any() or (tree[children] != tree)[children >= 0].any():
        raise _damaged("a node belongs to no tree")
    order = np.lexsort((depth, tree))
    place = np.empty(n_nodes, dtype=np.int64)
    place[order] = np.arange(n_nodes)
    start = np.concatenate([[0], np.cumsum(np.bincount(tree, minlength=n_trees))])
    own = np.where(children >= 0, place[children] - start[tree], -1)[:, order]
    tree_ids = np.zeros((n_trees, scores.shape[1]), dtype=bool)
    tree_ids[named] = True
    if members:
        tests = np.flatnonzero(mode == MEMBER)
        members = [members[k] for k in np.argsort(place[tests], kind="stable")]
    return Nodes(
        start,
        np.where(mode == LEAF, -1, feature)[order],
        own[0],
        own[1],
        mode[order],
        number[order],
        tracks[order] != 0,
        members,
        scores[order],
        tree_ids,
        base,
        aggregate,
        transform,
        place[leaf_order],
        file_tree,
        leaf_number,
        weight_dtype,
    )


def in_order_of_growth(nodes: Nodes) -> Nodes:
    """Return the trees of a file of CatBoost with the first split at the root.

    CatBoost's symmetric trees have one test for all nodes of a level. Its files begin with the test that was chosen
    last. The leaves are the same in any order of the tests, and scores of splits are not: a tree is scored in the order
    in which it was grown. Trees that are not symmetric stay as they are.

    Parameters
    ----------
    nodes : Nodes
    """
    source = np.arange(nodes.feature.size)
    for tree in range(nodes.tree_start.size - 1):
        start, end = nodes.tree_start[tree : tree + 2]
        depth = int(end - start + 1).bit_length() - 2
        inner = np.arange(start, start + 2**depth - 1)
        within = inner - start
        level = np.floor(np.log2(within + 1)).astype(np.int64)
        first = start + 2**level - 1
        if (
            end - start != 2 ** (depth + 1) - 1
            or not np.array_equal(nodes.false[inner], 2 * within + 1)
            or not np.array_equal(nodes.true[inner], 2 * within + 2)
            or any((each[inner] != each[first]).any() for each in (nodes.feature, nodes.number, nodes.missing_true))
        ):
            continue
        source[inner] = start + 2 ** (depth - 1 - level) - 1
        path = np.arange(2**depth)
        reverse = sum((path >> k & 1) << (depth - 1 - k) for k in range(depth)) if depth else path
        source[start + path.size - 1 : end] = start + path.size - 1 + reverse
    return replace(
        nodes,
        feature=nodes.feature[source],
        number=nodes.number[source],
        missing_true=nodes.missing_true[source],
        scores=nodes.scores[source],
        leaf_order=source[nodes.leaf_order],
    )


def arrays(nodes: Nodes, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the fields of tests of a TreeEnsemble: ``x <= threshold`` goes left, and listed values do.

    Parameters
    ----------
    nodes : Nodes
    dtype : dtype
        Precision in which the runtime compares.

    Raises
    ------
    UnsupportedModelError
        A test of equality is with no whole number.
    """
    mode, is_leaf = nodes.mode, nodes.mode == LEAF
    number = nodes.number.astype(dtype)
    threshold = np.where((mode == LT) | (mode == GTE), np.nextafter(number, dtype.type(-np.inf)), number)
    swapped = np.isin(mode, (GTE, GT, NEQ))
    by_value = np.isin(mode, (EQ, NEQ, MEMBER))
    # Comparisons with NaN are false, but for the one that a value is another one.
    missing_true = nodes.missing_true | (mode == NEQ)
    return {
        "tree_start": nodes.tree_start,
        "feature": nodes.feature,
        "threshold": np.where(is_leaf | by_value, 0.0, threshold.astype(np.float64)),
        "left": np.where(swapped, nodes.false, nodes.true),
        "right": np.where(swapped, nodes.true, nodes.false),
        "missing_left": (missing_true != swapped) & ~is_leaf,
        **_sets(nodes, by_value),
    }


def _sets(nodes: Nodes, by_value: NDArray[np.bool_]) -> dict[str, Any]:
    if not by_value.any():
        return {}
    members = iter(nodes.members)
    listed = [
        np.sort(next(members)) if nodes.mode[k] == MEMBER else np.array([nodes.number[k]], dtype=np.float64)
        for k in np.flatnonzero(by_value)
    ]
    values = np.concatenate(listed)
    if not (values.size and (values == np.floor(values)).all() and values.min() >= 0 and values.max() < 2**31):
        raise UnsupportedModelError(
            f"this {SOURCE} has tests for equality with numbers that are no codes of categories (0, 1, 2, ...)"
        )
    return {
        "category_set": np.where(by_value, np.cumsum(by_value) - 1, -1),
        "category_start": np.cumsum([0] + [each.size for each in listed]),
        "category_codes": values.astype(np.int64),
        "listed_left": np.ones(len(listed), dtype=bool),
    }
