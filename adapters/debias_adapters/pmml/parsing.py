"""One pass over the text of a PMML file: elements, and the nodes of each tree as lists.

A file of 1,000 trees has half a million elements for nodes and their predicates. They do not become objects: what is
needed of them goes into a few lists for each tree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element
from xml.parsers import expat

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

FOREIGN = "foreign:"
"""What the names of elements of other languages inside the file begin with."""
_NAMESPACE = re.compile(r"http://www\.dmg\.org/PMML-\d+(_\d+)*\}")
COMPARISONS = ("lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual", "equal", "notEqual")
OPERATORS = (*COMPARISONS, "isMissing", "isNotMissing")
"""Of a SimplePredicate, in the order of their codes."""
IS_TRUE, IS_FALSE, OTHER, WRONG = range(len(OPERATORS), len(OPERATORS) + 4)
"""Codes of the elements True and False, of sets and compounds, and of a SimplePredicate with another operator."""
_CODES: dict[Any, int] = {name: code for code, name in enumerate(OPERATORS)}
_CODES |= {code: code for code in (IS_TRUE, IS_FALSE, OTHER)}
_WITHOUT_FIELD = {"True": {"operator": IS_TRUE}, "False": {"operator": IS_FALSE}}
_INSIDE = -1
"""Stands among open nodes for an open element that is no node."""


class NodeLists(Element):
    """The outermost Node of a tree, with all nodes below it as lists. Node 0 is the root, and parents precede children.

    Attributes
    ----------
    parent : list of int
        -1 at the root.
    score : list of str or None
    count : list of str or None
        The attribute ``recordCount``.
    name, default_child : list of str or None
        The attributes ``id`` and ``defaultChild``; only if they say where missing values go.
    owner : list of int
        The node of each predicate.
    operator : list of int
        Of each predicate: its position in `OPERATORS`, or `IS_TRUE`, `IS_FALSE`, `OTHER` or `WRONG`.
    field : list of str
    value : list of str or None
        Of each predicate.
    others : dict of int to Element
        Sets and compounds, by their positions among the predicates.
    share_owner : list of int
        The node of each ScoreDistribution.
    shares : list of dict of str to str
        The attributes of each ScoreDistribution.
    wrong : dict of int to str
        The operators that are `WRONG`, by the positions of their predicates.
    odd : str or None
        The name of an element that no node has.
    """

    parent: list[int]
    score: list[str | None]
    count: list[str | None]
    name: list[str | None]
    default_child: list[str | None]
    owner: list[int]
    operator: list[int]
    field: list[str]
    value: list[str | None]
    others: dict[int, Element]
    share_owner: list[int]
    shares: list[dict[str, str]]
    wrong: dict[int, str]
    odd: str | None


def parsed(content: bytes) -> Element:
    """Return the outermost element of an XML text. Names of PMML have no namespace, others begin with `FOREIGN`.

    The outermost ``Node`` of each ``TreeModel`` is a :class:`NodeLists`.

    Raises
    ------
    UnsupportedModelError
        The text has a document type, with which entities could be declared.
    xml.parsers.expat.ExpatError, ValueError
        It is no whole XML, or has an encoding that Python does not have.
    """
    return _Parser(content).root


class _Names(dict[str, str]):
    """Names of elements as they are read, by those that expat gives."""

    def __missing__(self, name: str) -> str:
        own = _NAMESPACE.match(name)
        made = name[own.end() :] if own else FOREIGN + name.rpartition("}")[2] if "}" in name else name
        self[name] = made
        return made


class _Parser:
    """Handlers of expat: a pair for elements, and a pair for the nodes of a tree, of which there are many."""

    def __init__(self, content: bytes) -> None:
        self.root = Element("")
        self._names = _Names()
        self._open: list[Element] = []  # elements that have begun and not ended
        self._texts: dict[str, str] = {}  # names of fields, each kept once
        self._tree: NodeLists | None = None  # whose nodes are being read
        self._level = 0  # number of open elements around that tree
        self._go_on: Callable[[], None] = self._read_elements
        self._parser = expat.ParserCreate(namespace_separator="}")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = _refuse_document_type
        self._read_elements()
        self._parser.Parse(content, True)

    def _read_elements(self) -> None:
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = self._names[name]
        if tag == "Node" and self._tree is None and self._open and self._open[-1].tag == "TreeModel":
            self._read_nodes(attributes)
            return
        element = Element(tag, attributes)
        if self._open:
            self._open[-1].append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, name: str) -> None:
        self._open.pop()
        if self._tree is not None and len(self._open) == self._level:
            self._go_on()

    def _text(self, text: str) -> None:
        if self._open and not len(self._open[-1]):
            self._open[-1].text = (self._open[-1].text or "") + text

    def _read_nodes(self, root: dict[str, str]) -> None:
        """Read the nodes of a tree, up to the end of its root."""
        tree = NodeLists("Node")
        self._open[-1].append(tree)
        self._tree, self._level = tree, len(self._open)
        tree.odd, tree.others = None, {}
        tree.parent, tree.owner, tree.share_owner, tree.shares = [-1], [], [], []
        parent, owner, share_owner, shares = tree.parent, tree.owner, tree.share_owner, tree.shares
        nodes, predicates = [root], list[dict[str, Any]]()
        above, names = [0], self._names  # nodes that have begun and not ended; _INSIDE for other elements

        def start(name: str, attributes: dict[str, str]) -> None:
            tag, node = names[name], above[-1]
            if tag == "Node" and node >= 0:
                parent.append(node)
                above.append(len(nodes))
                nodes.append(attributes)
            elif tag == "SimplePredicate" and node >= 0:
                owner.append(node)
                predicates.append(attributes)
                above.append(_INSIDE)
            elif tag == "ScoreDistribution" and node >= 0:
                share_owner.append(node)
                shares.append(attributes)
                above.append(_INSIDE)
            elif tag in _WITHOUT_FIELD and node >= 0:
                owner.append(node)
                predicates.append(_WITHOUT_FIELD[tag])
                above.append(_INSIDE)
            else:
                element = Element(tag, attributes)
                if node >= 0 and tag in ("SimpleSetPredicate", "CompoundPredicate"):
                    tree.others[len(predicates)] = element
                    owner.append(node)
                    predicates.append({"operator": OTHER})
                elif node >= 0 and tag not in ("Extension", "Partition"):
                    tree.odd = tree.odd or tag
                self._open.append(element)  # it is read up to its end
                self._read_elements()

        def end(_: str) -> None:
            if not above.pop():  # of the root, which is node 0
                self._fill(tree, nodes, predicates)
                self._tree = None
                self._read_elements()

        self._go_on = lambda: self._read_with(start, end)
        self._go_on()

    def _read_with(self, start: Any, end: Any) -> None:
        self._parser.StartElementHandler = start
        self._parser.EndElementHandler = end
        self._parser.CharacterDataHandler = None  # blanks between nodes

    def _fill(self, tree: NodeLists, nodes: list[dict[str, str]], predicates: list[dict[str, Any]]) -> None:
        """Keep the attributes of nodes and predicates that are needed."""
        tree.score = [each.get("score") for each in nodes]
        tree.count = [each.get("recordCount") for each in nodes]
        if self._open[-1].get("missingValueStrategy") == "defaultChild":
            tree.name = [each.get("id") for each in nodes]
            tree.default_child = [each.get("defaultChild") for each in nodes]
        code = _CODES.get
        tree.operator = [code(each.get("operator"), WRONG) for each in predicates]
        names = [each.get("field", "") for each in predicates]
        tree.field = list(map(self._texts.setdefault, names, names))
        tree.value = [each.get("value") for each in predicates]
        tree.wrong = {}
        if WRONG in tree.operator:
            tree.wrong = {k: each.get("operator", "") for k, each in enumerate(predicates) if tree.operator[k] == WRONG}


def _refuse_document_type(*_: object) -> NoReturn:
    raise UnsupportedModelError(
        "this XML file has a document type, with which it could read other files or grow without limit: remove the "
        "line that begins with <!DOCTYPE"
    )
