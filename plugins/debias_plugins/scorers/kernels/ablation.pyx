"""The compiled loop of ablation: the figure of each row at the splits on some columns."""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np


def add_steps(
    const int32_t[:, ::1] leaves,
    const int64_t[::1] start,
    const int32_t[::1] tree_output,
    const int32_t[::1] feature,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] parent,
    const double[:, ::1] value,
    const double[::1] reached,
    const uint8_t[::1] member,
    const double[::1] weight,
    const double[:, ::1] residual,
    double[::1] term,
):
    """Add the term of each row at the splits on some columns: its step there times its centred residual.

    The step is the value of the child that the row goes to less the mean of both children; the residual is centred by
    the mean of the node. Both means are over the evaluation rows.

    Parameters
    ----------
    leaves : array of shape (n_trees, n_rows)
    start, tree_output, feature, left, right, parent, value
        The ensemble's arrays.
    reached : array of shape (n_nodes,)
        Evaluation weight of each node.
    member : array of shape (n_features,)
        1 for the columns whose splits count.
    weight : array of shape (n_rows,)
    residual : array of shape (n_rows, n_outputs)
    term : array of shape (n_rows,)
    """
    cdef int64_t most = np.max(np.diff(start), initial=0), width = value.shape[1], n_rows = leaves.shape[1]
    cdef double[:, ::1] total = np.empty((most, width)), mean = np.empty((most, width))
    cdef int64_t t, i, c, begin, size, node, above, first
    cdef bint any_split
    with nogil:
        for t in range(leaves.shape[0]):
            begin, size, first, any_split = start[t], start[t + 1] - start[t], tree_output[t], False
            for node in range(size):
                if left[begin + node] < 0 or not member[feature[begin + node]]:
                    continue
                any_split = True
                for c in range(width):
                    total[node, c] = mean[node, c] = 0.0
                    if reached[begin + node] > 0:
                        mean[node, c] = (
                            reached[begin + left[begin + node]] * value[begin + left[begin + node], c]
                            + reached[begin + right[begin + node]] * value[begin + right[begin + node], c]
                        ) / reached[begin + node]
            if not any_split:
                continue
            for i in range(n_rows):
                node = leaves[t, i]
                while node > 0:
                    above = parent[begin + node]
                    if member[feature[begin + above]]:
                        for c in range(width):
                            total[above, c] += weight[i] * residual[i, first + c]
                    node = above
            for i in range(n_rows):
                node = leaves[t, i]
                while node > 0:
                    above = parent[begin + node]
                    if member[feature[begin + above]] and reached[begin + above] > 0:
                        for c in range(width):
                            term[i] += (value[begin + node, c] - mean[above, c]) * (
                                residual[i, first + c] - total[above, c] / reached[begin + above]
                            )
                    node = above
