"""Tests of the adapter of scikit-survival, against the library and against definitions."""

from __future__ import annotations

import re
import warnings
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias
from debias.testing import check_adapter
from debias.trees.routing import raw_output, route
from support import oracle, survival

pytestmark = pytest.mark.integration
N = 200
FORESTS = ("RandomSurvivalForest", "ExtraSurvivalTrees")


def model(kind="RandomSurvivalForest", **settings):
    """Return an unfitted model."""
    sksurv = pytest.importorskip("sksurv")
    from sksurv import ensemble, tree

    assert sksurv
    home = tree if hasattr(tree, kind) else ensemble
    few = {} if home is tree else {"n_estimators": 8}
    return getattr(home, kind)(random_state=0, **{**few, **settings})


def fitted(kind="RandomSurvivalForest", **settings):
    return model(kind, **settings).fit(*survival.rows(N, 0))


def seen(forest, *rows, weight=None):
    """Return the trees of a forest with low_memory=True, and martingale residuals as their response."""
    stated = copy(forest)
    stated.criterion, stated._n_samples = "logrank", N  # scikit-survival 0.23 does not keep the number of rows
    stated._n_samples_bootstrap = N
    residuals = [part for X, y in rows for part in (X, survival.residuals(y))]
    return oracle.see_forest(stated, *residuals, weight=weight)


# --- trees ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {"low_memory": low}) for kind in FORESTS for low in (False, True)),
        ("RandomSurvivalForest", {"max_samples": 0.5, "max_leaf_nodes": 12}),
        ("ExtraSurvivalTrees", {"bootstrap": False}),
        ("SurvivalTree", {}),
        ("SurvivalTree", {"low_memory": True}),
        ("ExtraSurvivalTree", {}),
        ("GradientBoostingSurvivalAnalysis", {}),
        ("GradientBoostingSurvivalAnalysis", {"dropout_rate": 0.3, "subsample": 0.7}),
        ("GradientBoostingSurvivalAnalysis", {"n_iter_no_change": 2, "n_estimators": 30}),
    ],
)
def test_trees_predict_what_the_library_predicts(kind, settings):
    X, _ = survival.rows(N, 1)
    ensemble = debias.plugin.extract(fitted(kind, **settings))
    ours = raw_output(ensemble, route(ensemble, X.astype(np.float32)))[:, 0]
    np.testing.assert_allclose(ours, fitted(kind, **settings).predict(X), rtol=1e-12)


@pytest.mark.parametrize("kind", [*FORESTS, "SurvivalTree", "GradientBoostingSurvivalAnalysis"])
def test_the_contract_holds(kind):
    answered = check_adapter(fitted(kind), *survival.rows(N, 0))
    assert "debias_refit" in answered
    assert ("debias_in_bag" in answered) == (kind in FORESTS)


def test_missing_values_and_sparse_rows_are_taken_as_the_library_takes_them():
    sparse = pytest.importorskip("scipy.sparse")
    X, y = survival.rows(N, 0)
    X[::5, 1] = np.nan
    if debias.plugin.extract(fitted()).missing_refusal is None:
        assert debias.score(model().fit(X, y), X, y).provenance["status"] == "proven"
    X = np.where(np.isnan(X), 0, X)
    forest = model().fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(
        debias.score(forest, sparse.csr_matrix(X), y).values, debias.score(forest, X, y).values
    )


