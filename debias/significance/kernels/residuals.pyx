"""Compiled loops of the test of residuals (debias.significance.residuals), for several permutations or signs at once."""

from libc.stdint cimport int32_t, int64_t

cdef extern from "debias/rows/kernels/lanes.h" nogil:
    ctypedef struct doubles:
        pass
    doubles load_doubles(const double* address)
    void store_doubles(double* address, doubles a)
    doubles spread_doubles(double x)
    doubles add_doubles(doubles a, doubles b)
    doubles multiply_doubles(doubles a, doubles b)


cdef enum:
    LANES = 8  # numbers in `doubles`


def permuted_moments(
    Py_ssize_t begin,
    Py_ssize_t end,
    const double[:, :, :, ::1] use,
    const double[:, :, ::1] residual,
    const int32_t[:, ::1] order,
    Py_ssize_t block_size,
    double[:, :, :, ::1] sums,
):
    """Write the sums of products of uses and permuted residuals, and of their squares, for features begin..end.

    Parameters
    ----------
    use : array of shape (n_features, 3, n_rows, n_outputs)
    residual : array of shape (n_features, n_rows, n_outputs)
    order : array of shape (n_rows, 8)
        The row whose residual each row gets, for each permutation.
    block_size : int
        Number of rows whose products are summed before they are squared.
    sums : array of shape (n_features, 3, 2, 8)
    """
    cdef Py_ssize_t k, i, b, c, lane, n_rows = residual.shape[1], n_outputs = residual.shape[2]
    cdef const double *of_feature
    cdef const double *effect
    cdef const double *step
    cdef const double *root
    cdef double drawn[LANES]
    cdef doubles value, first, second, third, first_sum, second_sum, third_sum, first_square, second_square, third_square
    with nogil:
        for k in range(begin, end):
            of_feature = &residual[k, 0, 0]
            effect, step, root = &use[k, 0, 0, 0], &use[k, 1, 0, 0], &use[k, 2, 0, 0]
            first_sum = second_sum = third_sum = spread_doubles(0.0)
            first_square = second_square = third_square = spread_doubles(0.0)
            i = 0
            while i < n_rows:
                first = second = third = spread_doubles(0.0)
                for b in range(i, i + block_size):
                    for c in range(n_outputs):
                        for lane in range(LANES):
                            drawn[lane] = of_feature[order[b, lane] * n_outputs + c]
                        value = load_doubles(drawn)
                        first = add_doubles(first, multiply_doubles(spread_doubles(effect[b * n_outputs + c]), value))
                        second = add_doubles(second, multiply_doubles(spread_doubles(step[b * n_outputs + c]), value))
                        third = add_doubles(third, multiply_doubles(spread_doubles(root[b * n_outputs + c]), value))
                first_sum = add_doubles(first_sum, first)
                second_sum = add_doubles(second_sum, second)
                third_sum = add_doubles(third_sum, third)
                first_square = add_doubles(first_square, multiply_doubles(first, first))
                second_square = add_doubles(second_square, multiply_doubles(second, second))
                third_square = add_doubles(third_square, multiply_doubles(third, third))
                i += block_size
            store_doubles(&sums[k, 0, 0, 0], first_sum)
            store_doubles(&sums[k, 0, 1, 0], first_square)
            store_doubles(&sums[k, 1, 0, 0], second_sum)
            store_doubles(&sums[k, 1, 1, 0], second_square)
            store_doubles(&sums[k, 2, 0, 0], third_sum)
            store_doubles(&sums[k, 2, 1, 0], third_square)


def signed_sums(
    Py_ssize_t begin, Py_ssize_t end, const double[:, ::1] figure, const double[:, ::1] sign, double[:, ::1] sums
):
    """Write the sums of figures with signs, for rows begin..end of `figure`.

    Parameters
    ----------
    figure : array of shape (n_figures, n_blocks)
    sign : array of shape (n_blocks, 8)
    sums : array of shape (n_figures, 8)
    """
    cdef Py_ssize_t f, b
    cdef doubles total
    with nogil:
        for f in range(begin, end):
            total = spread_doubles(0.0)
            for b in range(figure.shape[1]):
                total = add_doubles(total, multiply_doubles(spread_doubles(figure[f, b]), load_doubles(&sign[b, 0])))
            store_doubles(&sums[f, 0], total)
