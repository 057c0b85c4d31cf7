"""Adapter of ONNX: trees in files that converters of many libraries write, run by onnxruntime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    """Return three stumps on the first column, made by hand: converters are packages of their own."""
    from onnx import TensorProto, helper

    middle, n_trees = float(X[:, 0].mean()), 3
    trees = [t for t in range(n_trees) for _ in range(3)]
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["X"],
        ["prediction"],
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function="AVERAGE",
        nodes_treeids=trees,
        nodes_nodeids=[0, 1, 2] * n_trees,
        nodes_featureids=[0] * 3 * n_trees,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * n_trees,
        nodes_values=[value for t in range(n_trees) for value in (middle + t, 0.0, 0.0)],
        nodes_truenodeids=[1, 0, 0] * n_trees,
        nodes_falsenodeids=[2, 0, 0] * n_trees,
        target_treeids=[t for t in range(n_trees) for _ in range(2)],
        target_nodeids=[1, 2] * n_trees,
        target_ids=[0] * 2 * n_trees,
        target_weights=[value for t in range(n_trees) for value in (float(y.mean()) - t, float(y.mean()) + t)],
    )
    graph = helper.make_graph(
        [node],
        "stumps",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, X.shape[1]])],
        [helper.make_tensor_value_info("prediction", TensorProto.FLOAT, [None, 1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


LIBRARY = Library("ONNX", "onnx", _small_model, tested=("1.18", "1.23"), extra="onnx", page="libraries/onnx")
