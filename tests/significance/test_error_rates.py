"""Error rates on simulated data: at or below nominal within 3 Monte-Carlo standard errors. Long: see README.

The settings are those of ``debias bench significance``, which prints the same rates from more data sets.
"""

import numpy as np
import pytest
from scipy.stats import chisquare, norm
from xgboost import XGBRegressor

import debias
from debias_bench import rare_classes
from debias_bench import significance as bench
from debias_bench import significance_settings as designs

pytestmark = pytest.mark.slow

N_DATA_SETS = 40
SETTINGS = {each.name: each for each in designs.settings()}
INVALID = "rows in pairs, no blocks"
CALIBRATED = [name for name in SETTINGS if name != INVALID and "n = 2000" not in name]


def rates(name, n_data_sets=N_DATA_SETS):
    p, adjusted, relevant = (
        np.array(part) for part in zip(*bench.p_values(SETTINGS[name], n_data_sets, seed=1), strict=True)
    )
    return np.where(relevant, np.nan, p), np.where(relevant, np.nan, adjusted)


@pytest.mark.parametrize("name", CALIBRATED)
def test_noise_is_rejected_no_more_often_than_stated(name):
    p, adjusted = rates(name)
    assert np.nanmin(p) > 0
    for u in bench.LEVELS:
        by_data_set = np.nanmean(np.where(np.isnan(p), np.nan, p <= u), axis=1)
        error = max(by_data_set.std(ddof=1), np.sqrt(u * (1 - u) / p.shape[1])) / np.sqrt(len(p))
        assert by_data_set.mean() <= u + 3 * error
    # One by one, the tolerance of 3 standard errors is widened for the number of features.
    n = (~np.isnan(p)).sum(axis=0)
    reach = norm.isf(norm.sf(3) / p.shape[1])
    by_feature = np.nansum(p <= 0.05, axis=0) / np.maximum(n, 1)
    assert (by_feature <= 0.05 + reach * np.sqrt(0.05 * 0.95 / np.maximum(n, 1))).all()
    family = (np.nanmin(adjusted, axis=1) <= 0.05).mean()
    assert family <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(p))


@pytest.mark.parametrize("ratio", [20, 100, 500])
@pytest.mark.parametrize("model", rare_classes.MODELS)
def test_noise_is_found_no_more_often_than_stated_where_a_class_is_rare(ratio, model):
    """Held-out rows, 5 models of 20 sets each; sets of one model may be alike, so errors are over models too."""
    setting = rare_classes.Setting(ratio, model, 5000)
    found = np.array([rare_classes.any_found(setting, 100 + each)["auto"] for each in range(5)])
    share, error = rare_classes.rate(found)
    assert share <= rare_classes.ALPHA + 3 * max(error, np.sqrt(0.05 * 0.95 / found.size))


def test_pairs_of_rows_taken_for_independent_are_all_found():
    """What blocks are for: without them nearly every feature of noise comes out."""
    p, _ = rates(INVALID, 5)
    assert (p <= 0.05).mean() > 0.9


@pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning")
def test_held_out_permutations_are_exact():
    """One model, one set of held-out rows, many responses of noise: p is uniform on 1/20, 2/20, ..., 1."""
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(150, 3)), rng.normal(size=(60, 3))
    model = XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X, rng.normal(size=150))
    p = []
    for each in range(300):
        given = {"rows": "held-out", "test": debias.Permutation(19, adaptive=False), "random_state": each}
        p.append(debias.audit(model, fresh, rng.normal(size=60), ["mdi_oob"], **given).tested_scores.p_value)
    for of_feature in np.transpose(p):
        counts = np.bincount(np.round(20 * of_feature).astype(int), minlength=21)[1:]
        assert chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize("mirror", [False, True])
def test_the_false_discovery_rate_is_kept(mirror):
    """Five of fifty features matter; 999 permutations can find a single one."""
    shares = []
    for each in range(10):
        rng = np.random.default_rng([2, each])
        X, y, relevant = designs.li_rows(rng, mirror)
        forest = designs.classifier(each).fit(X, y)
        found = debias.audit(
            forest, X, y, ["mdi_oob"], error_rate=("fdr", 0.05), test=debias.Permutation(999), random_state=each
        ).tested_scores.selected
        shares.append((found & ~relevant).sum() / max(1, found.sum()))
    error = max(np.std(shares, ddof=1), np.sqrt(0.05 * 0.95)) / np.sqrt(len(shares))
    assert np.mean(shares) <= 0.05 + 3 * error


@pytest.mark.parametrize("model", ["E3", "E5"])
def test_power_is_not_below_that_of_a_hundred_refits(model):
    found = [bench.power(model, each) for each in range(8)]
    difference = np.array([of["frozen"]["found"] - of["PIMP"]["found"] for of in found])
    error = max(difference.std(ddof=1), 0.25) / np.sqrt(len(difference))
    assert difference.mean() >= -3 * error


def test_power_is_there():
    """A test that never rejects would pass all others."""
    found = bench.p_values(SETTINGS["strong signals beside, R2 = 0.9"], 5, seed=3)
    assert all((adjusted[[0, 4]] <= 0.05).all() for _, adjusted, _ in found)
