"""Tests of the adapter of YDF, against the library."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pandas as pd
import pytest

import debias
from debias.errors import DebiasWarning, InBagUnavailableError, ProvenanceError, RowsError, UnsupportedModelError
from debias.testing import check_adapter
from support import oracle

ydf = pytest.importorskip("ydf")
pytestmark = pytest.mark.integration
N = 300
REGRESSION = {"task": ydf.Task.REGRESSION}


@pytest.fixture(autouse=True)
def quiet():
    before = ydf.verbose(0)
    yield
    ydf.verbose(before or 0)


def draw(seed=0, missing=False):
    """Return a frame with columns of all kinds, and a response that depends on all but the last."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "x": rng.normal(size=N),
            "whole": rng.integers(0, 5, N),
            "yes": rng.integers(0, 2, N).astype(bool),
            "city": rng.choice(np.array(list("uvwxyz"), dtype=object), N),
            "noise": np.round(rng.normal(size=N), 1),
        }
    )
    y = (X["x"] + 0.3 * X["whole"] + X["yes"] + X["city"].isin(["u", "v"]) + 0.5 * rng.normal(size=N)).to_numpy()
    if missing:
        X.loc[rng.random(N) < 0.2, "x"] = np.nan
        X.loc[rng.random(N) < 0.2, "city"] = None
    return X, y


def labels(y, n_classes):
    return np.array(["low", "mid", "top"])[np.digitize(y, [1.4] if n_classes == 2 else [0.9, 1.9])]


def train(learner, X, y, **settings):
    return getattr(ydf, learner)(label="y", num_threads=1, **settings).train(X.assign(y=y))


FOREST = {"num_trees": 10, "compute_oob_performances": False}
BOOSTED = {"num_trees": 8, "max_depth": 4}
KINDS = {
    "forest of votes": ("RandomForestLearner", FOREST, 2),
    "forest of votes, 3 classes": ("RandomForestLearner", FOREST, 3),
    "forest of probabilities": ("RandomForestLearner", FOREST | {"winner_take_all": False}, 3),
    "forest of means": ("RandomForestLearner", FOREST | REGRESSION, None),
    "one-hot splits": ("RandomForestLearner", FOREST | {"categorical_algorithm": "ONE_HOT"}, 2),
    "discretized": (
        "RandomForestLearner",
        FOREST | REGRESSION | {"discretize_numerical_columns": True, "num_discretized_numerical_bins": 8},
        None,
    ),
    "splits on missing values": (
        "RandomForestLearner",
        FOREST | REGRESSION | {"allow_na_conditions": True, "missing_value_policy": "LOCAL_IMPUTATION"},
        None,
    ),
    "best first": ("RandomForestLearner", FOREST | REGRESSION | {"growing_strategy": "BEST_FIRST_GLOBAL"}, None),
    "CART": ("CartLearner", {}, 3),
    "CART of means": ("CartLearner", REGRESSION, None),
    "boosted": ("GradientBoostedTreesLearner", BOOSTED, 2),
    "boosted, 3 classes": ("GradientBoostedTreesLearner", BOOSTED, 3),
    "boosted means": ("GradientBoostedTreesLearner", BOOSTED | REGRESSION, None),
    "boosted medians": ("GradientBoostedTreesLearner", BOOSTED | REGRESSION | {"loss": "MEAN_AVERAGE_ERROR"}, None),
    "boosted counts": ("GradientBoostedTreesLearner", BOOSTED | REGRESSION | {"loss": "POISSON"}, 0),
    "dropout": ("GradientBoostedTreesLearner", BOOSTED | REGRESSION | {"dart_dropout": 0.3}, None),
}


def response(kind, y):
    n_classes = KINDS[kind][2]
    if n_classes is None:
        return y
    return labels(y, n_classes) if n_classes else np.round(np.exp(y / 2))


def fitted(kind, missing=False, seed=0):
    X, y = draw(seed, missing)
    learner, settings, _ = KINDS[kind]
    return train(learner, X, response(kind, y), **settings), X, response(kind, y)


