"""Training rows of LightGBM models are recognised, or it is said that they cannot be told: for every kind of model."""

from __future__ import annotations

import re

import lightgbm
import numpy as np
import pytest

import debias
from debias_adapters.lightgbm.changed_leaves import were_changed
from debias_adapters.lightgbm.reading import ModelText
from support.versions import at_least

N = 400
ALL = "these are the training rows"
SOME = "training rows, as estimated from the leaf counts"
UNTOLD = "cannot check whether these rows contain training rows"
COMMON = {
    "num_leaves": 15, "min_data_in_leaf": 5, "learning_rate": 0.3, "verbose": -1, "num_threads": 1,
    "min_data_per_group": 5, "cat_smooth": 1,
}  # fmt: skip
RISING = {"monotone_constraints": [1, 1, 0, 0]}
ROWS_OF_TREES = {"bagging_fraction": 0.6, "bagging_freq": 1}

NUMBERS = {
    "plain": {},
    "stumps": {"num_leaves": 2},
    "bags": ROWS_OF_TREES,
    "bags for several rounds": {"bagging_fraction": 0.5, "bagging_freq": 3},
    "sampled features": {"feature_fraction": 0.5},
    "extra trees": {"extra_trees": True},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "goss by its old name": {"boosting": "goss"},
    "forest": {"boosting": "rf", **ROWS_OF_TREES},
    "forest without bags": {"boosting": "rf", "feature_fraction": 0.5},
    "categories": {"categorical_feature": [3]},
    "zeros are missing": {"zero_as_missing": True},
    "path_smooth": {"path_smooth": 2.0},
    "lambda_l1": {"lambda_l1": 2.0},
    "lambda_l2": {"lambda_l2": 3.0},
    "lambda_l2, dart": {"lambda_l2": 3.0, "boosting": "dart", "drop_rate": 0.5},
    "max_delta_step": {"max_delta_step": 0.3},
    "quantized": {"use_quantized_grad": True},
    "quantized, renewed": {"use_quantized_grad": True, "quant_train_renew_leaf": True},
    "rising": RISING,
    "rising, intermediate": {**RISING, "monotone_constraints_method": "intermediate"},
    "rising, advanced": {**RISING, "monotone_constraints_method": "advanced"},
    "apart": {"interaction_constraints": [[0, 1], [2, 3]]},
    "no average": {"boost_from_average": False},
    "root of y": {"reg_sqrt": True},
    "absolute": {"objective": "regression_l1"},
    "huber": {"objective": "huber"},
    "fair": {"objective": "fair"},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "percentage": {"objective": "mape"},
    "cross-entropy": {"objective": "cross_entropy"},
    "poisson": {"objective": "poisson"},
    "gamma": {"objective": "gamma"},
    "tweedie": {"objective": "tweedie"},
}
CLASSES = {
    "binary": {"objective": "binary"},
    "forest of classes": {"objective": "binary", "boosting": "rf", **ROWS_OF_TREES},
    "balanced": {"objective": "binary", "is_unbalance": True},
    "weight of positives": {"objective": "binary", "scale_pos_weight": 5},
    "bags by label": {"objective": "binary", "pos_bagging_fraction": 0.9, "neg_bagging_fraction": 0.3, **ROWS_OF_TREES},
    "quantized classes": {"objective": "binary", "use_quantized_grad": True},
    "three classes": {"objective": "multiclass", "num_class": 3},
    "one against all": {"objective": "multiclassova", "num_class": 3},
}
CASES = NUMBERS | CLASSES
POSITIVE = ("poisson", "gamma", "tweedie")


