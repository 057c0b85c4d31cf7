"""The trees of a PMML file as binary splits: nodes with several children become chains of splits, in the same order.

Which values of a column lead where is found by trying all values between which an answer can differ. So any predicate
of one column gives exact splits: limits that are exceeded or reached, intervals, sets of categories, missing values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_adapters.pmml.document import damaged, unsupported
from debias_adapters.pmml.nodes import EXACT_MISSING, TRUE, UNKNOWN, column_alone, holds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from debias_adapters.pmml.nodes import PmmlTree, Predicate

MOST = 8
"""A tree that becomes this many times as large is refused."""
LARGEST = float(np.finfo(np.float64).max)
State = tuple[Any, ...]
"""Where a row is: ``("enter", node)``, ``("next", node, child)`` (the children before do not hold), ``("leaf", node)``,
``("test", predicate, state if it holds, state if not)``, ``("split", column, items, missing)`` or ``("none",)``."""


@dataclass
class Splits:
    """Binary splits of one tree, in the form of a TreeEnsemble.

    Parameters
    ----------
    feature, left, right : list of int
    threshold : list of float
    missing_left : list of bool
    sets : list of tuple of int, or None
        Codes that go left, at splits on categories.
    node : list of int
        At leaves, the node of the file that predicts; -1 at splits.
    """

    feature: list[int]
    threshold: list[float]
    left: list[int]
    right: list[int]
    missing_left: list[bool]
    sets: list[tuple[int, ...] | None]
    node: list[int]


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
        Whether a tree gives no prediction, or none that is one leaf, for rows with missing values.
    """

    def __init__(self, n_labels: Sequence[int], closed: Sequence[bool], names: Sequence[str]) -> None:
        self.n_labels, self.closed, self.names = n_labels, closed, names
        self.no_missing = False

    def splits_of(self, tree: PmmlTree) -> Splits:
        """Return the splits of a tree."""
        made = Splits([], [], [], [], [], [], [])
        most = MOST * len(tree.predicates) + 64
        waiting: list[tuple[int, bool, State]] = [(-1, False, self._begin(tree))]
        while waiting:
            parent, is_right, state = waiting.pop()
            while state[0] not in ("leaf", "split", "none"):
                state = self._expanded(tree, state)
            number = len(made.feature)
            if number > most:
                raise unsupported(f"a tree whose predicates would need more than {most} splits")
            if parent >= 0:
                (made.right if is_right else made.left)[parent] = number
            if state[0] == "none":
                raise damaged("a tree gives no prediction for some rows without missing values")
            if state[0] == "leaf":
                self._add(made, -1, 0.0, False, None, state[1])
                continue
            _, column, items, missing = state
            limit, first = items[0]
            rest = items[1][1] if len(items) == 2 else ("split", column, items[1:], missing - 1)
            is_set = isinstance(limit, tuple)
            self._add(made, column, 0.0 if is_set else limit, missing == 0, limit if is_set else None, -1)
            waiting += [(number, True, rest), (number, False, first)]
        return made

    def _begin(self, tree: PmmlTree) -> State:
        if tree.predicates[0][0] == "true":
            return ("enter", 0)
        return ("test", tree.predicates[0], ("enter", 0), ("none",))

    def _add(
        self, made: Splits, column: int, limit: float, missing_left: bool, codes: tuple[int, ...] | None, node: int
    ) -> None:
        made.feature.append(column)
        made.threshold.append(limit)
        made.left.append(-1)
        made.right.append(-1)
        made.missing_left.append(missing_left)
        made.sets.append(codes)
        made.node.append(node)

    def _expanded(self, tree: PmmlTree, state: State) -> State:
        """Return what a state comes to: one of the next level, or a leaf or a split."""
        if state[0] == "enter":
            return ("next", state[1], 0) if tree.children[state[1]] else ("leaf", state[1])
        if state[0] == "test":
            return self._tested(tree, *state[1:])
        _, node, position = state
        children = tree.children[node]
        if position == len(children):
            return _own(tree, node) if tree.keeps_last else ("none",)
        predicate = tree.predicates[children[position]]
        if predicate[0] in ("true", "false"):
            return ("enter", children[position]) if predicate[0] == "true" else ("next", node, position + 1)
        column = column_alone(predicate)
        if column is None:
            return ("test", predicate, ("enter", children[position]), ("next", node, position + 1))
        end = position + 1
        while end < len(children) and column_alone(tree.predicates[children[end]]) == column:
            end += 1
        group = children[position:end]
        rest = self._expanded(tree, ("next", node, end)) if end == len(children) else ("next", node, end)
        steps = [(tree.predicates[child], ("enter", child)) for child in group]
        if tree.on_missing == "defaultChild":
            unknown: State | None = ("enter", tree.default[node])
        elif tree.on_missing == "lastPrediction":
            unknown = _own(tree, node)
        else:
            unknown = None
        return self._split(tree, column, steps, rest, unknown)

    def _tested(self, tree: PmmlTree, predicate: Predicate, then: State, otherwise: State) -> State:
        """Return the state for a predicate of any columns."""
        kind = predicate[0]
        if kind in ("true", "false"):
            return then if kind == "true" else otherwise
        column = column_alone(predicate)
        if column is not None:
            return self._split(tree, column, [(predicate, then)], otherwise, None)
        first, *others = predicate[1]
        if kind == "first":  # the others are for rows in which this one's column is missing
            self.no_missing = True
            return ("test", first, then, otherwise)
        if tree.on_missing != "none":
            self.no_missing = True
        joined = others[0] if len(others) == 1 else (kind, tuple(others))
        if kind == "and":
            return ("test", first, ("test", joined, then, otherwise), otherwise)
        return ("test", first, then, ("test", joined, then, otherwise))

    def _split(
        self,
        tree: PmmlTree,
        column: int,
        steps: list[tuple[Predicate, State]],
        rest: State,
        unknown: State | None,
    ) -> State:
        """Return a split by predicates of one column, which are tried in turn.

        Parameters
        ----------
        tree : PmmlTree
        column : int
        steps : list of (Predicate, State)
        rest : State
            If none of them holds.
        unknown : State or None
            If one of them is not known, and none before it holds; None if the next is tried then.
        """

        def outcome(value: float) -> State:
            for predicate, state in steps:
                truth = holds(predicate, value)
                if truth == TRUE:
                    return state
                if truth == UNKNOWN and unknown is not None:
                    return unknown
            return rest

        items = self._of_labels(column, outcome) if self.n_labels[column] else self._of_numbers(column, steps, outcome)
        if tree.on_missing in EXACT_MISSING or all(holds(each, nan) != UNKNOWN for each, _ in steps):
            missing = outcome(nan)
        else:
            missing = ("none",)
        if missing[0] == "none":
            self.no_missing = True
            missing = items[0][1]
        if len(items) == 1 and items[0][1] == missing:
            return items[0][1]
        place = next((k for k, (_, state) in enumerate(items) if state == missing), None)
        if place is None:  # only missing values lead there
            known = items[0][1] if len(items) == 1 else ("split", column, items, -1)
            every = tuple(range(self.n_labels[column] + 1)) if self.n_labels[column] else LARGEST
            return ("split", column, [(every, known), (None, missing)], 1)
        return ("split", column, items, place)

    def _of_numbers(self, column: int, steps: list[tuple[Predicate, State]], outcome: Any) -> list[tuple[Any, State]]:
        """Return intervals with one outcome each: the upper limits, which belong to them, and the outcomes."""
        limits = sorted({limit for predicate, _ in steps for limit in _limits(predicate)})
        found: list[tuple[Any, State]] = []
        for k, limit in enumerate(limits):
            cells = [(limit, limit)]
            if k == 0 or nextafter(limits[k - 1], inf) < limit:
                below = nextafter(limit, -inf)
                cells.insert(0, (below, below))
            for upper, value in cells:
                state = outcome(value)
                if found and found[-1][1] == state:
                    found[-1] = (upper, state)
                else:
                    found.append((upper, state))
        last = outcome(nextafter(limits[-1], inf) if limits else 0.0)
        if found and found[-1][1] == last:
            found[-1] = (inf, last)
        else:
            found.append((inf, last))
        return found

    def _of_labels(self, column: int, outcome: Any) -> list[tuple[Any, State]]:
        """Return sets of codes with one outcome each; the last is for all other codes."""
        n_labels = self.n_labels[column]
        codes = dict[State, list[int]]()
        for code in range(n_labels + (not self.closed[column])):
            codes.setdefault(outcome(float(code)), []).append(code)
        states = list(codes)
        if not self.closed[column]:  # unknown labels go where no split lists them
            states.append(states.pop(states.index(outcome(float(n_labels)))))
        return [(tuple(codes[state]), state) for state in states]


def _own(tree: PmmlTree, node: int) -> State:
    """Return the prediction of a node with children, which need not have one."""
    return ("leaf", node) if tree.score[node] is not None or tree.shares[node] else ("none",)


def _limits(predicate: Predicate) -> list[float]:
    """Return the numbers at which the answer of a predicate of one column can change."""
    kind = predicate[0]
    if kind in ("in", "out"):
        return list(predicate[2])
    if kind in ("missing", "present", "true", "false"):
        return []
    return [limit for each in predicate[1] for limit in _limits(each)] if len(predicate) == 2 else [predicate[2]]
