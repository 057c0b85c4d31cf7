"""Replicates on a real Dask cluster of two workers, also where one dies."""

import os
import signal

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias_bench.simulate import loh

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.integration,
    # A killed worker leaves sockets and logs behind that distributed itself tidies up later.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
REPLICATES = 12
TEXT = f"response_permutation(mdi_oob, replicates={REPLICATES})"


@pytest.fixture(scope="module")
def given():
    drawn = loh("E1", 200, seed=0)
    forest = RandomForestRegressor(30, random_state=0, n_jobs=1).fit(drawn.numeric, drawn.y)
    return forest, drawn.numeric, drawn.y, TEXT


@pytest.fixture(scope="module")
def serial(given):
    return debias.score(*given, random_state=7)


@pytest.fixture
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_gives_the_numbers_of_a_serial_run(given, serial, client):
    with joblib.parallel_config(backend="dask"):
        found = debias.score(*given, random_state=7, n_jobs=-1)
    assert found.null.tobytes() == serial.null.tobytes()


def test_a_worker_that_is_killed_costs_time_and_no_number(given, serial, client):
    pids = list(client.run(os.getpid).values())
    told = []

    def kill_once(done, wanted):
        if not told:
            os.kill(pids[0], signal.SIGKILL)
        told.append((done, wanted))

    with joblib.parallel_config(backend="dask"), debias.show_progress(kill_once):
        found = debias.score(*given, random_state=7, n_jobs=-1)
    assert told == [(done, REPLICATES) for done in range(1, REPLICATES + 1)]  # so it was killed after the first
    assert pids[0] not in client.run(os.getpid).values()
    assert found.null.tobytes() == serial.null.tobytes()
    assert np.isfinite(found.values).all()
