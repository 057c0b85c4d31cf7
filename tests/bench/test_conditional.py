"""The measurement of tests of conditional independence: its designs, the rivals, and its page."""

import io
from functools import partial

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats
from sklearn.linear_model import LinearRegression

from debias_bench import conditional
from debias_bench.conditional import OWN, TESTS, case_of, settings, trial
from debias_bench.conditional_designs import CONFOUNDED, TESTED, Cell, confounding, draw
from debias_bench.conditional_rivals import Case, Leaves, boosting, carfi, cfi, gcm, ridge, semi_knockoffs

RHO = 0.8


def test_the_designs_draw_what_they_say():
    X, y = draw(Cell("linear", RHO, 4000, "forest"), np.random.default_rng(0))
    assert np.corrcoef(X[:, 0], X[:, 1])[0, 1] == pytest.approx(RHO, abs=0.02)
    rest = X[:, 1] - RHO * X[:, 0]
    assert abs(np.corrcoef(rest, y - X[:, 0])[0, 1]) < 4 / np.sqrt(8000)
    for name in CONFOUNDED:
        others, signal = confounding(name, 4000, np.random.default_rng(0))
        X, y = draw(Cell(name, RHO, 2000, "forest"), np.random.default_rng(0))
        np.testing.assert_array_equal(np.delete(X, TESTED, axis=1), others)
        rest = np.column_stack([X[:, TESTED] - RHO * signal, y - signal])
        assert rest.std(axis=0) == pytest.approx([0.6, 1.0], rel=4 / np.sqrt(8000))
        assert abs(np.corrcoef(np.column_stack([rest, signal]), rowvar=False)[0, 1:]).max() < 4 / np.sqrt(4000)
    X, y = draw(Cell("changed", RHO, 4000, "forest"), np.random.default_rng(0))
    slopes = [np.polyfit(X[rows, 0], y[rows], 1)[0] for rows in (slice(None, 4000), slice(4000, None))]
    assert slopes == pytest.approx([1.0, 0.3], abs=4 / np.sqrt(4000))
    categories, _ = draw(Cell("category", RHO, 100, "forest"), np.random.default_rng(0))
    assert sorted(set(categories[:, 1])) == [0, 1, 2, 3, 4]


def test_each_setting_has_a_name_of_its_own_and_only_those_of_power_have_an_effect():
    level, power = settings()
    names = [setting.name for setting in (*level, *power)]
    assert len(set(names)) == len(names)
    assert {setting.cell.effect for setting in level} == {0}
    assert {setting.cell.effect for setting in power} == {conditional.EFFECT}
    assert {f"{setting.name}, and an effect" for setting in level} > {setting.name for setting in power}
    assert {*CONFOUNDED, "linear", "changed", "square", "binary", "category", "product", "xor"} == {
        setting.cell.dependence for setting in level
    }


