"""Rankers of XGBoost, LightGBM and CatBoost: their response against the libraries' gradients, and scores of noise."""

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

import debias
from debias.data.response import encode
from debias.trees.routing import route

SIZE, N_QUERIES = 8, 60
N = SIZE * N_QUERIES
ROUNDS = 10


def ranked(seed, effect=1.0, n_queries=N_QUERIES):
    """Return features, relevances 0 to 3 and queries: x0 matters, noise has many values, `of_query` is one a query."""
    rng = np.random.default_rng(seed)
    n, query = SIZE * n_queries, np.repeat(np.arange(n_queries), SIZE)
    X = pd.DataFrame(
        {"x0": rng.normal(size=n), "noise": rng.normal(size=n), "of_query": rng.normal(size=n_queries)[query]}
    )
    latent = effect * X["x0"] + rng.normal(size=n) + rng.normal(size=n_queries)[query]
    return X, np.digitize(latent, [-1.0, 0.5, 1.5]), query


def xgb(X, y, query, objective="rank:ndcg", rounds=ROUNDS, **settings):
    rows = xgboost.DMatrix(X, y, qid=query)
    return xgboost.train({"objective": objective, "max_depth": 3, "nthread": 1, **settings}, rows, rounds)


def lgb(X, y, query, objective="lambdarank", rounds=ROUNDS, **settings):
    group = np.unique(query, return_counts=True)[1]
    params = {"objective": objective, "num_leaves": 8, "verbose": -1, "num_threads": 1, **settings}
    return lightgbm.train(params, lightgbm.Dataset(X, y, group=group, params={"verbose": -1}), rounds)


def cat(X, y, query, objective="QueryRMSE", rounds=ROUNDS, **settings):
    catboost = pytest.importorskip("catboost")
    params = {"loss_function": objective, "iterations": rounds, "depth": 3, "thread_count": 1, "verbose": False}
    model = catboost.CatBoost({**params, "allow_writing_files": False, "random_seed": 0, **settings})
    return model.fit(catboost.Pool(X, y, group_id=query))


MODELS = {
    "rank:pairwise": (xgb, "rank:pairwise"),
    "rank:ndcg": (xgb, "rank:ndcg"),
    "rank:map": (lambda X, y, query, objective, **more: xgb(X, y > 1, query, objective, **more), "rank:map"),
    "lambdarank": (lgb, "lambdarank"),
    "rank_xendcg": (lgb, "rank_xendcg"),
    **{name: (cat, name) for name in ("QueryRMSE", "QuerySoftMax", "PairLogit", "YetiRank")},
}


def relevance(name, y):
    return (y > 1).astype(int) if name == "rank:map" else y


@pytest.mark.parametrize("name", MODELS)
def test_an_audit_of_a_ranker_finds_the_feature_that_ranks(name):
    train, objective = MODELS[name]
    X, y, query = ranked(1)
    model = train(*ranked(0), objective)
    audit = debias.audit(model, debias.Dataset(X, relevance(name, y), qid=query), rows="held-out", random_state=0)
    assert audit.to_frame().loc["x0", "verdict"] == "informative"
    assert audit.to_frame().loc["noise", "share"] < 0.1
    assert audit.scores["mdi_oob"].details["test"]["n_independent"] == N_QUERIES
    assert "oob_loss" not in audit.to_frame()


def gradient_sums(booster, X):
    """Return minus the gradients of the training rows, summed over the leaves of the first tree, by row."""
    ensemble = debias.plugin.extract(booster)
    leaf = route(ensemble, np.asarray(X, ensemble.routing_dtype))[:, 0]
    return ensemble, leaf, ensemble.value[:, 0] * ensemble.cover


@pytest.mark.parametrize("name", ["XGBRanker", "LGBMRanker", "CatBoostRanker"])
def test_wrappers_of_scikit_learn_are_scored_as_their_boosters(name):
    X, y, query = ranked(0)
    fresh, answer, other = ranked(1)
    if name == "CatBoostRanker":
        catboost = pytest.importorskip("catboost")
        settings = {"iterations": ROUNDS, "loss_function": "YetiRank", "verbose": False, "allow_writing_files": False}
        model = catboost.CatBoostRanker(thread_count=1, **settings).fit(X, y, group_id=query)
    elif name == "XGBRanker":
        model = xgboost.XGBRanker(n_estimators=ROUNDS, n_jobs=1).fit(X, y, qid=query)
    else:
        model = lightgbm.LGBMRanker(n_estimators=ROUNDS, n_jobs=1, verbose=-1)
        model.fit(X, y, group=np.full(N_QUERIES, SIZE))
    scores = debias.score(model, debias.Dataset(fresh, answer, qid=other), rows="held-out", test="naive")
    assert scores.to_frame()["mdi_oob"].idxmax() == "x0"
    assert scores.selected[0]