# --- trees ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_adapter_keeps_its_contract(kind, missing):
    """Leaves and outputs are YDF's, at values next to thresholds and for missing values in every column too."""
    model, X, y = fitted(kind, missing)
    answered = set(check_adapter(model, X, y))
    assert answered >= {"debias_leaves", "debias_predict_raw", "debias_predict_native", "debias_reported_importance"}
    assert ("debias_in_bag" in answered) == ("RandomForest" in KINDS[kind][0])


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_rows_with_unknown_labels_warn_and_are_scored(kind):
    """A label that the model never saw is one of its own, and not missing; debias compares every output with YDF's."""
    model, _, _ = fitted(kind, missing=True)
    X, y = draw(seed=1, missing=True)
    X.loc[::7, "city"] = "elsewhere"
    with pytest.warns(DebiasWarning, match="'city' has values that the model never saw.*one category"):
        scores = debias.score(model, X, response(kind, y), rows="held-out")
    assert scores.values[0] > 0.05 * np.abs(scores.values).sum()


def test_rows_in_any_container_score_alike():
    model, _, _ = fitted("forest of means")
    X, y = draw(seed=1)
    expected = debias.score(model, X, y, rows="held-out").values
    pl = pytest.importorskip("polars")
    others = (
        pl.DataFrame({name: X[name].to_list() for name in X}),
        X.astype({"city": "category"}),
        X.astype({"x": np.float32, "noise": np.float32}),
    )
    for other in others:
        found = debias.score(model, other, y, rows="held-out").values
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    with pytest.warns(DebiasWarning, match="another order"):
        found = debias.score(model, X[X.columns[::-1]], y, rows="held-out").values
    np.testing.assert_array_equal(found, expected)


def test_arrays_have_the_columns_in_the_order_of_the_model():
    X, y = draw()
    X = X[["x", "whole", "noise"]]
    model = train("RandomForestLearner", X, y, **FOREST, **REGRESSION)
    np.testing.assert_array_equal(debias.score(model, X.to_numpy(), y).values, debias.score(model, X, y).values)


@pytest.mark.parametrize("kind", ["whole", "truth"])
def test_labels_are_those_of_training_and_not_their_texts(kind):
    X, y = draw()
    target = np.digitize(y, [0.9, 1.9]) + 8 if kind == "whole" else y > 1.4  # "10" is before "9" as a text
    model = train("RandomForestLearner", X, target, **FOREST)
    assert debias.plugin.extract(model).classes.tolist() == np.unique(target).tolist()
    assert debias.score(model, X, target).provenance["status"] == "rows proven, y unproven"


def test_columns_of_categories_that_are_whole_numbers():
    X, y = draw()
    y = y + 3 * (X["whole"] % 2)
    as_labels = [("whole", ydf.Semantic.CATEGORICAL), ("x", ydf.Semantic.NUMERICAL)]
    as_codes = [ydf.Column("whole", ydf.Semantic.CATEGORICAL, is_already_integerized=True), "x"]
    for features in (as_labels, as_codes):
        model = train("RandomForestLearner", X, y, features=features, **FOREST, **REGRESSION)
        check_adapter(model, X[["whole", "x"]], y)
        new, y_new = draw(seed=1)
        scores = debias.score(model, new[["whole", "x"]], y_new + 3 * (new["whole"] % 2), rows="held-out")
        assert dict(zip(scores.feature_names, scores.values, strict=True))["whole"] > 1


def test_votes():
    """The value of a leaf is its vote, as YDF predicts, and the scores say so."""
    model, X, y = fitted("forest of votes, 3 classes")
    ensemble = debias.plugin.extract(model)
    assert set(np.unique(ensemble.value[ensemble.left < 0])) == {0.0, 1.0}
    scores = debias.score(model, X, y)
    assert scores.provenance["status"] == "rows proven, y unproven"
    assert any("vote for one class each" in text for text in scores.warnings)


# --- bags ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"random_seed": 0}, {"random_seed": 42}, {"bootstrap_size_ratio": 0.37}])
def test_bags_are_those_of_ydf(settings):
    """A tree on the number of the row, grown to the end, shows in its leaves how often YDF drew each row."""
    X, y = pd.DataFrame({"row": np.arange(N, dtype=float)}), np.random.default_rng(0).normal(size=N)
    to_the_end = {"max_depth": -1, "min_examples": 1, "num_trees": 4, "compute_oob_performances": False}
    model = train("RandomForestLearner", X, y, **to_the_end, **settings, **REGRESSION)
    bags = debias.hooks.registry.plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=None)
    for number, tree in enumerate(model.iter_trees()):
        drawn = bags.draw(number)
        assert drawn.sum() == int(N * settings.get("bootstrap_size_ratio", 1))
        begin = 0
        for leaf, upper in leaves_by_row(tree.root):
            rows = slice(begin, min(N, int(np.ceil(upper))))
            assert drawn[rows].sum() == leaf.value.num_examples
            begin = rows.stop
    assert debias.score(model, X, y).provenance["status"] == "proven"


