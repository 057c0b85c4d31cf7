"""Every score by brute force, from docs/methods.md and the libraries' own public structures.

Nothing here comes from debias. Rows walk down the trees one at a time, and every sum is a loop over the rows of a
node. The formulas are those of methods.md (shares of rows, means, impurities), not the forms that debias computes.
This is slow on purpose: where debias and this file disagree, one of them is wrong. It is one file because all scores
share the walk and the sums.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Vector = list[float]
Members = list[tuple[Vector, float]]  # the rows of a node: response and weight of each
LIGHTGBM_ZERO = float(np.float32(1e-35))
XGBOOST_LOSS = {
    "reg:squarederror": "squared_error",
    "reg:logistic": "logistic",
    "binary:logistic": "logistic",
    "binary:logitraw": "logistic",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
}
MEAN_CRITERIA = {"gini", "entropy", "log_loss", "squared_error", "friedman_mse", "poisson"}


# --- trees as the libraries publish them ---------------------------------------------------------------


@dataclass
class Node:
    """A node of a tree. A leaf has no `goes_left`."""

    leaf_value: Vector
    leaf_weight: float
    feature: int = -1
    goes_left: Callable[[float], bool] | None = None
    left: int = -1
    right: int = -1
    weight: float = math.nan
    impurity: float = math.nan
    gain: float = math.nan
    cover: float = math.nan


@dataclass
class Tree:
    """The nodes of a tree, the root first. `output` is the class whose margin the tree adds to."""

    nodes: list[Node]
    output: int = 0

    def splits(self) -> list[tuple[int, Node]]:
        return [(t, node) for t, node in enumerate(self.nodes) if node.goes_left is not None]

    def path(self, row: np.ndarray) -> list[int]:
        here = [0]
        while (node := self.nodes[here[-1]]).goes_left is not None:
            here.append(node.left if node.goes_left(float(row[node.feature])) else node.right)
        return here

    def leaves_below(self, t: int) -> list[Node]:
        node = self.nodes[t]
        return [node] if node.goes_left is None else self.leaves_below(node.left) + self.leaves_below(node.right)

    def value(self, t: int) -> Vector:
        """Return the weighted mean of the leaf values below, or the children's mean if no training row came here."""
        leaves = self.leaves_below(t)
        total = math.fsum(leaf.leaf_weight for leaf in leaves)
        if not total and self.nodes[t].goes_left is not None:
            both = zip(self.value(self.nodes[t].left), self.value(self.nodes[t].right), strict=True)
            return [(a + b) / 2 for a, b in both]
        if not total:
            return list(self.nodes[t].leaf_value)
        width = len(leaves[0].leaf_value)
        return [math.fsum(leaf.leaf_weight * leaf.leaf_value[k] for leaf in leaves) / total for k in range(width)]


@dataclass
class Model:
    """Trees that are averaged, or added to the constant margins `base`."""

    trees: list[Tree]
    n_features: int
    averaged: bool
    loss: str = "squared_error"
    base: Vector = field(default_factory=list)
    classes: list | None = None

    def response(self, y) -> list[Vector]:
        """Return y or one-hot classes for averaged trees, and r_0 = -g(F_0) for trees that are added."""
        target = self.target(y)
        if self.averaged:
            return target
        expected = mean_at(self.loss, self.base)
        return [[row[k] - expected[k] for k in range(len(row))] for row in target]

    def target(self, y) -> list[Vector]:
        if self.classes is None:
            return [[float(value)] for value in y]
        if self.loss == "logistic":
            return [[float(self.classes.index(label))] for label in y]
        return [[float(label == known) for known in self.classes] for label in y]


def sklearn_model(model) -> Model:
    """Read a forest or a tree from its ``tree_`` arrays."""
    trees = []
    for estimator in getattr(model, "estimators_", [model]):
        arrays, nodes = estimator.tree_, []
        for t in range(arrays.node_count):
            node = Node(
                leaf_value=[float(v) for v in arrays.value[t, 0]],
                leaf_weight=float(arrays.weighted_n_node_samples[t]),
                weight=float(arrays.weighted_n_node_samples[t]),
                impurity=float(arrays.impurity[t]),
            )
            if arrays.children_left[t] != -1:
                node.feature, node.left = int(arrays.feature[t]), int(arrays.children_left[t])
                node.right = int(arrays.children_right[t])
                node.goes_left = _sklearn_rule(float(arrays.threshold[t]), bool(arrays.missing_go_to_left[t]))
            nodes.append(node)
        trees.append(Tree(nodes))
    classes = [c.item() for c in model.classes_] if hasattr(model, "classes_") else None
    return Model(trees, model.n_features_in_, averaged=True, classes=classes)


