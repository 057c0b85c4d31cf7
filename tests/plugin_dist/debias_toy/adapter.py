import sys

import numpy as np

import debias
from debias.trees.objectives import SQUARED_ERROR


def is_mine(model):
    toy = sys.modules.get("debias_toy.model")  # a model exists only if its library was imported
    return toy is not None and isinstance(model, toy.ToyForest)


def flat(tree):
    """Return the nodes of a tree, each before its children."""
    nodes = [tree]
    for node in nodes:  # the list grows while it is read
        nodes += [node[side] for side in ("below", "above") if side in node]
    return nodes


def table(tree):
    """Yield one row per node: feature, threshold, left, right, mean, weight, number of distinct rows, variance."""
    nodes = flat(tree)
    position = {id(node): k for k, node in enumerate(nodes)}
    for node in nodes:
        split = (-1, 0.0, -1, -1)
        if "feature" in node:
            # debias sends x <= threshold to the left, this library x < threshold
            threshold = np.nextafter(node["threshold"], -np.inf)
            split = (node["feature"], threshold, position[id(node["below"])], position[id(node["above"])])
        yield *split, node["mean"], node["rows"], node["distinct"], node["variance"]


@debias.plugin.hookimpl
def debias_extract(model):
    if not is_mine(model):
        return None
    if not hasattr(model, "trees"):
        raise debias.UnsupportedModelError("this ToyForest is not fitted: call fit(X, y) first")
    tables = [np.array(list(table(tree))) for tree in model.trees]
    feature, threshold, left, right, mean, weight, count, impurity = np.concatenate(tables).T
    return debias.plugin.TreeEnsemble(
        tree_start=np.cumsum([0] + [len(nodes) for nodes in tables]),
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        missing_left=np.zeros(len(left), dtype=bool),  # NaN < threshold is false
        value=mean[:, None],
        averaging_weight=weight,
        weight=weight,
        count=count,
        impurity=impurity,
        criterion="squared_error",
        mean_values=True,  # leaves hold means of the training response, so debias can check y against them
        averaged=True,
        base=np.zeros(1),
        tree_output=np.zeros(len(tables)),
        objective=SQUARED_ERROR,
        classes=None,
        feature_names=tuple(f"x{k}" for k in range(model.n_features)),
        named=False,  # the model was fitted without names; these are made up
        n_train=model.n_rows,  # or sampled_share: without both, rows are never said to be mostly fresh
        routing_dtype=np.dtype(np.float64),
        source="ToyForest",
        version="0.1",
    )


@debias.plugin.hookimpl
def debias_leaves(model, X):
    if not is_mine(model):
        return None
    leaves = np.empty((len(X), len(model.trees)), dtype=np.int32)
    for k, tree in enumerate(model.trees):
        position = {id(node): number for number, node in enumerate(flat(tree))}
        leaves[:, k] = [position[id(model.leaf(tree, x))] for x in X]
    return leaves


@debias.plugin.hookimpl
def debias_predict_raw(model, X):
    return model.predict(X)[:, None] if is_mine(model) else None


@debias.plugin.hookimpl
def debias_predict_native(model, X):
    return model.predict(X)[:, None] if is_mine(model) else None


@debias.plugin.hookimpl
def debias_in_bag(model):
    return debias.plugin.InBag.from_rows(model.bags, model.n_rows) if is_mine(model) else None


@debias.plugin.hookimpl
def debias_refit(model, X, y, sample_weight, seed):
    if not is_mine(model):
        return None
    if sample_weight is not None:
        raise debias.UnsupportedModelError("a ToyForest takes no weights: leave sample_weight out")
    return type(model)(model.n_trees, model.depth, model.seed if seed is None else seed).fit(X, y)
