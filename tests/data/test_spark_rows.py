"""A Spark frame gives the numbers of the same rows in memory, on classic Spark and on Spark Connect."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

import debias
from support.agreement import assert_same_scores
from support.spark import PARTITIONS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::debias.DebiasWarning"),
    # Of sockets that pyspark 4.0 leaves open.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
NUMBERS = list("abcd")
N_TRAIN = 600


@pytest.fixture(scope="module")
def frame():
    """Numbers with missing values, a category, three responses and weights."""
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.standard_normal((N_TRAIN + 1400, 4)), columns=NUMBERS)
    kind = rng.choice(["red", "green", "blue", "grey"], len(X))
    number = X.a * (X.b > 0) + (kind == "red") + 0.5 * rng.standard_normal(len(X))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X.assign(
        kind=kind,
        number=number,
        two=np.where(number > 0.2, "yes", "no"),
        three=pd.cut(number, [-np.inf, -0.3, 0.6, np.inf], labels=False).astype(np.int64),
        weight=rng.uniform(0, 2, len(X)),
    )


@pytest.fixture(scope="module")
def on_spark(spark_sessions, frame):
    """The fresh rows of the frame in each session, in partitions."""
    fresh = frame[N_TRAIN:].astype({"kind": object, "two": object})
    fresh = fresh.where(fresh.notna(), None)
    return [session.createDataFrame(fresh).repartition(PARTITIONS).cache() for session in spark_sessions]


def with_categories(frame):
    return frame.assign(kind=pd.Categorical(frame["kind"], categories=["blue", "green", "grey", "red"]))


WITH_KIND = [*NUMBERS, "kind"]
MODELS = {
    "forest, two classes": (RandomForestClassifier(10, random_state=0), "two", NUMBERS),
    "forest, three classes": (RandomForestClassifier(10, random_state=0), "three", NUMBERS),
    "pipeline": (
        make_pipeline(StandardScaler(), RandomForestRegressor(8, random_state=0)),
        "number",
        NUMBERS,
    ),
    "hist boosting": (
        HistGradientBoostingRegressor(max_iter=10, categorical_features="from_dtype"),
        "number",
        WITH_KIND,
    ),
    "xgboost, three classes": (
        XGBClassifier(n_estimators=8, random_state=0, enable_categorical=True),
        "three",
        WITH_KIND,
    ),
    "lightgbm": (LGBMRegressor(n_estimators=10, random_state=0, verbose=-1), "number", WITH_KIND),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_node_score_is_that_of_memory(name, frame, on_spark):
    model, target, names = MODELS[name]
    rows = with_categories(frame)
    train, fresh = rows[:N_TRAIN], rows[N_TRAIN:]
    model.fit(train[names], train[target])
    settings = {"scorers": ["oob_loss", "oob_split", *(["mdi", "ufi"] if "forest" in name else [])], "test": "naive"}
    expected = debias.audit(model, fresh[names], fresh[target], sample_weight=fresh["weight"], **settings)
    both = [df.select(*names, target, "weight") for df in on_spark]
    frames = [*both, both[0]] if name == "forest, three classes" else both[:1]
    found = [debias.audit(model, df, target, sample_weight="weight", **settings) for df in frames]
    for audit in found:
        assert audit.scores.keys() == expected.scores.keys()
        for scorer, scores in audit.scores.items():
            if expected.scores[scorer].rows is not None:
                assert_same_scores(scores, expected.scores[scorer])
    for scorer in found[0].scores:  # the same additions in the same order, whatever session
        assert len({tuple(audit.scores[scorer].values) for audit in found}) == 1


def test_an_audit_has_the_scores_and_tests_of_a_file(frame, on_spark, tmp_path):
    forest = RandomForestRegressor(10, random_state=0).fit(frame[NUMBERS][:N_TRAIN], frame["number"][:N_TRAIN])
    fresh = frame.loc[N_TRAIN:, [*NUMBERS, "number"]]
    fresh.to_parquet(tmp_path / "fresh.parquet")
    expected = debias.audit(forest, tmp_path / "fresh.parquet", "number")
    in_memory = debias.audit(forest, fresh[NUMBERS], fresh["number"], test="naive", dependence=False)
    found = debias.audit(forest, on_spark[1].select(*NUMBERS, "number"), "number")
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-10)
    assert found.verdict == in_memory.verdict
    assert found.fingerprints["model_blake3"] == in_memory.fingerprints["model_blake3"]
    assert found.summary()


def test_columns_of_all_types_score_as_in_memory(spark, frame):
    from pyspark.sql import functions as F

    X = (
        frame[["a", "b"]]
        .fillna(0)
        .assign(
            whole=np.arange(len(frame)) % 7,
            flag=np.arange(len(frame)) % 3 == 0,
            money=(frame["d"].fillna(0) * 100).round(),
        )
    )
    forest = RandomForestRegressor(8, random_state=0, max_depth=6).fit(X[:N_TRAIN], frame["number"][:N_TRAIN])
    fresh = X[N_TRAIN:]
    typed = spark.createDataFrame(fresh.assign(number=frame["number"][N_TRAIN:])).select(
        F.col("a").cast("float").cast("double").alias("a"),
        "b",
        F.col("whole").cast("short").alias("whole"),
        "flag",
        F.col("money").cast("decimal(12, 2)").alias("money"),
        F.col("number").cast("decimal(38, 20)").alias("number"),
    )
    memory = fresh.assign(a=fresh["a"].astype(np.float32).astype(float))
    response = frame["number"][N_TRAIN:].map(lambda value: float(round(Decimal(value), 20)))
    assert_same_scores(debias.score(forest, typed, "number"), debias.score(forest, memory, response))
    holes = typed.withColumn("flag", F.expr("nullif(flag, true)")).withColumn("whole", F.expr("nullif(whole, 3)"))
    with_nan = memory.assign(
        flag=memory["flag"].where(~memory["flag"]).astype(float), whole=memory["whole"].where(memory["whole"] != 3)
    )
    hist = HistGradientBoostingRegressor(max_iter=8).fit(X[:N_TRAIN].astype(float), frame["number"][:N_TRAIN])
    assert_same_scores(debias.score(hist, holes, "number"), debias.score(hist, with_nan, response))


def test_vectors_of_spark_ml_score_as_in_memory(spark, frame):
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.linalg import Vectors

    X = frame[NUMBERS].fillna(0)
    X = X.where(X.abs() > 0.5, 0.0)  # the assembler stores such rows as sparse vectors
    named = RandomForestRegressor(8, random_state=0).fit(X[:N_TRAIN], frame["number"][:N_TRAIN])
    unnamed = RandomForestRegressor(8, random_state=0).fit(X[:N_TRAIN].to_numpy(), frame["number"][:N_TRAIN])
    df = spark.createDataFrame(X[N_TRAIN:].assign(number=frame["number"][N_TRAIN:]))
    other_order = VectorAssembler(inputCols=NUMBERS[::-1], outputCol="features").transform(df)
    kinds = {type(row.features).__name__ for row in other_order.select("features").limit(200).collect()}
    assert kinds == {"DenseVector", "SparseVector"}
    expected = debias.score(named, X[N_TRAIN:], frame["number"][N_TRAIN:])
    found = debias.score(named, other_order.select("features", "number"), "number")
    assert_same_scores(found, expected)  # by the names that the assembler stored
    in_order = VectorAssembler(inputCols=NUMBERS, outputCol="features").transform(df)
    found = debias.score(unnamed, in_order.select("features", "number"), "number")
    assert found.feature_names == tuple(NUMBERS)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-10)
    lists = in_order.selectExpr("array(a, b, c, d) AS row", "number")
    np.testing.assert_allclose(debias.score(unnamed, lists, "number").values, expected.values, rtol=1e-10)
    with pytest.raises(debias.RowsError, match="A vector is taken if it is the only column"):
        debias.score(unnamed, in_order, "number")
    short = spark.createDataFrame(
        [(Vectors.dense([1.0, 2.0]), 1.0), (Vectors.dense([1.0]), 1.0)], ["features", "number"]
    )
    with pytest.raises(debias.RowsError, match=r"lengths, from 1 to 2|2 features|1 features"):
        debias.score(unnamed, short, "number", rows="held-out")


def test_wrong_use_is_refused(spark, frame, on_spark):
    from pyspark.sql import functions as F

    train = frame[:N_TRAIN]
    forest = RandomForestRegressor(8, random_state=0).fit(train[NUMBERS], train["number"])
    df, on_connect = on_spark
    for y, weight, match in (
        ("nothing", None, "no column 'nothing' for y"),
        (None, None, "y must be the name of a column"),
        (frame["number"], None, "y must be the name of a column"),
        ("number", "nothing", "no column 'nothing' for sample_weight"),
        ("number", "number", "both the response and the weights"),
    ):
        with pytest.raises(debias.RowsError, match=match):
            debias.score(forest, df, y, sample_weight=weight)
    for wrong, match in (
        (df.withColumnRenamed("d", "z").drop("kind", "two"), r"partition . of the Spark frame.*missing: d; .*z"),
        (df.withColumn("d", F.current_timestamp()), r"neither numbers nor labels: d \(timestamp\)"),
        (df.withColumn("d", F.array(F.array("a"))).withColumn("c", F.lit("x")), r"d \(array\)"),
        (df.withColumn("number", F.expr("nullif(number, number)")), "y is missing or infinite in"),
        (df.filter("a > 1e9"), "no evaluation rows"),
        (df.select("*", "a"), "columns of the same name: a"),
        (df.withColumnRenamed("two", "A"), r"columns of the same name: A, a \(Spark ignores case"),
        (df.select("number"), "no columns besides the response"),
        (df.selectExpr("array(string(a)) AS row", "number"), "arrays of string; they must be of numbers"),
        (df.selectExpr("nullif(array(a), array(a)) AS row", "number"), r"partition \d of .* vectors has missing ones"),
        (df.selectExpr("if(b > 0, array(b), array(b, b)) AS row", "number"), r"partition \d of .* from 1 to 2"),
        (spark.readStream.format("rate").load(), "streaming frame of Spark has no end"),
    ):
        with pytest.raises(debias.RowsError, match=match):
            debias.score(forest, wrong, "number", rows="held-out")
    for each in on_spark:
        with pytest.raises(debias.RowsError, match=r"rows='oob' needs the training rows in training order"):
            debias.score(forest, each, "number", rows="oob")
        for call in (
            lambda each=each: debias.contributions(forest, each, "number"),
            lambda each=each: debias.score(forest, each, "number", "response_permutation(mdi)"),
            lambda each=each: debias.score(forest, debias.Dataset(each, "number", blocks="kind")),
            lambda each=each: debias.audit(forest, each, "number", scorers=["guide"]),
            lambda each=each: debias.partial_dependence(forest, each, "a"),
            lambda each=each: debias.NodeSums(forest).update(each, "number"),
            lambda each=each: debias.compare(forest, each, "number"),
        ):
            with pytest.raises(debias.DebiasError, match=r"df\.sample\(fraction=0\.01, seed=0\)"):
                call()
    with pytest.raises(debias.ProvenanceError):
        debias.score(forest, spark.createDataFrame(train[[*NUMBERS, "number"]]), "number")
    labels = RandomForestClassifier(5, random_state=0).fit(train[NUMBERS], train["two"])
    with pytest.raises(debias.RowsError, match=r"partition . of the Spark frame: .*maybe"):
        debias.score(labels, df.withColumn("two", F.lit("maybe")), "two")


def test_other_rows_in_the_second_pass_are_noticed(spark, frame, on_spark):
    from pyspark.sql import functions as F

    forest = RandomForestRegressor(8, random_state=0).fit(frame[NUMBERS][:N_TRAIN], frame["number"][:N_TRAIN])
    random = on_spark[0].withColumn(
        "d", F.udf(lambda: float(np.random.default_rng().normal()), "double").asNondeterministic()()
    )
    assert debias.score(forest, random, "number").n_rows == len(frame) - N_TRAIN
    with pytest.raises(debias.RowsError, match=r"other rows in a later pass .*\(\.cache\(\)"):
        debias.score(forest, random, "number", test="naive")


def test_pandas_on_spark_scores_as_the_frame_of_spark(on_spark, frame):
    pytest.importorskip("pyspark.pandas", reason="it does not know pandas 3", exc_type=ImportError)
    forest = RandomForestRegressor(8, random_state=0).fit(frame[NUMBERS][:N_TRAIN], frame["number"][:N_TRAIN])
    df = on_spark[0].select(*NUMBERS, "number")
    assert_same_scores(debias.score(forest, df.pandas_api(), "number"), debias.score(forest, df, "number"))


@pytest.mark.slow
def test_a_killed_executor_and_a_failed_task_are_repeated_with_the_same_numbers(frame, tmp_path):
    """A Spark of its own: a cluster of two processes on this machine, whose small driver takes few results."""
    code = CLUSTER.format(tests=str(Path(__file__).parent.parent), folder=str(tmp_path))
    numbers = frame[[*NUMBERS, "number", "weight"]]
    numbers[:N_TRAIN].to_parquet(tmp_path / "train.parquet")
    numbers[N_TRAIN:].to_parquet(tmp_path / "rows.parquet")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1200, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["failed once"] == found["plain"]
    assert found["executors killed"] == 1
    assert found["killed"] == found["plain"]
    assert "spark.driver.maxResultSize" in found["large"]


CLUSTER = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
import pandas as pd, debias
from pathlib import Path
from sklearn.ensemble import RandomForestRegressor
from support.spark import sessions
folder, names = Path({folder!r}), list("abcd")
frame = pd.read_parquet(folder / "train.parquet")
forest = RandomForestRegressor(8, random_state=0).fit(frame[names], frame["number"])
(folder / "spark").mkdir()

def fails_once(batches):
    from pathlib import Path
    from pyspark import TaskContext
    mark = Path({folder!r}) / "failed"
    if TaskContext.get().partitionId() == 1 and not mark.exists():
        mark.touch()
        raise OSError("a disk is gone")
    yield from batches

def kills_once(batches):
    import os, signal
    from pathlib import Path
    from pyspark import TaskContext
    mark = Path({folder!r}) / "killed"
    for batch in batches:
        if TaskContext.get().partitionId() == 2 and not mark.exists():
            mark.touch()
            daemon = os.getppid()
            executor = int(Path(f"/proc/{{daemon}}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(executor, signal.SIGKILL)  # Java, not only its Python
        yield batch

with sessions(folder / "spark", "local-cluster[2,1,1024]", spark_driver_maxResultSize="1m") as (spark, _):
    df = spark.read.parquet(str(folder / "rows.parquet")).filter("weight > 0.1").repartition(4, "weight").cache()
    df.count()
    def scored(rows):
        scores = debias.score(forest, rows, "number", test="naive", sample_weight="weight")
        return [scores.values.tolist(), scores.standard_error.tolist()]
    found = dict(plain=scored(df))
    found["failed once"] = scored(df.mapInArrow(fails_once, df.schema))
    found["killed"] = scored(df.mapInArrow(kills_once, df.schema))
    found["executors killed"] = int((folder / "killed").exists())
    many = RandomForestRegressor(100, random_state=0).fit(frame[names], frame["number"])
    try:
        debias.score(many, df, "number")
    except MemoryError as error:
        found["large"] = str(error)
print(json.dumps(found))
"""
