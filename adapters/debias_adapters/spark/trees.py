"""Trees of Spark ML as data that needs neither Spark nor Java: forests, single trees and boosted trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR, Objective
from debias_adapters.spark import LIBRARY
from debias_adapters.spark.nodes import MOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias_adapters.spark.nodes import Nodes

KINDS = tuple(
    f"{trees}{task}Model"
    for trees in ("DecisionTree", "RandomForest", "GBT")
    for task in ("Classification", "Regression")
)
UNCOMPARED = "the model was read from files, so its predictions were not compared with those of Spark"


@dataclass(frozen=True, eq=False)
class SparkTrees:
    """The trees of a model of Spark ML.

    Parameters
    ----------
    kind : str
        Its class in Spark, one of `KINDS`.
    nodes : Nodes
    tree_weights : array of float64 of shape (n_trees,)
    n_features, n_classes : int
        `n_classes` is 0 in regression.
    params : dict
        Spark's parameters by name.
    version : str
        The version of Spark.
    labels : tuple of str, or None
        Label of each class, if the pipeline around the model has them.
    live : object, or None
        The fitted model of pyspark, to compare with. Copies that are sent to other processes do not have it.
    """

    kind: str
    nodes: Nodes
    tree_weights: NDArray[np.float64]
    n_features: int
    n_classes: int
    params: dict[str, Any]
    version: str
    labels: tuple[str, ...] | None = None
    live: Any = None

    def __repr__(self) -> str:
        return f"<{self.source} of {self.tree_weights.size} trees and {self.n_features} features, Spark {self.version}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "live": None}  # Java objects stay in their process

    @property
    def source(self) -> str:
        """Name for messages."""
        return f"Spark {self.kind}"

    @property
    def boosted(self) -> bool:
        """Whether the output is a sum over trees."""
        return self.kind.startswith("GBT")

    @property
    def weight(self) -> NDArray[np.float64]:
        """In-bag weight of each node."""
        of_classes = self.n_classes and not self.boosted
        return self.nodes.stats.sum(axis=1) if of_classes else self.nodes.stats[:, 0]

    @property
    def impurity(self) -> NDArray[np.float64]:
        """In-bag impurity of each node, from its statistics: Spark stores -1 at leaves that it could not split."""
        if not self.n_classes or self.boosted:
            _, total, of_squares = self.nodes.stats.T
            return np.maximum((of_squares - total**2 / self.weight) / self.weight, 0.0)
        shares = self.nodes.stats / self.weight[:, None]
        if self.params["impurity"] == "entropy":
            return 0.0 - np.sum(shares * np.log2(shares, out=np.zeros_like(shares), where=shares > 0), axis=1)
        return np.asarray(1 - (shares**2).sum(axis=1))

    @property
    def value(self) -> NDArray[np.float64]:
        """Output of each tree at each node, shape (n_nodes, width): class shares, means, or steps of the margin."""
        if self.n_classes and not self.boosted:
            return self.nodes.stats / self.weight[:, None]
        factor = np.repeat(self.tree_weights, np.diff(self.nodes.start)) if self.boosted else 1.0
        return (factor * self.nodes.prediction)[:, None]

    def ensemble(self) -> TreeEnsemble:
        """Return the trees in the common form."""
        self._check()
        nodes, weight, value = self.nodes, self.weight, self.value
        is_leaf = nodes.left < 0
        of_number = ~is_leaf & ~nodes.by_category
        threshold = np.zeros(is_leaf.size)
        threshold[of_number] = nodes.split_values[nodes.split_start[:-1][of_number]]
        sets, missing_left = self._category_sets()
        count = nodes.raw_count if self._counts_are_distinct() else None
        share = float(self.params.get("subsamplingRate", 1.0))
        base = np.zeros(value.shape[1])
        if self.boosted:
            # Spark starts from a margin of 0, and its first tree adds the mean. That is the constant before any split.
            base = value[0].copy()
            value = value.copy()
            value[: nodes.start[1]] -= base
        return TreeEnsemble(
            tree_start=nodes.start,
            feature=np.where(is_leaf, -1, nodes.feature),
            threshold=threshold,
            left=np.where(is_leaf, -1, nodes.left),
            right=np.where(is_leaf, -1, nodes.right),
            missing_left=missing_left,
            value=value,
            averaging_weight=weight,
            tree_output=np.zeros(self.tree_weights.size, dtype=np.int32),
            base=base,
            averaged=not self.boosted,
            objective=self._objective(),
            feature_names=tuple(f"f{k}" for k in range(self.n_features)),
            named=False,
            classes=self._classes(),
            labelled=self.labels is not None,
            routing_dtype=np.dtype(np.float64),
            sparse_absent=0.0,
            criterion={"variance": "squared_error"}.get(self.params["impurity"], self.params["impurity"]),
            mean_values=not self.boosted,
            weight=weight,
            count=count,
            impurity=self.impurity,
            gain=np.where(is_leaf, 0.0, nodes.gain * weight) if self.boosted else None,
            n_train=None if count is None or self.boosted or share < 1 else int(count[0]),
            sampled_share=share,
            notes=(UNCOMPARED,) if self.live is None else (),
            source=self.source,
            version=self.version,
            tested_versions=LIBRARY.tested_versions,
            **sets,
        )

    def leaves(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree: Spark's own, or that of a walk through the records of the nodes."""
        if self.live is not None:
            return self._live_leaves(X)
        leaves = np.empty((len(X), self.tree_weights.size), dtype=np.int32)
        goes_left, left, right = cache(self._side), self.nodes.left, self.nodes.right
        for tree, begin in enumerate(self.nodes.start[:-1].tolist()):
            for row, values in enumerate(X.tolist()):
                node = 0
                while left[begin + node] >= 0:
                    node = int((left if goes_left(begin + node)(values) else right)[begin + node])
                leaves[row, tree] = node
        return leaves

    def predict(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the raw output of rows: Spark's own, or the mean or sum over trees of the values of `leaves`."""
        if self.live is None:
            of_trees = self.value[self.leaves(X) + self.nodes.start[:-1]]
            return of_trees.sum(axis=1) if self.boosted else of_trees.mean(axis=1)
        from pyspark.ml.linalg import Vectors

        if not self.n_classes:
            return np.array([[self.live.predict(Vectors.dense(row))] for row in X.tolist()])
        if self.boosted:
            return np.array([[self.live.predictRaw(Vectors.dense(row))[1]] for row in X.tolist()])
        return np.array([self.live.predictProbability(Vectors.dense(row)).toArray() for row in X.tolist()])

    def reported_importance(self) -> NDArray[np.float64]:
        """Return Spark's ``featureImportances``: gains times weights, of forests as shares of each tree; sum 1."""
        nodes = self.nodes
        is_split = nodes.left >= 0
        tree = np.repeat(np.arange(self.tree_weights.size), np.diff(nodes.start))
        of_tree = np.zeros((self.tree_weights.size, self.n_features))
        np.add.at(of_tree, (tree[is_split], nodes.feature[is_split]), (nodes.gain * self.weight)[is_split])
        if not self.boosted:
            total = of_tree.sum(axis=1, keepdims=True)
            of_tree = np.divide(of_tree, total, out=np.zeros_like(of_tree), where=total != 0)
        summed: NDArray[np.float64] = of_tree.sum(axis=0)
        return summed / summed.sum() if summed.sum() else summed

    def _check(self) -> None:
        wanted = self.n_classes if self.n_classes and not self.boosted else 3
        if self.nodes.stats.shape[1] != wanted:
            raise UnsupportedModelError(
                f"this {self.source} is damaged: its nodes have {self.nodes.stats.shape[1]} statistics, not {wanted}"
            )
        if self.params.get("impurity") not in ("gini", "entropy", "variance"):
            raise UnsupportedModelError(f"this {self.source} has impurity={self.params.get('impurity')!r}")
        if not 0 < self.n_features <= MOST:
            raise UnsupportedModelError(f"this {self.source} is damaged: it has {self.n_features} features")
        if (self.weight <= 0).any():
            raise UnsupportedModelError(f"this {self.source} has nodes without training weight")
        if self.nodes.start.size != self.tree_weights.size + 1 or not np.isfinite(self.tree_weights).all():
            raise UnsupportedModelError(f"this {self.source} is damaged: it has no weight for some of its trees")
        if not self.boosted and (self.tree_weights != 1).any():
            raise UnsupportedModelError(f"this {self.source} has trees of different weights, which Spark does not make")

    def _counts_are_distinct(self) -> bool:
        """Whether a tree counts each training row at most once, and not as often as a bootstrap sample draws it."""
        return not (self.kind.startswith("RandomForest") and self.params.get("bootstrap", True))

    def _objective(self) -> Objective:
        loss = self.params.get("lossType", "squared")
        if not self.boosted or loss == "squared":
            return SQUARED_ERROR
        if loss == "absolute":
            return Objective("absolute_error")
        if loss == "logistic":
            return Objective("logistic", (2.0,))  # Spark's labels are -1 and 1: p = 1 / (1 + exp(-2 F))
        raise UnsupportedModelError(f"this {self.source} has lossType={loss!r}, which debias does not know")

    def _classes(self) -> NDArray[Any] | None:
        if not self.n_classes:
            return None
        if self.labels is None:
            return np.arange(self.n_classes)
        # A StringIndexer with handleInvalid="keep" makes one more class, of unknown labels.
        more = ["__unknown"] if len(self.labels) == self.n_classes - 1 else []
        return np.array([*self.labels, *more], dtype=object)

    def _category_sets(self) -> tuple[dict[str, Any], NDArray[np.bool_]]:
        """Return the arrays of TreeEnsemble for splits on categories, and whether missing values go left."""
        missing_left = np.zeros(self.nodes.left.size, dtype=bool)  # NaN is not at most a threshold
        at = np.flatnonzero(self.nodes.by_category)
        if not at.size:
            return {}, missing_left
        listed = [self.nodes.listed(node) for node in at.tolist()]
        category_set = np.full(self.nodes.left.size, -1)
        category_set[at] = np.arange(at.size)
        listed_left = np.array([left for _, left in listed])
        missing_left[at] = ~listed_left
        return {
            "category_set": category_set,
            "category_start": np.concatenate([[0], np.cumsum([codes.size for codes, _ in listed])]),
            "category_codes": np.concatenate([codes for codes, _ in listed]),
            "listed_left": listed_left,
        }, missing_left

    def _side(self, node: int) -> Callable[[list[float]], bool]:
        """Return a function that says whether a row goes left at a split, as Spark's code does."""
        feature = int(self.nodes.feature[node])
        if self.nodes.n_categories[node] < 0:
            threshold = float(self.nodes.split_values[self.nodes.split_start[node]])
            return lambda values: values[feature] <= threshold
        codes, are_left = self.nodes.listed(node)
        known = set(codes.tolist())
        return lambda values: (values[feature] in known) == are_left

    def _live_leaves(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
        """Return nodes of the leaf numbers of Spark, which numbers the leaves of a tree from left to right."""
        from pyspark.ml.linalg import Vectors

        found = [self.live.predictLeaf(Vectors.dense(row)) for row in X.tolist()]
        numbers = np.array([[each] if np.isscalar(each) else each.toArray() for each in found], dtype=np.int64)
        numbers = numbers.reshape(len(X), -1)
        nodes = np.empty(numbers.shape, dtype=np.int32)
        for tree, (begin, end) in enumerate(zip(self.nodes.start[:-1], self.nodes.start[1:], strict=True)):
            nodes[:, tree] = np.flatnonzero(self.nodes.left[begin:end] < 0)[numbers[:, tree]]
        return nodes
