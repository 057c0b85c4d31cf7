"""The base class of OOBForests: bags, growth and prediction."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from debias_plugins.estimators import page, validate_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SEEDS = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class OOBTree:
    """One tree: arrays with one entry per node, the root first. Children are -1 at leaves.

    For the in-bag rows of a node, `count` is the number of distinct rows, `weight` their weight, `value` the mean
    response (class fractions) and `impurity` the variance (Gini impurity). A row goes left if its value is at most
    `threshold`.
    """

    seed: int
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float64]
    count: NDArray[np.int64]
    weight: NDArray[np.float64]
    impurity: NDArray[np.float64]

    @property
    def links(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """The arrays needed to route rows down the tree."""
        return self.feature, self.threshold, self.left, self.right, self.missing_left


class BaseOOBForest(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base class of classifier and regressor: bags, growth and prediction."""

    _doc_link_module = "debias_plugins"
    _doc_link_template = page("generated/{estimator_module}.{estimator_name}.html")

    n_estimators: int
    max_features: Any
    max_depth: int | None
    min_samples_leaf: int
    max_samples: Any
    random_state: Any
    n_jobs: int | None
    warm_start: bool
    trees_: list[OOBTree]
    n_samples_: int
    n_drawn_: int
    _importance: NDArray[np.float64]
    _oob_sums: tuple[NDArray[np.float64], NDArray[np.float64]]

    def in_bag(self, tree: int) -> NDArray[np.int64]:
        """Return the training rows in the bag of a tree, with repetitions, shape (n_drawn,)."""
        check_is_fitted(self)
        return _bag(self.trees_[tree].seed, self.n_samples_, self.n_drawn_)

    @property
    def estimators_samples_(self) -> list[NDArray[np.int64]]:
        """The training rows in the bag of each tree, with repetitions."""
        return [self.in_bag(tree) for tree in range(len(self.trees_))]

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, shape (n_rows, n_trees)."""
        from debias_plugins.oob_forest.kernels import growing as kernels

        X = self._checked(X)
        leaf = np.empty((len(self.trees_), len(X)), dtype=np.int32)
        for tree, row in zip(self.trees_, leaf, strict=True):
            kernels.leaves(X, *tree.links, row)
        return leaf.T

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"allow_nan": True}  # the tags of scikit-learn 1.5

    def _mean(self, X: Any) -> NDArray[np.float64]:
        """Return the mean prediction of the trees, shape (n_rows, n_outputs)."""
        from debias_plugins.oob_forest.kernels import growing as kernels

        X = self._checked(X)
        total = np.zeros((len(X), self.trees_[0].value.shape[1]))
        rows = np.array_split(np.arange(len(X)), max(1, len(X) // 10_000))

        def part(of: NDArray[np.int64]) -> None:
            here = slice(of[0], of[-1] + 1)
            for tree in self.trees_:
                kernels.add_values(X[here], *tree.links, tree.value, total[here])

        _in_threads(part, rows, self.n_jobs)
        return total / len(self.trees_)

    def _checked(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan", order="C")

    def _grow(
        self,
        X: NDArray[np.float64],
        value: NDArray[np.float64],
        response: NDArray[np.float64],
        sample_weight: NDArray[np.float64] | None,
        class_factor: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        """Grow the trees; return the mean out-of-bag prediction of each row, NaN for rows that are in every bag."""
        from debias_plugins.oob_forest.kernels import growing as kernels

        n_rows, n_features = X.shape
        max_features, max_depth, n_drawn = self._limits(n_rows, n_features)
        again = self.warm_start and hasattr(self, "trees_")
        if again and (n_rows, n_drawn) != (self.n_samples_, self.n_drawn_):
            raise ValueError(
                f"warm_start adds trees grown on the same rows: the existing trees were grown on {self.n_drawn_} of "
                f"{self.n_samples_} rows, the new ones would be grown on {n_drawn} of {n_rows}"
            )
        if again and self.n_estimators < len(self.trees_):
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least {len(self.trees_)}, the number of existing trees, "
                "with warm_start=True"
            )
        old = self.trees_ if again else []
        seeds = check_random_state(self.random_state).randint(SEEDS, size=self.n_estimators)[len(old) :]
        weight = np.ones(n_rows) if sample_weight is None else sample_weight
        weight = weight if class_factor is None else weight * class_factor
        # Products of four weights and responses must not overflow or underflow. Powers of 2 change no other result.
        weight, weight_exponent = scaled(weight)
        response, exponent = scaled(response)
        columns = np.ascontiguousarray(X.T)
        codes, n_codes = _ranks(columns)
        options = (max_features, max_depth, self.min_samples_leaf)

        def grown(seed: int) -> tuple[OOBTree, NDArray[np.float64], NDArray[np.int32]]:
            bag = np.bincount(_bag(seed, n_rows, n_drawn), minlength=n_rows).astype(np.float64)
            if not weight[bag > 0].any():
                raise ValueError("all rows in the bag of a tree have weight 0: give more rows a positive weight")
            importance = np.zeros(n_features)
            data = (columns, codes, n_codes, response, value, weight, bag > 0, bag)
            nodes = kernels.grow(*data, options, seed, importance)
            n, impurity, leaf = nodes[-3:]
            tree = OOBTree(int(seed), *nodes[:-3], np.ldexp(n, weight_exponent), np.ldexp(impurity, 2 * exponent))
            return tree, np.ldexp(importance, 2 * exponent), leaf

        sums, n_seen = np.zeros_like(value), np.zeros(n_rows)
        if again:
            sums, n_seen = self._oob_sums
        new = _in_threads(grown, [int(seed) for seed in seeds], self.n_jobs)
        total = self._importance if again else np.zeros(n_features)
        for tree, importance, leaf in new:
            out = leaf >= 0
            sums[out] += tree.value[leaf[out]]
            n_seen += out
            total = total + importance
        self.trees_ = [*old, *(tree for tree, *_ in new)]
        self.n_samples_, self.n_drawn_ = n_rows, n_drawn
        self._importance, self._oob_sums = total, (sums, n_seen)
        self._sample_weight = sample_weight
        self.feature_importances_ = total / len(self.trees_)
        return np.divide(sums, n_seen[:, None], out=np.full_like(sums, np.nan), where=n_seen[:, None] > 0)

    def _limits(self, n_rows: int, n_features: int) -> tuple[int, int, int]:
        """Return the number of candidate features, the maximum depth (-1: no limit) and the size of the bags."""
        for name, least in (("n_estimators", 1), ("min_samples_leaf", 1), ("max_depth", 1)):
            number = getattr(self, name)
            if name == "max_depth" and number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
                raise ValueError(f"{name} must be a whole number of {least} or more, not {number!r}")
        roots: dict[Any, float] = {"sqrt": np.sqrt(n_features), "log2": np.log2(n_features), None: n_features}
        wanted = self.max_features
        if not isinstance(wanted, (Real, str, type(None))) or (isinstance(wanted, str) and wanted not in roots):
            raise ValueError(f"max_features must be 'sqrt', 'log2', a number or None, not {wanted!r}")
        max_features = roots[wanted] if wanted in ("sqrt", "log2", None) else _share(wanted, n_features, "max_features")
        n_drawn = n_rows if self.max_samples is None else _share(self.max_samples, n_rows, "max_samples")
        return max(1, int(max_features)), -1 if self.max_depth is None else int(self.max_depth), n_drawn


def scaled(array: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return an array divided by a power of 2, so that its largest absolute value is about 1, and the exponent."""
    exponent = int(np.frexp(np.abs(array).max(initial=0.0))[1])
    return np.ldexp(array, -exponent), exponent


