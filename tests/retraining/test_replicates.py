import contextlib
import os
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest

import debias
from debias.data.digest import digest_of
from debias.parallel import Engine
from debias.progress import show_progress
from debias.retraining.checkpoint import Checkpoint
from debias.retraining.replicates import child_seed, replicate


def draw(scale, child):
    return scale * np.random.default_rng(child).normal(size=3)


def draw_unless_third(scale, child):
    if child.spawn_key == (2,):
        raise ValueError("a bad draw")
    return draw(scale, child)


def impossible(child):
    raise debias.UnsupportedModelError("cannot be trained again")


@pytest.mark.quick
def test_replicate_b_draws_from_the_bth_child_whatever_runs_it():
    def draw(scale, child):  # test modules cannot be imported in other processes, and what is local goes by value
        return scale * np.random.default_rng(child).normal(size=3)

    expected = [2 * np.random.default_rng(child).normal(size=3) for child in np.random.SeedSequence(5).spawn(7)]
    np.testing.assert_array_equal(replicate(draw, 2.0, n=7, seed=5).values, expected)
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend=backend):
            found = replicate(draw, 2.0, n=7, seed=5, engine=Engine(n_jobs=2))
        np.testing.assert_array_equal(found.values, expected)
        assert (found.stopped, found.failures) == ("all drawn", ())


def test_a_failed_replicate_names_its_seed_and_the_others_survive():
    found = replicate(draw_unless_third, 1.0, n=5, seed=9)
    children = np.random.SeedSequence(9).spawn(5)
    np.testing.assert_array_equal(found.values, [draw(1.0, children[b]) for b in (0, 1, 3, 4)])
    assert found.failures == ("replicate 2, numpy.random.SeedSequence(9, spawn_key=(2,)): ValueError: a bad draw",)
    assert "1 of 5 replicates failed" in found.report()["warnings"][0]
    with pytest.raises(debias.RefitError, match="none of 1 replicates could be run"):
        replicate(lambda child: 1 / 0, n=1, seed=0)
    with pytest.raises(debias.UnsupportedModelError, match="cannot be trained again"):
        replicate(impossible, n=5, seed=0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_budget_or_a_verdict_ends_the_run_and_keeps_the_first_replicates(n_jobs):
    children = np.random.SeedSequence(0).spawn(40)
    with joblib.parallel_config(backend="threading"):
        for given in ({"settled": lambda values: len(values) == 3}, {"engine": Engine(n_jobs=n_jobs, budget=1e-9)}):
            given.setdefault("engine", Engine(n_jobs=n_jobs))
            found = replicate(draw, 1.0, n=40, seed=0, **given)
            done = len(found.values)
            assert (found.stopped, done) == (("settled", 3) if "settled" in given else ("budget", 1))
            np.testing.assert_array_equal(found.values, [draw(1.0, child) for child in children[:done]])
    with pytest.raises(debias.RowsError, match="budget=0"):
        Engine(budget=0)


def test_progress_is_told_after_each_replicate_and_never_in_a_pipe(capfd):
    told = []
    with show_progress(lambda done, wanted: told.append((done, wanted))):
        replicate(draw, 1.0, n=3, seed=0)
    assert told == [(1, 3), (2, 3), (3, 3)]
    with show_progress("auto"):
        replicate(draw, 1.0, n=3, seed=0)
    assert capfd.readouterr() == ("", "")


def test_a_checkpoint_spares_what_is_done_and_keeps_runs_apart(tmp_path):
    calls = []

    def counted(child):
        calls.append(child.spawn_key)
        return draw(1.0, child)

    engine = Engine(checkpoint=tmp_path / "run.sqlite")
    first = replicate(counted, n=4, seed=1, engine=engine, fingerprint=lambda: "a")
    more = replicate(counted, n=6, seed=1, engine=engine, fingerprint=lambda: "a")
    assert calls == [(0,), (1,), (2,), (3,), (4,), (5,)]
    assert more.values[:4].tobytes() == first.values.tobytes()
    replicate(counted, n=1, seed=1, engine=engine, fingerprint=lambda: "b")
    assert len(calls) == 7
    (tmp_path / "other.txt").write_text("not a database, but a text that is long enough to be read as a header of one")
    other = Engine(checkpoint=tmp_path / "other.txt")
    with pytest.raises(debias.RowsError, match="cannot be used"):
        replicate(draw, 1.0, n=1, seed=0, engine=other, fingerprint=lambda: "a")


def test_a_damaged_replicate_is_drawn_again_and_said(tmp_path):
    path = tmp_path / "run.sqlite"
    engine = Engine(checkpoint=path)
    whole = replicate(draw, 1.0, n=4, seed=1, engine=engine, fingerprint=lambda: "a").values
    data = path.read_bytes()
    at = data.index(whole[2].astype("<f8").tobytes())
    path.write_bytes(data[: at + 3] + bytes([data[at + 3] ^ 1]) + data[at + 4 :])
    again = replicate(draw, 1.0, n=4, seed=1, engine=engine, fingerprint=lambda: "a")
    assert again.values.tobytes() == whole.tobytes()
    assert again.report()["warnings"] == [
        "1 of the replicates in the checkpoint were damaged: they are not used, and drawn again"
    ]
    assert "warnings" not in replicate(draw, 1.0, n=4, seed=1, engine=engine, fingerprint=lambda: "a").report()


@pytest.mark.parametrize("damage", ["page", "short", "trigger", "other table"])
def test_a_damaged_checkpoint_is_refused_with_what_to_do(damage, tmp_path):
    import sqlite3

    path = tmp_path / "run.sqlite"
    engine = Engine(checkpoint=path)
    replicate(draw, 1.0, n=40, seed=1, engine=engine, fingerprint=lambda: "a")
    data = path.read_bytes()
    if damage == "page":
        path.write_bytes(data[:4096] + bytes(64) + data[4160:])
    elif damage == "short":
        path.write_bytes(data[:5000])
    else:
        with sqlite3.connect(path) as file:
            if damage == "trigger":
                file.execute(
                    "CREATE TRIGGER t AFTER INSERT ON sealed_replicate BEGIN DELETE FROM sealed_replicate; END"
                )
            else:
                file.execute("DROP TABLE sealed_replicate")
                file.execute("CREATE TABLE sealed_replicate (number INTEGER)")
        file.close()
    with pytest.raises(debias.RowsError, match=r"(?s)cannot be used.*delete the file"):
        replicate(draw, 1.0, n=4, seed=1, engine=engine, fingerprint=lambda: "a")


def test_a_checkpoint_of_an_older_debias_is_drawn_anew(tmp_path):
    import sqlite3

    path = tmp_path / "run.sqlite"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE replicate (fingerprint TEXT, number INTEGER, shape TEXT, bytes BLOB)")
        file.execute("INSERT INTO replicate VALUES ('a', 0, '2', ?)", (bytes(16),))
    file.close()
    found = replicate(draw, 1.0, n=2, seed=1, engine=Engine(checkpoint=path), fingerprint=lambda: "a")
    assert found.values.tobytes() == replicate(draw, 1.0, n=2, seed=1).values.tobytes()


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path):
    engine = Engine(checkpoint=tmp_path / "none" / "run.sqlite")
    with pytest.raises(debias.RowsError, match="a file that can be written"):
        replicate(draw, 1.0, n=1, seed=0, engine=engine, fingerprint=lambda: "a")


