"""Rows that wait for their responses: what is kept of them, how they are settled, and what they tell."""

import json
import sqlite3
import warnings
from dataclasses import replace
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier
from xgboost import XGBRegressor

import debias
from debias.cli import main
from debias.errors import HistoryError
from debias.results.gate_of_changes import check
from support.versions import needs

from .conftest import FIRST

N_BEFORE, N_WAITING = 10, 8


def at(number):
    return FIRST + timedelta(number)


def filled(model, path, days, labelled=N_BEFORE, waiting=N_WAITING, **settings):
    """A history of days with responses, and then of days without."""
    history = debias.History(model, path, **settings)
    for number in range(labelled + waiting):
        X, y = days(number)
        history.add(*((X, y) if number < labelled else (X,)), at=at(number), rows="held-out")
    return history


@pytest.mark.thorough
def test_rows_without_responses_are_in_nothing_that_is_about_responses(model, path, days):
    history = filled(model, path, days)
    alone = filled(model, path.with_name("alone.history"), days, waiting=0)
    pd.testing.assert_frame_equal(history.scores(), alone.scores())
    found, expected = (each.changes(recent=2, reference="first 8") for each in (history, alone))
    assert found.provisional is not None
    assert (found.newer_waiting, found.last_waiting) == (N_WAITING, datetime(2026, 1, N_BEFORE + N_WAITING))
    said = "8 newer periods wait for their responses and are not judged."
    assert said in found.summary()
    assert debias.Changes.from_json(found.to_json()).to_json() == found.to_json()
    assert replace(found, provisional=None, newer_waiting=0, last_waiting=None).to_json() == expected.to_json()
    assert list(history.waiting.index) == [pd.Timestamp(at(number)) for number in range(N_BEFORE, N_BEFORE + N_WAITING)]
    assert set(history.waiting["n_rows"]) == {60}
    assert "; 8 periods without responses" in repr(history)
    assert len(json.loads(history.to_json())["waiting"]) == N_WAITING


@pytest.mark.thorough
def test_the_same_rows_twice_change_nothing_and_others_are_refused(model, path, days):
    history = filled(model, path, days, waiting=1)
    X, y = days(N_BEFORE)
    assert history.add(X, at=at(N_BEFORE)) is False
    assert history.add(X[::-1], at=at(N_BEFORE)) is False
    with pytest.raises(HistoryError, match="has other rows already: 60 rows"):
        history.add(X[:30], at=at(N_BEFORE))
    assert history.add(X[:30], at=at(N_BEFORE), replace=True) is True
    assert history.waiting["n_rows"].tolist() == [30]
    assert history.add(X, y, at=at(N_BEFORE), rows="held-out") is True
    assert history.waiting.empty
    assert history.add(X, at=at(N_BEFORE)) is False  # its responses are known
    with pytest.raises(HistoryError, match="has 60 rows with responses already, and these are 10 others without"):
        history.add(X[:10], at=at(N_BEFORE))
    assert history.add(X, y, at=at(N_BEFORE), rows="held-out") is False


@pytest.mark.thorough
def test_the_age_of_the_gate_is_that_of_the_last_rows_that_came(model, path, days):
    changes = filled(model, path, days).changes(recent=2, reference="first 8")

    def of_age(**given):
        (result,) = check(replace(changes, **given), {"max_age_days": 3}, now).results
        return result

    now = datetime(2026, 1, N_BEFORE + N_WAITING + 3).astimezone()
    assert of_age().status == "passed"
    assert "2026-01-18 00:00:00 (it waits for its responses)" in of_age().reason
    assert of_age(last_waiting=None).status == "failed"


@pytest.mark.thorough
def test_a_newer_model_that_waits_is_warned_of(model, retrained, path, days):
    history = filled(model, path, days, waiting=1)
    debias.History(retrained, path, label="v2").add(days(20)[0], at=at(20))
    found = history.changes(recent=2, reference="first 8")
    assert "v2 has newer periods, up to 2026-01-21, which wait for their responses: not judged" in found.warnings
    history.add(days(21)[0], at=at(21))
    assert "v2 has" not in " ".join(history.changes(recent=2, reference="first 8").warnings)