def draw(name, seed):
    """Return rows and a response for a case."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(N, 3)), rng.integers(0, 12, N)])
    y = X[:, 0] + (X[:, 1] > 0) + 2 * np.isin(X[:, 3], [1, 5, 8]) + rng.normal(size=N)
    if name in CLASSES:
        return X, np.digitize(y, [1.0] if CLASSES[name]["objective"] == "binary" else [0.0, 1.5])
    return X, {"cross-entropy": 1 / (1 + np.exp(-y))}.get(name, np.exp(y / 2) if name in POSITIVE else y)


def train(name, X, y, rounds=20, **arguments):
    settings = dict(CASES.get(name, {}))
    data = lightgbm.Dataset(X, y, categorical_feature=settings.pop("categorical_feature", "auto"))
    try:
        return lightgbm.train({**COMMON, **settings}, data, rounds, **arguments)
    except lightgbm.basic.LightGBMError as error:
        if "use_quantized_grad" in settings and "Check failed" in str(error) and not at_least("lightgbm", "4.6"):
            pytest.skip("LightGBM before 4.6 now and then fails to train with quantized gradients")
        raise


def said_of(model, X, y):
    """Return the error or the warning about rows, or "" if they pass."""
    try:
        assert debias.score(model, X, y).rows == "held-out"
    except (debias.ProvenanceError, debias.DebiasWarning) as error:
        words = re.sub(r" of trees \d+ to \d+", "", str(error))
        return words.replace(f"the training rows are among these {N} rows", ALL)  # where each tree has its sample
    return ""


@pytest.mark.parametrize("name", CASES)
def test_training_rows_are_refused_and_fresh_rows_are_not(name):
    X, y = draw(name, 0)
    model = train(name, X, y)
    order = np.random.default_rng(0).permutation(N)
    # Few bags of half of the rows do not prove that every leaf has its rows, but tell their share.
    assert (SOME if name == "bags for several rounds" else ALL) in said_of(model, X[order], y[order])
    half = order[: N // 2]  # the two leaves of a stump tell little of a half
    assert {"bags by label": UNTOLD, "stumps": ""}.get(name, SOME) in said_of(model, X[half], y[half])
    answer = said_of(model, *draw(name, 1))
    assert UNTOLD in answer if name == "bags by label" else answer == ""


def test_an_objective_of_ones_own_hides_no_training_rows():
    X, y = draw("plain", 0)
    settings = {"num_leaves": 15, "verbose": -1, "n_jobs": 1}
    model = lightgbm.LGBMRegressor(objective=lambda y, f: (f - y, np.ones_like(f)), **settings).fit(X, y)
    assert ALL in said_of(model, X[::-1], y[::-1])
    assert SOME in said_of(model, X[::2], y[::2])
    assert said_of(model, *draw("plain", 1)) == ""


def test_early_stopping_hides_no_training_rows():
    X, y = draw("plain", 0)
    held = lightgbm.Dataset(*draw("plain", 2), reference=lightgbm.Dataset(X, y))
    stop = lightgbm.early_stopping(2, verbose=False)
    model = train("plain", X, y, rounds=90, valid_sets=[held], callbacks=[stop])
    assert model.best_iteration < 90
    assert ALL in said_of(model, X[::-1], y[::-1])
    assert SOME in said_of(model, X[::2], y[::2])
    assert said_of(model, *draw("plain", 1)) == ""


# --- Booster.refit: leaf values of other rows than the counts ------------------------------------------

NOT_TOLD = ("lambda_l1", "max_delta_step", "quantized, renewed", "absolute", "quantile", "percentage", "stumps")
"""Their leaves are not the means that the nodes above store; or, before LightGBM 4.6, no node but roots has leaves."""
NOT_REFITTED = ("path_smooth",)
"""LightGBM's refit ends the process."""


@pytest.mark.parametrize("name", CASES)
def test_leaves_that_were_not_changed_are_not_said_to_be(name):
    assert not were_changed(text_of(train(name, *draw(name, 0))))


def can_be_told(name):
    return name not in (*NOT_TOLD, *NOT_REFITTED) and not name.startswith("rising")


@pytest.mark.parametrize("decay", [0.1, 0.9])
@pytest.mark.parametrize("name", [name for name in CASES if can_be_told(name)])
def test_rows_of_a_refit_cannot_be_told(name, decay):
    """They would pass as held-out rows: the counts are those of the rows that the trees were grown on."""
    model, new_rows = train(name, *draw(name, 0)), draw(name, 1)
    again = model.refit(*new_rows, decay_rate=decay)
    assert were_changed(text_of(again))
    assert UNTOLD in said_of(again, *new_rows)


def test_the_bags_of_a_forest_prove_nothing_after_a_refit():
    X, y = draw("forest", 0)
    model = train("forest", X, y)
    assert debias.score(model, X, y, rows="oob").provenance["status"] == "proven"
    again = model.refit(*draw("forest", 1))
    with pytest.raises(debias.InBagUnavailableError, match="leaf values .* were changed after its trees were grown"):
        debias.score(again, X, y, rows="oob")
    assert not debias.plugin.extract(again).mean_values


def text_of(booster):
    return ModelText.parse(booster.model_to_string(), "test")


@pytest.mark.parametrize("seed", range(5))
def test_smoothed_splits_on_categories_are_not_taken_for_changed_leaves(seed):
    rng = np.random.default_rng(seed)
    X, fresh = (np.column_stack([rng.normal(size=n), rng.integers(0, 100, n)]) for n in (600, 300))
    y, fresh_y = (rows[:, 0] + (rows[:, 1] % 3) + rng.normal(size=len(rows)) for rows in (X, fresh))
    settings = {"min_data_per_group": 5, "cat_smooth": 1, "verbose": -1, "num_leaves": 15}
    booster = lightgbm.train(settings, lightgbm.Dataset(X, y, categorical_feature=[1]), 20)
    assert debias.plugin.extract(booster).count is not None
    changed = debias.plugin.extract(booster.refit(fresh, fresh_y))
    assert changed.count is None
    assert any("changed after the trees were grown" in note for note in changed.notes)
