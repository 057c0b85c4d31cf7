"""``History.fleet``: what few numbers a period tell is what full comparisons tell, and one bad file hides no other."""

import shutil
import sqlite3
import warnings
from contextlib import closing
from dataclasses import asdict
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import debias
from debias.cli import main
from debias.errors import CompositionError, HistoryError
from debias.monitor.fleet import files_of
from debias.monitor.records import FORMAT, SCORES, SUMMARY, Records
from debias.monitor.store import Store
from debias.monitor.times import Moment, n_missing
from debias.results.fleet import FEW, Findings
from debias.results.vocabulary import FleetVerdict
from debias.rows.sealed import seal, unseal
from support.pages import is_safe

FIRST = date(2026, 1, 1)
N_DAYS = 50


def history_of(model, days, path, fault=None, label=None):
    """Add days; from day 40 on the fault is in them."""
    history = debias.History(model, path, label=label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in range(N_DAYS):
            X, y = days(number, 80)
            if fault is not None and number >= 40:
                X, y = fault(X, y, np.random.default_rng([1, number]))
            history.add(X, y, at=FIRST + timedelta(number))
    return path


def permuted(X, y, rng):
    return X.assign(b=rng.permutation(X["b"].to_numpy())), y


def moved(X, y, rng):
    return X, y + 1.0


def repeated(X, y, rng):
    return pd.concat([X, X[:40]], ignore_index=True), np.concatenate([y, y[:40]])


@pytest.fixture(scope="module")
def fleet(model, days, tmp_path_factory):
    """A folder of histories: nothing changed, a permuted column, a moved response, repeated rows, and bad files."""
    folder = tmp_path_factory.mktemp("fleet")
    for name, fault in (("same", None), ("permuted", permuted), ("moved", moved), ("repeated", repeated)):
        history_of(model, days, folder / f"{name}.history", fault)
    (folder / "foreign.history").write_text("this is no history")
    shutil.copy(folder / "same.history", folder / "damaged.history")
    with closing(sqlite3.connect(folder / "damaged.history")) as database, database:
        database.execute("UPDATE periods SET scores = x'00' WHERE id = 45")
    (folder / "empty.history").touch()
    (folder / "same.history-journal").write_text("not a history")
    return folder


SETTINGS = {"recent": "10d", "reference": "first 40d"}


def lines(found):
    return {line.history.rpartition("/")[2].removesuffix(".history"): line for line in found.lines}


@pytest.mark.thorough
def test_models_that_need_a_look_come_first_and_bad_files_are_lines(fleet):
    found = debias.History.fleet(fleet / "*.history", **SETTINGS)
    by_name = lines(found)
    look = {"permuted", "moved", "repeated"}
    assert {name for name, line in by_name.items() if line.verdict is FleetVerdict.LOOK} == look
    unread = {"damaged", "foreign", "empty"}
    assert {name for name, line in by_name.items() if line.verdict is FleetVerdict.NOT_JUDGED} == unread
    assert by_name["same"].verdict is FleetVerdict.NOTHING
    assert set(list(by_name)[:3]) == look
    assert list(by_name)[-1] == "same"
    assert found.exit_code == 1
    assert by_name["permuted"].worst_feature == "b"
    assert by_name["permuted"].trend == "rose"
    assert by_name["repeated"].reasons == ("repeated rows: 33.3% of the recent rows",)
    assert "the mean residual moved" in by_name["moved"].why
    assert "is damaged" in by_name["damaged"].why
    assert "is not a history" in by_name["foreign"].why
    assert "nothing was added" in by_name["empty"].why
    assert {line.judged for line in found.lines} == {FEW}


def test_the_exit_code_tells_what_was_found(fleet):
    of = {
        ("same",): 0,
        ("same", "foreign"): 4,
        ("same", "foreign", "moved"): 1,
    }
    for names, code in of.items():
        found = debias.History.fleet([fleet / f"{name}.history" for name in names], **SETTINGS)
        assert found.exit_code == code


@pytest.mark.parametrize("name", ["same", "permuted", "moved", "repeated"])
def test_few_numbers_tell_what_the_sums_at_leaves_tell(fleet, name):
    """The oracle is the full comparison of the same windows at the same level."""
    (line,) = debias.History.fleet(fleet / f"{name}.history", **SETTINGS).lines
    changes = debias.History.open(fleet / f"{name}.history").changes(**SETTINGS)
    full = Findings.of(changes)
    assert (line.reference, line.recent) == (changes.reference, changes.recent)
    loss = changes.loss.loss
    assert [line.loss_before, line.loss_recent] == pytest.approx([loss.before, loss.after], rel=1e-12)
    assert [line.loss_change, line.loss_error] == pytest.approx([loss.change, loss.error], rel=1e-9)
    frame = changes.loss.to_frame()
    for each in line.features:
        row = frame.loc[each.feature]
        assert [each.saved_before, each.saved_recent, each.cost, each.error] == pytest.approx(
            [row["saved_before"], row["saved_after"], row["cost"], row["error"]], rel=1e-9, abs=1e-15, nan_ok=True
        )
        assert (
            each.costs_more == {"costs more": True, "no increase detected": False, "not tested": None}[row["verdict"]]
        )
    of_rows = [text for text in full.reasons() if not text.startswith(("faded", "the response follows", "rows moved"))]
    assert [text for text in of_rows if not text.startswith("perhaps stuck")] == list(line.reasons)


def test_the_error_rate_is_that_of_all_models(fleet):
    """Of two models with the same rows, each has half of the error rate, as if two looks were planned."""
    paths = [fleet / "moved.history", fleet / "same.history"]
    two = lines(debias.History.fleet(paths, **SETTINGS, looks=3))["moved"]
    (alone,) = debias.History.fleet(paths[0], **SETTINGS, looks=6).lines
    assert str(asdict(two)) == str(asdict(alone))  # not equal from Python 3.13 on, where a cost is NaN
    assert two.reasons


def test_by_default_the_reference_is_that_of_the_full_comparison_if_nothing_but_the_loss_differs(fleet):
    for name in ("same", "permuted"):
        (line,) = debias.History.fleet(fleet / f"{name}.history", "10d").lines
        assert line.reference == debias.History.open(fleet / f"{name}.history").changes("10d").reference


def test_a_history_of_an_earlier_version_is_read_from_its_sums(fleet, tmp_path):
    path = shutil.copy(fleet / "permuted.history", tmp_path / "old.history")
    (new,) = debias.History.fleet(path, **SETTINGS).lines
    with Store(path, 5.0).writing() as content:
        records = Records(content, {})
        (series,) = content.series()
        for period in content.periods(series.id):
            facts, arrays = unseal(content.blob("periods", "scores", period.id), SCORES, FORMAT)
            old = {name: facts[name] for name in ("series", "at")}
            arrays.pop(SUMMARY)
            content.update("periods", period.id, scores=seal(SCORES, FORMAT, old, arrays))
        assert records.scores_and_errors(series, content.periods()[0])[0].shape == (3,)
    (line,) = debias.History.fleet(path, **SETTINGS).lines
    assert line.reasons == new.reasons
    assert [line.loss_change, line.loss_error] == pytest.approx([new.loss_change, new.loss_error], rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        lambda numbers: numbers[:-1],
        lambda numbers: np.where(np.arange(numbers.size) == 5, np.nan, numbers),
        lambda numbers: np.where(np.arange(numbers.size) == 1, 0.0, numbers),
        lambda numbers: np.where(np.arange(numbers.size) == 3, 1e9, numbers),
        lambda numbers: numbers.reshape(1, -1),
        lambda numbers: numbers[:3],
    ],
)
def test_a_forged_summary_is_damage(fleet, tmp_path, change):
    path = shutil.copy(fleet / "same.history", tmp_path / "forged.history")
    with Store(path, 5.0).writing() as content:
        facts, arrays = unseal(content.blob("periods", "scores", 45), SCORES, FORMAT)
        arrays[SUMMARY] = change(arrays[SUMMARY])
        content.update("periods", 45, scores=seal(SCORES, FORMAT, facts, arrays))
    (line,) = debias.History.fleet(path, **SETTINGS).lines
    assert line.verdict is FleetVerdict.NOT_JUDGED
    assert "is damaged: the summary of a period" in line.why


