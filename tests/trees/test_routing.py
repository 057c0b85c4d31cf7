import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import debias
from debias.data.table import Table
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog
from support import stumps


def stump(threshold, dtype, **changes):
    return debias.plugin.TreeEnsemble(
        **stumps.stump(
            threshold=np.array([threshold, 0.0, 0.0]),
            missing_left=np.array([True, False, False]),
            value=np.zeros((3, 1)),
            averaging_weight=np.ones(3),
            feature_names=("a",),
            routing_dtype=np.dtype(dtype),
        )
        | changes
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=200)
@given(threshold=st.floats(allow_nan=False), steps=st.integers(-3, 3))
@pytest.mark.quick
def test_values_at_and_next_to_a_threshold_go_the_way_it_says(dtype, threshold, steps):
    """The packed threshold has the precision of the values; no value may change sides by that."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.array([dtype(threshold)])
        for _ in range(abs(steps)):
            x = np.nextafter(x, dtype(np.copysign(np.inf, steps)))
    if not np.isfinite(x).all():
        return
    leaf = route(stump(threshold, dtype), x[:, None])[0, 0]
    assert leaf == (1 if float(x[0]) <= threshold else 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_missing_values_and_zeros_go_where_the_node_sends_them(dtype):
    X = np.array([[np.nan], [0.0], [1e-36], [1.0], [-1.0]], dtype=dtype)
    assert route(stump(-0.5, dtype), X)[:, 0].tolist() == [1, 2, 2, 2, 1]
    zeros = stump(-0.5, dtype, zero_is_missing=np.array([True, False, False]))
    assert route(zeros, X)[:, 0].tolist() == [1, 1, 1, 2, 1]


def test_rows_left_out_have_no_leaf_whatever_the_number_of_rows():
    for n_rows in (1, 7, 8, 9, 30):
        X = np.linspace(-1, 1, n_rows)[:, None]
        skip = (np.arange(n_rows) % 3 == 0)[None, :]
        leaves = route(stump(0.0, np.float64), X, in_bag=skip)[:, 0]
        assert (leaves == np.where(skip[0], -1, np.where(X[:, 0] <= 0, 1, 2))).all()
    assert (route(stump(0.0, np.float64), X, in_bag=np.ones((1, 30), dtype=bool)) == -1).all()


def test_threads_give_the_same_leaves(diabetes, models):
    X, y = diabetes
    ensemble = debias.plugin.extract(models("sklearn").fit(X, y))
    matrix = X.to_numpy(dtype=np.float32)
    skip = np.random.default_rng(0).random((ensemble.n_trees, len(X))) < 0.5
    for n_jobs in (2, 3, -1):
        np.testing.assert_array_equal(route(ensemble, matrix, in_bag=skip), route(ensemble, matrix, None, skip, n_jobs))


def categorical(listed, listed_left, missing_left, dtype=np.float64):
    return stump(
        0.0,
        dtype,
        missing_left=np.array([missing_left, False, False]),
        category_set=np.array([0, -1, -1]),
        category_start=np.array([0, len(listed)]),
        category_codes=np.array(listed, dtype=np.int32),
        listed_left=np.array([listed_left]),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=100)
@given(
    listed=st.sets(st.integers(0, 300), max_size=20),
    x=st.one_of(st.integers(-5, 310), st.sampled_from([np.nan, np.inf, -np.inf, 1e12, -1e12, 2.0**31])),
    listed_left=st.booleans(),
    missing_left=st.booleans(),
)
def test_categories_go_where_their_set_says(dtype, listed, x, listed_left, missing_left):
    leaf = route(categorical(sorted(listed), listed_left, missing_left, dtype), np.array([[x]], dtype=dtype))[0, 0]
    left = missing_left if np.isnan(x) else (x in listed) == listed_left
    assert leaf == (1 if left else 2)


@pytest.mark.quick
def test_categories_and_thresholds_in_one_tree_route_by_hand():
    """A threshold at the root, category sets below it, the second of which is empty."""
    ensemble = debias.plugin.TreeEnsemble(
        **{name: getattr(stump(0.0, np.float64), name) for name in ("base", "objective", "routing_dtype", "classes")},
        tree_start=np.array([0, 3, 10]),
        feature=np.array([0, -1, -1, 0, 1, 1, -1, -1, -1, -1]),
        threshold=np.array([5.0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        left=np.array([1, -1, -1, 1, 3, 5, -1, -1, -1, -1]),
        right=np.array([2, -1, -1, 2, 4, 6, -1, -1, -1, -1]),
        missing_left=np.zeros(10, dtype=bool),
        category_set=np.array([-1, -1, -1, -1, 1, 0, -1, -1, -1, -1]),
        category_start=np.array([0, 2, 2]),
        category_codes=np.array([1, 7]),
        listed_left=np.array([True, False]),
        value=np.zeros((10, 1)),
        averaging_weight=np.ones(10),
        tree_output=np.array([0, 0]),
        averaged=True,
        feature_names=("a", "b"),
        named=True,
        source="test trees",
        version="1",
    )
    X = np.array([[-1.0, 7.0], [1.0, 7.0], [6.0, 2.0], [6.0, np.nan]])
    assert route(ensemble, X).tolist() == [[1, 3], [1, 5], [2, 6], [2, 6]]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"listed_left": None}, "others are None"),
        ({"category_start": np.array([0, 1])}, "does not divide"),
        ({"category_set": np.array([1, -1, -1])}, "does not exist"),
        ({"category_set": np.array([0, 0, -1])}, "at a leaf"),
        ({"category_codes": np.array([3, 3])}, "ascending"),
        ({"category_codes": np.array([-1, 3])}, "negative"),
    ],
)
def test_broken_category_sets_are_refused(changes, complaint):
    sets = {
        "category_set": np.array([0, -1, -1]),
        "category_start": np.array([0, 2]),
        "category_codes": np.array([1, 3]),
        "listed_left": np.array([True]),
    }
    stump(0.0, np.float64, **sets)
    with pytest.raises(debias.errors.ExtractionError, match=complaint):
        stump(0.0, np.float64, **sets | changes)


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame, pa.table, "array"])
def test_labels_become_their_positions(container):
    """Of two features one has labels; columns come in the other order; unknown and missing ones are NaN."""
    ensemble = stump(
        0.0, np.float64, feature_names=("size", "colour"), category_labels={1: np.array(["red", "blue"], dtype=object)}
    )
    colour, size = ["blue", "red", None, "green"], [1.0, 2.0, 3.0, 4.0]
    notes = WarningLog()
    if container == "array":
        X = np.array([size, colour], dtype=object).T
    else:
        X = container({"colour": colour, "size": size})
    with pytest.warns(debias.DebiasWarning):
        table = Table(X).aligned_to(ensemble, notes)
    expected = np.array([[1.0, 1.0], [2.0, 0.0], [3.0, np.nan], [4.0, np.nan]])
    np.testing.assert_array_equal(table.matrix(ensemble), expected)
    np.testing.assert_array_equal(table.matrix(ensemble, slice(1, 3)), expected[1:3])
    np.testing.assert_array_equal(table.matrix(ensemble, np.array([3, 0])), expected[[3, 0]])
    assert "'green'" in notes.texts[-1]
    plain = stump(0.0, np.float64, feature_names=("colour", "size"))
    with pytest.raises(debias.RowsError, match="numeric"):
        Table(X).aligned_to(plain, WarningLog())


def test_rows_and_trees_of_any_type_and_order_are_routed():
    ensemble = stump(0.5, np.float32)
    X = np.linspace(-1, 2, 40)[:, None]
    expected = np.where(X <= 0.5, 1, 2)
    for rows in (X, np.asfortranarray(X), X.astype(">f4"), np.repeat(X, 2, axis=1)[:, ::2], X.tolist()):
        np.testing.assert_array_equal(route(ensemble, rows), expected)
    for trees in (np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.uint8), [0]):
        np.testing.assert_array_equal(route(ensemble, X, trees), expected)
    assert route(ensemble, X[:0]).shape == (0, 1)
    assert route(ensemble, X, np.zeros(0, dtype=int)).shape == (40, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((5, 2))}, r"X has shape \(5, 2\): it must have rows of 1 features"),
        ({"X": np.zeros(5)}, r"X has shape \(5,\)"),
        ({"trees": np.array([1])}, "trees must be numbers from 0 to 0"),
        ({"trees": np.array([-1])}, "trees must be numbers from 0 to 0"),
        ({"trees": np.array([0.0])}, "array of integers of one dimension"),
        ({"trees": np.array([True])}, "array of integers of one dimension"),
        ({"in_bag": np.zeros((1, 4), dtype=bool)}, r"in_bag has shape \(1, 4\) for 1 trees and 5 rows"),
        ({"in_bag": np.zeros((2, 5), dtype=bool)}, r"in_bag has shape \(2, 5\)"),
    ],
)
def test_arrays_that_do_not_fit_the_trees_are_not_routed(changes, message):
    with pytest.raises(debias.RowsError, match=message):
        route(stump(0.5, np.float32), **{"X": np.zeros((5, 1))} | changes)


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        (np.full((4, 1), 3), "nodes that their trees do not have"),
        (np.full((4, 1), -2), "nodes that their trees do not have"),
        (np.full((4, 1), 2**32 + 1), "nodes that their trees do not have"),
        (np.ones((4, 2), dtype=int), r"of shape \(4, 2\)"),
        (np.ones((4, 1)), "array of float64"),
    ],
)
def test_leaves_that_do_not_exist_have_no_output(leaves, message):
    ensemble = stump(0.5, np.float32)
    assert raw_output(ensemble, np.ones((4, 1), dtype=np.int64)).shape == (4, 1)
    with pytest.raises(debias.RowsError, match=message):
        raw_output(ensemble, leaves)
