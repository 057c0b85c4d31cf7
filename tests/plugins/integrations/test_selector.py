"""The selector: scikit-learn's own checks, then what it selects, where it goes, and what it refuses."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import debias
from debias.selection import DebiasedImportance, DebiasedSelector
from debias_bench.demo import BINARY, UNIQUE, demo_data
from support import simulated
from support.estimator_checks import with_checks

FOREST = RandomForestRegressor(40, random_state=0)


@with_checks([DebiasedSelector(RandomForestRegressor(5, random_state=0)), DebiasedSelector(scorer="gini_merit")])
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # few rows, few trees
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.integration
@with_checks(
    [
        DebiasedSelector(
            RandomForestClassifier(5, random_state=0),
            threshold="informative",
            random_state=0,
        ),
        DebiasedSelector(
            GradientBoostingRegressor(n_estimators=3, random_state=0), validation_fraction=0.3, random_state=0
        ),
        DebiasedSelector(scorer="guide", random_state=0),
    ]
)
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # few rows, few trees
def test_scikit_learn_checks_pass_with_other_settings(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return simulated.rows(200, 5, (0, 2, 0, 1), names="abcde")


@pytest.mark.quick
def test_what_the_audit_finds_informative_is_selected(data):
    X, y = data
    selector = DebiasedSelector(FOREST, threshold="informative", random_state=3, error_rate=0.1).fit(X, y)
    audit = debias.audit(clone(FOREST).fit(X, y), X, y, ["mdi_oob"], error_rate=0.1, random_state=3)
    np.testing.assert_array_equal(selector.scores_.p_adjusted, audit.tested_scores.p_adjusted)
    np.testing.assert_array_equal(selector.get_support(), audit.tested_scores.selected)
    assert list(selector.get_feature_names_out()) == ["b", "d"]
    assert (selector.scores_.rows, selector.scores_.provenance["status"]) == ("oob", "proven")
    assert not hasattr(FOREST, "estimators_"), "the user's estimator was fitted"


def test_a_number_is_a_threshold_of_the_score(data):
    X, y = data
    scores = debias.score(clone(FOREST).fit(X, y), X, y, "ufi").values
    limit = float(np.sort(scores)[2])
    selector = DebiasedSelector(FOREST, scorer="ufi", threshold=limit).fit(X, y)
    np.testing.assert_array_equal(selector.get_support(), scores > limit)
    assert selector.get_support().sum() == 2


@pytest.mark.thorough
def test_limits_on_the_number_keep_the_best(data):
    X, y = data
    values = debias.score(clone(FOREST).fit(X, y), X, y).values
    best = np.argsort(-values)
    for given, expected in (
        ({}, np.flatnonzero(values > 0)),
        ({"max_features": 1}, best[:1]),
        ({"min_features_to_select": 4}, best[:4]),
        ({"threshold": 1e9}, best[:1]),
        ({"threshold": -1e9}, best),
    ):
        selector = DebiasedSelector(FOREST, **given).fit(X, y)
        np.testing.assert_array_equal(selector.get_support(indices=True), np.sort(expected))
    nothing = DebiasedSelector(FOREST, threshold=1e9, min_features_to_select=0).fit(X, y)
    with pytest.warns(UserWarning, match="No features were selected"):
        assert nothing.transform(X).shape[1] == 0


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosters_are_scored_on_rows_held_out(data, models, library):
    X, y = data
    selector = DebiasedSelector(
        models(library, n_estimators=20), threshold="informative", validation_fraction=0.4, random_state=0
    ).fit(X, y)
    assert (selector.scores_.rows, selector.scores_.n_rows) == ("held-out", 80)
    assert list(selector.get_feature_names_out()) == ["b", "d"]
    with pytest.raises(debias.InBagUnavailableError, match="validation_fraction=0.25"):
        DebiasedSelector(models(library, n_estimators=2)).fit(X, y)


def test_scorers_of_data_need_no_estimator(data):
    X, y = data
    selector = DebiasedSelector(scorer="guide").fit(X, y)
    np.testing.assert_array_equal(selector.get_support(), debias.score(None, X, y, "guide").selected)
    assert selector.estimator_ is None


@pytest.mark.thorough
def test_meta_methods_decide_by_themselves(data):
    X, y = data
    scorer = "threshold(response_permutation(mdi, replicates=30), alpha=0.05)"
    selector = DebiasedSelector(RandomForestRegressor(30, random_state=0), scorer=scorer, random_state=1).fit(X, y)
    np.testing.assert_array_equal(selector.get_support(), selector.scores_.selected)
    assert selector.get_support()[1]
    assert not selector.get_support().all()


def test_a_generator_is_a_random_state(data):
    X, y = data
    forest = RandomForestRegressor(10, random_state=0)
    one, other = (
        DebiasedSelector(forest, random_state=np.random.default_rng(3)).fit(X, y).scores_.values for _ in range(2)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_output_is_in_the_container_asked_for(data, container):
    X, y = data
    selector = DebiasedSelector(FOREST, max_features=2).set_output(transform=container).fit(X, y)
    found = selector.transform(X)
    assert type(found).__module__.startswith(container)
    assert list(found.columns) == ["b", "d"]
    np.testing.assert_array_equal(np.asarray(found), X[["b", "d"]].to_numpy())


def test_sparse_rows_stay_sparse(data):
    X, y = data
    matrix = sparse.csr_matrix(X.where(X > 0, 0.0).to_numpy())
    selector = DebiasedSelector(FOREST, random_state=0).fit(matrix, y)
    found = selector.transform(matrix)
    np.testing.assert_array_equal(found.toarray(), matrix.toarray()[:, selector.get_support()])


@pytest.mark.thorough
def test_a_selector_inside_a_search_is_chosen_and_seen_by_the_audit(data):
    X, y = data
    selector = DebiasedSelector(RandomForestRegressor(20, random_state=0), random_state=0)
    pipeline = Pipeline([("scale", StandardScaler()), ("select", selector), ("forest", clone(FOREST))])
    grid = {"select__threshold": ["informative", 1e9], "select__estimator__max_depth": [2, None]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_["select__threshold"] == "informative"
    assert search.best_estimator_["select"].get_support(indices=True).tolist() == [1, 3]
    with pytest.raises(debias.ProvenanceError, match="'select' \\(DebiasedSelector\\) saw y of all training rows"):
        debias.audit(search, X, y)
    with pytest.warns(debias.DebiasWarning, match="not tested"):
        scores = debias.score(search, X, y, rows="oob")
    assert scores.feature_names == tuple("abcde")
    assert (scores.values[[0, 2, 4]] == 0).all()
    assert (scores.values[[1, 3]] > 0).all()


def test_weights_reach_training_and_scores(data):
    X, y = data
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    pipeline = make_pipeline(DebiasedSelector(FOREST, threshold=0.0), clone(FOREST))
    found = pipeline.fit(X, y, debiasedselector__sample_weight=weight)[0].scores_.values
    expected = debias.score(clone(FOREST).fit(X, y, weight), X, y, sample_weight=weight).values
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="cannot be used with sample_weight"):
        DebiasedSelector(FOREST, validation_fraction=0.5).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": "mean"}, "'informative', a number or None"),
        ({"threshold": np.nan}, "a number or None, not nan"),
        ({"error_rate": 2.0}, "error_rate=2.0"),  # also where nothing is tested
        ({"error_rate": ("fwr", 0.05)}, "'fwr'"),
        ({"test": "student"}, "test='student'"),
        ({"min_features_to_select": -1}, "min_features_to_select must be a whole number"),
        ({"max_features": 1, "min_features_to_select": 2}, "less than min_features_to_select"),
        ({"scorer": "ufi", "threshold": "informative"}, "ufi"),
        ({"scorer": "no_such"}, "no scorer 'no_such'"),
        ({"estimator": None}, "pass an estimator"),
        ({"error_rate": 2.0, "threshold": "informative"}, "error_rate=2.0"),
    ],
)
def test_wrong_use_is_a_value_error(data, given, message):
    with pytest.raises(ValueError, match=message):
        DebiasedSelector(**{"estimator": RandomForestRegressor(3), **given}).fit(*data)


@pytest.mark.thorough
def test_a_selected_forest_predicts_as_well_as_the_plain_one_on_the_demo_data():
    """The one-standard-error rule of Breiman et al. (1984), for the forest of the demonstration."""
    X, y = demo_data()
    forest = RandomForestRegressor(30, random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    plain = cross_val_score(forest, X, y, cv=folds)
    error = plain.std(ddof=1) / np.sqrt(plain.size)
    selected = cross_val_score(make_pipeline(DebiasedSelector(forest), forest), X, y, cv=folds)
    assert selected.mean() > plain.mean() - error
    strict = DebiasedSelector(forest, threshold="informative", random_state=0).fit(X, y)
    assert not {UNIQUE, BINARY} & set(strict.get_feature_names_out())


class TestImportanceGetter:
    def test_select_from_model_selects_by_debiased_scores(self, data):
        X, y = data
        importance = DebiasedImportance(X, y)
        selector = SelectFromModel(clone(FOREST), importance_getter=importance).fit(X, y)
        scores = debias.score(clone(FOREST).fit(X, y), X, y).values
        expected = np.maximum(scores, 0)
        np.testing.assert_array_equal(selector.get_support(), expected >= expected.mean())
        prefit = SelectFromModel(clone(FOREST).fit(X, y), prefit=True, importance_getter=importance).fit(X)
        np.testing.assert_array_equal(prefit.get_support(), selector.get_support())

    @pytest.mark.thorough
    @pytest.mark.parametrize("step", [1, 2])
    @pytest.mark.parametrize("container", ["pandas", "array"])
    def test_rfe_takes_off_the_smallest_step_by_step(self, data, step, container):
        X, y = data
        rows = X if container == "pandas" else X.to_numpy()
        rfe = RFE(clone(FOREST), n_features_to_select=1, step=step, importance_getter=DebiasedImportance(rows, y))
        rfe.fit(rows, y)
        left, ranking = np.arange(5), np.ones(5, dtype=int)
        while left.size > 1:
            part = X.to_numpy()[:, left]
            scores = np.maximum(debias.score(clone(FOREST).fit(part, y), part, y, rows="oob").values, 0)
            gone = np.argsort(scores, kind="stable")[: min(step, left.size - 1)]
            left = np.delete(left, gone)
            ranking[np.setdiff1d(np.arange(5), left)] += 1
        np.testing.assert_array_equal(rfe.ranking_, ranking)
        assert rfe.get_support(indices=True).tolist() == [1]

    @pytest.mark.thorough
    def test_rows_or_columns_that_are_not_those_of_training_are_refused(self, data):
        X, y = data
        with pytest.raises(debias.ProvenanceError):
            RFE(clone(FOREST), importance_getter=DebiasedImportance(X[::-1].to_numpy(), y[::-1])).fit(X, y)
        getter = DebiasedImportance(X, y)
        getter(clone(FOREST).fit(X, y))
        with pytest.raises(debias.ProvenanceError):
            getter(clone(FOREST).fit(X[["a", "c"]].to_numpy(), y))  # RFE would have kept b and d
        with pytest.raises(debias.RowsError, match="within one RFE"):
            DebiasedImportance(X, y)(clone(FOREST).fit(X[["a"]], y))
        with pytest.raises(
            debias.ProvenanceError, match="inside RFECV, a search.*Use debias.selection.DebiasedSelector"
        ):
            RFECV(clone(FOREST), cv=2, importance_getter=DebiasedImportance(X, y)).fit(X, y)
        selects = SelectFromModel(clone(FOREST), importance_getter=DebiasedImportance(X, y))
        search = GridSearchCV(make_pipeline(selects, clone(FOREST)), {}, cv=2, error_score="raise")
        with pytest.raises(debias.ProvenanceError, match="Use debias.selection.DebiasedSelector there"):
            search.fit(X, y)
        with pytest.raises(debias.RowsError, match="leave rows out"):
            RFE(clone(FOREST), importance_getter=DebiasedImportance(X[100:], y[100:], rows="held-out")).fit(
                X[:100], y[:100]
            )


@pytest.mark.thorough
def test_the_page_runs(data):
    page = (Path(__file__).parents[3] / "docs/selector.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    smaller = [each.replace("RandomForestRegressor(", "RandomForestRegressor(10, ") for each in blocks]
    named = dict(zip("Xy", data, strict=True))
    exec("\n".join(smaller).replace("n_features_to_select=5", "n_features_to_select=2"), named)  # noqa: S102 - ours
    assert named["search"].best_params_


def test_the_names_are_found_in_debias_selection():
    import debias.selection

    assert {"DebiasedImportance", "DebiasedSelector"} <= set(dir(debias.selection))
    assert not hasattr(debias.selection, "Nothing")


def test_the_importance_of_an_estimator_that_was_trained_again_is_its_own():
    X = np.random.default_rng(0).normal(size=(150, 3))
    y = X[:, 0] + 0.5 * X[:, 1] ** 2
    forest, importance = RandomForestRegressor(10, random_state=0), DebiasedImportance(X, y)
    first = importance(forest.fit(X, y))
    again = importance(forest.set_params(max_depth=2, random_state=5).fit(X, y))
    assert not np.array_equal(first, again)
    np.testing.assert_array_equal(again, np.maximum(debias.score(forest, X, y).values, 0))
    with pytest.raises(debias.ProvenanceError):
        importance(forest.fit(X, -X[:, 2]))


def graded(n=500, seed=0):
    """Two strong features, one that the forest hardly uses, and three of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    return X, X[:, 0] + X[:, 1] + 0.25 * X[:, 2] + rng.normal(size=n)


