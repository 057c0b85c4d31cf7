"""Tests of the adapter of treelite: models of its importers and of its builder, files, and forests of cuML."""

from __future__ import annotations

import sys
import types

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.sparse import csr_matrix
from sklearn import ensemble

import debias
from debias.errors import (
    CompositionError,
    DebiasWarning,
    InBagUnavailableError,
    ProvenanceError,
    RowsError,
    UnsupportedModelError,
)
from debias.testing import check_adapter
from support import oracle

treelite = pytest.importorskip("treelite")
N = 300


def draw(seed=0):
    """Return rows of three columns, the last of six categories, and a response that depends on the first and last."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=N), rng.normal(size=N), rng.integers(0, 6, N)])
    return X, X[:, 0] + 2 * (X[:, 2] % 2) + 0.5 * rng.normal(size=N)


def classes(y):
    return np.digitize(y, [0.0, 1.5])


def two(y):
    return (y > 1).astype(int)


def counts(y):
    return np.round(np.exp(y / 2))


def same(y):
    return y


def pair(y):
    return np.column_stack([y, -y])


def of_sklearn(make, target):
    return lambda X, y: treelite.sklearn.import_model(make().fit(X, target(y)))


def of_xgboost(target, **settings):
    def train(X, y):
        rows = xgboost.DMatrix(X, target(y), feature_types=["q", "q", "c"], enable_categorical=True)
        return treelite.frontend.from_xgboost(xgboost.train({"max_depth": 3, "nthread": 1, **settings}, rows, 5))

    return train


def of_lightgbm(target, **settings):
    fixed = {"verbose": -1, "num_leaves": 6, "num_threads": 1, "min_data_per_group": 5, "cat_smooth": 1}

    def train(X, y):
        rows = lightgbm.Dataset(X, target(y), categorical_feature=[2])
        return treelite.frontend.from_lightgbm(lightgbm.train({**fixed, **settings}, rows, 5))

    return train


def trees(kind, **settings):
    if kind.startswith("Hist"):
        return lambda: getattr(ensemble, kind)(max_iter=5, random_state=0, **settings)
    return lambda: getattr(ensemble, kind)(n_estimators=5, random_state=0, **settings)


SAMPLED = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}
MODELS = {
    "forest of means": (of_sklearn(trees("RandomForestRegressor"), same), same),
    "forest of 3 classes": (of_sklearn(trees("RandomForestClassifier"), classes), classes),
    "forest of 2 classes": (of_sklearn(trees("RandomForestClassifier"), two), two),
    "forest of 2 responses": (of_sklearn(trees("RandomForestRegressor"), pair), pair),
    "extra trees": (of_sklearn(trees("ExtraTreesRegressor"), same), same),
    "sklearn boosted": (of_sklearn(trees("GradientBoostingRegressor"), same), same),
    "sklearn boosted classes": (of_sklearn(trees("GradientBoostingClassifier"), classes), classes),
    "hist": (of_sklearn(trees("HistGradientBoostingRegressor", categorical_features=[2]), same), same),
    "hist of 2 classes": (of_sklearn(trees("HistGradientBoostingClassifier"), two), two),
    "xgboost": (of_xgboost(same), same),
    "xgboost 2 classes": (of_xgboost(two, objective="binary:logistic"), two),
    "xgboost 3 classes": (of_xgboost(classes, objective="multi:softprob", num_class=3), classes),
    "xgboost counts": (of_xgboost(counts, objective="count:poisson"), counts),
    "xgboost hinge": (of_xgboost(two, objective="binary:hinge"), two),
    "xgboost forest": (of_xgboost(same, num_parallel_tree=3, subsample=0.5), same),
    "lightgbm": (of_lightgbm(same), same),
    "lightgbm roots": (of_lightgbm(same, reg_sqrt=True), same),
    "lightgbm 2 classes": (of_lightgbm(two, objective="binary", sigmoid=2.0), two),
    "lightgbm 3 classes": (of_lightgbm(classes, objective="multiclass", num_class=3), classes),
    "lightgbm one against all": (of_lightgbm(classes, objective="multiclassova", num_class=3), classes),
    "lightgbm forest": (of_lightgbm(same, **SAMPLED), same),
    "lightgbm forest of 2 classes": (of_lightgbm(two, objective="binary", **SAMPLED), two),
    "lightgbm forest of 3 classes": (of_lightgbm(classes, objective="multiclass", num_class=3, **SAMPLED), classes),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_adapter_keeps_its_contract(name):
    """Leaves and outputs are treelite's, at values next to thresholds and for missing values too."""
    train, target = MODELS[name]
    X, y = draw()
    answered = check_adapter(train(X, y), X, target(y))
    assert set(answered) >= {"debias_leaves", "debias_predict_raw", "debias_predict_native"}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("xgboost hinge", "forest of 2 responses")])
