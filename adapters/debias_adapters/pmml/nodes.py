"""The trees of a PMML file as they stand there: nodes with any number of children, tried in turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from debias_adapters.pmml.document import damaged, unsupported
from debias_adapters.pmml.fields import in_single
from debias_adapters.pmml.parsing import COMPARISONS, IS_TRUE, OPERATORS, OTHER, NodeLists

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from numpy.typing import NDArray

    from debias.errors import UnsupportedModelError

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int32]

TRUE, FALSE, UNKNOWN = 1, 0, -1
Predicate = tuple[Any, ...]
"""``("le", column, number)`` and other comparisons, ``("in", column, numbers)``, ``("missing", column)``, ``("and",
predicates)``, ``("or", predicates)``, ``("xor", predicates)``, ``("first", predicates)`` (surrogates), ``("true",)``,
``("false",)``."""
SHORT = ("lt", "le", "gt", "ge", "eq", "ne", "missing", "present", "true", "false")
"""Names of simple predicates, in the order of their codes."""
COMPOUND = {"and": "and", "or": "or", "xor": "xor", "surrogate": "first"}
EXACT_MISSING = ("none", "defaultChild", "lastPrediction")
"""Strategies for missing values that give one leaf."""
STRATEGIES = (*EXACT_MISSING, "nullPrediction", "weightedConfidence", "aggregateNodes")


class Columns(Protocol):
    """The columns that trees test."""

    def number_of(self, name: str) -> int:
        """Return the position of a column of the trees, for the name of a field."""

    def is_label(self, name: str) -> bool:
        """Whether a field has categories."""

    def value_of(self, name: str, text: str) -> float:
        """Return a text as a value of a field."""

    def is_single(self, name: str) -> bool:
        """Whether a field has numbers of 32 bits."""


@dataclass(frozen=True, eq=False)
class PmmlTree:
    """A tree of a file. Node 0 is the root, and parents precede children.

    Parameters
    ----------
    parent : array of int32
        -1 at the root.
    asked : array of uint8
        What must hold for a row to enter a node, as a code of `parsing`.
    column, limit : array of int32, array of float64
        Of comparisons with a number or a category, and tests for missing values; -1 and NaN otherwise.
    others : dict of int to Predicate
        The predicates of nodes with the code `OTHER`.
    default : array of int32
        Child for rows for which a predicate is not known; -1 if none is named.
    score : list of str or None
    counts : array of float64
        ``recordCount``; NaN if there is none.
    share_owner, share_label, share : array of int32, list of str, array of float64
        Weights of classes in nodes: the node, the class, and the weight.
    on_missing : str
        The missing value strategy.
    keeps_last : bool
        Whether a node whose children all do not hold predicts by itself.

    Attributes
    ----------
    children, child_start : array of int32
        Children of all nodes in their order, and where those of a node begin.
    predicts : array of bool
        Whether a node has a score or weights of classes.
    """

    parent: Ints
    asked: NDArray[np.uint8]
    column: Ints
    limit: Floats
    others: dict[int, Predicate]
    default: Ints
    score: list[str | None]
    counts: Floats
    share_owner: Ints
    share_label: list[str]
    share: Floats
    on_missing: str
    keeps_last: bool

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.parent.size

    @cached_property
    def children(self) -> Ints:
        """See above."""
        return (np.argsort(self.parent[1:], kind="stable") + 1).astype(np.int32)

    @cached_property
    def child_start(self) -> Ints:
        """See above."""
        n_children = np.bincount(self.parent[1:], minlength=self.n_nodes)
        return np.concatenate([[0], np.cumsum(n_children)]).astype(np.int32)

    @cached_property
    def predicts(self) -> NDArray[np.bool_]:
        """See above."""
        found = np.array([each is not None for each in self.score])
        found[self.share_owner] = True
        return found

    def predicate(self, node: int) -> Predicate:
        """Return what must hold for a row to enter a node."""
        code = int(self.asked[node])
        if code == OTHER:
            return self.others[node]
        if code >= IS_TRUE:
            return (SHORT[code],)
        column = int(self.column[node])
        return (SHORT[code], column, float(self.limit[node])) if code < len(COMPARISONS) else (SHORT[code], column)

    def children_of(self, node: int) -> list[int]:
        """Return the children of a node."""
        return self.children[self.child_start[node] : self.child_start[node + 1]].tolist()


def tree_of(model: Element, columns: Columns) -> PmmlTree:
    """Read a TreeModel.

    Parameters
    ----------
    model : Element
    columns : Columns
    """
    on_missing = model.get("missingValueStrategy", "none")
    if on_missing not in STRATEGIES:
        raise damaged(f"a tree has the missingValueStrategy {on_missing!r}")
    otherwise = model.get("noTrueChildStrategy", "returnNullPrediction")
    if otherwise not in ("returnNullPrediction", "returnLastPrediction"):
        raise damaged(f"a tree has the noTrueChildStrategy {otherwise!r}")
    lists = model.find("Node")
    if not isinstance(lists, NodeLists):
        raise damaged("a tree has no Node")
    if lists.odd is not None:
        raise unsupported(f"{lists.odd} in a node")
    parent = np.array(lists.parent, dtype=np.int32)
    order = _order_of_predicates(lists)
    asked, column, limit, others = _predicates(lists, order, columns)
    counts = _numbers_or_nan(lists.count, parent.size)
    tree = PmmlTree(
        parent,
        asked,
        column,
        limit,
        others,
        _default_children(lists, parent) if on_missing == "defaultChild" else np.full(parent.size, -1, dtype=np.int32),
        lists.score,
        counts,
        *_shares(lists, parent.size),
        on_missing,
        otherwise == "returnLastPrediction",
    )
    if (~tree.predicts & (np.diff(tree.child_start) == 0)).any():
        raise damaged("a node without children has no score")
    return tree


def _order_of_predicates(lists: NodeLists) -> list[int]:
    """Return the position of the predicate of each node."""
    n = len(lists.parent)
    if lists.owner == list(range(n)):
        return lists.owner
    wrong = np.flatnonzero(np.bincount(lists.owner, minlength=n) != 1)
    if wrong.size:
        raise damaged(f"a node has {lists.owner.count(int(wrong[0]))} predicates")
    return np.argsort(lists.owner).tolist()


def _predicates(
    lists: NodeLists, order: list[int], columns: Columns
) -> tuple[NDArray[np.uint8], Ints, Floats, dict[int, Predicate]]:
    """Return what the predicates of the nodes ask: codes, columns, limits, and sets and compounds."""
    if set(map(type, lists.operator)) != {int}:
        wrong = next(k for k, each in enumerate(lists.operator) if not isinstance(each, int))
        raise _wrong_operator(lists.field[wrong], lists.operator[wrong])
    asked = np.array(lists.operator, dtype=np.uint8)
    # Columns and categories are numbered in the order of the nodes.
    number_of: dict[str | None, int] = {None: -1}
    is_label: dict[str | None, bool] = {None: False}
    if not lists.others:
        for name in dict.fromkeys(lists.field):
            if name is not None:
                number_of[name], is_label[name] = columns.number_of(name), columns.is_label(name)
    limit, others = np.full(asked.size, np.nan), dict[int, Predicate]()
    if not lists.others and not any(is_label.values()):
        limit = _limits(lists, asked, columns)
    else:
        _fill_in_turn(lists, order, columns, (number_of, is_label, limit, others))
    if any(columns.is_single(name) for name in number_of if name is not None):
        single = {name: name is not None and columns.is_single(name) for name in number_of}
        limit = np.where([single[name] for name in lists.field], in_single(limit), limit)
    column = np.array([number_of[name] for name in lists.field], dtype=np.int32)
    if order is not lists.owner:
        asked, column, limit = asked[order], column[order], limit[order]
    return asked, column, limit, others


def _limits(lists: NodeLists, asked: NDArray[np.uint8], columns: Columns) -> Floats:
    """Return the numbers that the predicates of a tree compare with."""
    compares = asked < len(COMPARISONS)
    try:
        limits = np.array(list(map(float, lists.value)))  # type: ignore[arg-type]  # None raises a TypeError
        if np.isfinite(limits[compares]).all():
            return limits
    except (TypeError, ValueError):
        pass
    # A test for a missing value has none; another value is wrong, and raises an error that names the field.
    values = [_value(lists, k, columns) if compares[k] else np.nan for k in range(asked.size)]
    return np.array(values)


def _fill_in_turn(
    lists: NodeLists,
    order: list[int],
    columns: Columns,
    parts: tuple[dict[str | None, int], dict[str | None, bool], Floats, dict[int, Predicate]],
) -> None:
    """Fill in numbers of columns, limits, sets and compounds, node by node."""
    number_of, is_label, limit, others = parts
    for node, k in enumerate(order):
        name = lists.field[k]
        if k in lists.others:
            others[node] = predicate_of(lists.others[k], columns)
        elif name is not None:
            if name not in number_of:
                number_of[name], is_label[name] = columns.number_of(name), columns.is_label(name)
            if lists.operator[k] in COMPARES:
                limit[k] = _value(lists, k, columns)


COMPARES = range(len(COMPARISONS))


def _value(lists: NodeLists, k: int, columns: Columns) -> float:
    """Return what a predicate compares its field with."""
    name, text = lists.field[k], lists.value[k]
    assert name is not None
    if text is None:
        raise _wrong_operator(name, OPERATORS[int(lists.operator[k] or 0)])
    return columns.value_of(name, text)


def _wrong_operator(name: str | None, operator: object) -> UnsupportedModelError:
    return damaged(f"a SimplePredicate of {name!r} has the operator {operator!r}, or no value")


def _default_children(lists: NodeLists, parent: Ints) -> Ints:
    """Return the child that each node names for rows for which a predicate is not known; -1 without children."""
    found = np.full(parent.size, -1, dtype=np.int32)
    of_name = {
        (above, name or ""): node for node, (above, name) in enumerate(zip(lists.parent, lists.name, strict=True))
    }
    for node in dict.fromkeys(lists.parent[1:]):
        name = lists.default_child[node]
        found[node] = of_name.get((node, name or ""), -1)
        if name is None or found[node] < 0:
            raise damaged(f"a node has the defaultChild {name!r}, which is none of its children")
    return found


def _numbers_or_nan(texts: list[str | None], n: int) -> Floats:
    """Return numbers of rows; NaN where there is none."""
    if not any(texts):
        return np.full(n, np.nan)
    try:
        return np.array([float("nan" if each is None else each) for each in texts])
    except ValueError as error:
        raise damaged(f"a node has a number that is none ({error})") from error


def _shares(lists: NodeLists, n: int) -> tuple[Ints, list[str], Floats]:
    """Return weights of classes, ``probability`` or ``recordCount``: the nodes, the classes and the weights."""
    owner, shares = np.array(lists.share_owner, dtype=np.int32), lists.shares
    if not shares:
        return owner, [], np.empty(0)
    labels = [each.get("value", "") for each in shares]
    if len(set(zip(lists.share_owner, labels, strict=True))) < len(labels):
        raise damaged("a node has two shares of one class")
    has = np.array(["probability" in each for each in shares])
    by_probability = np.bincount(owner, weights=~has, minlength=n)[owner] == 0  # all of the node have it
    try:
        weights = [
            float(each["probability" if one else "recordCount"])
            for each, one in zip(shares, by_probability.tolist(), strict=True)
        ]
    except (KeyError, ValueError) as error:
        raise damaged(f"a node has a number that is none ({error})") from error
    return owner, labels, np.array(weights)


PREDICATES = ("True", "False", "SimplePredicate", "SimpleSetPredicate", "CompoundPredicate")


def predicate_of(element: Element, columns: Columns) -> Predicate:
    """Read a predicate.

    Parameters
    ----------
    element : Element
    columns : Columns
    """
    kind = element.tag
    if kind in ("True", "False"):
        return (kind.lower(),)
    if kind == "CompoundPredicate":
        operator = element.get("booleanOperator", "")
        if operator not in COMPOUND:
            raise unsupported(f"predicates joined by {operator!r}")
        parts = [each for each in element if each.tag in PREDICATES]
        if len(parts) < 2:
            raise damaged("a CompoundPredicate has not two or more predicates")
        _refuse_depth(element)
        return COMPOUND[operator], tuple(predicate_of(each, columns) for each in parts)
    name = element.get("field", "")
    if kind == "SimplePredicate":
        operator = element.get("operator", "")
        if operator in ("isMissing", "isNotMissing"):
            return "missing" if operator == "isMissing" else "present", columns.number_of(name)
        if operator not in COMPARISONS or "value" not in element.attrib:
            raise damaged(f"a SimplePredicate of {name!r} has the operator {operator!r}, or no value")
        return (
            SHORT[OPERATORS.index(operator)],
            columns.number_of(name),
            columns.value_of(name, element.attrib["value"]),
        )
    array, operator = element.find("Array"), element.get("booleanOperator", "")
    if array is None or operator not in ("isIn", "isNotIn"):
        raise damaged(f"a SimpleSetPredicate of {name!r} has no Array, or the operator {operator!r}")
    values = frozenset(columns.value_of(name, each) for each in texts_of(array.text or ""))
    return "in" if operator == "isIn" else "out", columns.number_of(name), values


DEEPEST = 50
"""Most levels of predicates within predicates."""


def _refuse_depth(element: Element) -> None:
    level, depth = [element], 0
    while level:
        level = [each for part in level for each in part if each.tag == "CompoundPredicate"]
        depth += 1
        if depth > DEEPEST:
            raise unsupported(f"predicates in more than {DEEPEST} levels")


def texts_of(text: str) -> list[str]:
    """Return the texts of an Array: they are separated by blanks, and those with blanks stand in quotes."""
    if '"' not in text:
        return text.split()
    found, position = list[str](), 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == '"':
            word, position = [], position + 1
            while position < len(text) and text[position] != '"':
                position += text[position] == "\\" and text[position + 1 : position + 2] in ('"', "\\")
                word.append(text[position])
                position += 1
            found.append("".join(word))
            position += 1
        else:
            end = position
            while end < len(text) and not text[end].isspace():
                end += 1
            found.append(text[position:end])
            position = end
    return found


def joined(kind: str, parts: list[int]) -> int:
    """Return what "and", "or", "xor" and "first" make of TRUE, FALSE and UNKNOWN."""
    if kind == "first":
        return next((each for each in parts if each != UNKNOWN), UNKNOWN)
    if kind == "xor":
        return UNKNOWN if UNKNOWN in parts else sum(parts) % 2
    decides = FALSE if kind == "and" else TRUE
    return decides if decides in parts else UNKNOWN if UNKNOWN in parts else 1 - decides


_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda value, limit: value < limit,
    "le": lambda value, limit: value <= limit,
    "gt": lambda value, limit: value > limit,
    "ge": lambda value, limit: value >= limit,
    "eq": lambda value, limit: value == limit,
    "ne": lambda value, limit: value != limit,
    "in": lambda value, values: value in values,
    "out": lambda value, values: value not in values,
}


def winners(tree: PmmlTree, X: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the node that predicts for each row, by the rules of the standard; -1 if there is no prediction.

    Parameters
    ----------
    tree : PmmlTree
    X : array of shape (n_rows, n_columns)
    """
    found = np.full(len(X), -1, dtype=np.int64)
    waiting = [(0, np.arange(len(X)))]
    while waiting:
        node, rows = waiting.pop()
        if not rows.size:
            continue
        children = tree.children_of(node)
        if not children:
            found[rows] = node
            continue
        for child in children:
            truth = _of_rows(tree.predicate(child), X[rows])
            waiting.append((child, rows[truth == TRUE]))
            unknown = rows[truth == UNKNOWN]
            if tree.on_missing == "defaultChild":
                waiting.append((int(tree.default[node]), unknown))
            elif tree.on_missing == "lastPrediction":
                found[unknown] = node
            rows = rows[(truth == FALSE) | ((truth == UNKNOWN) & (tree.on_missing == "none"))]
            if not rows.size:
                break
        if tree.keeps_last:
            found[rows] = node
    return np.where((found >= 0) & tree.predicts[found], found, -1)


def _of_rows(predicate: Predicate, X: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return what :func:`holds` does for all rows."""
    kind = predicate[0]
    if kind in ("true", "false"):
        return np.full(len(X), int(kind == "true"))
    if isinstance(predicate[1], tuple):
        parts = np.array([_of_rows(each, X) for each in predicate[1]])
        return np.array([joined(kind, column) for column in parts.T.tolist()], dtype=np.int64)
    x = X[:, predicate[1]]
    missing = np.isnan(x)
    if kind in ("missing", "present"):
        return (missing == (kind == "missing")).astype(np.int64)
    is_set = kind in ("in", "out")
    truth = np.isin(x, list(predicate[2])) == (kind == "in") if is_set else _TESTS[kind](x, predicate[2])
    return np.where(missing, UNKNOWN, truth)
