"""Brute force: the output of a model without the splits on some columns, leaf by leaf, and small models to compare."""

import numpy as np

from debias.trees.routing import route
from support.missing_values import IN_FORESTS

CASES = [
    ("sklearn", "regression"),
    ("sklearn", "three classes"),
    ("xgboost", "regression"),
    ("xgboost", "binary"),
    ("xgboost", "three classes"),
    ("lightgbm", "regression"),
    ("lightgbm", "three classes"),
]


def drawn(kind, n=160, missing=0.1, seed=7):
    """Rounded columns, so that features come up again and again on one path, and missing values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).round(1)
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n)
    if kind != "regression":
        y = np.digitize(y, np.quantile(y, [0.5] if kind == "binary" else [0.3, 0.7]))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def fitted(models, library, kind):
    X, y = drawn(kind, missing=0.1 if IN_FORESTS or library != "sklearn" else 0)
    settings = {"max_depth": 4} | ({"min_child_samples": 3} if library == "lightgbm" else {})
    task = "regression" if kind == "regression" else "classification"
    model = models(library, task, n_estimators=3, **settings).fit(X[:100], y[:100])
    return model, X[100:], y[100:]


def goes_left(ensemble, node, x):
    """The rule of a split, as TreeEnsemble describes it."""
    if ensemble.category_set is not None and ensemble.category_set[node] >= 0:
        which = ensemble.category_set[node]
        if np.isnan(x):
            return ensemble.missing_left[node]
        codes = ensemble.category_codes[ensemble.category_start[which] : ensemble.category_start[which + 1]]
        return (int(x) in codes) == ensemble.listed_left[which]
    return ensemble.missing_left[node] if np.isnan(x) else x <= ensemble.routing_threshold[node]


def output_without(ensemble, x, columns, weight):
    """Return the raw output for one row, where splits on `columns` are followed both ways: a sum over all leaves."""
    raw = np.zeros(ensemble.n_outputs)
    for tree in range(ensemble.n_trees):
        begin, end = ensemble.tree_start[tree : tree + 2]
        first = ensemble.tree_output[tree]
        for leaf in np.flatnonzero(ensemble.left[begin:end] < 0):
            node, share = leaf, 1.0
            while node > 0:
                above = ensemble.parent[begin + node]
                is_left = ensemble.left[begin + above] == node
                if ensemble.feature[begin + above] in columns:
                    total = weight[begin + above]
                    share *= weight[begin + node] / total if total > 0 else 0.5
                else:
                    value = x[ensemble.feature[begin + above]]
                    share *= goes_left(ensemble, begin + above, value) == is_left
                node = above
            raw[first : first + ensemble.value.shape[1]] += share * ensemble.value[begin + leaf]
    return raw / (ensemble.n_trees if ensemble.averaged else 1) + ensemble.base


def evaluation_weight(ensemble, X, weight):
    """Return the weight of the rows that reach each node."""
    reached = np.zeros(ensemble.n_nodes)
    leaves = route(ensemble, X)
    for tree in range(ensemble.n_trees):
        for row, leaf in enumerate(leaves[:, tree]):
            node = leaf
            while node >= 0:
                reached[ensemble.tree_start[tree] + node] += weight[row]
                node = ensemble.parent[ensemble.tree_start[tree] + node]
    return reached
