"""What meta-methods promise, by simulation with fixed seeds; tolerances follow from the number of trials."""

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias
from debias_bench.measures import homogeneity
from debias_bench.simulate import deng_t1, loh, strobl

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:these are scores on training rows")]


@pytest.mark.parametrize("inner", ["mdi", "mdi_oob"])
def test_dengs_algorithm_ranks_the_informative_copies_above_every_noise(inner):
    """000 section 4 has 200 trees and 200 replicates: X1 to X4 carry the response in full, X5 and X6 in part, U not."""
    drawn = deng_t1(seed=0)
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0, n_jobs=1).fit(drawn.numeric, drawn.y)
    found = debias.score(forest, drawn.numeric, drawn.y, f"partial_permutation({inner}, replicates=12)", random_state=1)
    share = dict(zip(found.feature_names, found.values.tolist(), strict=True))
    noise = max(value for name, value in share.items() if name.startswith("U"))
    assert all(share[name] > max(0.9, noise) for name in ("X1", "X2", "X3", "X4"))


def test_shadows_take_the_bias_off_impurity_on_strobls_null():
    n = 40
    plain, above = [], []
    for seed in range(n):
        drawn = strobl(null=True, seed=seed)
        forest = RandomForestClassifier(20, random_state=seed, n_jobs=1).fit(drawn.numeric, drawn.y)
        plain.append(debias.score(forest, None, scorer="mdi").values)
        text = "shadow(mdi, replicates=3, permute='column')"
        above.append(debias.score(forest, drawn.numeric, drawn.y, text, random_state=seed).values)
    print(homogeneity(np.array(plain)), homogeneity(np.array(above)))
    assert homogeneity(np.array(plain)) < 1e-9
    assert homogeneity(np.array(above)) > 0.001
    z = np.mean(above, axis=0) / (np.std(above, axis=0, ddof=1) / np.sqrt(n))
    assert (np.abs(z) < stats.t.isf(0.0005 / z.size, n - 1)).all()


@pytest.mark.parametrize("inner", ["mdi", "gain"])
def test_the_ratio_is_flat_on_noise_and_its_threshold_keeps_the_family_wise_error(inner):
    n, plain, ratio, found = 30, [], [], 0
    for seed in range(n):
        drawn = loh("E0", 200, seed=seed)
        X = drawn.numeric
        model = (
            RandomForestRegressor(15, min_samples_leaf=5, random_state=seed, n_jobs=1)
            if inner == "mdi"
            else LGBMRegressor(n_estimators=15, num_leaves=8, min_child_samples=5, n_jobs=1, verbose=-1)
        ).fit(X, drawn.y)
        text = f"threshold(response_permutation({inner}, replicates=39, rule='ratio'))"
        scores = debias.score(model, X, drawn.y, text, random_state=seed)
        plain.append(scores.details["unadjusted"])
        ratio.append(scores.values)
        found += bool(scores.selected.any())
    print(inner, homogeneity(np.array(plain)), homogeneity(np.array(ratio)), found)
    assert homogeneity(np.array(plain)) < 1e-9
    assert homogeneity(np.array(ratio)) > 0.001
    assert stats.binomtest(found, n, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("design", ["E1", "E2", "E3", "E4", "E5"])
def test_what_matters_is_selected_more_often_than_noise(design):
    """By standardised scores: GUIDE's own rule compares raw ones, and many-valued noise hides few-valued features."""
    selected, relevant = [], None
    for seed in range(12):
        drawn = loh(design, seed=seed)
        model = RandomForestRegressor(15, min_samples_leaf=5, random_state=seed, n_jobs=1)
        model.fit(drawn.numeric, drawn.y)
        text = "threshold(response_permutation(mdi, replicates=19), rule='fwer', alpha=0.1)"
        selected.append(debias.score(model, drawn.numeric, drawn.y, text, random_state=seed).selected)
        relevant = drawn.is_relevant
    rate = np.mean(selected, axis=0)
    print(design, rate[relevant].mean(), rate[~relevant].mean())
    assert rate[relevant].mean() > rate[~relevant].mean()
