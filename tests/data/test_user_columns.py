"""Columns of X as the user sees them, and rows with one column taken from other rows, in every container."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from debias.data.user_columns import column_values, with_column_from

FRAME = pd.DataFrame(
    {
        "number": [1.5, np.nan, 3.0, -1.0],
        "whole": pd.array([1, 2, None, 4], dtype="Int64"),
        "label": pd.Categorical(["a", None, "b", "a"], categories=["b", "a", "unused"]),
        "flag": [True, False, False, True],
    },
    index=[7, 7, 2, 9],
)


@pytest.mark.parametrize(
    "as_container", [lambda X: X, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
def test_columns_of_frames_are_read_with_missing_values(as_container):
    X = as_container(FRAME.reset_index(drop=True))
    np.testing.assert_array_equal(column_values(X, 0), [1.5, np.nan, 3.0, -1.0])
    np.testing.assert_array_equal(column_values(X, 1), [1, 2, np.nan, 4])
    assert column_values(X, 1).dtype == np.float64
    assert column_values(X, 2).tolist() == ["a", None, "b", "a"]
    np.testing.assert_array_equal(column_values(X, 3), [1.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("as_container", [np.asarray, sparse.csr_matrix, sparse.csc_array], ids=["array", "csr", "csc"])
def test_columns_and_rows_without_names(as_container):
    dense = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 5.0]])
    X = as_container(dense)
    np.testing.assert_array_equal(column_values(X, 1), [1.0, 0.0])
    new = with_column_from(X, 1, np.array([0, 1, 1]), np.array([1, 0, 1]))
    assert type(new) is type(X)
    as_array = new.toarray() if sparse.issparse(new) else new
    np.testing.assert_array_equal(as_array, [[0, 0, 2], [3, 1, 5], [3, 0, 5]])
    np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, dense)  # not changed


def test_categories_of_numbers_are_labels():
    X = pd.DataFrame({"code": pd.Categorical([3, 1, None], categories=[1, 2, 3])})
    assert column_values(X, 0).tolist() == [3, 1, None]


def test_texts_that_look_like_numbers_are_labels():
    assert column_values(np.array([["1"], ["2"]], dtype=object), 0).tolist() == ["1", "2"]


@pytest.mark.parametrize("position", range(4))
def test_a_column_from_other_rows_keeps_every_type(position):
    before = FRAME.copy()
    rows, source = np.array([0, 1, 2, 3, 0]), np.array([3, 3, 0, 1, 2])
    new = with_column_from(FRAME, position, rows, source)
    expected = FRAME.iloc[rows].reset_index(drop=True)
    name = FRAME.columns[position]
    expected[name] = FRAME[name].iloc[source].reset_index(drop=True)
    pd.testing.assert_frame_equal(new, expected)
    pd.testing.assert_frame_equal(FRAME, before)
    of_polars = with_column_from(pl.from_pandas(FRAME), position, rows, source)
    assert of_polars.equals(pl.from_pandas(expected))