def leaves_by_row(node, upper=np.inf):
    """Return the leaves of a tree on one column in ascending order, with the bounds of their values."""
    if node.is_leaf:
        return [(node, min(upper, N))]
    return [
        *leaves_by_row(node.neg_child, min(upper, node.condition.threshold)),
        *leaves_by_row(node.pos_child, upper),
    ]


@pytest.mark.parametrize("kind", [name for name, (learner, *_) in KINDS.items() if "RandomForest" in learner])
def test_out_of_bag_rows_are_proven(kind):
    model, X, y = fitted(kind, missing=True)
    scores = debias.score(model, X, y)
    votes = KINDS[kind][2] and KINDS[kind][1].get("winner_take_all", True)
    assert scores.provenance["status"] == ("rows proven, y unproven" if votes else "proven")
    order = np.random.default_rng(0).permutation(N)
    for rows in ("auto", "oob"):
        with pytest.raises(ProvenanceError, match="values of the training response"):
            debias.score(model, X.iloc[order], y[order], rows=rows)
        with pytest.raises(ProvenanceError, match="values of the training response"):
            debias.score(model, X, y[order], rows=rows)
    with pytest.raises(ProvenanceError, match="hold other rows|in another order|differ"):
        debias.score(model, X.assign(x=X["x"].to_numpy()[::-1]), y, rows="oob")
    with pytest.raises(ProvenanceError, match=f"trained on {N} rows"):
        debias.score(model, X[1:], y[1:], rows="oob")


def test_a_seed_that_the_metadata_states_proves_the_bags(tmp_path):
    X, y = draw()
    model = train("RandomForestLearner", X, y, random_seed=54321, **FOREST, **REGRESSION)
    metadata = model.metadata()
    metadata.custom_fields["random_seed"] = "54321"
    model.set_metadata(metadata)
    assert debias.score(model, X, y).provenance["status"] == "proven"
    model.save(str(tmp_path / "model"))
    assert debias.score(debias.load_model(tmp_path / "model"), X, y).provenance["status"] == "proven"
    metadata.custom_fields["random_seed"] = "54320"
    model.set_metadata(metadata)
    with pytest.raises(ProvenanceError, match="random_seed 54320"):
        debias.score(model, X, y)


@pytest.mark.parametrize("target", ["numbers", "labels"])
def test_training_weights_are_proven(target):
    X, y = draw()
    y = y if target == "numbers" else labels(y, 3)
    weight = np.random.default_rng(0).random(N) + 0.5
    settings = FOREST | (REGRESSION if target == "numbers" else {"winner_take_all": False})
    learner = ydf.RandomForestLearner(label="y", weights="w", num_threads=1, **settings)
    model = learner.train(X.assign(y=y, w=weight))
    assert debias.score(model, X, y, sample_weight=weight).provenance["status"] == "proven"
    with pytest.raises(ProvenanceError, match="weights are different"):
        debias.score(model, X, y, rows="oob")
    with pytest.raises(ProvenanceError, match="other weights"):
        debias.score(model, X, y, rows="oob", sample_weight=weight[::-1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_seed": 54321}, "123456 and 0 to 999.*the values of the training response"),
        ({"sampling_with_replacement": False, "bootstrap_size_ratio": 0.6}, "sampling without replacement"),
        ({"bootstrap_training_dataset": False}, "grown on the same rows"),
        ({"missing_value_policy": "RANDOM_LOCAL_IMPUTATION"}, "columns of X differ|columns of X have other values"),
    ],
)
def test_other_bags_are_not_proven(settings, message):
    """With random values for missing ones, YDF grew the trees on other rows than it predicts for."""
    X, y = draw(missing=True)
    model = train("RandomForestLearner", X, y, **FOREST, **REGRESSION, **settings)
    with pytest.raises((InBagUnavailableError, ProvenanceError), match=message):
        debias.score(model, X, y, rows="oob")
    for target in (y, y[::-1]):
        with pytest.raises(ProvenanceError, match="training rows|training response"):
            debias.score(model, X, target)
    new, y_new = draw(seed=1, missing=True)
    assert debias.score(model, new, y_new, rows="held-out").values[0] > 0.3


