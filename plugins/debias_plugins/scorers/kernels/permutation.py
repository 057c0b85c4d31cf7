"""The compiled loop of permutation importance. Importing this module imports numba, so import it on first use."""

import numpy as np
from numba import njit

from debias.trees.kernels.routing import goes_left


@njit(cache=True, nogil=True)
def add_permuted_outputs(X, rows, donors, nodes, value, first, group, raw):
    """Add the output of one tree for each row, with the columns of one group at a time taken from another row.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    rows : array of shape (n,)
        Rows of X to evaluate.
    donors : array of shape (1, n) or (n_groups, n)
        The row of X from which each row takes its values: one for all groups, or one per group.
    nodes : tuple
        The tree, as :func:`debias.trees.routing.tree_nodes` returns it.
    value : array of shape (n_nodes, width)
    first : int
        First output of the tree.
    group : array of shape (n_features,)
        Number of the group of each column; -1 for columns that are not permuted.
    raw : array of shape (n, n_groups, n_outputs)
        The output is added to it.

    Notes
    -----
    If the path of a row has no split on a group, the row reaches the same leaf. So only the groups on its path are
    routed again, from the first node that splits on them.
    """
    _, feature, left, right, threshold, plain, missing_left, zero_is_missing, category_set, sets = nodes
    n_groups, width = raw.shape[1], value.shape[1]
    last = np.full(n_groups, -1, dtype=np.int64)
    met, start = np.empty(n_groups, dtype=np.int64), np.empty(n_groups, dtype=np.int64)
    for i in range(rows.size):
        own, node, n_met = rows[i], 0, 0
        while left[node] >= 0:
            k = feature[node]
            g = group[k]
            if g >= 0 and last[g] < i:
                last[g], met[n_met], start[n_met] = i, g, node
                n_met += 1
            x = X[own, k]
            if plain[node] and not np.isnan(x):
                on_left = x <= threshold[node]
            else:
                split = threshold[node], missing_left[node], zero_is_missing[node], category_set[node]
                on_left = goes_left(x, *split, sets)
            node = left[node] if on_left else right[node]
        for g in range(n_groups):
            if last[g] < i:
                for c in range(width):
                    raw[i, g, first + c] += value[node, c]
        for m in range(n_met):
            g, at = met[m], start[m]
            donor = donors[g if donors.shape[0] > 1 else 0, i]
            while left[at] >= 0:
                k = feature[at]
                x = X[donor if group[k] == g else own, k]
                if plain[at] and not np.isnan(x):
                    on_left = x <= threshold[at]
                else:
                    split = threshold[at], missing_left[at], zero_is_missing[at], category_set[at]
                    on_left = goes_left(x, *split, sets)
                at = left[at] if on_left else right[at]
            for c in range(width):
                raw[i, g, first + c] += value[at, c]