@pytest.mark.parametrize("normalised", [False, True])
def test_pairwise_response_sums_to_the_gradients_of_xgboost(normalised):
    X, y, query = ranked(2)
    one = {"learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0, "lambdarank_normalization": normalised}
    ensemble, leaf, expected = gradient_sums(xgb(X, y, query, "rank:pairwise", rounds=1, **one), X)
    response = encode(y, ensemble, N, query=query).values[:, 0]
    sums = np.bincount(leaf, weights=response, minlength=ensemble.n_nodes)
    leaves = ensemble.left < 0
    np.testing.assert_allclose(sums[leaves], expected[leaves], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"lambdarank_num_pair_per_sample": 3}], ids=["all ranks", "first 3"])
@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:map"])
def test_response_of_lambdamart_is_the_mean_gradient_of_xgboost_over_orders(objective, settings):
    X, y, query = ranked(3, n_queries=12)
    y, n_orders = relevance(objective, y), 60
    side = X[["x0"]].to_numpy() > 0  # one column of two values, so that every tree has the same two leaves
    one = {"learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0, "lambdarank_normalization": False, **settings}
    rng, found = np.random.default_rng(0), np.empty(n_orders)
    for k in range(n_orders):
        order = np.lexsort((rng.random(len(y)), query))
        booster = xgb(side[order].astype(float), y[order], query[order], objective, rounds=1, **one)
        ensemble, leaf, sums = gradient_sums(booster, side)
        found[k] = sums[leaf[side[:, 0]][0]]
    response = encode(y, ensemble, len(y), query=query).values[:, 0]
    error = found.std(ddof=1) / np.sqrt(n_orders)
    assert abs(found.mean() - response[side[:, 0]].sum()) < 4 * error
    assert error < 0.1 * abs(found.mean())


@pytest.mark.thorough
@pytest.mark.parametrize("sigmoid", [1, 2])
@pytest.mark.parametrize("normalised", [False, True])
def test_response_of_lambdarank_is_the_mean_gradient_of_lightgbm_over_orders(sigmoid, normalised):
    X, y, query = ranked(3, n_queries=12)
    side, n_orders = (X[["x0"]].to_numpy() > 0).astype(float), 60
    one = {"learning_rate": 1, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1e-9, "lambdarank_norm": normalised}
    rng, found = np.random.default_rng(0), []
    for _ in range(n_orders):
        order = np.lexsort((rng.random(len(y)), query))
        booster = lgb(
            side[order], y[order], query[order], rounds=1, lambdarank_truncation_level=3, sigmoid=sigmoid, **one
        )
        right = booster.dump_model()["tree_info"][0]["tree_structure"]["right_child"]
        found.append(right["leaf_value"] * right["leaf_weight"])
    response = encode(y, debias.plugin.extract(booster), len(y), query=query).values[:, 0]
    error = np.std(found, ddof=1) / np.sqrt(n_orders)
    left_out = 0.05 * abs(np.mean(found)) if normalised else 0  # the factor of a query has the mean of S
    assert abs(np.mean(found) - response[side[:, 0] == 1].sum()) < 4 * error + left_out
    assert error < 0.1 * abs(np.mean(found))


@pytest.mark.parametrize("objective", ["QueryRMSE", "QuerySoftMax", "PairLogit"])
def test_response_gives_the_leaves_of_catboost(objective):
    X, y, query = ranked(4)
    settings = {"learning_rate": 1, "l2_leaf_reg": 0, "leaf_estimation_method": "Gradient", "boost_from_average": False}
    settings |= {"leaf_estimation_iterations": 1, "bootstrap_type": "No", "random_strength": 0}
    ensemble = debias.plugin.extract(cat(X, y, query, objective, rounds=1, **settings))
    leaf = route(ensemble, np.asarray(X, ensemble.routing_dtype))[:, 0]
    response = encode(y, ensemble, N, query=query).values[:, 0]
    in_query = query[:, None] == query
    n_pairs = (in_query & (y[:, None] != y)).sum(axis=1)
    size = n_pairs if objective == "PairLogit" else np.ones(N)  # CatBoost divides by the weights of pairs
    mean = (np.bincount(leaf, weights=response) / np.maximum(np.bincount(leaf, weights=size), 1))[leaf]
    value = ensemble.value[leaf, 0]
    if objective == "PairLogit":  # and subtracts the mean of all leaves
        at = np.unique(leaf, return_index=True)[1]
        mean, value = mean - mean[at].mean(), value - value[at].mean()
    np.testing.assert_allclose(mean, value, rtol=1e-4, atol=1e-6)


def test_order_of_rows_and_names_of_queries_do_not_matter():
    model, (X, y, query) = xgb(*ranked(0)), ranked(1)
    expected = debias.score(model, debias.Dataset(X, y, qid=query), rows="held-out").values
    order = np.random.default_rng(0).permutation(N)
    names = np.array([f"query {k}" for k in np.random.default_rng(1).permutation(N_QUERIES)])[query]
    shuffled = debias.score(model, debias.Dataset(X.iloc[order], y[order], qid=names[order]), rows="held-out").values
    np.testing.assert_allclose(shuffled, expected, rtol=1e-9)


def test_relevant_rows_may_come_first_in_each_query():
    def chosen_first(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(N_QUERIES, SIZE, 3))
        best = (X[:, :, 0] + rng.gumbel(size=(N_QUERIES, SIZE))).argmax(axis=1)
        X[np.arange(N_QUERIES), best], X[:, 0] = X[:, 0].copy(), X[np.arange(N_QUERIES), best].copy()
        return X.reshape(N, 3), np.tile(np.arange(SIZE) == 0, N_QUERIES).astype(int), np.arange(N) // SIZE

    model, (X, y, query) = xgb(*chosen_first(0)), chosen_first(1)
    rows = {"rows": "held-out", "test": "permutation", "random_state": 0}
    assert debias.score(model, debias.Dataset(X, y, qid=query), **rows).selected.tolist() == [True, False, False]
    joined = debias.score(model, debias.Dataset(X, y, qid=query, blocks=query // 2), **rows)  # of two queries each
    assert joined.selected.tolist() == [True, False, False]


def test_contributions_and_comparisons_take_queries():
    model, (X, y, query) = xgb(*ranked(0)), ranked(1)
    score = debias.score(model, debias.Dataset(X, y, qid=query), rows="held-out").values
    np.testing.assert_allclose(
        debias.contributions(model, debias.Dataset(X, y, qid=query), rows="held-out").sum(), score, atol=1e-9
    )
    compared = debias.compare(model, debias.Dataset(X, y, qid=query), scorers=["mdi_oob", "oob_split"], rows="held-out")
    np.testing.assert_allclose(compared.to_frame()["mdi_oob"], score)
    with pytest.warns(debias.DebiasWarning, match="permutation is left out of the comparison: "):
        by_default = debias.compare(model, debias.Dataset(X, y, qid=query), rows="held-out")
    assert [*by_default.scores] == ["native", "mdi_oob", "shap", "shap_oob"]


def test_training_rows_bring_their_queries():
    X, y, query = ranked(1)
    X_train, y_train, query_train = ranked(0)
    model = lgb(X_train, y_train, query_train)
    train = debias.Dataset(X_train, y_train, qid=query_train)
    audit = debias.audit(model, debias.Dataset(X, y, qid=query), rows="held-out", train=train, random_state=0)
    assert audit.to_frame().loc["x0", "dependence"] == "dependent"
    assert audit.to_frame().loc["noise", "dependence"] == "not detected"
    assert np.isfinite(
        debias.score(model, debias.Dataset(X, y, qid=query), scorer="ufi", rows="held-out", train=train).values
    ).all()
    with pytest.raises(debias.RowsError, match=r"train=debias\.Dataset\(X_train, y_train, qid="):
        debias.score(model, debias.Dataset(X, y, qid=query), scorer="ufi", rows="held-out", train=(X_train, y_train))


@pytest.mark.parametrize(
    ("qid", "said"),
    [
        (np.full(N_QUERIES, SIZE), "np.repeat"),
        (np.arange(N - 1), r"qid has shape \(479,\) for 480 rows"),
        (np.append(np.arange(N - 1.0), np.nan), "qid has no label in row 479"),
        (np.zeros(N), "all rows are in one query"),
        (np.arange(N), "each query has one row"),
    ],
    ids=["sizes", "length", "missing", "one query", "one row a query"],
)
def test_wrong_queries_are_refused(qid, said):
    model, (X, y, _) = xgb(*ranked(0)), ranked(1)
    with pytest.raises(debias.RowsError, match=said):
        debias.score(model, debias.Dataset(X, y, qid=qid), rows="held-out")


def test_equal_relevance_is_refused():
    model, (X, y, query) = xgb(*ranked(0)), ranked(1)
    with pytest.raises(debias.RowsError, match="the same relevance, so there is nothing to rank"):
        debias.score(model, debias.Dataset(X, np.ones_like(y), qid=query), rows="held-out")


def test_a_ranker_without_queries_has_only_scores_without_a_response():
    model, (X, y, _) = xgb(*ranked(0)), ranked(1)
    for ask in (debias.score, debias.audit, debias.contributions):
        with pytest.raises(
            debias.DebiasError, match=r"pass debias\.Dataset\(X, y, qid=\.\.\.\), the query of each row"
        ):
            ask(model, X, y, rows="held-out")
    assert np.isfinite(debias.score(model, X, y, "native", rows="held-out").values).all()


def test_queries_of_other_models_and_of_scorers_of_data_are_refused():
    model, (X, y, query) = xgb(*ranked(0)), ranked(1)
    regression = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X, y)
    with pytest.raises(debias.RowsError, match="qid is for rankers"):
        debias.score(regression, debias.Dataset(X, y, qid=query), rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="takes no queries: it compares X with y over all rows"):
        debias.score(model, debias.Dataset(X, y, qid=query), scorer="guide")
    with pytest.raises(debias.plugin.CompositionError, match="takes no queries: leave qid out"):
        debias.score(None, debias.Dataset(X, y, qid=query), scorer="guide")
    with pytest.raises(debias.plugin.CompositionError, match="needs all rows at once"):
        debias.score(model, debias.Dataset([(X, y)], qid=query), rows="held-out")
    with pytest.raises(debias.plugin.CompositionError, match="all rows are needed at once"):
        debias.score(model, [(X, y)], rows="held-out")


def test_a_ranking_loss_without_a_formula_says_so():
    model, (X, y, query) = cat(*ranked(0), "YetiRank:mode=NDCG", rounds=2), ranked(1)
    with pytest.raises(debias.plugin.CompositionError, match="no formula for its mode NDCG.*Leave qid out"):
        debias.score(model, debias.Dataset(X, y, qid=query), rows="held-out")


def test_blocks_hold_whole_queries():
    model, (X, y, query) = xgb(*ranked(0)), ranked(1)
    audit = debias.audit(model, debias.Dataset(X, y, qid=query, blocks=query // 2), rows="held-out", random_state=0)
    assert audit.scores["mdi_oob"].details["test"]["n_independent"] == N_QUERIES // 2
    with pytest.raises(debias.RowsError, match="blocks divide a query"):
        debias.score(model, debias.Dataset(X, y, qid=query, blocks=np.arange(N)), rows="held-out")


def noise(train, objective, n_fits):
    """Return scores on held-out and on training rows of models of noise, two arrays of shape (n_fits, 3)."""
    held_out, seen = [], []
    for fit in range(n_fits):
        X, y, query = ranked(2 * fit, effect=0)
        model = train(X, y, query, objective, rounds=5)
        fresh, answer, other = ranked(2 * fit + 1, effect=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unseen = debias.Dataset(fresh, relevance(objective, answer), qid=other)
            held_out.append(debias.score(model, unseen, rows="held-out").values)
            seen.append(debias.score(model, debias.Dataset(X, relevance(objective, y), qid=query), rows="train").values)
    return np.array(held_out), np.array(seen)


def z_of_mean(scores):
    return scores.mean(axis=0) / (scores.std(axis=0, ddof=1) / np.sqrt(len(scores)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rank:ndcg", "lambdarank"])
def test_noise_scores_0_on_average(name):
    held_out, seen = noise(*MODELS[name], n_fits=60)
    assert (np.abs(z_of_mean(held_out)) < 3.5).all()
    assert z_of_mean(seen)[1] > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_noise_scores_0_on_average_for_every_ranking_loss(name):
    held_out, _ = noise(*MODELS[name], n_fits=300)
    assert (np.abs(z_of_mean(held_out)) < 3.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["equal", "random"])
def test_noise_is_informative_in_1_of_20_data_sets(sizes):
    n_sets, wrong = 200, 0
    for number in range(n_sets):
        model, (X, y, query) = lgb(*ranked(2 * number)), ranked(2 * number + 1)
        kept = np.random.default_rng(number).random(N) < (0.7 if sizes == "random" else 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = debias.Dataset(X[kept], y[kept], qid=query[kept])
            test = debias.Permutation(99) if sizes == "equal" else "auto"
            audit = debias.audit(model, rows, rows="held-out", test=test, random_state=0)
        assert audit.tested_scores.details["test"]["method"] == ("permutation" if sizes == "equal" else "naive")
        wrong += (audit.to_frame().loc[["noise", "of_query"], "verdict"] == "informative").any()
    assert wrong / n_sets < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_sets)
