"""The change of the loss between two windows: against all rows in memory, the tests of scipy, and identities."""

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind

from debias.data.groups import Grouping
from debias.rows.period_sums import PeriodSums
from debias.significance.loss_change import LossesOfPeriods, compare_losses, few_periods_count

NAMES = ("a", "b", "c")
GROUPING = Grouping.of(None, NAMES)
USED = np.array([True, True, False])


class Period:
    """Sums of a period with given mean parts: loss, base, saved by 3 features, rows of 3 features."""

    def __init__(self, means, weight=100.0, metric="log loss", no_loss=None):
        self.loss_parts = None if means is None else np.concatenate([[weight, weight], weight * np.asarray(means)])
        self.metric, self.no_loss = metric, no_loss


def drawn(rng, n_periods, cost=0.0, weight=None):
    """Return periods whose losses are their bases less what features save; the third feature is not used."""
    periods = []
    for k in range(n_periods):
        base = 0.7 + 0.02 * rng.normal()
        saved = np.array([0.2 - cost, 0.1, 0.0]) + [*(0.03 * rng.normal(size=2)), 0.0]
        rows = saved / 2 + 0.01 * rng.normal(size=3) * USED
        periods.append(Period([base - saved.sum(), base, *saved, *rows], 100.0 if weight is None else weight[k]))
    return periods


