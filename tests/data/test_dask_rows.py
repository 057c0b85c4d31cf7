"""A Dask data frame or array gives the numbers of the same rows in memory."""

import os

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

import debias
from debias.data.sources import DaskRows
from support import simulated
from support.agreement import assert_same_scores

dask = pytest.importorskip("dask")
array, frames = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
NAMES = list("abcd")
N_TRAIN = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(8)
    X, number = simulated.rows(N_TRAIN + 1500, 4, simulated.interacting, names=NAMES, seed=rng)
    return X.assign(number=number, two=(number > 0).astype(int), weight=rng.uniform(0, 2, len(X)))


@pytest.fixture(autouse=True)
def in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_same(found, expected):
    assert_same_scores(found, expected)
    found, expected = ({**scores.provenance} for scores in (found, expected))
    shifts = [each.pop("shift") or 0.0 for each in (found, expected)]
    assert shifts[0] == pytest.approx(shifts[1], rel=1e-12)  # sums in another order
    assert found == expected


MODELS = [
    (RandomForestClassifier(12, random_state=0), "two"),
    (XGBClassifier(n_estimators=12, random_state=0), "two"),
    (make_pipeline(StandardScaler(), RandomForestRegressor(8, random_state=0)), "number"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "target"), MODELS, ids=lambda each: type(each).__name__)
def test_frames_by_column_or_beside_one_another_score_as_in_memory(model, target, frame):
    model.fit(frame[NAMES][:N_TRAIN], frame[target][:N_TRAIN])
    fresh = frame[N_TRAIN:]
    rows = frames.from_pandas(fresh[[*NAMES, target, "weight"]], npartitions=6)
    rows = rows[rows["a"] > -1]  # sizes are not known beforehand
    kept = fresh[fresh["a"] > -1]
    for scorer, test in (("mdi_oob", "naive"), ("oob_loss", None)):
        expected = debias.score(model, kept[NAMES], kept[target], scorer, test=test, sample_weight=kept["weight"])
        assert_same(debias.score(model, rows, target, scorer, test=test, sample_weight="weight"), expected)
        beside = debias.score(model, rows[NAMES], rows[target], scorer, test=test, sample_weight=rows["weight"])
        assert_same(beside, expected)


def test_partitions_without_rows_score_as_in_memory(frame):
    forest = RandomForestRegressor(5, random_state=0).fit(frame[NAMES][:N_TRAIN], frame["number"][:N_TRAIN])
    fresh = frame[N_TRAIN:]
    rows = frames.from_pandas(fresh[[*NAMES, "number"]], npartitions=6)
    late = fresh.index[1200]
    found = debias.score(forest, rows.map_partitions(lambda part: part[part.index >= late]), "number", test="naive")
    assert_same(found, debias.score(forest, fresh.loc[late:, NAMES], fresh.loc[late:, "number"], test="naive"))
    with pytest.raises(debias.RowsError, match="no evaluation rows"):
        debias.score(forest, rows[rows["a"] > 1e9], "number", rows="held-out")


def test_arrays_fresh_and_out_of_bag_score_as_in_memory(frame):
    X, y = frame[NAMES].to_numpy(), frame["number"].to_numpy()
    forest = RandomForestRegressor(10, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    for part in (slice(0, N_TRAIN), slice(N_TRAIN, None)):
        rows = array.from_array(X[part], chunks=(170, 3)), array.from_array(y[part], chunks=170)
        assert_same(debias.score(forest, *rows, test="naive"), debias.score(forest, X[part], y[part], test="naive"))


def test_wrong_use_is_refused(frame):
    forest = RandomForestRegressor(5, random_state=0).fit(frame[NAMES][:N_TRAIN], frame["number"][:N_TRAIN])
    rows = frames.from_pandas(frame[[*NAMES, "number"]], npartitions=6)
    for y, match in (
        ("nothing", "no column 'nothing'"),
        (None, "name of a column of X"),
        (frame["number"], "name of a column of X"),
    ):
        with pytest.raises(debias.RowsError, match=match):
            debias.score(forest, rows, y)
    with pytest.raises(debias.RowsError, match="different numbers of partitions"):
        debias.score(forest, rows[NAMES], rows["number"].repartition(npartitions=2))
    with pytest.raises(debias.plugin.CompositionError, match="all rows at once"):
        debias.score(forest, rows, "number", "response_permutation(mdi)")
    with pytest.raises(debias.RowsError, match=r"missing: d; .*z"):
        debias.score(forest, rows.rename(columns={"d": "z"}), "number", rows="held-out")


@pytest.mark.integration
# The nanny of a worker leaves sockets behind that distributed itself tidies up later.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_of_two_workers_gives_the_numbers_of_one_machine(frame, tmp_path):
    distributed = pytest.importorskip("distributed")

    def where(shared, batches):  # pickled by value: the workers cannot import this module
        import os

        return [(id(shared), os.getpid(), len(batch.X)) for batch in batches]

    train, fresh = frame[:N_TRAIN], frame[N_TRAIN:]
    boosted = XGBClassifier(n_estimators=12, random_state=0).fit(train[NAMES], train["two"])
    forest = RandomForestClassifier(12, random_state=0).fit(train[NAMES], train["two"])
    for number in range(5):
        fresh[number * 300 : (number + 1) * 300].to_parquet(tmp_path / f"{number}.parquet")
    with (
        dask.config.set(scheduler=None),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        rows = frames.read_parquet(tmp_path, columns=[*NAMES, "two", "weight"])
        for model in (boosted, forest):
            for scorer, test in (("mdi_oob", "naive"), ("oob_loss", None)):
                found = debias.score(model, rows, "two", scorer, test=test, sample_weight="weight")
                assert_same(
                    found,
                    debias.score(model, fresh[NAMES], fresh["two"], scorer, test=test, sample_weight=fresh["weight"]),
                )
        source = DaskRows(rows, "two", None, tuple(NAMES), debias.NodeSums(forest).notes)
        went = source.reduced(where, bytes(10**6), list.__add__)
    assert sum(n for *_, n in went) == 1500
    workers = {pid for _, pid, _ in went}
    assert os.getpid() not in workers
    assert len({(pid, shared) for shared, pid, _ in went}) == len(workers)  # one copy of the model in each