@pytest.mark.thorough
def test_a_settled_day_is_as_if_it_had_never_waited(model, path, days, tmp_path):
    history = filled(model, path, days)
    for number in range(N_BEFORE, N_BEFORE + N_WAITING):
        assert history.add(*days(number), at=at(number), rows="held-out") is True
    expected = filled(model, tmp_path / "labelled.history", days, N_BEFORE + N_WAITING, 0)
    assert history.waiting.empty
    found = history.changes(recent=4, reference="first 10")
    assert found.provisional is None
    assert found.to_json() == expected.changes(recent=4, reference="first 10").to_json()


@pytest.mark.thorough
def test_responses_may_come_in_parts(model, path, days):
    history = filled(model, path, days, waiting=2)
    X, y = days(N_BEFORE)
    history.add(X[:20], y[:20], at=at(N_BEFORE), part="early", rows="held-out")
    assert history.waiting[["n_rows", "n_answered"]].to_numpy().tolist() == [[60, 20], [60, 0]]
    history.add(X[20:], y[20:], at=at(N_BEFORE), part="late", rows="held-out")
    assert history.waiting["n_rows"].tolist() == [60]
    assert history.add(X, at=at(N_BEFORE)) is False
    X, y = days(N_BEFORE + 1)
    other = debias.History(model, path.with_name("parts.history"))
    for name, rows in (("a", slice(0, 20)), ("b", slice(20, None))):
        other.add(X[rows], at=at(11), part=name)
    other.add(X[:20], y[:20], at=at(11), part="a", rows="held-out")
    assert other.waiting[["parts", "n_rows"]].to_numpy().tolist() == [[1, 40]]
    other.add(X[20:], y[20:], at=at(11), part="b", rows="held-out")
    assert other.waiting.empty


@pytest.mark.thorough
def test_late_rows_may_wait_beside_answered_ones(model, path, days):
    history = filled(model, path, days, waiting=0)
    late = days(50)
    assert history.add(late[0], at=at(3), part="late") is True
    assert history.waiting["n_answered"].tolist() == [0]  # the 60 rows with responses are others
    history.add(*days(51), at=at(3), part="other", rows="held-out")
    assert history.waiting["n_rows"].tolist() == [60]
    history.add(*late, at=at(3), part="late", rows="held-out")
    assert history.waiting.empty


def numbers(history):
    """What waits: parts, rows, and rows that have come with responses, of each period."""
    return history.waiting[["parts", "n_rows", "n_answered"]].to_numpy().tolist()


