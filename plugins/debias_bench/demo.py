"""The demo: real data with two columns of noise, a model of each library, and an audit of each model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.results.sentences import rank_of
from debias.text import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from debias.results.audit import Audit

UNIQUE, BINARY = "noise_unique", "noise_binary"
N_TREES = 200


def demo_data(seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return scikit-learn's diabetes data with two columns of noise that are independent of the response.

    Parameters
    ----------
    seed : int
        Seed of the noise.

    Returns
    -------
    X : DataFrame of shape (442, 12)
        Ten measurements, ``noise_unique`` (a different value in every row) and ``noise_binary``.
    y : Series of shape (442,)
        Disease progression.
    """
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    rng = np.random.default_rng(seed)
    X = X.assign(**{UNIQUE: rng.permutation(len(X)).astype(float), BINARY: rng.integers(0, 2, len(X)).astype(float)})
    return X, y


def demo_audits(seed: int = 0, n_jobs: int = 1) -> Iterator[Audit]:
    """Train a forest, an XGBoost model and a LightGBM model, and audit each.

    The forest is scored on its out-of-bag rows, the boosters on a third of the rows that is held out.

    Parameters
    ----------
    seed : int
        Seed of the noise, the split and the models.
    n_jobs : int
        Number of threads for training and scoring.

    Yields
    ------
    Audit
    """
    from sklearn.model_selection import train_test_split

    X, y = demo_data(seed)
    train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=1 / 3, random_state=seed)
    forest, *boosters = _models(seed, n_jobs)
    yield debias.audit(forest.fit(X, y), X, y, rows="oob", seed=seed, n_jobs=n_jobs)
    for model in boosters:
        model.fit(train_X, train_y)
        # With train=, the test rows are proven not to be training rows.
        yield debias.audit(model, test_X, test_y, rows="held-out", train=(train_X, train_y), seed=seed, n_jobs=n_jobs)


def on_noise(audit: Audit) -> str:
    """Return the reported and the debiased share of the noise column that the library ranks higher, in sentences."""
    assert audit.reported is not None
    names = list(audit.main.feature_names)
    reported = dict(zip(names, audit.reported, strict=True))
    noise = max((UNIQUE, BINARY), key=reported.__getitem__)
    below = sorted(name for name in names if reported[name] < reported[noise] and name not in (UNIQUE, BINARY))
    k = names.index(noise)
    above = f", above {', '.join(below)}" if below else ""
    return (
        f"{noise} has {percent(reported[noise])} of the reported importance: {rank_of(audit.reported, k)} by "
        f"{audit.reported_kind}{above}. After debiasing it has {percent(audit.share[k])}."
    )


def _models(seed: int, n_jobs: int) -> list[Any]:
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import RandomForestRegressor
    from xgboost import XGBRegressor

    return [
        RandomForestRegressor(n_estimators=N_TREES, random_state=seed, n_jobs=n_jobs),
        XGBRegressor(n_estimators=N_TREES, learning_rate=0.05, max_depth=4, random_state=seed, n_jobs=n_jobs),
        LGBMRegressor(n_estimators=N_TREES, learning_rate=0.05, random_state=seed, n_jobs=n_jobs, verbose=-1),
    ]