SCRIPT = """
import sys, time, numpy as np, debias
from debias.retraining.replicates import Engine, replicate
def slow(child):
    last = child.spawn_key == (11,)
    time.sleep(3600 if last and sys.argv[2:] == ["endless"] else 0.05)
    return np.random.default_rng(child).normal(size=4)
def tell(done, wanted):
    print(done, flush=True)
with debias.show_progress(tell):
    found = replicate(slow, n=12, seed=3, engine=Engine(checkpoint=sys.argv[1]), fingerprint=lambda: "run")
sys.stdout.write(found.values.tobytes().hex())
"""


@pytest.mark.thorough
def test_a_run_that_was_killed_goes_on_and_equals_one_that_was_not(tmp_path):
    def run(*words):
        return subprocess.Popen([sys.executable, "-c", SCRIPT, *words], stdout=subprocess.PIPE, text=True)

    with run(tmp_path / "killed.sqlite", "endless") as first:
        assert "5\n" in first.stdout
        os.kill(first.pid, signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    from debias.retraining.checkpoint import Checkpoint

    with Checkpoint(tmp_path / "killed.sqlite", "run") as file:
        assert 5 <= len(file.read()) < 12
    with run(tmp_path / "killed.sqlite") as again, run(tmp_path / "whole.sqlite") as whole:
        ends = [each.stdout.read().splitlines()[-1] for each in (again, whole)]
    assert len(ends[0]) == 12 * 4 * 8 * 2
    assert ends[0] == ends[1]


@pytest.mark.thorough
def test_two_writers_of_one_file_are_refused(tmp_path):
    from debias.retraining.checkpoint import Checkpoint

    begun = time.perf_counter()
    with Checkpoint(tmp_path / "run.sqlite", "a") as file:
        file.write(0, np.zeros(2))
        with pytest.raises(debias.RowsError, match="Another run may be writing"):
            Checkpoint(tmp_path / "run.sqlite", "a")
    assert time.perf_counter() - begun < 30  # about 1


def test_digests_tell_apart_what_differs_and_nothing_else():
    import pandas as pd
    from sklearn.ensemble import RandomForestRegressor

    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Categorical(["x", "y"])})
    assert digest_of(frame, {"k": 1, "j": 2}) == digest_of(frame.copy(), {"j": 2, "k": 1})
    others = [
        frame.assign(a=[1.0, 3.0]),
        frame.rename(columns={"a": "c"}),
        frame.astype({"a": int}),
        frame.assign(b=pd.Categorical(["x", "y"], categories=["y", "x"])),
        frame.to_numpy(dtype=object),
    ]
    assert len({digest_of(each) for each in [frame, *others]}) == 6
    forests = [RandomForestRegressor(max_depth=d) for d in (2, 2, 3)]
    prints = [digest_of(each) for each in forests]
    assert prints[0] == prints[1] != prints[2]