def test_rows_go_on_waiting_if_fewer_come_back(model, path, days):
    history, (X, y) = debias.History(model, path), days(0, 100)
    history.add(X, at=0)
    known = np.random.default_rng(0).permutation(100)[:60]
    assert history.add(X.iloc[known], y[known], at=0, rows="held-out") is True
    assert numbers(history) == [[1, 100, 60]]
    assert history.add(X, at=0) is False  # both jobs once more
    assert history.add(X.iloc[known], y[known], at=0, rows="held-out") is False
    assert numbers(history) == [[1, 100, 60]]
    with pytest.raises(HistoryError, match="has other rows already: 60 rows, added"):
        history.add(X, y, at=0, rows="held-out")
    others = np.setdiff1d(np.arange(100), known)
    history.add(X.iloc[others], y[others], at=0, part="late", rows="held-out")
    assert numbers(history) == []
    assert history.add(X, at=0) is False

    history.add(X, at=1)
    history.add(X[:60], y[:60], at=1, rows="held-out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same rows are at 0
        history.add(X, y, at=1, replace=True, rows="held-out")
    assert numbers(history) == []

    history.add(X[:60], y[:60], at=2, rows="held-out")  # the other order
    assert history.add(X, at=2) is True
    assert numbers(history) == [[1, 100, 60]]


def test_other_rows_settle_nothing(model, path, days):
    history, (X, y), other = debias.History(model, path), days(0, 100), days(1, 100)
    history.add(X, at=0)
    with pytest.raises(HistoryError, match="has other rows already: 100 rows without responses, .* and these are 100"):
        history.add(*other, at=0, rows="held-out")
    mixed = pd.concat([X[:80], other[0][:20]]), np.append(y[:80], other[1][:20])
    with pytest.raises(HistoryError, match="other rows already"):
        history.add(*mixed, at=0, rows="held-out")
    assert len(history.periods) == 0
    assert history.add(*other, at=0, part="second", rows="held-out") is True
    assert numbers(history) == [[1, 100, 0]]
    history.add(days(3, 100)[0], at=1)
    assert history.add(*days(2, 100), at=1, replace=True, rows="held-out") is True
    assert history.waiting.index.tolist() == [0]


def test_the_same_rows_twice_do_not_answer_for_others(model, path, days):
    history, (X, y) = debias.History(model, path), days(0, 100)
    history.add(X, at=0)
    history.add(X[:50], y[:50], at=0, part="p", rows="held-out")
    with pytest.warns(debias.DebiasWarning, match="has the same rows"):
        history.add(X[:50], y[:50], at=0, part="q", rows="held-out")
    assert numbers(history) == [[1, 100, 50]]
    history.add(X[50:], y[50:], at=0, part="r", rows="held-out")
    assert numbers(history) == []


def test_rows_without_a_part_answer_for_parts_with_names(model, path, days):
    (X, y), (Z, z) = days(0, 100), days(1, 100)
    all_rows = pd.concat([X, Z]), np.append(y, z)
    history = debias.History(model, path)
    for at in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same rows at each time
            for part, rows in (("p", X), ("q", Z)):
                history.add(rows, at=at, part=part)
    history.add(X[:10], y[:10], at=0, rows="held-out")
    assert numbers(history)[0] == [2, 200, 10]
    with pytest.raises(HistoryError, match=r"has 2 parts already \('p', 'q'\): 200 rows without responses"):
        history.add(*days(2, 100), at=1, rows="held-out")
    history.add(X, y, at=1, rows="held-out")  # all rows of p
    assert numbers(history)[1] == [1, 100, 0]
    assert history.add(X, at=1, part="p") is False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history.add(*all_rows, at=2, rows="held-out")
    assert history.waiting.index.tolist() == [0, 1]


def test_rows_wait_beside_parts_with_responses(model, path, days):
    history, (X, y), (Z, _) = debias.History(model, path), days(0, 100), days(1, 100)
    history.add(X, y, at=0, part="p", rows="held-out")
    assert history.add(Z[:80], at=0) is True
    assert numbers(history) == [[1, 80, 0]]
    assert history.add(X, at=0, replace=True) is False  # they have responses


def test_with_weights_numbers_of_rows_decide_and_a_warning_says_so(model, path, days):
    history, (X, y), (Z, z) = debias.History(model, path), days(0, 100), days(1, 100)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 100)
    told = "period 0.*: whether the rows with responses are those without was told by their number"
    history.add(X, at=0)
    with pytest.raises(HistoryError, match="other rows already"):  # which are in other leaves
        history.add(Z, z, at=0, sample_weight=weight, rows="held-out")
    with pytest.warns(debias.DebiasWarning, match=told):
        assert history.add(X, y, at=0, sample_weight=weight, rows="held-out") is True
    assert numbers(history) == []
    with pytest.warns(debias.DebiasWarning, match=told):
        assert history.add(X, at=0) is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the same weights tell
        assert history.add(X, at=0, sample_weight=weight) is False
        history.add(X, at=1, sample_weight=weight)
        history.add(X[:60], y[:60], at=1, sample_weight=weight[:60], part="early", rows="held-out")
        assert numbers(history) == [[1, 100, 60]]
        history.add(X[60:], y[60:], at=1, sample_weight=weight[60:], part="late", rows="held-out")
    assert numbers(history) == []


def test_the_same_rows_waiting_on_two_days_are_warned_of(model, path, days):
    history, (X, _) = debias.History(model, path), days(0)
    history.add(X, at=0)
    with pytest.warns(debias.DebiasWarning, match="period 1 has the same rows as period 0"):
        history.add(X, at=1)
    other = debias.History(model, path.with_name("other.history"))
    other.add(X, at=2)
    with pytest.warns(debias.DebiasWarning, match="period 2 has the same rows as period 0"):
        history.merge(other.path)


