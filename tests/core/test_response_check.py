"""y of fresh rows that is not the response a model was trained on is warned of; noise and other losses are not."""

import warnings

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.multioutput import MultiOutputRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias

NUMBERS = {
    "forest": lambda: RandomForestRegressor(30, random_state=0),
    "squared error": lambda: XGBRegressor(n_estimators=30, n_jobs=1),
    "absolute error": lambda: XGBRegressor(n_estimators=30, n_jobs=1, objective="reg:absoluteerror"),
    "a high quantile": lambda: LGBMRegressor(n_estimators=30, n_jobs=1, verbose=-1, objective="quantile", alpha=0.95),
}
CLASSES = {
    "forest": lambda: RandomForestClassifier(30, random_state=0),
    "logistic": lambda: XGBClassifier(n_estimators=30, n_jobs=1),
}


def drawn(seed, signal=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(700, 4))
    return X, 50 + signal * 5 * X[:, 0] + 5 * rng.normal(size=700)


def said(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = debias.score(model, X, y, rows="held-out").warnings
    return [note for note in notes if note.startswith(("y does not look", "y goes down"))]


@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if kind != "a high quantile"])
@pytest.mark.parametrize("change", [lambda y: 1000 * y, np.log, lambda y: y - 100], ids=["x 1000", "log", "less 100"])
def test_other_units_are_warned_of(kind, change):
    X, y = drawn(0)
    model = NUMBERS[kind]().fit(X[:400], y[:400])
    assert said(model, X[400:], change(y[400:]))
    assert not said(model, X[400:], y[400:])


@pytest.mark.parametrize("kind", CLASSES)
def test_exchanged_labels_are_warned_of(kind):
    X, y = drawn(0)
    y = (y > 50).astype(int)
    model = CLASSES[kind]().fit(X[:400], y[:400])
    assert "goes down" in said(model, X[400:], 1 - y[400:])[0]
    assert not said(model, X[400:], y[400:])


def test_one_output_among_several_is_warned_of():
    X, y = drawn(0)
    both = np.column_stack([y, -y])
    model = MultiOutputRegressor(RandomForestRegressor(20, random_state=0)).fit(X[:400], both[:400])
    assert said(model, X[400:], both[400:] * [1, 1000])
    assert not said(model, X[400:], both[400:])


@pytest.mark.parametrize("n_rows", [20, 60, 300])
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_response_of_noise_is_not(kind, n_rows):
    for seed in range(10):
        X, y = drawn(seed, signal=0.0)
        model = NUMBERS[kind]().fit(X[:400], y[:400])
        assert not said(model, X[400 : 400 + n_rows], y[400 : 400 + n_rows])
