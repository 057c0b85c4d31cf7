"""Makes the files of tests/old_files/spark: small models of Spark ML, with what Spark predicts by them.

Each version is run in an environment of its own, with Java 17:

    python3.11 -m venv old && old/bin/pip install pyspark==3.5.9 "numpy<2.3" "pandas<2.3" setuptools
    python3.11 -m venv new && new/bin/pip install pyspark==4.3.0 "numpy<2.3" "pandas<2.3"
    old/bin/python tests/old_files/make_spark.py

It writes ``VERSION/NAME``, a directory that Spark saved, and ``VERSION/expected.json``: the vectors that the trees see
and the output for the fresh rows; and ``rows.csv``, which is the same for all versions. The first N_TRAIN rows are the
training rows.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyspark
from pyspark.ml import Pipeline
from pyspark.ml.classification import DecisionTreeClassifier, GBTClassifier, RandomForestClassifier
from pyspark.ml.feature import (
    Bucketizer,
    Imputer,
    IndexToString,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
    StringIndexer,
    VectorAssembler,
    VectorIndexer,
)
from pyspark.ml.regression import GBTRegressor, RandomForestRegressor
from pyspark.sql import SparkSession

HOME = Path(__file__).parent / "spark"
N, N_TRAIN = 160, 100
SMALL = {"seed": 1, "maxDepth": 3}


def rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=N).round(2),
            "b": rng.normal(size=N).round(2),
            "city": rng.choice(["Aix", "Bonn", "Cork", "Dax", "Enns"], N),
            "floors": rng.integers(1, 5, N),
        }
    )
    latent = frame.a + 2 * frame.city.isin(["Bonn", "Enns"]) + 0.3 * frame.floors + rng.normal(size=N)
    frame.loc[rng.random(N) < 0.1, "b"] = np.nan
    frame["price"], frame["sold"] = latent.round(2), np.where(latent > 1.5, "yes", "no")
    return frame


def stages():
    """Return the stages of each pipeline, and its response."""
    city = StringIndexer(inputCol="city", outputCol="city_code")
    whole = Imputer(inputCols=["b"], outputCols=["b_whole"])
    label = StringIndexer(inputCol="sold", outputCol="label")
    known = ["a", "b_whole", "city_code", "floors"]
    return {
        "forest": (
            [
                city,
                whole,
                label,
                OneHotEncoder(inputCols=["city_code"], outputCols=["city_hot"]),
                Bucketizer(splits=[-np.inf, 2, 3, np.inf], inputCol="floors", outputCol="height"),
                VectorAssembler(inputCols=["a", "b_whole", "city_hot", "height"], outputCol="features"),
                RandomForestClassifier(numTrees=4, **SMALL),
                IndexToString(inputCol="prediction", outputCol="said", labels=["no", "yes"]),
            ],
            "sold",
        ),
        "means": (
            [
                city,
                whole,
                VectorAssembler(inputCols=known, outputCol="all", handleInvalid="keep"),
                RandomForestRegressor(labelCol="price", featuresCol="all", numTrees=3, bootstrap=False, **SMALL),
            ],
            "price",
        ),
        "steps": (
            [
                city,
                whole,
                VectorAssembler(inputCols=known, outputCol="features"),
                GBTRegressor(labelCol="price", lossType="absolute", maxIter=4, **SMALL),
            ],
            "price",
        ),
        "odds": (
            [
                whole,
                label,
                VectorAssembler(inputCols=["a", "b_whole", "floors"], outputCol="v"),
                StandardScaler(inputCol="v", outputCol="v1", withMean=True),
                MinMaxScaler(inputCol="v1", outputCol="v2", min=-1.0, max=2.0),
                RobustScaler(inputCol="v2", outputCol="v3", withCentering=True),
                MaxAbsScaler(inputCol="v3", outputCol="features"),
                GBTClassifier(maxIter=4, stepSize=0.3, **SMALL),
            ],
            "sold",
        ),
        "tree": (
            [
                city,
                label,
                VectorAssembler(inputCols=["a", "city_code", "floors"], outputCol="v"),
                VectorIndexer(inputCol="v", outputCol="features", maxCategories=6),
                DecisionTreeClassifier(impurity="entropy", **SMALL),
            ],
            "sold",
        ),
    }


def main():
    frame = rows()
    HOME.mkdir(exist_ok=True)
    frame.to_csv(HOME / "rows.csv", index=False)
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "1"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    fresh = spark.createDataFrame(frame[N_TRAIN:])
    folder = HOME / pyspark.__version__
    expected = {}
    for name, (steps, _) in stages().items():
        model = Pipeline(stages=steps).fit(spark.createDataFrame(frame[:N_TRAIN]))
        model.write().overwrite().save(str(folder / name))
        trees = next(stage for stage in model.stages if hasattr(stage, "featureImportances"))
        shown = model.transform(fresh).toPandas()
        if name == "odds":
            output = [row[1] for row in shown["rawPrediction"]]
        else:
            column = "probability" if "probability" in shown else "prediction"
            output = [list(row) if column == "probability" else row for row in shown[column]]
        expected[name] = {
            "features": [row.toArray().tolist() for row in shown[trees.getFeaturesCol()]],
            "output": output,
            "importance": trees.featureImportances.toArray().tolist(),
        }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    for junk in [*folder.rglob("*.crc"), *folder.rglob("_SUCCESS")]:
        junk.unlink()
    spark.stop()


if __name__ == "__main__":
    main()