def test_parts_add_up_in_the_summary(model, days, path):
    whole, parted = debias.History(model, path), debias.History(model, path.with_name("parted.history"))
    for number in range(3):
        X, y = days(number, 80)
        whole.add(X, y, at=number)
        for part, rows in (("one", slice(30)), ("two", slice(30, 80))):
            parted.add(X[rows], y[rows], at=number, part=part)
    parted.add(*days(7, 20), at=0, part="three")
    parted.remove(at=0, part="three")
    one, other = (debias.History.fleet(each.path, 1, 2).lines[0] for each in (whole, parted))
    assert one.loss_before == pytest.approx(other.loss_before, rel=1e-9)
    assert one.reference == other.reference


def test_nothing_to_compare_is_not_judged(model, days, path):
    debias.History(model, path).add(*days(0, 80), at=0)
    (line,) = debias.History.fleet(path).lines
    assert line.verdict is FleetVerdict.NOT_JUDGED
    assert line.not_judged == (
        "recent='30d' is a length of time: it needs periods with times, and those of this history are numbers: pass a "
        "number of periods, such as recent=7",
    )
    (line,) = debias.History.fleet(path, 5).lines
    assert line.not_judged == ("this model has 1 period, and a comparison needs two",)
    assert (line.series, line.last_period, line.missing) == ("model 1", "0", None)


