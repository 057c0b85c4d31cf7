"""The parts of the loss in a history: what is kept, histories of an earlier version, and what made the loss rise."""

import sqlite3
import warnings
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias.monitor.records import FORMAT, SCORES, SUMS
from debias.monitor.store import VERSION
from debias.rows import few_trees
from debias.rows.sealed import seal, unseal

from .conftest import FIRST

N_DAYS = 20


def filled(model, path, days, n_days=N_DAYS, broken_from=12, **settings):
    """A history of days; from one on, the values of a are in random order."""
    history = debias.History(model, path, **settings)
    for number in range(n_days):
        history.add(*rows_of(days, number, broken_from), at=FIRST + timedelta(number), rows="held-out")
    return history


def rows_of(days, number, broken_from=12):
    """X and y of a day; from one on, the values of a are in random order."""
    X, y = days(number)
    if number >= broken_from:
        X = X.assign(a=np.random.default_rng(number).permutation(X["a"]))
    return X, y


OLD_FACTS, OLD = ("series", "at"), ("scores", "errors")


def as_written_before(path):
    """Change the file to what an earlier version of debias, in format 1, would have written."""
    with sqlite3.connect(path) as database:
        for number, sums in database.execute("SELECT id, sums FROM parts").fetchall():
            facts, state = unseal(sums, SUMS, FORMAT)
            for name in ("metric", "no_loss"):
                del facts[name]
            for name in ("loss_parts", "squares_of_rows", "kept_x", "kept_y", "kept_start", "kept_weight"):
                del state[name]
            database.execute("UPDATE parts SET sums = ? WHERE id = ?", (seal(SUMS, FORMAT, facts, state), number))
        for number, scores in database.execute("SELECT id, scores FROM periods").fetchall():
            facts, arrays = unseal(scores, SCORES, FORMAT)
            facts, arrays = ({name: each[name] for name in kept} for each, kept in ((facts, OLD_FACTS), (arrays, OLD)))
            database.execute(
                "UPDATE periods SET scores = ? WHERE id = ?", (seal(SCORES, FORMAT, facts, arrays), number)
            )
        database.execute("DROP TABLE waiting")
        database.execute("PRAGMA user_version = 1")
    database.close()


def without_causes(loss):
    return replace(loss, causes=(), no_causes_because=None)


