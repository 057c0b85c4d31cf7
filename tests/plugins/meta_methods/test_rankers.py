"""Meta-methods of rankers: responses and copies of columns are permuted within queries, and refits have the queries."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRanker
from xgboost import XGBRanker, XGBRegressor

import debias
from adapters.test_rankers import N_QUERIES, SIZE, ranked
from debias import Dataset, RowsError
from debias.data.chosen_rows import permuted_positions, permuted_response
from debias.plugin import CompositionError
from debias.retraining.replicates import child_seed
from debias_plugins.meta_methods.permuted_columns import names_of_copies, with_copies, with_permuted


@pytest.fixture(scope="module")
def train():
    return ranked(0)


@pytest.fixture(scope="module")
def held_out():
    return ranked(1)


@pytest.fixture(scope="module")
def ranker(train):
    X, y, query = train
    return XGBRanker(n_estimators=6, max_depth=3, n_jobs=1).fit(X, y, qid=query)


def asked(model, rows, train, text, **settings):
    settings = {"rows": "held-out", "random_state": 4, **settings}
    trained_on = Dataset(train[0], train[1], qid=train[2])
    return debias.score(model, Dataset(rows[0], rows[1], qid=rows[2]), scorer=text, train=trained_on, **settings)


def children(n, seed):
    return np.random.SeedSequence(seed).spawn(n)


def test_all_orders_within_queries_are_equally_likely_and_rows_stay_in_their_query():
    query, rng = np.array([7, 3, 7, 9, 7, 3]), np.random.default_rng(0)
    drawn = [permuted_positions(rng, query) for _ in range(6000)]
    assert all((query[order] == query).all() and sorted(order) == list(range(6)) for order in drawn)
    counts = Counter(tuple(order.tolist()) for order in drawn)
    assert len(counts) == 12  # 3! orders of query 7 times 2! of query 3
    # 5 standard errors of a count of 6,000 draws with a probability of 1/12
    assert max(abs(count - 500) for count in counts.values()) < 5 * np.sqrt(6000 * 11) / 12


def test_copies_of_a_row_keep_one_response_within_their_query():
    copy_of, query, y = np.array([4, 2, 4, 8, 9]), np.array([0, 0, 0, 1, 1]), np.array([10, 20, 10, 30, 40])
    seen = {tuple(permuted_response(np.random.default_rng(k), y, copy_of, query).tolist()) for k in range(40)}
    assert seen == {(a, b, a, c, d) for a, b in ((10, 20), (20, 10)) for c, d in ((30, 40), (40, 30))}


@pytest.mark.parametrize("inner", ["mdi_oob", "gain"])
def test_the_null_is_of_responses_permuted_within_queries(inner, ranker, train, held_out):
    found = asked(ranker, held_out, train, f"response_permutation({inner}, replicates=3)")
    expected, rows = [], {} if inner == "gain" else {"rows": "held-out"}
    for child in children(3, 4):
        rng = np.random.default_rng(child)
        X, y, query = train
        permuted = y[permuted_positions(rng, query)]
        assert (np.sort(permuted.reshape(N_QUERIES, SIZE)) == np.sort(y.reshape(N_QUERIES, SIZE))).all()
        again = debias.refit(ranker, X, permuted, qid=query, random_state=child_seed(child), n_jobs=1)
        X, y, query = held_out
        evaluated = Dataset(X, y[permuted_positions(rng, query)], qid=query)
        expected.append(debias.score(again, evaluated, scorer=inner, **rows).values)
    np.testing.assert_array_equal(found.null, expected)
    own = debias.score(ranker, Dataset(*held_out[:2], qid=held_out[2]), scorer=inner, **rows).values
    np.testing.assert_array_equal(found.details["unadjusted"], own)
    assert found.p_value[0] == 0.25  # x0 ranks, and 1/(1 + 3) is the smallest


def test_copies_have_the_values_of_their_query_and_columns_of_queries_those_of_other_queries():
    X, _, query = ranked(2)
    X["text"] = np.where(X["x0"] > 0, "a", None)  # missing values too
    X["of query, missing"] = X["of_query"].where(X["of_query"] > 0)
    copies = names_of_copies(tuple(X.columns))
    for jointly in (True, False):
        both = with_copies(np.random.default_rng(0), copies, jointly=jointly)(X, query=query)
        copied = both[list(copies)].set_axis(X.columns, axis=1)
        for name in ("x0", "noise", "text"):
            for k in range(N_QUERIES):
                values = (Counter(frame.loc[query == k, name].fillna("-").tolist()) for frame in (X, copied))
                assert len(set(map(frozenset, (each.items() for each in values)))) == 1
            assert not X[name].equals(copied[name])
        first = copied.iloc[::SIZE]
        for name in ("of_query", "of query, missing"):
            pd.testing.assert_series_equal(copied[name].iloc[::SIZE].repeat(SIZE), copied[name], check_index=False)
            np.testing.assert_array_equal(np.sort(first[name]), np.sort(X[name].iloc[::SIZE]))
            assert not X[name].equals(copied[name])
        moved = [np.searchsorted(np.sort(X["x0"]), frame["x0"]) for frame in (X, copied)]
        together = dict(zip(moved[0], X["noise"], strict=True))
        stays = all(together[k] == noise for k, noise in zip(moved[1], copied["noise"], strict=True))
        assert stays == jointly
    # Without queries nothing changes: one order of all rows.
    whole = with_copies(np.random.default_rng(0), copies, jointly=True)(X)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(whole["shadow_x0"], X["x0"].to_numpy()[order])


def test_a_share_of_rows_and_of_queries_is_permuted():
    X, _, query = ranked(2)
    both = with_copies(np.random.default_rng(0), names_of_copies(tuple(X.columns)), share=0.2)(X, query=query)
    changed = (both["shadow_x0"] != both["x0"]).mean()
    assert 0 < changed <= 0.2
    first = both.iloc[::SIZE]
    assert 0 < (first["shadow_of_query"] != first["of_query"]).mean() <= 0.2


@pytest.mark.parametrize(
    ("text", "share", "jointly"),
    [("shadow(mdi_oob, replicates=2)", 1.0, True), ("partial_permutation(mdi_oob, replicates=2)", 0.2, False)],
)
def test_columns_and_copies_are_scored_in_one_ranker(text, share, jointly, ranker, train, held_out):
    found = asked(ranker, held_out, train, text)
    copies, null = names_of_copies(tuple(train[0].columns)), []
    for child in children(2, 4):
        change = with_copies(np.random.default_rng(child), copies, share, jointly)
        parts = [(change(X, query=query), y, query) for X, y, query in (train, held_out)]
        (X, y, query), (X_new, y_new, query_new) = parts
        again = debias.refit(ranker, X, y, qid=query, random_state=child_seed(child), n_jobs=1)
        values = debias.score(again, Dataset(X_new, y_new, qid=query_new), rows="held-out").values
        null.append(values[3:])
    np.testing.assert_array_equal(found.null, null)


def test_one_column_is_permuted_within_queries(ranker, train, held_out):
    found = asked(ranker, held_out, train, "feature_permutation(mdi_oob, replicates=1, rule='difference')")
    (child,) = children(1, 4)
    change = with_permuted(np.random.default_rng(child), ("x0",))
    (X, y, query), (X_new, y_new, query_new) = ((change(X, query=query), y, query) for X, y, query in (train, held_out))
    assert (np.sort(X["x0"].to_numpy().reshape(-1, SIZE)) == np.sort(train[0]["x0"].to_numpy().reshape(-1, SIZE))).all()
    again = debias.refit(ranker, X, y, qid=query, random_state=child_seed(child), n_jobs=1)
    values = debias.score(again, Dataset(X_new, y_new, qid=query_new), rows="held-out").values
    assert found.null[0, 0] == values[0]


@pytest.mark.thorough
def test_rows_of_a_query_may_be_anywhere(train, held_out):
    model = LGBMRanker(n_estimators=6, num_leaves=7, n_jobs=1, verbose=-1, random_state=0)
    model.fit(*train[:2], group=np.full(N_QUERIES, SIZE))
    mixed = [np.random.default_rng(k).permutation(len(train[1])) for k in range(2)]
    rows, trained_on = (
        (X.iloc[order].reset_index(drop=True), y[order], np.array([f"q{k}" for k in query[order]]))
        for (X, y, query), order in zip((held_out, train), mixed, strict=True)
    )
    text = "threshold(response_permutation(mdi_oob, replicates=19), rule='fwer')"
    together, found = asked(model, held_out, train, text), asked(model, rows, trained_on, text)
    np.testing.assert_allclose(found.details["unadjusted"], together.details["unadjusted"], rtol=1e-9, atol=1e-12)
    assert together.selected[0]
    assert found.selected[0]
    assert found.null.max() < found.details["unadjusted"][0]


def test_an_audit_has_meta_methods_of_rankers(ranker, train, held_out):
    text = "shadow(mdi_oob, replicates=2)"
    found = debias.audit(
        ranker,
        Dataset(*held_out[:2], qid=held_out[2]),
        scorers=[text],
        rows="held-out",
        train=Dataset(*train[:2], qid=train[2]),
        random_state=4,
    )
    alone = asked(ranker, held_out, train, text)
    np.testing.assert_array_equal(found.scores[alone.scorer].values, alone.values)


def test_checkpoints_are_of_these_queries(ranker, train, held_out, tmp_path):
    text, refits = "response_permutation(mdi_oob, replicates=2)", debias.Refits(checkpoint=tmp_path / "null")
    first = asked(ranker, held_out, train, text, refits=refits)
    other = (*train[:2], np.roll(train[2], SIZE // 2))
    kept, fresh = (asked(ranker, held_out, other, text, **more) for more in ({"refits": refits}, {}))
    np.testing.assert_array_equal(kept.null, fresh.null)
    assert (kept.null != first.null).any()


def test_queries_that_are_missing_or_of_another_model_are_refused(ranker, train, held_out):
    with pytest.raises(RowsError, match=r"this is a ranker: pass train=debias.Dataset\(X_train, y_train, qid=...\)"):
        debias.score(
            ranker,
            Dataset(*held_out[:2], qid=held_out[2]),
            scorer="shadow(mdi_oob)",
            rows="held-out",
            train=train[:2],
        )
    with pytest.raises(RowsError, match="this is a ranker: .* with the query of each row"):
        debias.score(ranker, *train[:2], scorer="response_permutation(gain)")
    plain = XGBRegressor(n_estimators=2, n_jobs=1).fit(*train[:2])
    with pytest.raises(RowsError, match="the qid of train is for rankers"):
        debias.score(plain, Dataset(*train[:2], qid=train[2]), scorer="response_permutation(gain)")
    with pytest.raises(CompositionError, match="the relevance of a row means something only within its query"):
        debias.score(ranker, Dataset(*held_out[:2], qid=held_out[2]), scorer="guide")
