"""The parts of an ONNX graph: what makes the columns of the trees, the node with the trees, and what follows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.text import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCE = "ONNX model"
DOMAIN = "ai.onnx.ml"
TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
FLOAT, DOUBLE, INT64, INT32, STRING, BOOL = 1, 11, 7, 6, 8, 9
"""Codes of types of tensors."""
DTYPES: dict[int, Any] = {FLOAT: np.float32, DOUBLE: np.float64, INT64: np.int64, INT32: np.int32, BOOL: np.bool_}
SAME_NUMBERS = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze")
LABELS = ("ArgMax", "TopK", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Binarizer", "ArrayFeatureExtractor")
"""What makes labels of scores, which are not followed further."""
LINKS = {"Exp": "exp", "Sigmoid": "logistic", "Softmax": "softmax"}


@dataclass(frozen=True)
class Column:
    """One input column of a graph: name of its input, position there, whether the input has this column only, type."""

    of_input: str
    position: int
    alone: bool
    type: int


@dataclass(frozen=True)
class Output:
    """What a graph does with the sums of the trees: ``link(scale * sum + shift)``.

    Parameters
    ----------
    tensor : str
        The last tensor of numbers.
    scale, shift : float
    link : {"none", "exp", "logistic", "softmax"}
    labels : tuple, or None
        Labels of classes, if a node after the trees has them.
    """

    tensor: str
    scale: float = 1.0
    shift: float = 0.0
    link: str = "none"
    labels: tuple[Any, ...] | None = None


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a graph with one node of trees.

    Parameters
    ----------
    model : onnx.ModelProto
    node : onnx.NodeProto
        The node with the trees.
    before : tuple of onnx.NodeProto
        What makes the columns of the trees of the inputs; empty if the trees take the only input.
    columns : tuple of Column
        Input columns of the graph.
    output : Output
    """

    model: Any
    node: Any
    before: tuple[Any, ...]
    columns: tuple[Column, ...]
    output: Output

    @property
    def scores(self) -> str:
        """The tensor with the scores of the trees."""
        return str(self.node.output[1 if self.node.op_type == "TreeEnsembleClassifier" else 0])


def parts_of(model: Any) -> Parts:
    """Return the parts of the graph of a model.

    Parameters
    ----------
    model : onnx.ModelProto

    Raises
    ------
    UnsupportedModelError
        There is not one node of trees, or it is not known what the graph does with their scores.
    """
    graph = model.graph
    found = [node for node in graph.node if node.op_type in TREES and node.domain == DOMAIN]
    if len(found) != 1:
        has = "no node of trees" if not found else f"{len(found)} nodes of trees"
        kinds = sorted({node.op_type for node in graph.node})
        raise UnsupportedModelError(
            f"this {SOURCE} has {has} at the top of its graph (its nodes: {listed(kinds[:8])}). debias reads graphs "
            "with one TreeEnsembleRegressor, TreeEnsembleClassifier or TreeEnsemble; convert the model of trees itself"
        )
    (node,) = found
    if node.op_type == "TreeEnsembleClassifier" and len(node.output) < 2:
        raise UnsupportedModelError(f"this {SOURCE} returns labels only, and no scores of the trees")
    made_by = {name: each for each in graph.node for name in each.output}
    constants = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in constants]
    before: list[Any] = []
    used = {node.input[0]}
    for each in reversed(graph.node):  # nodes are sorted: each comes after those that make its inputs
        if used.intersection(each.output):
            before.insert(0, each)
            used.update(name for name in each.input if name)
    reached = [each for each in inputs if each.name in used]
    if not reached or any(name not in made_by and name not in constants for name in used - {e.name for e in inputs}):
        raise UnsupportedModelError(f"this {SOURCE} is damaged: its trees do not depend on its inputs")
    columns = tuple(column for each in inputs for column in _columns(each))
    parts = Parts(model, node, tuple(before), columns, Output(""))
    return replace(parts, output=_output(parts, made_by, constants))


