"""A history by day of a Dask or Spark frame has the numbers of the same rows in memory."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

import debias
from support import simulated
from support.agreement import assert_agree

pytestmark = pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
NAMES = list("abcd")
N_TRAIN, N_OF_DAY, N_DAYS = 500, 240, 3
DAYS = [f"2026-11-{number + 1:02}" for number in range(N_DAYS)]
MODELS = {
    "booster": (XGBRegressor(n_estimators=12, max_depth=3, random_state=0, n_jobs=1), "number"),
    "pipeline of a forest": (
        make_pipeline(StandardScaler(), RandomForestClassifier(8, max_depth=5, random_state=0)),
        "two",
    ),
}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    X, number = simulated.rows(N_TRAIN + N_OF_DAY * N_DAYS, 4, simulated.interacting, names=NAMES, seed=rng)
    day = [DAYS[0]] * N_TRAIN + [day for day in DAYS for _ in range(N_OF_DAY)]
    return X.assign(number=number, two=(number > 0).astype(int), weight=rng.uniform(0.5, 2, len(X)), day=day)


def fitted(model, target, frame):
    """Fit the model to the training rows and return the others."""
    model.fit(frame.loc[: N_TRAIN - 1, NAMES], frame.loc[: N_TRAIN - 1, target])
    return frame[N_TRAIN:]


def in_memory(model, target, rows, path):
    """Return the history of frames of pandas."""
    history = debias.History(model, path)
    for day in DAYS:
        of_day = rows[rows["day"] == day]
        history.add(of_day[NAMES], of_day[target], at=day, sample_weight=of_day["weight"])
    return history


def assert_same_history(found, expected):
    assert list(found.scores().index) == list(expected.scores().index)
    assert_agree(found.scores().to_numpy(), expected.scores().to_numpy(), 1e-12)
    assert_agree(found.scores(window=2).to_numpy(), expected.scores(window=2).to_numpy(), 1e-12)
    tables = [history.changes(recent=1).to_frame() for history in (found, expected)]
    for column in ("before", "after", "response_change", "shift"):  # standard errors depend on the order of the rows
        assert_agree(*(table[column].sort_index().to_numpy() for table in tables), 1e-9)
    assert list(found.periods["n_rows"]) == list(expected.periods["n_rows"]) == [N_OF_DAY] * N_DAYS


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_partitions_of_dask_are_added_by_day(name, frame, tmp_path):
    dask = pytest.importorskip("dask")
    frames = pytest.importorskip("dask.dataframe")
    model, target = MODELS[name]
    fresh = fitted(model, target, frame)
    expected = in_memory(model, target, fresh, tmp_path / "memory.history")
    found = debias.History(model, tmp_path / "dask.history")
    rows = frames.from_pandas(fresh[[*NAMES, target, "weight", "day"]], npartitions=5)  # days cross partitions
    with dask.config.set(scheduler="synchronous"):
        for day in DAYS:
            of_day = rows[rows["day"] == day].drop(columns="day")
            assert found.add(of_day, target, at=day, sample_weight="weight")
            assert not expected.add(of_day, target, at=day, sample_weight="weight")  # the same rows
        with pytest.raises(debias.errors.HistoryError, match="has other rows already: 240 rows"):
            found.add(of_day[of_day["a"] > 0], target, at=day, sample_weight="weight")
    assert_same_history(found, expected)


@pytest.mark.integration
# Of sockets that pyspark 4.0 leaves open.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", MODELS)
def test_days_of_a_spark_frame_are_added_as_in_memory(name, frame, spark, tmp_path):
    model, target = MODELS[name]
    fresh = fitted(model, target, frame)
    expected = in_memory(model, target, fresh, tmp_path / "memory.history")
    rows = spark.createDataFrame(fresh[[*NAMES, target, "weight", "day"]]).repartition(3).cache()
    found = debias.History(model, tmp_path / "spark.history")
    for day in DAYS:
        of_day = rows.filter(rows["day"] == day).drop("day")
        assert found.add(of_day, target, at=day, sample_weight="weight")
        assert not expected.add(of_day.repartition(2), target, at=day, sample_weight="weight")  # the same rows
    assert_same_history(found, expected)
