"""The reported importance on evaluation rows: the library's own figure on the training rows, and 0 for noise."""

import dataclasses
import warnings

import numpy as np
import pytest

import debias
from debias.api.prepared import prepared_members
from debias.errors import CompositionError
from debias.hooks.reported import Measure
from debias.rows.request import Request
from debias.rows.running_sums import of_leaves
from debias.scorers import native_unseen
from debias.scorers.native import reported_importance
from support import oracle

ROUNDING = 1e-6
"""Shares may differ by this: XGBoost stores float32, LightGBM six digits of gains."""


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    X[:, 3], X[:, 4] = rng.integers(0, 4, 600), rng.integers(0, 2, 600)
    f = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * X[:, 3]
    noisy = f + rng.normal(size=600)
    return X, {
        "number": noisy,
        "large": noisy + 1e4,
        "two": (rng.random(600) < 1 / (1 + np.exp(-f))).astype(int),
        "three": np.digitize(noisy, [0, 1.5]),
        "count": rng.poisson(np.exp(0.3 * f)),
        "positive": np.exp(0.3 * noisy),
    }


def xgb(kind="Regressor", **given):
    xgboost = pytest.importorskip("xgboost")
    return getattr(xgboost, f"XGB{kind}")(**{"n_estimators": 30, "max_depth": 4, "n_jobs": 1} | given)


def lgb(kind="Regressor", **given):
    lightgbm = pytest.importorskip("lightgbm")
    return getattr(lightgbm, f"LGBM{kind}")(**{"n_estimators": 30, "n_jobs": 1, "verbose": -1} | given)


def cat(kind="Regressor", **given):
    catboost = pytest.importorskip("catboost")
    fixed = {"iterations": 60, "depth": 4, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    return getattr(catboost, f"CatBoost{kind}")(**fixed | given)


def sk(name, **given):
    from sklearn import ensemble, tree

    kind = getattr(ensemble, name) if hasattr(ensemble, name) else getattr(tree, name)
    return kind(random_state=0, **given)


CASES = {
    "xgb gain": (xgb, {}, "number", ROUNDING),
    "xgb total gain": (xgb, {"importance_type": "total_gain"}, "number", ROUNDING),
    "xgb penalty": (xgb, {"reg_lambda": 5, "learning_rate": 0.1}, "number", ROUNDING),
    "xgb two classes": (xgb, {"kind": "Classifier"}, "two", ROUNDING),
    "xgb three classes": (xgb, {"kind": "Classifier"}, "three", ROUNDING),
    "xgb gamma": (xgb, {"objective": "reg:gamma"}, "positive", ROUNDING),
    "lgb gain": (lgb, {"importance_type": "gain"}, "number", ROUNDING),
    "lgb large mean": (lgb, {"importance_type": "gain"}, "large", 1e-4),
    "lgb penalty": (lgb, {"importance_type": "gain", "reg_lambda": 3}, "number", ROUNDING),
    "lgb two classes": (lgb, {"kind": "Classifier", "importance_type": "gain"}, "two", ROUNDING),
    "lgb three classes": (lgb, {"kind": "Classifier", "importance_type": "gain"}, "three", ROUNDING),
    "lgb poisson": (lgb, {"importance_type": "gain", "objective": "poisson"}, "count", ROUNDING),
    "lgb huber": (lgb, {"importance_type": "gain", "objective": "huber"}, "number", 1e-5),
    "catboost": (cat, {}, "number", ROUNDING),
    "catboost one-step classes": (cat, {"kind": "Classifier", "leaf_estimation_iterations": 1}, "two", ROUNDING),
    "catboost classes": (cat, {"kind": "Classifier"}, "two", 5e-3),
    "boosted": (sk, {"name": "GradientBoostingRegressor"}, "number", ROUNDING),
    "boosted two classes": (sk, {"name": "GradientBoostingClassifier"}, "two", ROUNDING),
    # The signs of a few differences of means are taken from leaf values, which weigh rows otherwise.
    "boosted three classes": (sk, {"name": "GradientBoostingClassifier", "n_estimators": 20}, "three", 5e-3),
    "tree": (sk, {"name": "DecisionTreeRegressor"}, "number", ROUNDING),
    "tree, entropy": (sk, {"name": "DecisionTreeClassifier", "criterion": "entropy"}, "three", ROUNDING),
    "tree, poisson": (sk, {"name": "DecisionTreeRegressor", "criterion": "poisson"}, "count", ROUNDING),
    "extra trees": (sk, {"name": "ExtraTreesClassifier", "n_estimators": 20}, "three", ROUNDING),
}


def shares(values):
    return np.maximum(values, 0) / np.maximum(values, 0).sum()


def scored(model, X, y, scorer, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        return debias.score(model, X, y, scorer, **given)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.quick if case in ("xgb gain", "lgb gain", "tree") else ()) for case in CASES],
)
def test_on_the_training_rows_it_is_what_the_library_reports(rows, case):
    make, given, of, tolerance = CASES[case]
    X, y = rows[0], rows[1][of]
    model = make(**given).fit(X, y)
    reported = scored(model, X, y, "native", rows="train")
    again = scored(model, X, y, "native_unseen", rows="train")
    assert again.details["kind"] == reported.details["kind"]
    np.testing.assert_allclose(shares(again.values), shares(reported.values), rtol=0, atol=tolerance)