# --- scores --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scorer", ["mdi_oob", "ufi", "oob_split", "mdi"])
@pytest.mark.parametrize("kind", FORESTS)
def test_scores_out_of_bag_are_the_definitions_on_martingale_residuals(kind, scorer):
    X, y = survival.rows(N, 0)
    forest = model(kind, low_memory=True).fit(X, y)
    options = {"criterion": "variance"} if scorer == "mdi" else {}
    expected = oracle.score(scorer, seen(forest, (X, y)), X.shape[1], averaged=True, **options)
    found = debias.score(forest, X, y, scorer, rows="oob").values
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    same_trees = model(kind).fit(X, y)
    np.testing.assert_allclose(debias.score(same_trees, X, y, scorer, rows="oob").values, found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scorer", ["mdi_oob", "oob_split"])
def test_scores_of_held_out_rows_are_the_definitions_on_their_own_residuals(scorer):
    forest, (X, y) = fitted(low_memory=True), survival.rows(N, 1)
    expected = oracle.score(scorer, seen(forest, survival.rows(N, 0), (X, y)), X.shape[1], averaged=True)
    found = debias.score(forest, X, y, scorer, rows="held-out").values
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_in_bag_means_of_held_out_scores_come_from_train():
    forest, train, (X, y) = fitted(low_memory=True), survival.rows(N, 0), survival.rows(N, 1)
    expected = oracle.score("ufi", seen(forest, train, (X, y)), X.shape[1], averaged=True)
    found = debias.score(forest, X, y, "ufi", rows="held-out", train=train).values
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_the_first_tree_of_boosting_is_grown_on_martingale_residuals():
    X, y = survival.rows(N, 0)
    boosted = model("GradientBoostingSurvivalAnalysis", n_estimators=1, learning_rate=1.0).fit(X, y)
    leaves = boosted.estimators_[0, 0].apply(X.astype(np.float32))
    residuals = survival.residuals(y)
    means = [residuals[leaves == leaf].mean() for leaf in leaves]
    np.testing.assert_allclose(boosted.predict(X), means, rtol=1e-9, atol=1e-12)


def test_scores_of_boosting_are_the_definition():
    boosted, (X, y) = fitted("GradientBoostingSurvivalAnalysis"), survival.rows(N, 1)
    trees = [tree for stage in boosted.estimators_ for tree in stage]
    form = oracle.sklearn_model(type("Stages", (), {"estimators_": trees, "n_features_in_": 4}))
    form.averaged, form.base = False, [0.0]
    views = oracle.see_boosted(form, X, survival.residuals(y))
    expected = boosted.learning_rate * oracle.score("mdi_oob", views, 4, averaged=False)
    np.testing.assert_allclose(debias.score(boosted, X, y, rows="held-out").values, expected, rtol=1e-9, atol=1e-12)


def test_permutation_on_held_out_rows_is_that_of_scikit_learn_with_the_score_of_the_model():
    forest, (X, y) = fitted(), survival.rows(N, 1)
    ours = debias.score(forest, X, y, "permutation", rows="held-out", random_state=3)
    theirs = permutation_importance(forest, X, y, n_repeats=5, random_state=3)
    np.testing.assert_allclose(ours.values, theirs.importances_mean, rtol=0, atol=1e-12)
    assert ours.details["baseline"] == pytest.approx(forest.score(X, y), abs=1e-12)


def test_a_metric_of_the_user_gets_times_and_events():
    from sksurv.metrics import concordance_index_censored

    def concordance(estimator, X, y):
        return concordance_index_censored(y[:, 1] > 0, y[:, 0], estimator.predict(X))[0]

    from debias_plugins.scorers.permutation import permutation

    forest, rows = fitted(), survival.rows(N, 1)
    own = debias.score(forest, *rows, permutation.with_options(metric=concordance), rows="held-out", random_state=0)
    np.testing.assert_allclose(
        own.values, debias.score(forest, *rows, "permutation", rows="held-out", random_state=0).values
    )


def test_shap_values_are_of_the_risk_scores():
    forest, (X, y) = fitted(), survival.rows(N, 1)
    assert debias.score(forest, X, y, "shap", rows="held-out").values.argmax() == 0
    covariance = np.cov(forest.predict(X), survival.residuals(y), bias=True)[0, 1]
    assert debias.score(forest, X, y, "shap_oob", rows="held-out").values.sum() == pytest.approx(covariance, rel=1e-9)


def test_an_audit_has_no_reported_importance_and_no_loss():
    X, y = survival.rows(400, 0)
    forest = model(n_estimators=30).fit(X, y)
    audit = debias.audit(forest, X, y, random_state=0)
    assert audit.reported is None
    assert "oob_loss" not in audit.to_frame()
    assert audit.to_frame()["verdict"].tolist() == ["informative", *["indistinguishable"] * 3]
    assert "not reported" in audit.to_html()
    with pytest.raises(debias.plugin.CompositionError, match="reports no importance of its own"):
        debias.score(forest, X, y, "native")


def test_scores_that_need_a_loss_of_rows_or_numbers_are_refused():
    forest, (X, y) = fitted(), survival.rows(N, 1)
    for scorer in ("oob_loss", "ablation"):
        with pytest.raises(debias.plugin.CompositionError, match="compares rows with each other"):
            debias.score(forest, X, y, scorer, rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="not on the scale of y"):
        debias.score(forest, X, y, "conditional_importance", rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="all rows are needed at once"):
        debias.score(forest, [(X, y)], rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="another kind of response"):
        debias.score(forest, X, y, "guide")


# --- the mean for noise --------------------------------------------------------------------------------


def z_of_means(scores):
    scores = np.array(scores)
    return scores.mean(axis=0) / (scores.std(axis=0, ddof=1) / np.sqrt(len(scores)))


@pytest.mark.parametrize("kind", ["RandomSurvivalForest", "ExtraSurvivalTrees", "GradientBoostingSurvivalAnalysis"])
def test_noise_scores_0_on_average_under_independent_censoring(kind):
    held_out, out_of_bag, in_bag = [], [], []
    for seed in range(60):
        X, y = survival.rows(N, 2 * seed)
        fit = model(kind, min_samples_leaf=10).fit(X, y)
        held_out.append(debias.score(fit, *survival.rows(N, 2 * seed + 1), rows="held-out").values)
        if kind in FORESTS:
            out_of_bag.append(debias.score(fit, X, y, rows="oob").values)
            in_bag.append(debias.score(fit, X, y, "mdi").values)
    for scores in (held_out, out_of_bag) if kind in FORESTS else (held_out,):
        z = z_of_means(scores)
        assert z[0] > 10
        assert (np.abs(z[1:]) < 3.5).all()
    if kind in FORESTS:  # the comparison: the same residuals in bag
        assert (z_of_means(in_bag)[1:] > 5).all()


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # leaf counts of stumps may look like training rows
def test_a_feature_that_drives_censoring_scores_0_at_the_root():
    scores = []
    for seed in range(80):
        forest = model(max_depth=1, max_features=1, n_estimators=20, low_memory=True)
        forest.fit(*survival.rows(N, 2 * seed, censoring_by_noise=1.5))
        X, y = survival.rows(N, 2 * seed + 1, censoring_by_noise=1.5)
        scores.append(debias.score(forest, X, y, rows="held-out").values)
    assert (np.abs(z_of_means(scores)[1:]) < 3.5).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_a_feature_that_drives_censoring_scores_little_below_the_root():
    """Below a split on the signal the hazard of all rows is not that of the node: docs/methods.md."""
    scores = []
    for seed in range(1500):
        forest = model(max_features=1, n_estimators=20, min_samples_leaf=10, low_memory=True)
        forest.fit(*survival.rows(300, 2 * seed, censoring_by_noise=1.5))
        scores.append(debias.score(forest, *survival.rows(300, 2 * seed + 1, censoring_by_noise=1.5), rows="held-out"))
    values = np.array([score.values for score in scores])
    assert z_of_means(values)[1] > 3
    assert values.mean(axis=0)[1] < 0.02 * values.mean(axis=0)[0]


# --- rows and response ---------------------------------------------------------------------------------


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("settings", [{}, {"max_samples": 0.6}, {"weighted": True}])
def test_bags_prove_rows_times_and_events(settings, low_memory):
    X, y = survival.rows(N, 0)
    y["time"] = np.round(y["time"], 1)  # ties
    settings = dict(settings)
    weight = np.random.default_rng(2).uniform(0.2, 2, N) if settings.pop("weighted", False) else None
    forest = model(low_memory=low_memory, **settings).fit(X, y, sample_weight=weight)
    scores = debias.score(forest, X, y, rows="oob", sample_weight=weight)
    assert scores.provenance["status"] == "proven"
    assert "and values at the roots" in scores.provenance["detail"]
    for changed in (y[np.random.default_rng(0).permutation(N)], censored_more(y)):
        with pytest.raises(debias.ProvenanceError, match="y is not the training response"):
            debias.score(forest, X, changed, sample_weight=weight)
    with pytest.raises(debias.ProvenanceError):
        debias.score(forest, X[::-1], y[::-1], rows="oob", sample_weight=weight)


def censored_more(y):
    changed = y.copy()
    changed["event"][np.flatnonzero(y["event"])[:3]] = False
    return changed


def test_trees_without_bags_are_scored_on_held_out_rows():
    X, y = survival.rows(N, 0)
    for kind, settings in (("SurvivalTree", {}), ("ExtraSurvivalTrees", {"bootstrap": False})):
        fit = fitted(kind, **settings)
        with pytest.raises(debias.InBagUnavailableError, match=f"this scikit-survival {kind} was grown without"):
            debias.score(fit, X, y, rows="oob")
        with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
            debias.score(fit, X, y)
        shuffled = y[np.random.default_rng(0).permutation(N)]
        with pytest.raises(debias.ProvenanceError, match="y is not the response the model was trained on"):
            debias.score(fit, *survival.rows(N, 1), "ufi", rows="held-out", train=(X, shuffled))
        assert debias.score(fit, *survival.rows(N, 1), "ufi", rows="held-out", train=(X, y)).values[0] > 0


def test_fields_may_have_any_names_and_are_not_changed():
    X, y = survival.rows(N, 0)
    renamed = y.astype([("status", bool), ("days", float)])
    before = renamed.copy()
    forest = model().fit(X, renamed)
    np.testing.assert_array_equal(debias.score(forest, X, renamed).values, debias.score(forest, X, y).values)
    assert (renamed == before).all()
    columns = np.column_stack([y["time"], y["event"]])
    np.testing.assert_array_equal(debias.score(forest, X, columns).values, debias.score(forest, X, y).values)


def with_value(field, value):
    _, y = survival.rows(N, 0)
    y[field][3] = value
    return y


BAD = {
    "times only": (lambda y: y["time"], "must have 2 values per row .*Surv.from_arrays"),
    "events only": (lambda y: y["event"], "must have 2 values per row"),
    "columns in another order": (lambda y: np.column_stack([y["event"], y["time"]]), "the time in its first column"),
    "all censored": (lambda y: survival.fields(np.zeros(N, bool), y["time"]), "none of these rows has an event"),
    "a negative time": (lambda y: with_value("time", -1), "negative times, the first at position 3"),
    "a missing time": (lambda y: with_value("time", np.nan), "missing or infinite in 1 rows, the first at position 3"),
    "an infinite time": (lambda y: with_value("time", np.inf), "missing or infinite in 1 rows"),
    "one row less": (lambda y: y[:-1], "y has 199 entries"),
    "none": (lambda y: None, "y is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_response_is_refused(case):
    change, message = BAD[case]
    X, y = survival.rows(N, 0)
    with pytest.raises(debias.RowsError, match=message):
        debias.score(fitted(), X, change(y))


# --- refits and wrappers -------------------------------------------------------------------------------


def test_meta_methods_move_times_and_events_together():
    X, y = survival.rows(N, 0)
    forest = model(n_estimators=5).fit(X, y)
    once, again = (
        debias.score(forest, X, y, "response_permutation(mdi_oob, replicates=6)", random_state=1, n_jobs=n).values
        for n in (1, 2)
    )
    np.testing.assert_array_equal(once, again)
    assert once.argmax() == 0
    held_out = survival.rows(N, 1)
    for scorer in ("shadow(mdi_oob, replicates=2)", "response_permutation(permutation, replicates=4)"):
        scores = debias.score(forest, *held_out, scorer, rows="held-out", train=(X, y), random_state=0)
        assert scores.values.argmax() == 0


@pytest.mark.parametrize("kind", [*FORESTS, "SurvivalTree", "GradientBoostingSurvivalAnalysis"])
def test_a_refit_without_a_seed_is_the_same_model(kind):
    X, y = survival.rows(N, 0)
    np.testing.assert_array_equal(debias.refit(fitted(kind), X, y).predict(X), fitted(kind).predict(X))


@pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")  # of scikit-survival, with pandas 3.0
def test_pipelines_searches_and_scorers_are_unwrapped():
    from sksurv.datasets import load_whas500
    from sksurv.metrics import as_concordance_index_ipcw_scorer
    from sksurv.preprocessing import OneHotEncoder

    X, y = load_whas500()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of pandas, in the encoder
        encoded = make_pipeline(OneHotEncoder(), model()).fit(X, y)
        scores = debias.score(encoded, X, y)
    assert scores.feature_names == tuple(X.columns)
    assert scores.rows == "oob"
    numbers = X.astype(float)
    scaled = make_pipeline(StandardScaler(), model()).fit(numbers, y)
    search = GridSearchCV(
        as_concordance_index_ipcw_scorer(scaled, tau=500.0), {"estimator__randomsurvivalforest__max_depth": [3]}, cv=2
    ).fit(numbers, y)
    inner = search.best_estimator_.estimator_
    np.testing.assert_array_equal(debias.score(search, numbers, y).values, debias.score(inner, numbers, y).values)
    again = debias.refit(search.best_estimator_, numbers, y)
    np.testing.assert_array_equal(again.predict(numbers), search.predict(numbers))


def test_skops_files_of_forests_are_read_and_pickles_are_not(tmp_path):
    skops = pytest.importorskip("skops.io")
    import pickle

    X, y = survival.rows(N, 0)
    for kind in FORESTS:
        skops.dump(fitted(kind), tmp_path / "model.skops")
        loaded = debias.load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(debias.score(loaded, X, y).values, debias.score(fitted(kind), X, y).values)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(fitted()))
    with pytest.raises(debias.errors.UntrustedModelError, match="is a pickle"):
        debias.load_model(tmp_path / "model.pkl")


def test_the_example_of_the_documentation_runs(capsys):
    pytest.importorskip("sksurv")
    page = (Path(__file__).parents[2] / "docs" / "survival.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    exec(example.replace("Forest(300,", "Forest(50,"), {})  # noqa: S102 - it is our own page
    assert "686 out-of-bag rows, 9 features" in capsys.readouterr().out


# --- not supported -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*FORESTS, "SurvivalTree", "GradientBoostingSurvivalAnalysis"])
def test_a_model_that_is_not_fitted_is_refused(kind):
    with pytest.raises(debias.UnsupportedModelError, match="is not fitted; fit it first"):
        debias.score(model(kind), *survival.rows(N, 0))


@pytest.mark.parametrize(
    ("loss", "reason"), [("squared", "the unit of time"), ("ipcwls", "does not keep these weights")]
)
def test_boosting_with_a_loss_of_times_is_refused(loss, reason):
    X, y = survival.rows(N, 0)
    y["time"] = 1 + y["time"]  # the library takes the logarithm, and refuses it below 0
    boosted = model("GradientBoostingSurvivalAnalysis", loss=loss).fit(X, y)
    with pytest.raises(debias.UnsupportedModelError, match=reason):
        debias.score(boosted, *survival.rows(N, 1), rows="held-out")


def test_componentwise_boosting_has_no_trees():
    pytest.importorskip("sksurv")
    from sksurv.ensemble import ComponentwiseGradientBoostingSurvivalAnalysis

    X, y = survival.rows(N, 0)
    with pytest.raises(debias.UnsupportedModelError, match="linear base learners and no trees"):
        debias.score(ComponentwiseGradientBoostingSurvivalAnalysis(n_estimators=5).fit(X, y), X, y)
