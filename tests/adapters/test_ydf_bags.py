"""Tests of how YDF draws rows, which need no YDF. That the draws are its own, test_ydf.py compares with its trees."""

from __future__ import annotations

import numpy as np
import pytest

from debias_adapters.ydf import bags


def test_the_words_are_those_of_the_standard_generator():
    """The C++ standard states the 10000th word of ``std::mt19937`` with its default seed."""
    assert bags._words(5489, 10_000)[-1] == 4123659995


@pytest.mark.parametrize("n_rows", [1, 2, 7, 1000, 2**31 + 2**30])
def test_rows_are_drawn_one_after_the_other(n_rows, monkeypatch):
    """Of the last number of rows, a quarter of the words are left out."""
    monkeypatch.setattr(np, "bincount", lambda rows, minlength: rows)  # there is no memory for so many rows
    words = iter(bags._words(3, 1000).tolist())
    expected = []
    while len(expected) < 200:
        product = next(words) * n_rows
        if product % 2**32 >= 2**32 % n_rows:
            expected.append(product >> 32)
    np.testing.assert_array_equal(bags._times(3, 200, n_rows), expected)
