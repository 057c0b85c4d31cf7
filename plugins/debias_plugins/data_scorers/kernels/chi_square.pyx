"""Logarithms of chi-square tail probabilities, also where the probabilities underflow.

With a = df / 2 and z = x / 2, the upper tail is Q(a, z), the regularised incomplete gamma function. It is computed by a
series below z = a + 1, and by Legendre's continued fraction (with Lentz's method) above.
"""

from libc.math cimport M_PI, erfc, exp, fabs, lgamma, log, log1p, sqrt


cpdef double log_tail(double x, double df) noexcept nogil:
    """Return log P(chi-square with `df` degrees of freedom >= x); 0 for x <= 0 or no degrees of freedom."""
    cdef double a = df / 2, z = x / 2
    cdef double front, term, total, n, b, c, d, fraction, step, change
    cdef int i
    if z <= 0 or a <= 0:
        return 0.0
    front = a * log(z) - z - lgamma(a)
    if z < a + 1:
        term = total = 1 / a
        n = a
        while term > total * 1e-17:
            n += 1
            term *= z / n
            total += term
        return log1p(-exp(front) * total)
    b = z + 1 - a
    c, d = 1e300, 1 / b
    fraction = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        change = c * d
        fraction *= change
        if fabs(change - 1) < 1e-15:
            break
    return front + log(fraction)


cpdef double quantile_1df(double log_p) noexcept nogil:
    """Return the (1 - p)-quantile of chi-square with one degree of freedom, given log p <= 0.

    Newton's method on the logarithm of the tail needs a few steps: the logarithm is concave, and nearly linear for
    large x.
    """
    cdef double x, tail, slope, new
    cdef int i
    if log_p >= 0:
        return 0.0
    if log_p > -1e-8:  # p = 1 - 2 phi(0) sqrt(x) + ...
        return log_p * log_p * M_PI / 2
    x = max(-2 * log_p - log(max(-log_p, 0.1)) - 0.5, 0.25 * log_p * log_p) if log_p < -0.5 else log_p * log_p
    for i in range(60):
        tail = _log_tail_1df(x)
        slope = -exp(-x / 2 - 0.5 * log(2 * M_PI * x) - tail)  # -density / tail
        new = x - (tail - log_p) / slope
        if new <= 0:
            new = x / 4
        if fabs(new - x) <= 1e-14 * x:
            return new
        x = new
    return x


cdef double _log_tail_1df(double x) noexcept nogil:
    return log(erfc(sqrt(x / 2))) if x < 100 else log_tail(x, 1.0)