def _share(wanted: Any, n: int, name: str) -> int:
    """Return a number that was passed as an integer, or as a share of `n`."""
    whole = isinstance(wanted, Integral) and not isinstance(wanted, bool)
    if not isinstance(wanted, Real) or isinstance(wanted, bool) or not 0 < float(wanted) <= (n if whole else 1):
        raise ValueError(f"{name} must be a whole number from 1 to {n}, or a share above 0 up to 1, not {wanted!r}")
    return max(1, int(float(wanted) * (1 if whole else n)))


def _bag(seed: int, n_rows: int, n_drawn: int) -> NDArray[np.int64]:
    return np.random.RandomState(seed).randint(0, n_rows, n_drawn, dtype=np.int64)


def _ranks(columns: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the rank of each value among the distinct values of its column, and their number; missing is last."""
    codes, n_codes = np.empty(columns.shape, dtype=np.int32), np.empty(len(columns), dtype=np.int64)
    for k, x in enumerate(columns):
        distinct, rank = np.unique(x, return_inverse=True)  # np.unique takes all NaN as one value, the last
        codes[k] = rank
        n_codes[k] = distinct.size - np.isnan(distinct[-1])
    return codes, n_codes


def _in_threads(function: Callable[[Any], Any], over: list[Any], n_jobs: int | None) -> list[Any]:
    """Call a function for each item, in threads; the results are in order. The compiled loops release the lock."""
    from joblib import Parallel, delayed

    if n_jobs in (None, 1):
        return [function(item) for item in over]
    return list(Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(function)(item) for item in over))
