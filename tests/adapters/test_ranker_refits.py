"""Refits of rankers: they have the queries and the weights of queries, and rows of a query may be anywhere."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias
from adapters.test_rankers import MODELS, N_QUERIES, SIZE, cat, lgb, ranked, relevance, xgb
from debias import RowsError, UnsupportedModelError
from debias.hooks.registry import plugin_manager

WEIGHT = np.random.default_rng(0).integers(1, 5, N_QUERIES).astype(float)


def xgb_ranker(X, y, query, weight=None):
    return xgboost.XGBRanker(n_estimators=10, max_depth=3, n_jobs=1).fit(X, y, qid=query, sample_weight=weight)


def lgb_ranker(X, y, query, weight=None):
    model = lightgbm.LGBMRanker(n_estimators=10, num_leaves=8, n_jobs=1, verbose=-1)
    of_rows = None if weight is None else np.repeat(weight, SIZE)
    return model.fit(X, y, group=np.unique(query, return_counts=True)[1], sample_weight=of_rows)


def cat_ranker(X, y, query, weight=None):
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 10, "depth": 3, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    model = catboost.CatBoostRanker(loss_function="QueryRMSE", random_seed=0, **settings)
    return model.fit(X, y, group_id=query, group_weight=None if weight is None else np.repeat(weight, SIZE))


WRAPPERS = {"XGBRanker": xgb_ranker, "LGBMRanker": lgb_ranker, "CatBoostRanker": cat_ranker}
TRAINED = {
    **WRAPPERS,
    **{name: lambda X, y, query, of=train, name=name: of(X, y, query, name) for name, (train, _) in MODELS.items()},
}


def margins(model, X):
    ensemble = debias.plugin.extract(model)
    return plugin_manager().hook.debias_predict_raw(model=model, X=X.to_numpy(ensemble.routing_dtype))[:, 0]


@pytest.mark.parametrize("name", TRAINED)
def test_a_refit_on_the_same_rows_is_the_same_model(name):
    X, y, query = ranked(0)
    model = TRAINED[name](X, y, query)
    again = debias.refit(model, X, relevance(name, y), qid=query)
    np.testing.assert_allclose(margins(again, X), margins(model, X), rtol=1e-6, atol=1e-7)
    assert type(again) is type(model)
    fewer = debias.refit(model, X[["x0", "noise"]], relevance(name, y), qid=query)
    assert debias.plugin.extract(fewer).n_features == 2


@pytest.mark.parametrize("name", WRAPPERS)
def test_rows_of_a_query_are_put_together_and_stay_with_their_relevance_and_weight(name):
    X, y, query = ranked(0)
    model = WRAPPERS[name](X, y, query, WEIGHT)
    order = np.random.default_rng(1).permutation(len(y))
    mixed, before = (X.iloc[order], y[order], query[order]), X.copy()
    again = debias.refit(model, *mixed[:2], WEIGHT[mixed[2]], qid=[f"q{k}" for k in mixed[2]])
    # By hand: queries in the order in which they appear, and rows in theirs.
    codes = pd.factorize(mixed[2])[0]
    by_query = order[np.argsort(codes, kind="stable")]
    shown = query[by_query][::SIZE]
    by_hand = WRAPPERS[name](X.iloc[by_query], y[by_query], np.repeat(np.arange(N_QUERIES), SIZE), WEIGHT[shown])
    np.testing.assert_allclose(margins(again, X), margins(by_hand, X), rtol=1e-6, atol=1e-7)
    unweighted = debias.refit(model, *mixed[:2], qid=mixed[2])
    assert np.abs(margins(unweighted, X) - margins(again, X)).max() > 1e-3
    pd.testing.assert_frame_equal(X, before)


@pytest.mark.parametrize("name", ["XGBRanker", "LGBMRanker", "CatBoostRanker", "rank:ndcg", "lambdarank", "YetiRank"])
def test_without_queries_a_ranker_is_not_trained_again(name):
    X, y, query = ranked(0)
    model = TRAINED[name](X, y, query)
    with pytest.raises(RowsError, match="its queries are needed to train it again: pass qid="):
        debias.refit(model, X, y)
    with pytest.raises(RowsError, match="qid has the sizes of 60 groups: pass the query of each row"):
        debias.refit(model, X, y, qid=np.full(N_QUERIES, SIZE))
    with pytest.raises(RowsError, match="one weight for each query: sample_weight differs"):
        debias.refit(model, X, y, np.linspace(1, 2, len(y)), qid=query)


def test_queries_are_for_rankers_and_one_query_is_enough():
    X, y, query = ranked(0)
    plain = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X, y)
    with pytest.raises(RowsError, match="qid is for rankers"):
        debias.refit(plain, X, y, qid=query)
    one = debias.refit(xgb(X, y, query), X[:SIZE], y[:SIZE], qid=np.zeros(SIZE))
    by_hand = xgb(X[:SIZE], y[:SIZE], query[:SIZE])
    np.testing.assert_allclose(margins(one, X), margins(by_hand, X), rtol=1e-6)


def test_the_ranker_in_a_pipeline_gets_the_queries():
    X, y, query = ranked(0)
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), xgboost.XGBRanker(n_estimators=5, n_jobs=1))
    model.fit(X, y, xgbranker__qid=query)
    order = np.random.default_rng(1).permutation(len(y))
    again = debias.refit(model, X.iloc[order], y[order], qid=query[order])
    by_hand = np.argsort(pd.factorize(query[order])[0], kind="stable")
    hand = make_pipeline(StandardScaler().set_output(transform="pandas"), xgboost.XGBRanker(n_estimators=5, n_jobs=1))
    kept = order[by_hand]
    hand.fit(X.iloc[kept], y[kept], xgbranker__qid=pd.factorize(query[order])[0][by_hand])
    np.testing.assert_allclose(again.predict(X), hand.predict(X), rtol=1e-5, atol=1e-6)


def test_an_adapter_that_takes_no_queries_is_not_asked_with_them():
    """Its refit would forget them. Without queries it is asked as before, with what it takes."""
    X, y, query = ranked(0)
    model, asked = xgb(X, y, query), []

    class Adapter:
        @debias.plugin.hookimpl(tryfirst=True)
        def debias_refit(self, model, X, y):
            asked.append(len(y))
            return "refitted"

    manager, adapter = plugin_manager(), Adapter()
    manager.register(adapter)
    try:
        assert debias.refit(model, X, y) == "refitted"
        assert type(debias.refit(model, X, y, qid=query)) is xgboost.Booster
        assert asked == [len(y)]
    finally:
        manager.unregister(adapter)


def test_no_adapter_for_queries_is_an_error():
    X, y, query = ranked(0)
    model, manager = xgb(X, y, query), plugin_manager()
    with pytest.MonkeyPatch.context() as patch:
        everyone = manager.get_plugins()
        patch.setattr(
            "debias.models.refitting._hook_with_queries", lambda: manager.subset_hook_caller("debias_refit", everyone)
        )
        with pytest.raises(UnsupportedModelError, match="no adapter can refit a xgboost.core.Booster with queries"):
            debias.refit(model, X, y, qid=query)


def test_boosters_of_all_libraries_are_refitted_with_weights_of_queries():
    X, y, query = ranked(0)
    of_rows = np.repeat(WEIGHT, SIZE)
    params = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1}
    weighted = xgboost.train(params, xgboost.DMatrix(X, y, qid=query, weight=WEIGHT), 10)
    np.testing.assert_allclose(
        margins(debias.refit(weighted, X, y, of_rows, qid=query), X), margins(weighted, X), rtol=1e-6
    )
    group, params = np.full(N_QUERIES, SIZE), {"objective": "lambdarank", "num_leaves": 8, "verbose": -1}
    data = lightgbm.Dataset(X, y, group=group, weight=of_rows, params={"verbose": -1})
    weighted = lightgbm.train({**params, "num_threads": 1}, data, 10)
    np.testing.assert_allclose(
        margins(debias.refit(weighted, X, y, of_rows, qid=query), X), margins(weighted, X), rtol=1e-6
    )
    assert np.abs(margins(lgb(X, y, query), X) - margins(weighted, X)).max() > 1e-3
    assert type(debias.refit(cat(X, y, query), X, y, of_rows, qid=query)).__name__ == "CatBoost"
