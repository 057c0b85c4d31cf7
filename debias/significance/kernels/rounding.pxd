"""Rounding in loops over permuted responses."""

from libc.math cimport fabs


cdef inline double unless_rounding(double difference, double value) noexcept nogil:
    """Return a difference, or 0 if it is so small relative to a value that was subtracted that it is rounding."""
    # 1e-13 is about 450 roundings of a double: more than such sums lose, and far less than a real difference.
    return difference if fabs(difference) > 1e-13 * fabs(value) else 0.0
