"""Brute force: the test of residuals by its definition, leaf by leaf."""

import numpy as np

import debias
from support.without import evaluation_weight, output_without


def uses_by_definition(ensemble, X, weight, columns):
    """Effect, steps and root steps of a group of columns, shape (3, n_rows, n_outputs)."""
    reached = evaluation_weight(ensemble, X, weight)
    full, without = (np.array([output_without(ensemble, x, left, reached) for x in X]) for left in ((), columns))
    steps = np.zeros((2, *full.shape))
    leaves = debias.trees.routing.route(ensemble, X)
    for tree in range(ensemble.n_trees):
        begin = ensemble.tree_start[tree]
        outputs = slice(ensemble.tree_output[tree], ensemble.tree_output[tree] + ensemble.value.shape[1])
        for i, leaf in enumerate(leaves[:, tree]):
            node = leaf
            while node > 0:
                above = ensemble.parent[begin + node]
                if ensemble.feature[begin + above] in columns and reached[begin + above] > 0:
                    left, right = begin + ensemble.left[begin + above], begin + ensemble.right[begin + above]
                    other = left if begin + node == right else right
                    d = ensemble.value[begin + node] - ensemble.value[other]
                    share = reached[other] / reached[begin + above]
                    steps[0, i, outputs] += share * d
                    steps[1, i, outputs] += share * np.sign(d) * np.sqrt(np.abs(d))
                node = above
    return np.stack([full - without, *(steps / (ensemble.n_trees if ensemble.averaged else 1))])


def expected_by_definition(ensemble, X, weight, columns, kind):
    """The expected response without some columns: of boosters at the margin, less that before any tree."""
    reached = evaluation_weight(ensemble, X, weight)
    output = np.array([output_without(ensemble, x, columns, reached) for x in X])
    if ensemble.averaged or kind == "regression":
        return output
    if kind == "binary":
        return 1 / (1 + np.exp(-output))
    return np.exp(output) / np.exp(output).sum(axis=1, keepdims=True)


def clipped(values, used):
    """Deviations from the median, at most two robust standard deviations."""
    deviation = values - np.median(values[used])
    quartile, large = np.quantile(np.abs(deviation[used]), [0.75, 0.98])
    limit = 2 * max(quartile / 1.15, 0.025 * large)
    return np.clip(deviation, -limit, limit)


def residual_by_definition(y, expected, weight, is_class):
    """One output: the regression on the expected response, clipping, and the weights of rows."""
    share, used = weight / weight.sum(), weight > 0
    y, expected = y - share @ y, expected - share @ expected
    for_slope = y if is_class else clipped(y, used)
    constant = np.abs(expected).max() < 1e-12  # all columns are left out
    slope = 0.0 if constant else max(0.0, np.sum(share * for_slope * expected) / np.sum(share * expected**2))
    residual = y - slope * expected
    if not is_class:
        residual = clipped(residual, used)
    return weight * (residual - share @ residual)


def t_of(products):
    """A sum over its standard deviation."""
    total = products.sum()
    variance = (products**2).sum() - total**2 / products.size
    return total / np.sqrt(variance) if variance > 1e-20 * (products**2).sum() else 0.0