def test_scores_are_those_of_the_model_that_it_was_made_from(name, monkeypatch):
    """By the adapters of the other libraries, which read loss and training weights from their own models."""
    train, target = MODELS[name]
    X, y = draw()
    made_from = []
    for owner, function in (
        (treelite.sklearn, "import_model"),
        (treelite.frontend, "from_xgboost"),
        (treelite.frontend, "from_lightgbm"),
    ):
        read = getattr(owner, function)
        monkeypatch.setattr(owner, function, lambda model, read=read: made_from.append(model) or read(model))
    model = train(X, y)
    X_new, y_new = draw(1)
    found = debias.score(model, X_new, target(y_new), rows="held-out")
    original = debias.score(made_from[0], X_new, target(y_new), rows="held-out")
    np.testing.assert_allclose(found.values, original.values, rtol=1e-9, atol=1e-12)
    assert found.feature_names == ("f0", "f1", "f2")


def test_training_rows_are_recognised_where_counts_are_stored():
    X, y = draw()
    order = np.random.default_rng(0).permutation(N)
    for name in ("forest of means", "sklearn boosted classes", "lightgbm", "xgboost", "hist"):
        train, target = MODELS[name]
        model = train(X, y)
        with pytest.raises(ProvenanceError, match="training rows"):
            debias.score(model, X[order], target(y)[order])
        fresh = debias.score(model, draw(1)[0], target(draw(1)[1])).provenance
        assert "the model does not store on how many of them" in fresh["detail"]  # rows may have been drawn for a tree
        with pytest.raises(InBagUnavailableError, match="does not keep which rows"):
            debias.score(model, X, target(y), rows="oob")


def test_rows_must_be_stated_where_nothing_is_known():
    X, y = draw()
    with pytest.raises(ProvenanceError, match="does not store how many training rows"):
        debias.score(MODELS["xgboost 2 classes"][0](X, y), X, two(y))
    with pytest.warns(DebiasWarning, match="not plain counts"):  # bags of LightGBM, of cuML, or of others
        debias.score(MODELS["lightgbm forest"][0](X, y), *draw(1))


def test_names_are_those_of_the_rows():
    X, y = draw()
    model = MODELS["forest of means"][0](X, y)
    frame = pd.DataFrame(X, columns=["age", "noise", "city"])
    found = debias.score(model, frame.assign(age=draw(1)[0][:, 0]), y, rows="held-out")
    assert found.feature_names == ("age", "noise", "city")
    with pytest.raises(RowsError, match="2 features, but the model was trained on 3"):
        debias.score(model, X[:, :2], y, rows="held-out")
    with pytest.raises(RowsError, match="sparse"):
        debias.score(model, csr_matrix(X), y, rows="held-out")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # some of 20 fresh samples look like training rows
@pytest.mark.parametrize("name", ["forest of means", "lightgbm", "xgboost"])
def test_noise_of_many_levels_scores_0(name):
    """20 samples of pure noise; a mean of 20 scores is within 4 of its standard errors of 0, and gain is inflated."""
    ours, gain = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, X_new = (
            np.column_stack([rng.normal(size=N), rng.integers(0, 2, N), rng.integers(0, 2, N)]) for _ in range(2)
        )
        y, y_new = rng.normal(size=(2, N))
        model = MODELS[name][0](X, y)
        ours.append(debias.score(model, X_new, y_new, rows="held-out").values)
        gain.append(debias.score(model, X_new, y_new, "gain", rows="held-out").values)
    standard_error = np.std(ours, axis=0, ddof=1) / np.sqrt(20)
    assert (np.abs(np.mean(ours, axis=0)) < 4 * standard_error).all()
    assert np.mean(gain, axis=0)[0] > 3 * np.mean(gain, axis=0)[1]