def test_a_last_period_that_is_too_old_needs_a_look(fleet):
    paths = [fleet / "same.history"]
    (line,) = debias.History.fleet(paths, **SETTINGS, max_age_days=1).lines
    assert line.verdict is FleetVerdict.LOOK
    assert line.reasons[0].startswith("the last period is 2026-02-19")
    (line,) = debias.History.fleet(paths, **SETTINGS, max_age_days=1e5).lines
    assert line.verdict is FleetVerdict.NOTHING


@pytest.mark.thorough
def test_the_model_is_the_one_with_the_latest_period(model, retrained, days, path):
    history_of(model, days, path, label="old")
    new = debias.History(retrained, path, label="new")
    for number in range(60, 62):
        new.add(*days(number, 80), at=FIRST + timedelta(number))
    (line,) = debias.History.fleet(path, "1d").lines
    assert (line.series, line.n_periods) == ("new", 2)
    assert line.verdict is FleetVerdict.NOT_JUDGED  # two days do not tell what is chance


def days_without_responses(model, days, path, numbers, label=None):
    history = debias.History(model, path, label=label)
    for number in numbers:
        history.add(days(number, 80)[0], at=FIRST + timedelta(number))


@pytest.fixture
def settled(fleet, tmp_path):
    """A copy of the history in which nothing changed."""
    return shutil.copy(fleet / "same.history", tmp_path / "settled.history")


@pytest.mark.thorough
def test_newer_days_that_wait_are_counted_and_the_verdict_is_that_of_settled_days(model, days, settled):
    (before,) = debias.History.fleet(settled, **SETTINGS).lines
    days_without_responses(model, days, settled, range(N_DAYS, N_DAYS + 10))
    (line,) = debias.History.fleet(settled, **SETTINGS).lines
    assert (line.waiting, line.newer_waiting, line.n_periods, line.missing) == (10, 10, N_DAYS, 0)
    assert line.last_period == str(FIRST + timedelta(N_DAYS + 9))
    assert (line.verdict, line.recent, line.loss_recent) == (before.verdict, before.recent, before.loss_recent)
    assert line.why == "10 newer periods wait for their responses and are not judged"
    history = debias.History(model, settled)
    for number in range(N_DAYS, N_DAYS + 9):
        history.add(*days(number, 80), at=FIRST + timedelta(number), rows="held-out")
    (line,) = debias.History.fleet(settled, **SETTINGS).lines
    assert (line.waiting, line.newer_waiting, line.n_periods) == (1, 1, N_DAYS + 9)


def test_days_that_wait_are_not_missing(model, days, settled):
    history = debias.History(model, settled)
    for number in (45, 46, 47):
        history.remove(at=FIRST + timedelta(number))
    (line,) = debias.History.fleet(settled, **SETTINGS).lines
    assert (line.missing, line.waiting) == (3, 0)
    days_without_responses(model, days, settled, (45, 47, N_DAYS, N_DAYS + 2))
    (line,) = debias.History.fleet(settled, **SETTINGS).lines
    assert (line.missing, line.waiting, line.newer_waiting) == (2, 4, 2)  # days 46 and 51


@pytest.mark.thorough
def test_the_age_is_that_of_the_last_rows_that_came(model, days, path):
    today = date.today()
    history = debias.History(model, path)
    for number in range(30):
        rows = days(number, 80)
        history.add(*(rows if number < 10 else rows[:1]), at=today - timedelta(29 - number), rows="held-out")
    (line,) = debias.History.fleet(path, 3, 7, max_age_days=3).lines
    assert line.reasons == ()
    for number in range(26, 30):
        history.remove(at=today - timedelta(29 - number))
    (line,) = debias.History.fleet(path, 3, 7, max_age_days=3).lines
    assert line.verdict is FleetVerdict.LOOK
    assert line.reasons[0].startswith(
        f"the last period is {today - timedelta(4)} 00:00:00 (it waits for its responses)"
    )


