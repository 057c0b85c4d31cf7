"""The scores of a period and the comparison of two windows, by their definitions, from all rows in memory."""

import numpy as np

from debias.trees.routing import route


def members(ensemble, X):
    """Return which rows reach each node, shape (n_nodes, n_rows), by following the parents of their leaves."""
    reached = np.zeros((ensemble.n_nodes, len(X)), dtype=bool)
    for tree, leaves in enumerate(route(ensemble, X).T):
        start = ensemble.tree_start[tree]
        for row, leaf in enumerate(leaves):
            node = leaf
            while node >= 0:
                reached[start + node, row] = True
                node = ensemble.parent[start + node]
    return reached


def score(ensemble, reached, values, weight):
    """Return ``mdi_oob``: the covariance of node values and a response (n_rows, n_outputs) in the nodes, by feature."""
    scores = np.zeros(ensemble.n_features)
    width = ensemble.value.shape[1]
    for (left, right), node, tree in zip(ensemble.children, ensemble.splits, ensemble.tree_of_split, strict=True):
        columns = slice(ensemble.tree_output[tree], ensemble.tree_output[tree] + width)
        n_left, n_right = (weight[reached[child]].sum() for child in (left, right))
        if n_left > 0 and n_right > 0:
            inside = reached[node]
            child_value = np.where(reached[left][inside][:, None], ensemble.value[left], ensemble.value[right])
            centred = values[inside][:, columns]
            centred = centred - np.average(centred, axis=0, weights=weight[inside])
            root = weight[reached[ensemble.tree_start[tree]]].sum()
            scores[ensemble.feature[node]] += (weight[inside][:, None] * child_value * centred).sum() / root
    return scores / (ensemble.n_trees if ensemble.averaged else 1)


def compared(ensemble, before, after):
    """Return the numbers of the module docstring of ``debias.significance.change``, as a dict.

    `before` and `after` are tuples of X, response and residual (n_rows, n_outputs), and weights. Rows are weighted so
    that each leaf has the weight h in both windows, tree by tree.
    """
    windows = [(members(ensemble, X), *others) for X, *others in (before, after)]
    of_leaf = [reached @ weight for reached, _, _, weight in windows]
    h = np.zeros(ensemble.n_nodes)
    both = (ensemble.left < 0) & (of_leaf[0] > 0) & (of_leaf[1] > 0)
    h[both] = of_leaf[0][both] * of_leaf[1][both] / (of_leaf[0] + of_leaf[1])[both]
    standardised = np.zeros((2, 2, ensemble.n_features))
    for k, (reached, response, residual, weight) in enumerate(windows):
        for tree in range(ensemble.n_trees):
            nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
            leaf = np.flatnonzero(both[nodes]) + nodes.start
            share = (np.where(reached[leaf], (h[leaf] / of_leaf[k][leaf])[:, None], 0)).sum(axis=0)
            only = np.zeros_like(reached)
            only[nodes] = reached[nodes]
            for j, values in enumerate((response, residual)):
                standardised[j, k] += score(ensemble, only, values, weight * share)
    (S, R), M = standardised, standardised[0] - standardised[1]
    believed = M.mean(axis=0)
    usable = (M > 0).all(axis=0)
    factor = np.where(usable, np.clip(believed / np.where(usable, M, 1), 0.5, 2), 1)
    return {
        "before": score(ensemble, *(windows[0][i] for i in (0, 1, 3))),
        "after": score(ensemble, *(windows[1][i] for i in (0, 1, 3))),
        "believed": believed,
        "slopes": np.where(usable, S / np.where(usable, M, 1), np.nan),
        "response_change": factor[1] * R[1] - factor[0] * R[0],
    }
