"""The rules and decisions of meta-methods, on cases worked out by hand, and against scipy."""

import numpy as np
import pytest
from scipy import stats

import debias
from debias_plugins.data_scorers.guide_threshold import critical_value, decide
from debias_plugins.meta_methods.null_adjustment import normalise, tail_p_values
from debias_plugins.meta_methods.permuted_columns import names_of_copies, with_copies, with_permuted

V = np.array([6.0, 1.0, 0.0])
NULL = np.array([[1.0, 1.0, 0.0], [3.0, 1.0, 0.0]])


def test_the_rules_give_the_numbers_by_hand():
    np.testing.assert_allclose(normalise(V, NULL, "ratio"), [3, 1, 0])
    np.testing.assert_allclose(normalise(V, NULL, "difference"), [4, 0, 0])
    np.testing.assert_allclose(normalise(V, NULL, "z"), [4 / np.sqrt(2), 0, 0])
    np.testing.assert_allclose(normalise(V, NULL, "pvalue"), -np.log10([1 / 3, 1, 1]))


def test_a_feature_whose_draws_do_not_vary_counts_as_a_draw_itself():
    null = np.array([[0.0, 2.0, 0.0]] * 3)
    np.testing.assert_allclose(normalise(np.array([5.0, 5.0, 0.0]), null, "ratio"), [4, 2.5, 0])
    # With itself among the draws: 0, 0, 0, 5 has mean 5/4 and standard deviation 5/2.
    itself = np.array([0, 0, 0, 5.0])
    expected = (5 - itself.mean()) / itself.std(ddof=1)
    np.testing.assert_allclose(normalise(np.array([5.0, 1.0, 0.0]), null, "z"), [expected, -expected, 0])


def test_one_replicate_has_a_ratio_a_difference_and_a_p_value():
    null = np.array([[2.0, 0.0, 4.0]])
    v = np.array([4.0, 3.0, 4.0])
    np.testing.assert_allclose(normalise(v, null, "ratio"), [2, 2, 1])
    np.testing.assert_allclose(normalise(v, null, "difference"), [2, 3, 0])
    np.testing.assert_allclose(tail_p_values(v, null, "empirical"), [0.5, 0.5, 1])


def test_a_ratio_to_a_mean_around_zero_is_refused():
    null = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(debias.DebiasError, match="rule='ratio' divides by the mean for noise, but for 3 of 3 features"):
        normalise(np.ones(3), null, "ratio")
    np.testing.assert_allclose(normalise(np.ones(3), null + 1, "ratio"), 1 / (null + 1).mean(axis=0))


def test_fitted_tails_are_those_of_scipys_fits():
    null = np.random.default_rng(1).gamma(3.0, 2.0, size=(60, 2))
    v = np.array([9.0, 25.0])
    for k in range(2):
        shape, _, scale = stats.gamma.fit(null[:, k], floc=0)
        gamma = stats.gamma.sf(v[k], shape, scale=scale)
        np.testing.assert_allclose(tail_p_values(v, null, "gamma")[k], gamma, rtol=1e-4)
        normal = stats.norm.sf(v[k], null[:, k].mean(), null[:, k].std(ddof=1))
        np.testing.assert_allclose(tail_p_values(v, null, "normal")[k], normal, rtol=1e-9)
    with pytest.raises(debias.DebiasError, match="tail='gamma' needs scores above 0"):
        tail_p_values(v, null - 5, "gamma")
    far = normalise(np.array([1e6, 1e6]), null, "pvalue", "normal")
    assert np.isfinite(far).all()
    np.testing.assert_array_equal(tail_p_values(V, NULL, "normal")[1:], [1, 1])


def test_the_critical_value_is_the_order_statistic_that_makes_the_level_exact():
    null = np.stack([np.arange(19.0), np.zeros(19)], axis=1)
    assert critical_value(null, 0.05) == 18  # of 19 draws and the truth, the truth is largest with chance 1/20
    assert critical_value(null, 0.1) == 17