def test_merge_keeps_and_refuses_what_add_does(model, path, days):
    (X, y), (Z, z) = days(0, 100), days(1, 100)
    history, other = (debias.History(model, path.with_name(f"{name}.history")) for name in ("one", "other"))
    history.add(X, y, at=0, rows="held-out")
    other.add(Z, at=0, part="second")
    assert history.merge(other.path) == 1
    assert numbers(history) == [[1, 100, 0]]
    other.remove(at=0)
    other.add(Z, at=0)
    for replaces in (False, True):
        with pytest.raises(
            HistoryError, match="has 100 rows with responses already, and .*other.history has 100 others"
        ):
            history.merge(other.path, replace=replaces)
    history.remove(at=0)
    history.add(X, at=0)
    other.add(Z[:60], z[:60], at=0, rows="held-out")
    with pytest.raises(HistoryError, match="has other rows already: 100 rows without responses"):
        history.merge(other.path)
    copy = debias.History(model, path.with_name("copy.history"))
    assert copy.merge(other.path) == 2
    assert numbers(copy) == numbers(other) == [[1, 100, 60]]
    assert copy.merge(other.path) == 0
    assert history.merge(other.path, replace=True) == 2
    assert numbers(history) == [[1, 100, 60]]
    weighted = debias.History(model, path.with_name("weighted.history"))
    weighted.add(Z, z, at=0, sample_weight=np.linspace(0.5, 2.0, 100), rows="held-out")
    with pytest.warns(debias.DebiasWarning, match="told by their number"):
        assert history.merge(weighted.path, replace=True) == 1
    assert numbers(history) == []


def test_a_whole_period_and_its_named_parts_wait_once(model, path, days):
    """Whichever of the two was there before, in one history or in another one that is merged."""
    (X, _), (Z, _) = days(0, 100), days(1, 100)
    whole, parts, others = (debias.History(model, path.with_name(f"{name}.history")) for name in ("a", "b", "c"))
    whole.add(X, at=0)
    for name, rows in (("one", X[:30]), ("two", X[30:])):
        parts.add(rows, at=0, part=name)
        others.add(rows + 0.5 * (name == "two"), at=0, part=name)
    assert parts.merge(whole.path) == 0
    assert whole.merge(parts.path) == 2  # its rows have the names of parts from now on
    assert numbers(whole) == [[2, 100, 0]]
    assert whole.merge(parts.path) == 0
    parts.add(X[::-1], at=0)
    assert numbers(parts) == [[2, 100, 0]]
    again = debias.History(model, path.with_name("d.history"))
    again.add(X, at=0)
    assert again.merge(others.path) == 2  # other rows of the same day are added to it
    assert numbers(again) == [[3, 200, 0]]
    with pytest.raises(HistoryError, match="has 2 parts already"):
        parts.add(Z, at=0)


@pytest.mark.parametrize("has_responses", [True, False])
def test_named_parts_that_are_the_whole_period_do_not_wait_too(model, path, days, has_responses):
    (X, y), (Z, _) = days(0, 100), days(1, 100)
    history = debias.History(model, path)
    history.add(X, y if has_responses else None, at=0, rows="held-out" if has_responses else None)
    before = numbers(history)
    history.add(X[:30], at=0, part="one")
    assert sum(n_rows for _, n_rows, _ in numbers(history)) == sum(n_rows for _, n_rows, _ in before) + 30
    history.add(X[30:], at=0, part="two")
    assert sum(n_rows for _, n_rows, _ in numbers(history)) == (0 if has_responses else 100)
    history.add(Z[:30], at=0, part="three")
    assert sum(n_rows for _, n_rows, _ in numbers(history)) == (30 if has_responses else 130)


def test_a_part_that_may_repeat_rows_of_the_whole_is_warned_of(model, path, days):
    history, (X, y) = debias.History(model, path), days(0, 100)
    history.add(X, y, at=0, rows="held-out")
    with pytest.warns(debias.DebiasWarning, match="part 'one' may have rows that the period has without a part"):
        history.add(X[:30], y[:30], at=0, part="one", rows="held-out")


@pytest.mark.thorough
def test_a_period_that_waits_in_part_is_one_period(model, path, days):
    history = filled(model, path, days, waiting=2)
    history.add(*(rows[:20] for rows in days(11)), at=at(11), part="early", rows="held-out")
    found = [history.changes(recent=number, reference="first 8").provisional.waiting for number in (1, 2)]
    assert [(window.first, window.n_periods) for window in found] == [(str(at(11)), 1), (str(at(10)), 2)]


