"""Tables of the table of combinations: a frame of the columns a, b, c, made into what users have."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars
import pyarrow
import scipy.sparse
import xgboost

from support.combined_targets import cut


def with_column(kind):
    """Return a function that replaces column c of a frame."""

    def replaced(X):
        return X.assign(c=kind(X["c"]))

    return replaced


def letters(c):
    return np.array(["red", "green", "blue"], dtype=object)[cut(c, -0.5, 0.5)]


def gaps(c):
    return c.mask(np.random.default_rng(5).random(len(c)) < 0.2)


def memmap(X):
    path = Path(tempfile.mkdtemp()) / "rows.npy"
    np.save(path, X.to_numpy())
    return np.load(path, mmap_mode="r")


class Tensor:
    """A table that is only an array when asked, as tensors are."""

    def __init__(self, X):
        self.of, self.shape = X.to_numpy(), X.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.of, dtype=dtype)

    def __len__(self):
        return len(self.of)


def structured(X):
    return X.to_records(index=False)


def texts(X):
    """Return a text of each row: a word that tells of column a, and words that tell nothing."""
    rng = np.random.default_rng(7)
    others = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])
    return [f"{'good' if a > 0 else 'bad'} {' '.join(rng.choice(others, 3))}" for a in X["a"]]


CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda X: X,
    "numpy": lambda X: X.to_numpy(),
    "numpy float32": lambda X: X.to_numpy(np.float32),
    "numpy float16": lambda X: X.to_numpy(np.float16),
    "numpy whole numbers": lambda X: np.round(10 * X.to_numpy()).astype(int),
    "numpy bool": lambda X: X.to_numpy() > 0,
    "numpy objects": lambda X: X.to_numpy().astype(object),
    "numpy of strings": lambda X: X.to_numpy().round(3).astype(str),
    "numpy, columns first": lambda X: np.asfortranarray(X.to_numpy()),
    "numpy, read-only": lambda X: _read_only(X.to_numpy().copy()),
    "numpy memmap": memmap,
    "numpy masked array": lambda X: np.ma.masked_greater(X.to_numpy(), 99),
    "numpy structured array": structured,
    "numpy with NaN": lambda X: with_column(gaps)(X).to_numpy(),
    "numpy with infinity": lambda X: X.assign(c=X["c"].mask(X["c"] > 2, np.inf)).to_numpy(),
    "numpy, one dimension": lambda X: X["a"].to_numpy(),
    "list of lists": lambda X: X.to_numpy().tolist(),
    "list of dicts": lambda X: X.to_dict("records"),
    "dict of columns": lambda X: X.to_dict("list"),
    "tensor": Tensor,
    "pandas with NaN": with_column(gaps),
    "pandas categories": with_column(lambda c: pd.Categorical(letters(c))),
    "pandas categories of numbers": with_column(lambda c: pd.Categorical(cut(c, -0.5, 0.5) * 10)),
    "pandas categories with NaN": with_column(lambda c: pd.Categorical(gaps(pd.Series(letters(c))))),
    "pandas objects (text)": with_column(letters),
    "pandas str": with_column(lambda c: pd.Series(letters(c), index=c.index, dtype="str")),
    "pandas bool": with_column(lambda c: c > 0),
    "pandas whole numbers": lambda X: (10 * X).round().astype(int),
    "pandas nullable": lambda X: X.convert_dtypes(),
    "pandas nullable with NA": lambda X: with_column(gaps)(X).convert_dtypes(),
    "pandas nullable boolean": with_column(lambda c: (c > 0).astype("boolean")),
    "pandas Arrow": lambda X: X.convert_dtypes(dtype_backend="pyarrow"),
    "pandas Arrow with NA": lambda X: with_column(gaps)(X).convert_dtypes(dtype_backend="pyarrow"),
    "pandas Arrow text": with_column(lambda c: pd.Series(letters(c), index=c.index, dtype="string[pyarrow]")),
    "pandas sparse": lambda X: X.round().astype(pd.SparseDtype("float64", 0.0)),
    "pandas one sparse column": with_column(lambda c: pd.arrays.SparseArray(c.round(), fill_value=0.0)),
    "pandas dates": with_column(lambda c: pd.Timestamp("2024-01-01") + pd.to_timedelta(c.round(3), unit="D")),
    "pandas time differences": with_column(lambda c: pd.to_timedelta(c.round(3), unit="D")),
    "pandas complex": with_column(lambda c: c + 1j),
    "pandas Decimal": with_column(lambda c: [Decimal(f"{each:.3f}") for each in c]),
    "pandas lists in a column": with_column(lambda c: [[each] for each in c]),
    "pandas intervals": with_column(lambda c: pd.cut(c, 3).astype(object)),
    "pandas, names of numbers": lambda X: X.set_axis([0, 1, 2], axis=1),
    "pandas, names of two kinds": lambda X: X.set_axis(["a", 1, 2], axis=1),
    "pandas, two levels of names": lambda X: X.set_axis(
        pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("c", 2)]), axis=1
    ),
    "pandas, a name twice": lambda X: X.set_axis(["a", "b", "b"], axis=1),
    "pandas, names with signs": lambda X: X.set_axis(["a [m]", "b <1>", "c, d"], axis=1),
    "pandas, dates as index": lambda X: X.set_axis(pd.date_range("2024-01-01", periods=len(X)), axis=0),
    "pandas, an index with repeats": lambda X: X.set_axis(np.arange(len(X)) // 2, axis=0),
    "pandas series": lambda X: X["a"],
    "pandas, one column": lambda X: X[["a"]],
    "polars": lambda X: polars.from_pandas(X.reset_index(drop=True)),
    "polars with null": lambda X: polars.from_pandas(with_column(gaps)(X).reset_index(drop=True)),
    "polars categories": lambda X: polars.from_pandas(X.reset_index(drop=True)).with_columns(
        polars.Series("c", list(letters(X["c"])), dtype=polars.Categorical)
    ),
    "polars text": lambda X: polars.from_pandas(X.reset_index(drop=True)).with_columns(
        polars.Series("c", list(letters(X["c"])))
    ),
    "polars lazy": lambda X: polars.from_pandas(X.reset_index(drop=True)).lazy(),
    "pyarrow table": lambda X: pyarrow.Table.from_pandas(X, preserve_index=False),
    "pyarrow with null": lambda X: pyarrow.Table.from_pandas(with_column(gaps)(X), preserve_index=False),
    "pyarrow dictionary": lambda X: pyarrow.Table.from_pandas(
        with_column(lambda c: pd.Categorical(letters(c)))(X), preserve_index=False
    ),
    "scipy CSR": lambda X: scipy.sparse.csr_matrix(X.round().to_numpy()),
    "scipy CSC": lambda X: scipy.sparse.csc_matrix(X.round().to_numpy()),
    "scipy COO": lambda X: scipy.sparse.coo_matrix(X.round().to_numpy()),
    "scipy CSR array": lambda X: scipy.sparse.csr_array(X.round().to_numpy()),
    "xgboost DMatrix": lambda X: xgboost.DMatrix(X),
    "lightgbm Dataset": lambda X: lightgbm.Dataset(X, free_raw_data=False),
    "list of texts": texts,
    "array of texts": lambda X: np.array(texts(X), dtype=object),
    "series of texts": lambda X: pd.Series(texts(X)),
    "pandas with a column of texts": lambda X: X.assign(text=texts(X)),
}


def _read_only(array):
    array.flags.writeable = False
    return array


ABORTS = ("polars categories", "polars text", "pyarrow dictionary")
"""LightGBM ends the process when it is trained on these."""
