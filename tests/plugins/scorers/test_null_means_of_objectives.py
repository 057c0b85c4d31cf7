"""Mean scores of pure noise under other losses than the plain ones, and of LightGBM's forests. Long: see README."""

import lightgbm
import numpy as np
import pytest
import xgboost

import debias
from support import pure_noise
from support.pure_noise import z_of_means

pytestmark = [
    pytest.mark.slow,
    # Fresh rows are warned of as training rows now and then (EVIDENCE in debias.rows.recognition).
    pytest.mark.filterwarnings("ignore:about .* rows are training rows:debias.DebiasWarning"),
]

N_ROWS, N_REPEATS = 200, 200
# Two-sided normal tail at 4 is 6e-5; 5 features x 12 means: a false alarm in 0.4 % of all seeds.
TOLERANCE = 4.0
BIASED = 8.0

OBJECTIVES = {
    "poisson": ("count:poisson", "poisson", {}, lambda rng: rng.poisson(2.0, N_ROWS)),
    "quantile": ("reg:quantileerror", "quantile", {}, lambda rng: rng.exponential(size=N_ROWS) ** 2),
    "absolute": ("reg:absoluteerror", "regression_l1", {}, lambda rng: rng.exponential(size=N_ROWS) ** 2),
    "tweedie": ("reg:tweedie", "tweedie", {}, lambda rng: rng.exponential(size=N_ROWS) * (rng.random(N_ROWS) < 0.6)),
    "classes": ("multi:softprob", "multiclass", {"num_class": 3}, lambda rng: rng.choice(3, N_ROWS, p=[0.6, 0.3, 0.1])),
}


def train(library, name, X, y, **settings):
    of_xgboost, of_lightgbm, params, _ = OBJECTIVES[name]
    alpha = {"quantile_alpha": 0.8} if library is xgboost else {"alpha": 0.8}
    params = {**params, **(alpha if name == "quantile" else {}), **settings}
    if library is xgboost:
        params = {"objective": of_xgboost, "max_depth": 3, "nthread": 1, "max_bin": 32, **params}
        return xgboost.train(params, xgboost.DMatrix(X, y, nthread=1), 30)
    params = {"objective": of_lightgbm, "num_threads": 1, "num_leaves": 8, "verbose": -1, **params}
    return lightgbm.train(params, lightgbm.Dataset(X, y), 30)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("library", [xgboost, lightgbm], ids=lambda library: library.__name__)
def test_noise_scores_0_under_every_loss(library, name):
    rng = np.random.default_rng(2026)
    respond = OBJECTIVES[name][3]
    scores, gains = [], []
    for _ in range(N_REPEATS):
        X, y = pure_noise.features(rng, N_ROWS), respond(rng)
        fresh_X, fresh_y = pure_noise.features(rng, N_ROWS), respond(rng)
        audit = debias.audit(train(library, name, X, y), fresh_X, fresh_y, ["mdi_oob", "gain"], rows="held-out")
        scores.append(audit.scores["mdi_oob"].values)
        gains.append(audit.scores["gain"].values)
    assert np.abs(z_of_means(scores)).max() < TOLERANCE
    assert z_of_means(gains).min() > BIASED


@pytest.mark.parametrize("name", ["absolute", "quantile"])
def test_noise_scores_0_on_the_oob_rows_of_a_lightgbm_forest(name):
    rng = np.random.default_rng(2027)
    scores = []
    forest = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "min_data_in_leaf": 5}
    for _ in range(N_REPEATS):
        X, y = pure_noise.features(rng, N_ROWS), OBJECTIVES[name][3](rng)
        model = train(lightgbm, name, X, y, **forest, bagging_seed=int(rng.integers(2**31)))
        scores.append(debias.score(model, X, y, rows="oob").values)
    assert np.abs(z_of_means(scores)).max() < TOLERANCE