def test_child_seeds_are_those_the_libraries_take_and_all_different():
    seeds = [child_seed(child) for child in np.random.SeedSequence(0).spawn(500)]
    assert len(set(seeds)) == 500
    assert 0 <= min(seeds) < max(seeds) < 2**31


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["xgboost", pytest.param("lightgbm", marks=pytest.mark.integration)])
def test_a_booster_has_one_digest_in_every_process(library, models, tmp_path):
    """Checkpoints of a Booster are gone on with; a live one has nothing but its address for a name."""
    import pickle
    import subprocess
    import sys

    from debias.data.digest import digest_of

    X = np.random.default_rng(0).normal(size=(80, 3))
    fitted = [models(library, n_estimators=3, learning_rate=rate).fit(X, X[:, 0]) for rate in (0.1, 0.1, 0.2)]
    boosters = [each.get_booster() if library == "xgboost" else each.booster_ for each in fitted]
    (tmp_path / "booster.pkl").write_bytes(pickle.dumps(boosters[0]))
    code = (
        "import pickle, sys; from debias.data.digest import digest_of; "
        f"print(digest_of(pickle.load(open({str(tmp_path / 'booster.pkl')!r}, 'rb'))))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    here = [digest_of(each) for each in boosters]
    assert here[0] == here[1] == there
    assert here[0] != here[2]


@pytest.mark.parametrize("kind", ["polars", "arrow", "sparse"])
def test_fingerprints_see_every_row_of_tables_that_print_a_few(kind):
    import polars as pl
    import pyarrow as pa
    from scipy.sparse import csr_array

    make = {
        "polars": lambda array: pl.DataFrame(array, schema=["a", "b"]),
        "arrow": lambda array: pa.table({"a": array[:, 0], "b": array[:, 1]}),
        "sparse": csr_array,
    }[kind]
    array = np.random.default_rng(0).normal(size=(200, 2))
    other = array.copy()
    other[100] += 1
    assert digest_of(make(array)) == digest_of(make(array.copy()))
    assert digest_of(make(array)) != digest_of(make(other))
    if kind == "polars":
        assert digest_of(make(array)["a"]) != digest_of(make(other)["a"])


@pytest.mark.thorough
def test_replicates_of_a_worker_that_died_are_handed_out_again(tmp_path):
    def killing_once(mark, child):  # inside, so that workers get it by value
        if child.spawn_key == (2,) and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.random.default_rng(child).normal(size=2)

    def always_killing(child):
        os.kill(os.getpid(), signal.SIGKILL)

    found = replicate(killing_once, tmp_path / "died", n=6, seed=0, engine=Engine(n_jobs=2))
    assert (tmp_path / "died").exists()
    whole = replicate(killing_once, tmp_path / "died", n=6, seed=0)
    assert found.values.tobytes() == whole.values.tobytes()
    with pytest.raises(Exception, match="(?i)terminated|killed"):
        replicate(always_killing, n=2, seed=0, engine=Engine(n_jobs=2))


def test_a_database_of_another_program_is_no_checkpoint(tmp_path):
    import sqlite3

    path = tmp_path / "runs.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE runs (a)")
    before = path.read_bytes()
    with pytest.raises(debias.RowsError, match="holds the table 'runs', which debias does not make"):
        Checkpoint(path, "this run")
    assert path.read_bytes() == before


def test_a_damaged_replicate_is_deleted(tmp_path):
    import sqlite3

    path = tmp_path / "kept.sqlite"
    with Checkpoint(path, "this run") as kept:
        kept.write(0, np.arange(3.0))
        kept.write(1, np.arange(3.0))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("UPDATE sealed_replicate SET number = 99 WHERE number = 1")
    for n_damaged in (1, 0):  # it is told once
        with Checkpoint(path, "this run") as kept:
            assert list(kept.read()) == [0]
            assert kept.n_damaged == n_damaged
