"""Compiled loop of the merits."""

from libc.math cimport log
from libc.stdint cimport int64_t


def expected_x_log_x(int64_t n, int64_t a, int64_t b):
    """Return E X log X of a hypergeometric X: of n rows b have the class, and a are drawn.

    Probabilities are computed from the mode outwards by their ratios, and divided by their sum. So there are no
    factorials with rounding errors.
    """
    cdef int64_t low = max(0, a + b - n), high = min(a, b), mode, k
    cdef double total = 1.0, weighted, p
    with nogil:
        mode = min(max((a + 1) * (b + 1) // (n + 2), low), high)
        weighted = mode * log(mode) if mode > 0 else 0.0
        p = 1.0
        for k in range(mode, high):
            p *= (a - k) * (b - k) / ((k + 1.0) * (n - a - b + k + 1.0))
            total += p
            weighted += p * (k + 1) * log(k + 1)
            if p < 1e-20:
                break
        p = 1.0
        for k in range(mode, low, -1):
            p *= k * (n - a - b + k) / ((a - k + 1.0) * (b - k + 1.0))
            total += p
            if k > 1:
                weighted += p * (k - 1) * log(k - 1)
            if p < 1e-20:
                break
    return weighted / total
