"""kill -9 of a whole `debias.score`, its workers left behind, and going on from the checkpoint."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

SCRIPT = """
import sys
import debias
from debias_bench.simulate import loh
from sklearn.ensemble import RandomForestRegressor

drawn = loh("E1", n_rows=200, seed=0)
forest = RandomForestRegressor(60, random_state=0).fit(drawn.numeric, drawn.y)
text = "threshold(response_permutation(mdi_oob, replicates=12), rule='fwer', alpha=0.1)"
given = {"random_state": 3, "n_jobs": 2, "refits": debias.Refits(checkpoint=sys.argv[1])}
with debias.show_progress(lambda done, wanted: print(done, flush=True)):
    scores = debias.score(forest, drawn.numeric, drawn.y, text, **given)
print(scores.null.tobytes().hex(), scores.values.tobytes().hex(), scores.selected.tolist(), flush=True)
"""


def kept(path):
    with contextlib.closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT count(*) FROM sealed_replicate").fetchone()[0]


def test_a_score_that_was_killed_goes_on_and_equals_one_that_was_not(tmp_path):
    def run(path):
        command = [sys.executable, "-c", SCRIPT, str(path)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with run(tmp_path / "killed.sqlite") as first:
        seen = []
        for line in first.stdout:
            seen.append(int(line))
            if seen[-1] >= 3:
                break
        os.kill(first.pid, signal.SIGKILL)
        first.stdout.close()
    assert first.returncode == -signal.SIGKILL
    assert 3 <= kept(tmp_path / "killed.sqlite") < 12
    ends = {}
    for name in ("killed", "whole"):
        with run(tmp_path / f"{name}.sqlite") as again:
            ends[name] = again.stdout.read().splitlines()
        assert again.returncode == 0
    assert ends["killed"][-1] == ends["whole"][-1]