@pytest.mark.thorough
def test_removed_and_merged_rows(model, path, days, tmp_path):
    history = filled(model, path, days, waiting=2)
    assert history.remove(at=at(N_BEFORE)) == 1
    assert history.waiting.index.tolist() == [pd.Timestamp(at(N_BEFORE + 1))]
    other = debias.History(model, tmp_path / "other.history")
    for number in (N_BEFORE, N_BEFORE + 1):
        other.add(days(number)[0], at=at(number))
    assert history.merge(other.path) == 1
    assert len(history.waiting) == 2
    history.add(*days(N_BEFORE), at=at(N_BEFORE), rows="held-out")
    assert history.merge(other.path) == 0  # what is settled here stays settled
    assert len(history.waiting) == 1


def test_labels_stay_in_their_order(model, path, days):
    history = debias.History(model, path)
    for number, label in enumerate(["release b", "release a", "release c"]):
        rows = days(number)
        history.add(*(rows if number != 1 else rows[:1]), at=label, rows="held-out")
    history.add(*days(1), at="release a", rows="held-out")
    assert history.scores().index.tolist() == ["release b", "release a", "release c"]
    with pytest.raises(HistoryError, match="is of another kind"):
        history.add(days(4)[0], at="2026-01-01")
    history.add(days(5)[0], at="release d")
    window = ("release c", "release d")
    with pytest.raises(HistoryError, match="there is no period with this label"):  # with responses
        history.changes(recent=window, reference=2)
    assert history.changes(recent=2, reference="first 2").provisional.waiting.first == "release d"


@pytest.mark.thorough
def test_a_file_of_an_earlier_format_is_read_and_gets_the_table(model, path, days):
    history = filled(model, path, days, waiting=0)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE waiting")
        database.execute("PRAGMA user_version = 2")
    database.close()
    assert history.waiting.empty
    assert len(history.scores()) == N_BEFORE
    assert history.add(days(N_BEFORE)[0], at=at(N_BEFORE)) is True
    assert len(history.waiting) == 1


def test_what_cannot_wait_is_refused(path, days, model):
    history = debias.History(model, path)
    with pytest.raises(debias.RowsError, match="X has no rows"):
        history.add(days(0)[0][:0], at=at(0))
    with pytest.raises(HistoryError, match="there are no rows with a weight above 0"):
        history.add(days(0)[0], at=at(0), sample_weight=np.zeros(60))
    with pytest.raises(debias.DebiasError):
        history.add([days(0)[0]], at=at(0))
    custom = XGBRegressor(n_estimators=3, objective=lambda y, p: (p - y, np.ones_like(y))).fit(*days(0))
    with pytest.raises(HistoryError, match="rows without responses cannot be kept: this .* has no parts of the loss"):
        debias.History(custom, path.with_name("custom.history")).add(days(1)[0], at=at(1))
    assert history.add(days(1)[0], at=at(1)) is True
    what_to_do = "Add the rows of a period again with their responses, with the same at="
    with pytest.raises(HistoryError, match=f"there is no period with responses of 'model 1' in .*{what_to_do}"):
        history.changes()
    for draw in (history.to_html, history.plot):
        with pytest.raises(HistoryError, match=f"has responses, and 1 period waits for them. {what_to_do}"):
            draw()
    assert debias.History.open(path).remove(at=at(1)) == 1


OTHER_KINDS = ("numbers", "two classes", "three classes", "poisson")