def collected(periods, most=20):
    losses = LossesOfPeriods(3)
    for k, period in enumerate(periods):
        losses.add(period, k * min(most, len(periods)) // len(periods))
    return losses.collected()


def compared(before, after, grouping=GROUPING, used=USED, level=0.05):
    return compare_losses(collected(before), collected(after), grouping, used, level)


def of(periods):
    """Means of periods: loss, base, and what the three features save, in all and by the rows."""
    return np.array([period.loss_parts[2:] / period.loss_parts[0] for period in periods])


def test_the_parts_add_up_and_the_tests_are_welchs():
    rng = np.random.default_rng(0)
    before, after = drawn(rng, 20), drawn(rng, 12, cost=0.05)
    found, because = compared(before, after)
    assert because is None
    old, new = of(before), of(after)
    assert found.loss.change == pytest.approx(new[:, 0].mean() - old[:, 0].mean())
    assert found.loss.change == pytest.approx(found.base.change + found.statistics["cost"].sum(), abs=1e-15)
    both = found.statistics["rows_cost"] + found.statistics["response_cost"]
    np.testing.assert_allclose(both, found.statistics["cost"], atol=1e-15)
    expected = ttest_ind(-new[:, 2:4], -old[:, 2:4], equal_var=False, alternative="greater")
    np.testing.assert_allclose(found.statistics["p_value"][:2], expected.pvalue, rtol=1e-9)
    np.testing.assert_allclose((found.statistics["cost"] / found.statistics["error"])[:2], expected.statistic)
    of_loss = ttest_ind(new[:, 0], old[:, 0], equal_var=False, alternative="greater")
    assert found.loss.p_value == pytest.approx(of_loss.pvalue)
    parts = {"rows": (new[:, 5:7], old[:, 5:7]), "response": (new[:, 2:4] - new[:, 5:7], old[:, 2:4] - old[:, 5:7])}
    for name, (late, early) in parts.items():
        error = np.sqrt(late.var(axis=0, ddof=1) / 12 + early.var(axis=0, ddof=1) / 20)
        np.testing.assert_allclose(found.statistics[f"{name}_cost"][:2], early.mean(0) - late.mean(0), atol=1e-15)
        np.testing.assert_allclose(found.statistics[f"{name}_error"][:2], error)
    small, large = sorted(found.statistics["p_value"][:2])
    np.testing.assert_allclose(sorted(found.statistics["p_adjusted"][:2]), [2 * small, max(large, 2 * small)])
    assert found.verdict == ["costs more", "no increase detected", "not tested"]
    assert np.isnan(found.statistics["p_adjusted"][2])


def test_means_weigh_by_the_rows():
    rng = np.random.default_rng(1)
    weights = rng.uniform(20, 300, 10), rng.uniform(20, 300, 9)
    before, after = drawn(rng, 10, weight=weights[0]), drawn(rng, 9, weight=weights[1])
    found, _ = compared(before, after)
    assert found.loss.before == pytest.approx(np.average(of(before)[:, 0], weights=weights[0]))
    assert found.loss.after == pytest.approx(np.average(of(after)[:, 0], weights=weights[1]))


@pytest.mark.thorough
def test_a_period_of_which_a_sample_was_divided_is_known_as_its_sample_is():
    """The first period has 200,000 rows and the values of 1,000 of them: the mean of the variances is the true one."""
    rng = np.random.default_rng(12)
    weight, n_divided = np.r_[2e5, np.full(29, 200.0)], np.r_[1000, np.full(29, 200)]
    share = weight / weight.sum()
    true, alone = (share**2 / n_divided).sum() + 1 / (30 * 200), []
    for _ in range(1000):
        windows = [rng.normal(size=30) / np.sqrt(n) for n in (n_divided, np.full(30, 200))]
        before, after = ([Period([1 + x, 1, 0, 0, 0, 0, 0, 0]) for x in values] for values in windows)
        for period, rows, divided in zip(before, weight, n_divided, strict=True):
            period.loss_parts *= rows / 100
            period.loss_parts[1] = divided
        found, _ = compared(before, after)
        alone.append(found.loss.error**2)
    # One period decides, so the variance of an estimate is that of a square: twice its own squared.
    assert np.mean(alone) == pytest.approx(true, rel=4 * np.sqrt(2 / 1000))
    (told,) = few_periods_count((collected(before), collected(after)))
    assert told.startswith("few of the reference periods have most of the rows")
    assert few_periods_count((collected(after), collected(after))) == []


@pytest.mark.thorough
def test_errors_of_weighted_means_are_those_of_simulations():
    """Periods of different sizes with equal variances: the mean square of t is near 1."""
    rng = np.random.default_rng(2)
    weight = rng.uniform(50, 150, 15)
    t = []
    for _ in range(300):
        found, _ = compared(drawn(rng, 15, weight=weight), drawn(rng, 10, weight=weight[:10]))
        t.append(found.statistics["cost"][:2] / found.statistics["error"][:2])
    # The variance of Student's t with about 20 degrees of freedom is 1.1, and the error of 600 squares is .06.
    assert np.mean(np.square(t)) == pytest.approx(1.1, abs=0.25)


def test_many_periods_are_joined_to_twenty_groups_of_consecutive_ones():
    rng = np.random.default_rng(3)
    before, after = drawn(rng, 40), drawn(rng, 60)
    found, _ = compared(before, after)
    old, new = of(before)[:, 0].reshape(20, 2).mean(1), of(after)[:, 0].reshape(20, 3).mean(1)
    assert found.loss.error == pytest.approx(np.sqrt(old.var(ddof=1) / 20 + new.var(ddof=1) / 20))


@pytest.mark.parametrize("n_recent", [1, 3, 7])
def test_a_short_window_varies_as_the_periods_of_the_other_one(n_recent):
    rng = np.random.default_rng(4)
    before, after = drawn(rng, 20), drawn(rng, n_recent)
    found, _ = compared(before, after)
    variance = of(before)[:, 0].var(ddof=1)
    own = of(after)[:, 0].var(ddof=1) if n_recent > 1 else 0.0
    expected = variance / 20 + max(variance, own) / n_recent
    assert found.loss.error == pytest.approx(np.sqrt(expected))
    assert found.loss.p_value == pytest.approx(student.sf(found.loss.change / np.sqrt(expected), 19))


def test_a_period_of_few_rows_varies_more():
    rng = np.random.default_rng(5)
    before = drawn(rng, 20)
    full, (tiny,) = compared(before, drawn(rng, 1))[0], [compared(before, drawn(rng, 1, weight=[25.0]))[0]]
    variance = of(before)[:, 0].var(ddof=1)
    assert full.loss.error**2 == pytest.approx(variance * (1 + 1 / 20))
    assert tiny.loss.error**2 == pytest.approx(variance * (4 + 1 / 20))


def test_two_short_windows_have_no_errors():
    rng = np.random.default_rng(6)
    found, _ = compared(drawn(rng, 7), drawn(rng, 7, cost=0.2))
    assert np.isnan(found.loss.error)
    assert np.isnan(found.loss.p_value)
    assert found.verdict == ["not tested"] * 3
    assert found.costs_more.size == 0


def test_groups_of_columns_have_the_sums_of_their_columns():
    rng = np.random.default_rng(7)
    before, after = drawn(rng, 12), drawn(rng, 12, cost=0.1)
    grouping = Grouping(("ab", "c"), np.array([0, 0, 1]))
    found, _ = compared(before, after, grouping, np.array([True, False]))
    columns = of(before)[:, 2:4].sum(1).mean() - of(after)[:, 2:4].sum(1).mean()
    assert found.statistics["cost"][0] == pytest.approx(columns)
    late, early = of(after)[:, 2:4].sum(1), of(before)[:, 2:4].sum(1)
    assert found.statistics["error"][0] == pytest.approx(np.sqrt(late.var(ddof=1) / 12 + early.var(ddof=1) / 12))


def test_periods_without_parts_are_left_out_and_named():
    rng = np.random.default_rng(8)
    before, after = drawn(rng, 12), drawn(rng, 10)
    old, bare = Period(None, metric=None), Period(None, no_loss="their rows were added without parts of the loss")
    found, because = compared([old, old, *before], after)
    assert found.n_periods == (12, 10)
    assert found.loss.before == pytest.approx(of(before)[:, 0].mean())
    assert because == "2 of 14 reference periods without parts of the loss: they were added without parts of the loss"
    found, because = compared(before, [bare] * 3)
    assert found is None
    assert because == "3 recent periods without parts of the loss: their rows were added without parts of the loss"
    other = [Period(of([period])[0], metric="Brier score") for period in after]
    assert compared(before, other) == (None, "their losses differ")


def test_the_base_hides_a_culprit_only_if_it_changed_far_more_than_the_loss():
    def shifted(rng, n, base, saved):
        periods = drawn(rng, n)
        for period in periods:
            period.loss_parts[[2, 3, 4]] += 100 * np.array([base - saved, base, saved])
        return periods

    rng = np.random.default_rng(9)
    for base, saved, hides in ((0.0, 0.0, False), (2.0, 1.8, True), (2.0, 0.0, False), (0.05, 0.04, False)):
        found, _ = compared(drawn(rng, 12), shifted(rng, 12, base, saved))
        assert found.base_hides is hides, (base, saved)
        assert len(found.warnings) == hides


@pytest.mark.slow
def test_the_family_wise_error_rate_is_held():
    rng = np.random.default_rng(10)
    for n_recent in (1, 7, 12):
        n_false = sum(bool(compared(drawn(rng, 20), drawn(rng, n_recent))[0].costs_more.size) for _ in range(600))
        assert n_false / 600 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)