@pytest.mark.parametrize("kind", [name for name, (learner, *_) in KINDS.items() if "RandomForest" not in learner])
def test_training_rows_of_models_without_bags_are_recognised(kind):
    model, X, y = fitted(kind)
    order = np.random.default_rng(0).permutation(N)
    with pytest.raises(ProvenanceError, match="training rows"):
        debias.score(model, X.iloc[order], y[order])
    with pytest.raises(InBagUnavailableError, match="no bags|no out-of-bag rows"):
        debias.score(model, X, y, rows="oob")


# --- scores --------------------------------------------------------------------------------------------


def form_of(model, columns):
    """Read a model without categories by YDF's own classes of trees."""
    boosted = isinstance(model, ydf.GradientBoostedTreesModel)
    n_outputs = len(model.initial_predictions()) if boosted else 1
    trees = []
    for number, tree in enumerate(model.iter_trees()):
        nodes: list[oracle.Node] = []

        def read(node, nodes=nodes):
            here = len(nodes)
            if node.is_leaf:
                nodes.append(oracle.Node([float(node.value.value)], node.value.num_examples))
                return here
            threshold = np.float32(node.condition.threshold)
            rule = lambda x, threshold=threshold: not np.float32(x) >= threshold  # noqa: E731
            name = model.data_spec().columns[node.condition.attribute].name
            nodes.append(oracle.Node([0.0], 0.0, columns.index(name), rule))
            nodes[here].left, nodes[here].right = read(node.neg_child), read(node.pos_child)
            return here

        read(tree.root)
        trees.append(oracle.Tree(nodes, number % n_outputs))
    base = [float(value) for value in model.initial_predictions()] if boosted else [0.0]
    loss = {1: "squared_error", 2: "logistic"}.get(n_outputs, "softmax")
    if boosted and model.task().name == "CLASSIFICATION":
        classes = model.label_classes()
        loss = "logistic" if n_outputs == 1 else "softmax"
    else:
        classes = None
    return oracle.Model(trees, len(columns), averaged=not boosted, loss=loss, base=base, classes=classes)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["boosted means", "boosted", "boosted, 3 classes"])
def test_held_out_scores_of_boosted_trees_are_the_definition(kind, weighted):
    columns = ["x", "whole", "noise"]
    learner, settings, _ = KINDS[kind]
    X, y = draw()
    model = train(learner, X[columns], response(kind, y), **settings)
    new, y_new = draw(seed=1)
    y_new = response(kind, y_new)
    weight = np.random.default_rng(3).integers(0, 4, N).astype(float) if weighted else None
    found = debias.score(model, new[columns], y_new, rows="held-out", sample_weight=weight).values
    seen = oracle.see_boosted(form_of(model, columns), new[columns].to_numpy(dtype=float), y_new, weight)
    expected = oracle.score("mdi_oob", seen, 3, averaged=False)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("rows", ["oob", "held-out"])
def test_scores_of_a_forest_are_the_definition(rows):
    columns = ["x", "whole", "noise"]
    X, y = draw()
    model = train("RandomForestLearner", X[columns], y, **FOREST, **REGRESSION)
    bags = debias.hooks.registry.plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=None)
    form = form_of(model, columns)
    new, y_new = (X, y) if rows == "oob" else draw(seed=1)
    matrix = new[columns].to_numpy(dtype=float)
    seen = []
    for number, tree in enumerate(form.trees):
        out = bags.draw(number) == 0 if rows == "oob" else np.ones(N, dtype=bool)
        members = oracle.arrivals(tree, matrix, [[value] for value in y_new], [(i, float(out[i])) for i in range(N)])
        values = [tree.value(t) for t in range(len(tree.nodes))]
        seen.append(oracle.Seen(tree, values, members, None, one_hot=False))
    expected = oracle.score("mdi_oob", seen, 3, averaged=True)
    found = debias.score(model, new[columns], y_new, rows=rows).values
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_reported_importance_is_that_of_ydf():
    model, X, y = fitted("boosted means")
    reported = {name: score for score, name in model.variable_importances()["SUM_SCORE"]}
    new, y_new = draw(seed=1)
    for scorer in ("native", "gain"):
        scores = debias.score(model, new, y_new, scorer, rows="held-out")
        assert dict(zip(scores.feature_names, scores.values, strict=True)) == pytest.approx(reported, rel=1e-6)


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # some of 30 fresh samples look like training rows
@pytest.mark.parametrize("rows", ["oob", "held-out"])
@pytest.mark.parametrize("learner", ["RandomForestLearner", "GradientBoostedTreesLearner"])
def test_noise_of_many_levels_scores_0_and_not_what_the_library_reports(learner, rows):
    """30 samples of pure noise; a mean of 30 scores is within 4 of its standard errors of 0."""
    if rows == "oob" and learner != "RandomForestLearner":
        pytest.skip("boosted trees have no out-of-bag rows")
    ours, reported = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        draws = [
            pd.DataFrame({"many": rng.normal(size=150), "two": rng.integers(0, 2, 150).astype(float)}) for _ in range(2)
        ]
        y, y_new = rng.normal(size=(2, 150))
        model = train(learner, draws[0], y, num_trees=20, max_depth=6, **REGRESSION)
        at = (draws[0], y) if rows == "oob" else (draws[1], y_new)
        ours.append(debias.score(model, *at, rows=rows).values)
        found = {name: score for score, name in model.variable_importances()["SUM_SCORE"]}
        reported.append([found.get("many", 0.0), found.get("two", 0.0)])
    standard_error = np.std(ours, axis=0, ddof=1) / np.sqrt(30)
    assert (np.abs(np.mean(ours, axis=0)) < 4 * standard_error).all()
    assert np.mean(reported, axis=0)[0] > 3 * np.mean(reported, axis=0)[1]


