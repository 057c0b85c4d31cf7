"""Warnings are issued to the user and logged."""

import logging
import subprocess
import sys
import warnings

import pytest

from debias import progress
from debias.errors import DebiasWarning
from debias.warning_log import WarningLog


def test_what_is_warned_is_logged_too(caplog):
    log = WarningLog()
    with caplog.at_level(logging.WARNING, logger="debias"), pytest.warns(DebiasWarning, match="rows are 50% noise"):
        log.warn("rows are 50% noise")
    log.warn("rows are 50% noise")  # no second time
    assert [(each.name, each.levelname, each.getMessage()) for each in caplog.records] == [
        ("debias", "WARNING", "rows are 50% noise")
    ]
    WarningLog(quiet=True).warn("known")
    assert len(caplog.records) == 1


def test_it_is_logged_where_warnings_are_errors_or_ignored(caplog):
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, logger="debias"):
        warnings.simplefilter("ignore")
        WarningLog().warn("ignored")
        warnings.simplefilter("error")
        with pytest.raises(DebiasWarning):
            WarningLog().warn("an error")
    assert [each.getMessage() for each in caplog.records] == ["ignored", "an error"]


def test_without_a_handler_it_is_printed_once():
    code = "from debias.warning_log import WarningLog; WarningLog().warn('only once')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("only once") == 1 + done.stderr.count("warn('only once')")


def test_the_time_of_a_slow_call_is_logged_also_if_it_fails(caplog, monkeypatch):
    times = iter([0.0, 9.9, 0.0, 12.34, 0.0, 60.0])
    monkeypatch.setattr(progress, "perf_counter", lambda: next(times))

    @progress.with_progress
    def audit(fails=False):
        if fails:
            raise ValueError("it fails")

    with caplog.at_level(logging.INFO, logger="debias"):
        audit()
        assert not caplog.records
        audit()
        with pytest.raises(ValueError, match="it fails"):
            audit(fails=True)
    assert [each.getMessage() for each in caplog.records] == ["debias.audit took 12.3 s", "debias.audit took 60.0 s"]
