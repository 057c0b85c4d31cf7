"""Tests that hold at any look: the Bayes factor, the starts, and the error rate over 500 looks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import nct, norm, rankdata, t

from debias.p_values import log_bayes_factor
from debias.results.any_look import RankedUnits
from debias.significance.any_look import (
    ENOUGH_UNITS,
    FEW_VALUES,
    LEVEL,
    MEMORY,
    TARGET,
    PeriodValues,
    evidence_of,
    memory_of,
    prior_of,
    shares_of,
)

N_BEFORE, LOOKS = 60, 500


def split(values, weight=None, n_before=N_BEFORE):
    """The reference and the later periods of daily values of shape (n_periods, n_values), with their names."""
    weight = np.ones(len(values)) if weight is None else weight
    before, after = (
        PeriodValues(values[at], weight[at], np.arange(len(values[at])) // 7)
        for at in (slice(n_before), slice(n_before, None))
    )
    return before, after, [f"day {k}" for k in range(len(after.weight))]


def p_values(values, upward=True, **given):
    return evidence_of(*split(values, **given)).p_values(upward)


def days(seed, n_periods=100, n_values=3, memory=0.0):
    """Normal days without memory that the reference shows, unless `memory` is the correlation of neighbours."""
    noise = np.random.default_rng(seed).normal(size=(n_periods, n_values))
    for k in range(1, n_periods if memory else 0):
        noise[k] = memory * noise[k - 1] + np.sqrt(1 - memory**2) * noise[k]
    return noise


def without_memory(n_periods=100, n_values=3):
    """Normal days of which the reference shows no memory, so that the units are single days."""
    drawn = (days(seed, n_periods, n_values) for seed in range(500))
    return next(values for values in drawn if (memory_of(values[:N_BEFORE]) < MEMORY).all())


@pytest.mark.parametrize(("statistic", "freedom", "variance", "prior"), [(0.3, 5.0, 0.2, 0.5), (2.5, 70.0, 0.05, 0.4),
                                                                        (-1.7, 12.0, 1.02, 0.3)])  # fmt: skip
def test_the_bayes_factor_is_the_integral_over_the_prior(statistic, freedom, variance, prior):
    """Given a true difference, t is of the noncentral t distribution; the prior weighs its densities."""

    def of(upward):
        def at(true):
            density = norm.pdf(true, scale=np.sqrt(prior)) * (2 if upward else 1)
            return density * nct.pdf(statistic, freedom, true / np.sqrt(variance))

        whole = quad(at, 0, 8 * np.sqrt(prior))[0]
        return whole + (0 if upward else quad(at, -8 * np.sqrt(prior), 0)[0])

    null = t.pdf(statistic, freedom)
    for upward in (False, True):
        found = np.exp(log_bayes_factor(np.array(statistic), freedom, variance, prior, upward))
        np.testing.assert_allclose(found, of(upward) / null, rtol=1e-5)


def brute_force(values, weight, n_before, upward):
    """The smallest 1 / (share times Bayes factor) over all weeks, each from its own rows."""
    size = weight[:n_before].mean()
    precision = np.minimum(weight / size, 1.0)
    prior = prior_of(1 / precision[:n_before].sum(), TARGET)
    found = []
    for j in range((len(values) - n_before - 1) // 7 + 1):
        windows = slice(n_before), slice(n_before + 7 * j, None)
        means = [np.average(values[at], weights=precision[at]) for at in windows]
        each = [precision[at] @ (values[at] - mean) ** 2 for at, mean in zip(windows, means, strict=True)]
        apart = np.sqrt(precision[windows[0]]) * (values[windows[0]] - means[0])
        excess = (apart**4).mean() / (apart**2).mean() ** 2 - 3
        known = max(n_before / min(max(1 + 2 * excess, 1.0), n_before), 2.0)  # fewer periods if tails are heavy
        squares = each[0] * known / n_before + each[1]
        freedom = known + len(values[windows[1]]) - 2
        variance = sum(1 / precision[at].sum() for at in windows)
        t_value = (means[1] - means[0]) / np.sqrt(squares / freedom * variance)
        factor = np.exp(log_bayes_factor(np.array(t_value), freedom, variance, prior, upward))
        share = 1 / (1 + j / 52) - 1 / (1 + (j + 1) / 52)  # they add up to 1
        found.append(1 / (share * factor))
    return min(min(found), 1.0), f"day {7 * int(np.argmin(found))}"


@pytest.mark.parametrize("upward", [True, False])
def test_the_p_value_is_the_smallest_over_all_starts(upward):
    values = without_memory()
    values[80:, 1] += 1.0
    weight = np.random.default_rng(1).integers(20, 300, size=100).astype(float)
    p, since, names = p_values(values, upward, weight=weight)
    for k in range(3):
        expected, start = brute_force(values[:, k], weight, N_BEFORE, upward)
        np.testing.assert_allclose(p[k], expected)
        if p[k] < 1:
            assert names[k] == start
    assert names[1] == "day 21"
    assert 0.5 < since[1] < 2


def with_outlier(n_periods=100):
    """The first of three columns has a day in the reference that lies far from the others, and ranks without memory."""
    drawn = (days(seed, n_periods) for seed in range(500))

    def scores_of(values):
        return norm.ppf((rankdata(values[:N_BEFORE, :1], axis=0) - 0.5) / N_BEFORE)

    for values in drawn:
        values[30, 0] += 9.0
        if max(memory_of(values[:N_BEFORE]).max(), memory_of(scores_of(values))[0]) < MEMORY - 0.05:
            return values
    raise AssertionError


def by_ranks(values, n_before, limit=0.0, upward=True):
    """The p-value of ranks, each rank counted: of a unit of the reference among all others, and of a later one.

    Units that differ by less than a fifth of the distance of the median from its nearer quartile are equal.
    """
    before, later = values[:n_before], values[n_before:] - limit
    width = min(abs(np.quantile(before, at) - np.median(before)) for at in (0.25, 0.75)) / 5

    def rank(value):
        return sum(0.5 if abs(value - each) <= width else float(each < value) for each in before)

    scores = np.array([rank(value) / n_before for value in before])
    scores = norm.ppf(np.r_[scores, [(rank(value) + 0.5) / (n_before + 1) for value in later]])
    prior, found = prior_of(1 / n_before, TARGET), []
    for j in range((len(later) - 1) // 7 + 1):
        windows = scores[:n_before], scores[n_before + 7 * j :]
        squares = sum(((each - each.mean()) ** 2).sum() for each in windows)
        freedom, variance = sum(map(len, windows)) - 2, sum(1 / len(each) for each in windows)
        t_value = (windows[1].mean() - windows[0].mean()) / np.sqrt(squares / freedom * variance)
        factor = np.exp(log_bayes_factor(np.array(t_value), freedom, variance, prior, upward))
        found.append(1 / ((1 / (1 + j / 52) - 1 / (1 + (j + 1) / 52)) * factor))
    return min(min(found), 1.0)


def test_means_with_outliers_in_the_reference_are_judged_by_ranks():
    """Means whose excess kurtosis is below 2 are compared as they are."""
    values = with_outlier()
    values[80:, 0] += 1.5
    found = evidence_of(*split(values))
    assert found.has_outliers.tolist() == found.judged_by_ranks.tolist() == [True, False, False]
    for upward in (True, False):
        p, since, _ = found.p_values(upward)
        np.testing.assert_allclose(p[0], by_ranks(values[:, 0], N_BEFORE, upward=upward))
    assert p[0] < 0.05
    starts = found.starts[0]
    for limit in (0.0, 0.7, -0.3):
        np.testing.assert_allclose(starts.above(limit)[0], by_ranks(values[:, 0], N_BEFORE, limit))
    np.testing.assert_allclose(starts.below()[0], by_ranks(-values[:, 0], N_BEFORE))
    later = values[N_BEFORE + 7 * starts.other()[1] :, 0]
    np.testing.assert_allclose(since[0], np.median([a - b for a in later for b in values[:N_BEFORE, 0]]))


def test_by_ranks_one_far_day_is_no_evidence_and_the_scale_does_not_matter():
    values = with_outlier()[:, :1]
    far, higher = values.copy(), values.copy()
    far[90] += 1e6
    higher[80:] += 1.5
    assert p_values(far)[0][0] > 0.5
    assert p_values(higher)[0][0] < 0.05
    np.testing.assert_allclose(p_values(5.0 + 3.0 * higher)[0], p_values(higher)[0])


def test_memory_and_far_days_of_weeks_are_those_of_ranks():
    """One far day hides how alike neighbours are, and 8 weeks have no large kurtosis."""
    values = days(0, 130, 1, memory=0.9)
    values[30] += 60.0
    assert memory_of(values[:N_BEFORE])[0] < MEMORY
    found = evidence_of(*split(values))
    assert (found.of_weeks.tolist(), found.judged_by_ranks.tolist()) == ([True], [True])
    values[80:] += 6.0
    weeks = [values[at : at + 7, 0].mean() for at in (*range(0, 56, 7), *range(60, 130, 7))]
    units = evidence_of(*split(values)).starts[0].units
    np.testing.assert_allclose(units.before, sorted(weeks[:8]))
    np.testing.assert_allclose(units.later, weeks[8:])


def test_what_a_row_more_or_rounding_changes_is_no_evidence():
    """Means of rare events of 100 rows, and of 99: events are as frequent. Other means differ by rounding alone."""
    rng = np.random.default_rng(4)
    count = rng.binomial(1, 0.25, size=400)
    count[:N_BEFORE] = rng.permutation(np.repeat([0, 1, 2], [50, 9, 1]))
    weight = np.where(np.arange(400) < N_BEFORE, 100.0, 99.0)
    rare = count / weight - 0.0025
    constant = 0.1 + 1e-17 * rng.integers(-5, 5, size=400) + np.where(np.arange(400) == 30, 5.0, 0.0)
    found = evidence_of(*split(np.column_stack([rare, constant]), weight))
    assert found.judged_by_ranks.tolist() == [True, False]
    assert found.unknown == ["", FEW_VALUES]
    expected = evidence_of(*split(count[:, None].astype(float))).starts[0]
    np.testing.assert_allclose(found.starts[0].other()[0], expected.other()[0])


def test_a_fall_of_most_units_is_none_if_their_mean_rose():
    values = with_outlier()[:, :1]
    values[N_BEFORE:] -= 3.0
    assert evidence_of(*split(values)).starts[0].below()[0] < 0.05
    values[N_BEFORE::5] += 90.0  # at least one since each start
    starts = evidence_of(*split(values)).starts[0]
    assert starts.below()[0] == 1.0
    assert starts.other()[0] < 0.05


def test_a_reference_of_nearly_equal_means_is_not_judged():
    for n_other, is_judged in ((7, False), (8, True)):
        values = np.zeros((100, 1))
        values[:n_other] = np.arange(1, n_other + 1)[:, None] / 10
        values[:N_BEFORE] = np.random.default_rng(5).permutation(values[:N_BEFORE])
        found = evidence_of(*split(values))
        assert (found.starts[0] is not None) is is_judged
        assert found.unknown == ["" if is_judged else FEW_VALUES]


@pytest.mark.parametrize(("rows", "is_judged"), [(1.4, True), (1.6, False), (0.7, True), (0.6, False)])
@pytest.mark.parametrize("later", ["all", "the last weeks", "weekends"])
def test_ranks_of_units_of_other_sizes_are_not_compared(rows, is_judged, later):
    """Means of other numbers of rows have other medians. That of all later days is not enough: days may have grown."""
    day = np.arange(120)
    is_other = {"all": day >= N_BEFORE, "the last weeks": day >= 80, "weekends": (day >= N_BEFORE) & (day % 7 >= 5)}
    weight = np.where(is_other[later], rows, 1.0)
    weight[[63, 90]] *= 5.0  # single days may have any size
    values = with_outlier(120)
    found = evidence_of(*split(values, weight))
    assert [starts is not None for starts in found.starts] == [is_judged, True, True]
    assert np.isnan(found.p_values(True)[0]).tolist() == [not is_judged, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 42, 84])
def test_a_change_of_skewed_means_is_seldom_found_at_any_look(rows):
    """Days of lognormal losses, of 60 rows in the reference: 500 looks at each of 200 series without a change.

    Later days may have other numbers of rows.
    """
    n_series, rng = 200, np.random.default_rng(9)
    before, later = (rng.lognormal(0, 2, (n, n_series, of_day)).mean(axis=2) for n, of_day in ((60, 60), (500, rows)))
    found, ranked = np.zeros((2, n_series), dtype=bool), 0.0
    for n in range(10, 501, 5):  # from the first complete week on
        values, weight = np.concatenate([before, later[:n]]), np.repeat([60.0, rows], [60, n])
        evidence = evidence_of(*split(values, weight))
        assert None not in evidence.starts
        ranked = evidence.judged_by_ranks.mean()
        found |= np.array([evidence.p_values(upward)[0] <= 0.05 for upward in (True, False)])
    print(f"{rows} rows: a rise {found[0].mean():.3f}, any change {found[1].mean():.3f}, by ranks {ranked:.2f}")
    assert (found.mean(axis=1) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_series)).all()
    assert ranked > 0.5


@pytest.mark.slow
def test_a_rise_of_skewed_means_is_found():
    """By two standard deviations of a day, and by half of all losses, on the 100th day after the reference."""
    rng = np.random.default_rng(10)
    for name, change in (("2 sd", lambda values, sd: values + 2 * sd), ("half", lambda values, sd: 1.5 * values)):
        values = rng.lognormal(0, 1.5, (N_BEFORE + 160, 100, 60)).mean(axis=2)
        values[N_BEFORE + 100 :] = change(values[N_BEFORE + 100 :], values.std())
        late = delays(values, 0.05 / 10) - 100
        print(f"{name}: median {np.median(late[late > 0]):.0f} days, not in 60: {np.isinf(late).mean():.2f}")
        assert np.median(late[late > 0]) <= 35


def test_weeks_are_the_same_test_of_weekly_means():
    """In a column with memory, weeks are compared as if each were one period; the last one only when it is complete."""
    values = days(0, 130, 1, memory=0.9)
    assert memory_of(values[:N_BEFORE])[0] > MEMORY
    values[100:] += 4.0
    found = evidence_of(*split(values))
    assert found.of_weeks.tolist() == [True]
    weeks = np.array([values[at : at + 7, 0].mean() for at in (*range(0, 56, 7), *range(60, 130, 7))])
    starts = found.starts[0]
    assert len(starts.since) == 10
    for j, difference in enumerate(starts.difference):
        np.testing.assert_allclose(difference, weeks[8 + j :].mean() - weeks[:8].mean())
    assert starts.freedom.tolist() == [8 + 10 - j - 2 for j in range(10)]
    # Of 6 days more nothing is said; the 7th one completes the week.
    more = np.concatenate([values, values[-7:] + 9.0])
    p = [evidence_of(*split(more[: 130 + k])).p_values(True)[0][0] for k in range(8)]
    assert p[0] == p[6] != p[7]


def test_periods_with_a_memory_that_weeks_do_not_join_are_not_judged():
    """Of weekly periods, or three a week, weeks would have the same memory."""
    values = days(0, 130, 1, memory=0.9)
    for in_a_week, n_weeks in ((1, 0), (3, 0), (4, 15)):
        before, after = (
            PeriodValues(each, np.ones(len(each)), np.arange(len(each)) // in_a_week)
            for each in (values[:N_BEFORE], values[N_BEFORE:])
        )
        found = evidence_of(before, after, ["x"] * len(after.week))
        assert found.of_weeks.tolist() == [True]
        assert found.n_units == (N_BEFORE, n_weeks)
        assert found.judged_by_weeks.tolist() == [found.starts[0] is not None] == [n_weeks > 0]


def test_one_start_is_the_plain_bayes_factor():
    values = without_memory(N_BEFORE + 7)
    starts = evidence_of(*split(values)).starts[0]
    assert starts.since == ("day 0",)
    t_value = starts.difference / np.sqrt(starts.squares / starts.freedom * starts.variance)
    factor = np.exp(log_bayes_factor(t_value, starts.freedom, starts.variance, starts.prior, True))
    np.testing.assert_allclose(starts.above()[0], min(1.0, 1 / (factor[0] / 53)))


@pytest.mark.parametrize("variance", [1 / 60, 1 / 8, 1.0])
def test_the_prior_finds_the_smallest_difference_after_the_planned_number_of_units(variance):
    target = 30
    of_difference = variance + 1 / target

    def smallest_found(prior):
        """Return the z at which the Bayes factor of a normal difference reaches 1 / LEVEL, by its definition."""
        z = np.linspace(0, 20, 200_001)
        under_prior = norm.logpdf(z, scale=np.sqrt(1 + prior / of_difference))
        return z[np.argmax(under_prior - norm.logpdf(z) >= -np.log(LEVEL))]

    best = smallest_found(prior_of(variance, target))
    others = [smallest_found(prior_of(variance, target) * factor) for factor in (0.3, 0.8, 1.25, 3.0)]
    assert best <= min(others)
    assert best < max(others) - 0.05  # the prior matters


def test_shares_add_up_to_one():
    np.testing.assert_allclose(shares_of(np.arange(52)).sum(), 0.5)
    np.testing.assert_allclose(shares_of(np.arange(10**6)).sum(), 1, atol=1e-4)


def test_more_evidence_gives_a_smaller_p_value():
    values = without_memory()
    p = []
    for rise in np.linspace(-2, 3, 11):
        moved = values.copy()
        moved[N_BEFORE:] += rise
        p.append(p_values(moved)[0])
    assert (np.diff(p, axis=0) <= 0).all()
    assert (np.array(p)[-1] < 1e-9).all()
    assert (np.array(p)[0] == 1).all()  # a fall is no evidence for a rise


def test_scale_and_origin_do_not_matter():
    values = without_memory()
    values[80:] += 1.0
    p, since, names = p_values(values)
    other = p_values(5.0 + 3.0 * values)
    np.testing.assert_allclose(other[0], p, rtol=1e-9)
    np.testing.assert_allclose(other[1], 3.0 * since)
    assert other[2] == names
    starts = evidence_of(*split(values)).starts[0]
    shifted = values - 0.4 * (np.arange(100) >= N_BEFORE)[:, None]
    np.testing.assert_allclose(starts.above(0.4)[0], p_values(shifted)[0][0], rtol=1e-9)
    assert starts.below()[0] == p_values(-values)[0][0]


def test_a_week_without_periods_leaves_its_share_to_the_next_start():
    """Of the starts with the same periods the earliest has the largest share."""
    values = without_memory()
    before, after, names = split(values)
    gap = PeriodValues(after.values, after.weight, after.week + np.where(after.week >= 2, 3, 0))
    starts = evidence_of(before, gap, names).starts[0]
    assert starts.since[2] == "day 14"
    np.testing.assert_allclose(starts.share, shares_of(np.array([0, 1, 2, 6, 7, 8][: len(starts.share)])))


def test_few_or_constant_periods_are_not_judged():
    few = without_memory()[: ENOUGH_UNITS + 9]
    assert evidence_of(*split(few, n_before=ENOUGH_UNITS - 1)).starts == [None] * 3
    one_more = few - few[:ENOUGH_UNITS].mean(axis=0)
    one_more[:ENOUGH_UNITS] = np.tile([1.0, -1.0], ENOUGH_UNITS // 2)[:, None]
    assert None not in evidence_of(*split(one_more, n_before=ENOUGH_UNITS)).starts
    constant = without_memory()
    constant[:N_BEFORE, 1] = 0.1  # its mean is 0.1 up to rounding
    p, _, names = p_values(constant)
    assert np.isnan(p).tolist() == [False, True, False]
    assert names[1] == ""


def test_of_equal_starts_the_earliest_is_told():
    starts = evidence_of(*split(without_memory())).starts[0]
    arrays = ("share", "difference", "squares", "variance", "freedom")
    same = replace(starts, since=("x", "y"), **{name: np.repeat(getattr(starts, name)[:1], 2) for name in arrays})
    assert same.above()[1] == same.below()[1] == same.other()[1] == 0


def ever_found(values, level=0.05):
    """Whether each column is ever found at the level, when one looks every day: a rise, and any change."""
    found = np.zeros((2, values.shape[1]), dtype=bool)
    for n_days in range(1, len(values) - N_BEFORE + 1):
        evidence = evidence_of(*split(values[: N_BEFORE + n_days]))
        for row, upward in enumerate((True, False)):
            found[row] |= evidence.p_values(upward)[0] <= level
    return found


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.0, 0.3, 0.6])
def test_of_series_in_which_nothing_changes_few_are_ever_found(memory):
    """Over 500 looks at 2,000 series: docs/monitoring.md cites these shares, which `pytest -rP` shows."""
    share, n_series = ever_found(days(7, N_BEFORE + LOOKS, 2000, memory)).mean(axis=1), 2000
    error = np.sqrt(share * (1 - share) / n_series)
    print(f"memory {memory}: a rise {share[0]:.4f} ({error[0]:.4f}), any change {share[1]:.4f} ({error[1]:.4f})")
    assert (share <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_series)).all()
    assert (share > 0).all()


def delays(values, level):
    """The number of days after the reference until each column is found to have risen; infinity if never."""
    delay = np.full(values.shape[1], np.inf)
    for n_days in range(1, len(values) - N_BEFORE + 1):
        p = evidence_of(*split(values[: N_BEFORE + n_days])).p_values(True)[0]
        delay = np.where((p <= level) & np.isinf(delay), n_days, delay)
    return delay


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "limit"), [(0.0, 14), (0.3, 63)])
def test_a_rise_is_found_within_days_however_late_it_begins(memory, limit):
    """2 standard deviations from day 0, 100 or 300 on, one of ten features: docs/monitoring.md cites the medians."""
    for begin in (0, 100, 300):
        values = days(11, N_BEFORE + begin + 90, 200, memory)
        values[N_BEFORE + begin :] += 2.0
        found = delays(values, 0.05 / 10) - begin
        late = found[found > 0]
        never = np.mean(np.isinf(late))
        print(f"memory {memory}, from day {begin}: median {np.median(late):.0f}, {never:.3f} not in 90 days")
        assert np.median(late) <= limit


@pytest.mark.slow
@pytest.mark.parametrize(("size", "limit"), [(0.0, 14), (1.0, 21), (2.0, 35)])
@pytest.mark.parametrize("first", [0, 3])
def test_weekends_raise_no_alarm_and_make_a_rise_take_longer(size, limit, first):
    """Two of seven days are larger by `size` standard deviations: docs/monitoring.md cites the medians and shares."""

    def with_weekends(values):
        return values + size * ((np.arange(len(values)) + first) % 7 >= 5)[:, None]

    share = ever_found(with_weekends(days(7, N_BEFORE + 300, 400))).mean(axis=1)
    risen = with_weekends(days(11, N_BEFORE + 90, 200))
    risen[N_BEFORE:] += 2.0
    median = np.median(delays(risen, 0.05 / 10))
    print(f"weekends by {size}, from day {first}: falsely {share[0]:.4f} and {share[1]:.4f}, {median:.1f} days")
    assert (share <= 0.05).all()
    assert median <= limit


def test_the_difference_of_typical_units_needs_no_memory_for_all_pairs():
    rng = np.random.default_rng(3)
    before, later = np.sort(rng.lognormal(0, 1, 1500)), rng.lognormal(0.5, 1, 2500)
    found = RankedUnits(before, later, np.array([0])).typical_difference(0, 1.0)
    np.testing.assert_allclose(found, np.median(later[:, None] - before), rtol=0.01)


def test_no_difference_is_told_where_most_units_are_equal():
    before, later = np.sort(np.repeat([0.0, 1.0], [50, 10])), np.repeat([0.0, 1.0], [26, 14])
    units = RankedUnits(before, later, np.array([0]))
    assert units.scores()[0][0] > 0
    assert units.typical_difference(0, 1.0) == 0.0


@pytest.mark.parametrize("share", [0.05, 0.12])
def test_many_far_units_do_not_make_the_others_equal(share):
    """One-sided: they lie at 100 standard deviations of the others, of which later ones are larger."""
    rng = np.random.default_rng(8)
    values = rng.normal(size=(300, 1))
    values[rng.permutation(200)[: int(share * 200)]] += 100.0
    values[250:] += 2.0
    before, after, names = split(values, n_before=200)
    found = evidence_of(before, after, names)
    assert found.unknown == [""]
    assert found.p_values(True)[0][0] < 1e-4


def test_labels_that_are_missing_on_the_last_days_leave_a_mean_judged():
    weight = np.where(np.arange(120) >= 115, 0.3, 1.0)
    assert evidence_of(*split(with_outlier(120), weight)).unknown == [""] * 3


@pytest.mark.parametrize(("spread", "is_judged"), [(0.0, False), (0.3, True)])
def test_ties_may_be_broken_by_numbers_of_rows_that_vary_as_ever(spread, is_judged):
    """Later days have 8 % more rows: no more than chance if days differ by 30 %."""
    rng = np.random.default_rng(6)
    count = rng.permutation(np.repeat([0.0, 1.0, 2.0], [49, 10, 1]))
    values = np.append(count, rng.binomial(1, 0.2, size=28))[:, None]
    usual, later = (np.exp(spread * norm.ppf(rng.permutation(np.arange(n) + 0.5) / n)) for n in (60, 28))
    weight = np.append(usual, 1.08 * later)
    values = np.where(values > 0, values / weight[:, None], 0.0)
    before, after, names = split(values, weight)
    assert [each == "" for each in evidence_of(before, after, names).unknown] == [is_judged]


def test_no_difference_is_told_that_has_another_direction_than_the_ranks():
    """42 % of later units lie far below, and the others at the upper end of the reference."""
    before = np.sort(np.random.default_rng(2).normal(10, 1, 365))
    later = np.where(np.arange(730) % 50 < 21, 5.0, np.quantile(before, 0.9))
    units = RankedUnits(before, later, np.array([0]))
    assert np.median(later[:, None] - before) > 0
    assert units.scores()[0][0] < 0
    assert units.typical_difference(0, -1.0) == 0.0