def sklearn_bags(model, y) -> list[list[tuple[int, float]]]:
    """Return (row, weight in the nodes) of each tree's in-bag rows."""
    if not getattr(model, "bootstrap", False):
        return [[(i, 1.0) for i in range(len(y))] for _ in getattr(model, "estimators_", [model])]
    bags = []
    for sample in model.estimators_samples_:
        drawn = [int(i) for i in sample]
        times = {i: drawn.count(i) for i in set(drawn)}
        if getattr(model, "class_weight", None) == "balanced_subsample":
            labels = [y[i] for i in drawn]
            times = {i: m * len(drawn) / (len(set(labels)) * labels.count(y[i])) for i, m in times.items()}
        if getattr(model, "class_weight", None) == "balanced" and not hasattr(model, "_sample_weight"):
            # Since scikit-learn 1.9 rows are drawn with these weights, and models keep them; before, nodes are weighed.
            labels = list(y)
            times = {i: m * len(y) / (len(set(labels)) * labels.count(y[i])) for i, m in times.items()}
        if type(model).__name__ == "BaggingClassifier" and model.estimator.class_weight is not None:
            times = {i: m * model.estimator.class_weight[y[i]] for i, m in times.items()}
        bags.append([(i, float(m)) for i, m in sorted(times.items())])
    return bags