@pytest.mark.parametrize("kind", ["forest", *(pytest.param(each, marks=pytest.mark.thorough) for each in OTHER_KINDS)])
def test_without_responses_the_same_is_told_as_with_them(kind, path, days, tmp_path):
    """The shift at the splits and the parts by the rows need no responses, so they are those of labelled rows."""

    def response(y):
        if kind == "numbers":
            return y
        return np.floor(np.exp(y / 2)) if kind == "poisson" else np.digitize(y, [0, 1][: 2 if "three" in kind else 1])

    model = {
        "forest": RandomForestClassifier(10, max_depth=5, random_state=0),
        "numbers": GradientBoostingRegressor(n_estimators=15, random_state=0),
        "poisson": XGBRegressor(n_estimators=15, objective="count:poisson", n_jobs=1),
    }.get(kind, GradientBoostingClassifier(n_estimators=10, random_state=0))
    X, y = days(1000, 500)
    model.fit(X, response(y))
    waiting, labelled = (debias.History(model, tmp_path / name) for name in ("waiting.history", "labelled.history"))
    for number in range(N_BEFORE + N_WAITING):
        X, y = days(number, moved=0.0 if number < N_BEFORE else 0.7)
        labelled.add(X, response(y), at=at(number), rows="held-out")
        waiting.add(X, *([response(y)] if number < N_BEFORE else []), at=at(number), rows="held-out")
    found = waiting.changes(recent=8, reference="first 10").provisional
    expected = labelled.changes(recent=8, reference="first 10")
    for name in ("shift", "shift_p_adjusted", "shifted", "left_before", "left_after"):
        np.testing.assert_allclose(found.statistics[name], expected.statistics[name], rtol=1e-9, atol=1e-12)
    assert found.splits == expected.splits
    (prediction,) = (mean for mean in expected.means if mean.of == "prediction")
    assert found.prediction == replace(
        prediction,
        **{
            name: pytest.approx(getattr(prediction, name), rel=1e-6, abs=1e-9)
            for name in ("before", "after", "p_value", "most_mean")
        },
    )
    cost = found.statistics["expected_before"] - found.statistics["expected_after"]
    np.testing.assert_allclose(cost, expected.loss.statistics["rows_cost"], rtol=1e-7, atol=1e-9)
    error = found.statistics["expected_error"]
    np.testing.assert_allclose(error, expected.loss.statistics["rows_error"], rtol=1e-7, atol=1e-9)
    assert found.waiting.n_rows == expected.recent.n_rows


FAULTS = {
    "permuted": lambda X, rng: X.assign(a=rng.permutation(X["a"])),
    "stuck": lambda X, rng: X.assign(a=0.3),
    "cents": lambda X, rng: X.assign(a=100 * X["a"]),
    "none": lambda X, rng: X,
    "drift": lambda X, rng: X,
}


def neighbours(rng, n, moved=0.0):
    """Rows in which a has two neighbours, twin and niece, and d has a neighbour of its own."""
    Z = rng.normal(size=(n, 7))
    a, d = Z[:, 0] + moved, Z[:, 3] + moved / 2
    X = pd.DataFrame({"a": a, "twin": 0.8 * a + 0.6 * Z[:, 1], "niece": 0.7 * a + 0.7 * Z[:, 2], "d": d})
    X = X.assign(e=0.8 * d + 0.6 * Z[:, 4], f=Z[:, 5])
    return X, X["a"] + 0.5 * X["twin"] + 0.5 * X["niece"] + X["d"] * (X["e"] > 0) + 0.5 * X["f"] + Z[:, 6]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """Histories of 30 healthy days of a model of numbers and of one of classes, and these models."""
    made = {}
    for name in ("numbers", "classes"):
        rng = np.random.default_rng(5)
        kind = GradientBoostingClassifier if name == "classes" else GradientBoostingRegressor
        X, y = neighbours(rng, 1500)
        model = kind(n_estimators=40, max_depth=4, random_state=0).fit(X, y > 0 if name == "classes" else y)
        history = debias.History(model, tmp_path_factory.mktemp(name) / "healthy.history")
        for number in range(30):
            X, y = neighbours(rng, 100)
            history.add(X, y > 0 if name == "classes" else y, at=date(2026, 1, 1) + timedelta(number), rows="held-out")
        made[name] = model, history.path
    return made


def told(healthy, name, fault, seed, tmp_path, moved=0.7):
    model, path = healthy[name]
    history = debias.History(model, tmp_path / f"{name}-{fault}-{seed}-{moved}.history")
    history.merge(path)
    rng = np.random.default_rng([seed, 3])
    for number in range(8):
        X, _ = neighbours(rng, 100, moved if fault == "drift" else 0.0)
        history.add(FAULTS[fault](X, rng), at=date(2026, 2, 1) + timedelta(number))
    return history.changes(recent=8, reference="first 30")


@pytest.mark.parametrize("name", ["numbers", "classes"])
@pytest.mark.parametrize("fault", ["permuted", "stuck", "cents"])
@pytest.mark.thorough
def test_a_broken_column_with_neighbours_is_named(healthy, name, fault, tmp_path):
    for seed in range(3):
        provisional = told(healthy, name, fault, seed, tmp_path).provisional
        assert provisional.broken[0] == "a"
        assert len(provisional.broken) == 1 or fault == "permuted"  # of which the rows do not always tell


