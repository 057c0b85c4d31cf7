"""The trees of a PMML file as they stand there: nodes with any number of children, tried in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_adapters.pmml.document import damaged, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from numpy.typing import NDArray

TRUE, FALSE, UNKNOWN = 1, 0, -1
Predicate = tuple[Any, ...]
"""``("le", column, number)`` and other comparisons, ``("in", column, numbers)``, ``("missing", column)``, ``("and",
predicates)``, ``("or", predicates)``, ``("xor", predicates)``, ``("first", predicates)`` (surrogates), ``("true",)``,
``("false",)``."""
COMPARISONS = {
    "lessThan": "lt",
    "lessOrEqual": "le",
    "greaterThan": "gt",
    "greaterOrEqual": "ge",
    "equal": "eq",
    "notEqual": "ne",
}
COMPOUND = {"and": "and", "or": "or", "xor": "xor", "surrogate": "first"}
EXACT_MISSING = ("none", "defaultChild", "lastPrediction")
"""Strategies for missing values that give one leaf."""
STRATEGIES = (*EXACT_MISSING, "nullPrediction", "weightedConfidence", "aggregateNodes")


@dataclass(frozen=True, eq=False)
class PmmlTree:
    """A tree of a file. Node 0 is the root, and parents precede children.

    Parameters
    ----------
    predicates : list of Predicate
        What must hold for a row to enter a node.
    children : list of list of int
    default : list of int
        Child for rows for which a predicate is not known; -1 if none is named.
    score : list of str or None
    counts : list of float
        ``recordCount``; NaN if there is none.
    shares : list of dict of str to float
        Weights of classes; empty if there are none.
    on_missing : str
        The missing value strategy.
    keeps_last : bool
        Whether a node whose children all do not hold predicts by itself.
    """

    predicates: list[Predicate]
    children: list[list[int]]
    default: list[int]
    score: list[str | None]
    counts: list[float]
    shares: list[dict[str, float]]
    on_missing: str
    keeps_last: bool


def tree_of(model: Element, predicate_of: Callable[[Element], Predicate]) -> PmmlTree:
    """Read a TreeModel.

    Parameters
    ----------
    model : Element
    predicate_of : callable
        Reads the predicate of a node, see :func:`predicate_of`.
    """
    on_missing = model.get("missingValueStrategy", "none")
    if on_missing not in STRATEGIES:
        raise damaged(f"a tree has the missingValueStrategy {on_missing!r}")
    otherwise = model.get("noTrueChildStrategy", "returnNullPrediction")
    if otherwise not in ("returnNullPrediction", "returnLastPrediction"):
        raise damaged(f"a tree has the noTrueChildStrategy {otherwise!r}")
    root = model.find("Node")
    if root is None:
        raise damaged("a tree has no Node")
    tree = PmmlTree([], [], [], [], [], [], on_missing, otherwise == "returnLastPrediction")
    names, wanted = list[dict[str, int]](), list[str | None]()
    waiting: list[tuple[Element, int]] = [(root, -1)]
    while waiting:
        element, parent = waiting.pop()
        number = len(tree.predicates)
        if parent >= 0:
            tree.children[parent].append(number)
            names[parent][element.get("id", "")] = number
        names.append({})
        wanted.append(element.get("defaultChild"))
        waiting += [(each, number) for each in _add(tree, element, predicate_of)]
    if any(not (tree.children[k] or tree.shares[k] or tree.score[k]) for k in range(len(tree.score))):
        raise damaged("a node without children has no score")
    for name, of_children in zip(wanted, names, strict=True):
        if on_missing == "defaultChild" and of_children and name not in of_children:
            raise damaged(f"a node has the defaultChild {name!r}, which is none of its children")
        tree.default.append(of_children.get(name or "", -1) if on_missing == "defaultChild" else -1)
    return tree


def _add(tree: PmmlTree, element: Element, predicate_of: Callable[[Element], Predicate]) -> list[Element]:
    """Add a node, and return its children, the last one first."""
    predicates: list[Element] = []
    shares: list[Element] = []
    children: list[Element] = []
    for part in element:
        if part.tag == "Node":
            children.append(part)
        elif part.tag in PREDICATES:
            predicates.append(part)
        elif part.tag == "ScoreDistribution":
            shares.append(part)
        elif part.tag not in ("Extension", "Partition"):
            raise unsupported(f"{part.tag} in a node")
    if len(predicates) != 1:
        raise damaged(f"a node has {len(predicates)} predicates")
    weight = "probability" if all("probability" in each.attrib for each in shares) else "recordCount"
    try:
        weights = {each.get("value", ""): float(each.attrib[weight]) for each in shares}
        count = float(element.get("recordCount", "nan"))
    except (KeyError, ValueError) as error:
        raise damaged(f"a node has a number that is none ({error})") from error
    if len(weights) < len(shares):
        raise damaged("a node has two shares of one class")
    tree.predicates.append(predicate_of(predicates[0]))
    tree.children.append([])
    tree.score.append(element.get("score"))
    tree.counts.append(count)
    tree.shares.append(weights)
    return children[::-1]


PREDICATES = ("True", "False", "SimplePredicate", "SimpleSetPredicate", "CompoundPredicate")


def predicate_of(element: Element, column_of: Callable[[str], int], value_of: Callable[[str, str], float]) -> Predicate:
    """Read a predicate.

    Parameters
    ----------
    element : Element
    column_of : callable
        Returns the column of the trees for the name of a field.
    value_of : callable
        Returns a text as a value of a field.
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
        return COMPOUND[operator], tuple(predicate_of(each, column_of, value_of) for each in parts)
    name = element.get("field", "")
    if kind == "SimplePredicate":
        operator = element.get("operator", "")
        if operator in ("isMissing", "isNotMissing"):
            return "missing" if operator == "isMissing" else "present", column_of(name)
        if operator not in COMPARISONS or "value" not in element.attrib:
            raise damaged(f"a SimplePredicate of {name!r} has the operator {operator!r}, or no value")
        return COMPARISONS[operator], column_of(name), value_of(name, element.attrib["value"])
    array, operator = element.find("Array"), element.get("booleanOperator", "")
    if array is None or operator not in ("isIn", "isNotIn"):
        raise damaged(f"a SimpleSetPredicate of {name!r} has no Array, or the operator {operator!r}")
    values = frozenset(value_of(name, each) for each in texts_of(array.text or ""))
    return "in" if operator == "isIn" else "out", column_of(name), values


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
        if not tree.children[node]:
            found[rows] = node
            continue
        for child in tree.children[node]:
            if not rows.size:
                break
            truth = _of_rows(tree.predicates[child], X[rows])
            waiting.append((child, rows[truth == TRUE]))
            unknown = rows[truth == UNKNOWN]
            if tree.on_missing == "defaultChild":
                waiting.append((tree.default[node], unknown))
            elif tree.on_missing == "lastPrediction":
                found[unknown] = node
            rows = rows[(truth == FALSE) | ((truth == UNKNOWN) & (tree.on_missing == "none"))]
        if tree.keeps_last:
            found[rows] = node
    return found


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