def test_the_decision_is_the_one_by_hand():
    importance, own = np.array([3.0, 1.0, 8.0, 5.0]), np.array([20.0, 9.0, 80.0, 60.0])
    selected, level = decide(importance, own, 30.0)
    assert (selected.tolist(), level) == ([False, False, True, True], 4.0)
    assert [decide(importance, own, c)[0].sum() for c in (100.0, 5.0)] == [0, 4]
    # m = 0: where the largest would be at the critical value; m = K: where the smallest would.
    assert decide(importance, own, 100.0)[1] == 10.0
    assert decide(importance, own, 4.5)[1] == 0.5
    assert decide(importance, own, 100.0, at_level=lambda k: 7.0 + k)[1] == 9.0
    # Ties at the critical value do not exceed it; ties of importance go to the first.
    assert decide(importance, own, 80.0)[0].sum() == 0
    assert decide(np.array([2.0, 2.0, 2.0]), np.array([1.0, 5.0, 1.0]), 3.0)[0].tolist() == [True, False, False]
    # One feature is none or all.
    assert decide(np.array([2.0]), np.array([5.0]), 4.0) == (np.array([True]), 1.6)
    assert decide(np.array([2.0]), np.array([5.0]), 10.0) == (np.array([False]), 4.0)


@pytest.fixture
def mixed():
    import pandas as pd

    rng = np.random.default_rng(0)
    category = pd.Categorical(rng.choice(["low", "mid", "high"], 50), ["low", "mid", "high", "unused"], ordered=True)
    return pd.DataFrame(
        {
            "x": np.where(rng.random(50) < 0.2, np.nan, rng.normal(size=50)).astype(np.float32),
            "c": category,
            "shadow_x": rng.integers(0, 9, 50),
            "b": pd.array(rng.choice([True, False, None], 50), dtype="boolean"),
        },
        index=np.arange(50)[::-1] * 3,
    )


@pytest.mark.parametrize("jointly", [True, False])
def test_copies_keep_values_types_categories_and_missing_values(mixed, jointly):
    import pandas as pd

    copies = names_of_copies(tuple(mixed.columns))
    both = with_copies(np.random.default_rng(1), copies, jointly=jointly)(mixed)
    pd.testing.assert_frame_equal(both[list(mixed.columns)], mixed)
    assert len(set(both.columns)) == 8
    assert list(both.columns[4:]) == list(copies)
    orders = []
    for copy, original in copies.items():
        assert both[copy].dtype == mixed[original].dtype
        assert both[copy].isna().sum() == mixed[original].isna().sum()
        assert both[copy].value_counts().to_dict() == mixed[original].value_counts().to_dict()
        assert not both[copy].equals(mixed[original])
        orders.append(both[copy].tolist())
    together = mixed.assign(row=np.arange(50))
    pairs = set(zip(*(together[name].astype(str) for name in mixed.columns), strict=True))
    kept = set(zip(*(both[copy].astype(str) for copy in copies), strict=True)) <= pairs
    assert kept == jointly


def test_a_partial_copy_keeps_the_other_rows():
    import pandas as pd

    frame = pd.DataFrame({"x": np.arange(1000.0), "y": np.arange(1000.0)})
    copies = names_of_copies(("x", "y"))
    both = with_copies(np.random.default_rng(0), copies, share=0.2)(frame)
    moved = [both[copy].to_numpy() != frame["x"].to_numpy() for copy in copies]
    # Of 200 rows that are permuted, one on average falls back to its place.
    assert all(190 <= each.sum() <= 200 for each in moved)
    assert (moved[0] != moved[1]).sum() > 200  # other rows for each column: 2 x 200 x 0.8 = 320 on average, sd 11
    whole = with_copies(np.random.default_rng(0), copies, share=1.0)(frame)
    assert all((whole[copy].to_numpy() != frame["x"].to_numpy()).sum() >= 990 for copy in copies)


def test_columns_of_a_group_are_permuted_together(mixed):
    moved = with_permuted(np.random.default_rng(0), ("x", "shadow_x"))(mixed)
    assert moved[["c", "b"]].equals(mixed[["c", "b"]])
    assert not moved["x"].equals(mixed["x"])
    pairs = set(zip(mixed["x"].astype(str), mixed["shadow_x"], strict=True))
    assert set(zip(moved["x"].astype(str), moved["shadow_x"], strict=True)) <= pairs
    assert moved["x"].dtype == np.float32
