"""The trees of a PMML file as binary splits that give the same leaf for every row, also with missing values.

Children are tried in turn, so they become a chain of splits. What the splits before have told of the columns answers
later tests: where ``x <= 1`` does not hold, ``x > 1`` needs no split. A predicate of several columns becomes several
splits, below which parts of the tree may stand twice.

A row for which a tree gives no prediction comes to a leaf NOWHERE. Only rows with missing values may do so. These rows
are refused before the trees see them, so the splits that lead there are left out of the trees that are scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_adapters.pmml.document import damaged, unsupported
from debias_adapters.pmml.parsing import COMPARISONS, OPERATORS, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from debias_adapters.pmml.nodes import PmmlTree, Predicate

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int32]
    Bools = NDArray[np.bool_]

MOST = 8
"""A tree that becomes this many times as large is refused."""
NOWHERE = -2
"""Stands for the node that predicts at a leaf of rows without a prediction."""
KINDS = ("true", "false", "le", "in", "missing", "and", "or", "xor", "first")
"""Kinds of questions, in the order of the compiled walk."""
ALWAYS, NEVER, LE, IN, MISSING = range(5)
UNKNOWN_ANSWERS = {"none": 0, "defaultChild": 1, "lastPrediction": 2}
"""What is done where an answer is unknown, by the strategy for missing values; 3, no prediction, with others."""
ANY_LABEL, NUMBER = -2, -1
"""Stand for the set of a split: all labels, and none because the column is one of numbers."""
WORD = 64
_CODE = {name: code for code, name in enumerate(OPERATORS)}
_KIND_OF = np.array([LE] * 6 + [MISSING] * 2 + [ALWAYS, NEVER, ALWAYS], dtype=np.uint8)
_SENSE_OF = np.array([1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1], dtype=np.uint8)
"""Kinds and senses of the questions of simple predicates, by their codes."""
GAP, TOO_MANY = -1, -2
"""What the compiled walk returns if rows without missing values have no prediction, or the splits are too many."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Binary splits of one tree, in the form of a TreeEnsemble. Parents precede children.

    Parameters
    ----------
    feature, left, right : array of int32
        -1 at leaves.
    threshold : array of float64
    missing_left : array of bool
    of_set : array of int32
        Position in `sets` of the codes that go left; -1 at splits on numbers and at leaves.
    sets : list of tuple of int
    node : array of int32
        At leaves, the node of the file that predicts, or NOWHERE; -1 at splits.
    """

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    missing_left: Bools
    of_set: Ints
    sets: list[tuple[int, ...]]
    node: Ints

    @property
    def has_nowhere(self) -> bool:
        """Whether some rows have no prediction."""
        return bool((self.node == NOWHERE).any())

    def scored(self) -> Splits:
        """Return the splits without those that have a side of rows without a prediction.

        Raises
        ------
        UnsupportedModelError
            No row has a prediction.
        """
        from debias_adapters.pmml.kernels import splitting

        if not self.has_nowhere:
            return self
        place, stays = np.empty(self.node.size, dtype=np.int32), np.empty(self.node.size, dtype=np.bool_)
        splitting.without_dead_ends(self.left, self.right, self.node, place, stays.view(np.uint8))
        if place[0] < 0:
            raise damaged("a tree gives no prediction for any row")
        new = np.where(place >= 0, (np.cumsum(stays, dtype=np.int32) - 1)[place], -1).astype(np.int32)
        left, right = (np.where(each >= 0, new[each], -1)[stays] for each in (self.left, self.right))
        return Splits(
            self.feature[stays],
            self.threshold[stays],
            left.astype(np.int32),
            right.astype(np.int32),
            self.missing_left[stays],
            self.of_set[stays],
            self.sets,
            self.node[stays],
        )


class _Questions:
    """What the predicates of a tree ask: comparisons as ``le`` and its opposite, sets as codes.

    Parameters
    ----------
    n : int
        Number of nodes, which are the first questions.
    n_words : int
        Number of words of 64 bits of a set.
    """

    def __init__(self, n: int, n_words: int) -> None:
        self.n, self.n_words = n, n_words
        self.kind, self.column, self.limit = list[int](), list[int](), list[float]()
        self.sense, self.set_of, self.parts = list[bool](), list[int](), list[tuple[int, ...]]()
        self.sets = dict[frozenset[int], int]()

    def add(
        self, kind: int, column: int = 0, limit: float = 0.0, sense: bool = True, of_set: int = NUMBER,
        parts: tuple[int, ...] = (),
    ) -> int:  # fmt: skip
        """Add a question, and return its number."""
        self.kind.append(kind)
        self.column.append(column)
        self.limit.append(limit)
        self.sense.append(sense)
        self.set_of.append(of_set)
        self.parts.append(parts)
        return self.n + len(self.kind) - 1

    def words(self, codes: Iterable[Iterable[int]]) -> NDArray[np.uint64]:
        """Return sets of codes as bits, shape (n_sets, n_words); one empty set if there are none."""
        listed = [tuple(each) for each in codes] or [()]
        bits = np.zeros((len(listed), self.n_words * WORD), dtype=np.uint8)
        for row, each in zip(bits, listed, strict=True):
            row[list(each)] = 1
        return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


class Splitter:
    """Makes splits of the trees of a file.

    Parameters
    ----------
    n_labels : sequence of int
        Number of categories of each column of the trees; 0 for numbers.
    closed : sequence of bool
        Whether rows with other categories are refused.
    names : sequence of str
        Of the columns, for messages.

    Attributes
    ----------
    no_missing : bool
        Whether a tree was read as if no value could be missing, because it would have become too large.
    """

    def __init__(self, n_labels: Sequence[int], closed: Sequence[bool], names: Sequence[str]) -> None:
        self.names, self.no_missing = names, False
        self._is_label = np.array([n > 0 for n in n_labels])
        self._every = [tuple(range(n + 1)) if n else () for n in n_labels]
        self._n_words = max([1, *(len(each) // WORD + 1 for each in self._every)])
        first = [range(n + (not whole)) if n else () for n, whole in zip(n_labels, closed, strict=True)]
        self._first = _Questions(0, self._n_words).words(first)

    def splits_of(self, tree: PmmlTree) -> Splits:
        """Return the splits of a tree.

        Raises
        ------
        UnsupportedModelError
            A row without missing values has no prediction, or the splits are too many.
        """
        walk = self._walk(tree)
        made = self._made(tree, walk, with_missing=True)
        if made == TOO_MANY:
            made = self._made(tree, walk, with_missing=False)
            self.no_missing = True
        if made == GAP:
            raise damaged("a tree gives no prediction for some rows without missing values")
        if isinstance(made, int):
            raise unsupported(
                f"a tree whose predicates would need more than {MOST * tree.n_nodes + 64} splits, or far too long"
            )
        return made

    def _walk(self, tree: PmmlTree) -> tuple[dict[str, Any], list[frozenset[int]]]:
        """Return the arguments of the compiled walk that say what the tree is and asks, and its sets."""
        n, asked = tree.n_nodes, tree.asked
        kind, sense = _KIND_OF[asked], _SENSE_OF[asked]
        column = np.maximum(tree.column, 0)
        below = (asked == _CODE["lessThan"]) | (asked == _CODE["greaterOrEqual"])
        with np.errstate(over="ignore"):
            limit = np.where(below, np.nextafter(tree.limit, -inf), tree.limit)
        question = np.arange(n, dtype=np.int32)
        more = _Questions(n, self._n_words)
        special = (asked == OTHER) | (asked == _CODE["equal"]) | (asked == _CODE["notEqual"])
        special |= (asked < len(COMPARISONS)) & self._is_label[column]
        for k in np.flatnonzero(special).tolist():
            question[k] = self._question(more, tree.predicate(k))
        n_parts = np.array([0] * n + [len(each) for each in more.parts], dtype=np.int32)
        arguments = {
            "child_start": tree.child_start,
            "children": _not_empty([tree.children], np.int32),
            "default_child": tree.default,
            "asked": question,
            "predicts": tree.predicts.view(np.uint8),
            "keeps_last": tree.keeps_last,
            "on_unknown": UNKNOWN_ANSWERS.get(tree.on_missing, 3),
            "kind": _not_empty([kind, more.kind], np.uint8),
            "column": _not_empty([column, more.column], np.int32),
            "limit": _not_empty([limit, more.limit], np.float64),
            "sense": _not_empty([sense, more.sense], np.uint8),
            "set_of": _not_empty([np.full(n, NUMBER), more.set_of], np.int32),
            "sets": more.words(more.sets),
            "part_start": np.cumsum([0, *n_parts.tolist()], dtype=np.int32),
            "parts": _not_empty(more.parts or [[]], np.int32),
            "is_label": self._is_label.view(np.uint8),
        }
        return arguments, list(more.sets)

    def _made(
        self, tree: PmmlTree, walk: tuple[dict[str, Any], list[frozenset[int]]], with_missing: bool
    ) -> Splits | int:
        """Return the splits of a tree, or `GAP` or `TOO_MANY`."""
        from debias_adapters.pmml.kernels import splitting

        arguments, sets = walk
        most = MOST * tree.n_nodes + 64
        feature, left, right, of_set, node = np.empty((5, most + 1), dtype=np.int32)
        threshold, missing_left = np.empty(most + 1), np.empty(most + 1, dtype=np.bool_)
        codes, scratch = self._first.copy(), np.empty((4, self._n_words), dtype=np.uint64)
        made = splitting.make(
            **arguments, codes=codes, scratch=scratch, with_missing=with_missing, feature=feature, threshold=threshold,
            left=left, right=right, missing_left=missing_left.view(np.uint8), of_set=of_set, node=node,
        )  # fmt: skip
        if made < 0:
            return made
        listed = [tuple(sorted(each)) for each in sets]
        for k in np.flatnonzero(of_set[:made] == ANY_LABEL).tolist():
            of_set[k] = len(listed)
            listed.append(self._every[feature[k]])
        feature, left, right, of_set, node = (each[:made].copy() for each in (feature, left, right, of_set, node))
        return Splits(feature, threshold[:made].copy(), left, right, missing_left[:made].copy(), of_set, listed, node)

    def _question(self, more: _Questions, predicate: Predicate) -> int:
        """Add what a predicate asks, and return the number of the question."""
        kind = predicate[0]
        if kind in ("true", "false"):
            return more.add(ALWAYS if kind == "true" else NEVER)
        if isinstance(predicate[1], tuple):
            parts = tuple(self._question(more, each) for each in predicate[1])
            return more.add(KINDS.index(kind), parts=parts)
        column = predicate[1]
        if kind in ("missing", "present"):
            return more.add(MISSING, column, sense=kind == "missing")
        argument = predicate[2]
        if self._is_label[column]:
            listed = argument if kind in ("in", "out") else (argument,)
            if kind not in ("in", "out", "eq", "ne"):
                raise unsupported(
                    f"a test whether the label of {self.names[column]!r} is smaller or larger than another"
                )
            codes = frozenset(int(code) for code in listed if code == code)  # noqa: PLR0124 - NaN is no label
            of_set = more.sets.setdefault(codes, len(more.sets))
            return more.add(IN, column, sense=kind in ("in", "eq"), of_set=of_set)
        if kind in ("in", "out"):
            parts = tuple(
                self._question(more, ("eq" if kind == "in" else "ne", column, each)) for each in sorted(argument)
            )
            return more.add(KINDS.index("or" if kind == "in" else "and"), parts=parts)
        below = nextafter(argument, -inf)
        if kind in ("eq", "ne"):
            parts = more.add(LE, column, argument, kind == "eq"), more.add(LE, column, below, kind == "ne")
            return more.add(KINDS.index("and" if kind == "eq" else "or"), parts=parts)
        return more.add(LE, column, argument if kind in ("le", "gt") else below, kind in ("le", "lt"))


def leaves_of(trees: Sequence[Splits], X: Floats) -> NDArray[np.int64]:
    """Return the leaf of each row in each tree, as a position in the tree, shape (n_rows, n_trees)."""
    start = np.cumsum([0, *(each.node.size for each in trees)])
    n_sets = np.cumsum([0, *(len(each.sets) for each in trees)])
    feature, threshold, missing_left = (
        np.concatenate([getattr(each, name) for each in trees]) for name in ("feature", "threshold", "missing_left")
    )
    left, right, of_set = (
        np.concatenate([np.where(part >= 0, part + more, -1) for part, more in zip(parts, offset, strict=True)])
        for parts, offset in (
            ([each.left for each in trees], start[:-1]),
            ([each.right for each in trees], start[:-1]),
            ([each.of_set for each in trees], n_sets[:-1]),
        )
    )
    sets = [codes for each in trees for codes in each.sets]
    width = max((max(codes, default=0) for codes in sets), default=0) + 2
    members = np.array([k * width + code for k, codes in enumerate(sets) for code in codes], dtype=np.int64)
    at = np.repeat(start[None, :-1], len(X), axis=0)
    row, tree = np.nonzero(feature[at] >= 0)
    while row.size:
        node = at[row, tree]
        x, of = X[row, feature[node]], of_set[node]
        code = np.where((of >= 0) & (x < width), x, width - 1).astype(np.int64)
        goes_left = np.where(of >= 0, np.isin(of * width + code, members), x <= threshold[node])
        goes_left = np.where(np.isnan(x), missing_left[node], goes_left)
        at[row, tree] = np.where(goes_left, left[node], right[node])
        on = feature[at[row, tree]] >= 0
        row, tree = row[on], tree[on]
    return at - start[:-1]


def _not_empty(parts: Sequence[Any], dtype: Any) -> NDArray[Any]:
    """Return joined arrays, and one zero if they are empty: the compiled walk takes the address of the first."""
    joined = np.concatenate([np.asarray(each, dtype=dtype) for each in parts])
    return joined if joined.size else np.zeros(1, dtype=dtype)
