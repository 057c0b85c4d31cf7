"""Tests of the effective number of rows, of the test it chooses, and of the level where few rows count."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from scipy.stats import binom, kurtosis
from scipy.stats import t as student
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.data.groups import Grouping
from debias.significance import evidence, procedure
from debias.significance.contributions import effective_number
from debias.significance.procedure import Procedure
from debias.significance.student import NAIVE
from debias.warning_log import WarningLog
from support.versions import at_least

pytestmark = pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning")

N = 2400
RARE = 40


def number_of(values):
    values = np.asarray(values, dtype=float)
    return effective_number(np.stack([[(values**power).sum()] for power in (1, 2, 3, 4)]), values.size)[0]


def test_the_number_is_n_for_light_tails_and_that_of_the_large_values_for_heavy_ones():
    rng = np.random.default_rng(0)
    assert number_of(np.ones(50)) == number_of(np.zeros(50)) == 50
    assert number_of(rng.choice([-1, 1], 5000)) == number_of(rng.uniform(size=5000)) == 5000
    assert number_of(rng.normal(size=5000) + 3) > 4500
    assert number_of(np.r_[np.ones(40), np.zeros(9960)]) == pytest.approx(40, rel=0.03)
    assert number_of([0, 0, 0, 5] * 1 + [0] * 996) == pytest.approx(1, rel=0.01)
    values = rng.standard_t(5, 3000) ** 3 + 0.2
    assert number_of(values) == pytest.approx(3000 / (1 + kurtosis(values)))


def rows(seed, n=N):
    return np.random.default_rng(seed).normal(size=(n, 3))


def classes(n, n_rare=RARE, others=1):
    """Return labels of which the last class is rare, in no order."""
    y = np.arange(n) % others
    y[:n_rare] = others
    return np.random.default_rng(7).permutation(y)


def fitted(model, others=1, y=None):
    X = rows(0, 600)
    return model.fit(X, classes(600, 60, others) if y is None else y)


def forest(weight=None, others=1):
    return fitted(RandomForestClassifier(3, random_state=0, class_weight=weight), others)


def regression(kind=RandomForestRegressor):
    return fitted(kind(n_estimators=3, random_state=0), y=rows(1, 600)[:, 0])


NORMAL = np.random.default_rng(3).normal(size=N)
CASES = {
    "balanced classes": (forest, np.arange(N) % 2, {}, "naive"),
    "one in three": (forest, classes(N, N // 3), {}, "naive"),
    "a rare class": (forest, classes(N), {}, "permutation"),
    "balanced": (lambda: forest("balanced"), classes(N), {}, "permutation"),
    "balanced_subsample": (lambda: forest("balanced_subsample"), classes(N), {}, "permutation"),
    "one of three": (lambda: forest(others=2), classes(N, others=2), {}, "permutation"),
    "three": (lambda: forest(others=2), np.arange(N) % 3, {}, "naive"),
    "logistic": (lambda: fitted(XGBClassifier(n_estimators=3)), classes(N), {}, "permutation"),
    "softmax": (lambda: fitted(XGBClassifier(n_estimators=3), others=2), classes(N, others=2), {}, "permutation"),
    "scale_pos_weight": (
        lambda: fitted(LGBMClassifier(n_estimators=3, scale_pos_weight=9, verbose=-1)), classes(N), {}, "permutation"
    ),
    "extra trees": (lambda: fitted(ExtraTreesClassifier(3, random_state=0)), classes(N), {}, "permutation"),
    "normal response": (regression, NORMAL, {}, "naive"),
    "normal response, boosted": (lambda: regression(XGBRegressor), NORMAL, {}, "naive"),
    "heavy tails": (regression, np.exp(1.5 * NORMAL), {}, "permutation"),
    "heavy tails, boosted": (lambda: regression(XGBRegressor), np.exp(1.5 * NORMAL), {}, "permutation"),
    "equal weights": (regression, NORMAL, {"sample_weight": np.full(N, 7.0)}, "naive"),
    "few rows of great weight": (
        regression, NORMAL, {"sample_weight": np.where(np.arange(N) < 30, 50.0, 1.0)}, "permutation"
    ),
    "blocks of one size": (regression, NORMAL, {"blocks": np.arange(N) // 40}, "permutation"),
    "blocks that cannot change places": (regression, NORMAL, {"blocks": np.arange(N) ** 2 // N**2 * 7}, "naive"),
}  # fmt: skip


@pytest.mark.parametrize("residuals", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_test_is_chosen_by_the_rows_that_count(name, residuals, monkeypatch):
    if not residuals:
        monkeypatch.setattr(procedure, "why_no_residuals", lambda _: "it was asked for")
    model, y, given, expected = CASES[name]
    if name == "blocks that cannot change places":
        given = {"blocks": np.maximum(np.arange(N) - N // 2, 0)}  # one of half of the rows, the others of one
    found = debias.score(model(), debias.Dataset(rows(2), y, **given), rows="held-out", test="auto")
    test = found.details["test"]
    if residuals:
        assert test["method"] == "residuals"
        assert test["draws"] == ("permutations" if expected == "permutation" else "random signs")
        return
    assert test["method"] == expected
    assert test["scores_tested_because"] == "it was asked for"
    assert len(test["effective_rows"]) == found.values.size  # of the intervals, and of a t-test


def test_it_costs_too_much_to_permute_very_many_rows(monkeypatch):
    model, y, given, _ = CASES["balanced"]
    monkeypatch.setattr(procedure, "why_no_residuals", lambda _: "there are too many")
    monkeypatch.setattr(evidence, "MOST_VALUES", N * 3 * 2 - 1)
    found = debias.score(model(), debias.Dataset(rows(2), y, **given), rows="held-out", test="auto")
    assert found.details["test"]["method"] == "naive"
    assert max(found.details["test"]["effective_rows"]) < RARE


def test_p_values_are_by_students_law_of_the_contributions_that_count():
    """Stumps have splits at roots alone, where contributions and enlarged ones have one ratio."""
    X, y = rows(2), classes(N)
    model = XGBClassifier(n_estimators=6, max_depth=1).fit(rows(0, 600), classes(600, 60))
    given = {"rows": "held-out"}
    found = debias.score(model, X, y, test="naive", **given)
    phi = debias.contributions(model, X, y, **given).to_numpy()
    effective = np.array([number_of(column) for column in phi.T])
    assert effective.max() < 2 * RARE
    np.testing.assert_allclose(found.details["test"]["effective_rows"], effective, rtol=1e-5)
    np.testing.assert_allclose(found.p_value, student.sf(found.z, np.maximum(effective - 1, 1)))
    parts = [(X[:1000], y[:1000]), (X[1000:], y[1000:])]
    streamed = debias.score(model, parts, test="auto", **given)
    np.testing.assert_allclose(streamed.p_value, found.p_value)
    assert streamed.threshold == pytest.approx(found.threshold, rel=1e-5)


def test_the_number_does_not_depend_on_the_unit_of_the_response():
    """Contributions are of the square of the response, and so their fourth powers of its eighth, 1e480 here."""
    y, held_out = np.exp(NORMAL[:300]), np.exp(1.5 * NORMAL)
    found = []
    for unit in (1.0, 2.0**200):
        model = RandomForestRegressor(5, random_state=0, max_depth=3).fit(rows(0, 300), y * unit)
        for passed in ((rows(2), held_out * unit), ([(rows(2), held_out * unit)],)):
            found.append(debias.score(model, *passed, rows="held-out", test="naive"))
            np.testing.assert_allclose(found[-1].p_value, found[0].p_value)
            np.testing.assert_allclose(found[-1].standard_error, unit**2 * found[0].standard_error)
            numbers = [each.details["test"]["effective_rows"] for each in (found[-1], found[0])]
            np.testing.assert_allclose(*numbers, rtol=1e-5)


@pytest.mark.parametrize(
    ("effective", "n", "z", "said"),
    [
        (20.0, 5000, 3.0, "few rows, effectively 20,"),
        (20.0, 5000, 9.0, None),
        (20.0, 5000, 1.0, None),
        (20.0, 100, 3.0, None),
        (150.0, 5000, 3.0, None),
    ],
)
def test_verdicts_that_rest_on_few_rows_are_warned_of_where_they_are_close(effective, n, z, said):
    notes = WarningLog((), quiet=True)
    grouping = Grouping(("a", "b"), np.arange(2))
    z, effective = np.array([z, 0.0]), np.array([effective, 5.0])
    NAIVE.decide(z, effective, n, "held-out", grouping, Procedure("naive"), notes)
    assert [text for text in notes.texts if said is not None and said in text] == notes.texts
    assert bool(notes.texts) == (said is not None)


ONE_VALUED = {
    "class 0": (forest, np.zeros(N, dtype=int), {}),
    "class 1 of three": (lambda: forest(others=2), np.ones(N, dtype=int), {}),
    "logistic": (lambda: fitted(XGBClassifier(n_estimators=3)), np.ones(N, dtype=int), {}),
    "logistic, margins that differ": (
        lambda: fitted(XGBClassifier(n_estimators=3)), np.ones(N, dtype=int), {"base_margin": NORMAL}
    ),
    "a constant": (regression, np.full(N, 0.1), {}),
    "a constant, boosted": (lambda: regression(XGBRegressor), np.full(N, 0.1), {}),
    "other values have no weight": (
        regression, np.arange(N) < 5, {"sample_weight": (np.arange(N) >= 5).astype(float)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", ["in memory", "naive", "streamed"])
@pytest.mark.parametrize("case", ONE_VALUED)
def test_a_response_of_one_value_gives_no_verdict(case, how):
    model, y, given = ONE_VALUED[case]
    if how == "streamed" and "base_margin" in given:
        pytest.skip("margins are refused there")
    X = rows(2)
    passed = (X, y)
    if how == "streamed":
        passed, given = ([(X, y, *given.values())],), {}
    dataset, test = debias.Dataset(*passed, **given), "naive" if how == "naive" else "auto"
    with pytest.warns(debias.DebiasWarning, match="nothing was tested: the response is the same in all eval"):
        found = debias.score(model(), dataset, rows="held-out", test=test)
    assert found.z is None
    assert found.p_value is None
    assert found.selected is None
    assert "rows of two classes or more" in found.details["untested_because"]


def test_a_response_of_one_value_out_of_bag_gives_no_verdict():
    X, y = rows(0, 100), np.full(100, 0.1)
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    with pytest.warns(debias.DebiasWarning, match="nothing was tested"):
        audit = debias.audit(model, X, y, rows="oob")
    assert set(audit.verdict) == {"untested"}
    with pytest.warns(debias.DebiasWarning, match="nothing was tested"):
        assert debias.score(model, [(X, y)], rows="oob", test="auto").selected is None


@pytest.mark.slow  # that the choice follows the rows that count is tested above
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_noise_is_found_no_more_often_than_stated_where_a_class_is_rare():
    """One forest of shallow trees balanced over a class of 1 in 50, many sets of fresh rows.

    Rows of the rare class are few and mostly take from the score: by the number of rows noise was found in a fifth.
    """
    rng = np.random.default_rng(FOREST)
    X, y = rng.normal(size=(3000, 10)), (rng.random(3000) < 0.02).astype(int)
    model = RandomForestClassifier(10, random_state=FOREST, max_depth=3, class_weight="balanced").fit(X, y)
    auto, by_rows = [], []
    for each in range(SETS):
        X, y = rng.normal(size=(N, 10)), (rng.random(N) < 0.02).astype(int)
        found = debias.score(model, X, y, rows="held-out", test="auto", random_state=each)
        assert found.details["test"]["method"] == "residuals"
        auto.append(found.selected.any())
        naive = debias.score(model, X, y, rows="held-out", test="naive")
        by_rows.append((student.sf(naive.z, N - 1) <= 0.05 / 10).any())
    most = binom.ppf(0.999, SETS, 0.05)  # 1 run of 1,000 of a test of its level finds more
    assert np.sum(auto) <= most
    if at_least("scikit-learn", "1.9"):  # older versions grow this forest on other bags, whose noise is found less
        assert np.sum(by_rows) > most  # what the choice of the test is for


FOREST = 0
SETS = 80


@pytest.mark.parametrize(
    ("share", "sizes", "warned"), [(0.05, "uneven", True), (0.05, "even", False), (0.5, "uneven", False)]
)
@pytest.mark.filterwarnings("ignore:few rows dominate the response:debias.DebiasWarning")
def test_a_rare_class_in_blocks_that_cannot_be_permuted_is_warned_of(share, sizes, warned):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5400, 4))
    y = (X[:, 0] + 0.3 * rng.normal(size=5400) > np.quantile(X[:, 0], 1 - share)).astype(int)
    forest = RandomForestClassifier(10, max_depth=3, class_weight="balanced", random_state=0).fit(X[:3000], y[:3000])
    blocks = rng.integers(0, 40, N) if sizes == "uneven" else np.arange(N) // 60
    scores = debias.audit(forest, debias.Dataset(X[3000:], y[3000:], blocks=blocks), rows="held-out").tested_scores
    assert scores.selected[0]
    assert any("few rows dominate the response" in text for text in scores.warnings) == warned