def _columns(given: Any) -> list[Column]:
    """Return the columns of an input of a graph."""
    tensor = given.type.tensor_type
    sizes = [each.dim_value for each in tensor.shape.dim]
    if given.type.WhichOneof("value") != "tensor_type" or len(sizes) not in (1, 2):
        raise UnsupportedModelError(f"the input {given.name!r} of this {SOURCE} is no table of rows and columns")
    width = 1 if len(sizes) == 1 else sizes[1]
    if width < 1:
        raise UnsupportedModelError(
            f"this {SOURCE} does not state how many columns its input {given.name!r} has: convert it with the type of "
            "the input given, such as FloatTensorType([None, 10])"
        )
    if tensor.elem_type not in (*DTYPES, STRING):
        raise UnsupportedModelError(f"the input {given.name!r} of this {SOURCE} has a type that debias does not pass")
    return [Column(given.name, k, width == 1, tensor.elem_type) for k in range(width)]


def _output(parts: Parts, made_by: dict[str, Any], constants: set[str]) -> Output:
    """Follow the scores of the trees to an output of the graph."""
    graph = parts.model.graph
    ends = {each.name for each in graph.output}
    output = Output(parts.scores)
    while output.tensor not in ends:
        users = [each for each in graph.node if output.tensor in each.input and each.op_type not in LABELS]
        zip_map = next((each for each in users if each.op_type == "ZipMap"), None)
        if zip_map is not None:
            return replace(output, labels=labels_of(zip_map))
        users = [each for each in users if _leads_to(each, ends, graph)]
        if len(users) != 1:
            raise UnsupportedModelError(
                f"this {SOURCE} uses the scores of its trees in {len(users)} ways "
                f"({listed(sorted({each.op_type for each in users})) or 'none of which reaches an output'}), so debias "
                "does not know what it predicts"
            )
        output = _after(users[0], output, graph, made_by)
    return output


def _leads_to(node: Any, ends: set[str], graph: Any) -> bool:
    """Whether an output of the graph that is no label depends on a node."""
    reached = set(node.output)
    for each in graph.node:
        if reached.intersection(each.input) and each.op_type not in LABELS:
            reached.update(each.output)
    return bool(reached & ends)


def _after(node: Any, output: Output, graph: Any, made_by: dict[str, Any]) -> Output:
    """Return the output after one more node."""
    kind, tensor = node.op_type, node.output[0]
    if kind in SAME_NUMBERS:
        return replace(output, tensor=tensor)
    if kind in LINKS and output.link == "none":
        return replace(output, tensor=tensor, link=LINKS[kind])
    if kind in ("Mul", "Div", "Add", "Sub"):
        constant = _constant(next((name for name in node.input if name != output.tensor), ""), graph, made_by)
        first = node.input[0] == output.tensor
        if constant is not None and constant.size == 1 and (first or kind in ("Mul", "Add")):
            value = float(constant.ravel()[0])
            if output.link == "none" and kind in ("Mul", "Div") and value:
                factor = value if kind == "Mul" else 1 / value
                return replace(output, tensor=tensor, scale=output.scale * factor, shift=output.shift * factor)
            if output.link == "none" and kind in ("Add", "Sub"):
                return replace(output, tensor=tensor, shift=output.shift + (value if kind == "Add" else -value))
            if output.link == "exp" and kind in ("Mul", "Div") and value > 0:
                more = np.log(value) if kind == "Mul" else -np.log(value)
                return replace(output, tensor=tensor, shift=output.shift + float(more))
    raise UnsupportedModelError(
        f"this {SOURCE} has a node {kind} after its trees, and debias does not know what it means for them"
    )


def _constant(name: str, graph: Any, made_by: dict[str, Any]) -> NDArray[Any] | None:
    from onnx import numpy_helper

    for each in graph.initializer:
        if each.name == name:
            return np.asarray(numpy_helper.to_array(each))
    node = made_by.get(name)
    if node is not None and node.op_type == "Constant":
        for attribute in node.attribute:
            if attribute.name == "value":
                return np.asarray(numpy_helper.to_array(attribute.t))
    return None


def labels_of(node: Any) -> tuple[Any, ...] | None:
    """Return the labels of classes that a node has, numbers or texts."""
    for attribute in node.attribute:
        if attribute.name == "classlabels_strings" and attribute.strings:
            return tuple(each.decode() for each in attribute.strings)
        if attribute.name == "classlabels_int64s" and attribute.ints:
            return tuple(attribute.ints)
    return None
