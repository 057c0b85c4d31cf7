import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import debias


@pytest.fixture(scope="module")
def drawn():
    """x0 alone, x1 and x2 together, a near copy of x0, noise of many values, noise of two."""
    rng = np.random.default_rng(0)
    n = 1500
    x0, x1, x2 = rng.integers(0, 8, (3, n)) / 7
    X = pd.DataFrame({"alone": x0, "with_b": x1, "with_a": x2, "copy": np.round(x0 + 0.1 * rng.normal(size=n), 1)})
    X["many"], X["few"] = rng.normal(size=n), rng.integers(0, 2, n)
    y = 2 * x0 + 6 * (x1 - 0.5) * (x2 - 0.5) + rng.normal(size=n)
    return X, y, RandomForestRegressor(40, random_state=0, max_features=2).fit(X, y)


@pytest.fixture(scope="module")
def comparison(drawn):
    X, y, forest = drawn
    return debias.compare(forest, X, y, random_state=0)


@pytest.mark.thorough
def test_scores_are_those_of_score_and_native_is_the_models_own(drawn, comparison):
    X, y, forest = drawn
    assert list(comparison.to_frame().columns) == ["native", "mdi_oob", "permutation", "shap", "shap_oob"]
    assert comparison.to_frame()["native"].is_monotonic_decreasing
    np.testing.assert_array_equal(comparison.to_frame().loc[X.columns, "native"], forest.feature_importances_)
    alone = debias.score(forest, X, y, "permutation", random_state=0)
    np.testing.assert_array_equal(comparison.to_frame().loc[X.columns, "permutation"], alone.values)
    assert comparison.scores["native"].details == {"kind": "mean decrease in impurity"}
    assert comparison.scores["native"].rows is None


@pytest.mark.thorough
def test_rank_correlations_are_spearmans(comparison):
    found = comparison.rank_correlation.loc["native", "shap_oob"]
    assert found == pytest.approx(
        spearmanr(comparison.to_frame()["native"], comparison.to_frame()["shap_oob"]).statistic
    )
    np.testing.assert_array_equal(np.diag(comparison.rank_correlation), 1)


def test_traits_tell_what_was_built_in(drawn, comparison):
    X, traits = drawn[0], comparison.traits
    assert traits["n_values"].to_dict() == X.nunique().to_dict()
    assert traits.loc["copy", "correlation"] == pytest.approx(abs(spearmanr(X["alone"], X["copy"]).statistic))
    assert traits.loc["copy", "correlated_with"] == "alone"
    # alone has an effect of its own; with_a and with_b have none but together.
    assert traits.loc["alone", "interaction"] < 0.25
    assert traits.loc[["with_a", "with_b"], "interaction"].min() > 0.75
    assert traits.loc["alone", "not_upheld"] == 0
    assert traits.loc["many", "not_upheld"] > 0.8


def test_disagreements_name_the_scorers_and_the_reasons(comparison):
    frame = comparison.disagreements
    assert frame["spread"].is_monotonic_decreasing
    many = frame.loc["many"]
    ranks = comparison.ranks.loc["many"]
    assert (many["highest"], many["lowest"]) == (ranks.min(), ranks.max())
    assert ranks[many["highest_by"]] == ranks.min()
    assert many["highest_by"] in ("native", "shap")
    assert "many values (1500)" in many["why"]
    assert "overfitted" in many["why"]
    assert "correlated with alone" in frame.loc["copy", "why"]
    assert "interacts" in frame.loc["with_a", "why"]


def test_an_additive_model_of_binned_features_does_not_interact():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 5, (600, 3)).astype(float)
    # Stumps see one feature each, so that SHAP values are functions of it.
    from xgboost import XGBRegressor

    model = XGBRegressor(n_estimators=40, max_depth=1).fit(X[:300], X[:300].sum(axis=1))
    found = debias.compare(model, X[300:], X[300:].sum(axis=1), ["native", "gain"], rows="held-out")
    assert found.traits["interaction"].max() < 1e-9
    assert found.traits["not_upheld"].max() < 0.25  # without mdi_oob: it is the same figure on unseen rows


