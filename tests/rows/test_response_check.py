"""y that the model cannot have been trained to predict is warned of; noise and fresh rows are not."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import debias
from debias.rows.response_check import _share_equal
from support import simulated

N = 600
WORDS = ("y is equal to", "y does not look like", "y goes down where", "the mean of y is", "the share of class")


def draw(seed, task="regression"):
    cuts = None if task == "regression" else [10.5]
    return simulated.rows(N, 4, lambda X: 10 + 2 * X[:, 0] + X[:, 1], cuts=cuts, seed=seed)


def said(model, X, y):
    """Return what was said of y."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = debias.score(model, X, y, rows="held-out").warnings
    return [text for text in found if text.startswith(WORDS)]


LIBRARIES = ["sklearn", "xgboost", "lightgbm"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: 1000 * y, "y does not look like"),
        (np.log1p, "y does not look like"),
        (lambda y: y + 50, "y does not look like"),
        (lambda y: 20 - y, "y goes down where"),
    ],
    ids=["times 1,000", "logarithm", "another zero", "reversed"],
)
def test_a_response_in_other_units_is_told(library, change, words, models):
    model = models(library).fit(*draw(0))
    X, y = draw(1)
    assert said(model, X, y) == []
    assert said(model, X, change(np.maximum(y, 0.1)))[0].startswith(words)


@pytest.mark.parametrize("library", LIBRARIES)
def test_exchanged_labels_are_told(library, models):
    model = models(library, "classification").fit(*draw(0, "classification"))
    X, y = draw(1, "classification")
    assert said(model, X, y) == []
    assert said(model, X, 1 - y)[0].startswith("y goes down where")


@pytest.mark.thorough
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("noise", ["normal", "standard_cauchy"])
def test_noise_is_no_other_response(library, noise, models):
    """Predictions of noise are wrong on both sides, and go neither with y nor against it."""
    told = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(400, 5)), getattr(rng, noise)(size=400)
        told += bool(said(models(library, n_estimators=10).fit(X[:200], y[:200]), X[200:], y[200:]))
    # Each of the signs has a probability below 1e-4 by the normal law.
    assert told == 0


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_rows_of_a_forest_that_were_chosen_by_y_are_told(task, models):
    model = models("sklearn", task).fit(*draw(0, task))
    X, y = draw(1, task)
    high = y > np.median(y) if task == "regression" else (y == 1) | (np.arange(N) % 4 == 0)
    (text,) = said(model, X[high], y[high])
    X_0, y_0 = draw(0, task)
    if task == "regression":
        assert text.startswith(f"the mean of y is {y[high].mean():.4g} among these rows and")
        assert float(text.split(" and ")[1].split(" in training")[0]) == pytest.approx(y_0.mean(), abs=0.1)
    else:
        assert text.startswith(("the share of class 0", "the share of class 1"))
        k = int(text.split("class ")[1][0])
        assert f"is {(y[high] == k).mean():.1%} among these rows" in text


@pytest.mark.thorough
def test_balanced_and_weighted_forests_do_not_tell_the_mean_of_y(models):
    X, y = draw(0, "classification")
    y = (draw(0)[1] > 12.5).astype(int)  # 1 in 6
    X_new, y_new = draw(1)[0], (draw(1)[1] > 12.5).astype(int)
    for settings in (
        {"class_weight": "balanced"},
        {"class_weight": "balanced_subsample"},
        {"class_weight": {0: 1, 1: 5}},
    ):
        assert said(models("sklearn", "classification", **settings).fit(X, y), X_new, y_new) == []
    weight = np.where(y == 1, 5.0, 1.0)
    assert said(models("sklearn", "classification").fit(X, y, sample_weight=weight), X_new, y_new) == []
    for bootstrap in (False, True):
        from sklearn.ensemble import ExtraTreesClassifier

        trees = ExtraTreesClassifier(30, bootstrap=bootstrap, random_state=0, class_weight={0: 1, 1: 5}).fit(X, y)
        assert said(trees, X_new, y_new) == []


def test_the_first_large_batch_tells_too(models):
    model = models("lightgbm").fit(*draw(0))
    X, y = draw(1)
    with pytest.warns(debias.DebiasWarning, match="y does not look like"):
        debias.score(model, iter([(X[:300], y[:300] * 1000), (X[300:], y[300:] * 1000)]), rows="held-out")


def test_predictions_of_several_responses_are_told():
    X, y = draw(0)
    model = RandomForestRegressor(10, random_state=0).fit(X, np.column_stack([y, -y]))
    X_new, y_new = draw(1)
    assert said(model, X_new, np.column_stack([y_new, -y_new])) == []
    assert said(model, X_new, model.predict(X_new))[0].startswith("y is equal to the predictions")


def test_predictions_whose_decimals_were_cut_off_are_told(models):
    X, y = draw(0)
    X_new, y_new = draw(1)
    model = models("sklearn").fit(X, 10 * y)
    assert said(model, X_new, (10 * y_new).astype(int)) == []
    assert said(model, X_new, model.predict(X_new).astype(int))[0].startswith("y is equal to the predictions")


@pytest.mark.parametrize("library", LIBRARIES)
def test_predictions_in_a_part_of_the_rows_are_told(library, models):
    model = models(library).fit(*draw(0))
    X, y = draw(1)
    filled = np.where(np.arange(N) % 3 == 0, model.predict(X), y)
    assert said(model, X, filled)[0].startswith(
        "y is equal to the prediction of the model far more often than ties of y explain: in 33%"
    )


def test_training_rows_of_full_trees_are_predicted_without_an_error():
    X, y = draw(0)
    model = ExtraTreesRegressor(10, random_state=0).fit(X, y)
    X_new, y_new = draw(1)
    mixed = np.where(np.arange(N) % 4 == 0, y, y_new)
    found = said(model, np.where(np.arange(N)[:, None] % 4 == 0, X, X_new), mixed)
    assert found[0].startswith(
        "y is equal to the prediction of the model far more often than ties of y explain: in 25%"
    )


def test_y_with_ties_is_told_if_it_is_equal_to_a_prediction_everywhere():
    y = np.repeat(np.arange(12.0), 20)[:, None]
    assert _share_equal(y, y.copy()) == 1
    assert _share_equal(y % 9, y % 9) is None  # few values: a good model may know them all
    shifted = np.where(np.arange(240)[:, None] % 20 < 10, y, y + 1)
    assert _share_equal(y, shifted) is None  # half of them, as often as y of the next row
    unique = np.arange(240.0)[:, None]
    assert _share_equal(unique, np.where(unique % 3 < 1, unique, unique + 0.5)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("n_values", [2, 5, 40])
def test_right_predictions_of_few_values_are_ties(n_values):
    """A tree of whole leaves predicts values of y, so many predictions are right; those of the next row are, too."""
    cut = np.linspace(4, 16, n_values - 1)
    (X, y), (X_new, y_new) = draw(0), draw(1)
    model = DecisionTreeRegressor(random_state=0).fit(X[:, :2], np.searchsorted(cut, y))
    y_new = np.searchsorted(cut, y_new)
    assert (model.predict(X_new[:, :2]) == y_new).mean() > 0.05
    assert said(model, X_new[:, :2], y_new) == []