def test_the_in_bag_rows_of_each_tree_give_what_a_forest_reports(rows):
    """Each tree's own bag as evaluation rows: the average of these trees is the forest's importance."""
    from sklearn.ensemble import RandomForestRegressor

    X, y = rows[0], rows[1]["number"]
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    by_tree = []
    for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        values = scored(tree, X[bag], y[bag], "native_unseen", rows="train").values
        assert values.sum() == pytest.approx(1)  # it is a share of the tree's total
        by_tree.append(values)
    np.testing.assert_allclose(np.mean(by_tree, axis=0), forest.feature_importances_, atol=1e-9)


@pytest.mark.integration
@pytest.mark.parametrize("learner", ["GradientBoostedTreesLearner", "CartLearner"])
@pytest.mark.parametrize("of", ["number", "two"])
def test_on_the_training_rows_it_is_what_ydf_reports(rows, learner, of):
    import pandas as pd

    ydf = pytest.importorskip("ydf")
    X, y = pd.DataFrame(rows[0], columns=list("abcdef")), rows[1][of]
    task = ydf.Task.REGRESSION if of == "number" else ydf.Task.CLASSIFICATION
    given = {"num_trees": 20} if learner.startswith("Gradient") else {}
    y = y if of == "number" else np.array(["no", "yes"])[y]
    model = getattr(ydf, learner)(label="y", task=task, validation_ratio=0.0, **given).train(X.assign(y=y))
    reported, again = (scored(model, X, y, scorer, rows="train").values for scorer in ("native", "native_unseen"))
    np.testing.assert_allclose(shares(again), shares(reported), atol=ROUNDING)


def test_weights_of_training_rows_are_those_of_the_figure(rows):
    X, y = rows[0], rows[1]["two"]
    model = xgb("Classifier", scale_pos_weight=3.0).fit(X, y)
    given = {"rows": "train", "sample_weight": np.where(y == 1, 3.0, 1.0)}
    np.testing.assert_allclose(
        shares(scored(model, X, y, "native_unseen", **given).values), model.feature_importances_, atol=ROUNDING
    )


def test_sets_of_categories_have_a_penalty_of_their_own(rows):
    import pandas as pd

    X = pd.DataFrame(rows[0], columns=list("abcdef"))
    X["d"] = X["d"].astype(int).astype("category")
    X["g"] = pd.Categorical(np.random.default_rng(1).integers(0, 20, len(X)))
    model = lgb(importance_type="gain").fit(X, rows[1]["number"])
    again = scored(model, X, rows[1]["number"], "native_unseen", rows="train")
    np.testing.assert_allclose(shares(again.values), shares(model.feature_importances_), atol=1e-5)


def walked(nodes, X, gradient, hessian, name, inside):
    """Return the feature and the term of each split below a node, for the first 400 rows and the others."""
    split = nodes.loc[name]
    if split["Feature"] == "Leaf":
        return []
    k = int(split["Feature"][1:])
    goes_left = [part[:, k].astype(np.float32) < np.float32(split["Split"]) for part in (X[:400], X[400:])]
    left = [i & g for i, g in zip(inside, goes_left, strict=True)]
    right = [i & ~g for i, g in zip(inside, goes_left, strict=True)]
    G = [[g[s].sum() for s in (i, a)] for g, i, a in zip(gradient, inside, left, strict=True)]
    H = [[h[s].sum() for s in (i, a)] for h, i, a in zip(hessian, inside, left, strict=True)]
    shown = [g[1] - (h[1] / h[0] * g[0] if h[0] else 0) for g, h in zip(G, H, strict=True)]
    best = [gradient[0][s].sum() ** 2 / (hessian[0][s].sum() + 1) for s in (left[0], right[0], inside[0])]
    gain = best[0] + best[1] - best[2]
    assert gain == pytest.approx(split["Gain"], rel=2e-3, abs=2e-3)
    below = [
        each
        for side, rows in (("Yes", left), ("No", right))
        for each in walked(nodes, X, gradient, hessian, split[side], rows)
    ]
    return [(k, gain * shown[1] / shown[0]), *below]


