"""Runs of parts of an ONNX graph by onnxruntime: the columns of the trees, their leaves, their scores, the output.

onnxruntime does not return leaves. It runs a copy of the trees in which each leaf adds its own number to an output of
its tree, so the leaves are those of the runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, UnsupportedModelError
from debias.text import listed
from debias_adapters.onnx.graph import DOMAIN, DTYPES, FLOAT, SOURCE, STRING, Parts, parts_of
from debias_adapters.onnx.reading import Nodes, in_order_of_growth, nodes_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

TREE_INPUT = "debias_columns_of_trees"
IR_VERSION = 8
"""Version of the format in which parts are passed to the runtime, if the model has an older one."""


@dataclass(frozen=True, eq=False)
class OnnxTrees:
    """The trees of an ONNX model, on their own input columns.

    Parameters
    ----------
    parts : Parts
    """

    parts: Parts

    @classmethod
    def of(cls, model: Any) -> OnnxTrees:
        """Return the trees of a model.

        Parameters
        ----------
        model : onnx.ModelProto
        """
        return cls(parts_of(model))

    def __reduce__(self) -> Any:  # sessions cannot be sent to other processes
        return type(self).of, (self.parts.model,)

    @cached_property
    def nodes(self) -> Nodes:
        """The nodes of the trees."""
        nodes = nodes_of(self.parts.node)
        return in_order_of_growth(nodes) if self.parts.model.producer_name == "CatBoost" else nodes

    @property
    def is_direct(self) -> bool:
        """Whether the columns of the trees are those of the only input."""
        return not self.parts.before and len({each.of_input for each in self.parts.columns}) == 1

    @cached_property
    def input_type(self) -> int:
        """Code of the type of the columns of the trees."""
        return self.parts.columns[0].type if self.is_direct else FLOAT if self._made is None else self._made[0]

    @cached_property
    def n_features(self) -> int:
        """Number of columns of the trees."""
        if self.is_direct:
            return len(self.parts.columns)
        assert self._made is not None
        return self._made[1]

    @cached_property
    def _made(self) -> tuple[int, int] | None:
        """Type and number of the columns that the graph makes of one row of zeros and empty texts."""
        row = {
            name: np.full((1, len(types)), "" if types[0] == STRING else 0, dtype=_dtype(types[0]))
            for name, types in self._inputs.items()
        }
        made = self._run(self._before, row)
        codes = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
        if made.ndim != 2 or made.dtype not in codes:
            raise UnsupportedModelError(f"the trees of this {SOURCE} do not take a table of numbers")
        return codes[made.dtype], made.shape[1]

    @cached_property
    def _inputs(self) -> dict[str, list[int]]:
        inputs: dict[str, list[int]] = {}
        for column in self.parts.columns:
            inputs.setdefault(column.of_input, []).append(column.type)
        return inputs

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the columns that the trees see.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_columns)
            Columns of the inputs of the graph: by name if each input is one column and X has names.

        Raises
        ------
        RowsError
            A column is missing, or has values that its input cannot take.
        """
        table = _table(X, self.parts, self._by_name)
        feeds: dict[str, list[NDArray[Any]]] = {}
        for column, values in zip(self.parts.columns, table, strict=True):
            feeds.setdefault(column.of_input, []).append(_as_type(values, column.type, column.of_input))
        return self._run(self._before, {name: np.column_stack(parts) for name, parts in feeds.items()})

    def in_order(self, X: Any) -> Any:
        """Return X with its columns in the order of the inputs; an X without their names has them in that order."""
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, pass_through=True)
        names = [each.of_input for each in self.parts.columns]
        if isinstance(frame, nw.DataFrame) and self._by_name and set(names) <= set(frame.columns):
            return frame.select(names).to_native()
        return X

    @property
    def _by_name(self) -> bool:
        columns = self.parts.columns
        return len(columns) > 1 and all(each.alone for each in columns)

    def as_input(self, X: Any) -> NDArray[Any]:
        """Return rows for the trees in the type that they take."""
        array = np.asarray(X)
        if array.dtype.kind not in "fiub":
            raise RowsError(f"this {SOURCE} takes numbers, and X has values of type {array.dtype}")
        if self.input_type not in (1, 11) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RowsError(f"this {SOURCE} takes whole numbers only, so X may have no missing or infinite values")
        return np.ascontiguousarray(array, dtype=_dtype(self.input_type))

    def leaves(self, X: Any) -> NDArray[np.int32]:
        """Return the position of the leaf of each row in each tree, shape (n_rows, n_trees)."""
        found = self._run(self._leaves, {TREE_INPUT: self.as_input(X)})
        return np.asarray(np.rint(found), dtype=np.int32).reshape(len(X), -1)

    def sums(self, X: Any) -> NDArray[np.float64]:
        """Return what the trees add up to, with the base, shape (n_rows, n_ids); no function is applied to it."""
        return self._run(self._sums, {TREE_INPUT: self.as_input(X)}).astype(np.float64).reshape(len(X), -1)

    def output(self, X: Any) -> NDArray[np.float64]:
        """Return the last numbers of the graph: probabilities of classes, or predictions."""
        return self._run(self._tail, {TREE_INPUT: self.as_input(X)}).astype(np.float64).reshape(len(X), -1)

    @cached_property
    def _before(self) -> Any:
        parts, graph = self.parts, self.parts.model.graph
        return self._session(parts.before, [each for each in graph.input if each.name in self._inputs],
                             parts.node.input[0])  # fmt: skip

    @cached_property
    def _tail(self) -> Any:
        graph, reached = self.parts.model.graph, {self.parts.output.tensor}
        kept: list[Any] = []
        before = {name for each in self.parts.before for name in each.output}
        for each in reversed(graph.node):
            if reached.intersection(each.output) and not before.intersection(each.output):
                kept.insert(0, each)
                reached.update(each.input)
        kept = [self._on_tree_input(each) for each in kept]
        return self._session(kept, [self._input_of_trees], self.parts.output.tensor)

    @cached_property
    def _sums(self) -> Any:
        """The trees as a regressor with an output for each class, without a function of the output."""
        node = self._on_tree_input(self.parts.node)
        if node.op_type == "TreeEnsembleClassifier":
            node = _as_regressor(node, self.nodes.scores.shape[1])
        _set(node, post_transform="NONE" if node.op_type == "TreeEnsembleRegressor" else 0)
        return self._session([node], [self._input_of_trees], node.output[0])

    @cached_property
    def _leaves(self) -> Any:
        """Trees that are built again from what was read would prove nothing: only scores are replaced."""
        node = self._on_tree_input(self.parts.node)
        if node.op_type == "TreeEnsembleClassifier":
            node = _as_regressor(node, self.nodes.scores.shape[1])
        _number_leaves(node, self.nodes)
        return self._session([node], [self._input_of_trees], node.output[0])

    @property
    def _input_of_trees(self) -> Any:
        from onnx import helper

        return helper.make_tensor_value_info(TREE_INPUT, self.input_type, [None, self.n_features])

    def _on_tree_input(self, node: Any) -> Any:
        """Return a copy of a node that takes the columns of the trees from an input."""
        copy = type(node)()
        copy.CopyFrom(node)
        for k, name in enumerate(copy.input):
            if name == self.parts.node.input[0]:
                copy.input[k] = TREE_INPUT
        return copy

    def _session(self, nodes: Sequence[Any], inputs: Sequence[Any], output: str) -> Any:
        """Return a session of onnxruntime for some nodes."""
        from onnx import helper

        try:
            import onnxruntime
        except ImportError as error:
            raise UnsupportedModelError(
                f"the trees of this {SOURCE} are compared with onnxruntime, which is not installed: "
                "pip install onnxruntime"
            ) from error
        model = self.parts.model
        names = {name for node in nodes for name in node.input} | {output}
        constants = [each for each in model.graph.initializer if each.name in names]
        graph = helper.make_graph(
            [*nodes], "part", [*inputs], [helper.make_empty_tensor_value_info(output)], initializer=constants
        )
        opsets = {each.domain: each.version for each in model.opset_import}
        opsets.setdefault("", 8)
        part = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
            ir_version=max(IR_VERSION, model.ir_version),
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            return onnxruntime.InferenceSession(part.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # errors of the runtime have no common class
            raise UnsupportedModelError(f"onnxruntime does not run this {SOURCE}: {_first_line(error)}") from error

    def _run(self, session: Any, feeds: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        try:
            (found,) = session.run(None, dict(feeds))
        except Exception as error:
            raise RowsError(f"onnxruntime does not run this {SOURCE} on these rows: {_first_line(error)}") from error
        return np.asarray(found)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _dtype(code: int) -> Any:
    return np.dtype(object) if code == STRING else np.dtype(DTYPES[code])


def _table(X: Any, parts: Parts, by_name: bool) -> list[Any]:
    """Return the columns of X in the order of the inputs of the graph."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names = [each.of_input for each in parts.columns]
        if by_name:
            absent = [name for name in names if name not in frame.columns]
            if absent:
                raise RowsError(
                    f"X lacks the columns {listed([repr(name) for name in absent])}, which are inputs of this {SOURCE}"
                )
        else:
            names = list(frame.columns)
            _require_width(len(names), parts)
        return [frame[name].to_numpy() for name in names]
    array = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    if array.ndim != 2:
        raise RowsError(f"X must be a table of rows and columns; it has the shape {array.shape}")
    _require_width(array.shape[1], parts)
    return list(array.T)


def _require_width(n_columns: int, parts: Parts) -> None:
    if n_columns != len(parts.columns):
        raise RowsError(f"X has {n_columns} columns, but this {SOURCE} takes {len(parts.columns)}")


def _as_type(values: Any, code: int, name: str) -> NDArray[Any]:
    """Return the values of a column in the type of its input."""
    array = np.asarray(values)
    if code == STRING:
        if any(value is None or value != value for value in array.tolist()):
            raise RowsError(
                f"a text of the input {name!r} is missing, and ONNX has no missing texts. Pass the text that stood for "
                "missing values when the model was converted, often ''"
            )
        return np.array([str(value) for value in array.tolist()], dtype=object)
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise RowsError(f"the input {name!r} of this {SOURCE} takes numbers: {error}") from error
    if _dtype(code).kind in "iub" and array.dtype.kind == "f" and not (array == np.floor(array)).all():
        raise RowsError(
            f"the input {name!r} of this {SOURCE} takes whole numbers, and X has missing values or fractions there"
        )
    return array.astype(_dtype(code))


def _set(node: Any, **values: Any) -> None:
    """Replace attributes of a node; None deletes one."""
    from onnx import helper

    kept = [each for each in node.attribute if each.name not in values]
    del node.attribute[:]
    node.attribute.extend(kept)
    new = {name: value for name, value in values.items() if value is not None}
    node.attribute.extend(helper.make_attribute(name, value) for name, value in new.items())


def _as_regressor(node: Any, n_ids: int) -> Any:
    """Return a classifier as a regressor with an output for each class: the same trees, weights and base."""
    from onnx import helper

    regressor = helper.make_node("TreeEnsembleRegressor", list(node.input), ["scores"], domain=DOMAIN)
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels"):
            continue
        copy = type(attribute)()
        copy.CopyFrom(attribute)
        copy.name = copy.name.replace("class_", "target_")
        regressor.attribute.append(copy)
    _set(regressor, n_targets=n_ids)
    if n_ids == 1:  # two classes with one score, which may be that of the second class
        ids = next(each for each in regressor.attribute if each.name == "target_ids")
        _set(regressor, target_ids=[0] * len(ids.ints))
    return regressor


def _number_leaves(node: Any, nodes: Nodes) -> None:
    """Let each leaf add its position within its tree to an output of its tree, and nothing else."""
    from onnx import numpy_helper

    n_trees = nodes.tree_start.size - 1
    order = nodes.leaf_order
    tree = np.searchsorted(nodes.tree_start, order, side="right") - 1
    position = (order - nodes.tree_start[tree]).astype(nodes.weight_dtype)
    if node.op_type == "TreeEnsemble":
        _set(
            node,
            n_targets=n_trees,
            leaf_targetids=tree.tolist(),
            leaf_weights=numpy_helper.from_array(position),
            post_transform=0,
            aggregate_function=1,
        )
        return
    is_double = nodes.weight_dtype == np.float64
    _set(
        node,
        n_targets=n_trees,
        target_treeids=nodes.file_tree[tree].tolist(),
        target_nodeids=nodes.leaf_number.tolist(),
        target_ids=tree.tolist(),
        target_weights=None if is_double else position.tolist(),
        target_weights_as_tensor=numpy_helper.from_array(position) if is_double else None,
        base_values=None,
        base_values_as_tensor=None,
        post_transform="NONE",
        aggregate_function="SUM",
    )
