"""Compiled loop that reads the nodes of a tree: each node once, instead of once for each of its fields."""

from libc.stdint cimport int32_t, int64_t, uint8_t

# The fields of `debias_adapters.sklearn.reading.NODE`.
cdef struct Node:
    int64_t left_child
    int64_t right_child
    int64_t feature
    double threshold
    double impurity
    int64_t n_node_samples
    double weighted_n_node_samples
    uint8_t missing_go_to_left


def copy_nodes(
    const uint8_t[:, ::1] nodes,
    int32_t[::1] left,
    int32_t[::1] right,
    int32_t[::1] feature,
    double[::1] threshold,
    double[::1] impurity,
    int64_t[::1] count,
    double[::1] weight,
    uint8_t[::1] missing_left,
):
    """Copy the fields of nodes, given as bytes (n_nodes, bytes of a node). The feature of leaves becomes -1."""
    cdef Py_ssize_t i
    cdef const Node* node
    with nogil:
        for i in range(nodes.shape[0]):
            node = <const Node*> &nodes[i, 0]
            left[i] = <int32_t> node.left_child
            right[i] = <int32_t> node.right_child
            feature[i] = <int32_t> max(node.feature, -1)  # scikit-learn has -2 there
            threshold[i] = node.threshold
            impurity[i] = node.impurity
            count[i] = node.n_node_samples
            weight[i] = node.weighted_n_node_samples
            missing_left[i] = node.missing_go_to_left
