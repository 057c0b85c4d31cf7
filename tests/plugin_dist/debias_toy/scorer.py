import numpy as np

import debias


@debias.plugin.scorer_plugin("inverse_depth", unit="share of 1 / depth over splits", needs_rows=False)
def inverse_depth(ensemble, rows, *, power=1.0):
    score = np.zeros(ensemble.n_features)
    for number in range(ensemble.n_trees):
        tree = ensemble.tree(number)
        depth = np.ones(len(tree.left))
        for node in np.flatnonzero(tree.left >= 0):  # inner nodes; parents precede children
            depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
            score[tree.feature[node]] += depth[node] ** -power
    return score / max(score.sum(), 1e-300)  # a model without splits scores 0


@debias.plugin.hookimpl
def debias_scorers():
    return [inverse_depth]
