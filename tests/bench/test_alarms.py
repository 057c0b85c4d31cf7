"""The study of alarms: its days are those of a history, and its alarms those of ``looks="any"``."""

import warnings
from datetime import date, timedelta

import numpy as np
import pytest

import debias
from debias_bench import alarm_trials, alarms
from debias_bench.alarm_streams import N_ROWS, REFERENCE, Stream, above_chart, by_column, costs
from debias_bench.alarm_trials import FAULT, at_any_look, fault_stream

N_DAYS = 110


@pytest.fixture(scope="module")
def stream():
    whole = fault_stream("x0 reversed", 0)
    return Stream(whole.empty, whole.X[:N_DAYS], whole.y[:N_DAYS])


@pytest.fixture(scope="module")
def changes(stream, tmp_path_factory):
    history = debias.History(stream.empty.model, tmp_path_factory.mktemp("alarms") / "a.history")
    first = date(2026, 1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in range(N_DAYS):
            history.add(stream.X[number], stream.y[number], at=first + timedelta(number), rows="held-out")
        return history.changes("7d", looks="any")


@pytest.mark.thorough
def test_days_are_those_of_a_history(stream, changes):
    loss = changes.loss
    values = costs(stream.loss_sums)
    recent = values[-7:].mean(axis=0)
    np.testing.assert_allclose(loss.loss.after, recent[0], rtol=1e-9)
    np.testing.assert_allclose(loss.base.after, recent[1], rtol=1e-9)
    np.testing.assert_allclose(-loss.statistics["saved_after"], recent[2:], rtol=1e-9, atol=1e-12)
    residual = next(mean for mean in changes.means if mean.of == "residual")
    np.testing.assert_allclose(residual.after, stream.means[-7:, 2].mean(), rtol=1e-6, atol=1e-7)


@pytest.mark.thorough
def test_alarms_are_those_of_a_history(stream, changes):
    values = np.hstack([costs(stream.loss_sums), stream.means])[:, None]
    found = at_any_look(values, N_DAYS, stream.used)
    assert found["loss"].tolist() == [changes.loss.direction is not None] == [True]
    assert found["cost"].tolist() == [changes.loss.costs_more.size > 0] == [True]
    for mean in changes.means:
        assert found[mean.of].tolist() == [mean.changed]
    before = at_any_look(values[:FAULT], FAULT, stream.used)
    assert not any(each.any() for each in before.values())


def test_a_chart_and_columns_by_hand():
    rng = np.random.default_rng(0)
    loss = rng.normal(size=80)
    limit = loss[:REFERENCE].mean() + 3 * loss[:REFERENCE].std(ddof=1) / np.sqrt(7)
    assert above_chart(loss, 80) == (loss[73:].mean() > limit)
    loss[73:] += 3
    assert above_chart(loss, 80)
    before, after = rng.normal(size=(2000, 3)), rng.normal(size=(400, 3))
    after[:, 1] += 1
    assert by_column(before, after, 10) == ({1}, {1})


@pytest.mark.thorough
def test_the_page_has_a_line_for_each_alarm_and_fault(monkeypatch):
    monkeypatch.setattr(alarm_trials, "DAYS_WITH_LOOK", (30, 60))
    monkeypatch.setattr(alarm_trials, "WEEKS", range(7, 22, 7))
    monkeypatch.setattr(alarm_trials, "N_DAYS", 60)
    monkeypatch.setattr(alarm_trials, "BATCH", 2)
    monkeypatch.setattr(alarm_trials, "LOOKED_AT", (FAULT, FAULT + 7))
    calm = {"design": "calm / nothing", "repeat": 0, "scores": alarm_trials.level_of("nothing", 1)}
    fault = {"design": "fault / to half", "repeat": 0, "scores": alarm_trials.found_in("to half", 1)}
    page = "\n\n".join(alarms.parts([calm, fault], 1))
    assert "any look: a feature costs more" in page
    assert "planned: the response to a feature" in page
    assert "before the responses: values of a column changed or are broken" in page
    assert set(calm["scores"]["first"]) == set(alarms.OF_CALM)
    assert "the effect of x0 falls to half" in page
    lines = alarms.lines([calm, fault])
    assert {line["setting"] for line in lines} == {"nothing changes", "the effect of x0 falls to half"}
    assert max(calm["scores"]["inexact"]) < 1e-12
    assert stream_rows(alarm_trials.fault_stream("to half", 1)) == N_ROWS


def stream_rows(found):
    return found.X.shape[1]
