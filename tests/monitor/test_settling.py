"""Which rows are among others, by counts of rows whose leaves are known."""

import numpy as np

from debias.monitor.settling import answered, within

N_LEAVES = 4


def counts(leaves, weight=None):
    """The counts of rows, of which the leaf of one tree is known."""
    weight = np.ones(len(leaves)) if weight is None else np.asarray(weight, dtype=float)
    return {
        "n": np.bincount(leaves, weights=weight, minlength=N_LEAVES),
        "unseen": np.zeros(2),
        "totals": np.array([len(leaves), weight.sum(), 0.0, 0.0]),
        "weights": np.array([0.0, (weight**2).sum()]),
    }


def test_rows_are_among_others_if_no_leaf_has_more_of_them():
    rng = np.random.default_rng(0)
    for _ in range(300):
        some, rows = (rng.integers(0, N_LEAVES, rng.integers(1, 9)) for _ in range(2))
        left = rows.tolist()
        expected = all(leaf in left and left.remove(leaf) is None for leaf in some)
        assert within(counts(some), counts(rows)) is expected


def test_weights_leave_the_leaves_that_have_rows():
    rows, weight = [0, 0, 1, 2], [0.5, 1.0, 2.0, 1.5]
    assert within(counts(rows, weight), counts(rows)) is None
    assert within(counts(rows), counts(rows, weight)) is None
    assert within(counts(rows[:2], weight[:2]), counts(rows)) is None
    assert within(counts([0, 0, 1, 3], weight), counts(rows)) is False
    assert within(counts(rows), counts(rows, [0.5, 1.0, 2.0, 0.0])) is None  # a row of weight 0 is in no leaf
    assert within(counts([0, 0, 1, 3]), counts(rows, weight)) is False
    assert within(counts(rows), counts([0, 0, 1, 3], weight)) is False
    assert within(counts(rows[:3], weight[:3]), counts(rows, weight)) is True
    assert within(counts(rows, weight), counts(rows, weight[::-1])) is None
    assert within(counts([*rows, 0], [*weight, 1.0]), counts(rows)) is False


def test_no_row_is_answered_twice():
    waits = counts([0, 0, 1, 2])
    assert answered(waits, []) == (0, True)
    assert answered(waits, [counts([0, 1]), counts([0, 1])]) == (2, True)  # one row of leaf 1 waits
    assert answered(waits, [counts([0, 1]), counts([0, 1]), counts([0, 2])]) == (4, True)
    assert answered(waits, [counts([3]), counts([0, 0, 1, 1])]) == (0, True)
    assert answered(waits, [counts([1]), counts([0, 0, 1, 2])]) == (4, True)  # the larger part is the rows that wait
    assert answered(waits, [counts([0, 2], [0.5, 1.5])]) == (2, False)