def test_a_window_that_leaves_no_reference_says_what_to_pass(settled):
    (line,) = debias.History.fleet(settled, recent="60d").lines
    assert line.verdict is FleetVerdict.NOT_JUDGED
    assert line.why.startswith("not judged: no period is in the reference window, because the recent one begins with ")
    assert line.why.endswith(f"Pass a shorter recent window, such as recent={N_DAYS // 4}")
    told = CliRunner().invoke(main, ["monitor", "fleet", str(settled), "--recent", "60d", "--format", "json"]).stdout
    assert f"such as --recent {N_DAYS // 4}" in told


def test_a_new_model_that_only_waits_has_a_line_that_is_not_judged(retrained, days, settled):
    days_without_responses(retrained, days, settled, range(N_DAYS, N_DAYS + 6), label="v2")
    found = debias.History.fleet(settled, **SETTINGS)
    assert found.exit_code == 4
    new, old = found.lines
    assert (new.series, new.verdict, new.waiting, new.n_periods) == ("v2", FleetVerdict.NOT_JUDGED, 6, 0)
    assert new.why == "not judged: v2 has no period with responses: 6 periods wait for them"
    assert (old.series, old.verdict, old.waiting, old.n_periods) == ("model 1", FleetVerdict.NOTHING, 0, N_DAYS)
    late = debias.History.fleet(settled, **SETTINGS, max_age_days=0)
    assert [line.series for line in late.lines if line.reasons] == ["v2"]  # the old one was replaced
    gauges = found.to_prometheus().splitlines()
    assert f'debias_periods_waiting{{history="{settled}",series="v2"}} 6.0' in gauges
    debias.History(retrained, settled).add(*days(N_DAYS, 80), at=FIRST + timedelta(N_DAYS), rows="held-out")
    (line,) = debias.History.fleet(settled, **SETTINGS).lines
    assert (line.series, line.waiting, line.n_periods) == ("v2", 5, 1)


def test_an_older_model_that_waits_has_no_line(model, retrained, days, settled):
    debias.History(retrained, settled, label="v2").add(*days(N_DAYS, 80), at=FIRST + timedelta(N_DAYS))
    days_without_responses(model, days, settled, (N_DAYS,))
    (line,) = debias.History.fleet(settled, **SETTINGS).lines
    assert (line.series, line.waiting) == ("v2", 0)
    days_without_responses(model, days, settled, (N_DAYS + 1,))  # it has the latest period, and others to judge
    (line,) = debias.History.fleet(settled, **SETTINGS).lines
    assert (line.series, line.verdict, line.newer_waiting) == ("model 1", FleetVerdict.NOTHING, 2)


def test_a_history_that_only_waits_has_its_model_and_its_age(model, days, path):
    days_without_responses(model, days, path, (0, 1, 2, 4), label="v1")
    (line,) = debias.History.fleet(path, **SETTINGS).lines
    assert (line.series, line.model, line.n_periods) == ("v1", "scikit-learn GradientBoostingRegressor", 0)
    assert (line.waiting, line.missing, line.last_period) == (4, 1, str(FIRST + timedelta(4)))
    assert line.verdict is FleetVerdict.NOT_JUDGED
    (line,) = debias.History.fleet(path, **SETTINGS, max_age_days=1).lines
    assert line.verdict is FleetVerdict.LOOK
    assert "(it waits for its responses)" in line.reasons[0]


@pytest.mark.thorough
def test_pages_of_a_fleet_with_models_that_wait(model, retrained, days, settled, tmp_path):
    days_without_responses(model, days, settled, range(N_DAYS, N_DAYS + 2))
    days_without_responses(retrained, days, settled, range(N_DAYS + 2, N_DAYS + 4), label="v2")
    days_without_responses(model, days, tmp_path / "only.history", range(3))
    page = tmp_path / "fleet.html"
    found = debias.History.fleet([settled, tmp_path / "only.history"], **SETTINGS, html=page)
    assert [line.page for line in found.lines if line.n_periods] == ["fleet_models/settled.html"]
    assert [line.page for line in found.lines if not line.n_periods] == [None, None]
    text = page.read_text()
    is_safe(text, ["fleet_models/settled.html"])
    assert "v2 has no period with responses" in text.replace("<wbr>", "")
    assert found.exit_code == 4
    read = (tmp_path / "fleet_models/settled.html").read_text().replace("<wbr>", "")
    assert "2 newer periods wait for their responses and are not judged." in read
    assert "v2 has newer periods, up to " in read


def periods_at(*texts):
    found = [Moment.of(text) for text in texts]
    return [type("Period", (), {"kind": each.kind, "key": each.key}) for each in found]