def test_it_is_the_definition_on_unseen_rows(rows):
    """A walk through the dumped trees, with margins that XGBoost predicts itself."""
    X, y = rows[0], rows[1]["two"]
    model = xgb("Classifier", n_estimators=5, max_depth=3, importance_type="total_gain").fit(X[:400], y[:400])
    unseen, target = X[400:], y[400:]
    frame, score = model.get_booster().trees_to_dataframe(), np.zeros(6)
    (base,) = oracle.xgboost_model(model).base  # before 3.1, a Newton step from one half
    at_root = [0.0, 0.0]
    terms = []
    for number, tree in frame.groupby("Tree"):
        before = [
            model.predict(part, output_margin=True, iteration_range=(0, number)) if number else None
            for part in (X[:400], unseen)
        ]
        at = [
            np.full(n, base) if each is None else each.astype(float) for each, n in zip(before, (400, 200), strict=True)
        ]
        p = [1 / (1 + np.exp(-each)) for each in at]
        gradient = [y[:400] - p[0], target - p[1]]
        hessian = [each * (1 - each) for each in p]
        at_root = [a + h.sum() for a, h in zip(at_root, hessian, strict=True)]
        terms += walked(
            tree.set_index("ID"), X, gradient, hessian, f"{number}-0", [np.ones(400, bool), np.ones(200, bool)]
        )
    for k, term in terms:
        score[k] += term * at_root[0] / at_root[1]
    found = scored(model, unseen, target, "native_unseen", rows="held-out").values
    np.testing.assert_allclose(found, score, rtol=5e-3, atol=1e-3 * np.abs(score).max())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "make",
    [
        xgb,
        lambda: lgb(importance_type="gain"),
        cat,
        lambda: sk("GradientBoostingRegressor"),
        lambda: sk("RandomForestRegressor", n_estimators=20),
    ],
    ids=["xgb", "lgb", "cat", "boosted", "forest"],
)
def test_noise_is_reported_and_has_nothing_on_unseen_rows(make):
    """Over 40 sets of unseen rows: a mean of 0 in averaged trees, not above 0 in boosted ones, within 4 errors."""
    rng = np.random.default_rng(3)

    def drawn():
        X = rng.normal(size=(300, 3))
        return X, X[:, 0] + rng.normal(size=300)

    model = make().fit(*drawn())
    assert shares(model.feature_importances_)[1:].sum() > 0.1
    values = np.array([scored(model, *drawn(), "native_unseen", rows="held-out").values for _ in range(40)])
    noise = values[:, 1:].sum(axis=1) / np.abs(values.sum(axis=1))
    error = noise.std(ddof=1) / np.sqrt(noise.size)
    assert noise.mean() < 4 * error
    assert hasattr(model, "estimators_") is False or hasattr(model, "init_") or noise.mean() > -4 * error
    assert values[:, 0].mean() > 4 * values[:, 0].std(ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize(
    ("make", "given", "of", "why"),
    [
        (lgb, {}, "number", "a number of splits counts all splits alike"),
        (xgb, {"importance_type": "weight"}, "number", "a number of splits counts all splits alike"),
        (xgb, {"importance_type": "cover"}, "number", "cannot compute the importance 'cover' on other rows"),
        (xgb, {"objective": "reg:absoluteerror"}, "number", "the loss absolute_error"),
        (xgb, {"booster": "dart", "rate_drop": 0.5}, "number", "scaled after their growth"),
        (xgb, {"reg_alpha": 3.0}, "number", "do not follow from its leaves"),
        (lgb, {"boosting_type": "dart", "importance_type": "gain"}, "number", "scaled after their growth"),
        (lgb, {"objective": "l1", "importance_type": "gain"}, "number", "the loss absolute_error"),
        (cat, {"grow_policy": "Depthwise"}, "number", "symmetric trees only"),
        (cat, {"kind": "Classifier"}, "three", "cannot compute the importance 'prediction values change'"),
        (sk, {"name": "DecisionTreeRegressor", "criterion": "absolute_error"}, "number", "not means of the response"),
        (sk, {"name": "HistGradientBoostingRegressor"}, "number", "reports no importance of its own"),
    ],
)
def test_what_is_not_the_same_figure_is_refused(rows, make, given, of, why):
    X, y = rows[0], rows[1][of]
    model = make(**given).fit(X[:400], y[:400])
    with pytest.raises(CompositionError, match=why):
        scored(model, X[400:], y[400:], "native_unseen", rows="held-out")
    audit = debias.audit(model, X[400:], y[400:], rows="held-out", test=None)
    assert audit.reported_unseen is None
    assert audit.inflation is None
    told = [text for text in audit.summary() if "too high" in text]
    assert all(text.startswith("Whether features are reported too high was not judged") for text in told)
    assert len(told) == (audit.reported is not None)


def test_an_audit_sums_it_over_groups_and_knows_it_of_batches_of_averaged_trees(rows):
    from sklearn.ensemble import RandomForestRegressor

    X, y = rows[0], rows[1]["number"]
    model = xgb().fit(X[:400], y[:400])
    groups = {"a": ["f0", "f1"], "b": ["f2", "f3", "f4", "f5"]}
    audit = debias.audit(model, X[400:], y[400:], rows="held-out", test=None, groups=groups)
    alone = scored(model, X[400:], y[400:], "native_unseen", rows="held-out").values
    np.testing.assert_allclose(audit.reported_unseen, shares(np.array([alone[:2].sum(), alone[2:].sum()])))
    forest = RandomForestRegressor(10, random_state=0).fit(X[:400], y[:400])
    batches = [(X[400:500], y[400:500]), (X[500:], y[500:])]
    whole = debias.audit(forest, X[400:], y[400:], rows="held-out", test=None)
    in_batches = debias.audit(forest, iter(batches), rows="held-out", test=None)
    np.testing.assert_allclose(in_batches.reported_unseen, whole.reported_unseen)
    boosted = debias.audit(model, iter(batches), rows="held-out", test=None)
    assert boosted.reported_unseen is None
    assert "batches" in boosted.no_unseen_because


WEIGHTED = {
    "XGBoost": lambda: xgb("Classifier", scale_pos_weight=20),
    "LightGBM": lambda: lgb("Classifier", class_weight={0: 1, 1: 20}, importance_type="gain"),
    "CatBoost": lambda: cat("Classifier", class_weights=[1, 20]),
}


@pytest.mark.filterwarnings("ignore:these rows differ from the training rows:debias.DebiasWarning")
@pytest.mark.parametrize("make", WEIGHTED.values(), ids=WEIGHTED)
def test_rows_without_the_class_weights_of_training_are_refused(make, monkeypatch):
    model = make()

    def draw(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1500, 4))
        return X, (X[:, 0] + 0.7 * X[:, 1] + rng.normal(size=1500) > 2.5).astype(int)

    X, y = draw(1)
    model.fit(*draw(0))
    with pytest.raises(CompositionError, match=r"predicts other frequencies .+ pass these rows with the same weights"):
        debias.score(model, X, y, "native_unseen", rows="held-out")
    audit = debias.audit(model, X, y, rows="held-out", test=None)
    assert audit.reported_unseen is None
    assert "predicts other frequencies of the classes" in audit.no_unseen_because
    weighed = debias.audit(model, X, y, rows="held-out", test=None, sample_weight=np.where(y == 1, 20, 1))
    found = weighed.to_frame()["reported_unseen"]
    repeated = np.repeat(np.arange(y.size), np.where(y == 1, 20, 1))
    with monkeypatch.context() as patch:
        patch.setattr(native_unseen, "refuse_other_frequencies", lambda rows: None)
        again = debias.score(model, X[repeated], y[repeated], "native_unseen", rows="held-out")
    shares = np.maximum(again.values, 0) / np.maximum(again.values, 0).sum()
    np.testing.assert_allclose([found[name] for name in again.feature_names], shares, atol=1e-6)
    assert shares[0] > shares[1] > shares[2:].max()


