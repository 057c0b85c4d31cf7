"""The trees of GBM and DRF: bytes of H2O, read as nodes, and walked as H2O walks them.

A node is a byte of flags, the number of a column (16 bits), the way of missing values (a byte), a threshold of 32 bits
or a set of bits, the size of the left part, the left part and the right part. A part is a value of 32 bits if it is a
leaf. ``_aux.bin`` has a record of 40 bytes for each split, in the same order, with the training rows on both sides.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_adapters.h2o.archive import damaged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NA_VS_REST, LEFTWARD = 1, (2, 4)
"""Ways of missing values: right, and all others left; left. Others are right."""
ONLY_LEAF = 65_535
"""Number of a column that marks a tree of one leaf."""
LEAF = 48
"""Flags of a part that is a leaf."""
SAME = 1e-4
"""Largest relative difference of sums of weights in 32 bits."""
RECORD = np.dtype(
    [
        ("node", "i4"), ("reserved", "i4"), ("weight_left", "f4"), ("weight_right", "f4"), ("mean_left", "f4"),
        ("mean_right", "f4"), ("error_left", "f4"), ("error_right", "f4"), ("left", "i4"), ("right", "i4"),
    ]
)  # fmt: skip
"""A record of the training rows at a split. Errors are sums of squares."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, in the order of the bytes: parents before children, left parts before right parts.

    Parameters
    ----------
    tree_start : array of int64 of shape (n_trees + 1,)
    feature, left, right : array of int32 of shape (n_nodes,)
        As in :class:`debias.plugin.TreeEnsemble`.
    threshold : array of float64 of shape (n_nodes,)
        Values below go left.
    leftward : array of bool of shape (n_nodes,)
        Whether missing values go left.
    value : array of float64 of shape (n_nodes,)
        Of leaves; 0 elsewhere.
    position : array of int64 of shape (n_nodes,)
        Position of the value of a leaf among the bytes of its tree.
    native_node : array of int32 of shape (n_nodes,), or None
        H2O's number of each node within its tree.
    weight : array of float64 of shape (n_nodes,), or None
        Weight of the training rows. That of each split is the sum of its two sides.
    gain : array of float64 of shape (n_nodes,), or None
        Decrease of the sum of squares at splits.
    sampled : bool
        Whether the trees were grown on samples of the rows, by the weights.
    sets : list of array of int32
        For each split on categories, the codes that go another way than those out of the set; empty if the split is of
        missing values, whose threshold is infinite.
    category_set : array of int32 of shape (n_nodes,)
    """

    tree_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    leftward: NDArray[np.bool_]
    value: NDArray[np.float64]
    position: NDArray[np.int64]
    native_node: NDArray[np.int32] | None
    weight: NDArray[np.float64] | None
    gain: NDArray[np.float64] | None
    sampled: bool
    sets: list[NDArray[np.int32]]
    category_set: NDArray[np.int32]


_HEAD, _FLOAT, _BITS = struct.Struct("<BHB"), struct.Struct("<f"), struct.Struct("<HI")


def nodes_of(trees: Sequence[bytes], records: Sequence[bytes] | None, n_labels: Sequence[int]) -> Nodes:
    """Return the nodes of trees.

    Parameters
    ----------
    trees : sequence of bytes
    records : sequence of bytes, or None
        Of each tree the bytes of ``_aux.bin``.
    n_labels : sequence of int
        Number of labels of each feature; 0 for numbers.

    Raises
    ------
    UnsupportedModelError
        The bytes are no trees.
    """
    columns, sizes = _Columns(), []
    sets: list[NDArray[np.int32]] = []
    for number, tree in enumerate(trees):
        before = len(columns.feature)
        try:
            _read(tree, columns, sets, n_labels)
        except (struct.error, IndexError) as error:
            raise damaged(f"tree {number} ends too early") from error
        sizes.append(len(columns.feature) - before)
    tree_start = np.cumsum([0, *sizes])
    left, right = np.array(columns.left, dtype=np.int32), np.array(columns.right, dtype=np.int32)
    has_splits = bool((left >= 0).any())
    statistics = _statistics(tree_start, left, right, records) if records is not None and has_splits else None
    numbers, weight, gain, sampled = (None, None, None, False) if statistics is None else statistics
    return Nodes(
        tree_start=tree_start,
        feature=np.array(columns.feature, dtype=np.int32),
        threshold=np.array(columns.threshold, dtype=np.float64),
        left=left,
        right=right,
        leftward=np.array(columns.leftward, dtype=bool),
        value=np.array(columns.value, dtype=np.float64),
        position=np.array(columns.position, dtype=np.int64),
        native_node=numbers,
        weight=weight,
        gain=gain,
        sampled=sampled,
        sets=sets,
        category_set=np.array(columns.category_set, dtype=np.int32),
    )


class _Columns:
    """Arrays of what nodes have, which grow while trees are read."""

    def __init__(self) -> None:
        self.feature, self.left, self.right, self.category_set = (array("i") for _ in range(4))
        self.threshold, self.value = array("d"), array("d")
        self.leftward, self.position = array("b"), array("q")

    def add(self, feature: int, threshold: float, leftward: bool, which: int, value: float, position: int) -> int:
        """Add a node without children, and return its place."""
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.leftward.append(leftward)
        self.category_set.append(which)
        self.value.append(value)
        self.position.append(position)
        self.left.append(-1)
        self.right.append(-1)
        return len(self.feature) - 1


def _read(tree: bytes, columns: _Columns, sets: list[NDArray[np.int32]], n_labels: Sequence[int]) -> None:
    """Add the nodes of one tree. Each byte is read once, so damaged trees end too."""
    root, add = len(columns.feature), columns.add
    waiting: list[tuple[int, int, bool]] = []  # splits whose right part comes later: the split, its place, if a leaf
    at, parent, is_right, is_leaf = 0, -1, False, False
    while True:
        if is_leaf:
            node = add(-1, 0.0, False, -1, _FLOAT.unpack_from(tree, at)[0], at)
            at += 4
        else:
            flags, feature, way = _HEAD.unpack_from(tree, at)
            if feature == ONLY_LEAF:
                node = add(-1, 0.0, False, -1, _FLOAT.unpack_from(tree, at + 3)[0], at + 3)
                at += 7
                is_leaf = True
            else:
                at += 4
                threshold, which = 0.0, -1
                kind = flags & 12
                leftward = way in LEFTWARD
                if feature >= len(n_labels) or kind == 4:
                    raise damaged(f"a split in it is on column {feature}, or of a kind that H2O no longer writes")
                if way == NA_VS_REST:
                    threshold = np.inf
                    if kind:
                        raise damaged("a split of missing values in it lists categories too")
                    if n_labels[feature]:
                        which = len(sets)
                        sets.append(np.empty(0, np.int32))
                elif kind == 0:
                    threshold = _FLOAT.unpack_from(tree, at)[0]
                    at += 4
                    if not isfinite(threshold):
                        raise damaged("a threshold in it is not a finite number")
                else:
                    first, n_bits = (0, 32) if kind == 8 else _BITS.unpack_from(tree, at)
                    at += 0 if kind == 8 else 6
                    n_bytes = (n_bits + 7) // 8
                    if at + n_bytes > len(tree) or not n_labels[feature]:
                        raise damaged("a set of categories in it is longer than its tree, or of a column of numbers")
                    bits = np.frombuffer(tree, np.uint8, n_bytes, at)
                    at += n_bytes
                    which = len(sets)
                    sets.append(_listed(bits, first, min(n_bits, n_labels[feature] - first), leftward))
                node = add(feature, threshold, leftward, which, 0.0, -1)
                size_bytes, left_is_leaf = (flags & 3) + 1, flags & 51 == LEAF
                if not left_is_leaf and flags & 48:
                    raise damaged(f"a split in it has the flags {flags}")
                size = 4 if left_is_leaf else int.from_bytes(tree[at : at + size_bytes], "little")
                at += 0 if left_is_leaf else size_bytes
        if parent >= 0:
            (columns.right if is_right else columns.left)[parent] = node - root
        if not is_leaf:
            waiting.append((node, at + size, bool(flags >> 2 & 16)))
            parent, is_right, is_leaf = node, False, left_is_leaf
            continue
        if not waiting:
            break
        parent, expected, is_leaf = waiting.pop()
        is_right = True
        if at != expected:
            raise damaged("the size of a part of a tree in it is wrong")
    if at != len(tree):
        raise damaged("a tree in it has more bytes than nodes")


def _listed(bits: NDArray[np.uint8], first: int, n_bits: int, leftward: bool) -> NDArray[np.int32]:
    """Return the codes that go another way than those out of the set, which go the way of missing values."""
    known = np.unpackbits(bits, bitorder="little")[: max(n_bits, 0)]
    return (np.flatnonzero(known == leftward) + first).astype(np.int32)


def _statistics(
    tree_start: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32], records: Sequence[bytes]
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], bool]:
    """Return of each node H2O's number, its weight and the gain of its split, and whether rows were sampled."""
    splits = np.flatnonzero(left >= 0)
    tree = np.searchsorted(tree_start, splits, side="right") - 1
    n_splits = np.bincount(tree, minlength=len(records)).tolist()
    if any(len(each) != RECORD.itemsize * n for each, n in zip(records, n_splits, strict=True)):
        raise damaged("it does not have one record of training rows for each split")
    table = np.frombuffer(b"".join(records), RECORD)
    numbers, (weight, gain) = np.zeros(left.size, dtype=np.int32), np.zeros((2, left.size))
    sides = [("left", tree_start[tree] + left[splits]), ("right", tree_start[tree] + right[splits])]
    for side, at in sides:
        numbers[at], weight[at] = table[side], table[f"weight_{side}"]
    if (numbers[splits] != table["node"]).any():
        raise damaged("its records of training rows are of other nodes")
    one, other = (table[f"weight_{side}"].astype(np.float64) for side, _ in sides)
    step = table["mean_left"].astype(np.float64) - table["mean_right"]
    gain[splits] = np.divide(one * other, one + other, out=np.zeros(splits.size), where=one + other > 0) * step**2
    if not (np.isfinite(weight).all() and (weight >= 0).all() and np.isfinite(gain).all()):
        raise damaged("weights of training rows in it are negative or not finite")
    sampled = _correct_first_splits(tree_start, weight, splits, sides[0][1], sides[1][1])
    return numbers, weight, gain, sampled


