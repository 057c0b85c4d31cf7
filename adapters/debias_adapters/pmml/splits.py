"""The trees of a PMML file as binary splits that give the same leaf for every row, also with missing values.

Children are tried in turn, so they become a chain of splits. What the splits before have told of the columns answers
later tests: where ``x <= 1`` does not hold, ``x > 1`` needs no split. A predicate of several columns becomes several
splits, below which parts of the tree may stand twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, NamedTuple

from debias_adapters.pmml.document import damaged, unsupported
from debias_adapters.pmml.nodes import EXACT_MISSING, FALSE, TRUE, UNKNOWN, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from debias_adapters.pmml.nodes import PmmlTree, Predicate

MOST = 8
"""A tree that becomes this many times as large is refused."""


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

    def add(self, test: Test | None, every: tuple[int, ...] | None, missing_left: bool, node: int) -> int:
        """Add a split, or a leaf, and return its position. `every` are all codes of the column of categories."""
        if test is None:
            column, limit, codes = -1, 0.0, None
        else:
            column, limit, codes = test.column, inf, every  # a test for missing values: all others go left
            if test.kind == "le":
                limit = test.argument
            elif test.kind == "in":
                codes = tuple(sorted(test.argument))
        self.feature.append(column)
        self.threshold.append(limit if codes is None else 0.0)
        self.left.append(-1)
        self.right.append(-1)
        self.missing_left.append(missing_left)
        self.sets.append(codes)
        self.node.append(node)
        return len(self.feature) - 1


class Test(NamedTuple):
    """A question about one column.

    Parameters
    ----------
    kind : {"le", "in", "missing"}
    column : int
    argument : float, frozenset of int, or None
        The largest number for which the answer is yes, or the codes for which it is.
    sense : bool
        False if the predicate holds where the answer is no.
    """

    kind: str
    column: int
    argument: Any
    sense: bool


class Compound(NamedTuple):
    """Several predicates joined by "and", "or", "xor" or "first"."""

    kind: str
    parts: tuple[Any, ...]


Question = int | Test | Compound
"""What a predicate asks: ``TRUE`` and ``FALSE`` ask nothing."""


class Known(NamedTuple):
    """What the splits before have told of a column.

    Parameters
    ----------
    low, high : float
        Numbers are above the one and up to the other; `low` is NaN if there is no such limit.
    codes : frozenset of int, or None
        Codes that it can have; None for numbers.
    present, missing : bool
        Whether there can be a value, and whether it can be missing.
    """

    low: float
    high: float
    codes: frozenset[int] | None
    present: bool
    missing: bool


class Place(NamedTuple):
    """Where rows are: at the predicate of the child `child` of `node`, before the test `test`; or at the leaf `node`.

    `node` is -1 above the root. At a leaf, `child` is -1 and `test` is None.
    """

    node: int
    child: int
    test: Test | None


NOWHERE = Place(-1, -1, None)
"""Rows without a prediction."""


class Way(NamedTuple):
    """What follows for an answer to a test.

    Parameters
    ----------
    place : Place
        Where its rows come.
    column : int
        The column of the test.
    told : Known or None
        What is known of it then; None if there was no test.
    takes_missing : bool
        Whether missing values go this way.
    """

    place: Place
    column: int
    told: Known | None
    takes_missing: bool


class Meeting(NamedTuple):
    """Where missing values come to the rows with an answer."""

    answer: Known
    place: Place


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
        self.names, self.no_missing = names, False
        self._every = [tuple(range(n + 1)) if n else None for n in n_labels]
        codes = [frozenset(range(n + (not whole))) if n else None for n, whole in zip(n_labels, closed, strict=True)]
        self._first = [Known(float("nan"), inf, each, present=True, missing=True) for each in codes]

    def splits_of(self, tree: PmmlTree) -> Splits:
        """Return the splits of a tree.

        Raises
        ------
        UnsupportedModelError
            A row without missing values has no prediction, or the splits are too many.
        """
        asked = [self._question(each) for each in tree.predicates]
        if tree.on_missing not in EXACT_MISSING:
            self.no_missing |= any(isinstance(each, (Test, Compound)) for each in asked)
        else:
            made = self._made(_Walk(tree, asked, self._first))
            if made is not None:
                return made
            self.no_missing = True
        made = self._made(_Walk(tree, asked, [each._replace(missing=False) for each in self._first]))
        if made is None:
            raise damaged("a tree gives no prediction for some rows without missing values")
        return made

    def _question(self, predicate: Predicate) -> Question:
        """Return what a predicate asks: comparisons as ``le`` and its opposite, sets as codes."""
        kind = predicate[0]
        if kind in ("true", "false"):
            return TRUE if kind == "true" else FALSE
        if isinstance(predicate[1], tuple):
            return Compound(kind, tuple(self._question(each) for each in predicate[1]))
        column = predicate[1]
        if kind in ("missing", "present"):
            return Test("missing", column, None, kind == "missing")
        argument = predicate[2]
        if self._every[column] is not None:
            listed = argument if kind in ("in", "out") else (argument,)
            if kind not in ("in", "out", "eq", "ne"):
                raise unsupported(
                    f"a test whether the label of {self.names[column]!r} is smaller or larger than another"
                )
            codes = frozenset(int(code) for code in listed if code == code)  # noqa: PLR0124 - NaN is no label
            return Test("in", column, codes, kind in ("in", "eq"))
        if kind in ("in", "out"):
            parts = tuple(self._question(("eq" if kind == "in" else "ne", column, each)) for each in sorted(argument))
            return Compound("or" if kind == "in" else "and", parts)
        below = nextafter(argument, -inf)
        if kind in ("eq", "ne"):
            sides = Test("le", column, argument, kind == "eq"), Test("le", column, below, kind == "ne")
            return Compound("and" if kind == "eq" else "or", sides)
        return Test("le", column, argument if kind in ("le", "gt") else below, kind in ("le", "lt"))

    def _made(self, walk: _Walk) -> Splits | None:
        """Return the splits; None if some rows have no prediction."""
        made = Splits([], [], [], [], [], [], [])
        most = MOST * len(walk.asked) + 64
        waiting: list[tuple[Way, int, list[int] | None, int]] = [(Way(walk.on(-1, 0), -1, None, False), 0, None, 0)]
        while waiting:
            way, known_before, links, parent = waiting.pop()
            walk.forget(known_before)
            if way.place == NOWHERE:
                return None
            if len(made.node) > most:
                raise unsupported(f"a tree whose predicates would need more than {most} splits")
            if way.told is not None:
                walk.tell(way.column, way.told)
            if way.place.test is None:
                here = made.add(None, None, False, way.place.node)
                if links is not None:
                    links[parent] = here
                continue
            test, ways = walk.ways(way.place)
            known_now = walk.n_told
            if len(ways) == 1:  # all values that are left go one way, and missing ones with them
                waiting.append((ways[0], known_now, links, parent))
                continue
            here = made.add(test, self._every[test.column], ways[0].takes_missing, -1)
            if links is not None:
                links[parent] = here
            for each, side in zip(reversed(ways), (made.right, made.left), strict=True):
                waiting.append((each, known_now, side, here))
        return made


class _Walk:
    """The rules by which rows go through a tree of a file.

    Parameters
    ----------
    tree : PmmlTree
    asked : list of Question
        Of each node.
    first : list of Known
        What is known of each column before any split.
    """

    def __init__(self, tree: PmmlTree, asked: list[Question], first: list[Known]) -> None:
        self.tree, self.asked, self._known = tree, asked, list(first)
        self._before: list[tuple[int, Known]] = []

    @property
    def n_told(self) -> int:
        """How many answers are known."""
        return len(self._before)

    def tell(self, column: int, known: Known) -> None:
        """Note what an answer has told of a column."""
        self._before.append((column, self._known[column]))
        self._known[column] = known

    def forget(self, n_told: int) -> None:
        """Forget all but the first answers."""
        while len(self._before) > n_told:
            column, known = self._before.pop()
            self._known[column] = known

    def _on_if(self, column: int, known: Known, place: Place, until: Place | None = None) -> Place:
        """Return where rows come if something is known of a column."""
        self.tell(column, known)
        found = self.on(place.node, place.child, until)
        self.forget(self.n_told - 1)
        return found

    def on(self, node: int, child: int, until: Place | None = None) -> Place:
        """Return where rows are after all predicates whose answer is known; `until` if they come there."""
        tree = self.tree
        while True:
            if until is not None and until.test is not None and node == until.node and child == until.child:
                return until
            if child < 0:
                return Place(node, child, None)
            children = tree.children[node] if node >= 0 else [0]
            if not children:
                return Place(node, -1, None)
            if child == len(children):
                return self._own(node) if tree.keeps_last and node >= 0 else NOWHERE
            answer = self._answer(self.asked[children[child]])
            if isinstance(answer, Test):
                return Place(node, child, answer)
            if answer == TRUE:
                node, child = children[child], 0
            elif answer == FALSE or tree.on_missing == "none" or node < 0:
                child += 1
            elif tree.on_missing == "lastPrediction":
                return self._own(node)
            elif tree.on_missing == "defaultChild":
                node, child = tree.default[node], 0
            else:
                return NOWHERE

    def _own(self, node: int) -> Place:
        """Return the prediction of a node with children, which need not have one."""
        has = self.tree.score[node] is not None or self.tree.shares[node]
        return Place(node, -1, None) if has else NOWHERE

    def ways(self, place: Place) -> tuple[Test, list[Way]]:
        """Return a test to make at a place, and what follows for the answers yes and no that can be."""
        test = place.test
        assert test is not None
        known = self._known[test.column]
        answers, meeting = _after(known, test), None
        if known.missing:
            meeting = self._meeting(place, test, answers)
            if meeting is None:
                test = Test("missing", test.column, None, True)
                answers = known._replace(missing=False) if known.present else None, known._replace(present=False)
        found = []
        for each in answers:
            if each is None:
                continue
            if meeting is not None and each is meeting.answer:
                told, start, takes = each._replace(missing=True), meeting.place, True
            else:
                told, start, takes = each, place, False
            found.append(Way(self._on_if(test.column, told, start), test.column, told, takes))
        return test, found

    def _meeting(self, place: Place, test: Test, answers: tuple[Known | None, Known | None]) -> Meeting | None:
        """Return where missing values come to rows with an answer to a test; None if they have a way of their own."""
        absent = self._known[test.column]._replace(present=False)
        for each in reversed(answers) if test.kind != "missing" else ():
            if each is None:
                continue
            there = self._on_if(test.column, each, place)
            if there[:2] != place[:2] and self._on_if(test.column, absent, place, there) == there:
                return Meeting(each, there)
        return None

    def _answer(self, question: Question) -> int | Test:
        """Return TRUE, FALSE or UNKNOWN, or a test that has to be made first."""
        if isinstance(question, int):
            return question
        if isinstance(question, Test):
            known = self._known[question.column]
            if known.present and known.missing:
                return question
            if question.kind == "missing":
                return int(known.missing == question.sense)
            if not known.present:
                return UNKNOWN
            yes, no = _after(known, question)
            if yes is not None and no is not None:
                return question
            return int((yes is not None) == question.sense)
        answers = [self._answer(each) for each in question.parts]
        if question.kind == "first":
            return next((each for each in answers if each != UNKNOWN), UNKNOWN)
        known_ones = [each for each in answers if not isinstance(each, Test)]
        if len(known_ones) == len(answers):
            return joined(question.kind, known_ones)
        decides = {"and": FALSE, "or": TRUE, "xor": UNKNOWN}[question.kind]
        if decides in known_ones:
            return decides
        return next(each for each in answers if isinstance(each, Test))


def _present(known: Known) -> Known | None:
    return known._replace(missing=False) if known.present else None


def _after(known: Known, test: Test) -> tuple[Known | None, Known | None]:
    """Return what is known of values for which the answer is yes, and no; None if there are none."""
    if not known.present:
        return None, None
    low, high, codes, _, _ = known
    if test.kind == "missing":
        return None, Known(low, high, codes, True, False)
    if test.kind == "le":
        limit = test.argument
        yes = None if low >= limit else Known(low, min(high, limit), None, True, False)
        no = None if high <= limit else Known(limit if not low > limit else low, high, None, True, False)
        return yes, no
    assert codes is not None
    inside, outside = codes & test.argument, codes - test.argument
    return (
        Known(low, high, inside, True, False) if inside else None,
        Known(low, high, outside, True, False) if outside else None,
    )