def _linear(n, effect, seed, model=None):
    """Return a case of two columns with correlation .8; the response rises with the first, and by `effect`."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 2))
    X[:, 1] = RHO * X[:, 0] + np.sqrt(1 - RHO**2) * X[:, 1]
    y = X[:, 0] + effect * X[:, 1] + rng.normal(size=2 * n)
    model = LinearRegression().fit(X[:n], y[:n]) if model is None else model
    return Case(model, (X[:n], y[:n]), (X[n:], y[n:]), LinearRegression, 1, seed)


RIVALS = {
    "gcm": gcm,
    "carfi": carfi,
    "semi-knockoffs, ridge": partial(semi_knockoffs, regression=ridge),
    "semi-knockoffs, boosting": partial(semi_knockoffs, regression=boosting),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RIVALS)
def test_a_strong_effect_is_found_and_without_one_a_line_is_not_found_in_every_set(name):
    """With an effect of 1 the residuals have a correlation of .5 in 600 rows: 12 standard errors."""
    assert RIVALS[name](_linear(300, 1.0, 0)) < 1e-4
    assert max(RIVALS[name](_linear(300, 0.0, seed)) for seed in range(4)) > 0.05  # probability .05 ** 4 or so


def test_semi_knockoffs_agree_with_a_computation_by_hand():
    """With one line for both regressions the draws differ in what they know of the response alone."""
    case = _linear(40, 0.5, 3)
    X, y = case.rows
    model, rng = LinearRegression().fit(X, y), np.random.default_rng(3)
    squared = []
    for known in (X[:, :1], np.column_stack([X[:, 0], y])):
        with_constant = np.column_stack([np.ones(80), known])
        predicted = with_constant @ np.linalg.lstsq(with_constant, X[:, 1])[0]
        drawn = predicted + rng.permutation(X[:, 1] - predicted)
        squared.append((y - model.predict(np.column_stack([X[:, 0], drawn]))) ** 2)
    expected = stats.wilcoxon(*squared, alternative="greater").pvalue
    assert semi_knockoffs(case, lambda seed: LinearRegression()) == pytest.approx(expected)


def test_the_leaves_of_an_adversarial_forest_hold_all_rows_in_boxes_and_draw_what_the_others_say():
    rng = np.random.default_rng(0)
    X = _linear(1500, 0.0, 0).rows[0]
    leaves = Leaves.of(X, rng)
    assert leaves.share.sum() == pytest.approx(10)  # ten trees
    assert ((leaves.low <= leaves.mean) & (leaves.mean <= leaves.high)).all()
    drawn = leaves.draws(X[:1000], 1, 5, rng)
    assert drawn.shape == (5, 1000)
    # A box is a step where the truth is a line, so the correlation is a little below .8 (a draw of a margin: 0).
    correlation = np.corrcoef(np.tile(X[:1000, 0], 5), drawn.ravel())[0, 1]
    assert 0.6 < correlation < RHO + 4 * (1 - RHO**2) / np.sqrt(1000)
    assert abs(np.corrcoef(drawn[0], X[:1000, 1])[0, 1]) < 0.85  # it is no copy of the column


def test_a_column_that_a_model_does_not_use_is_not_found_by_its_draws():
    class First:
        def predict(self, X):
            return X[:, 0]

    assert carfi(_linear(50, 1.0, 0, First())) == 1.0


@pytest.mark.integration
def test_hidimstat_gives_the_p_value_of_the_column():
    pytest.importorskip("hidimstat")
    assert cfi(_linear(300, 1.0, 0)) < 1e-4
    case = _linear(300, -1.0, 0)  # its model uses the first column alone
    case.model.coef_[1] = 0.0
    assert not cfi(case) < 0.05


@pytest.mark.thorough
def test_a_trial_repeats_and_each_test_takes_part():
    level, _ = settings()
    (setting,) = [each for each in level if each.cell.dependence == "sine"]
    first = trial(setting, 1)
    assert first == trial(setting, 1)
    assert {OWN, "GCM"} <= set(first) <= set(TESTS)
    assert all(value in (0.0, 1.0) for values in first.values() for value in values)
    case = case_of(setting.cell, 2)
    assert conditional.of_debias(case, train=True) != conditional.of_debias(case)


@pytest.mark.thorough
def test_a_run_writes_a_page_and_says_which_shares_are_not_comparable(tmp_path, monkeypatch):
    level, power = settings()
    monkeypatch.setattr(conditional, "settings", lambda: (level[:1], power[:1]))
    found = {test: [1.0, 0.0] for test in TESTS} | {OWN: [0.0, 1.0]}
    monkeypatch.setattr(conditional, "trial", lambda setting, number: found)
    page = conditional.run(tmp_path, Console(file=io.StringIO()), repeats=3)
    lines = [line for line in page.splitlines() if line.startswith("| a line")]
    assert [line.count("[1.000") for line in lines] == [len(TESTS) - 1] * 2
    assert all("0.000 (0.272); 1.00 |" in line for line in lines)
    table = pd.read_csv(tmp_path / "conditional.csv")
    assert (table["data_sets"] == 3).all()
    assert set(table["test"]) == set(TESTS)
