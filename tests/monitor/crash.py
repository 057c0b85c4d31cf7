"""Processes that are killed while they add: run by test_safety.py as ``python crash.py FOLDER ROUNDS``.

In each round a child process adds periods without an end, and reports each on a pipe. In every second round it kills
itself in the middle of a change. In the others it is killed after some reports and a random part of the time that one
more takes. No round depends on how fast the machine is. Then every period that was reported must be there, once, with
its rows. The last line has the number of kills, and of those in the middle of a change.
"""

import os
import signal
import sqlite3
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

import debias
from debias.rows.period_sums import PeriodSums

HOT = bytes.fromhex("d9d505f920a163d7")
"""A journal begins with these bytes if the file of the history is changed already, and must be rolled back."""


class Fatal(sqlite3.Connection):
    """A connection that kills its process after some changes of a transaction, which are partly on disk by then."""

    def __init__(self, *arguments, changes, **options):
        super().__init__(*arguments, **options)
        self.changes = changes
        super().execute("PRAGMA cache_size = 1")  # pages: changes that do not fit are written before the end

    def execute(self, *arguments):
        found = super().execute(*arguments)
        if self.total_changes >= self.changes:
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def main(folder, n_rounds):
    rng = np.random.default_rng(0)
    model = GradientBoostingRegressor(n_estimators=50, max_depth=5, random_state=0).fit(*rows(1000, of=[0]))
    path = Path(folder) / "crash.history"
    history, there, seconds, n_in_a_change = debias.History(model, path), set(), 0.0, 0
    for number in range(n_rounds):
        n_reports = int(rng.integers(4)) if number else 0  # the first kill is while the file is made
        if number % 2:
            lines = one_round(history, model, len(there), n_reports, pause=rng.uniform(0.0, seconds))
        else:
            lines = one_round(history, model, len(there), n_reports, changes=int(rng.integers(2, 4)))
            assert len(lines) == n_reports, lines
            assert is_in_a_change(path), "the child did not kill itself in the middle of a change"
        n_in_a_change += is_in_a_change(path)
        assert not any(line.startswith("error") for line in lines), lines
        assert all(line.split()[1] == "True" for line in lines), lines
        new = {int(line.split()[0]) for line in lines}
        assert not new & there, "a period that was there was added again"
        there |= new
        seconds = max([float(line.split()[2]) for line in lines], default=seconds)
        looked = debias.History(model, path)
        if "nothing was added" in repr(looked):
            assert not there
            continue
        periods = looked.periods
        assert periods.index.is_unique
        assert there <= set(periods.index), "a period that was reported is lost"
        assert len(periods) <= len(there) + 1, "more than the one period that was being added is there"
        assert all(periods.loc[at, "n_rows"] == n_rows(at) for at in periods.index)
        there = set(periods.index)  # one may have been on disk before the child could say so
        assert there == set(range(len(there))), "a period is missing"
    whole = debias.History(model, Path(folder) / "whole.history")
    last = len(there)
    history.add(sums_of(model, last), at=last)
    some = [0, last // 2, last - 1, last]
    for at in some:
        whole.add(sums_of(model, at), at=at)
    assert history.scores().loc[some].equals(whole.scores())
    print(n_rounds, n_in_a_change)


def one_round(history, model, first, n_reports, *, pause=0.0, changes=None):
    """Return what the child reported until it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        add_until_killed(history, model, first, n_reports, changes, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = [pipe.readline() for _ in range(n_reports)]
        if changes is None:
            time.sleep(pause)
            os.kill(child, signal.SIGKILL)
        lines += pipe.readlines()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), lines
    assert os.WTERMSIG(status) == signal.SIGKILL
    return lines


def add_until_killed(history, model, first, n_reports, changes, pipe):
    """Add one period after the other, and report each. With `changes`, end in the one after `n_reports`."""
    connect = sqlite3.connect
    try:
        at = first
        while True:
            sums, begin = sums_of(model, at), time.perf_counter()
            if changes is not None and at == first + n_reports:
                sqlite3.connect = partial(connect, factory=partial(Fatal, changes=changes))
            added = history.add(sums, at=at)
            os.write(pipe, f"{at} {added} {time.perf_counter() - begin}\n".encode())
            at += 1
    except BaseException as error:
        os.write(pipe, f"error {error!r}\n".encode())
    finally:
        os._exit(1)


def sums_of(model, at):
    sums = PeriodSums(model)
    sums.update(*rows(n_rows(at), of=[1, at]))
    return sums


def n_rows(at):
    return 7 + at % 3


def rows(n, of):
    rng = np.random.default_rng(of)
    X = rng.standard_normal((n, 3))
    return X, X[:, 0] + rng.standard_normal(n)


def is_in_a_change(path):
    journal = Path(f"{path}-journal")
    return journal.exists() and journal.read_bytes().startswith(HOT)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
