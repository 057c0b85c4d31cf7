"""The benchmark of interactions: what its designs contain, and its page."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import interactions
from debias_bench.interactions import TRUTHS, Setting, drawn


def test_truths_have_the_interactions_that_they_name():
    """The mixed difference over a rectangle is 0 for every pair that does not work together."""
    rng = np.random.default_rng(0)
    for truth, of_truth in TRUTHS.items():
        function, pairs = (
            of_truth.function,
            {*of_truth.sets, *of_truth.unclear} | ({(0, 1)} if of_truth.groups else set()),
        )
        for one in range(8):
            for other in range(one):
                low, high = rng.normal(size=(2, 50, 8))
                corners = [low.copy() for _ in range(4)]
                for corner, (first, second) in zip(corners, ((0, 0), (0, 1), (1, 0), (1, 1)), strict=True):
                    corner[:, one] = (high if first else low)[:, one]
                    corner[:, other] = (high if second else low)[:, other]
                f = [function(corner) for corner in corners]
                mixed = f[0] - f[1] - f[2] + f[3]
                assert (np.abs(mixed).max() > 1e-6) == ((other, one) in pairs), (truth, other, one)


def test_skewed_noise_has_mean_0_and_variance_1():
    setting = Setting(response="skewed noise")
    X, y = drawn(setting, np.random.default_rng(0), 100_000)
    noise = (y - TRUTHS["additive"].function(X)) / 2
    # The standard error of a mean is .003; the variance of lognormal noise varies by .03.
    assert abs(noise.mean()) < 0.015
    assert 0.85 < noise.var() < 1.2
    assert (noise > -0.8).all()


@pytest.mark.parametrize("n_values", [120, 500])
def test_each_of_many_codes_has_an_effect_of_its_own(n_values):
    X, y = drawn(Setting(response=f"{n_values} codes"), np.random.default_rng(0), 40_000)
    assert np.unique(X[:, 0]).size == n_values
    of_others = TRUTHS["additive"].function(np.column_stack([np.zeros(len(X)), X[:, 1:]]))
    means = pd.Series(y - of_others).groupby(X[:, 0]).mean()
    assert abs(means.std() - np.sqrt(4**2 + 2**2)) < 5 * means.std() / np.sqrt(2 * n_values)
    assert abs(means.corr(pd.Series(means.index, index=means.index), "spearman")) < 5 / np.sqrt(n_values)


def test_values_are_missing_after_the_response_was_made():
    X, y = drawn(Setting(response="missing"), np.random.default_rng(0), 20_000)
    whole, _ = drawn(Setting(), np.random.default_rng(0), 20_000)
    known = ~np.isnan(X)
    np.testing.assert_array_equal(X[known], whole[known])
    assert abs(known.mean() - 0.9) < 4 * np.sqrt(0.09 / X.size)
    noise = (y - TRUTHS["additive"].function(whole)) / 2
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * len(y))


@pytest.mark.thorough
def test_a_run_writes_a_page(tmp_path, monkeypatch):
    settings = [Setting(n_rows=400), Setting(truth="product", response="class", correlation=0.0, n_rows=400)]
    monkeypatch.setattr(interactions, "settings", lambda: settings)
    page = interactions.run(tmp_path, Console(file=io.StringIO()), repeats=2)
    assert "| additive | number | XGBoost, depth 3 | 0.5 | 400 | 2 | " in page
    assert "Without any interaction, 2 sets: single" in page
    table = pd.read_csv(tmp_path / "interactions.csv")
    of_additive = ["single", "any false", "any false, with similar"]
    assert list(table["quantity"]) == [*of_additive, *of_additive, "true found", "true found, with similar"]
