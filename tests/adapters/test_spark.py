"""Tests of the adapter of Spark against a Spark of this machine: fitted models of Spark ML, XGBoost and LightGBM."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import debias
from debias.models.wrappers import unwrap
from debias.trees.routing import raw_output, route

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore::FutureWarning")]
N = 300
TREES = ("RandomForestClassifier", "DecisionTreeClassifier", "GBTClassifier")
TREES += tuple(name.replace("Classifier", "Regressor") for name in TREES)
KNOWN = ["a", "b", "city", "floors", "flag"]


def rows(seed, n=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.round(rng.normal(size=n), 1),
            "city": rng.choice(list("uvwxyz"), n),
            "floors": rng.integers(0, 4, n),
            "flag": rng.random(n) < 0.5,
        }
    )
    latent = frame["a"] + 2 * frame["city"].isin(["u", "z"]) + 0.5 * frame["floors"] + rng.normal(size=n)
    frame["price"], frame["sold"] = latent, np.where(latent > 1.5, "yes", "no")
    return frame


def estimator(name, **settings):
    from pyspark.ml import classification, regression

    module = classification if name.endswith("Classifier") else regression
    of_size = {"numTrees": 4} if "Forest" in name else {"maxIter": 4} if "GBT" in name else {}
    label = {} if name.endswith("Classifier") else {"labelCol": "price"}
    return getattr(module, name)(**{"seed": 1, "maxDepth": 4, **of_size, **label, **settings})


def prepared(**settings):
    """Return stages that make features of all kinds of columns."""
    from pyspark.ml.feature import OneHotEncoder, StringIndexer, VectorAssembler

    return [
        StringIndexer(inputCols=["city", "floors"], outputCols=["city_code", "floor_code"], **settings),
        OneHotEncoder(inputCols=["floor_code"], outputCols=["floor_hot"], dropLast=False),
        StringIndexer(inputCol="sold", outputCol="label"),
        VectorAssembler(inputCols=["a", "b", "city_code", "floor_hot", "flag"], outputCol="features"),
    ]


def response(name):
    return "sold" if "Classifi" in name else "price"


@pytest.fixture(scope="module")
def fitted(spark_sessions):
    """Return a function that fits each pipeline once."""
    from pyspark.ml import Pipeline

    found = {}

    def fit(name):
        if name not in found:
            stages = [*prepared(handleInvalid="keep"), estimator(name)]
            found[name] = Pipeline(stages=stages).fit(framed(spark_sessions[0], rows(0)))
        return found[name]

    return fit


def framed(spark, frame):
    """Return rows as a Spark frame of one partition, which small models are trained on fastest."""
    return spark.createDataFrame(frame).coalesce(1)


def transformed(spark, model, frame):
    """Return what Spark makes of rows: the vectors that the trees see, and its output."""
    last = model.stages[-1]
    kind = type(last).__name__
    output = {"GBTClassificationModel": "rawPrediction"}.get(kind, "probability" if "Class" in kind else "prediction")
    shown = model.transform(framed(spark, frame)).select(last.getFeaturesCol(), output).collect()
    features, found = np.array([row[0].toArray() for row in shown]), [row[1] for row in shown]
    if output == "prediction":
        return features, np.array(found)[:, None]
    vectors = np.array([vector.toArray() for vector in found])
    return features, vectors[:, 1:] if output == "rawPrediction" else vectors


@pytest.mark.parametrize("name", TREES)
def test_trees_and_columns_are_those_of_spark(name, fitted, spark):
    model, X = fitted(name), rows(1)
    features, output = transformed(spark, model, X)
    (member,) = unwrap(model, X)
    np.testing.assert_array_equal(member.X, features)
    leaves = route(member.ensemble, member.X)
    np.testing.assert_array_equal(leaves, member.model.leaves(member.X))  # Spark's own numbers of leaves
    np.testing.assert_allclose(raw_output(member.ensemble, leaves), output, rtol=0, atol=1e-12)
    np.testing.assert_allclose(member.model.predict(member.X), output, rtol=0, atol=1e-12)
    reported = model.stages[-1].featureImportances.toArray()
    np.testing.assert_allclose(member.model.reported_importance(), reported, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", TREES)
def test_statistics_of_nodes_are_those_of_the_training_rows(name, fitted, spark):
    X = rows(0)
    (member,) = unwrap(fitted(name), X)
    ensemble = member.ensemble
    leaves = route(ensemble, member.X)
    bagged = name.startswith("RandomForest")
    assert (ensemble.count is None) == bagged
    for tree in range(ensemble.n_trees):
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        reached = np.bincount(leaves[:, tree], minlength=nodes.stop - nodes.start)
        is_leaf = ensemble.left[nodes] < 0
        if not bagged:
            np.testing.assert_array_equal(reached[is_leaf], ensemble.weight[nodes][is_leaf])
            np.testing.assert_array_equal(ensemble.count[nodes], ensemble.weight[nodes])


@pytest.mark.parametrize("name", TREES)
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_a_saved_model_scores_as_the_fitted_one(name, fitted, tmp_path):
    model, X = fitted(name), rows(1)
    y = X[response(name)]
    scores = debias.score(model, X, y, rows="held-out")
    assert scores.feature_names == tuple(KNOWN)
    assert scores.values.argmax() in (0, 2)
    path = str(tmp_path / "model")
    model.write().save(path)
    saved = debias.load_model(path)
    np.testing.assert_array_equal(debias.score(saved, X, y, rows="held-out").values, scores.values)
    last = path + "-last"
    model.stages[-1].write().save(last)
    features = unwrap(saved, X)[0].X
    codes = y if response(name) == "price" else (y == model.stages[2].labels[1]).astype(float)
    alone = [
        debias.score(each, features, codes, rows="held-out").values
        for each in (model.stages[-1], debias.load_model(last))
    ]
    level = debias.score(model, X, y, rows="held-out", level="model").values
    np.testing.assert_array_equal(alone[0], level)
    np.testing.assert_array_equal(alone[1], level)


SETTINGS = {
    "weights and sampled rows": {"weightCol": "weight", "subsamplingRate": 0.7},
    "entropy": {"impurity": "entropy"},
    "no bootstrap": {"bootstrap": False},
}


@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_forests_of_any_settings_predict_alike(case, spark):
    from pyspark.ml import Pipeline

    X = rows(0).assign(weight=np.random.default_rng(1).integers(1, 4, N).astype(float))
    stages = [*prepared(), estimator("RandomForestClassifier", **SETTINGS[case])]
    model = Pipeline(stages=stages).fit(framed(spark, X))
    fresh = rows(1)
    features, output = transformed(spark, model, fresh.assign(weight=1.0))
    (member,) = unwrap(model, fresh)
    np.testing.assert_allclose(raw_output(member.ensemble, route(member.ensemble, features)), output, atol=1e-12)
    ensemble, importances = member.ensemble, member.model.reported_importance()
    np.testing.assert_allclose(importances, model.stages[-1].featureImportances.toArray(), atol=1e-12)
    weight, impurity = ensemble.weight, ensemble.impurity
    for split, (left, right) in zip(ensemble.splits, ensemble.children, strict=True):
        assert np.isclose(weight[split], weight[left] + weight[right])
    shares = ensemble.value
    wanted = (
        -(shares * np.log2(np.maximum(shares, 1e-300))).sum(axis=1)
        if case == "entropy"
        else 1 - (shares**2).sum(axis=1)
    )
    np.testing.assert_allclose(impurity, wanted, atol=1e-9)
    debias.score(model, fresh, fresh["sold"], "mdi", rows="held-out")


def test_missing_and_unknown_values_go_where_spark_sends_them(fitted, spark):
    from pyspark.ml.linalg import Vectors

    for name in ("RandomForestRegressor", "GBTRegressor"):
        (member,) = unwrap(fitted(name), rows(1))
        X = member.X[:60].copy()
        X[:20, 0], X[20:40, 2], X[40:, 2] = np.nan, 99, -1
        ours = raw_output(member.ensemble, route(member.ensemble, X))[:, 0]
        theirs = [fitted(name).stages[-1].predict(Vectors.dense(row)) for row in X]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_stages_of_scales_buckets_and_selections_are_traced(spark, tmp_path):
    from pyspark.ml import Pipeline
    from pyspark.ml import feature as of

    X = rows(0)
    X.loc[::7, "b"] = np.nan
    stages = [
        of.Imputer(inputCol="b", outputCol="b_whole", strategy="median"),
        of.Bucketizer(
            splitsArray=[[-np.inf, 0, 1, np.inf], [0, 2, 3]], inputCols=["a", "floors"], outputCols=["a3", "f2"]
        ),
        of.Binarizer(inputCol="b_whole", outputCol="b_high", threshold=0.2),
        of.VectorAssembler(inputCols=["a", "b_whole"], outputCol="v"),
        of.StandardScaler(inputCol="v", outputCol="v1", withMean=True),
        of.MinMaxScaler(inputCol="v1", outputCol="v2", max=3.0),
        of.RobustScaler(inputCol="v2", outputCol="v3"),
        of.MaxAbsScaler(inputCol="v3", outputCol="v4"),
        of.VectorAssembler(inputCols=["a3", "f2", "b_high", "v4", "flag"], outputCol="most"),
        of.VarianceThresholdSelector(featuresCol="most", outputCol="chosen", varianceThreshold=0.1),
        of.VectorSlicer(inputCol="chosen", outputCol="some", indices=[0, 1, 2, 3]),
        of.VectorIndexer(inputCol="some", outputCol="features", maxCategories=4, handleInvalid="keep"),
        estimator("RandomForestRegressor"),
    ]
    model = Pipeline(stages=[Pipeline(stages=stages[:4]), *stages[4:]]).fit(framed(spark, X))
    fresh = rows(1).assign(b=lambda frame: frame["b"].where(frame.index % 5 > 0))
    features, output = transformed(spark, model, fresh)
    path = str(tmp_path / "model")
    model.write().save(path)
    for each in (model, debias.load_model(path)):
        (member,) = unwrap(each, fresh)
        np.testing.assert_array_equal(member.X, features)
        np.testing.assert_allclose(raw_output(member.ensemble, route(member.ensemble, member.X)), output, atol=1e-12)
        assert set(member.columns.names) <= set(KNOWN)


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_spark_imputes_whole_numbers_in_whole_columns(spark):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import Imputer, VectorAssembler

    rng = np.random.default_rng(5)
    train, fresh = (
        pd.DataFrame({"a": rng.normal(size=N), "k": pd.array(rng.integers(0, 6, N), "Int64")}) for _ in range(2)
    )
    for part in (train, fresh):
        part["price"] = 10.0 * (part["k"] >= 3).astype(float) + part["a"]
        part.loc[part["a"] > 0.8, "k"] = pd.NA
    as_lists = [(a, None if k is pd.NA else int(k), price) for a, k, price in train.to_numpy(dtype=object)]
    stages = [Imputer(inputCol="k", outputCol="whole"), VectorAssembler(inputCols=["a", "whole"], outputCol="features")]
    df = spark.createDataFrame(as_lists, "a double, k int, price double")
    model = Pipeline(stages=[*stages, estimator("DecisionTreeRegressor", maxDepth=2)]).fit(df)
    assert 2.5 < model.stages[0].surrogateDF.first()["k"] < 3  # Spark imputes 2, on the other side of the split
    as_lists = [(a, None if k is pd.NA else int(k), price) for a, k, price in fresh.to_numpy(dtype=object)]
    df = spark.createDataFrame(as_lists, "a double, k int, price double")
    of_spark = model.transform(df).select("features", "price")
    expected = debias.score(model.stages[-1], of_spark, "price", rows="held-out").values
    found = debias.score(model, df, "price", rows="held-out").values
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    X = fresh[["a", "k"]]
    found = debias.score(model, X, fresh["price"], rows="held-out").values
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.warns(debias.DebiasWarning, match="it imputed 2: then pass the column as integers"):
        debias.score(model, X.astype({"k": float}), fresh["price"], rows="held-out")


@pytest.mark.parametrize("name", [name for name in TREES if "Classifier" in name])
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_labels_of_an_indexer_that_keeps_unknown_ones(name, spark):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import StringIndexer, VectorAssembler

    scores = []
    for keeps in ("error", "keep"):
        stages = [
            StringIndexer(inputCol="sold", outputCol="label", handleInvalid=keeps),
            VectorAssembler(inputCols=["a", "b", "floors"], outputCol="features"),
            estimator(name, featureSubsetStrategy="all") if "Forest" in name else estimator(name),
        ]
        model, X = Pipeline(stages=stages).fit(framed(spark, rows(0))), rows(1)
        scores.append(debias.score(model, X[["a", "b", "floors"]], X["sold"], rows="held-out").values)
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-12)


def test_a_model_whose_spark_has_stopped_is_refused(fitted, monkeypatch):
    from pyspark import SparkContext

    model = fitted("GBTRegressor")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    for each in (model, model.stages[-1]):
        with pytest.raises(debias.UnsupportedModelError, match=r"has stopped: pass the model before spark\.stop"):
            debias.score(each, rows(1)[KNOWN], rows(1)["price"])


def test_an_estimator_is_not_a_model(spark):
    from pyspark.ml import Pipeline

    X = rows(0)
    for unfitted in (estimator("GBTRegressor"), Pipeline(stages=prepared())):
        with pytest.raises(debias.UnsupportedModelError, match=r"is not fitted: pass the model that its fit\(\)"):
            debias.score(unfitted, X[["a", "b"]], X["price"])


def test_a_stage_that_is_not_known_is_refused(spark):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import PCA, VectorAssembler

    X = rows(0)
    stages = [VectorAssembler(inputCols=["a", "b"], outputCol="v"), PCA(k=1, inputCol="v", outputCol="features")]
    model = Pipeline(stages=[*stages, estimator("DecisionTreeRegressor")]).fit(framed(spark, X))
    with pytest.raises(debias.UnsupportedModelError, match="by a PCAModel, which debias cannot repeat"):
        debias.score(model, X, X["price"], rows="held-out")


def test_a_pipeline_without_trees_is_refused(spark):
    from pyspark.ml import Pipeline

    model = Pipeline(stages=prepared()).fit(framed(spark, rows(0)))
    with pytest.raises(debias.UnsupportedModelError, match="has no models of trees that debias knows"):
        debias.score(model, rows(0), rows(0)["price"], rows="held-out")


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_a_pipeline_that_starts_from_a_vector(spark):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import VectorAssembler, VectorIndexer

    X = rows(0)
    vectors = VectorAssembler(inputCols=["a", "b", "floors"], outputCol="given").transform(framed(spark, X))
    stages = [
        VectorIndexer(inputCol="given", outputCol="features", maxCategories=4),
        estimator("RandomForestRegressor"),
    ]
    model = Pipeline(stages=stages).fit(vectors)
    fresh = rows(1)[["a", "b", "floors"]]
    scores = debias.score(model, debias.Dataset(fresh, rows(1)["price"], feature_names=list(fresh)), rows="held-out")
    assert scores.feature_names == ("a", "b", "floors")
    with pytest.raises(debias.RowsError, match="reads 3 entries of the vector 'given'"):
        debias.score(model, fresh[["a"]], rows(1)["price"], rows="held-out")


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyspark leaves a pool of threads open
def test_the_best_model_of_a_search_is_scored(spark, tmp_path):
    from pyspark.ml import Pipeline
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.tuning import ParamGridBuilder, TrainValidationSplit

    forest = estimator("RandomForestRegressor")
    search = TrainValidationSplit(
        estimator=Pipeline(stages=[*prepared(), forest]),
        estimatorParamMaps=ParamGridBuilder().addGrid(forest.maxDepth, [1, 3]).build(),
        evaluator=RegressionEvaluator(labelCol="price"),
        seed=1,
    ).fit(framed(spark, rows(0)))
    X = rows(1)
    path = str(tmp_path / "search")
    search.write().save(path)
    found = [
        debias.score(model, X, X["price"], rows="held-out").values
        for model in (search, search.bestModel, debias.load_model(path))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_a_model_on_a_connect_server_is_refused_with_what_to_do(spark_sessions, monkeypatch, tmp_path):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import VectorAssembler

    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    X, path = rows(1), str(tmp_path / "model")
    stages = [VectorAssembler(inputCols=["a", "floors"], outputCol="features"), estimator("GBTRegressor")]
    model = Pipeline(stages=stages).fit(spark_sessions[1].createDataFrame(rows(0)))
    for each in (model, model.stages[-1]):
        with pytest.raises(debias.UnsupportedModelError, match=r"Spark Connect.*write\(\)\.save\(path\)"):
            debias.score(each, X, X["price"], rows="held-out")
    model.write().save(path)
    assert debias.score(debias.load_model(path), X, X["price"], rows="held-out").feature_names == ("a", "floors")


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.parametrize("name", ["RandomForestClassifier", "GBTRegressor"])
def test_a_fitted_pipeline_scores_a_spark_frame(name, fitted, spark_sessions):
    X, column = rows(1), response(name)
    expected = debias.score(fitted(name), X, X[column], rows="held-out")
    for session in spark_sessions:
        # The model does not read the column of dates, which debias does not take.
        frame = session.createDataFrame(X).selectExpr("*", "current_date() AS day")
        found = debias.score(fitted(name), frame, column, rows="held-out")
        assert found.feature_names == expected.feature_names
        np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-12)


def test_fitted_models_are_unwrapped_to_what_other_processes_can_read(fitted):
    X = rows(1)
    (member,) = unwrap(fitted("RandomForestRegressor"), X)
    sent = pickle.loads(pickle.dumps(member.model))
    assert sent.live is None
    np.testing.assert_array_equal(sent.leaves(member.X), member.model.leaves(member.X))


@pytest.mark.slow
def test_noise_scores_zero_where_spark_says_otherwise(spark):
    """A column of noise with many values: Spark gives it importance in every fit; here its mean is 0."""
    from pyspark.ml.feature import VectorAssembler

    known, n_fits = ["signal", "noise"], 30
    ours, spark_says = np.empty((n_fits, 2)), np.empty((n_fits, 2))
    forest = estimator("RandomForestRegressor", labelCol="y", numTrees=3, maxDepth=5)
    for fit in range(n_fits):
        rng = np.random.default_rng(fit)
        frame = pd.DataFrame({"signal": rng.integers(0, 2, 240) * 1.0, "noise": rng.normal(size=240)})
        frame["y"] = frame["signal"] + rng.normal(size=240)
        vectors = VectorAssembler(inputCols=known, outputCol="features").transform(framed(spark, frame[:120]))
        model = forest.copy().fit(vectors)
        fresh = frame[120:]
        ours[fit] = debias.score(model, fresh[known], fresh["y"], rows="held-out").values
        spark_says[fit] = model.featureImportances.toArray()
    error = ours.std(axis=0, ddof=1) / np.sqrt(n_fits)
    assert abs(ours[:, 1].mean()) < 3.5 * error[1]
    assert ours[:, 0].mean() > 10 * error[0]
    assert spark_says[:, 1].min() > 0.1


XGB = {"n_estimators": 5, "max_depth": 3, "num_workers": 1, "random_state": 0}


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_xgboost_on_spark_scores_as_its_booster(task, spark, tmp_path):
    pytest.importorskip("xgboost")
    from pyspark.ml import Pipeline
    from xgboost.spark import SparkXGBClassifier, SparkXGBRegressor

    kind, label = (SparkXGBClassifier, "label") if task == "classification" else (SparkXGBRegressor, "price")
    X, frame = rows(1), spark.createDataFrame(rows(0))
    pipeline = Pipeline(stages=[*prepared(), kind(label_col=label, features_col="features", **XGB)]).fit(frame)
    y = X[response(kind.__name__)]
    (member,) = unwrap(pipeline, X, y)
    scores = debias.score(pipeline, X, y, rows="held-out")
    assert scores.feature_names == tuple(KNOWN)
    inner = debias.score(pipeline.stages[-1].get_booster(), member.X, member.y, rows="held-out")
    level = debias.score(pipeline, X, y, rows="held-out", level="model")
    np.testing.assert_allclose(level.values, inner.values, rtol=1e-6)
    assert level.feature_names[:3] == ("a", "b", "city_code")
    path = str(tmp_path / "model")
    pipeline.write().save(path)
    saved = debias.score(debias.load_model(path), X, y, rows="held-out")
    np.testing.assert_array_equal(saved.values, scores.values)


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_xgboost_on_spark_keeps_columns_by_name(spark, tmp_path):
    pytest.importorskip("xgboost")
    from xgboost.spark import SparkXGBRegressor

    known, X = ["a", "b", "floors"], rows(1)
    frame = spark.createDataFrame(rows(0).astype({"floors": float}))
    model = SparkXGBRegressor(features_col=known, label_col="price", **XGB).fit(frame)
    path = str(tmp_path / "model")
    model.write().save(path)
    scores = debias.score(model, X[known], X["price"], rows="held-out")
    assert scores.feature_names == tuple(known)
    saved = debias.load_model(path)
    found = debias.score(saved, X[known].to_numpy(), X["price"], rows="held-out")
    np.testing.assert_array_equal(found.values, scores.values)


def test_lightgbm_of_synapseml_is_read_through_a_stand_in_for_its_java_object():
    """SynapseML's Java code is not on a package registry: its Python class holds an object with the same methods."""
    module = pytest.importorskip("synapse.ml.lightgbm.LightGBMRegressionModel")
    import lightgbm

    X = rows(0)[["a", "b", "floors"]]
    settings = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(settings, lightgbm.Dataset(X, rows(0)["price"]), 5)
    model = module.LightGBMRegressionModel.__new__(module.LightGBMRegressionModel)
    model._java_obj = SimpleNamespace(getNativeModel=booster.model_to_string)
    found = debias.score(model, rows(1)[["a", "b", "floors"]], rows(1)["price"], rows="held-out")
    expected = debias.score(booster, rows(1)[["a", "b", "floors"]], rows(1)["price"], rows="held-out")
    np.testing.assert_array_equal(found.values, expected.values)
    model._java_obj = None
