"""Processes that are killed while they add: run by test_safety.py as ``python crash.py FOLDER ROUNDS``.

In each round a child process adds the periods that are missing, and reports each on a pipe. It is killed at a random
moment. Then every period that was reported must be there, once, with its rows. The last line has the number of kills,
and of those that left a journal: they were in the middle of a change.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

import debias
from debias.rows.period_sums import PeriodSums


def add_missing(history, sums, there, pipe):
    """Add the periods that are not there; after each, report it."""
    try:
        for number, of_period in enumerate(sums):
            if number not in there:
                added = history.add(of_period, at=number)
                os.write(pipe, f"{number} {added}\n".encode())
        os.write(pipe, b"done\n")
    except BaseException as error:
        os.write(pipe, f"error {error!r}\n".encode())
        raise
    finally:
        os._exit(0)


def one_round(history, sums, there, delay):
    """Return what the child reported until it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        add_missing(history, sums, there, writing)
    os.close(writing)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read().splitlines()


def main(folder, n_rounds):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    y = X[:, 0] + rng.standard_normal(4000)
    model = GradientBoostingRegressor(n_estimators=50, max_depth=5, random_state=0).fit(X[:1000], y[:1000])
    sums = []
    for number in range(5 * n_rounds):
        sums.append(PeriodSums(model))
        begin = 1000 + 7 * number % 2900
        rows = slice(begin, begin + 7 + number % 3)
        sums[-1].update(X[rows], y[rows])
    path, reported, killed = Path(folder) / "crash.history", set(), 0
    in_a_change = 0
    history = debias.History(model, path)
    for _ in range(n_rounds):
        lines = one_round(history, sums, reported, rng.uniform(0.0, 0.15))
        assert not any(line.startswith("error") for line in lines), lines
        killed += "done" not in lines
        in_a_change += Path(f"{path}-journal").exists()
        new = {int(line.split()[0]) for line in lines if line != "done"}
        assert not new & reported, "a period that was there was added again"
        assert all(line == "done" or line.endswith("True") for line in lines), lines
        reported |= new
        looked = debias.History(model, path)
        if "nothing was added" in repr(looked):
            assert not reported
            continue
        periods = looked.periods
        assert periods.index.is_unique
        assert reported <= set(periods.index), "a period that was reported is lost"
        assert len(periods) <= len(reported) + 1, "more than the one period that was being added is there"
        assert all(periods.loc[number, "n_rows"] == sums[number].n_rows for number in periods.index)
        reported |= set(periods.index)  # it was on disk before the child could say so
        if len(reported) == len(sums):
            break
    for number in set(range(len(sums))) - reported:
        history.add(sums[number], at=number)
    whole = debias.History(model, Path(folder) / "whole.history")
    some = [0, 3, len(sums) // 2, len(sums) - 1]
    for number in some:
        whole.add(sums[number], at=number)
    assert history.scores().loc[some].equals(whole.scores())
    print(killed, in_a_change)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
