import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

collect_ignore = ["plugin_dist/tests"]  # a plugin's own, run where it is installed: hooks/test_plugin_dist.py


@pytest.fixture(scope="session")
def diabetes():
    """Diabetes data as a frame and a series."""
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture(scope="session")
def cancer():
    """Breast cancer data as arrays, rows shuffled with a fixed seed."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="session")
def models():
    """Return a function that makes an unfitted model by library and task."""

    def make(library, task="regression", **settings):
        kinds = {
            "sklearn": {"regression": RandomForestRegressor, "classification": RandomForestClassifier},
            "xgboost": {"regression": XGBRegressor, "classification": XGBClassifier},
            "lightgbm": {"regression": LGBMRegressor, "classification": LGBMClassifier},
        }
        if library == "lightgbm":
            settings = {"verbose": -1} | settings
        return kinds[library][task](**({"n_estimators": 40, "random_state": 0, "n_jobs": 1} | settings))

    return make
