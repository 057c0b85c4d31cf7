import os
import re
import subprocess
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import debias
from debias import parallel, progress
from debias.progress import State, show_progress, task
from support import simulated

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")


def told_by(run):
    """What a function of the user is told while `run` runs."""
    told = []
    with show_progress(lambda *at: told.append(at)):
        run()
    return told


def counted(what="permutations", total=3):
    with task(what, total) as advance:
        for _ in range(total):
            advance()


def test_a_function_is_told_of_what_users_count_and_not_of_parts():
    def run():
        counted()
        counted(what=None)
        with task("features", 4) as advance:
            counted()  # inside another task
            advance(3)
            advance()

    assert told_by(run) == [(1, 3), (2, 3), (3, 3), (3, 4), (4, 4)]


def test_loops_of_other_threads_are_silent_and_count_for_the_task_that_started_them():
    def run():
        with parallel.allowed(3) as team:
            team.map(lambda _: counted(), range(5), "trees")

    assert told_by(run) == [(k, 5) for k in range(1, 6)]


def test_a_task_that_failed_does_not_silence_the_next():
    def run():
        for what in ("first", "second"):
            with pytest.raises(ValueError, match=what), task(what, 1):
                raise ValueError(what)
        counted()

    assert told_by(run) == [(1, 3), (2, 3), (3, 3)]


def test_nothing_is_shown_inside_silence_nor_after():
    def run():
        with show_progress(False):
            counted()
        with show_progress("auto"), show_progress(None):
            counted()

    assert told_by(run) == [(1, 3), (2, 3), (3, 3)]
    assert progress._report.get() is None


@pytest.mark.parametrize("wrong", ["yes", 1, 2.5])
def test_something_else_is_refused(wrong):
    with pytest.raises(debias.RowsError, match="must be .auto., True, False, or a function"), show_progress(wrong):
        pass


def test_the_time_left_is_shown(monkeypatch):
    monkeypatch.setattr(progress, "perf_counter", lambda: 30.0)
    assert State("trees", 0, 4, 0.0).text == "trees   0%"
    assert State("trees", 1, 4, 0.0).text == "trees  25% 0:01:30 left"
    assert State().text == "working"


AT_WORK = """
import sys, threading, time
from contextlib import contextmanager
from debias import progress

progress.AFTER, progress.EVERY, progress.EVERY_LINE = float(sys.argv[2]), 0.01, 0.01
half = threading.Event()

def that_tells(display):
    @contextmanager
    def displayed():
        with display() as show:
            def tell(state):
                show(state)
                if state.done == 2:
                    half.set()
            yield tell
    return displayed

progress._terminal, progress._lines = that_tells(progress._terminal), that_tells(progress._lines)
with progress.show_progress({"auto": "auto", "True": True, "False": False}[sys.argv[1]]):
    with progress.task("permutations", 4) as advance:
        advance()
        advance()
        if sys.argv[3:] == ["shown"]:
            assert half.wait(120), "half of the work is not shown"
        else:
            time.sleep(0.5)  # a line would be there by now
        advance()
        advance()
    print("done")
"""


