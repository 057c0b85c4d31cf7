"""Tests of the compiled reader of decimal numbers, against Python's float."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from debias_adapters.lightgbm import reading
from debias_adapters.lightgbm.reading import read_lines


def expected(words):
    return np.array([float(word) for word in words])


def same(words):
    found, in_line = read_lines([" ".join(words)])
    assert in_line.tolist() == [len(words)]
    np.testing.assert_array_equal(found.view(np.int64), expected(words).view(np.int64))  # bit by bit: -0.0 is not 0.0


@pytest.mark.parametrize("form", ["%.17g", "%.16g", "%.15g", "%.18g", "%.20g", "%g", "%.12e", "%.3f"])
def test_doubles_of_every_size_are_rounded_as_python_rounds(form):
    bits = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    numbers = bits.view(np.float64)
    same([form % number for number in numbers[np.isfinite(numbers)].tolist()])


@pytest.mark.parametrize("form", ["%.17g", "%.6g"])
def test_doubles_of_common_sizes_are_rounded_as_python_rounds(form):
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=50_000) * 10.0 ** rng.integers(-12, 12, 50_000)
    words = [form % number for number in numbers.tolist()]
    same(words)
    if form == "%.17g":  # so many digits tell a double from all others
        np.testing.assert_array_equal(read_lines([" ".join(words)])[0], numbers)


def test_numbers_half_way_between_two_doubles_are_rounded_right():
    rng = np.random.default_rng(2)
    whole = 2**53 + 2 * rng.integers(0, 2**53, 2_000) + 1  # odd numbers above 2^53 lie half way
    fractions = [f"{2**53 + 2 * k}.{end}" for k in range(200) for end in ("9", "99", "5", "0")]
    near = [str(int(each) * 10 + last) for each in whole[:500].tolist() for last in (0, 1, 9)]
    same([*map(str, whole.tolist()), *fractions, *near, "9007199254740993", "9007199254740993e22", "1e23", "8.5e22"])


def test_words_are_left_to_python_only_where_that_is_needed(monkeypatch):
    """Else the test above would pass with a reader that leaves everything to Python."""
    asked = []
    monkeypatch.setattr(reading, "float", lambda word: asked.append(word) or 1.0, raising=False)
    numbers = np.random.default_rng(3).normal(size=20_000)
    found, _ = read_lines([" ".join(f"{number:.17g}" for number in numbers.tolist())])
    assert not asked
    np.testing.assert_array_equal(found, numbers)
    read_lines(["1e23 9007199254740993 inf 1e-200 12345678901234567890"])
    assert len(asked) == 5


@pytest.mark.parametrize(
    "words",
    [
        [
            "0",
            "-0",
            "0.0",
            "-0.000",
            "0e5",
            "+3",
            "-.5",
            "5.",
            "1e5",
            "1E-5",
            "1e+05",
            "000123",
            "0.000000000000000001",
        ],
        ["inf", "-inf", "Infinity", "1e308", "1.7976931348623157e+308", "2e308", "4.9406564584124654e-324", "1e-400"],
        [
            "123456789012345678",
            "1234567890123456789",
            "0.1234567890123456789012345",
            "1e100",
            "1e101",
            "1e-100",
            "1e-119",
        ],
        ["18446744073709551616", "0." + "0" * 90 + "1", "1" + "0" * 150, "1e0100", "1e00000000000000000000001"],
    ],
    ids=lambda words: words[0] + "...",
)
def test_uncommon_numbers_are_read_right(words):
    same(words)


def test_what_is_missing_stays_missing():
    found, _ = read_lines(["1 nan 2", "-nan NaN"])
    np.testing.assert_array_equal(np.isnan(found), [False, True, False, True, True])


@pytest.mark.parametrize(
    "word",
    ["abc", "1.2.3", "0x10", "1e", "e5", ".", "-", "+-1", "--1", "1e+-5", "1,5", "1e5x", "1.5e3.0", "²", "1..", ""],
)
def test_what_is_no_number_is_refused(word):
    if word:
        for around in (f"1 {word} 2", word, f"{word}\t7"):
            with pytest.raises(ValueError, match="could not convert"):
                read_lines(["3", around])
    else:
        assert [each.tolist() for each in read_lines(["", "  ", "\t"])] == [[], [0, 0, 0]]


def test_words_are_counted_line_by_line_whatever_is_between_them():
    values, in_line = read_lines(["1 2", "", " 3\t\t4  5 ", "inf", "  ", "6"])
    assert values.tolist() == [1, 2, 3, 4, 5, np.inf, 6]
    assert in_line.tolist() == [2, 0, 3, 1, 0, 1]
    assert [each.size for each in read_lines([])] == [0, 0]


@pytest.mark.thorough
@settings(max_examples=100)
@given(st.lists(st.from_regex(r"\A[-+]?[0-9]{0,25}\.?[0-9]{0,25}([eE][-+]?[0-9]{1,4})?\Z"), min_size=1, max_size=20))
def test_whatever_looks_like_a_number(words):
    numbers = []
    for word in words:
        try:
            float(word)
            numbers.append(word)
        except ValueError:
            if word:
                with pytest.raises(ValueError, match="could not convert"):
                    read_lines([word])
    if numbers:
        same(numbers)
