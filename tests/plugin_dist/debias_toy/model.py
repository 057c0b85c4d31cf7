import numpy as np


class ToyForest:
    """Bagged regression trees in nested dictionaries; a value below the threshold goes to "below"."""

    def __init__(self, n_trees=20, depth=4, seed=0):
        self.n_trees, self.depth, self.seed = n_trees, depth, seed

    def fit(self, X, y):
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        rng = np.random.default_rng(self.seed)
        self.n_rows, self.n_features = X.shape
        self.bags = [rng.integers(0, len(y), len(y)) for _ in range(self.n_trees)]
        self.trees = [self._grow(X, y, bag, self.depth, rng) for bag in self.bags]
        return self

    def predict(self, X):
        leaves = [[self.leaf(tree, x)["mean"] for tree in self.trees] for x in np.asarray(X, dtype=float)]
        return np.mean(leaves, axis=1)

    def leaf(self, node, x):
        while "feature" in node:
            node = node["below" if x[node["feature"]] < node["threshold"] else "above"]
        return node

    def _grow(self, X, y, rows, depth, rng):
        node = {"mean": y[rows].mean(), "variance": y[rows].var(), "rows": len(rows), "distinct": len(np.unique(rows))}
        feature = int(rng.integers(self.n_features))
        threshold = float(np.median(X[rows, feature]))
        below = X[rows, feature] < threshold
        if depth and 0 < below.sum() < len(rows):
            node |= {"feature": feature, "threshold": threshold}
            node["below"] = self._grow(X, y, rows[below], depth - 1, rng)
            node["above"] = self._grow(X, y, rows[~below], depth - 1, rng)
        return node