# --- refits and files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["forest of votes", "forest of means", "CART of means", "boosted, 3 classes"])
def test_a_refit_with_the_settings_gives_the_same_model(kind):
    learner, settings, _ = KINDS[kind]
    settings = {name: value for name, value in settings.items() if name not in ("task", "compute_oob_performances")}
    if "Boosted" in learner:
        settings |= {"validation_ratio": 0.0, "early_stopping": "NONE"}
    X, y = draw(missing=True)
    y = response(kind, y)
    task = {} if KINDS[kind][2] else REGRESSION
    model = train(learner, X, y, **settings, **task)
    again = debias.refit(model, X, y, params=settings)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    other = debias.refit(model, X[::2], y[::2], params=settings, random_state=2**31)
    assert type(other) is type(model)
    if learner == "RandomForestLearner":
        assert debias.score(other, X[::2], y[::2], rows="oob").provenance["kind"] == "oob"
    assert not np.array_equal(other.predict(X), model.predict(X))
    weighted = debias.refit(model, X, y, np.random.default_rng(0).random(N), params=settings)
    assert weighted.input_feature_names() == model.input_feature_names()
    assert not np.array_equal(weighted.predict(X), model.predict(X))


def test_a_refit_needs_the_settings():
    model, X, y = fitted("forest of means")
    with pytest.raises(UnsupportedModelError, match="does not keep the settings"):
        debias.refit(model, X, y)
    with pytest.raises(RowsError, match="cannot be refitted.*nonsense"):
        debias.refit(model, X, y, params={"nonsense": 1})
    X = X[["x", "whole", "noise"]]
    model = train("RandomForestLearner", X, y, **FOREST, **REGRESSION)
    scores = debias.score(model, X, y, "shadow(mdi_oob)", refits=debias.Refits(params={"max_depth": 4}), random_state=0)
    assert scores.values[0] > scores.values[2]


@pytest.mark.parametrize("kind", ["forest of votes", "boosted"])
def test_saved_models_score_the_same(kind, tmp_path):
    model, X, y = fitted(kind, missing=True)
    model.save(str(tmp_path / "model"))
    loaded = debias.load_model(tmp_path / "model")
    new, y_new = draw(seed=1, missing=True)
    y_new = response(kind, y_new)
    expected = debias.score(model, new, y_new, rows="held-out").values
    np.testing.assert_array_equal(debias.score(loaded, new, y_new, rows="held-out").values, expected)
    if kind == "forest of votes":
        np.testing.assert_array_equal(debias.score(loaded, X, y).values, debias.score(model, X, y).values)


def test_a_directory_of_tensorflow_decision_forests_is_read(tmp_path):
    """Such a directory has a model of YDF among its assets; TensorFlow is not needed to read it."""
    model, _, _ = fitted("boosted means")
    model.save(str(tmp_path / "assets"))
    (tmp_path / "saved_model.pb").touch()
    assert debias.plugin.extract(debias.load_model(tmp_path)).n_trees == model.num_trees()


