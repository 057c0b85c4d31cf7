"""``looks="any"`` in a history: windows that stay, what is judged and what is not, and the same words everywhere."""

import json
import re
import warnings
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from xgboost import XGBRegressor

import debias
from debias import Changes
from debias.errors import CompositionError, HistoryError
from debias.monitor.any_look import Windows, findings_at_any_look, too_few
from debias.monitor.few_numbers import Summaries
from debias.monitor.records import Records
from debias.monitor.store import Store
from debias.p_values import holm, log_bayes_factor
from debias.results.fleet import FEW
from debias.significance.any_look import MEMORY, TARGET, PeriodValues, evidence_of, memory_of, prior_of
from debias.text import few_digits

from .conftest import FIRST

REFERENCE, N_DAYS, FAULT = 20, 45, 31
GIVEN = {"recent": "7d", "reference": f"first {REFERENCE}d", "looks": "any"}


def broken(days, number, fault=FAULT):
    """The rows of a day; from the fault on, the values of a are in random order."""
    X, y = days(number + 2200)  # days of which the reference shows no memory of the loss by chance
    if number >= fault:
        X = X.assign(a=np.random.default_rng(number).permutation(X["a"]))
    return X, y


def filled(model, path, days, order=range(N_DAYS), at=lambda number: FIRST + timedelta(number), fault=FAULT):
    history = debias.History(model, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in order:
            history.add(*broken(days, number, fault), at=at(number), rows="held-out")
    return history


@pytest.fixture(scope="module")
def faulty(model, days, tmp_path_factory):
    return filled(model, tmp_path_factory.mktemp("any") / "faulty.history", days).path


@pytest.fixture(scope="module")
def history(faulty):
    return debias.History.open(faulty)


@pytest.fixture(scope="module")
def changes(history):
    return history.changes(**GIVEN)


def effective(apart):
    """The number of periods over 1 + twice their excess kurtosis, at least 2 and at most all."""
    excess = (apart**4).mean() / (apart**2).mean() ** 2 - 3
    return max(apart.size / min(max(1 + 2 * excess, 1.0), apart.size), 2.0)


def brute_force(values, weight):
    """By the definition: the smallest 1 / (share times Bayes factor) over all weeks after the reference."""
    size = weight[:REFERENCE].mean()
    precision = np.minimum(weight / size, 1.0)
    prior = prior_of(1 / precision[:REFERENCE].sum(), TARGET)
    found = {}
    for j in range(4):
        windows = slice(REFERENCE), slice(REFERENCE + 7 * j, None)
        means = [np.average(values[at], weights=precision[at]) for at in windows]
        each = [precision[at] @ (values[at] - mean) ** 2 for at, mean in zip(windows, means, strict=True)]
        # The reference counts as fewer periods if its tails are heavy.
        known = effective(np.sqrt(precision[windows[0]]) * (values[windows[0]] - means[0]))
        squares = each[0] * known / REFERENCE + each[1]
        freedom, variance = known + len(values[windows[1]]) - 2, sum(1 / precision[at].sum() for at in windows)
        t = (means[1] - means[0]) / np.sqrt(squares / freedom * variance)
        factor = np.exp(log_bayes_factor(np.array(t), freedom, variance, prior, True))
        found[REFERENCE + 7 * j] = (53 + j) * (52 + j) / 52 / factor, means[1] - means[0]
    start = min(found, key=lambda day: found[day][0])
    return found[start][0], start, found[start][1]


@pytest.mark.thorough
def test_p_values_and_starts_are_those_of_the_definition(history, changes):
    """The costs and losses of days are those of comparisons of single days with the first one."""
    first, costs, losses = FIRST.isoformat(), [], []
    for number in range(1, N_DAYS):
        at = (FIRST + timedelta(number)).isoformat()
        loss = history.changes((at, at), (first, first)).loss
        if number == 1:
            costs.append(-loss.statistics["saved_before"])
            losses.append(loss.loss.before)
        costs.append(-loss.statistics["saved_after"])
        losses.append(loss.loss.after)
    values, found = np.column_stack([costs, losses]), changes.loss
    assert (memory_of(values[:REFERENCE]) <= MEMORY).all()  # so that the units are days
    expected = [brute_force(column, np.full(N_DAYS, 60.0)) for column in values.T]
    *p, p_loss = [min(each[0], 1.0) for each in expected]
    np.testing.assert_allclose(found.statistics["p_value"], p, rtol=1e-9)
    np.testing.assert_allclose(found.statistics["p_adjusted"], holm(np.array(p)), rtol=1e-9)
    np.testing.assert_allclose(found.loss.p_value, p_loss, rtol=1e-9)
    starts = [(FIRST + timedelta(start)).isoformat() for _, start, _ in expected]
    assert (*found.since, found.loss.since[0]) == tuple(starts)
    np.testing.assert_allclose([*found.cost_since, found.loss.since[1]], [rise for *_, rise in expected], rtol=1e-9)


@pytest.mark.thorough
def test_what_broke_is_found_with_its_start(changes):
    assert [changes.loss.feature_names[k] for k in changes.loss.costs_more] == ["a"]
    assert changes.loss.direction == "rose"
    frame = changes.loss.to_frame()
    assert frame.loc["a", "since"] == "2026-02-04"  # the week after that of the fault
    assert frame.loc["a", "cost_since"] > 1
    assert (changes.looks, changes.loss.level) == ("any", 0.05)


def test_what_does_not_hold_at_any_look_is_not_judged_and_said_so(changes, history):
    assert set(changes.verdict) == {"not compared"}
    frame = changes.to_frame()
    assert frame[["p_value", "p_adjusted", "shift_p_adjusted"]].isna().all(axis=None)
    assert not frame[["informative_after", "shifted"]].any(axis=None)
    assert not changes.statistics["kept"].any()
    assert changes.loss.causes == ()
    assert "planned number of looks" in changes.loss.no_causes_because
    assert changes.provisional is None
    assert changes.longer == ()
    assert not any("the error rate is of this comparison alone" in text for text in changes.warnings)
    (said,) = [text for text in changes.summary() if text.startswith("Not judged at any look")]
    for what in ("the response to single features", "shifts", "causes", "rows without responses"):
        assert what in said
    (held,) = [text for text in changes.summary() if text.startswith("At any look hold")]
    csv_table = changes.to_csv().splitlines()
    assert "cost_since,since,cost_p_adjusted,cost_verdict" in csv_table[0]
    assert next(row for row in csv_table if row.startswith("a,")).count(changes.loss.since[0]) == 1
    assert "25 periods after the reference (2026-01-21 to 2026-02-14), with 4 starts" in held
    assert held.endswith("Units, taken as independent and normal, are single periods.")
    (unjudged,) = [text for text in changes.warnings if text.startswith("the mean")]
    assert unjudged.startswith(
        "the mean prediction is not judged: periods of the reference depend on those before them"
    )
    assert "it has 2 complete weeks of 4 periods or more: 8 are needed" in unjudged
    planned = history.changes(GIVEN["recent"], GIVEN["reference"], looks=365)
    for name in ("before", "after", "change", "shift", "left_after"):  # what is no test stays as it is
        np.testing.assert_array_equal(changes.statistics[name], planned.statistics[name])


@pytest.mark.thorough
def test_every_place_has_the_start(changes, history, tmp_path):
    since = changes.loss.since[0]
    sentence = next(text for text in changes.summary() if text.startswith("The mean squared error rose"))
    assert f"since {since}" in sentence
    assert sentence.count(" since 2026-") == 2  # of the loss and of the feature
    assert re.search(rf"a  .*{since}  .* costs more", repr(changes))
    page = changes.to_html()
    assert f"<td>{since}</td>" in page.replace(' class="text"', "").replace(' class="word"', "")
    assert ">since<" in page
    assert f"since {since}" in history.to_html(changes=changes)
    (result,) = changes.check({"max_loss_increase": 0.05}).results
    assert result.status == "failed"
    assert f"since {since}" in result.reason
    read = Changes.from_json(changes.to_json())
    assert read.to_dict() == changes.to_dict()
    assert read.loss.loss.p_above(0.1) == changes.loss.loss.p_above(0.1)
    assert json.loads(changes.to_json())["looks"] == "any"


def test_the_gate_takes_the_evidence_since_the_start(history):
    """A rise in the last days of a long recent window fails, although the mean of the window rose by less."""
    long = history.changes(**GIVEN | {"recent": "25d"})
    limit = long.loss.loss.change + 0.02
    assert limit < long.loss.loss.since[1]
    assert long.check({"max_loss_increase": limit}).results[0].status == "failed"
    rules = {"max_shift": 0.5, "must_not_fade": ["a"], "must_not_be_biased": True}
    by_rule = {result.rule: result for result in long.check(rules).results}
    assert by_rule["must_not_be_biased"].status == "passed"
    for rule in ("max_shift", "must_not_fade: a"):
        assert by_rule[rule].status == "not judged"
        assert "planned number of looks" in by_rule[rule].reason


@pytest.mark.thorough
def test_the_result_depends_on_the_rows_and_not_on_when_they_came(model, days, tmp_path, changes):
    """Late days, a day that is corrected, and days that are added twice: the result is that of the rows at last."""
    late = [number for number in range(N_DAYS) if number not in (3, 25, 40)]
    history = debias.History(model, tmp_path / "late.history")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        history.add(*days(900), at=FIRST + timedelta(25), rows="held-out")
        for number in (*late, 25, 3, 40, 40):
            rows = broken(days, number)
            history.add(*rows, at=FIRST + timedelta(number), rows="held-out", replace=True)
    assert history.changes(**GIVEN).to_dict() == changes.to_dict()
    assert history.changes(**GIVEN).to_dict() == history.changes(**GIVEN).to_dict()


@pytest.mark.thorough
def test_missing_days_leave_the_weeks_where_they_are(model, days, tmp_path):
    """Days 21 to 27 and some others did not come: starts and shares are still those of the calendar."""
    came = [number for number in range(N_DAYS) if number not in (5, 33, *range(21, 28))]
    history = filled(model, tmp_path / "gaps.history", days, came)
    loss = history.changes(**GIVEN).loss
    starts = loss.loss.starts
    assert starts.since == ("2026-01-21", "2026-01-29", "2026-02-04", "2026-02-11")
    np.testing.assert_allclose(starts.share, [52 / ((52 + j) * (53 + j)) for j in range(4)])
    assert loss.costs_more.tolist() == [0]


def test_few_periods_are_refused_with_their_number(history):
    few = history.changes(**GIVEN | {"reference": "first 7d"})
    assert few.loss is None
    assert few.no_loss_because == (
        "the reference has 7 periods: 8 are needed to show how much they vary. Choose a longer reference"
    )
    assert np.isnan([mean.p_value for mean in few.means]).all()
    gate = few.check({"max_loss_increase": 0.05, "must_not_be_biased": True})
    assert [result.status for result in gate.results] == ["not judged", "not judged"]
    early = history.changes("7d", looks="any")
    assert not early.compared
    assert early.reference_given == "the first 60 days of the model"
    assert "The reference has 45 periods, from 2026-01-01 to 2026-02-14. Until there are later ones" in (
        early.not_compared_because
    )
    within = history.changes("2026-01-05..2026-01-09", GIVEN["reference"], looks="any")
    assert "Choose a recent window that ends later" in within.not_compared_because


@pytest.mark.parametrize("reference", ["20d", 20, "20", timedelta(20)])
def test_a_reference_that_moves_is_refused(history, reference):
    with pytest.raises(HistoryError, match=r"moves along with time, and looks='any' needs .* reference='first 60d'"):
        history.changes("7d", reference, looks="any")
    with pytest.raises(HistoryError, match="moves along with time"):
        debias.History.fleet(history.path, "7d", reference, looks="any")


@pytest.mark.parametrize("looks", ["all", "ANY", 0, 1.5, True, None, [1]])
def test_other_looks_are_refused(history, looks):
    for ask in (history.changes, lambda **given: debias.History.fleet(history.path, **given)):
        with pytest.raises(CompositionError, match=r"looks must be a whole number, 1 or more, or 'any' in a history"):
            ask(looks=looks)
    with pytest.raises(CompositionError, match="error rate"):
        history.changes(error_rate=2.0, looks="any")
    with pytest.raises(CompositionError, match="least"):
        history.changes(least=-1, looks="any")


def windows(path, recent, reference):
    with Store.of(path, 10).reading() as content:
        records = Records(content, {})
        return Windows.of(content.periods(records.latest().id), recent, reference)


def test_windows_stay(faulty):
    """The reference is the same at every look, and all later periods up to now are compared."""
    for last in (25, 30, 44):
        at = (FIRST + timedelta(last)).isoformat()
        found = windows(faulty, (at, at), "first 20d")
        assert (found.before, found.later, found.recent) == (range(20), range(20, last + 1), range(last, last + 1))
        assert found.weeks[1].tolist() == [k // 7 for k in range(last - 19)]
    assert windows(faulty, "40d", "first 20d").recent == range(20, 45)
    named = windows(faulty, "7d", ("2026-01-03", "2026-01-20"))
    assert (named.before, named.later) == (range(2, 20), range(20, 45))
    assert named.weeks[1].tolist() == [k // 7 for k in range(25)]
    assert windows(faulty, "7d", None).before == range(45)


@pytest.mark.thorough
def test_periods_with_numbers_are_in_weeks_of_seven(model, days, tmp_path):
    history = filled(model, tmp_path / "numbers.history", days, at=lambda number: 3 * number)
    found = windows(history.path, 7, "first 20")
    assert found.weeks[1].tolist() == [k // 7 for k in range(25)]
    assert history.changes(7, "first 20", looks="any").loss.costs_more.tolist() == [0]
    assert history.changes(7, looks="any").reference_given == "the first 60 periods of the model"
    with pytest.raises(HistoryError, match=r"recent='30d' is a length of time.* such as recent=7"):
        history.changes(looks="any")
    with pytest.raises(HistoryError, match=r"reference='first 20d' is a length.* such as reference='first 60'"):
        history.changes(7, "first 20d", looks="any")


@pytest.mark.slow
def test_a_fleet_holds_at_any_look(model, days, tmp_path, faulty, changes):
    same = filled(model, tmp_path / "same.history", days, fault=99).path
    fleet = debias.History.fleet([faulty, same], **GIVEN, error_rate=0.1)
    by_file = {line.history: line for line in fleet.lines}
    line = by_file[str(faulty)]
    assert line.verdict == "needs a look"
    assert line.worst_feature == "a"
    assert (line.loss_since, line.features[0].since) == (changes.loss.loss.since[0], changes.loss.since[0])
    assert f"since {changes.loss.loss.since[0]}" in line.why
    assert f"a {changes.loss.cost_since[0]:+.3g} since {changes.loss.since[0]}" in line.why
    assert by_file[str(same)].verdict == "nothing found"
    assert fleet.exit_code == 1
    assert "of all models and all looks together" in fleet.summary()[-1]
    assert "are not judged at any look" in " ".join(fleet.summary())
    assert fleet.to_dict()["looks"] == "any"
    pages = debias.History.fleet([faulty, same], **GIVEN, error_rate=0.1, html=tmp_path / "fleet.html")
    assert [each.reasons for each in pages.lines] == [each.reasons for each in fleet.lines]
    assert {each.judged for each in pages.lines} == {FEW}
    assert f"since {changes.loss.since[0]}" in (tmp_path / "fleet_models" / "faulty.html").read_text()
    early = debias.History.fleet(faulty, "7d", looks="any")
    assert early.exit_code == 4
    assert early.reference == "the first 60 days of the model"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda plain: plain.update(any_look=None), "any_look contradicts looks"),
        (lambda plain: plain.update(looks="often"), "looks is not"),
        (lambda plain: plain["loss"]["loss"]["starts"].update(share=[1.0]), "as many numbers as starts"),
        (lambda plain: plain["loss"]["loss"]["starts"].update(prior=-1.0), "not above 0"),
        (lambda plain: plain["loss"].update(since=["x"]), "do not have 3 entries"),
        (lambda plain: plain["loss"].update(cost_since=None), "do not have 3 entries"),
        (lambda plain: plain["any_look"].update(n_starts="many"), "n_starts"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(changes, wrong, said):
    plain = changes.to_dict()
    wrong(plain)
    with pytest.raises(debias.errors.DebiasError, match=said):
        Changes.from_json(json.dumps(plain))


@pytest.fixture(scope="module")
def odd(model, days, tmp_path_factory):
    """The same days, after a reference of which one has far larger errors than the others."""
    history = debias.History(model, tmp_path_factory.mktemp("any") / "odd.history")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in range(N_DAYS):
            X, y = broken(days, number, fault=REFERENCE + 1)
            history.add(X, y + 30.0 * (number == 7), at=FIRST + timedelta(number), rows="held-out")
    return history.changes(**GIVEN)


@pytest.mark.thorough
def test_one_odd_day_of_the_reference_hides_no_rise_of_the_loss(odd):
    """The mean loss of the reference is larger than that of any later day, but that of most days is smaller."""
    assert odd.loss.loss.change < 0
    assert odd.loss.direction == "rose"
    assert odd.loss.loss.since[1] > 0
    assert {"the mean residual", "the loss", "the base", "a"} <= {*odd.any_look.by_ranks}
    (told,) = [text for text in odd.summary() if text.startswith("At any look hold")]
    assert "The ranks of units are compared for the mean re" in told
    since, rise = odd.loss.loss.since
    said = f"rose by {few_digits(rise)} since {since}, by the ranks of periods. Its means, in which few far"
    assert said in odd.summary()[0]
    passed, failed = (odd.check({"max_loss_increase": limit}).results[0] for limit in (5.0 * rise, 0.2 * rise))
    assert (passed.status.name, failed.status.name) == ("PASSED", "FAILED")
    quiet = replace(odd.loss.loss.starts, share=np.full(4, 1e-9))  # as if there were no evidence
    unclear = replace(odd, loss=replace(odd.loss, loss=replace(odd.loss.loss, starts=quiet)))
    (result,) = unclear.check({"max_loss_increase": 0.2 * rise}).results
    assert result.status.name == "NOT_JUDGED"


@pytest.mark.thorough
def test_a_file_keeps_the_ranked_units(odd):
    again = Changes.from_json(odd.to_json())
    assert again.to_json() == odd.to_json()
    assert again.any_look == odd.any_look
    starts, read = odd.loss.loss.starts, again.loss.loss.starts
    for limit in (0.0, 0.3):
        assert read.above(limit) == starts.above(limit)
    assert again.loss.loss.since == odd.loss.loss.since


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda units: units.update(before=units["before"][::-1]), "ascending order"),
        (lambda units: units.update(before=[1.0, 1.0]), "two different numbers"),
        (lambda units: units.update(first=units["first"][:-1]), "as many first units as starts"),
        (lambda units: units.update(first=[*units["first"][:-1], 999]), "positions that `later` does not have"),
        (lambda units: units.update(later=["x"]), "later"),
        (lambda units: units.update(later=[2 * each for each in units["later"]]), "other differences than those"),
    ],
)
def test_ranked_units_of_a_file_that_contradict_themselves_are_refused(odd, wrong, said):
    plain = odd.to_dict()
    wrong(plain["loss"]["loss"]["starts"]["units"])
    with pytest.raises(debias.errors.DebiasError, match=said):
        Changes.from_json(json.dumps(plain))
    plain = odd.to_dict()
    del plain["loss"]["loss"]["starts"]["units"]
    with pytest.raises(debias.errors.DebiasError, match="by_ranks contradicts"):
        Changes.from_json(json.dumps(plain))


def test_why_a_mean_is_not_judged():
    alternating, slow, constant = np.tile([0.0, 1.0], 20), np.repeat([0.0, 1.0], 20), np.ones(40)
    values = np.column_stack([alternating, slow, constant])

    def reasons(n_periods, n_later=9, values=values, rows=1.0):
        before, after = (
            PeriodValues(each, np.full(len(each), of_each), np.arange(len(each)) // 7)
            for each, of_each in ((values[:n_periods], 1.0), (values[:n_later], rows))
        )
        found = evidence_of(before, after, ["x"] * n_later)
        return [None if starts else too_few(found, k) for k, starts in enumerate(found.starts)]

    few = "{}: 8 are needed to show how much they vary. Choose a longer reference"
    assert reasons(40) == [
        None,
        few.format(
            "periods of the reference depend on those before them, so that weeks are compared, and it has 5 complete "
            "weeks of 4 periods or more"
        ),
        "it is the same in all periods of the reference",
    ]
    assert reasons(7) == [few.format("the reference has 7 periods")] * 3
    longer = np.repeat([0.0, 1.0], 30)[:, None]
    so_far = "periods of the reference depend on those before them, so that weeks are compared, and none after the "
    assert reasons(60, 6, longer) == [f"{so_far}reference is complete so far"]
    assert reasons(60, 7, longer) == [None]
    outlier = np.tile([0.0, 1.0], 20)[:, None]
    outlier[11] = 9.0
    assert reasons(40, values=outlier) == [None]
    (told,) = reasons(40, values=outlier, rows=2.0)
    assert told.startswith("few periods of the reference lie far from the others, so that only the ranks of periods")


@pytest.mark.thorough
def test_every_place_says_that_weeks_are_compared(model, days, tmp_path):
    """The residual of each day is alike to that of the day before, and 20 days have less than 8 weeks."""
    history = debias.History(model, tmp_path / "slow.history")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in range(30):
            X, y = days(number)
            history.add(X, y + 2.0 * (number // 5 % 2), at=FIRST + timedelta(number), rows="held-out")
    found = history.changes(**GIVEN)
    because = "periods of the reference depend on those before them, so that weeks are compared, and it has 2 complete"
    (warned,) = [text for text in found.warnings if text.startswith("the mean residual is not judged")]
    assert because in warned
    (line,) = debias.History.fleet(history.path, **GIVEN).lines
    (said,) = [text for text in line.not_judged if text.startswith("the mean residual")]
    assert said == warned.replace(" is not judged", "")
    rule = found.check({"must_not_be_biased": True}).results[0]
    assert f"the mean residual: {rule.reason}" == said


@pytest.mark.slow
def test_of_histories_in_which_nothing_changes_few_are_ever_found(tmp_path):
    """20 models of 10 features, 60 and 300 days of 100 rows with skewed errors, one look a day."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng([43, seed])

        def rows(n_rows, rng=rng):
            X = rng.normal(size=(n_rows, 10))
            return X, X[:, 0] + X[:, 1] * (X[:, 2] > 0) + 0.5 * X[:, 3] + rng.exponential(size=n_rows)

        model = XGBRegressor(n_estimators=40, max_depth=3, random_state=0, n_jobs=1).fit(*rows(2000))
        history = debias.History(model, tmp_path / f"{seed}.history", kept_rows=0)
        for number in range(360):
            history.add(*rows(100), at=number, rows="held-out")
        with Store.of(history.path, 10).reading() as content:
            records = Records(content, {})
            read = Summaries(records, records.latest())
            alarms = set()
            for number in range(60, 360):
                at = (number, number)
                finding = findings_at_any_look(read, at, None, 0.05)
                if finding.loss is not None:  # in the first days after the reference, no week may be complete
                    alarms |= {"loss"} if finding.loss.direction else set()
                    alarms |= {"feature"} if finding.loss.costs_more.size else set()
                alarms |= {"residual"} if finding.residual.changed else set()
        found.append(alarms)
    counts = {of: sum(of in alarms for alarms in found) for of in ("loss", "feature", "residual")}
    print(f"found falsely in 20 histories, each in 300 looks: {counts}")
    assert max(counts.values()) <= 3  # at a share of 5% each, 4 or more of 20 have a probability of 1.6%


@pytest.mark.thorough
def test_the_class_of_a_mean_is_named_at_any_look(tmp_path):
    """A file that is read without its model has numbers in the place of names."""
    rng = np.random.default_rng(3)

    def of_day(moved):
        X = rng.normal(size=(60, 2))
        y = np.array(["low", "middle", "top"])[np.digitize(X[:, 0] + rng.normal(size=60), [-0.5, 0.5])]
        return X, np.where((y == "low") & moved, "top", y)

    model = GradientBoostingClassifier(n_estimators=5, random_state=0)
    model.fit(*(np.concatenate(each) for each in zip(*(of_day(False) for _ in range(10)), strict=True)))
    history = debias.History(model, tmp_path / "classes.history")
    for number in range(40):
        history.add(*of_day(number >= 25), at=number, rows="held-out")
    named = {}
    for opened in (history, debias.History.open(history.path)):
        for looks in (1, "any"):
            changes = opened.changes(10, "first 20", looks=looks)
            (mean,) = (each for each in changes.means if each.of == "residual")
            assert mean.changed
            named.setdefault(opened is history, set()).add(mean.output)
            assert f"The mean residual of {mean.output} changed" in changes.summary()[0]
    assert named[True] <= {"class low", "class top"}
    assert named[False] <= {"output 0", "output 2"}


@pytest.mark.thorough
def test_a_class_that_the_reference_lacks_is_not_judged(tmp_path):
    """Its first row would be a change beyond any doubt, by the little that the predictions vary."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(600, 2))
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X, X[:, 0] + rng.normal(size=600) > 1)
    history = debias.History(model, tmp_path / "rare.history")
    for number in range(30):
        history.add(rng.normal(size=(40, 2)), np.arange(40) < (number == 27), at=number, rows="held-out")
    for looks in (1, 365, "any"):
        found = history.changes(7, "first 20", looks=looks)
        by_name = {mean.of: mean for mean in found.means}
        assert np.isnan([by_name["response"].p_value, by_name["residual"].p_value]).all()
        (told,) = (text for text in found.warnings if text.startswith("the mean residual is not judged: "))
        assert "the response is the same in all periods of the reference" in told
        (result,) = found.check({"must_not_be_biased": True}).results
        assert result.status == "not judged"
        assert result.reason.startswith("the response is the same")
        fleet = debias.History.fleet(history.path, recent=7, reference="first 20", looks=looks)
        assert "the mean residual: the response is the same in all periods" in str(fleet.lines[0].to_dict())