def test_classes_in_the_predicted_frequencies_are_not_refused(rows):
    X, ys = rows
    for y, kind in (("two", "Classifier"), ("three", "Classifier"), ("number", "Regressor")):
        model = xgb(kind, n_estimators=10).fit(X[:400], ys[y][:400])
        audit = debias.audit(model, X[400:], ys[y][400:], rows="held-out", test=None)
        assert audit.no_unseen_because is None


def test_training_rows_have_no_such_figure(rows):
    X, y = rows[0], rows[1]["number"]
    model = xgb().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        audit = debias.audit(model, X, y, rows="train")
    assert (audit.reported_unseen, audit.no_unseen_because) == (None, "these are training rows")


@pytest.mark.filterwarnings("ignore:these are scores on training rows")
def test_mean_gains_that_are_decreases_of_the_variance_follow_from_weights():
    """An adapter may have no sums of leaves: then the gain itself tells what the training rows showed."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=200)
    settings = {"n_estimators": 20, "max_depth": 3, "reg_lambda": 0, "importance_type": "gain", "n_jobs": 1}
    model = xgboost.XGBRegressor(**settings).fit(X, y)
    (prepared,) = prepared_members(Request.of(model, X, y, rows="train"), [])
    trees, reported = prepared.ensemble, reported_importance(model)
    trees = dataclasses.replace(trees, weight=of_leaves(trees, trees.cover))  # of squared errors, covers count rows
    figures = native_unseen.REPRODUCE[Measure.MEAN_GAIN](trees, reported._replace(leaf_sums=None))
    found, expected = figures(prepared.rows), reported.values
    np.testing.assert_allclose(found / found.sum(), expected / expected.sum(), rtol=1e-4)
