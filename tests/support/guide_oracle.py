"""GUIDE's unadjusted scores in plain Python: steps 1 to 7 of Loh and Zhou (2020), section 2, in order.

A feature is a list of values, with None for missing ones. Only scipy's chi-square is shared with the package.
"""

import math
from itertools import combinations

import numpy as np
from scipy import special, stats


def unadjusted(features, categorical, y, classes=False, levels=4, min_node_size=5):
    """Return the scores of equation 1; `features` is a list of lists."""
    scores = [0.0] * len(features)
    grow(features, categorical, y, classes, list(range(len(y))), levels, min_node_size, scores)
    return scores


def grow(features, categorical, y, classes, rows, levels, smallest, scores):
    if levels == 0 or len(rows) < 2 * smallest:
        return
    p = log_p_values(features, categorical, z_of(y, classes, rows), rows)
    if min(p) == 0:
        return
    chosen = first_smallest(p)  # step 7: the smallest k
    left = best_split(features[chosen], categorical[chosen], y, classes, rows, smallest)
    if left is None:
        return
    for k in range(len(features)):
        scores[k] += math.sqrt(len(rows)) * chi_square_quantile(p[k])
    for child in ([i for i in rows if i in left], [i for i in rows if i not in left]):
        grow(features, categorical, y, classes, child, levels - 1, smallest, scores)


def first_smallest(values):
    """Return the index of the first value that equals the smallest up to rounding."""
    return next(k for k, value in enumerate(values) if value <= min(values) * (1 - 1e-10))


def chi_square_quantile(log_p):
    """Return the (1 - p)-quantile of chi-square with one degree of freedom: the squared normal (1 - p/2)-quantile."""
    return float(special.ndtri_exp(log_p - math.log(2)) ** 2)


def z_of(y, classes, rows):
    """Return the class of each row for the tests: steps 1 and 2."""
    if classes:
        return {i: y[i] for i in rows}
    mean = sum(y[i] for i in rows) / len(rows)
    return {i: 1 if y[i] - mean > 1e-12 * max(abs(y[j]) for j in rows) else 2 for i in rows}


def log_p_values(features, categorical, z, rows):
    """Return the log p-value of each feature: steps 3 to 6."""
    K = len(features)
    m = 3 if len(rows) < 60 else 4
    groups = [grouped(features[k], categorical[k], rows, m) for k in range(K)]
    p = [log_p(g, z, rows) for g in groups]
    if K > 1 and min(p) >= math.log(0.10 / K):
        groups = []
        for k in range(K):
            has_missing = any(features[k][i] is None for i in rows)
            groups.append(grouped(features[k], categorical[k], rows, 2 if has_missing else 3))
        tests = {}
        for j, k in combinations(range(K), 2):
            if len(set(groups[j].values())) > 1 and len(set(groups[k].values())) > 1:
                tests[j, k] = log_p({i: (groups[j][i], groups[k][i]) for i in rows}, z, rows)
        if tests:
            pair = list(tests)[first_smallest(list(tests.values()))]
            if tests[pair] < math.log(0.20 / (K * (K - 1))):
                p[pair[0]] = p[pair[1]] = tests[pair]
    return p


def grouped(feature, categorical, rows, m):
    """Return each row's group: its category, one of m groups of similar size for ordinal values, None if missing."""
    present = sorted(feature[i] for i in rows if feature[i] is not None)
    if categorical or not present:
        return {i: feature[i] for i in rows}
    distinct = sorted(set(present))
    if len(distinct) <= m:
        upper = distinct[:-1]
    else:
        changes = {sum(x <= value for x in present): value for value in distinct[:-1]}
        upper = [changes[min(changes, key=lambda c: (abs(c - j * len(present) / m), c))] for j in range(1, m)]
    return {i: None if feature[i] is None else sum(feature[i] > u for u in set(upper)) for i in rows}


def log_p(groups, z, rows):
    """Return the log p-value of a contingency table by chi-square without continuity correction: step 5."""
    columns = sorted({groups[i] for i in rows}, key=repr)
    lines = sorted({z[i] for i in rows})
    if len(columns) < 2 or len(lines) < 2:
        return 0.0
    table = np.zeros((len(lines), len(columns)))
    for i in rows:
        table[lines.index(z[i]), columns.index(groups[i])] += 1
    found = stats.chi2_contingency(table, correction=False)
    return float(stats.chi2.logsf(found.statistic, found.dof))


def best_split(feature, categorical, y, classes, rows, smallest):
    """Return the rows that go left at the split that decreases squared error or Gini impurity most: step 7."""
    best, left_of_best = -math.inf, None
    for left in candidates(feature, categorical, y, classes, rows):
        right = [i for i in rows if i not in left]
        if min(len(left), len(right)) < smallest:
            continue
        decrease = -impurity(y, classes, left) - impurity(y, classes, right)
        if decrease > best + 1e-9:
            best, left_of_best = decrease, left
    return left_of_best


def impurity(y, classes, rows):
    values = [y[i] for i in rows]
    if classes:
        return len(rows) * (1 - sum((values.count(c) / len(rows)) ** 2 for c in set(values)))
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def candidates(feature, categorical, y, classes, rows):
    missing = {i for i in rows if feature[i] is None}
    if categorical:
        levels = sorted({feature[i] for i in rows if feature[i] is not None}) + ([None] if missing else [])
        responses = [lambda i: y[i]]
        if classes:
            of_class = sorted(set(y))
            responses = [lambda i, c=c: float(y[i] == c) for c in of_class[1 if len(of_class) == 2 else 0 :]]
        for response in responses:
            members = {level: [i for i in rows if feature[i] == level] for level in levels}
            order = sorted(levels, key=lambda level: sum(map(response, members[level])) / len(members[level]))  # noqa: B023
            for cut in range(1, len(order)):
                yield {i for i in rows if feature[i] in order[:cut]}
        return
    for value in sorted({feature[i] for i in rows if feature[i] is not None}):
        below = {i for i in rows if feature[i] is not None and feature[i] <= value}
        yield below
        if missing:
            yield below | missing
