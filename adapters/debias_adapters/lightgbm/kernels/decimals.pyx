"""Compiled reader of decimal numbers: each is rounded correctly, or marked with NaN if that is in doubt."""

from libc.math cimport NAN, fabs
from libc.stdint cimport int64_t, uint8_t

cdef enum:
    DIGITS_AT_MOST = 18  # a whole number of 18 digits fits into 63 bits

cdef double UNSURE = 2.0**-94  # bound of the relative error of a number times a power of ten, both sums of two doubles


def read_numbers(
    const uint8_t[::1] data,
    const double[::1] high,
    const double[::1] low,
    double[::1] values,
    int64_t[::1] begin,
    int64_t[::1] in_line,
):
    """Read the numbers of lines of ASCII, separated by white space.

    A word that is not a plain number, or whose rounding is in doubt, becomes NaN. The position of each word is written
    to `begin`, and the number of words of each line to `in_line`. `high` + `low` are the powers of ten from 10^-k to
    10^k.
    """
    cdef Py_ssize_t n_words = 0, line = 0, position = 0, size = data.shape[0], n_digits, first
    cdef int64_t digits, exponent, shift
    cdef bint negative, negative_exponent, any_digit, after_point, is_plain
    cdef uint8_t character
    cdef double value
    with nogil:
        while position < size:
            if data[position] <= c' ':
                line += data[position] == c'\n'
                position += 1
                continue
            begin[n_words] = position
            negative = data[position] == c'-'
            position += data[position] == c'-' or data[position] == c'+'
            digits, n_digits, exponent = 0, 0, 0
            any_digit, after_point, is_plain = False, False, True
            while position < size and data[position] > c' ':
                character = data[position]
                if c'0' <= character <= c'9':
                    n_digits += digits > 0 or character > c'0'
                    if n_digits > DIGITS_AT_MOST:
                        is_plain = False
                        break
                    digits = digits * 10 + (character - c'0')
                    exponent -= after_point
                    any_digit = True
                elif character == c'.' and not after_point:
                    after_point = True
                elif (character == c'e' or character == c'E') and any_digit:
                    position += 1
                    negative_exponent = position < size and data[position] == c'-'
                    position += position < size and (data[position] == c'-' or data[position] == c'+')
                    first, shift = position, 0
                    while position < size and c'0' <= data[position] <= c'9' and position - first < 3:
                        shift = shift * 10 + (data[position] - c'0')
                        position += 1
                    exponent += -shift if negative_exponent else shift
                    is_plain = position > first  # and nothing may follow
                    break
                else:
                    is_plain = False
                    break
                position += 1
            while position < size and data[position] > c' ':  # skip the rest of a word that is not a plain number
                is_plain = False
                position += 1
            value = _scaled(digits, exponent, high, low) if is_plain and any_digit else NAN
            values[n_words] = -value if negative else value
            in_line[line] += 1
            n_words += 1


cdef inline double _scaled(
    int64_t digits, int64_t exponent, const double[::1] high, const double[::1] low
) noexcept nogil:
    """Return digits x 10^exponent, correctly rounded; NaN if the rounding is in doubt."""
    cdef int64_t position = exponent + high.shape[0] // 2
    cdef double a, a_upper, a_lower, low_digits, power_high, power_low, power_upper, power_lower
    cdef double product, error, total, doubt
    if digits == 0:
        return 0.0
    if not 0 <= position < high.shape[0]:
        return NAN
    a = <double> digits
    low_digits = <double> (digits - <int64_t> a)
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
    doubt = fabs(total) * UNSURE
    return total if total + (error + doubt) == total and total == total + (error - doubt) else NAN


cdef inline double _upper_half(double a) noexcept nogil:
    """Return the upper 26 bits of a double."""
    cdef double c = 134217729.0 * a
    return c - (c - a)
