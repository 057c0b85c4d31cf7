"""What an audit says of the rows and the model is that of the rows it evaluates, and of the model that was passed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

import debias
from debias.errors import DebiasError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 4)))
    return X, np.exp(2 * X[0] + 1.5 * rng.normal(size=600))


@pytest.mark.filterwarnings("ignore:the bag of a tree has 90% of the rows:debias.DebiasWarning")
def test_rows_in_every_bag_are_not_evaluated(rows):
    X, y = rows
    trees = DecisionTreeRegressor(min_samples_leaf=5)
    bagged = BaggingRegressor(trees, 10, max_samples=0.9, bootstrap=False, random_state=0).fit(X, y)
    n_out = len(set(range(600)) - set.intersection(*(set(bag.tolist()) for bag in bagged.estimators_samples_)))
    assert 300 < n_out < 500
    audit = debias.audit(bagged, X, y, random_state=0)
    assert audit.performance.n_rows == audit.tested_scores.n_rows == debias.score(bagged, X, y).n_rows == n_out
    assert any(f"Scored on {n_out} out-of-bag rows" in sentence for sentence in audit.summary())
    assert audit.check({"min_rows": 500}).results[-1].status == "failed"
    in_batches = debias.score(bagged, [(X[k : k + 90], y[k : k + 90]) for k in range(0, 600, 90)])
    assert in_batches.n_rows == n_out


def test_a_transformed_response_is_predicted_as_the_model_predicts_it(rows):
    X, y = rows
    booster = GradientBoostingRegressor(n_estimators=30, random_state=0)
    model = TransformedTargetRegressor(booster, func=np.log, inverse_func=np.exp).fit(X[:300], y[:300])
    audit = debias.audit(model, X[300:], y[300:], rows="held-out", random_state=0)
    expected = r2_score(y[300:], model.predict(X[300:]))
    assert audit.performance.value == pytest.approx(expected)
    assert expected < 0.3 < r2_score(np.log(y[300:]), np.log(model.predict(X[300:])))
    forest = RandomForestRegressor(30, random_state=0)
    model = TransformedTargetRegressor(forest, func=np.log, inverse_func=np.exp).fit(X, y)
    audit = debias.audit(model, X, y, random_state=0)
    assert audit.performance.untold_because.startswith("the trees were grown on a transformed response")
    assert audit.check({"must_predict": 0.3}).results[-1].status == "not judged"


def test_names_of_columns_may_be_numbers(rows):
    X, y = rows
    audit = debias.audit(RandomForestRegressor(20, random_state=0).fit(X, y), X, y, test=None)
    assert audit.explain(0) == audit.explain("0")
    with pytest.raises(DebiasError, match="has no feature 'zzz'. There are: 0, 1, 2, 3"):
        audit.explain("zzz")


def test_a_model_without_a_split_is_told_so(rows):
    X, y = rows
    model = GradientBoostingRegressor(n_estimators=5, min_samples_leaf=400).fit(X[:300], y[:300])
    with pytest.raises(DebiasError, match="no tree of the model has a split"):
        debias.score(model, X[300:], y[300:])