# --- models of the builder -----------------------------------------------------------------------------


def built(tests, leaves, n_features=2, dtype="float32", **header):
    """Return a model of stumps with treelite's builder: (feature, operator, threshold, default left) and two leaves."""
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    settings = {"task_type": "kRegressor", "average_tree_output": False, "num_target": 1, "num_class": [1]}
    settings |= {"leaf_vector_shape": (1, 1), "postprocessor": "identity", "target_id": 0, "class_id": 0} | header
    n_outputs = settings["num_target"] * max(settings["num_class"])
    builder = ModelBuilder(
        threshold_type=dtype,
        leaf_output_type=dtype,
        metadata=Metadata(
            num_feature=n_features,
            **{
                name: settings[name]
                for name in ("task_type", "average_tree_output", "num_target", "num_class", "leaf_vector_shape")
            },
        ),
        tree_annotation=TreeAnnotation(
            num_tree=len(tests),
            target_id=[settings["target_id"]] * len(tests),
            class_id=[settings["class_id"]] * len(tests),
        ),
        postprocessor=PostProcessorFunc(name=settings["postprocessor"]),
        base_scores=[0.0] * n_outputs,
    )
    for (feature, operator, threshold, default_left), pair_of_leaves in zip(tests, leaves, strict=True):
        builder.start_tree()
        builder.start_node(0)
        builder.numerical_test(
            feature_id=feature,
            threshold=threshold,
            default_left=default_left,
            opname=operator,
            left_child_key=1,
            right_child_key=2,
        )
        builder.end_node()
        for key, leaf in enumerate(pair_of_leaves, 1):
            builder.start_node(key)
            builder.leaf(leaf)
            builder.end_node()
        builder.end_tree()
    return builder.commit()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("default_left", [False, True])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_every_operator_keeps_the_contract(operator, default_left, dtype):
    """The kit tries values at, below and above each threshold, and missing values."""
    tests = [(0, operator, 0.1, default_left), (1, operator, -2.0, not default_left)]
    model = built(tests, [(1.0, 2.0), (-1.0, 5.0)], dtype=dtype)
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(dtype)
    check_adapter(model, X, X[:, 0].astype(float))


def test_held_out_scores_are_the_definition():
    model = built([(0, "<", 0.1, True), (1, ">=", -0.2, False)], [(1.0, 2.0), (-1.0, 5.0)])
    X, y = draw()
    stumps = [
        [oracle.Node([0.0], 0.0, 0, lambda x: np.float32(x) < np.float32(0.1), 1, 2), (1.0, 2.0)],
        [oracle.Node([0.0], 0.0, 1, lambda x: np.float32(x) >= np.float32(-0.2), 1, 2), (-1.0, 5.0)],
    ]
    trees = [oracle.Tree([node, *(oracle.Node([leaf], 1.0) for leaf in leaves)]) for node, leaves in stumps]
    form = oracle.Model(trees, 2, averaged=False, base=[0.0])
    expected = oracle.score("mdi_oob", oracle.see_boosted(form, X[:, :2], y), 2, averaged=False)
    scores = debias.score(model, X[:, :2], y, rows="held-out")
    np.testing.assert_allclose(scores.values, expected, rtol=1e-9)
    assert any("does not keep the loss" in text for text in scores.warnings)


def test_probabilities_of_the_second_class_are_one_of_two_outputs():
    model = built([(0, "<", 0.0, True)], [(0.25, 0.75)], task_type="kBinaryClf", average_tree_output=True)
    X, y = draw()
    check_adapter(model, X[:, :2], two(y))
    assert debias.plugin.extract(model).n_outputs == 2


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"task_type": "kIsolationForest", "postprocessor": "exponential_standard_ratio"}, "isolation forest"),
        ({"postprocessor": "exponential_standard_ratio"}, "'exponential_standard_ratio'.*no loss"),
    ],
)
def test_models_without_a_loss_are_refused(header, message):
    with pytest.raises(UnsupportedModelError, match=message):
        debias.plugin.extract(built([(0, "<", 0.0, True)], [(0.25, 0.75)], **header))


