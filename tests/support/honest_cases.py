"""Models whose scores by honest fits at every node the tests compare with fits from the definition."""

from importlib.metadata import version

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

from support import oracle, simulated
from support.missing_values import IN_FORESTS, WHY

FORESTS = {
    "binary": (RandomForestClassifier(4, random_state=0), [1.0], 0.0),
    "3-class, missing": (RandomForestClassifier(4, random_state=0), [-0.3, 0.8], 0.2),
    "regression": (RandomForestRegressor(3, random_state=0), None, 0.0),
    "regression, missing": (RandomForestRegressor(3, random_state=0, max_depth=4), None, 0.2),
    "extra trees": (ExtraTreesRegressor(3, random_state=0, bootstrap=True), None, 0.0),
    "balanced": (RandomForestClassifier(4, random_state=0, class_weight="balanced_subsample"), [1.0], 0.0),
}
"""Unfitted forest, boundaries of the classes (None for a regression), share of missing values."""
BOOSTERS = {
    "xgboost": (XGBRegressor(n_estimators=3, max_depth=3, learning_rate=0.3, n_jobs=1), None),
    "xgboost 3-class": (XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1), [-0.3, 0.8]),
    "lightgbm binary": (LGBMClassifier(n_estimators=3, num_leaves=6, min_child_samples=3, n_jobs=1, verbose=-1), [0.5]),
}
"""Unfitted booster, boundaries of the classes."""


def rows_of(n, seed, missing=0.0, first="float32"):
    """Return features and a latent response; `first` is the kind of the first feature."""
    kinds = (first, range(2), range(4), range(11))
    return simulated.rows(n, kinds, (1, 1, 0, -0.2), missing=missing, seed=seed)


def fitted_forest(case, n, **settings):
    """Return a fitted forest of `FORESTS`, its rows and response; skip it if forests here take no missing values."""
    model, cuts, missing = FORESTS[case]
    if missing and not IN_FORESTS:
        pytest.skip(f"scikit-learn {version('scikit-learn')} {WHY}")
    X, latent = rows_of(n, 0, missing, **settings)
    y = latent + 3 if cuts is None else np.digitize(latent, cuts)
    return model.fit(X, y), X, y


def fitted_booster(case, X, latent, latent_held):
    """Return a fitted booster of `BOOSTERS`, its form for the oracle, and the two responses."""
    model, cuts = BOOSTERS[case]
    y, y_held = (values if cuts is None else np.digitize(values, cuts) for values in (latent, latent_held))
    model.fit(X, y)
    form = oracle.lightgbm_model(model) if case.startswith("lightgbm") else oracle.xgboost_model(model)
    return model, form, y, y_held