@pytest.mark.parametrize(
    ("texts", "begin", "expected"),
    [
        (["2026-01-01", "2026-01-02", "2026-01-04", "2026-01-05"], 0, 1),
        (["2026-01-01", "2026-01-02", "2026-01-04", "2026-01-05"], 2, 0),
        ([f"2026-01-{k:02}" for k in range(1, 31) if k % 7 not in (3, 4)], 0, 0),  # Saturdays and Sundays never come
        ([f"2026-01-{k:02}" for k in range(1, 31) if k % 7 not in (3, 4) and k != 15], 0, 1),
        (["2026-01-01T00:00Z", "2026-01-01T01:00Z", "2026-01-01T02:00Z", "2026-01-01T06:00Z"], 0, 3),
        (["2026-01-01", "2026-02-01", "2026-03-01", "2026-05-01"], 0, 1),
        (["2026-03-27T23:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z", "2026-03-30T22:00Z"], 0, 0),  # summer time
        (["2026-01-01", "2026-01-09"], 0, None),
    ],
)
def test_missing_periods_are_counted_at_their_usual_distance(texts, begin, expected):
    assert n_missing(periods_at(*texts), begin) == expected


def test_numbers_and_labels_have_no_usual_distance():
    assert n_missing(periods_at("a", "b", "c"), 0) is None


def test_paths_are_files_and_patterns_each_once(fleet, monkeypatch, tmp_path):
    monkeypatch.chdir(fleet)
    names = ["damaged", "empty", "foreign", "moved", "permuted", "repeated", "same"]
    assert files_of("*") == [f"{name}.history" for name in names]  # without the journal
    assert files_of(["same.history", "./same.history", fleet / "same.history", "s*"]) == ["same.history"]
    odd = tmp_path / "a[1].history"
    shutil.copy("same.history", odd)
    assert files_of(odd) == [str(odd)]
    (tmp_path / "gone.history").symlink_to(tmp_path / "was moved")
    (tmp_path / "folder.history").mkdir()
    assert files_of(tmp_path / "*") == [str(odd), str(tmp_path / "gone.history")]  # the link is a line, the folder none
    with pytest.raises(HistoryError, match="no file fits 'none\\*'"):
        files_of("none*")
    with pytest.raises(HistoryError, match="there are no histories"):
        files_of([])
    with pytest.raises(HistoryError, match="has 3, which is not a path"):
        files_of([3])
    (line,) = debias.History.fleet(tmp_path).lines
    assert "is not a file" in line.why


def test_wrong_settings_are_errors_and_not_lines(fleet):
    with pytest.raises(HistoryError, match="recent='x' is not a window"):
        debias.History.fleet(fleet / "*", "x")
    with pytest.raises(CompositionError, match="error rate"):
        debias.History.fleet(fleet / "*", error_rate=2)
    with pytest.raises(CompositionError, match="looks"):
        debias.History.fleet(fleet / "*", looks=0)


def test_json_and_csv_have_all_lines(fleet):
    import json

    found = debias.History.fleet(fleet / "*.history", **SETTINGS)
    plain = json.loads(found.to_json())
    assert [each["history"] for each in plain["models"]] == [line.history for line in found.lines]
    assert plain["exit_code"] == 1
    frame = found.to_frame()
    assert frame.loc[str(fleet / "permuted.history"), "worst_feature"] == "b"
    assert frame["missing"].dtype == "Int64"
    assert len(found.to_csv().splitlines()) == len(found) + 1
    assert repr(found).startswith("3 of 7 models need a look: ")


@pytest.mark.thorough
def test_the_page_links_to_pages_that_begin_with_the_verdict(fleet, tmp_path):
    other = tmp_path / "Same.history"  # some file systems do not tell it from same
    shutil.copy(fleet / "same.history", other)
    names = ("same", "moved", "foreign", "permuted")
    page = tmp_path / "fleet.html"
    found = debias.History.fleet([other, *(fleet / f"{name}.history" for name in names)], **SETTINGS, html=page)
    pages = [line.page for line in found.lines if line.page]
    assert sorted(pages) == [f"fleet_models/{name}.html" for name in ("Same", "moved", "permuted", "same-2")]
    text = page.read_text()
    is_safe(text, pages)
    for each in pages:
        assert text.count(f'href="{each}"') >= 1
    of_line = lines(found)
    assert of_line["permuted"].judged == "all"
    assert any(text.startswith("faded: b") for text in of_line["permuted"].reasons)
    read = (tmp_path / "fleet_models/permuted.html").read_text()
    is_safe(read)
    headline = read[read.index('<p class="headline">') :].split("</p>")[0]
    assert "This model needs a look: the mean squared error rose by" in headline
    assert "There are no warnings." not in read
    assert "Nothing found in the last 10 periods." in (tmp_path / "fleet_models/same-2.html").read_text()
