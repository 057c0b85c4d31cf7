"""The rule of one split, for compiled loops that walk down a tree."""

from cython cimport floating
from libc.math cimport fabs, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef inline bint goes_left(
    floating x,
    floating threshold,
    bint missing_left,
    bint zero_is_missing,
    int64_t which,
    const int64_t[::1] start,
    const int32_t[::1] codes,
    const uint8_t[::1] listed_left,
) noexcept nogil:
    """Return whether one value goes left at one split.

    `which` is the number of the category set of the split, -1 if it has none. The last three arguments are the category
    sets. Where the threshold alone decides, comparing with it takes less time.
    """
    if which >= 0:
        return missing_left if isnan(x) else listed(x, which, start, codes, listed_left)
    # LightGBM takes numbers up to this size for 0.
    if isnan(x) or (zero_is_missing and fabs(x) <= 1e-35):
        return missing_left
    return x <= threshold


cdef inline void answers(
    const floating* x,
    int64_t n,
    floating threshold,
    bint plain,
    bint missing_left,
    bint zero_is_missing,
    int64_t which,
    const int64_t[::1] start,
    const int32_t[::1] codes,
    const uint8_t[::1] listed_left,
    uint8_t* on_left,
) noexcept nogil:
    """Write whether each of n values goes left at one split; `plain`: the threshold alone decides, unless NaN."""
    cdef int64_t r
    if plain and missing_left:
        for r in range(n):
            on_left[r] = not x[r] > threshold
    elif plain:
        for r in range(n):
            on_left[r] = x[r] <= threshold
    else:
        for r in range(n):
            on_left[r] = goes_left(
                x[r], threshold, missing_left, zero_is_missing, which, start, codes, listed_left
            )


cdef inline bint listed(
    floating x,
    int64_t which,
    const int64_t[::1] start,
    const int32_t[::1] codes,
    const uint8_t[::1] listed_left,
) noexcept nogil:
    """Return whether a category goes left at a split with category set `which`."""
    cdef int64_t low, high, middle
    cdef int32_t code
    if not -1 < x < 2147483647:  # not a code, so not listed
        return not listed_left[which]
    code = <int32_t>x
    low = start[which]
    high = start[which + 1]
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return (low < start[which + 1] and codes[low] == code) == listed_left[which]
