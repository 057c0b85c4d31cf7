"""Compiled reader of decimal numbers: each is rounded correctly, or marked with NaN if that is in doubt."""

import numpy as np
from numba import njit

DIGITS_AT_MOST = 18
"""A whole number of 18 digits fits into 63 bits."""
UNSURE = 2.0**-94
"""Bound of the relative error of a number times a power of ten, where both are sums of two doubles."""


@njit(cache=True, nogil=True)
def read_numbers(data, high, low, values, begin, in_line):
    """Read the numbers of lines of ASCII, separated by white space.

    A word that is not a plain number, or whose rounding is in doubt, becomes NaN. The position of each word is written
    to `begin`, and the number of words of each line to `in_line`. `high` + `low` are the powers of ten from 10^-k to
    10^k.
    """
    n, line, at, size = 0, 0, 0, data.size
    while at < size:
        if data[at] <= 32:
            line += data[at] == 10
            at += 1
            continue
        begin[n] = at
        negative = data[at] == 45
        at += data[at] == 45 or data[at] == 43
        digits, n_digits, any_digit, exponent, after_point, plain = 0, 0, False, 0, False, True
        while at < size and data[at] > 32:
            c = data[at]
            if 48 <= c <= 57:
                n_digits += digits > 0 or c > 48
                if n_digits > DIGITS_AT_MOST:
                    plain = False
                    break
                digits = digits * 10 + (c - 48)
                exponent -= after_point
                any_digit = True
            elif c == 46 and not after_point:
                after_point = True
            elif (c == 101 or c == 69) and any_digit:
                at, shift, plain = _exponent(data, at + 1)
                exponent += shift
                break
            else:
                plain = False
                break
            at += 1
        while at < size and data[at] > 32:  # skip the rest of a word that is not a plain number
            plain = False
            at += 1
        value = _scaled(digits, exponent, high, low) if plain and any_digit else np.nan
        values[n] = -value if negative else value
        in_line[line] += 1
        n += 1


@njit(cache=True, nogil=True)
def _exponent(data, at):
    """Return the position after an exponent, the exponent, and whether it has one to three digits."""
    negative = at < data.size and data[at] == 45
    at += at < data.size and (data[at] == 45 or data[at] == 43)
    first, shift = at, 0
    while at < data.size and 48 <= data[at] <= 57 and at - first < 3:
        shift = shift * 10 + (data[at] - 48)
        at += 1
    return at, -shift if negative else shift, at > first


@njit(cache=True, nogil=True)
def _scaled(digits, exponent, high, low):
    """Return digits x 10^exponent, correctly rounded; NaN if the rounding is in doubt."""
    if digits == 0:
        return 0.0
    position = exponent + high.size // 2
    if not 0 <= position < high.size:
        return np.nan
    a = np.float64(digits)
    low_digits = np.float64(digits - np.int64(a))
    power_high, power_low = high[position], low[position]
    product = a * power_high
    a_upper, power_upper = _upper_half(a), _upper_half(power_high)
    a_lower, power_lower = a - a_upper, power_high - power_upper
    # Dekker (1971): product + error is exact.
    error = a_lower * power_lower - (
        ((product - a_upper * power_upper) - a_lower * power_upper) - a_upper * power_lower
    )
    error += a * power_low + low_digits * power_high
    total = product + error
    error -= total - product
    doubt = abs(total) * UNSURE
    return total if total + (error + doubt) == total == total + (error - doubt) else np.nan


@njit(cache=True, nogil=True)
def _upper_half(a):
    """Return the upper 26 bits of a double."""
    c = 134217729.0 * a
    return c - (c - a)
