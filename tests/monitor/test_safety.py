"""A history whose process is killed, two writers at once, and files that are damaged, forged or of other programs."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import debias
from debias.monitor import store
from debias.monitor.records import FORMAT, SUMS
from debias.monitor.store import Store
from debias.rows.sealed import seal, unseal


def killed(folder, n_rounds):
    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be forked here")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("crash.py"), folder, str(n_rounds)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    n_killed, n_in_a_change = map(int, done.stdout.split()[-2:])
    assert n_killed == n_rounds
    assert n_in_a_change >= n_rounds // 2  # every second child kills itself in one


@pytest.mark.thorough
def test_a_kill_loses_nothing_that_was_reported_and_doubles_nothing(tmp_path):
    killed(tmp_path, 6)


@pytest.mark.slow
def test_many_kills_in_the_middle_of_a_change_lose_nothing(tmp_path):
    killed(tmp_path, 150)


def test_the_second_writer_waits_for_the_first(model, path, days):
    debias.History(model, path).add(*days(0), at=0)
    begun, done = threading.Event(), []

    def first():
        with Store(path, 5.0).writing():
            begun.set()
            time.sleep(0.3)
            done.append("first")

    writer = threading.Thread(target=first)
    writer.start()
    begun.wait()
    assert debias.History(model, path).add(*days(1), at=1)
    done.append("second")
    writer.join()
    assert done == ["first", "second"]
    assert len(debias.History.open(path).periods) == 2


def test_a_writer_that_waited_too_long_is_refused(model, path, days):
    history = debias.History(model, path, timeout=0.05)
    history.add(*days(0), at=0)
    with (
        Store(path, 5.0).writing(),
        pytest.raises(debias.errors.HistoryError, match=r"is in use: .*within 0\.05 seconds\. Nothing was changed"),
    ):
        history.add(*days(1), at=1)
    assert len(history.periods) == 1
    assert history.add(*days(1), at=1)


@pytest.mark.thorough
def test_two_processes_that_make_the_file_at_once_both_succeed(model, path, days):
    failed = []

    def add(number):
        try:
            for k in range(5):
                debias.History(model, path).add(*days(10 * number + k), at=10 * number + k)
        except Exception as error:
            failed.append(error)

    writers = [threading.Thread(target=add, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failed
    history = debias.History.open(path)
    assert history.periods.index.tolist() == [10 * number + k for number in range(3) for k in range(5)]
    assert len(history.models) == 1


def test_a_missing_folder_and_other_wrong_paths_are_refused(model, tmp_path):
    for path, message in (
        (tmp_path / "none" / "x", "the folder .*none does not exist"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(debias.errors.HistoryError, match=message):
            debias.History(model, path)
    with pytest.raises(debias.errors.HistoryError, match="there is no history"):
        debias.History.open(tmp_path / "x")
    (tmp_path / "empty").touch()
    with pytest.raises(debias.errors.HistoryError, match="nothing was added"):
        debias.History.open(tmp_path / "empty")
    with pytest.raises(debias.errors.HistoryError, match="timeout"):
        debias.History(model, tmp_path / "x", timeout=-1)
    with pytest.raises(debias.errors.HistoryError, match="is not the name of a file"):
        debias.History(model, f"{tmp_path}/x\0y")
    with pytest.raises(debias.errors.HistoryError, match=r"path is an? \w+: .* as in debias.History\(model, path"):
        debias.History(str(tmp_path / "x"), model)


def test_a_relative_path_is_one_file_also_after_the_folder_changes(model, tmp_path, days, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    history = debias.History(model, "x.history")
    history.add(*days(0), at=0)
    monkeypatch.chdir("elsewhere")
    history.add(*days(1), at=1)
    assert len(history.scores()) == 2
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_history_without_periods_has_no_picture(model, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at=0)
    history.remove(at=0)
    assert history.scores().empty
    for draw in (history.plot, history.to_html):
        with pytest.raises(debias.errors.HistoryError, match="there is no period"):
            draw()


def test_files_of_other_programs_are_refused_and_left_alone(model, tmp_path, days):
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_text("no database" * 100)
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE series (x)")
    database.close()
    for path, message in ((text, "is not a history of debias"), (other, "file of another program")):
        content = path.read_bytes()
        with pytest.raises(debias.errors.HistoryError, match=message):
            debias.History(model, path)
        with pytest.raises(debias.errors.HistoryError, match=message):
            debias.History.open(path, must_exist=False)
        assert path.read_bytes() == content


def changed(path, *commands):
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for command in commands:
            database.execute(*command) if isinstance(command, tuple) else database.execute(command)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("PRAGMA user_version = 5", "written by a newer version of debias, in format 5.*update debias"),
        ("PRAGMA user_version = 0", "is damaged"),
        ("PRAGMA application_id = 1", "file of another program"),
        ("CREATE TABLE more (x)", "other tables than a history"),
        ("CREATE TRIGGER t AFTER INSERT ON parts BEGIN DELETE FROM parts; END", "other tables than a history"),
        ("CREATE VIEW v AS SELECT * FROM parts", "other tables than a history"),
        ("DROP INDEX parts_by_rows", "other tables than a history"),
    ],
)
def test_other_forms_are_refused(model, path, days, command, message):
    debias.History(model, path).add(*days(0), at=0)
    changed(path, command)
    with pytest.raises(debias.errors.HistoryError, match=message):
        debias.History.open(path)
    with pytest.raises(debias.errors.HistoryError, match=message):
        debias.History(model, path)


@pytest.mark.parametrize(
    "command",
    [
        "UPDATE parts SET n_rows = 61 WHERE id = 1",
        "UPDATE parts SET n_rows = 'many' WHERE id = 1",
        "UPDATE parts SET part = 'other' WHERE id = 1",
        "UPDATE parts SET sums = x'00' WHERE id = 1",
        "UPDATE parts SET sums = NULL WHERE id = 1",
        "UPDATE parts SET sums = (SELECT sums FROM parts WHERE id = 2) WHERE id = 1",
        "UPDATE parts SET sums = zeroblob(length(sums)) WHERE id = 1",
        "UPDATE periods SET at = '7' WHERE id = 1",
        "UPDATE periods SET sorted = 'x' WHERE id = 1",
        "UPDATE periods SET scores = (SELECT scores FROM periods WHERE id = 2) WHERE id = 1",
        "UPDATE series SET trees = (SELECT sums FROM parts WHERE id = 1)",
        "UPDATE series SET digest = 'other'",
        "DELETE FROM parts WHERE id = 1",
        "UPDATE periods SET series = 9 WHERE id = 1",
        "DELETE FROM series",
        "UPDATE periods SET kind = 'time' WHERE id = 1",
        "UPDATE periods SET kind = 'era'",
        "UPDATE periods SET kind = x'00'",
        "UPDATE periods SET sorted = 1e300",
        "UPDATE periods SET sorted = 9e999 WHERE id = 3",
        "UPDATE periods SET at = '0.0' WHERE id = 1",
        "UPDATE parts SET period = 9 WHERE id = 1",
    ],
)
def test_changed_rows_are_found(model, path, days, command):
    history = debias.History(model, path)
    for number in range(3):
        history.add(*days(number), at=number)
    try:
        changed(path, command)
    except sqlite3.IntegrityError:
        return  # the schema does not allow it
    found = 0
    for look in LOOKS:  # each finds the damage in what it reads, and none raises another error
        try:
            look(debias.History.open(path))
        except debias.errors.HistoryError as error:
            found += "is damaged" in str(error)
    assert found


LOOKS = (
    lambda history: history.scores(),
    lambda history: history.scores(2),
    lambda history: history.periods,
    lambda history: history.models,
    lambda history: history.changes(1),
    lambda history: history.remove(at=8),
    repr,
)


def forged(path, **arrays):
    """Replace arrays of the first part by others, with a right digest."""
    database = sqlite3.connect(path, isolation_level=None)
    (blob,) = database.execute("SELECT sums FROM parts WHERE id = 1").fetchone()
    facts, state = unseal(blob, SUMS, FORMAT)
    state = {name: array for name, array in (state | arrays).items() if array is not None}
    database.execute("UPDATE parts SET sums = ? WHERE id = 1", (seal(SUMS, FORMAT, facts, state),))
    database.close()
    return state


@pytest.mark.parametrize(
    "forgery",
    [
        lambda state: {"n": state["n"][:-1]},
        lambda state: {"n": -state["n"]},
        lambda state: {"n": state["n"] * np.nan},
        lambda state: {"n": state["n"] * 2},
        lambda state: {"n": state["n"].astype("f4")},
        lambda state: {"s": None},
        lambda state: {"s": state["s"] * np.inf},
        lambda state: {"totals": state["totals"] + 1},
        lambda state: {"variances": state["variances"][:, :1]},
        lambda state: {"leaf_counts": state["n"]},
        lambda state: {"weights": -state["weights"]},
    ],
)
def test_forged_sums_are_refused(model, path, days, forgery):
    history = debias.History(model, path)
    history.add(*days(0), at=0)
    state = forged(path)
    assert history.scores(1).shape == (1, 3)
    with np.errstate(invalid="ignore"):
        forged(path, **forgery(state))
    with pytest.raises(debias.errors.HistoryError, match="is damaged"):
        history.scores(1)


@pytest.mark.thorough
def test_bits_that_flip_in_the_file_are_found_or_harmless(model, path, days):
    history = debias.History(model, path)
    for number in range(3):
        history.add(*days(number), at=number)
    expected, content = history.scores(2), path.read_bytes()
    rng = np.random.default_rng(0)
    n_found = 0
    for position in rng.integers(0, len(content), 60):
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(flipped))
        try:
            scores = debias.History.open(path).scores(2)
        except debias.errors.HistoryError:
            n_found += 1
        else:
            assert scores.equals(expected)
    for size in (len(content) // 2, 100, 17):
        path.write_bytes(content[:size])
        with pytest.raises(debias.errors.HistoryError):
            debias.History.open(path).scores(2)
    assert n_found > 0


def add_many(history, days):
    for number in range(1, 100):
        history.add(*days(number), at=number)


def test_a_full_disk_is_told_and_changes_nothing(model, path, days, monkeypatch):
    history = debias.History(model, path)
    history.add(*days(0), at=0)
    connect = sqlite3.connect

    def limited(*arguments, **options):
        database = connect(*arguments, **options)
        database.execute(f"PRAGMA max_page_count = {path.stat().st_size // store.PAGE}")
        return database

    monkeypatch.setattr(sqlite3, "connect", limited)
    with pytest.raises(debias.errors.HistoryError, match="the disk is full. Nothing was changed"):
        add_many(history, days)
    monkeypatch.undo()
    there = len(history.periods)
    assert there < 99
    assert history.add(*days(there), at=there)


def test_an_error_of_the_disk_is_told_and_changes_nothing(model, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at=0)
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
    try:
        with pytest.raises(debias.errors.HistoryError, match="disk"):
            add_many(history, days)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    there = len(history.periods)
    assert there < 99
    assert history.add(*days(there), at=there)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_file_that_may_not_be_written_can_be_read(model, path, days):
    history = debias.History(model, path)
    history.add(*days(0), at=0)
    path.chmod(0o400)
    assert len(debias.History.open(path).periods) == 1
    with pytest.raises(debias.errors.HistoryError, match="read-only"):
        history.add(*days(1), at=1)


def test_an_error_while_adding_leaves_the_file_as_it_was(model, path, days, monkeypatch):
    from debias.monitor.store import Content

    history = debias.History(model, path)
    history.add(*days(0), at=0)
    content = path.read_bytes()

    def failing(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Content, "update", failing)  # the last step of adding
    with pytest.raises(KeyboardInterrupt):
        history.add(*days(1), at=1)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert history.periods.index.tolist() == [0]


def test_the_file_has_no_pickle_and_no_rows(model, path, days):
    X, y = days(0)
    debias.History(model, path).add(X, y, at=0)
    content = path.read_bytes()
    assert b"sklearn" not in content.replace(b"sklearn.GradientBoosting", b"")
    for value in X["a"][:20]:
        assert np.float64(value).tobytes() not in content


def test_damaged_text_of_the_schema_is_told_in_words(model, path, days):
    """34 of 100 of these gave a UnicodeDecodeError."""
    debias.History(model, path).add(*days(0), at=0)
    whole = path.read_bytes()
    begin = whole.index(b"CREATE TABLE")
    random = np.random.default_rng(0)
    refusals = []
    for place in begin + random.integers(0, 600, 60):
        for bit in (0x80, 1 << int(random.integers(7))):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            try:
                debias.History.open(path).periods  # noqa: B018
            except debias.errors.HistoryError as error:
                refusals.append(str(error))
    assert len(refusals) > 60
    assert all(str(path) in text for text in refusals)
