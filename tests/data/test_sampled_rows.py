"""Rows drawn from a source: which are drawn, in what order and container, however they are cut into batches."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from debias.data.batches import Batch
from debias.data.sampled_rows import sampled
from debias.errors import RowsError


def cut(X, y, weight, size):
    """The rows in batches of a size."""
    return [
        Batch(*(None if values is None else values[begin : begin + size] for values in (X, y, weight)))
        for begin in range(0, len(y), size)
    ]


@pytest.mark.quick
@pytest.mark.parametrize("most", [10, 100, 999, 1000, 5000])
def test_the_same_rows_in_their_order_however_they_are_cut(most):
    y = np.arange(1000)
    X = pd.DataFrame({"a": y * 2.0, "b": y.astype(str)})
    drawn = [sampled(cut(X, y, y + 0.5, size), most, seed=3) for size in (7, 64, 1000)]
    assert drawn[0].n_passed == 1000
    for each in drawn:
        assert each.y.tolist() == drawn[0].y.tolist() == sorted(each.y.tolist())
        assert len(each.y) == min(most, 1000)
        np.testing.assert_array_equal(each.weight, each.y + 0.5)
        pd.testing.assert_frame_equal(each.X, X.iloc[each.y])
    other = sampled(cut(X, y, None, 64), most, seed=4)
    assert other.weight is None
    assert (other.y.tolist() == drawn[0].y.tolist()) == (most >= 1000)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix, lambda X: pd.DataFrame(X, columns=list("ab"))])
def test_rows_stay_in_their_container(container):
    y = np.arange(300)
    X = np.column_stack([y, y + 1.0])
    found = sampled(cut(container(X), y, None, 50), 40, seed=0)
    assert type(found.X) is type(container(X))
    values = found.X.toarray() if hasattr(found.X, "toarray") else np.asarray(found.X)
    np.testing.assert_array_equal(values, X[found.y])


def test_every_row_is_drawn_alike():
    """Each of 200 rows is among 50 in a quarter of the draws; 2,000 draws have a standard error of .0097."""
    times = np.zeros(200)
    for seed in range(2000):
        times[sampled(cut(np.zeros((200, 1)), np.arange(200), None, 30), 50, seed).y] += 1
    share = times / 2000
    assert share.sum() == pytest.approx(50)
    assert np.abs(share - 0.25).max() < 4.2 * 0.0097  # of 200 rows
    assert ((share - 0.25) ** 2).sum() / 0.0097**2 == pytest.approx(200, abs=4 * np.sqrt(400))


def test_a_source_without_rows_is_refused():
    with pytest.raises(RowsError, match="no rows"):
        sampled([], 10, None)
