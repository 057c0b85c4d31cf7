"""Mean scores of features that know nothing: 0 for shap_oob and permutation, not for mean |SHAP|. Long: see README."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias_bench import simulate
from support.pure_noise import z_of_means

pytestmark = [
    pytest.mark.slow,
    # Fresh rows are warned of as training rows now and then (EVIDENCE in debias.rows.recognition).
    pytest.mark.filterwarnings("ignore:about .* rows are training rows:debias.DebiasWarning"),
]

SCORERS = ["shap", "shap_oob", "permutation(n_repeats=1)"]


def mean_and_z(draws):
    """Return the mean of each noise feature's score, and its z, by scorer, over independent repeats."""
    scores = {name: np.array([draw[name] for draw in draws]) for name in SCORERS}
    return {name: scores[name].mean(axis=0) for name in SCORERS}, {name: z_of_means(scores[name]) for name in SCORERS}


def forest_scores(drawn, seed, **settings):
    X, y = drawn.X, drawn.y
    kind = RandomForestClassifier if y.dtype.kind in "iu" else RandomForestRegressor
    forest = kind(random_state=seed, **settings).fit(X, y)
    return {name: debias.score(forest, X, y, name, rows="oob", random_state=seed).values for name in SCORERS}


def test_on_strobls_null_oob_scores_are_0_and_shap_is_not():
    draws = [forest_scores(simulate.strobl(null=True, seed=k), k, n_estimators=30) for k in range(200)]
    mean, z = mean_and_z(draws)
    # 5 features: |z| beyond 4 has a chance of 3e-4 in all.
    assert np.abs(z["shap_oob"]).max() < 4
    assert np.abs(z["permutation(n_repeats=1)"]).max() < 4
    # Mean |SHAP| is positive on noise, and several times larger where there are more values.
    assert z["shap"].min() > 10
    assert mean["shap"][0] > 2 * mean["shap"][1]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_on_lis_noise_oob_scores_are_0_and_shap_is_not(task):
    draws, noise = [], []
    for k in range(60):
        drawn = simulate.li(task=task, seed=k)
        scores = forest_scores(drawn, k, n_estimators=50, max_features=10)
        draws.append(scores)
        noise.append([name not in drawn.relevant for name in drawn.X.columns])
    noise = np.array(noise)
    for name, unbiased in (("shap_oob", True), ("permutation(n_repeats=1)", True), ("shap", False)):
        values = np.array([draw[name] for draw in draws])
        # One mean a repeat and quarter of the features (by number of values); repeats are independent.
        for quarter in np.array_split(np.arange(50), 4):
            per_repeat = np.array([row[quarter][keep[quarter]].mean() for row, keep in zip(values, noise, strict=True)])
            z = z_of_means(per_repeat)
            assert abs(z) < 4 if unbiased else z > 10


def test_boosted_noise_scores_0_on_held_out_rows_but_by_shap():
    draws = []
    for k in range(200):
        fit, fresh = simulate.strobl(null=True, seed=2 * k), simulate.strobl(null=True, seed=2 * k + 1)
        model = XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1).fit(fit.X, fit.y)
        draws.append(
            {
                name: debias.score(model, fresh.X, fresh.y, name, rows="held-out", random_state=k).values
                for name in SCORERS
            }
        )
    _, z = mean_and_z(draws)
    assert np.abs(z["shap_oob"]).max() < 4
    assert z["shap"].min() > 10
