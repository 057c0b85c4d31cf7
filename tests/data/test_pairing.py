"""Changes of X that keep X and y paired pass; those that move whole rows are refused."""

import numpy as np
import pandas as pd
import pytest

import debias
from debias.data.row_order import require_pairs

N = 60


@pytest.fixture(params=["numbers", "labels", "few values"])
def frame(request):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"), index=rng.permutation(N) + 100)
    X.loc[X["a"] > 1, "a"] = np.nan
    X["constant"] = 1.0
    if request.param == "labels":
        X["b"] = pd.Categorical(rng.choice(["x", "y", "z"], N))
    if request.param == "few values":
        X["a"], X["b"], X["c"] = (rng.integers(0, 5, N) for _ in range(3))
    return X


def order(n=N):
    return np.random.default_rng(1).permutation(n)


def each_by_itself(X):
    rng = np.random.default_rng(2)
    return pd.DataFrame({name: X[name].array.take(rng.permutation(len(X))) for name in X}, index=X.index)


def swapped(X):
    rows = order()
    half = np.r_[rows[: N // 2][::-1], np.arange(N)]
    position = np.arange(N)
    position[rows[: N // 2]] = half[: N // 2]
    return X.iloc[position].set_axis(X.index)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.sample(frac=1, random_state=0),
        lambda X: X.iloc[order()].reset_index(drop=True),
        lambda X: X.iloc[order()].set_axis(X.index),
        lambda X: X.iloc[np.random.default_rng(0).integers(0, N, N)].reset_index(drop=True),
        lambda X: X.sort_values("c").reset_index(drop=True),
        lambda X: X.iloc[order()].set_axis(X.index).assign(copy=X["a"]),
        lambda X: X.iloc[order()].set_axis(X.index)[["c", "b", "a"]],
        swapped,
    ],
)
@pytest.mark.quick
def test_moved_rows_are_refused(frame, change):
    with pytest.raises(debias.RowsError, match=r"moved whole rows of X.*problem\.permuted.*problem\.rows"):
        require_pairs(frame, change(frame), [(name,) for name in frame])


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X,
        lambda X: X.copy().reset_index(drop=True),
        lambda X: X.assign(b=X["b"].array.take(order())),
        lambda X: X.assign(a=X["a"].array.take(order()), b=X["b"].array.take(order())),
        lambda X: pd.concat([X, X.iloc[order()].set_axis(X.index).add_prefix("copy_")], axis=1),
        lambda X: X.assign(a=X["a"].fillna(0), c=X["c"] * 2),
        lambda X: X.assign(a=0.0, b=0.0, c=0.0),
        lambda X: X.astype({"c": np.float64}).drop(columns="a"),
        each_by_itself,
    ],
)
def test_changes_of_features_pass(frame, change):
    require_pairs(frame, change(frame), [(name,) for name in frame])


def test_a_group_of_columns_is_one_feature(frame):
    moved = frame.iloc[order()].set_axis(frame.index)
    require_pairs(frame, moved, [("a", "b", "c"), ("constant",)])
    with pytest.raises(debias.RowsError, match="moved whole rows"):
        require_pairs(frame, moved, [("a", "b"), ("c",), ("constant",)])


@pytest.mark.thorough
@pytest.mark.parametrize("n_rows", [4, 30, 300])
def test_columns_permuted_one_by_one_are_refused_by_no_chance(n_rows):
    """Binary columns often make the old rows again, in particular rare ones: this shows nothing."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        X = pd.DataFrame({"a": rng.random(n_rows) < 0.5, "b": rng.random(n_rows) < 0.02, "c": rng.random(n_rows) < 0.3})
        columns = {name: rng.permutation(X[name]) for name in X}
        require_pairs(X, pd.DataFrame(columns), [(name,) for name in X])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.to_numpy(), "returned an ndarray: return a pandas frame"),
        (lambda X: X.head(20), r"made 20 rows of 60, and y still has 60.*problem\.rows\(indices\)"),
    ],
)
def test_other_results_are_refused(frame, change, message):
    with pytest.raises(debias.RowsError, match=message):
        require_pairs(frame, change(frame), [("a",)])