@pytest.mark.parametrize("name", ["numbers", "classes"])
@pytest.mark.slow
def test_no_column_is_named_under_a_drift_or_if_nothing_happened(healthy, name, tmp_path):
    for seed in range(4):
        assert told(healthy, name, "drift", seed, tmp_path).provisional.broken == ()
        assert told(healthy, name, "drift", seed, tmp_path, moved=0.3).provisional.broken == ()
        assert told(healthy, name, "none", seed, tmp_path).provisional.broken == ()


@pytest.mark.thorough
def test_a_drift_shifts_rows_and_the_page_has_both_parts(healthy, tmp_path):
    changes = told(healthy, "numbers", "drift", 0, tmp_path)
    assert changes.provisional.statistics["shifted"][:3].all()
    said = changes.summary()
    assert "Nothing was compared" not in " ".join(said)
    first = next(k for k, text in enumerate(said) if text.startswith("Before the responses, nothing tells"))
    assert all(text.startswith(("Provisional: ", "Whether the values")) for text in said[first + 1 :])
    page = changes.to_html()
    assert "Before the responses" in page
    assert "What changed</h2>" in page
    assert debias.Changes.from_json(changes.to_json()).to_json() == changes.to_json()
    warned = changes.check({"min_rows": 1}).warnings
    assert "8 periods without responses: what their rows tell is provisional, and no rule judges it" in warned


@pytest.mark.thorough
def test_without_the_model_or_kept_rows_no_column_is_named(healthy, tmp_path):
    model, path = healthy["numbers"]
    told(healthy, "numbers", "permuted", 0, tmp_path)
    opened = debias.History.open(tmp_path / "numbers-permuted-0-0.7.history").changes(recent=8, reference="first 30")
    assert opened.provisional.no_broken_because == "this history was opened without the model of these periods"
    history = debias.History(model, tmp_path / "without.history", kept_rows=0)
    history.merge(path)
    rng = np.random.default_rng(0)
    for number in range(8):
        X, _ = neighbours(rng, 100)
        history.add(FAULTS["stuck"](X, rng), at=date(2026, 2, 1) + timedelta(number))
    found = history.changes(recent=8, reference="first 30").provisional
    assert found.no_broken_because == "some periods have no rows that were kept"


@needs("xgboost", "3.1", "it keeps no labels of categories")
def test_the_shell_adds_rows_without_a_target(tmp_path, monkeypatch):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc")).assign(town=rng.choice(["01", "NA"], 300))
    y = X["a"] + (X["town"] == "01")
    X["town"] = pd.Categorical(X["town"])
    model = XGBRegressor(n_estimators=5, enable_categorical=True, n_jobs=1).fit(X[:200], y[:200])
    model.save_model(tmp_path / "model.ubj")
    X[200:].to_csv(tmp_path / "rows.csv", index=False)
    X[200:].assign(y=y[200:]).to_csv(tmp_path / "answered.csv", index=False)

    def add(table, *more):
        given = ["monitor", "add", "h.history", "model.ubj", table, "--at", "2026-01-01", "--rows", "held-out", *more]
        done = CliRunner().invoke(main, given)
        assert done.exit_code == 0, done.output
        return done.stdout.strip()

    monkeypatch.chdir(tmp_path)
    assert add("rows.csv") == "2026-01-01: added, without responses"
    assert add("rows.csv") == "2026-01-01: these rows were there before, so nothing changed"
    assert debias.History.open("h.history").waiting["n_rows"].tolist() == [100]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert add("answered.csv", "--target", "y") == "2026-01-01: added"
    assert debias.History.open("h.history").waiting.empty


def test_an_error_while_a_day_is_settled_leaves_it_as_it_was(model, path, days, monkeypatch):
    history = filled(model, path, days, labelled=2, waiting=1)

    def fails(*_):
        raise RuntimeError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr("debias.monitor.records.Records._score", fails)  # after what waited was removed
        with pytest.raises(RuntimeError, match="the disk is gone"):
            history.add(*days(2), at=at(2), rows="held-out")
    assert len(history.waiting) == 1
    assert len(history.scores()) == 2
    assert history.add(*days(2), at=at(2), rows="held-out") is True
    assert (len(history.waiting), len(history.scores())) == (0, 3)
