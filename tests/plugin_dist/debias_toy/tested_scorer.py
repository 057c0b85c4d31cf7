import numpy as np

import debias


def share_of_rows(ensemble, rows, *, power=1.0):
    """Return the factor of each node: its share of the in-bag rows of its tree, raised to a power."""
    weight = rows.in_bag_weight
    of_root = np.repeat(weight[ensemble.tree_start[:-1]], np.diff(ensemble.tree_start))
    return (weight / of_root) ** power


@debias.plugin.scorer_plugin("large_nodes", unit="covariance of tree and response", node_weight=share_of_rows)
def large_nodes(ensemble, rows, *, power=1.0):
    splits, (left, right) = ensemble.splits, ensemble.children.T
    n, s = rows.node_sums.n, rows.node_sums.s  # weight and sum of the response, shapes (n_nodes,) and (n_nodes, width)
    step = ensemble.centred_value[left] - ensemble.centred_value[right]
    covariance = (step * (n[right, None] * s[left] - n[left, None] * s[right])).sum(axis=1)
    term = covariance / np.where(n[splits] > 0, n[splits], 1.0) * share_of_rows(ensemble, rows, power=power)[splits]
    n_root = rows.node_sums.n_root
    n_trees = (n_root > 0).sum() if ensemble.averaged else 1  # trees of a forest are averaged, boosted trees are summed
    term /= np.where(n_root > 0, n_root, 1.0)[ensemble.tree_of_split] * n_trees
    return np.bincount(ensemble.feature[splits], weights=term, minlength=ensemble.n_features)


@debias.plugin.hookimpl
def debias_scorers():
    return [large_nodes]
