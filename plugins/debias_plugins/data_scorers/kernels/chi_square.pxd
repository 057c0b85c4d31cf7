cpdef double log_tail(double x, double df) noexcept nogil
cpdef double quantile_1df(double log_p) noexcept nogil
