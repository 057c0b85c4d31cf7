"""Tests of the adapters of CatBoost, imbalanced-learn and quantile-forest, against the libraries."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestRegressor
from sklearn.ensemble._forest import ForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias
from debias.data.table import Table
from debias.errors import DebiasWarning, InBagUnavailableError, ProvenanceError, UnsupportedModelError
from debias.models.wrappers import unwrap
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog
from support import oracle

pytestmark = pytest.mark.integration
N = 240
TASKS = {"regression": "RMSE", "binary": "Logloss", "3-class": "MultiClass"}


def draw(task="regression", missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=N), rng.integers(0, 2, N), np.round(rng.normal(size=N), 1)])
    latent = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=N)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    if task == "regression":
        return X, latent
    return X, np.array(["low", "mid", "top"])[np.digitize(latent, [0.8] if task == "binary" else [-0.3, 1.2])]


def boosted(task="regression", **settings):
    catboost = pytest.importorskip("catboost")
    kind = catboost.CatBoostRegressor if task == "regression" else catboost.CatBoostClassifier
    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
    return kind(**{"iterations": 8, "depth": 3, "loss_function": TASKS[task], **quiet, **settings})


def assert_agrees(model, X, native=None):
    """Compare the common form's leaves and raw output of rows with the library's own of `native`, the same rows."""
    native = X if native is None else native
    (member,) = unwrap(model, X)
    ensemble = member.ensemble
    ours = route(ensemble, Table(member.X).aligned_to(ensemble, WarningLog()).matrix(ensemble))
    # Leaf numbers are compared through the table of leaf values; a tree's numbers and ours must pair one to one.
    theirs = model.calc_leaf_indexes(native)
    for tree in range(ensemble.n_trees):
        pairs = set(zip(ours[:, tree].tolist(), theirs[:, tree].tolist(), strict=True))
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    raw = np.reshape(model.predict(native, prediction_type="RawFormulaVal"), (len(X), -1))
    np.testing.assert_allclose(raw_output(ensemble, ours), raw, rtol=0, atol=1e-12 * (1 + np.abs(raw).max()))
    return ensemble


# --- CatBoost ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("task", TASKS)
def test_leaves_and_margins_are_those_of_catboost(task, grow_policy, nan_mode):
    X, y = draw(task, missing=True)
    deep = {} if grow_policy == "SymmetricTree" else {"depth": 6, "min_data_in_leaf": 5}
    model = boosted(task, grow_policy=grow_policy, nan_mode=nan_mode, **deep).fit(X, y)
    X_new, y_new = draw(task, missing=True, seed=1)
    ensemble = assert_agrees(model, X_new)
    assert ensemble.n_outputs == (3 if task == "3-class" else 1)
    debias.score(model, X_new, y_new, rows="held-out")  # compares leaf numbers as well


def brute_force(model, tmp_path, wide):
    """Read symmetric trees of numbers from JSON, nodes as a heap: trees of all classes (`wide`), or one a class."""
    model.save_model(str(tmp_path / "model.json"), format="json")
    stored = json.loads((tmp_path / "model.json").read_text())
    scale, bias = stored["scale_and_bias"]
    trees = []
    for tree in stored["oblivious_trees"]:
        splits, weights = tree["splits"], tree["leaf_weights"]
        values, depth = np.reshape(tree["leaf_values"], (len(weights), -1)), len(splits)
        for k in [0] if wide else range(values.shape[1]):
            part = values if wide else values[:, [k]]
            nodes = []
            for t in range(2 ** (depth + 1) - 1):
                level = (t + 1).bit_length() - 1
                if level == depth:
                    path = format(t + 1 - 2**depth, f"0{depth}b") if depth else ""
                    leaf = sum(int(way) << bit for bit, way in enumerate(path))
                    nodes.append(oracle.Node((scale * part[leaf]).tolist(), weights[leaf]))
                    continue
                border = splits[level]["border"]
                nodes.append(
                    oracle.Node(
                        [0.0],
                        0.0,
                        splits[level]["float_feature_index"],
                        lambda x, border=border: not np.float32(x) > border,
                        2 * t + 1,
                        2 * t + 2,
                    )
                )
            trees.append(oracle.Tree(nodes, k))
    loss = {"RMSE": "squared_error", "Logloss": "logistic", "MultiClass": "softmax"}[
        model.get_all_params()["loss_function"]
    ]
    classes = None if loss == "squared_error" else np.asarray(model.classes_).tolist()
    return oracle.Model(trees, 3, averaged=False, loss=loss, base=list(bias), classes=classes)


@pytest.mark.parametrize("scorer", ["mdi_oob", "oob_loss"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_held_out_scores_are_the_definition(task, weighted, scorer, tmp_path):
    X, y = draw(task)
    model = boosted(task, iterations=5).fit(X, y)
    X_new, y_new = draw(task, seed=1)
    weight = np.random.default_rng(3).integers(0, 4, N).astype(float) if weighted else None
    form = brute_force(model, tmp_path, wide=scorer == "oob_loss")
    found = debias.score(model, X_new, y_new, scorer=scorer, rows="held-out", sample_weight=weight).values
    if scorer == "oob_loss":
        expected = oracle.running_loss(form, X_new, y_new, weight)[0]
    else:
        expected = oracle.score(scorer, oracle.see_boosted(form, X_new, y_new, weight), 3, averaged=False)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_integer_weights_are_repeated_rows():
    X, y = draw("3-class")
    model = boosted("3-class").fit(X, y, sample_weight=np.random.default_rng(5).random(N))
    X_new, y_new = draw("3-class", seed=1)
    times = np.random.default_rng(3).integers(0, 4, N)
    weighted = debias.score(model, X_new, y_new, rows="held-out", sample_weight=times.astype(float)).values
    repeated = debias.score(model, np.repeat(X_new, times, axis=0), np.repeat(y_new, times), rows="held-out").values
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-10)


GROWN = {
    "default depth": {"depth": 6, "iterations": 30},
    "depth 3": {},
    "sampled rows": {"bootstrap_type": "Bernoulli", "subsample": 0.6, "iterations": 30},
    "weights of a Bayesian bootstrap": {"bootstrap_type": "Bayesian", "bagging_temperature": 3, "iterations": 30},
    "shrunk": {"model_shrink_rate": 0.1, "iterations": 30},
    "ordered": {"boosting_type": "Ordered", "iterations": 30},
    "Depthwise": {"grow_policy": "Depthwise"},
    "Lossguide": {"grow_policy": "Lossguide"},
}


@pytest.mark.parametrize("how", GROWN)
@pytest.mark.parametrize("task", TASKS)
def test_training_rows_are_recognised_in_any_order(task, how):
    """Symmetric trees have leaves without rows: those hold no training row again."""
    X, y = draw(task)
    model = boosted(task, **GROWN[how]).fit(X, y)
    order = np.random.default_rng(0).permutation(N)
    with pytest.warns(DebiasWarning, match="training rows"):
        debias.score(model, X[order], y[order], rows="held-out")
    with pytest.raises(ProvenanceError, match="these are the training rows"):
        debias.score(model, X[order], y[order])


@pytest.mark.parametrize("task", TASKS)
def test_a_part_of_the_training_rows_is_never_silent_and_fresh_rows_are_not_refused(task):
    found = {"half": [], "fresh": []}
    for seed in range(10):
        X, y = draw(task, seed=seed)
        model = boosted(task, depth=6, iterations=30).fit(X, y)
        half = np.random.default_rng(seed).permutation(N)[: N // 2]
        for what, rows in {"half": (X[half], y[half]), "fresh": draw(task, seed=seed + 50)}.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    provenance = debias.score(model, *rows).provenance
                except ProvenanceError:
                    found[what].append("seen")
                else:
                    looks_so = "training rows, as estimated" in provenance["detail"]
                    found[what].append("seen" if looks_so else provenance["status"])
    # With a probability of 0.05 each, four or more of 10 fresh sets have one of 0.1 %.
    assert found["fresh"].count("seen") < 4
    assert found["half"].count("seen") >= 4
    assert "not recognised as training rows" not in found["half"]


def test_an_audit_of_noise_on_training_rows_finds_nothing_because_it_is_refused():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(400, 10)), rng.normal(size=400)
    model = boosted(iterations=200, depth=6).fit(X, noise)
    with pytest.raises(ProvenanceError, match="these are the training rows"):
        debias.audit(model, X, noise)


@pytest.mark.parametrize(
    "settings",
    [{"auto_class_weights": "Balanced"}, {"class_weights": [1, 3]}, {"scale_pos_weight": 3}, {"weights": True}],
)
def test_weights_of_training_rows_leave_nothing_to_tell_by(settings):
    settings = dict(settings)
    rng = np.random.default_rng(0)
    X, y = draw("binary")
    weight = rng.random(N) if settings.pop("weights", False) else None
    model = boosted("binary", **settings).fit(X, y, sample_weight=weight)
    with pytest.raises(ProvenanceError, match="cannot check whether these rows contain training rows"):
        debias.score(model, X[:100], y[:100])
    scores = debias.score(model, X[:100], y[:100], rows="held-out")
    assert scores.provenance["status"] == "cannot be told"
    assert "cannot check whether these rows contain training rows" in scores.warnings[-1]


def test_probabilities_as_the_response_have_the_loss_of_the_definition():
    """By the definition of the loss: what is saved from the constant margin on, on fresh rows."""
    catboost = pytest.importorskip("catboost")
    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    X, latent = draw()
    model = catboost.CatBoost({"loss_function": "CrossEntropy", "iterations": 20, "depth": 3, **quiet})
    model.fit(X, 1 / (1 + np.exp(-latent)))
    X_new, latent_new = draw(seed=1)
    p, margin = 1 / (1 + np.exp(-latent_new)), model.predict(X_new, prediction_type="RawFormulaVal")
    scores = debias.score(model, X_new, p, "oob_loss")

    def loss(margin):
        return np.mean(np.log1p(np.exp(margin)) - p * margin)

    saved = loss(debias.plugin.extract(model).base[0]) - loss(margin)
    assert scores.values.sum() + scores.details["base"] == pytest.approx(saved)
    with pytest.raises(ProvenanceError, match="these are the training rows"):
        debias.score(model, X[::-1], 1 / (1 + np.exp(-latent[::-1])))


def test_a_sum_of_models_does_not_know_its_objective():
    catboost = pytest.importorskip("catboost")
    X, y = draw()
    models = [boosted(random_seed=seed).fit(X, y) for seed in (0, 1)]
    with pytest.raises(UnsupportedModelError, match="keeps no training parameters.*catboost.sum_models"):
        debias.plugin.extract(catboost.sum_models(models, weights=[0.5, 0.5]))


def test_scale_and_bias_are_read():
    X, y = draw()
    model = boosted().fit(X, y)
    model.set_scale_and_bias(-2.5, 7.0)
    assert_agrees(model, X)


def test_losses_that_are_not_known_are_refused_by_name():
    X, y = draw()
    with pytest.raises(UnsupportedModelError, match="RMSEWithUncertainty"):
        debias.plugin.extract(boosted(loss_function="RMSEWithUncertainty").fit(X, y))
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        debias.plugin.extract(boosted())


def test_boosted_trees_have_no_out_of_bag_rows():
    X, y = draw()
    with pytest.raises(InBagUnavailableError):
        debias.score(boosted().fit(X, y), X, y, rows="oob")


@pytest.mark.parametrize("task", TASKS)
def test_a_refitted_model_is_the_model(task):
    X, y = draw(task)
    X_new, y_new = draw(task, seed=1)
    model = boosted(
        task, iterations=300, learning_rate=0.5, early_stopping_rounds=3, l2_leaf_reg=2, bootstrap_type="Bernoulli"
    )
    model.fit(X, y, eval_set=(X_new, y_new))
    assert model.tree_count_ < 300
    again = debias.refit(model, X, y)
    assert type(again) is type(model)
    raw = [each.predict(X_new, prediction_type="RawFormulaVal") for each in (model, again)]
    np.testing.assert_array_equal(*raw)
    assert (debias.refit(model, X, y, random_state=8).predict(X_new, prediction_type="RawFormulaVal") != raw[0]).any()


def test_a_model_from_a_file_scores_the_same(tmp_path):
    X, y = draw("binary")
    model = boosted("binary").fit(X, y)
    model.save_model(str(tmp_path / "model.cbm"))
    loaded = debias.load_model(tmp_path / "model.cbm")
    X_new, y_new = draw("binary", seed=1)
    expected = debias.score(model, X_new, y_new, rows="held-out").values
    np.testing.assert_array_equal(debias.score(loaded, X_new, y_new, rows="held-out").values, expected)


# --- imbalanced-learn ----------------------------------------------------------------------------------

SAMPLINGS = [
    {},
    {"bootstrap": True},
    {"bootstrap": True, "replacement": False, "sampling_strategy": "auto"},
    {"bootstrap": True, "max_samples": 40},
]


def imbalanced(**settings):
    ensemble = pytest.importorskip("imblearn.ensemble")
    X, y = draw("3-class")
    return ensemble.BalancedRandomForestClassifier(12, random_state=0, max_depth=4, **settings).fit(X, y), X, y


def bags_of(model):
    """Return (row, times drawn) of each tree, from its sampler's rows and scikit-learn's own draw."""
    from sklearn.ensemble._forest import _generate_sample_indices

    bags = []
    for sampler, tree in zip(model.samplers_, model.estimators_, strict=True):
        rows = sampler.sample_indices_
        if model.bootstrap:
            n_drawn = model.max_samples or rows.size
            weights = (None,) * (_generate_sample_indices.__code__.co_argcount - 3)
            rows = rows[_generate_sample_indices(tree.random_state, rows.size, n_drawn, *weights)]
        kept, times = np.unique(rows, return_counts=True)
        bags.append([(int(i), float(m)) for i, m in zip(kept, times, strict=True)])
    return bags


@pytest.mark.parametrize("scorer", ["mdi_oob", "ufi"])
@pytest.mark.parametrize("settings", SAMPLINGS)
def test_bags_of_balanced_forests_fill_their_nodes(settings, scorer, monkeypatch):
    model, X, y = imbalanced(**settings)
    bags = bags_of(model)
    for bag, estimator in zip(bags, model.estimators_, strict=True):  # all nodes hold these rows, by their weight
        rows, times = np.array(bag).T
        reached = estimator.tree_.decision_path(X[rows.astype(int)].astype(np.float32)).toarray()
        np.testing.assert_array_equal(times @ reached, estimator.tree_.weighted_n_node_samples)
    monkeypatch.setattr(oracle, "sklearn_bags", lambda model, y: bags)
    found = debias.score(model, X, y, scorer=scorer, rows="oob")
    assert found.provenance["status"] == "proven"
    expected = oracle.score(scorer, oracle.see_forest(model, X, list(y)), 3, averaged=True)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)


def test_a_refitted_balanced_forest_is_one():
    model, X, y = imbalanced()
    again = debias.refit(model, X, y)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_other_rows_than_those_in_the_bags_are_told():
    model, X, y = imbalanced()
    for wrong in [(X[::-1], y[::-1]), (X, np.roll(y, 1)), (X + 0.5, y)]:
        with pytest.raises(ProvenanceError):
            debias.score(model, *wrong, rows="oob")
    with pytest.raises(InBagUnavailableError, match="trained on"):
        debias.score(model, X[:50], y[:50], rows="oob")


@pytest.mark.filterwarnings("ignore:debias cannot check whether these rows contain training rows:debias.DebiasWarning")
@pytest.mark.parametrize("settings", SAMPLINGS)
def test_rows_after_those_of_training_are_not_out_of_bag(settings):
    model, X, y = imbalanced(**settings)
    X_new, y_new = draw("3-class", seed=1)
    for n in (1, len(y)):
        for more_X, more_y in [(X[:n], y[:n]), (X_new[:n], y_new[:n])]:
            added = np.concatenate([X, more_X]), np.concatenate([y, more_y])
            with pytest.raises(ProvenanceError, match="rows were added"):
                debias.score(model, *added, rows="oob")
            with suppress(ProvenanceError):
                assert debias.score(model, *added).rows == "held-out"


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"replacement": False, "sampling_strategy": "auto"}, "no row of class .* is out of bag"),
        ({"bootstrap": True, "max_samples": 0.5}, "fraction"),
        ({"class_weight": "balanced"}, "class_weight"),
    ],
)
def test_bags_that_cannot_be_recovered_are_refused(settings, match):
    model, X, y = imbalanced(**settings)
    with pytest.raises(InBagUnavailableError, match=match):
        debias.score(model, X, y, rows="oob")
    X_new, y_new = draw("3-class", seed=1)
    assert np.isfinite(debias.score(model, X_new, y_new, rows="held-out").values).all()


# --- quantile-forest -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"])
def test_quantile_forests_are_the_forests_they_are_grown_as(name):
    quantile_forest = pytest.importorskip("quantile_forest")
    X, y = draw()
    model = getattr(quantile_forest, name)(12, random_state=0, bootstrap=True, min_samples_leaf=3).fit(X, y)
    found = debias.score(model, X, y, rows="oob")
    assert found.provenance["status"] == "proven"
    expected = oracle.score("mdi_oob", oracle.see_forest(model, X, y), 3, averaged=True)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)
    ensemble = debias.plugin.extract(model)
    X_new, _ = draw(seed=1)
    ours = route(ensemble, X_new.astype(np.float32))
    np.testing.assert_array_equal(ours, model.apply(X_new))
    mean = ForestRegressor.predict(model, X_new)  # of the trees; the quantiles may be of one response a leaf
    np.testing.assert_allclose(raw_output(ensemble, ours).ravel(), mean, rtol=0, atol=1e-12)
    with pytest.raises(ProvenanceError):
        debias.score(model, X, y[::-1], rows="oob")


@pytest.mark.parametrize("quantiles", [0.5, [0.1, 0.9]])
@pytest.mark.parametrize("how", ["alone", "after a step", "sparse", "two responses"])
def test_quantiles_that_are_passed_as_y_are_told(how, quantiles):
    quantile_forest = pytest.importorskip("quantile_forest")
    (X, y), (X_new, y_new) = draw(), draw(seed=1)
    model = quantile_forest.RandomForestQuantileRegressor(12, random_state=0, default_quantiles=quantiles)
    if how == "after a step":
        model = make_pipeline(StandardScaler(), model)
    if how == "two responses":
        y, y_new = np.column_stack([y, X[:, 0] - y]), np.column_stack([y_new, X_new[:, 0] - y_new])
    seen = csr_array(X_new) if how == "sparse" else X_new
    model.fit(csr_array(X) if how == "sparse" else X, y)
    predicted = model.predict(X_new).reshape(*y_new.shape, -1)[..., -1]

    def said(y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DebiasWarning)
            return [text for text in debias.score(model, seen, y).warnings if text.startswith("y is equal")]

    assert said(y_new) == []
    assert said(predicted)[0].startswith(
        "y is equal to the prediction of the model far more often than ties of y explain: in 100%"
    )


def test_a_refitted_quantile_forest_is_one():
    quantile_forest = pytest.importorskip("quantile_forest")
    X, y = draw()
    model = quantile_forest.RandomForestQuantileRegressor(5, random_state=0, default_quantiles=0.9).fit(X, y)
    again = debias.refit(model, X, y)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    plain = RandomForestRegressor(5, random_state=0).fit(X, y)
    expected = debias.score(plain, X, y, rows="oob").values
    np.testing.assert_array_equal(debias.score(model, X, y, rows="oob").values, expected)
