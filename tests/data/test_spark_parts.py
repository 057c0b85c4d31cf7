"""What a Spark frame needs that works without Spark: vectors, errors, and a digest of rows in any order."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import RandomForestClassifier

import debias
from debias.data.batches import with_whole_numbers
from debias.data.sources import source_of
from debias.data.spark_rows import _added, _clear_errors, _sums_of_groups, _Work, names_in_vector, vectors
from debias.rows.preparation import batch_rows
from debias.rows.unordered_digest import unordered_digest
from debias.warning_log import WarningLogOnce
from support.missing_values import IN_FORESTS

SPARSE, DENSE = 0, 1


def column_of(*rows):
    kinds = pa.struct(
        [
            ("type", pa.int8()),
            ("size", pa.int32()),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
        ]
    )
    names = ("type", "size", "indices", "values")
    return pa.chunked_array([pa.array([row and dict(zip(names, row, strict=True)) for row in rows], kinds)])


def test_vectors_dense_and_sparse_are_read_alike():
    dense = (DENSE, None, None, [1.0, 0.0, np.nan])
    expected = np.array([[1.0, 0.0, np.nan], [0.0, 0.0, 5.0], [1.0, 0.0, np.nan], [0.0, 0.0, 0.0]])
    found = vectors(column_of(dense, (SPARSE, 3, [2], [5.0]), dense, (SPARSE, 3, [], [])))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(vectors(column_of(dense, dense)), expected[[0, 2]])
    np.testing.assert_array_equal(vectors(pa.chunked_array([[[1, 2], [3, 4]]])), [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (column_of((DENSE, None, None, [1.0]), None), "missing"),
        (column_of((DENSE, None, None, [1.0]), (DENSE, None, None, [1.0, 2.0])), "lengths, from 1 to 2"),
        (column_of((DENSE, None, None, [1.0]), (SPARSE, 4, [0], [1.0])), "lengths, from 1 to 4"),
        (pa.chunked_array([[[1.0], [1.0, 2.0]]]), "lengths, from 1 to 2"),
    ],
)
def test_other_vectors_are_refused(column, match):
    with pytest.raises(debias.RowsError, match=match):
        vectors(column)


def test_names_that_an_assembler_stores():
    class Field:
        def __init__(self, metadata):
            self.metadata = metadata

    attributes = {"numeric": [{"idx": 0, "name": "a"}, {"idx": 2, "name": "c"}], "binary": [{"idx": 1, "name": "b"}]}
    assert names_in_vector(Field({"ml_attr": {"attrs": attributes, "num_attrs": 3}})) == ["a", "b", "c"]
    assert names_in_vector(Field({"ml_attr": {"attrs": attributes, "num_attrs": 4}})) is None
    assert names_in_vector(Field({})) is None


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("... is bigger than spark.driver.maxResultSize (1024.0 MiB)", MemoryError, "Set spark.driver.maxResultSize"),
        ("java.lang.OutOfMemoryError: Java heap space", MemoryError, "spark.executor.memoryOverhead"),
        ("ModuleNotFoundError: No module named 'debias.api'", ImportError, "workers has no debias"),
        ("ModuleNotFoundError: No module named 'pyarrow'", ImportError, "workers has no pyarrow"),
        ("a disk is gone", OSError, "^a disk is gone$"),
    ],
)
def test_errors_of_spark_say_what_to_do(text, error, match):
    with pytest.raises(error, match=match), _clear_errors():
        raise OSError(text)


def test_the_first_error_of_a_partition_is_the_result():
    first, second = debias.RowsError("first"), debias.RowsError("second")
    for parts in ((1, first, second), (first, 1, second), (first, second, 1)):
        total = None
        for part in parts:
            total = _added(int.__add__, total, part)
        assert total is first


def test_groups_are_added_in_order_across_batches():
    import pickle

    work = _Work(None, None, str.__add__, None)
    rows = [(3, "a"), (3, "b"), (5, "c"), (9, "d"), (9, "e"), (9, "f")]
    for size in (1, 2, 6):
        batches = [
            pa.RecordBatch.from_arrays(
                [pa.array([n for n, _ in part], pa.int32()), pa.array([pickle.dumps(text) for _, text in part])],
                names=["part", "sums"],
            )
            for part in (rows[begin : begin + size] for begin in range(0, len(rows), size))
        ]
        found = [row for batch in _sums_of_groups(work, batches) for row in batch.to_pylist()]
        assert [(row["part"], pickle.loads(row["sums"])) for row in found] == [(3, "ab"), (5, "c"), (9, "def")]


def test_a_digest_of_rows_in_any_order():
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((500, 3)), rng.integers(0, 2, 500), rng.uniform(1, 2, 500)
    X[5, 1] = np.nan if IN_FORESTS else 7.0
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    sums = debias.NodeSums(forest)

    def digest(X, y, weight):
        return unordered_digest(batch_rows(forest, sums.ensemble, X, y, weight, sums.notes, 1, verify=False))

    of_all = digest(X, y, weight)
    assert of_all[0] == 500
    order = rng.permutation(500)
    assert (digest(X[order], y[order], weight[order]) == of_all).all()
    assert (digest(X[:200], y[:200], weight[:200]) + digest(X[200:], y[200:], weight[200:]) == of_all).all()
    swapped = X.copy()
    swapped[[0, 1], 2] = X[[1, 0], 2]  # the sums of the columns stay the same
    changed_y, changed_weight = y.copy(), weight.copy()
    changed_y[3], changed_weight[3] = 1 - y[3], 1.5
    for changed in ((swapped, y, weight), (X, changed_y, weight), (X, y, changed_weight)):
        assert digest(*changed)[1] != of_all[1]


def test_whole_numbers_stay_whole_where_some_are_missing(tmp_path):
    table = pa.table({"k": pa.array([1, None, 3], pa.int16()), "n": [1, 2, 3], "x": [0.5, None, 1.5], "y": [0, 1, 2]})
    X = with_whole_numbers(table.to_pandas()[["x", "k", "n"]], table)
    assert [str(kind) for kind in X.dtypes] == ["float64", "Int64", "int64"]
    assert X["k"].tolist() == [1, pd.NA, 3]
    pq.write_table(table, tmp_path / "rows.parquet")
    source = source_of(tmp_path / "rows.parquet", "y", None, None, WarningLogOnce(quiet=True))
    (batch,) = source
    assert str(batch.X["k"].dtype) == "Int64"
