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
    n_words, line, position, size = 0, 0, 0, data.size
    while position < size:
        if data[position] <= 32:
            line += data[position] == 10
            position += 1
            continue
        begin[n_words] = position
        negative = data[position] == 45
        position += data[position] == 45 or data[position] == 43
        digits, n_digits, any_digit, exponent, after_point, is_plain = 0, 0, False, 0, False, True
        while position < size and data[position] > 32:
            character = data[position]
            if 48 <= character <= 57:
                n_digits += digits > 0 or character > 48
                if n_digits > DIGITS_AT_MOST:
                    is_plain = False
                    break
                digits = digits * 10 + (character - 48)
                exponent -= after_point
                any_digit = True
            elif character == 46 and not after_point:
                after_point = True
            elif (character == 101 or character == 69) and any_digit:
                position, shift, is_plain = _exponent(data, position + 1)
                exponent += shift
                break
            else:
                is_plain = False
                break
            position += 1
        while position < size and data[position] > 32:  # skip the rest of a word that is not a plain number
            is_plain = False
            position += 1
        value = _scaled(digits, exponent, high, low) if is_plain and any_digit else np.nan
        values[n_words] = -value if negative else value
        in_line[line] += 1
        n_words += 1


@njit(cache=True, nogil=True)
def _exponent(data, position):
    """Return the position after an exponent, the exponent, and whether it has one to three digits."""
    negative = position < data.size and data[position] == 45
    position += position < data.size and (data[position] == 45 or data[position] == 43)
    first, shift = position, 0
    while position < data.size and 48 <= data[position] <= 57 and position - first < 3:
        shift = shift * 10 + (data[position] - 48)
        position += 1
    return position, -shift if negative else shift, position > first


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
