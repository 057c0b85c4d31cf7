from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cdef double TIE


cdef class Rows:
    cdef const int32_t[:, ::1] codes
    cdef const int64_t[::1] n_values
    cdef const uint8_t[::1] categorical
    cdef int32_t[:, ::1] order
    cdef int32_t[::1] rows
    cdef int16_t[::1] z
    cdef Py_ssize_t n_features, n_z
    # Of the node: its rows, and how many have each value of Z; how many values of Z there are.
    cdef double n
    cdef double[::1] z_total
    cdef Py_ssize_t n_z_present
    # Of each feature in the node: its number of groups, the group of each row, and n_z times the group plus Z. Row i of
    # `rows` is in column i - begin; `place` has the column of each row.
    cdef int64_t[::1] n_groups
    cdef int32_t[:, ::1] group, group_and_z
    cdef int32_t[::1] place
    # Work space: a table of counts, cut points, one number per code or group, and columns sorted by group.
    cdef int32_t[::1] count, of_value, by_one, by_both
    cdef Py_ssize_t[::1] cut


cdef void test(Rows of, Py_ssize_t begin, Py_ssize_t end, double[::1] log_p) noexcept nogil
cdef Py_ssize_t first_above(Rows of, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end, int64_t value) noexcept nogil
