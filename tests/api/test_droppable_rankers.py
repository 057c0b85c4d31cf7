"""`debias.droppable` for rankers, against refits and NDCG by hand."""

import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRanker
from scipy import stats
from sklearn.metrics import ndcg_score
from xgboost import XGBRanker

import debias
from debias import Dataset, RowsError

SETTINGS = {"n_estimators": 15, "max_depth": 3, "n_jobs": 1, "random_state": 0}
HELD_OUT = {"rows": "held-out"}


def drawn(n_queries, seed, size=8, effect=1.5):
    """Return rows in queries: of five features a and b matter; the last two are of the query, and so say nothing."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(n_queries), size)
    X = pd.DataFrame(rng.normal(size=(query.size, 4)), columns=["a", "b", "noise 1", "noise 2"])
    X["of query"] = rng.normal(size=n_queries)[query]
    latent = effect * X["a"] + X["b"] + rng.normal(size=query.size) + 0.3 * rng.normal(size=n_queries)[query]
    return X, np.digitize(latent, [-1.0, 0.5, 2.0]), query


def asked(model, held_out, train, **settings):
    (X, y, query), (X_train, y_train, query_train) = held_out, train
    return debias.droppable(
        model, Dataset(X, y, qid=query), train=Dataset(X_train, y_train, qid=query_train), **HELD_OUT | settings
    )


def fitted(train, **settings):
    X, y, query = train
    return XGBRanker(**SETTINGS | settings).fit(X, y, qid=query)


def ndcg(model, X, y, query):
    """Return the NDCG of each query that has rows to rank, by scikit-learn, which averages over ties."""
    score, gain = model.predict(X), 2.0**y - 1
    return np.array(
        [ndcg_score([gain[query == q]], [score[query == q]]) for q in np.unique(query) if np.ptp(gain[query == q]) > 0]
    )


@pytest.fixture(scope="module")
def train():
    return drawn(120, 0)


@pytest.fixture(scope="module")
def held_out():
    return drawn(150, 1)


@pytest.fixture(scope="module")
def ranker(train):
    return fitted(train)


@pytest.fixture(scope="module")
def result(ranker, held_out, train):
    return asked(ranker, held_out, train, tolerance=0.1)


@pytest.mark.thorough
def test_estimates_and_statuses_are_those_of_refits_and_tests_by_query_by_hand(ranker, held_out, train, result):
    (X, y, query), (X_train, y_train, query_train) = held_out, train
    before, gains = ndcg(ranker, X, y, query), 2.0**y - 1
    by_chance = [ndcg_score([gains[query == q]], [np.zeros((query == q).sum())]) for q in range(150)]
    gain = before - by_chance
    assert result.performance.metric == "NDCG"
    assert result.performance.value == pytest.approx(before.mean())
    assert result.performance.constant == pytest.approx(np.mean(by_chance))
    for k, size in enumerate(result.sizes.tolist()):
        kept = [name for name in X if name not in result.order[:size]]
        after = ndcg(fitted((X_train[kept], y_train, query_train)), X[kept], y, query)
        risen = before - after
        assert result.lost[k] == pytest.approx(risen.mean() / gain.mean(), abs=1e-6)
        assert result.to_frame()["NDCG"].iloc[k] == pytest.approx(after.mean(), abs=1e-6)
        u = risen - 0.1 * gain
        t, limit = u.mean() / stats.sem(u), stats.t.ppf(0.95, u.size - 1)
        assert abs(abs(t) - limit) > 1e-3
        assert (result.high[k] < 0.1) == (t < -limit)
        assert (result.low[k] > 0.1) == (t > limit)


def test_the_features_that_rank_are_kept_and_the_refit_is_handed_over(train, result):
    X, y, query = train
    assert {"noise 1", "noise 2", "of query"} >= set(result.columns)
    assert result.columns
    assert (result.n_rows, result.n_independent, result.blocks, result.units) == (1200, 150, False, "held-out queries")
    kept = X.drop(columns=result.columns)
    by_hand = fitted((kept, y, query))
    np.testing.assert_allclose(result.model.predict(kept), by_hand.predict(kept), rtol=1e-6)
    text = " ".join(result.summary())
    assert "for a random order. The tests are by query, and of the held-out queries 150 have rows to rank." in text
    again = debias.Droppable.from_json(result.to_json())
    assert again.summary() == result.summary()
    assert again.units == "held-out queries"


def test_rows_of_a_query_may_be_anywhere_and_labels_of_queries_may_be_anything(ranker, held_out, train, result):
    rng = np.random.default_rng(0)
    X, y, query = held_out
    order = rng.permutation(len(y))
    mixed = X.iloc[order], y[order], np.array([f"query {q}" for q in query])[order]
    X, y, query = train
    order = np.argsort(query[::-1], kind="stable")  # rows of a query in another order, queries in the same one
    found = asked(ranker, mixed, (X[::-1].iloc[order], y[::-1][order], query[::-1][order] * 7), columns=["noise 1"])
    expected = asked(ranker, held_out, train, columns=["noise 1"])
    np.testing.assert_allclose(found.lost, expected.lost, atol=0.05)  # trees depend on the order a little
    of_mixed = asked(ranker, mixed, train, columns=["noise 1"])
    for name in ("lost", "low", "high"):
        np.testing.assert_allclose(getattr(of_mixed, name), getattr(expected, name), rtol=1e-6)


@pytest.mark.thorough
def test_queries_without_anything_to_rank_do_not_count(ranker, held_out, train):
    X, y, query = held_out
    alone = drawn(6, 5, size=1)
    same = drawn(4, 6)
    more = (
        pd.concat([X, alone[0], same[0]], ignore_index=True),
        np.concatenate([y, alone[1], np.full(32, 2)]),
        np.concatenate([query, 1000 + alone[2], 2000 + same[2]]),
    )
    found, expected = (asked(ranker, rows, train, columns=["noise 1"]) for rows in (more, held_out))
    assert (found.n_rows, found.n_independent) == (1200 + 6 + 32, 150)
    for name in ("lost", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
    # In training they are kept, and left out of the losses that give the order.
    in_training = (
        pd.concat([train[0], alone[0], same[0]], ignore_index=True),
        np.concatenate([train[1], alone[1], np.full(32, 2)]),
        np.concatenate([train[2], 1000 + alone[2], 2000 + same[2]]),
    )
    assert "a" not in asked(fitted(in_training), held_out, in_training, tolerance=0.2).columns


@pytest.mark.thorough
def test_weights_are_those_of_queries_repeated(train, held_out):
    (X, y, query), (X_train, y_train, query_train) = held_out, train
    of_query = np.random.default_rng(0).integers(1, 3, 150)
    in_training = np.random.default_rng(1).integers(1, 4, 120).astype(float)
    model = XGBRanker(**SETTINGS).fit(X_train, y_train, qid=query_train, sample_weight=in_training)
    trained_on = Dataset(X_train, y_train, qid=query_train, sample_weight=in_training[query_train])
    twice = np.flatnonzero(of_query[query] == 2)
    repeated = np.concatenate([np.arange(len(y)), twice])
    labels = np.concatenate([query, 500 + query[twice]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # repeated rows
        weighted, by_row = (
            debias.droppable(model, rows, train=trained_on, columns=["noise 1"], **HELD_OUT)
            for rows in (
                Dataset(X, y, qid=query, sample_weight=of_query[query].astype(float)),
                Dataset(X.iloc[repeated], y[repeated], qid=labels, blocks=labels % 500),
            )
        )
    assert (weighted.n_independent, by_row.n_independent) == (150, 150)
    assert (weighted.units, by_row.units) == ("held-out queries", "blocks of held-out rows")
    for name in ("lost", "low", "high"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(by_row, name), rtol=1e-6)
    refit = XGBRanker(**SETTINGS).fit(
        X_train.drop(columns="noise 1"), y_train, qid=query_train, sample_weight=in_training
    )
    before, after = ndcg(model, X, y, query), ndcg(refit, X.drop(columns="noise 1"), y, query)
    by_chance = [ndcg_score([2.0 ** y[query == q] - 1], [np.zeros(8)]) for q in range(150)]
    lost = of_query @ (before - after) / (of_query @ (before - by_chance))
    assert weighted.lost[0] == pytest.approx(lost, abs=1e-6)
    with pytest.raises(RowsError, match="one weight for each query: sample_weight differs"):
        debias.droppable(
            model, Dataset(X, y, qid=query, sample_weight=np.linspace(1, 2, len(y))), train=trained_on, **HELD_OUT
        )


@pytest.mark.thorough
def test_groups_are_dropped_as_one_and_lightgbm_is_refitted_too(train, held_out):
    X, y, query = train
    model = LGBMRanker(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1, random_state=0)
    model.fit(X, y, group=np.full(120, 8))
    found = asked(model, held_out, train, groups={"noise": ["noise 1", "noise 2", "of query"]}, tolerance=0.1)
    assert found.feature_names == ("a", "b", "noise")
    assert found.columns == ["noise 1", "noise 2", "of query"]
    assert type(found.model) is LGBMRanker
    one, other = (asked(model, held_out, train, n_jobs=n_jobs, tolerance=0.2) for n_jobs in (None, 2))
    assert one.to_json() == other.to_json()


def test_what_is_missing_is_said_in_one_sentence(ranker, held_out, train):
    (X, y, query), (X_train, y_train, query_train) = held_out, train
    with_queries, trained_on = Dataset(X, y, qid=query), Dataset(X_train, y_train, qid=query_train)
    for rows, training in (
        (with_queries, (X_train, y_train)),
        (with_queries, Dataset(X_train, y_train)),
        (Dataset(X, y), trained_on),
        (Dataset(X, y), (X_train, y_train)),
    ):
        with pytest.raises(RowsError, match=r"pass debias.Dataset\(X, y, qid=...\) and train=debias.Dataset\("):
            debias.droppable(ranker, rows, train=training, **HELD_OUT)


def test_few_queries_and_useless_rankers_are_refused(ranker, held_out, train):
    X, y, query = held_out
    few = query < 9
    with pytest.raises(
        RowsError, match="there are 9 queries with rows to rank, .* nothing is tested with fewer than 10"
    ):
        asked(ranker, (X[few], y[few], query[few]), train)
    in_training = train[2] < 5
    small = tuple(each[in_training] for each in train)
    with pytest.raises(RowsError, match="5 queries with something to rank are too few for 3 folds: pass fewer folds"):
        asked(fitted(small), held_out, small)
    empty = fitted(train, n_estimators=15, min_child_weight=1e9)  # no split: all rows of a query tie
    with pytest.raises(RowsError, match="does not predict these rows better than a constant"):
        asked(empty, held_out, train)
    with pytest.raises(RowsError, match="all rows of each query have the same relevance"):
        asked(ranker, (X, np.ones_like(y), query), train)


def test_training_rows_certify_nothing(ranker, train):
    warned = pytest.warns(debias.DebiasWarning, match="are also in train=")
    with warned, pytest.raises(RowsError, match="100% of the evaluation rows are also in train="):
        asked(ranker, train, train)


def weak(n_queries, seed):
    """Rows in queries of eight features whose effects fall from strong to none, so that no size is clearly right."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(n_queries), 6)
    X = pd.DataFrame(rng.normal(size=(query.size, 8)), columns=[f"x{k}" for k in range(8)])
    return X, np.digitize(X.to_numpy() @ 0.7 ** np.arange(8) + rng.normal(size=query.size), [-1.5, 0, 1.5]), query


@pytest.mark.slow
def test_certificates_of_rankers_are_wrong_in_at_most_alpha_of_draws():
    """Each draw has new training and held-out queries; the true loss of the refit is that on 700 queries."""
    wrong, certified, n_draws, tolerance = 0, 0, 100, 0.1
    X_new, y_new, query_new = weak(700, 10_000)
    of_queries = [2.0**relevance - 1 for relevance in y_new.reshape(700, 6) if np.ptp(relevance)]
    by_chance = np.mean([ndcg_score([gain], [np.zeros(6)]) for gain in of_queries])
    for seed in range(n_draws):
        train, held_out = weak(80, 2 * seed), weak(100, 2 * seed + 1)
        model = fitted(train, n_estimators=20)
        try:
            found = asked(model, held_out, train, tolerance=tolerance, random_state=seed)
        except RowsError:  # no gain beyond chance: nothing is certified
            continue
        if not found.columns:
            continue
        certified += 1
        before = ndcg(model, X_new, y_new, query_new).mean()
        after = ndcg(found.model, X_new.drop(columns=found.columns), y_new, query_new).mean()
        wrong += (before - after) / (before - by_chance) > tolerance
    assert certified > 10
    assert wrong / n_draws < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_draws)