def test_windows_of_a_model_are_those_of_its_rows_in_memory():
    from sklearn.ensemble import GradientBoostingRegressor

    from debias.data.response import encode
    from debias.rows.loss_parts import loss_parts
    from debias.significance.change import compare_windows

    rng = np.random.default_rng(11)
    X = rng.normal(size=(1400, 3))
    y = X[:, 0] + X[:, 1] + rng.normal(size=1400)
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X[:400], y[:400])
    y[1000:] -= X[1000:, 1]
    periods = [PeriodSums(model) for _ in range(20)]
    for k, period in enumerate(periods):
        period.update(X[400 + 50 * k : 450 + 50 * k], y[400 + 50 * k : 450 + 50 * k])
    found = compare_windows(periods[:12], periods[12:], Grouping.of(None, NAMES))
    ensemble = periods[0].ensemble
    parts = loss_parts(ensemble, X.astype(ensemble.routing_dtype), encode(y, ensemble, 1400))
    assert found.no_loss_because is None
    assert found.loss.loss.change == pytest.approx(parts.loss[1000:].mean() - parts.loss[400:1000].mean())
    squared = (y - model.predict(X)) ** 2
    assert found.loss.loss.after == pytest.approx(squared[1000:].mean())
    expected = parts.saved[400:1000].mean(0) - parts.saved[1000:].mean(0)
    np.testing.assert_allclose(found.loss.statistics["cost"], expected, atol=1e-12)
    by_rows = parts.rows[400:1000].mean(0) - parts.rows[1000:].mean(0)
    np.testing.assert_allclose(found.loss.statistics["rows_cost"], by_rows, atol=1e-12)
    assert [NAMES[k] for k in found.loss.costs_more] == ["b"]