@pytest.mark.thorough
def test_droppable_keeps_all_but_a_certified_set():
    X, y = graded()
    forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=0)
    selector = DebiasedSelector(
        forest, strategy="droppable", tolerance=0.2, validation_fraction=0.4, random_state=0
    ).fit(X, y)
    result = selector.droppable_
    assert result.columns
    assert selector.support_.tolist() == [f"x{k}" not in result.columns for k in range(6)]
    assert (result.tolerance, result.alpha, result.n_rows) == (0.2, 0.05, 200)
    assert selector.support_[:2].all()
    pipeline = make_pipeline(clone(selector), forest).fit(X, y)
    assert pipeline[-1].n_features_in_ == selector.support_.sum()


@pytest.mark.thorough
def test_all_relevant_keeps_what_is_informative_or_dependent():
    X, y = graded()
    forest = RandomForestRegressor(60, random_state=0)
    selector = DebiasedSelector(forest, strategy="all-relevant", random_state=0).fit(X, y)
    audit = debias.audit(selector.estimator_, X, y, [], rows="oob", dependence=True, random_state=0)
    table = audit.to_frame().loc[list(audit.tested_scores.feature_names)]
    expected = (table["verdict"] == "informative") | (table["dependence"] == "dependent")
    assert selector.support_.tolist() == expected.tolist()
    assert selector.support_[:2].all()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"strategy": "some"}, "strategy must be one of 'all-relevant', 'droppable' or None"),
        ({"strategy": "droppable"}, "validation_fraction=0.3"),
        ({"strategy": "all-relevant", "threshold": 0.1}, "does not use threshold"),
        ({"strategy": "all-relevant", "max_features": 3}, "does not use max_features"),
        ({"strategy": "droppable", "validation_fraction": 0.3, "test": "naive"}, "does not use test"),
        ({"strategy": "droppable", "validation_fraction": 0.3, "scorer": "mdi"}, "does not use scorer"),
        ({"strategy": "all-relevant", "estimator": None}, "pass an estimator"),
    ],
)
def test_parameters_that_a_strategy_does_not_use_are_refused(settings, match):
    X, y = graded(100)
    with pytest.raises(ValueError, match=match):
        DebiasedSelector(**{"estimator": FOREST} | settings).fit(X, y)