def version(path):
    database = sqlite3.connect(path)
    (found,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return found


@pytest.mark.thorough
def test_the_loss_and_its_parts_are_those_of_the_rows(model, path, days):
    history = filled(model, path, days)
    changes = history.changes(recent=8, reference="first 12")
    loss = changes.loss

    def squared(numbers, broken):
        errors = []
        for number in numbers:
            X, y = days(number)
            if broken:
                X = X.assign(a=np.random.default_rng(number).permutation(X["a"]))
            errors.append((y - model.predict(X)) ** 2)
        return np.concatenate(errors).mean()

    assert loss.metric == "mean squared error"
    assert loss.loss.before == pytest.approx(squared(range(12), broken=False))
    assert loss.loss.after == pytest.approx(squared(range(12, 20), broken=True))
    assert loss.loss.change == pytest.approx(loss.base.change + loss.statistics["cost"].sum(), abs=1e-12)
    assert [loss.feature_names[k] for k in loss.costs_more] == ["a"]
    assert (loss.n_periods, loss.n_rows) == ((12, 8), (720, 480))
    assert changes.no_loss_because is None
    assert "cost: a +" in " ".join(changes.summary())
    gate = history.check({"max_loss_increase": 0.1}, recent=8, reference="first 12")
    assert not gate.passed
    assert "more than before cost a +" in gate.results[0].reason
    opened = debias.History.open(path).changes(recent=8, reference="first 12")  # without the model
    assert opened.loss.no_causes_because == "this history was opened without the model of these periods"
    assert (
        replace(changes, loss=without_causes(changes.loss)).to_json()
        == replace(opened, loss=without_causes(opened.loss)).to_json()
    )
    assert debias.Changes.from_json(changes.to_json()).to_json() == changes.to_json()


@pytest.mark.thorough
def test_a_history_of_an_earlier_version_is_read_and_completed(model, path, days):
    history = filled(model, path, days, n_days=18)
    expected = history.changes(recent=8, reference="first 10")
    as_written_before(path)
    before = history.changes(recent=8, reference="first 10")
    assert version(path) == 1  # looking changes nothing
    assert before.loss is None
    assert before.no_loss_because == (
        "10 reference periods and 8 recent periods without parts of the loss: they were added without parts of the loss"
    )
    pd.testing.assert_frame_equal(before.to_frame(), expected.to_frame())
    for number in range(18):
        X, y = rows_of(days, number)
        assert history.add(X, y, at=FIRST + timedelta(number), rows="held-out") is True
        assert history.add(X, y, at=FIRST + timedelta(number), rows="held-out") is False
        assert version(path) == VERSION
        if number == 9:
            partial = history.changes(recent=8, reference="first 10")
            assert partial.loss is None
            assert partial.no_loss_because.startswith("8 recent periods without parts")
    assert history.changes(recent=8, reference="first 10").to_json() == expected.to_json()


@pytest.mark.thorough
def test_squares_of_rows_complete_a_history_of_format_3(model, path, days):
    history = filled(model, path, days)
    expected = history.changes(recent=8, reference="first 12")
    fleet = debias.History.fleet(path, recent=8, reference="first 12").to_json()
    with sqlite3.connect(path) as database:
        for table, column, kind, missing in (
            ("parts", "sums", SUMS, "squares_of_rows"),
            ("periods", "scores", SCORES, "variances_of_means"),
        ):
            for number, blob in database.execute(f"SELECT id, {column} FROM {table}").fetchall():
                facts, arrays = unseal(blob, kind, FORMAT)
                arrays.pop(missing)
                old = (seal(kind, FORMAT, facts, arrays), number)
                database.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", old)
        database.execute("PRAGMA user_version = 3")
    database.close()
    before = history.changes(recent=8, reference="first 12")
    assert before.to_frame().equals(expected.to_frame())
    assert [mean.p_value for mean in before.means] != [mean.p_value for mean in expected.means]
    assert version(path) == 3
    for number in range(N_DAYS):
        X, y = rows_of(days, number)
        assert history.add(X, y, at=FIRST + timedelta(number), rows="held-out") is True
        assert history.add(X, y, at=FIRST + timedelta(number), rows="held-out") is False
    assert version(path) == VERSION
    assert history.changes(recent=8, reference="first 12").to_json() == expected.to_json()
    assert debias.History.fleet(path, recent=8, reference="first 12").to_json() == fleet


@pytest.mark.thorough
def test_some_periods_without_parts_are_left_out(model, path, days):
    history = filled(model, path, days, n_days=12)
    without = debias.History(model, path, loss_rows=0)
    for number in (12, 13):
        without.add(*days(number), at=FIRST + timedelta(number), rows="held-out")
    for number in range(14, 22):
        history.add(*days(number), at=FIRST + timedelta(number), rows="held-out")
    changes = history.changes(recent=10, reference="first 12")
    assert changes.loss.n_periods == (12, 8)
    told = "The parts of the loss are not those of all periods: 2 of 10 recent periods without parts of the loss:"
    assert told in " ".join(changes.summary())


@pytest.mark.thorough
def test_parts_of_a_period_and_merged_files_add_up(model, path, days, tmp_path):
    whole = filled(model, path, days, n_days=12)
    one, other = (debias.History(model, tmp_path / f"{name}.history") for name in "ab")
    for number in range(12):
        X, y = days(number)
        for history, name, rows in ((one, "m1", slice(0, 20)), (other, "m2", slice(20, None))):
            history.add(X[rows], y[rows], at=FIRST + timedelta(number), part=name, rows="held-out")
    one.merge(other.path)
    found, expected = (each.changes(recent=4, reference="first 8").loss for each in (one, whole))
    for name in ("cost", "error", "rows_cost"):
        np.testing.assert_allclose(found.statistics[name], expected.statistics[name], rtol=1e-9, atol=1e-12)
    assert found.loss.error == pytest.approx(expected.loss.error)


@pytest.mark.thorough
def test_a_merge_completes_periods_without_parts(model, path, days, tmp_path):
    old = filled(model, path, days, n_days=12)
    new = filled(model, tmp_path / "new.history", days, n_days=12)
    expected = new.changes(recent=4, reference="first 8").to_json()
    as_written_before(path)
    assert old.merge(new.path) == 12
    assert old.changes(recent=4, reference="first 8").to_json() == expected
    as_written_before(path)
    assert new.merge(path) == 0  # what is complete stays
    assert new.changes(recent=4, reference="first 8").to_json() == expected


@pytest.mark.thorough
def test_a_sample_of_rows_estimates_the_loss_of_all(model, path, days, tmp_path):
    whole, sampled = filled(model, path, days), filled(model, tmp_path / "few.history", days, loss_rows=30)
    found, expected = (each.changes(recent=8, reference="first 12").loss for each in (sampled, whole))
    assert found.n_rows == (12 * 30, 8 * 30)
    assert abs(found.loss.after - expected.loss.after) < 4 * found.loss.error
    assert [found.feature_names[k] for k in found.costs_more] == ["a"]


@pytest.mark.thorough
def test_parts_from_a_few_large_trees_add_up_and_say_that_they_are_estimates(path, days, tmp_path, monkeypatch):
    monkeypatch.setattr(few_trees, "LEAVES_OF_A_TREE", 4)  # as if trees of 16 leaves were large
    forest = RandomForestRegressor(8, max_leaf_nodes=16, random_state=0).fit(*days(1000, 500))
    windows = {"recent": 8, "reference": "first 12"}
    estimated = filled(forest, path, days).changes(**windows)
    exact = filled(forest, tmp_path / "exact.history", days, loss_rows=None).changes(**windows)
    (note,) = [text for text in estimated.warnings if "are estimates" in text]
    assert "each row went through 2 of the 8 trees, which have 16 leaves on average" in note
    assert "(20 periods or parts from" in note
    assert not [text for text in exact.warnings if "are estimates" in text]
    for part in ("loss", "base"):
        for window in ("before", "after"):
            assert getattr(getattr(estimated.loss, part), window) == pytest.approx(
                getattr(getattr(exact.loss, part), window), rel=1e-12
            )
    costs = estimated.loss.statistics["cost"], exact.loss.statistics["cost"]
    assert costs[0].sum() == pytest.approx(costs[1].sum(), rel=1e-9)
    assert (costs[0] != costs[1]).any()
    error = estimated.loss.statistics["error"]
    assert (np.abs(costs[0] - costs[1])[error > 0] < 4 * error[error > 0]).all()
    assert [estimated.loss.feature_names[k] for k in estimated.loss.costs_more] == ["a"]


def test_models_without_a_loss_of_rows_say_so(path, days):
    X, y = days(1000, 500)
    custom = XGBRegressor(n_estimators=5, n_jobs=1, objective=lambda y, margin: (margin - y, np.ones_like(y))).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        history = filled(custom, path, days, n_days=3)
    changes = history.changes(recent=1, reference="first 2")
    assert changes.loss is None
    assert "custom objective gives only its gradient" in changes.no_loss_because
    (result,) = changes.check({"max_loss_increase": 0.1}).results
    assert str(result.status) == "not judged"


def stored(path):
    """Arrays of rows in each part of a file."""
    with sqlite3.connect(path) as database:
        sums = [unseal(blob, SUMS, FORMAT)[1] for (blob,) in database.execute("SELECT sums FROM parts").fetchall()]
    database.close()
    return [[state[name] for name in ("kept_x", "kept_y", "kept_start", "kept_weight")] for state in sums]


@pytest.mark.thorough
def test_so_many_rows_are_kept_as_they_are(model, path, days, tmp_path):
    history = filled(model, path, days)
    changes = history.changes(recent=8, reference="first 12")
    (cause,) = changes.loss.causes
    assert cause.feature == "a"
    assert cause.kind in ("values", "values or effect")
    assert "Causes, step by step: a: its values" in " ".join(changes.summary())
    for number, (X, y, start, weight) in enumerate(stored(path)[:3]):
        own, response = days(number)
        assert X.shape == (50, 3)
        at = [np.flatnonzero((own.to_numpy(dtype=np.float32) == row).all(axis=1)).item() for row in X]
        np.testing.assert_array_equal(y[:, 0], response[at])
        assert (start == 0).all()
        assert weight.sum() == pytest.approx(len(own))
    bare = filled(model, tmp_path / "bare.history", days, kept_rows=0)
    assert all(X.size == y.size == 0 for X, y, _, _ in stored(bare.path))
    found = bare.changes(recent=8, reference="first 12")
    assert found.loss.no_causes_because == "some periods have no rows that were kept"
    assert (
        replace(found, loss=without_causes(found.loss)).to_json()
        == replace(changes, loss=without_causes(changes.loss)).to_json()
    )
    with pytest.raises(debias.errors.HistoryError, match="kept_rows=2000 is not a number of rows from 0 to 1,000"):
        debias.History(model, path, kept_rows=2000)


def test_missing_values_and_margins_of_kept_rows_come_back(path):
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(1800, 3)), rng.normal(size=1800) / 3
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.poisson(np.exp(np.nan_to_num(X[:, 0]) + offset))
    model = XGBRegressor(n_estimators=15, max_depth=3, objective="count:poisson", n_jobs=1)
    model.fit(X[:600], y[:600], base_margin=offset[:600])
    X[1400:, 0] = rng.permutation(X[1400:, 0])
    history = debias.History(model, path)
    for number in range(20):
        rows = slice(600 + 60 * number, 660 + 60 * number)
        history.add(X[rows], y[rows], at=number, base_margin=offset[rows], rows="held-out")
    changes = history.changes(recent=6, reference="first 13")
    assert [cause.feature for cause in changes.loss.causes] == ["f0"]
    assert changes.loss.metric == "Poisson deviance"


@pytest.mark.parametrize("loss_rows", [-1, 1.5, True, "all"])
def test_loss_rows_is_a_number_of_rows(model, path, loss_rows):
    with pytest.raises(debias.errors.HistoryError, match="is not a number of rows: pass 0 or more, or None for all"):
        debias.History(model, path, loss_rows=loss_rows)
