"""Mean scores of pure noise: 0 for the debiased scores, not 0 for those they replace. Long: see README."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from support import pure_noise
from support.pure_noise import z_of_means

pytestmark = [
    pytest.mark.slow,
    # Some of the 1,200 sets of fresh rows are warned of as training rows (EVIDENCE in debias.rows.recognition).
    pytest.mark.filterwarnings("ignore:about .* rows are training rows:debias.DebiasWarning"),
]

N_ROWS, N_REPEATS = 200, 200
# Two-sided normal tail at 4 is 6e-5; 5 features x 14 means of debiased scores: a false alarm in 0.4 % of all seeds.
TOLERANCE = 4.0
BIASED = 8.0

RESPONSES = {
    "balanced": lambda rng: rng.permutation(np.arange(N_ROWS) % 2),
    "10:90": lambda rng: rng.permutation((np.arange(N_ROWS) < N_ROWS // 10).astype(int)),
    "skewed": lambda rng: rng.exponential(size=N_ROWS) ** 2,
}


def z_of_draws(draw, response, scorers):
    """Return mean over standard error of each feature's score, by scorer, over independent repeats."""
    rng = np.random.default_rng(2026)
    scores = {name: [] for name in scorers}
    for _ in range(N_REPEATS):
        for name, values in draw(rng, RESPONSES[response], scorers).items():
            scores[name].append(values)
    return {name: z_of_means(values) for name, values in scores.items()}


def forest_scores(rng, response, scorers):
    X, y = pure_noise.features(rng, N_ROWS), response(rng)
    kind = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
    forest = kind(30, random_state=int(rng.integers(2**31))).fit(X, y)
    audit = debias.audit(forest, X, y, scorers, rows="oob")
    return {name: audit.scores[name].values for name in scorers}


def booster_scores(kinds):
    def draw(rng, response, scorers):
        X, y = pure_noise.features(rng, N_ROWS), response(rng)
        fresh_X, fresh_y = pure_noise.features(rng, N_ROWS), response(rng)
        kind = kinds[y.dtype.kind == "f"]
        quiet = {"verbose": -1} if kind.__name__.startswith("LGBM") else {}
        model = kind(n_estimators=30, max_depth=3, n_jobs=1, **quiet).fit(X, y)
        audit = debias.audit(model, fresh_X, fresh_y, scorers, rows="held-out")
        return {name: audit.scores[name].values for name in scorers}

    return draw


@pytest.mark.parametrize("response", RESPONSES)
def test_noise_scores_0_on_average_in_a_forest(response):
    found = z_of_draws(forest_scores, response, ["mdi_oob", "ufi", "mdi", "mdi_oob(centre='none')"])
    assert np.abs(found["mdi_oob"]).max() < TOLERANCE
    assert np.abs(found["ufi"]).max() < TOLERANCE
    assert found["mdi"].min() > BIASED
    if response == "10:90":  # eq. 14 to the letter is biased where classes are unbalanced
        assert np.abs(found["mdi_oob(centre='none')"]).max() > BIASED


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("kinds", [(XGBClassifier, XGBRegressor), (LGBMClassifier, LGBMRegressor)])
def test_noise_scores_0_on_average_in_boosters(kinds, response):
    found = z_of_draws(booster_scores(kinds), response, ["mdi_oob", "gain"])
    assert np.abs(found["mdi_oob"]).max() < TOLERANCE
    assert found["gain"].min() > BIASED


def test_ufi_does_not_have_mean_0_for_a_feature_that_adds_nothing_to_the_others():
    """The claim of scikit-learn's pull request 31279 is true of independent features alone (docs/scorers/ufi.md)."""
    rng, scores = np.random.default_rng(31279), []
    for seed in range(60):
        X = rng.normal(size=(500, 3))
        X[:, 1] = X[:, 0] + X[:, 1] / 2
        y = X[:, 0] + rng.normal(size=500)
        forest = RandomForestRegressor(50, max_features=1 / 3, random_state=seed).fit(X, y)
        scores.append(debias.score(forest, X, y, "ufi", rows="oob").values)
    assert abs(z_of_means(scores)[2]) < TOLERANCE
    assert z_of_means(scores)[1] > BIASED
    assert np.mean(scores, axis=0)[1] == pytest.approx(0.381, abs=TOLERANCE * np.sqrt(2) * 0.009)  # of other data sets
