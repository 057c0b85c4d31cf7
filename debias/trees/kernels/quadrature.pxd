"""What the integrals of Shapley values and of Shapley interactions share; see `shapley.pyx` for the notation."""

from libc.stdint cimport int64_t, uint8_t

cdef extern from *:
    """
    #if defined(__GNUC__)
    typedef double debias_lanes __attribute__((vector_size(32), aligned(8), may_alias));
    #define DEBIAS_WIDTH 4
    #define debias_spread(x) ((x) - (debias_lanes){0}) /* x - 0 is x, also for -0 */
    #else
    typedef double debias_lanes;
    #define DEBIAS_WIDTH 1
    #define debias_spread(x) (x)
    #endif
    #define debias_at(from) (*(const debias_lanes*)(from))
    #define debias_put(to, lanes) (*(debias_lanes*)(to) = (lanes))
    """
    # Some neighbours in an array of double, with which C computes at once. (gcc 12 does not find them in plain loops.)
    ctypedef double Lanes "debias_lanes"
    Lanes at "debias_at"(const double* first) noexcept nogil
    void put "debias_put"(double* first, Lanes lanes) noexcept nogil
    Lanes spread "debias_spread"(double x) noexcept nogil
    cdef enum:
        WIDTH "DEBIAS_WIDTH"

cdef enum:
    LANES = 4  # sums over quadrature nodes are kept in that many parts, which are added at the end: with any WIDTH
    RIGHT = 0
    LEFT = 1
    GONE = 2  # states of a row at a split


cdef inline double added(double* lanes) noexcept nogil:
    """Return the sum of the lanes, and set them to 0."""
    cdef double total = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    cdef int64_t lane
    for lane in range(LANES):
        lanes[lane] = 0.0
    return total


cdef inline void factors_of_edges(
    double a, double c, double z, const double* t, int64_t n_q, double* factor
) noexcept nogil:
    """Write the factors of the left edge, those of the right edge, and g, for each state of a row at a split.

    `a` and `c` are the shares of the left and the right edge, z that of the edge above on the same feature.
    """
    cdef int64_t q
    cdef double stays = a / z if z > 0 else 0.5, over
    cdef double* left = factor
    cdef double* right = &factor[3 * n_q]
    cdef double* g = &factor[6 * n_q]
    for q in range(n_q):
        over = 1 / (z * (1 - t[q]) + t[q])
        left[RIGHT * n_q + q] = a * (1 - t[q]) * over
        left[LEFT * n_q + q] = (a * (1 - t[q]) + t[q]) * over
        left[GONE * n_q + q] = stays
        right[RIGHT * n_q + q] = (c * (1 - t[q]) + t[q]) * over
        right[LEFT * n_q + q] = c * (1 - t[q]) * over
        right[GONE * n_q + q] = 1 - stays
        g[RIGHT * n_q + q] = -a * over * over
        g[LEFT * n_q + q] = c * over * over
        g[GONE * n_q + q] = 0.0


cdef inline void multiply(
    int64_t n, int64_t n_q, const uint8_t* state, const double* factor, const double* above, double* product
) noexcept nogil:
    """Multiply P of a split by a factor. The loops are faster if the number of quadrature nodes is a constant."""
    if n_q == 4:
        multiply_rows(n, 4, state, factor, above, product)
    elif n_q == 8:
        multiply_rows(n, 8, state, factor, above, product)
    elif n_q == 12:
        multiply_rows(n, 12, state, factor, above, product)
    elif n_q == 16:
        multiply_rows(n, 16, state, factor, above, product)
    else:
        multiply_rows(n, n_q, state, factor, above, product)


cdef inline void multiply_rows(
    int64_t n, int64_t n_q, const uint8_t* state, const double* factor, const double* above, double* product
) noexcept nogil:
    cdef int64_t r, q
    cdef const double* by
    for r in range(n):
        by = &factor[state[r] * n_q]
        for q from 0 <= q < n_q by WIDTH:
            put(&product[r * n_q + q], at(&above[r * n_q + q]) * at(&by[q]))