def on_a_terminal(mode, after, *until, **variables):
    """What appears on stderr, a terminal, of a program that works: for a moment, or until half of it is "shown"."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in progress.NOT_WATCHED}
    environment |= {"TERM": "xterm", "COLUMNS": "80", **variables}
    command, seen = [sys.executable, "-c", AT_WORK, mode, str(after), *until], b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as child:
        os.close(theirs)
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # the end, on Linux
            pass
        assert child.stdout.read() == b"done\n", seen
    os.close(ours)
    return seen.decode()


def test_a_terminal_shows_one_line_that_is_removed():
    seen = on_a_terminal("auto", 0.1, "shown")
    assert "permutations" in seen
    assert re.search(r" 50% \d+:\d\d:\d\d left", seen)
    assert seen.endswith("\x1b[2K")


@pytest.mark.thorough
def test_a_short_call_and_what_is_not_watched_show_nothing():
    assert on_a_terminal("auto", 600) == ""
    assert on_a_terminal("auto", 0.1, CI="true") == ""
    assert on_a_terminal("auto", 0.1, TERM="dumb") == ""
    assert on_a_terminal("False", 0.1) == ""
    assert on_a_terminal("True", 600, "shown", CI="true") != ""


@pytest.mark.thorough
def test_a_pipe_gets_lines_only_if_asked():
    done = subprocess.run([sys.executable, "-c", AT_WORK, "True", "600", "shown"], capture_output=True, text=True)
    assert re.search(r"debias: permutations  50% \d+:\d\d:\d\d left\n", done.stderr)
    done = subprocess.run([sys.executable, "-c", AT_WORK, "auto", "0"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_other_threads_and_processes_are_not_watched(monkeypatch):
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    monkeypatch.setattr(progress, "NOT_WATCHED", ())
    monkeypatch.setenv("TERM", "xterm")
    assert progress._is_watched()
    found = []
    thread = threading.Thread(target=lambda: found.append(progress._is_watched()))
    thread.start()
    thread.join()
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "another process")
    assert [*found, progress._is_watched()] == [False, False]


def test_a_notebook_shows_a_bar_that_is_removed(monkeypatch):
    seen = []
    page = ModuleType("IPython.display")
    page.HTML = str
    page.display = lambda html, display_id: SimpleNamespace(update=seen.append)
    ipython = ModuleType("IPython")
    ipython.get_ipython = type("ZMQInteractiveShell", (), {})
    for name, module in {"IPython": ipython, "IPython.display": page, "ipykernel": ipython}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(progress, "NOT_WATCHED", ())
    monkeypatch.setattr(progress, "AFTER", 0.0)

    def is_half():
        return any("replicates  50%" in html and '<progress max="1" value="0.5">' in html for html in seen)

    with show_progress("auto"), task("replicates", 2) as advance:
        advance()
        limit = time.monotonic() + 60
        while not is_half() and time.monotonic() < limit:
            time.sleep(0.01)
    assert is_half()
    assert seen[-1] == ""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_permutations_are_told_and_change_no_number(models, n_jobs):
    X, y = simulated.rows(200, names=["a", "b", "c"])
    forest, told = models("sklearn").fit(X, y), []
    given = {"random_state": 0, "test": debias.Permutation(40, adaptive=False)}
    with debias.show_progress(lambda *at: told.append(at)):
        audit = debias.audit(forest, X, y, n_jobs=n_jobs, **given)
    assert (41, 41) in told
    assert told == sorted(told, key=lambda at: at[1])  # one task after the other
    with debias.show_progress(False):
        silent = debias.audit(forest, X, y, **given)
    np.testing.assert_array_equal(audit.tested_scores.p_value, silent.tested_scores.p_value)
    np.testing.assert_array_equal(audit.tested_scores.values, silent.tested_scores.values)


@pytest.mark.parametrize(
    "expression", ["shap", "shap_oob", "permutation", "honest_splits", "conditional_importance", "ablation", "guide"]
)
def test_long_scorers_are_told_to_the_end(models, expression):
    X, y = simulated.rows(300, names=["a", "b", "c"])
    forest, told = models("sklearn").fit(X[:200], y[:200]), []
    on_held_out_rows = expression in ("conditional_importance", "ablation")
    rows = (X[200:], y[200:]) if on_held_out_rows else (X[:200], y[:200])
    with debias.show_progress(lambda *at: told.append(at)):
        debias.score(None if expression == "guide" else forest, *rows, expression, random_state=0)
    assert told
    assert told[-1][0] == told[-1][1]


def test_shapley_values_of_many_rows_are_told_tree_by_tree(models):
    X, y = simulated.rows(600, names=["a", "b", "c"])
    told = []
    with debias.show_progress(lambda *at: told.append(at)):
        debias.score(models("sklearn").fit(X, y), X, y, "shap")
    totals = {total: [done for done, each in told if each == total] for _, total in told}
    assert all(done == sorted(done) and done[-1] == total for total, done in totals.items())


def test_partial_dependence_is_told_by_features(models):
    X, y = simulated.rows(200, names=["a", "b", "c"])
    told = []
    with debias.show_progress(lambda *at: told.append(at)):
        debias.partial_dependence(models("sklearn").fit(X, y), X, ["a", "c"])
    assert told == [(1, 2), (2, 2)]


LONG = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, debias
from sklearn.ensemble import RandomForestRegressor
generator = np.random.default_rng(0)
X = generator.normal(size=(2000, 8))
y = X[:, 0] + generator.normal(size=2000)
forest = RandomForestRegressor(10, random_state=0, n_jobs=2).fit(X, y)
told, asked = threading.Event(), []
def interrupt():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the main thread takes it
    told.wait()
    time.sleep(0.2)  # into the middle of the work
    asked.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    limits = debias.Permutation(100_000, adaptive=False)
    with debias.show_progress(lambda done, total: told.set()):
        debias.audit(forest, X, y, random_state=0, test=limits, n_jobs=int(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", time.process_time() - asked[0])
"""


@pytest.mark.thorough
@pytest.mark.parametrize("n_jobs", ["1", "2"])
def test_an_interrupt_is_answered_soon(n_jobs):
    done = subprocess.run([sys.executable, "-c", LONG, n_jobs], capture_output=True, text=True, check=True)
    word, seconds = done.stdout.split()
    assert word == "interrupted"
    assert float(seconds) < 5  # of the processor, so it counts no others; about 0.1
