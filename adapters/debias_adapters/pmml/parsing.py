"""One pass over the text of a PMML file: elements, and the nodes of each tree as lists.

A file of 1,000 trees has half a million elements for nodes and their predicates. They do not become objects: what is
needed of them goes into a few lists for each tree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element
from xml.parsers import expat

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from typing import NoReturn

    from debias_adapters.pmml.kernels.node_handlers import NodeHandlers

FOREIGN = "foreign:"
"""What the names of elements of other languages inside the file begin with."""
_NAMESPACE = re.compile(r"http://www\.dmg\.org/PMML-\d+(_\d+)*\}")
COMPARISONS = ("lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual", "equal", "notEqual")
OPERATORS = (*COMPARISONS, "isMissing", "isNotMissing")
"""Of a SimplePredicate, in the order of their codes."""
IS_TRUE, IS_FALSE, OTHER = range(len(OPERATORS), len(OPERATORS) + 3)
"""Codes of the elements True and False, and of sets and compounds."""
PARTS = ("Extension", "Partition")
"""Elements of a node, and inside of its predicates, that are left out."""
_CODES = {name: code for code, name in enumerate(OPERATORS)}
_WITHOUT_FIELD = {"True": IS_TRUE, "False": IS_FALSE, "SimpleSetPredicate": OTHER, "CompoundPredicate": OTHER}


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
    operator : list of int or str or None
        Of each predicate: its position in `OPERATORS`, or `IS_TRUE`, `IS_FALSE` or `OTHER`. Texts are of operators that
        are none.
    field : list of str or None
        Of each predicate; None if it has no field of its own.
    value : list of str or None
        Of each predicate; "nan" if it has no field of its own.
    others : dict of int to Element
        Sets and compounds, by their positions among the predicates.
    share_owner : list of int
        The node of each ScoreDistribution.
    shares : list of dict of str to str
        The attributes of each ScoreDistribution.
    odd : str or None
        The name of an element that no node has.
    """

    parent: list[int]
    score: list[str | None]
    count: list[str | None]
    name: list[str | None]
    default_child: list[str | None]
    owner: list[int]
    operator: list[int | str | None]
    field: list[str | None]
    value: list[str | None]
    others: dict[int, Element]
    share_owner: list[int]
    shares: list[dict[str, str]]
    odd: str | None

    def __init__(self) -> None:
        super().__init__("Node")
        self.parent, self.score, self.count, self.name, self.default_child = [-1], [], [], [], []
        self.owner, self.operator, self.field, self.value = [], [], [], []
        self.others, self.share_owner, self.shares, self.odd = {}, [], [], None


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
        self._fields: dict[str, str] = {}  # names of fields, each kept once
        self._tree: NodeLists | None = None  # whose nodes are being read
        self._nodes: NodeHandlers
        self._level = 0  # number of open elements around that tree
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
        from debias_adapters.pmml.kernels.node_handlers import NodeHandlers

        tree = NodeLists()
        keeps_names = self._open[-1].get("missingValueStrategy") == "defaultChild"
        self._open[-1].append(tree)
        self._tree, self._level = tree, len(self._open)
        self._nodes = NodeHandlers(
            tree, self._names, _CODES, _WITHOUT_FIELD, self._fields, self._read_part, self._end_nodes, keeps_names
        )
        self._nodes.add(root)
        self._go_on()

    def _go_on(self) -> None:
        """Read nodes."""
        self._parser.StartElementHandler = self._nodes.start
        self._parser.EndElementHandler = self._nodes.end
        self._parser.CharacterDataHandler = None  # blanks between nodes

    def _end_nodes(self) -> None:
        self._tree = None
        self._read_elements()

    def _read_part(self, tag: str, attributes: dict[str, str], predicate: int | None) -> None:
        """Read an element inside of a node, up to its end."""
        assert self._tree is not None
        element = Element(tag, attributes)
        if predicate is not None:
            self._tree.others[predicate] = element
        elif tag not in PARTS:
            self._tree.odd = self._tree.odd or tag
        self._open.append(element)
        self._read_elements()


def _refuse_document_type(*_: object) -> NoReturn:
    raise UnsupportedModelError(
        "this XML file has a document type, with which it could read other files or grow without limit: remove the "
        "line that begins with <!DOCTYPE"
    )