def xgboost_model(model) -> Model:
    """Read a booster from its JSON. A wrapper is read up to the best round of early stopping, a Booster as a whole."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    gbtree, parameters = learner["gradient_booster"]["model"], learner["learner_model_param"]
    n_rounds = booster.num_boosted_rounds()
    if booster is not model and booster.attr("best_iteration") is not None:
        n_rounds = int(booster.attr("best_iteration")) + 1
    trees = []
    for number in range(gbtree["iteration_indptr"][n_rounds]):
        stored, nodes = gbtree["trees"][number], []
        for t, left in enumerate(stored["left_children"]):
            condition = float(np.float32(stored["split_conditions"][t]))
            cover = float(np.float32(stored["sum_hessian"][t]))
            node = Node(leaf_value=[condition], leaf_weight=cover, cover=cover)
            if left != -1:
                node.feature, node.left, node.right = stored["split_indices"][t], left, stored["right_children"][t]
                node.gain = float(np.float32(stored["loss_changes"][t]))
                node.goes_left = _xgboost_rule(
                    condition, bool(stored["default_left"][t]), getattr(model, "missing", None)
                )
            nodes.append(node)
        trees.append(Tree(nodes, gbtree["tree_info"][number]))
    objective = learner["objective"]["name"]
    loss = XGBOOST_LOSS[objective]
    n_outputs = max(1, int(parameters["num_class"]))
    base = [float(np.float32(part)) for part in parameters["base_score"].strip("[]").split(",")]
    if loss == "logistic" and objective != "binary:logitraw":  # a probability, but where raw margins were asked for
        base = [math.log(p / (1 - p)) for p in base]
    base = base * n_outputs if len(base) == 1 else base
    classes = {"squared_error": None, "logistic": [0, 1], "softmax": list(range(n_outputs))}[loss]
    classes = None if objective == "reg:logistic" else classes
    return Model(trees, int(parameters["num_feature"]), averaged=False, loss=loss, base=base, classes=classes)


def lightgbm_model(model) -> Model:
    """Read a booster from its dump. The constant that is part of the first tree of each class becomes F_0."""
    booster = model.booster_ if hasattr(model, "booster_") else model
    dump = booster.dump_model()
    n_outputs = dump["num_tree_per_iteration"]
    trees = []
    for number, stored in enumerate(dump["tree_info"]):
        nodes: list[Node] = []
        _lightgbm_nodes(stored["tree_structure"], nodes)
        trees.append(Tree(nodes, number % n_outputs))
    # Without boost_from_average nothing is folded in, and boosting starts at margin 0.
    starts_at_0 = "[boost_from_average: 0]" in booster.model_to_string()
    roots = [stored["tree_structure"] for stored in dump["tree_info"][:n_outputs]]
    base = [0.0 if starts_at_0 else _constant(*pair) for pair in zip(trees[:n_outputs], roots, strict=True)]
    for constant, tree in zip(base, trees[:n_outputs], strict=True):
        for node in tree.nodes:
            if node.goes_left is None:
                node.leaf_value = [node.leaf_value[0] - constant]
    loss = {"regression": "squared_error", "binary": "logistic", "multiclass": "softmax"}[dump["objective"].split()[0]]
    classes = {"squared_error": None, "logistic": [0, 1], "softmax": list(range(n_outputs))}[loss]
    if loss != "squared_error" and hasattr(model, "classes_"):
        classes = [c.item() for c in model.classes_]
    n_features = dump["max_feature_idx"] + 1
    return Model(trees, n_features, averaged=False, loss=loss, base=base, classes=classes)


def _constant(tree: Tree, root: dict[str, float]) -> float:
    """Return the value of a root: the mean of its leaves. Before LightGBM 4.6 it is the constant, with six digits."""
    mean = tree.value(0)[0]
    stated = float(f"{root.get('internal_value', mean):.6g}")
    return mean if math.isclose(mean, stated, rel_tol=1e-5) else stated


def _sklearn_rule(threshold: float, missing_left: bool) -> Callable[[float], bool]:
    return lambda x: missing_left if math.isnan(x) else float(np.float32(x)) <= threshold


def _xgboost_rule(threshold: float, missing_left: bool, missing: float | None) -> Callable[[float], bool]:
    return lambda x: missing_left if math.isnan(x) or x == missing else float(np.float32(x)) < threshold


def _lightgbm_rule(threshold: float, missing_left: bool, missing_type: str) -> Callable[[float], bool]:
    def goes_left(x: float) -> bool:
        if math.isnan(x) and missing_type != "NaN":
            x = 0.0
        if (missing_type == "NaN" and math.isnan(x)) or (missing_type == "Zero" and abs(x) <= LIGHTGBM_ZERO):
            return missing_left
        return x <= threshold

    return goes_left


def _lightgbm_nodes(stored: dict, nodes: list[Node]) -> int:
    """Append a subtree in preorder and return the position of its root."""
    here = len(nodes)
    if "split_feature" not in stored:
        # A tree of one leaf may come without its count; the mean over that one leaf needs none.
        nodes.append(Node([float(stored["leaf_value"])], float(stored.get("leaf_count") or 1)))
        return here
    assert stored["decision_type"] == "<="
    rule = _lightgbm_rule(float(stored["threshold"]), bool(stored["default_left"]), stored["missing_type"])
    node = Node([math.nan], math.nan, int(stored["split_feature"]), rule)
    node.gain, node.cover = float(stored["split_gain"]), float(stored["internal_count"])
    nodes.append(node)
    node.left = _lightgbm_nodes(stored["left_child"], nodes)
    node.right = _lightgbm_nodes(stored["right_child"], nodes)
    return here


# --- statistics of the rows of one node ----------------------------------------------------------------


def count(members: Members) -> float:
    return math.fsum(w for _, w in members)


def mean(members: Members) -> Vector:
    n = count(members)
    return [math.fsum(w * y[k] for y, w in members) / n for k in range(len(members[0][0]))]


def mean_loss(members: Members, value: Vector) -> float:
    """Return the mean squared error of a value, summed over the response's columns (Brier score of one-hot rows)."""
    return math.fsum(w * squares(minus(y, value)) for y, w in members) / count(members)


def variance(members: Members) -> float:
    """Return the total variance; for one-hot rows this is the Gini impurity."""
    return mean_loss(members, mean(members))


