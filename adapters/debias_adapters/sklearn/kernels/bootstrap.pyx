"""Compiled bootstrap samples, equal to those of NumPy's RandomState and several times faster.

``RandomState(seed).randint(0, n_rows, n_drawn)`` is a fixed stream: NumPy promises never to change it. The generator is
MT19937 (Matsumoto and Nishimura 1998) with Knuth's seeding. Each word is masked to the bits of ``n_rows - 1``, and
rejected if it is larger than that. The loops take 624 words at a time, which compiles to vector code.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t


def draw(uint32_t seed, Py_ssize_t n_rows, int32_t[::1] drawn):
    """Fill `drawn` (n_drawn,) of int32 with what ``RandomState(seed).randint(0, n_rows, n_drawn)`` returns."""
    cdef uint32_t state[624]
    cdef uint32_t words[624]
    cdef uint32_t word, mask, highest = <uint32_t> (n_rows - 1)
    cdef Py_ssize_t i, n_drawn = 0, n_wanted = drawn.shape[0]
    if n_rows == 1:
        drawn[:] = 0
        return
    with nogil:
        state[0] = seed
        for i in range(1, 624):
            state[i] = <uint32_t> 1812433253 * (state[i - 1] ^ (state[i - 1] >> 30)) + <uint32_t> i
        mask = highest
        for i in range(5):
            mask |= mask >> (1 << i)
        while n_drawn < n_wanted:
            _next(state, words)
            for i in range(624):
                if n_drawn == n_wanted:
                    break
                word = words[i] & mask
                drawn[n_drawn] = <int32_t> word
                n_drawn += word <= highest


def bits_of(const int32_t[::1] drawn, uint8_t[::1] bits):
    """Set the bits of the rows in a sample, in the order of ``np.packbits``."""
    cdef Py_ssize_t i
    cdef uint32_t row
    with nogil:
        for i in range(drawn.shape[0]):
            row = <uint32_t> drawn[i]
            bits[row >> 3] |= <uint8_t> (128 >> (row & 7))


cdef void _next(uint32_t* state, uint32_t* words) noexcept nogil:
    """Advance the generator by 624 words, and write them after tempering."""
    cdef Py_ssize_t i
    cdef uint32_t y
    for i in range(227):
        state[i] = state[i + 397] ^ _twisted(state[i], state[i + 1])
    for i in range(227, 623):
        state[i] = state[i - 227] ^ _twisted(state[i], state[i + 1])
    state[623] = state[396] ^ _twisted(state[623], state[0])
    for i in range(624):
        y = state[i]
        y ^= y >> 11
        y ^= (y << 7) & <uint32_t> 0x9D2C5680
        y ^= (y << 15) & <uint32_t> 0xEFC60000
        words[i] = y ^ (y >> 18)


cdef inline uint32_t _twisted(uint32_t word, uint32_t following) noexcept nogil:
    cdef uint32_t y = (word & <uint32_t> 0x80000000) | (following & <uint32_t> 0x7FFFFFFF)
    return (y >> 1) ^ (-(following & 1) & <uint32_t> 0x9908B0DF)