def test_a_test_for_equality_is_refused():
    with pytest.raises(UnsupportedModelError, match="tests other than"):
        debias.plugin.extract(built([(0, "==", 0.0, True)], [(0.25, 0.75)]))


def test_rankers_have_no_gradient_of_a_row():
    X, y = draw()
    query = np.repeat(np.arange(N // 10), 10)
    rows = xgboost.DMatrix(X, classes(y), qid=query)
    model = treelite.frontend.from_xgboost(xgboost.train({"objective": "rank:ndcg", "nthread": 1}, rows, 3))
    with pytest.raises(CompositionError, match="one group"):
        debias.score(model, X, classes(y), rows="held-out")
    assert debias.score(model, X, classes(y), "gain", rows="held-out").values[0] > 0


# --- files ---------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["forest of 3 classes", "lightgbm"])
def test_a_model_from_a_file_scores_the_same(name, tmp_path):
    train, target = MODELS[name]
    model = train(*draw())
    model.serialize(tmp_path / "model.tl")
    loaded = debias.load_model(tmp_path / "model.tl")
    X, y = draw(1)
    found, expected = (debias.score(each, X, target(y), rows="held-out").values for each in (loaded, model))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.thorough
def test_damaged_files_are_refused(tmp_path):
    """A native reader of damaged files may crash, so it reads them in another process first."""
    MODELS["lightgbm"][0](*draw()).serialize(tmp_path / "whole")
    stored = (tmp_path / "whole").read_bytes()
    for part in (stored[:30], stored[: len(stored) // 2], stored[:14] + b"\xff" * 40 + stored[54:]):
        (tmp_path / "damaged.tl").write_bytes(part)
        with pytest.raises(UnsupportedModelError):
            debias.load_model(tmp_path / "damaged.tl")


# --- cuML ----------------------------------------------------------------------------------------------


@pytest.fixture
def cuml(monkeypatch):
    """Stand-ins for cuML's forests, which need a GPU: they export a forest of scikit-learn, as cuML exports its own."""

    class Forest:
        def __init__(self, kind):
            self.forest = getattr(ensemble, kind)(5, random_state=0)

        def fit(self, X, y):
            if hasattr(self.forest, "predict_proba"):
                self.classes_, y = np.unique(y, return_inverse=True)
            model = treelite.sklearn.import_model(self.forest.fit(X, y))
            self._treelite_model_bytes = model.serialize_bytes()
            return self

        def as_treelite(self):
            return treelite.Model.deserialize_bytes(self._treelite_model_bytes)

    names = ("RandomForestClassifier", "RandomForestRegressor")
    kinds = {
        name: type(name, (Forest,), {"__init__": lambda self, name=name: Forest.__init__(self, name)}) for name in names
    }
    module = types.SimpleNamespace(**kinds)
    monkeypatch.setitem(sys.modules, "cuml.ensemble", module)
    return module


def test_forests_of_cuml_are_those_that_they_export(cuml):
    X, y = draw()
    X_new, y_new = draw(1)
    regressor = cuml.RandomForestRegressor().fit(X, y)
    found = debias.score(regressor, X_new, y_new, rows="held-out").values
    np.testing.assert_array_equal(found, debias.score(regressor.as_treelite(), X_new, y_new, rows="held-out").values)
    check_adapter(regressor, X, y)
    names = np.array(["low", "mid", "top"])
    classifier = cuml.RandomForestClassifier().fit(X, names[classes(y)])
    found = debias.score(classifier, X_new, names[classes(y_new)], rows="held-out").values
    expected = debias.score(classifier.as_treelite(), X_new, classes(y_new), rows="held-out").values
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(RowsError, match="label 'other'"):
        debias.score(classifier, X_new, np.full(N, "other"), rows="held-out")
    with pytest.raises(UnsupportedModelError, match="cuML RandomForestRegressor is not fitted"):
        debias.score(cuml.RandomForestRegressor(), X, y)