def dot(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def squares(a: Vector) -> float:
    return dot(a, a)


def mean_at(loss: str, margin: Vector) -> Vector:
    if loss == "squared_error":
        return list(margin)
    if loss == "logistic":
        return [1 / (1 + math.exp(-margin[0]))]
    exponentials = [math.exp(f) for f in margin]
    return [e / math.fsum(exponentials) for e in exponentials]


def loss_at(loss: str, target: Vector, margin: Vector) -> float:
    if loss == "squared_error":
        return (target[0] - margin[0]) ** 2
    p = mean_at(loss, margin)
    if loss == "logistic":
        return -target[0] * math.log(p[0]) - (1 - target[0]) * math.log(1 - p[0])
    return -math.fsum(target[k] * math.log(p[k]) for k in range(len(p)) if target[k])


# --- one tree with its rows ----------------------------------------------------------------------------


@dataclass
class Seen:
    """A tree with its node values mu_t and, for each node, the in-bag rows (if known) and the evaluation rows."""

    tree: Tree
    value: list[Vector]
    rows: list[Members]
    bag: list[Members] | None
    one_hot: bool

    def w(self, t: int) -> float:
        """Return the share of in-bag rows, w_t."""
        return count(self.bag[t]) / count(self.bag[0])

    def w_rows(self, t: int) -> float:
        """Return the share of evaluation rows, w'_t."""
        return count(self.rows[t]) / count(self.rows[0])

    def empty_child(self, node: Node) -> bool:
        return not (self.rows[node.left] and self.rows[node.right])


def arrivals(tree: Tree, X, response: list[Vector], weights: list[tuple[int, float]]) -> list[Members]:
    """Return the rows that pass each node. Only rows in `weights` with a weight above 0 count."""
    members: list[Members] = [[] for _ in tree.nodes]
    for i, w in weights:
        if w > 0:
            for t in tree.path(X[i]):
                members[t].append((response[i], w))
    return members


def see_forest(model, X_train, y_train, X_held=None, y_held=None, weight=None) -> list[Seen]:
    """Return every tree of a scikit-learn model with its in-bag rows, and its OOB rows or the held-out rows.

    mu_t is the in-bag mean if leaf values are means, and else the mean of the leaf values below.
    """
    form, bags = sklearn_model(model), sklearn_bags(model, y_train)
    response = form.response(y_train)
    held = None if X_held is None else form.response(y_held)
    seen = []
    for tree, bag in zip(form.trees, bags, strict=True):
        in_bag = arrivals(tree, X_train, response, bag)
        if held is None:
            inside = {i for i, _ in bag}
            out = [i for i in range(len(response)) if i not in inside]
            rows = arrivals(tree, X_train, response, [(i, 1.0 if weight is None else float(weight[i])) for i in out])
        else:
            rows = arrivals(
                tree, X_held, held, [(i, 1.0 if weight is None else float(weight[i])) for i in range(len(held))]
            )
        means = model.criterion in MEAN_CRITERIA and getattr(model, "monotonic_cst", None) is None
        value = [mean(in_bag[t]) if means else tree.value(t) for t in range(len(tree.nodes))]
        seen.append(Seen(tree, value, rows, in_bag, one_hot=form.classes is not None))
    return seen


def see_boosted(form: Model, X, y, weight=None, train=None) -> list[Seen]:
    """Return every tree with the held-out rows and r_0 of its output, and with the training rows if they are given."""
    seen = []
    response = form.response(y)
    weights = [(i, 1.0 if weight is None else float(weight[i])) for i in range(len(response))]
    for tree in form.trees:
        rows = arrivals(tree, X, [[r[tree.output]] for r in response], weights)
        bag = None
        if train is not None:
            r_train = [[r[tree.output]] for r in form.response(train[1])]
            bag = arrivals(tree, train[0], r_train, [(i, 1.0) for i in range(len(r_train))])
        seen.append(Seen(tree, [tree.value(t) for t in range(len(tree.nodes))], rows, bag, one_hot=False))
    return seen


# --- the scores, methods.md section 1 ------------------------------------------------------------------


def mdi_oob(seen: Seen, t: int, node: Node, centre="node", weights="rows", shrinkage=0.0) -> float:
    if weights == "in_bag":
        term = 0.0
        if not seen.empty_child(node):
            for c in (node.left, node.right):
                step, moved = minus(seen.value[c], seen.value[t]), minus(mean(seen.rows[c]), mean(seen.rows[t]))
                term += seen.w(c) * dot(step, moved)
    else:
        term = 0.0
        for c in (node.left, node.right):
            if not seen.rows[c]:
                continue  # w'_c is 0
            if centre == "node":
                term += seen.w_rows(c) * dot(seen.value[c], minus(mean(seen.rows[c]), mean(seen.rows[t])))
            else:
                term += seen.w_rows(c) * dot(minus(seen.value[c], seen.value[t]), mean(seen.rows[c]))
    if shrinkage:
        n = count(seen.bag[t])
        term *= n / (n + shrinkage)
    return term


def ufi(seen: Seen, t: int, node: Node) -> float:
    def h(u: int) -> float:
        mu = mean(seen.bag[u])
        if seen.one_hot:
            return 1 - dot(mu, mean(seen.rows[u]))
        return (mean_loss(seen.rows[u], mu) + variance(seen.bag[u])) / 2

    if seen.empty_child(node):
        return 0.0
    return math.fsum(sign * seen.w(u) * h(u) for sign, u in ((1, t), (-1, node.left), (-1, node.right)) if seen.bag[u])


def oob_split(seen: Seen, t: int, node: Node) -> float:
    return math.fsum(
        sign * seen.w_rows(u) * variance(seen.rows[u])
        for sign, u in ((1, t), (-1, node.left), (-1, node.right))
        if seen.rows[u]
    )


def oob_loss(seen: Seen, t: int, node: Node) -> float:
    return math.fsum(
        sign * seen.w_rows(u) * mean_loss(seen.rows[u], seen.value[u])
        for sign, u in ((1, t), (-1, node.left), (-1, node.right))
        if seen.rows[u]
    )


def mdi(seen: Seen, t: int, node: Node, criterion=None, min_node_size=0.0) -> float:
    """Return a node's decrease of impurity, from stored impurities and weights or from variances of in-bag rows."""
    nodes, three = seen.tree.nodes, ((1, t), (-1, node.left), (-1, node.right))
    if criterion == "variance":
        if count(seen.bag[t]) < min_node_size:
            return 0.0
        return math.fsum(sign * seen.w(u) * variance(seen.bag[u]) for sign, u in three if seen.bag[u])
    if nodes[t].weight < min_node_size:
        return 0.0
    return math.fsum(sign * nodes[u].weight / nodes[0].weight * nodes[u].impurity for sign, u in three)


TERMS = {"mdi_oob": mdi_oob, "ufi": ufi, "oob_split": oob_split, "oob_loss": oob_loss, "mdi": mdi}


def score(name: str, trees: list[Seen], n_features: int, averaged: bool, **options) -> np.ndarray:
    """Return the mean over trees that have evaluation rows (all trees for mdi), or the sum over trees of a booster."""
    normalize = options.pop("normalize", None)
    used = trees if name == "mdi" else [seen for seen in trees if seen.rows[0]]
    total = [0.0] * n_features
    for seen in used:
        of_tree = [0.0] * n_features
        for t, node in seen.tree.splits():
            if name == "mdi" or seen.rows[t]:
                of_tree[node.feature] += TERMS[name](seen, t, node, **options)
        if normalize == "tree" and math.fsum(of_tree) > 0:
            of_tree = [value / math.fsum(of_tree) for value in of_tree]
        total = [a + b for a, b in zip(total, of_tree, strict=True)]
    if normalize == "tree":
        return np.array(total) / math.fsum(total)
    return np.array(total) / (len(used) if averaged else 1)


def running_loss(form: Model, X, y, weight=None) -> tuple[np.ndarray, float]:
    """Return the loss saved by each feature as the margin goes from F_0 to F_M, and the loss saved by root steps."""
    saved, base, total = [0.0] * form.n_features, 0.0, 0.0
    value = [[tree.value(t) for t in range(len(tree.nodes))] for tree in form.trees]
    for i, target in enumerate(form.target(y)):
        w = 1.0 if weight is None else float(weight[i])
        total += w
        margin = list(form.base)
        loss = loss_at(form.loss, target, margin)
        for tree, of_tree in zip(form.trees, value, strict=True):
            fed, feature = slice(tree.output, tree.output + len(of_tree[0])), None
            before = margin[fed]
            for t in tree.path(X[i]):
                margin[fed] = [f + step for f, step in zip(before, of_tree[t], strict=True)]
                now = loss_at(form.loss, target, margin)
                if feature is None:
                    base += w * (loss - now)
                else:
                    saved[feature] += w * (loss - now)
                loss, feature = now, tree.nodes[t].feature
    return np.array(saved) / total, base / total


def split_count(form: Model) -> np.ndarray:
    return _summed(form, lambda node: 1.0)


def gain(form: Model) -> np.ndarray:
    return _summed(form, lambda node: node.gain)


def cover(form: Model) -> np.ndarray:
    return _summed(form, lambda node: node.cover)


def _summed(form: Model, figure: Callable[[Node], float]) -> np.ndarray:
    total = [0.0] * form.n_features
    for tree in form.trees:
        for _, node in tree.splits():
            total[node.feature] += figure(node)
    return np.array(total)


# --- contributions of rows, and the studentised score ---------------------------------------------------


@dataclass
class Growth:
    """One tree for contributions: the evaluated rows with their weights, node values mu_t, and factors of nodes."""

    tree: Tree
    rows: list[tuple[int, float]]
    value: list[Vector]
    factor: list[float]


def grow_forest(model, X, y, weight=None, shrinkage=0.0, means=False, block=None) -> list[Growth]:
    """Return each tree of a scikit-learn forest with its in-bag means (or the model's own values) and its OOB rows.

    A row counts as out of bag only if all rows of its block are.
    """
    form, response = sklearn_model(model), sklearn_model(model).response(y)
    block = list(range(len(y))) if block is None else list(block)
    grown = []
    for tree, bag in zip(form.trees, sklearn_bags(model, y), strict=True):
        inside = {block[i] for i, _ in bag}
        rows = [(i, 1.0 if weight is None else float(weight[i])) for i in range(len(y)) if block[i] not in inside]
        if means or getattr(model, "criterion", "gini") in MEAN_CRITERIA:
            value = [mean(members) for members in arrivals(tree, X, response, bag)]
        else:
            value = [tree.value(t) for t in range(len(tree.nodes))]
        factor = [node.weight / (node.weight + shrinkage) for node in tree.nodes]
        grown.append(Growth(tree, [(i, w) for i, w in rows if w > 0], value, factor))
    return grown


def grow_fixed(form: Model, n_rows: int, weight=None, factors=None) -> list[Growth]:
    """Return the trees of any model, each with all held-out rows."""
    rows = [(i, 1.0 if weight is None else float(weight[i])) for i in range(n_rows)]
    return [
        Growth(tree, rows, [tree.value(t) for t in range(len(tree.nodes))], factors[k] if factors else [1.0] * 10**5)
        for k, tree in enumerate(form.trees)
    ]


def contributions(form: Model, grown: list[Growth], X, y, inflated=False, block=None) -> np.ndarray:
    """Return phi_ik of methods.md, section 2, row by row. `inflated` corrects for the number of blocks in each node."""
    response = form.response(y)
    phi = np.zeros((len(response), form.n_features))
    used = [each for each in grown if each.rows]
    for each in used:
        paths = {i: each.tree.path(X[i]) for i, _ in each.rows}
        members: dict[int, list[tuple[int, float]]] = {}
        for i, w in each.rows:
            for t in paths[i]:
                members.setdefault(t, []).append((i, w))
        part = slice(each.tree.output, each.tree.output + len(each.value[0]))
        at = {t: [(response[i][part], w) for i, w in rows] for t, rows in members.items()}
        total = math.fsum(w for _, w in each.rows) * (len(used) if form.averaged else 1)
        for i, w in each.rows:
            for t, c in zip(paths[i][:-1], paths[i][1:], strict=True):
                node = each.tree.nodes[t]
                inside = [(each.value[u], count(at[u])) for u in (node.left, node.right) if u in at]
                step = minus(each.value[c], mean(inside))
                term = w / total * each.factor[t] * dot(step, minus(response[i][part], mean(at[t])))
                if inflated and len(members[t]) > 1:
                    by_block: dict[object, float] = {}
                    for j, v in members[t]:
                        label = j if block is None else block[j]
                        by_block[label] = by_block.get(label, 0.0) + v
                    effective = max(2.0, count(at[t]) ** 2 / math.fsum(v * v for v in by_block.values()))
                    term *= math.sqrt(effective / (effective - 1))
                phi[i, node.feature] += term
    return phi


def studentised(phi: np.ndarray, block=None) -> np.ndarray:
    """Return score / (sd(n phi) / sqrt(n)), with phi summed by block first; 0 if all contributions are 0."""
    labels = list(range(len(phi))) if block is None else list(block)
    phi = np.array([sum(phi[i] for i in range(len(phi)) if labels[i] == label) for label in sorted(set(labels))])
    n = len(phi)
    z = np.zeros(phi.shape[1])
    for k in range(phi.shape[1]):
        if phi[:, k].any():
            z[k] = phi[:, k].sum() / (np.std(n * phi[:, k], ddof=1) / math.sqrt(n))
    return z
