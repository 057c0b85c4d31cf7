"""How often a single fold of a booster that samples rows is proven: a right fold, and one of another division.

``python -m attack.fold_rates`` (in the folder ``tests``) prints the table of docs/rows.md, in some minutes.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from lightgbm import LGBMRegressor
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import KFold
from xgboost import XGBRegressor

from debias.errors import ProvenanceError
from debias.models.folds import folds_of
from debias.rows.fold_proof import prove_folds

DRAWS = 600


def boosters(rng: np.random.Generator, seed: int) -> dict[str, object]:
    """Return boosters that sample rows, of a random depth, length and share of rows."""
    share, depth, n_trees = float(rng.choice([0.5, 0.7, 0.9])), int(rng.choice([2, 4, 6])), int(rng.choice([8, 30]))
    shared = {"n_estimators": n_trees, "subsample": share, "random_state": seed}
    return {
        "XGBoost": XGBRegressor(max_depth=depth, n_jobs=1, **shared),
        "GradientBoosting": GradientBoostingRegressor(max_depth=depth, **shared),
        "LightGBM": LGBMRegressor(num_leaves=2**depth, subsample_freq=1, n_jobs=1, verbose=-1, **shared),
    }


def statuses(seed: int) -> dict[str, tuple[str, str]]:
    """Return for each booster the status of a right fold, and that of a fold of another division."""
    rng = np.random.default_rng(seed)
    n_rows, n_folds = int(rng.choice([100, 300, 800])), int(rng.choice([3, 5, 10]))
    X = rng.normal(size=(n_rows, 4)) if seed % 2 else rng.integers(0, 6, size=(n_rows, 4)).astype(float)
    y = X[:, 0] + rng.normal(size=n_rows)
    right, other = (next(iter(KFold(n_folds, shuffle=True, random_state=k).split(X))) for k in range(2))
    found = {}
    for name, model in boosters(rng, seed).items():
        model.fit(X[right[0]], y[right[0]])
        found[name] = (status(model, X, y, right), status(model, X, y, other))
    return found


def status(model: object, X: np.ndarray, y: np.ndarray, split: tuple[np.ndarray, np.ndarray]) -> str:
    """Return "proven", "unknown" or "refused"."""
    try:
        return prove_folds(folds_of([model], X, y, [split]), X, y)[0].members[0].status
    except ProvenanceError:
        return "refused"


if __name__ == "__main__":
    counts = Counter(
        (name, which, each)
        for seed in range(DRAWS)
        for name, pair in statuses(seed).items()
        for which, each in zip(("right", "other"), pair, strict=True)
    )
    for key, count in sorted(counts.items()):
        print(*key, f"{count / DRAWS:.4f}")
