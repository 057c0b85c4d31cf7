"""Faults that last, faults of rows, and which column is blamed for them."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import GradientBoostingRegressor

import debias
from debias.data.groups import Grouping
from debias.rows.period_sums import PeriodSums
from debias.significance.change import compare_windows

FIRST = date(2026, 1, 1)


@pytest.fixture(scope="module")
def lasting(model, days, tmp_path_factory):
    """A history of 75 days. From the 41st on b is permuted, for good."""
    history = debias.History(model, tmp_path_factory.mktemp("lasting") / "model.history")
    for number in range(75):
        X, y = days(number, 50)
        if number >= 40:
            X["b"] = np.random.default_rng(number).permutation(X["b"])
        history.add(X, y, at=FIRST + timedelta(number), rows="held-out")
    return history


def week_to(number):
    return str(FIRST + timedelta(number - 6)), str(FIRST + timedelta(number))


@pytest.mark.thorough
def test_a_lasting_fault_stays_found(lasting):
    for number in (44, 50, 74):
        changes = lasting.changes(week_to(number), looks=365)
        assert changes.to_frame().index[0] == "b"
        assert changes.to_frame().loc["b", "verdict"] in ("faded", "changed (weaker)"), number
        assert changes.reference.first == "2026-01-01"
        assert changes.reference.last < "2026-02-10"  # no day of the fault is in it
        assert changes.reference_given == "the first 60 days of the model, as far as they are alike"
        assert "Reference: the first 60 days of the model, as far as they are alike." in " ".join(changes.summary())


@pytest.mark.thorough
def test_a_reference_of_all_days_before_loses_it(lasting):
    """This is why the reference is pinned."""
    before = ("2026-01-01", str(FIRST + timedelta(67)))
    assert lasting.changes(week_to(74), before, looks=365).to_frame().loc["b", "verdict"] == "no longer distinguishable"


@pytest.mark.parametrize("reference", ["first 30d", "first 30", "2026-01-01..2026-01-30", ("2026-01-01", "2026-01-30")])
def test_the_reference_is_chosen_in_every_form(lasting, reference):
    changes = lasting.changes("7d", reference)
    assert (changes.reference.first, changes.reference.last) == ("2026-01-01", "2026-01-30")
    assert changes.reference_given == ("2026-01-01..2026-01-30" if isinstance(reference, tuple) else reference)
    rules = {"must_not_fade": ["b"]}
    if isinstance(reference, str):
        gate = lasting.check(rules | {"reference": reference}, "7d")
        assert [result.value for result in gate.results] == [changes.verdict[1]] == ["faded"]
    with pytest.raises(debias.errors.PolicyError, match="leave one of them out"):
        lasting.check(rules | {"reference": "first 7d"}, "7d", reference)


def test_longer_windows_judge_what_a_short_one_cannot(lasting):
    """One day of 60 rows does not show that a kept its effect, and two weeks before the fault do."""
    history = lasting
    changes = history.changes(1, "first 20")
    assert [each.recent.n_periods for each in changes.longer] == sorted(
        each.recent.n_periods for each in changes.longer
    )
    for each in changes.longer:
        assert each.recent.last == changes.recent.last
        assert each.looks == 3
        assert each.reference.last < each.recent.first
    between = history.changes(("2026-02-01", "2026-02-02"), "first 20")
    assert between.longer == ()  # this window was chosen by its dates


def weekly(seed, number, n=60, bias=0.0):
    """Rows of a day whose weekday matters."""
    rng = np.random.default_rng([seed, number])
    X = pd.DataFrame({"a": rng.normal(size=n), "weekday": float(number % 7)})
    return X, X["a"] + 0.6 * (X["weekday"] >= 5) + 0.1 * rng.normal() + bias + 0.5 * rng.normal(size=n)


@pytest.mark.thorough
def test_a_column_of_days_is_not_blamed_for_a_day_whose_mean_moved():
    """What moved the mean may be anything: a stuck sensor, a price. On such days the weekday seemed to matter more."""
    X, y = (pd.concat(parts) for parts in zip(*(weekly(1, k, 20) for k in range(70)), strict=True))
    empty = PeriodSums(GradientBoostingRegressor(n_estimators=30, random_state=0).fit(X, y))

    def sums(number, bias=0.0):
        period = empty.empty()
        period.update(*weekly(2, number, bias=bias))
        return period

    grouping = Grouping.of(None, ("a", "weekday"))
    before, after = [sums(k) for k in range(35)], [sums(k) for k in range(35, 39)]
    biased = [*after, sums(40, bias=2.0)]  # a Saturday
    found = compare_windows(before, biased, grouping)
    assert found.means.changed[2]
    assert found.means.most[2] == 4
    assert not found.changed.any()
    assert np.isnan(found.p_value[1])
    assert np.isfinite(found.p_value[0])
    assert any("weekday was not tested: this column is nearly the same for all rows" in text for text in found.warnings)
    calm = compare_windows(before, [*after, sums(40)], grouping)
    assert not calm.means.changed.any()
    assert calm.kept[0]
    enough = compare_windows(before, [sums(k) for k in range(35, 56)], grouping)
    assert np.isfinite(enough.p_value).all()  # with three weeks the weekday can be judged
    assert enough.kept.all()


@pytest.mark.thorough
def test_predictions_in_the_place_of_y_leave_the_response_unjudged(model, path, days):
    history = debias.History(model, path)
    rules = {"must_not_be_biased": True, "must_not_fade": ["a"], "must_not_shift": ["a"]}
    for number in range(40):
        X, y = days(number, 200)
        if number == 28:
            assert {result.status for result in history.check(rules, 10).results} == {"passed"}
        if number in (28, 29):  # all of the first day, half of the second
            some = np.arange(200) < (200 if number == 28 else 100)
            with pytest.warns(debias.DebiasWarning, match="y is equal to the prediction"):
                history.add(X, np.where(some, model.predict(X), y), at=FIRST + timedelta(number), rows="held-out")
        else:
            history.add(X, y, at=FIRST + timedelta(number), rows="held-out")
    gate = history.check(rules, 12)
    assert {result.rule: result.status for result in gate.results} == {
        "must_not_be_biased": "not judged",
        "must_not_shift: a": "passed",
        "must_not_fade: a": "not judged",
    }
    changes = history.changes(12)
    assert changes.summary()[0].startswith("y is equal to the predictions of the model.")
    assert changes.summary()[0].endswith("(period 2026-01-29).")
    often = "y is equal to the prediction of the model far more often than ties of y explain: in 50% of these rows"
    assert any(text.startswith(often) and text.endswith("(period 2026-01-30)") for text in changes.warnings)


CITIES = ("Bonn", "Kiel", "Ulm")


def shops(seed, n=90, kinds=CITIES):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(CITIES), n)
    X = pd.DataFrame({"x": rng.normal(size=n), "city": pd.Categorical.from_codes(codes, list(kinds[: len(CITIES)]))})
    return X, X["x"] + codes + rng.normal(size=n)


@pytest.fixture(scope="module")
def of_cities():
    return LGBMRegressor(n_estimators=10, num_leaves=5, n_jobs=1, verbose=-1, random_state=0).fit(*shops(0, 400))


def faulty(seed):
    """90 rows, 27 of them with a new city; and 20 of them once more."""
    X, y = shops(seed)
    city = X["city"].astype(object).where(np.arange(90) >= 27, "Mainz")
    X = X.assign(city=pd.Categorical(city, [*CITIES, "Mainz"]))
    rows = np.append(np.arange(90), np.arange(20))
    return X.iloc[rows].reset_index(drop=True), y.to_numpy()[rows]


def test_new_categories_and_repeated_rows_are_counted(of_cities):
    sums, clean = PeriodSums(of_cities), PeriodSums(of_cities)
    with pytest.warns(debias.DebiasWarning, match=r"'city' has values that the model never saw \('Mainz', in 42.7% of"):
        sums.update(*faulty(1))
    clean.update(*shops(2))
    assert sums.unseen.tolist() == [0, 47]
    assert sums.repeated == 20
    both = sums + clean
    assert (both.n_rows, both.unseen.tolist(), both.repeated) == (200, [0, 47], 20)
    assert (clean.unseen.tolist(), clean.repeated) == ([0, 0], 0)


def test_rows_that_differ_in_y_or_weight_are_not_repeated(of_cities):
    X, y = shops(3)
    twice, weight = pd.concat([X, X]), np.append(np.ones(90), np.full(90, 2.0))
    for other_y, other_weight, number in ((y + 1, None, 0), (y, weight, 0), (y, None, 90)):
        sums = PeriodSums(of_cities)
        sums.update(twice.reset_index(drop=True), np.append(y, other_y), other_weight)
        assert sums.repeated == number


@pytest.fixture
def of_days(of_cities, path):
    history = debias.History(of_cities, path)
    for number in range(10):
        history.add(*shops(10 + number), at=FIRST + timedelta(number), rows="held-out")
    return history


RULES = {"max_unseen": 0.05, "max_repeated": 0.05}


def test_a_history_sees_them_on_the_day(of_days):
    assert [result.status for result in of_days.check(RULES, 1).results] == ["passed", "passed"]
    with pytest.warns(debias.DebiasWarning, match="never saw"):
        of_days.add(*faulty(20), at="2026-01-11", rows="held-out")
    gate = of_days.check(RULES, 1)
    assert [(result.status, result.value) for result in gate.results] == [("failed", "0.427"), ("failed", "0.182")]
    changes = of_days.changes(1)
    assert changes.summary()[0].startswith("Categories that the model never saw: city (42.7% of the recent rows")
    assert changes.repeated == (0.0, pytest.approx(20 / 110))
    assert changes.to_frame().loc["city", "unseen_after"] == pytest.approx(47 / 110)
