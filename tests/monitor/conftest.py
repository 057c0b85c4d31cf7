"""A model, rows of days, and a history of them."""

import warnings
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import debias

FIRST = date(2026, 1, 1)


def day(number, n_rows=60, effect=1.0, moved=0.0):
    """The rows of a day: X and y."""
    rng = np.random.default_rng([25, number])
    X = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=["a", "b", "noise"])
    X["a"] += moved
    y = X["a"] + effect * X["b"] + 0.5 * rng.standard_normal(n_rows)
    return X, y.to_numpy()


@pytest.fixture(scope="session")
def days():
    return day


@pytest.fixture(scope="session")
def model():
    return GradientBoostingRegressor(n_estimators=30, random_state=0).fit(*day(1000, 500))


@pytest.fixture(scope="session")
def retrained():
    return GradientBoostingRegressor(n_estimators=20, random_state=1).fit(*day(1001, 500))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.history"


@pytest.fixture(scope="session")
def kept(model, tmp_path_factory):
    """A history of 24 days; from day 14 on b has no effect, and a is moved. There is no day 5."""
    path = tmp_path_factory.mktemp("kept") / "model.history"
    history = debias.History(model, path)
    for number in range(25):
        if number != 5:
            rows = day(number, 60 + number, effect=1.0 if number < 14 else 0.0, moved=0.0 if number < 14 else 0.6)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", debias.DebiasWarning)  # of the shift, on some days
                history.add(*rows, at=FIRST + timedelta(number))
    return path