def _correct_first_splits(
    tree_start: NDArray[np.int64],
    weight: NDArray[np.float64],
    splits: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> bool:
    """Let the weight of each split be that of its two sides, and return whether the first ones were not.

    H2O chooses the first split of a tree by all rows, also where it samples rows, and the records have these. Below,
    they have the rows of the sample. A leaf beside a split gets the share of its rows that the split has.
    """
    place = np.full(weight.size, -1)
    place[splits] = np.arange(splits.size)
    below = np.zeros(weight.size)
    below[splits] = weight[left] + weight[right]
    roots = place[tree_start[:-1]]
    roots = roots[roots >= 0]
    sampled = False
    for one, other in ((left[roots], right[roots]), (right[roots], left[roots])):
        off = (place[one] >= 0) & (np.abs(below[one] - weight[one]) > SAME * weight[one])
        sampled |= bool(off.any())
        share = np.divide(below[one], weight[one], out=np.ones(one.size), where=weight[one] > 0)
        is_leaf = off & (place[other] < 0)
        weight[other[is_leaf]] *= share[is_leaf]
        weight[one[off]] = below[one[off]]
    weight[splits[roots]] = weight[left[roots]] + weight[right[roots]]
    alone = np.diff(tree_start) == 1  # trees of one leaf have no record
    if roots.size:
        weight[tree_start[:-1][alone]] = weight[splits[roots]].mean()
    return sampled


def leaf_positions(tree: bytes, rows: Sequence[Sequence[float]], n_labels: Sequence[int]) -> list[int]:
    """Return, for each row, the position of the value of its leaf, by a walk through the bytes as H2O does it.

    This is the other reading of the bytes, with which the nodes are compared. Values are those of the row, codes for
    labels, and NaN where they are missing.
    """
    return [_walk(tree, row, n_labels) for row in rows]


def _walk(tree: bytes, row: Sequence[float], n_labels: Sequence[int]) -> int:
    at = 0
    while True:
        flags, column = tree[at], tree[at + 1] | tree[at + 2] << 8
        if column == ONLY_LEAF:
            return at + 3
        way = tree[at + 3]
        at += 4
        x = row[column]
        is_missing = x != x or 0 < n_labels[column] <= x
        kind, is_above = flags & 12, False
        if way != NA_VS_REST:
            if kind == 0:
                is_above = x >= _FLOAT.unpack_from(tree, at)[0]
                at += 4
            else:
                first, n_bits = (0, 32) if kind == 8 else _BITS.unpack_from(tree, at)
                at += 0 if kind == 8 else 6
                bit = -1 if is_missing else int(x) - first
                is_missing = is_missing or not 0 <= bit < n_bits
                is_above = not is_missing and bool(tree[at + (bit >> 3)] >> (bit & 7) & 1)
                at += (n_bits + 7) >> 3
        goes_right = way not in LEFTWARD if is_missing else is_above
        left = flags & 51
        n_bytes = 0 if left == LEAF else left + 1
        if goes_right:
            at += 4 if left == LEAF else n_bytes + int.from_bytes(tree[at : at + n_bytes], "little")
            is_leaf = bool(flags & 64)
        else:
            at += n_bytes
            is_leaf = left == LEAF
        if is_leaf:
            return at


def arrays(nodes: Nodes) -> dict[str, Any]:
    """Return the splits as arrays of a TreeEnsemble. Values below a threshold go left, so it is the next one below."""
    is_set = nodes.category_set >= 0
    threshold = np.where((nodes.left >= 0) & ~is_set, np.nextafter(nodes.threshold, -np.inf), 0.0)
    threshold[np.isposinf(nodes.threshold)] = np.inf
    found: dict[str, Any] = {
        "tree_start": nodes.tree_start,
        "feature": nodes.feature,
        "threshold": threshold,
        "left": nodes.left,
        "right": nodes.right,
        "missing_left": nodes.leftward,
    }
    if nodes.sets:
        found |= {
            "category_set": nodes.category_set,
            "category_start": np.cumsum([0] + [each.size for each in nodes.sets]),
            "category_codes": np.concatenate(nodes.sets),
            # Of a split of missing values, none is listed, and all labels go left.
            "listed_left": ~nodes.leftward[is_set] & (nodes.threshold[is_set] == 0),
        }
    return found
