"""Linear effects of models on simulated rows, and permuted responses."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias


def effects_of(model, X, y=None, min_node_size=30.0, bins=256, **given):
    """Return the linear effects of a model on some rows."""
    found = []

    @debias.plugin.scorer_plugin("found", unit="")
    def found_effects(ensemble, rows):
        found.append(rows.linear_effects(min_node_size=min_node_size, shrinkage=300.0, bins=bins))
        return np.zeros(ensemble.n_features)

    debias.score(model, X, y, found_effects, **given)
    return found[0]


def permuted(effects, n):
    """Return n responses in random order, whole blocks together, the first in its own order."""
    rng, blocks = np.random.default_rng(0), np.unique(effects.block).size
    order = np.arange(effects.n_rows).reshape(blocks, -1)
    orders = [order.ravel()] + [order[rng.permutation(blocks)].ravel() for _ in range(n - 1)]
    return np.stack([effects.response[order] for order in orders], axis=2)


def rows_of(n, p, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[:, 1::3] = np.round(X[:, 1::3])
    latent = X[:, 0] + 0.5 * X[:, -1] + rng.normal(size=n)
    X[rng.random((n, p)) < missing] = np.nan
    return X, latent


def forest(X, y, n_trees=5, **settings):
    kind = RandomForestRegressor if y.dtype.kind == "f" else RandomForestClassifier
    return kind(n_trees, random_state=0, n_jobs=1, **settings).fit(X, y)
