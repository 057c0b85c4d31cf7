"""Error rates of the verdicts over folds, and coverage of their intervals, on data sets that the study does not use."""

import numpy as np
import pytest

from debias_bench.folds import ALPHA, Setting, estimates_of, one_data_set

N_SETS = 60


def figures(setting):
    return estimates_of(setting, [one_data_set(setting, 10_000 + number) for number in range(N_SETS)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        Setting("XGBoost", "5 folds", 200),
        Setting("forest", "2 folds", 200),
        Setting("LightGBM", "5 folds, 3 times", 200),
        Setting("forest", "5 periods", 200),
    ],
    ids=lambda setting: setting.name,
)
def test_noise_is_informative_over_folds_in_5_percent_of_data_sets_or_fewer(setting):
    of_setting, error = figures(setting), np.sqrt(ALPHA * (1 - ALPHA) / N_SETS)
    assert of_setting["FWER, sum"][0] <= ALPHA + 3 * error
    assert of_setting["FWER, harmonic"][0] <= ALPHA + 3 * error
    value, of_variance = of_setting["variance of z"]
    assert value <= 1.2 + 3 * of_variance  # a fifth more for the tails of z in small folds


@pytest.mark.slow
@pytest.mark.parametrize("folds", ["5 folds", "10 random fifths"])
def test_intervals_of_relevant_features_cover_where_others_do_not(folds):
    of_setting = figures(Setting("XGBoost", folds, 300, signals=True))
    value, error = of_setting["coverage, error, relevant"]
    assert value == pytest.approx(0.95, abs=0.03 + 3 * error)  # the error is approximate, and so are quantiles of t
    assert of_setting["coverage, nadeau_bengio, relevant"][0] < value
    assert of_setting["power, sum"][0] > of_setting["power, one"][0]