def test_damaged_directories_are_refused(tmp_path):
    model, _, _ = fitted("forest of means")
    model.save(str(tmp_path / "whole"))
    for name in ("nodes-00000-of-00001", "data_spec.pb", "header.pb"):
        shutil.copytree(tmp_path / "whole", tmp_path / name)
        stored = (tmp_path / name / name).read_bytes()
        (tmp_path / name / name).write_bytes(stored[: len(stored) // 2])
        with pytest.raises(UnsupportedModelError):
            debias.load_model(tmp_path / name)


# --- what is refused -----------------------------------------------------------------------------------


def test_trees_without_one_column_a_split_are_refused():
    X, y = draw()
    numbers = X[["x", "noise"]]
    oblique = train("RandomForestLearner", numbers, y, split_axis="SPARSE_OBLIQUE", **FOREST, **REGRESSION)
    with pytest.raises(UnsupportedModelError, match="sums of several columns.*AXIS_ALIGNED"):
        debias.plugin.extract(oblique)
    texts = [["a", "b"][: k % 3] for k in range(N)]
    learner = ydf.RandomForestLearner(
        label="y", features=[("texts", ydf.Semantic.CATEGORICAL_SET)], **FOREST, **REGRESSION
    )
    with pytest.raises(UnsupportedModelError, match="'texts' of kind CATEGORICAL_SET.*one column of each item"):
        debias.plugin.extract(learner.train({"texts": texts, "y": y}))


def test_tasks_without_a_response_are_refused():
    X, y = draw()
    with pytest.raises(UnsupportedModelError, match="ANOMALY_DETECTION"):
        debias.plugin.extract(ydf.IsolationForestLearner(num_trees=3).train(X[["x", "noise"]]))
    treated = X[["x", "noise"]].assign(treatment=np.where(np.arange(N) % 2, "a", "b"), y=(y > 1).astype(int))
    uplift = {"uplift_treatment": "treatment", "task": ydf.Task.CATEGORICAL_UPLIFT}
    with pytest.raises(UnsupportedModelError, match="CATEGORICAL_UPLIFT.*treatments"):
        debias.plugin.extract(ydf.RandomForestLearner(label="y", num_trees=3, **uplift).train(treated))


@pytest.mark.filterwarnings("ignore:these are the training rows:debias.DebiasWarning")
@pytest.mark.parametrize("loss", ["LAMBDA_MART_NDCG", "XE_NDCG_MART", "BINARY_FOCAL_LOSS"])
def test_losses_without_a_gradient_of_a_row_allow_the_librarys_numbers_only(loss):
    X, y = draw()
    X = X[["x", "noise"]]
    if loss == "BINARY_FOCAL_LOSS":
        rows, extra = X.assign(y=(y > 1).astype(int)), {}
    else:
        rows = X.assign(y=np.clip(np.round(y), 0, 4), group=np.arange(N) // 10)
        extra = {"ranking_group": "group", "task": ydf.Task.RANKING}
    model = ydf.GradientBoostedTreesLearner(label="y", loss=loss, num_trees=3, **extra).train(rows)
    target = rows["y"]
    with pytest.raises(debias.errors.CompositionError, match=f"{loss}.*native, gain"):
        debias.score(model, X, target, rows="held-out")
    assert debias.score(model, X, target, "native", rows="held-out").values[0] > 0


@pytest.mark.parametrize("kind", ["numbers", "two classes"])
def test_a_loss_of_the_user_is_not_taken_for_that_of_ydf(kind):
    X, y = draw()
    functions = {
        "initial_predictions": lambda labels, weights: np.float32(0),
        "loss": lambda labels, predictions, weights: np.float32(np.mean((labels - predictions) ** 2)),
        "gradient_and_hessian": lambda labels, predictions: (
            (labels - predictions).astype(np.float32),
            np.full(len(labels), -1, dtype=np.float32),
        ),
    }
    if kind == "numbers":
        loss, target = ydf.RegressionLoss(activation=ydf.Activation.IDENTITY, **functions), y
    else:
        loss, target = ydf.BinaryClassificationLoss(activation=ydf.Activation.SIGMOID, **functions), (y > 1).astype(int)
    settings = REGRESSION if kind == "numbers" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of YDF, on threads
        model = train("GradientBoostedTreesLearner", X, target, loss=loss, num_trees=3, **settings)
    with pytest.raises(UnsupportedModelError, match="a loss of the user"):
        debias.plugin.extract(model)