def test_models_that_report_no_importance_are_compared_without_it(drawn):
    X, y = drawn[:2]
    model = HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=4).fit(X[:300], y[:300])
    found = debias.compare(model, X[300:], y[300:], rows="held-out", random_state=0)
    assert list(found.scores) == ["mdi_oob", "permutation", "shap", "shap_oob"]
    with pytest.raises(debias.plugin.CompositionError, match="reports no importance"):
        debias.compare(model, X[300:], y[300:], ["native", "mdi_oob"], rows="held-out")


def compared_scorer(name, function):
    return debias.plugin.scorer_plugin(name, unit="splits", compared=True)(function)


@pytest.mark.thorough
def test_a_scorer_that_asks_for_it_is_compared_by_default_unless_it_refuses_the_model(drawn):
    X, y, forest = drawn

    def splits(ensemble, rows):
        return np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features).astype(float)

    def refuses(ensemble, rows):
        raise debias.plugin.CompositionError("not this model")

    added = [compared_scorer("number_of_splits", splits), compared_scorer("never", refuses)]
    for each in added:
        debias.plugin.register(each)
    try:
        with pytest.warns(debias.DebiasWarning, match="never is left out of the comparison: not this model"):
            found = debias.compare(forest, X, y, random_state=0)
        assert list(found.scores) == ["native", "mdi_oob", "number_of_splits", "permutation", "shap", "shap_oob"]
        np.testing.assert_array_equal(
            found.scores["number_of_splits"].values, debias.score(forest, None, None, "split_count").values
        )
        with pytest.raises(debias.plugin.CompositionError, match="not this model"):
            debias.compare(forest, X, y, ["mdi_oob", "never"])
    finally:
        for each in added:
            debias.plugin.unregister(each)


@pytest.mark.thorough
def test_scorers_of_data_stand_beside_those_of_models(drawn):
    X, y, forest = drawn
    marginal = debias.plugin.scorer("marginal_predictive_value", estimator=LinearRegression(), cv=2)
    found = debias.compare(forest, X, y, ["mdi", marginal], random_state=0)
    assert found.to_frame().columns[1].startswith("marginal_predictive_value")


@pytest.mark.thorough
def test_of_a_pipeline_the_columns_are_the_users(drawn, comparison):
    X, y, forest = drawn
    pipeline = make_pipeline(StandardScaler(), clone(forest)).fit(X, y)
    found = debias.compare(pipeline, X, y, ["mdi_oob", "shap"], random_state=0)
    assert list(found.traits.index) == list(X.columns)
    assert found.traits["correlated_with"].tolist() == comparison.traits["correlated_with"].tolist()


def test_columns_made_of_columns_are_refused(drawn):
    X, y, forest = drawn
    pipeline = make_pipeline(OneHotEncoder(sparse_output=False), clone(forest)).fit(X[["few", "alone"]], y)
    with pytest.raises(debias.UnsupportedModelError, match="Pass level=.model."):
        debias.compare(pipeline, X[["few", "alone"]], y, ["mdi_oob", "shap"], random_state=0)


@pytest.mark.parametrize("scorers", [["mdi"], ["mdi", "mdi"], []])
def test_fewer_than_two_scorers_are_refused(drawn, scorers):
    X, y, forest = drawn
    with pytest.raises(debias.plugin.CompositionError, match="two or more"):
        debias.compare(forest, X, y, scorers)


def test_the_table_has_the_scores_of_tested_scorers_only(drawn):
    X, y = drawn[:2]
    scorers = ["mdi_oob", "ablation", "permutation(p_values=True)"]
    model = HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=4).fit(X[:700], y[:700])
    found = debias.compare(model, X[700:], y[700:], scorers, rows="held-out", random_state=0)
    assert found.scores["ablation"].p_value is not None
    assert list(found.to_frame().columns) == list(found.ranks.columns) == list(found.rank_correlation) == scorers
    assert set(found.disagreements["highest_by"]) | set(found.disagreements["lowest_by"]) <= set(scorers)
    assert repr(found).startswith("Comparison of mdi_oob, ablation, permutation(p_values=True): 6 features")
