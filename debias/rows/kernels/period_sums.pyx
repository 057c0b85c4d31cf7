"""Compiled loops that add the rows of a period to the sums at their leaves, and find scores without parts of them."""

from libc.stdint cimport int32_t, int64_t

import numpy as np


def add_groups(
    const int32_t[:, :] leaves,
    const int64_t[::1] trees,
    const int64_t[::1] start,
    const int32_t[::1] left,
    const int32_t[::1] right,
    const int32_t[::1] feature,
    const int32_t[::1] tree_output,
    const double[:, ::1] mu,
    const double[:, ::1] values,
    const double[:, ::1] residual,
    const double[::1] weight,
    const int64_t[::1] edges,
    double[::1] n,
    double[:, ::1] s,
    double[:, ::1] e,
    double[:, :, ::1] terms,
):
    """Add rows at their leaves, and sum the terms of ``mdi_oob`` over all rows and without each group of rows.

    Rows from ``edges[g]`` to ``edges[g + 1]`` are group g. Weights are added to `n`, the response `values` to `s`, and
    its `residual` to `e`. In ``terms[g, 0]`` the terms of the response are summed by feature over all rows but those of
    group g; in ``terms[g, 1]``, those of the residual. The last entries of `terms` are over all rows.
    """
    cdef int64_t width = mu.shape[1], n_groups = edges.shape[0] - 1, n_columns = 1 + 2 * width
    cdef int64_t most = 1, j, g, i, k, node, begin, size, first, a, b, c
    cdef double[:, :, ::1] sums
    cdef double of_response, of_residual, n_a, n_b, w, scale, difference
    for j in range(trees.shape[0]):
        most = max(most, start[trees[j] + 1] - start[trees[j]])
    sums = np.empty((n_groups + 1, most, n_columns))
    with nogil:
        for j in range(trees.shape[0]):
            begin, first = start[trees[j]], tree_output[trees[j]]
            size = start[trees[j] + 1] - begin
            sums[:, :size] = 0.0
            for g in range(n_groups):
                for i in range(edges[g], edges[g + 1]):
                    node, w = leaves[i, j], weight[i]
                    sums[g, node, 0] += w
                    for k in range(width):
                        sums[g, node, 1 + k] += w * values[i, first + k]
                        sums[g, node, 1 + width + k] += w * residual[i, first + k]
            for node in range(size):
                if left[begin + node] >= 0:
                    continue
                for c in range(n_columns):
                    for g in range(n_groups):
                        sums[n_groups, node, c] += sums[g, node, c]
                    for g in range(n_groups):
                        # Only leaves subtract. Above them, sums without a group are added up as those of all rows.
                        sums[g, node, c] = sums[n_groups, node, c] - sums[g, node, c]
                n[begin + node] += sums[n_groups, node, 0]
                for k in range(width):
                    s[begin + node, k] += sums[n_groups, node, 1 + k]
                    e[begin + node, k] += sums[n_groups, node, 1 + width + k]
            for g in range(n_groups + 1):
                # Children come after their parent, so they are complete here.
                for node in range(size - 1, -1, -1):
                    a, b = left[begin + node], right[begin + node]
                    if a < 0:
                        continue
                    for c in range(n_columns):
                        sums[g, node, c] = sums[g, a, c] + sums[g, b, c]
                    n_a, n_b = sums[g, a, 0], sums[g, b, 0]
                    # With its group a side may have lost all rows: such a split contributes nothing, as in mdi_oob.
                    if n_a <= 0 or n_b <= 0:
                        continue
                    of_response = of_residual = 0.0
                    scale = 1 / (n_a + n_b)
                    for k in range(width):
                        # (n_b s_a - n_a s_b) / n = s_a - n_a (s_a + s_b) / n: the sum on the left, about the mean.
                        difference = mu[begin + a, k] - mu[begin + b, k]
                        of_response += difference * (n_b * sums[g, a, 1 + k] - n_a * sums[g, b, 1 + k]) * scale
                        of_residual += (
                            difference * (n_b * sums[g, a, 1 + width + k] - n_a * sums[g, b, 1 + width + k]) * scale
                        )
                    terms[g, 0, feature[begin + node]] += of_response
                    terms[g, 1, feature[begin + node]] += of_residual
