"""Replicates on the workers of Spark, by the joblib backend of joblibspark."""

import joblib
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias_bench.simulate import loh

joblibspark = pytest.importorskip("joblibspark")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::DeprecationWarning"
    ),  # of joblibspark and of joblib to it
]


def test_spark_gives_the_numbers_of_a_serial_run(spark):
    drawn = loh("E1", 200, seed=0)
    forest = RandomForestRegressor(20, random_state=0, n_jobs=1).fit(drawn.numeric, drawn.y)
    given = (forest, drawn.numeric, drawn.y, "response_permutation(mdi_oob, replicates=6)")
    serial = debias.score(*given, random_state=7)
    joblibspark.register_spark()
    jobs_before = spark.range(1).count() and _last_job(spark)
    with joblib.parallel_config(backend="spark"):
        found = debias.score(*given, random_state=7, n_jobs=2)
    spark.range(1).count()
    assert _last_job(spark) > jobs_before + 2  # it ran there
    assert found.null.tobytes() == serial.null.tobytes()


def _last_job(spark):
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
