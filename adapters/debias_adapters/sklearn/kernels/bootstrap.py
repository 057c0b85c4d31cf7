"""Compiled bootstrap samples, equal to those of NumPy's RandomState and several times faster.

``RandomState(seed).randint(0, n_rows, n_drawn)`` is a fixed stream: NumPy promises never to change it. The generator is
MT19937 (Matsumoto and Nishimura 1998) with Knuth's seeding. Each word is masked to the bits of ``n_rows - 1``, and
rejected if it is larger than that. The loops take 624 words at a time, which compiles to vector code. Importing this
module imports numba.
"""

import numpy as np
from numba import njit, uint32, uint64


@njit(cache=True, nogil=True)
def draw(seed, n_rows, drawn):
    """Fill `drawn` (n_drawn,) of int32 with what ``RandomState(seed).randint(0, n_rows, n_drawn)`` returns."""
    if n_rows == 1:
        for i in range(drawn.size):
            drawn[i] = 0
        return
    state = np.empty(624, dtype=np.uint32)
    state[0] = seed
    for i in range(1, 624):
        state[i] = uint32(1812433253) * (state[i - 1] ^ (state[i - 1] >> uint32(30))) + uint32(i)
    words = np.empty(624, dtype=np.uint32)
    highest = uint32(n_rows - 1)
    mask = highest
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> uint32(shift)
    accepted = np.empty(624 + 1, dtype=np.int32)
    n_drawn, n_wanted = 0, drawn.size
    while n_drawn < n_wanted:
        _next(state, words)
        n_accepted = uint64(0)
        for i in range(624):
            word = words[i] & mask
            accepted[n_accepted] = np.int32(word)
            n_accepted += uint64(word <= highest)
        size = min(np.int64(n_accepted), n_wanted - n_drawn)
        for i in range(size):
            drawn[n_drawn + i] = accepted[i]
        n_drawn += size


@njit(cache=True, nogil=True)
def bits_of(drawn, bits):
    """Set the bits of the rows in a sample, in the order of ``np.packbits``."""
    for i in range(drawn.size):
        row = uint64(drawn[i])
        bits[row >> uint64(3)] |= np.uint8(128) >> np.uint8(row & uint64(7))


@njit(cache=True, nogil=True)
def _next(state, words):
    """Advance the generator by 624 words, and write them after tempering."""
    for i in range(227):
        state[i] = state[i + 397] ^ _twisted(state[i], state[i + 1])
    for i in range(227, 623):
        state[i] = state[i - 227] ^ _twisted(state[i], state[i + 1])
    state[623] = state[396] ^ _twisted(state[623], state[0])
    for i in range(624):
        y = state[i]
        y ^= y >> uint32(11)
        y ^= (y << uint32(7)) & uint32(0x9D2C5680)
        y ^= (y << uint32(15)) & uint32(0xEFC60000)
        words[i] = y ^ (y >> uint32(18))


@njit(cache=True, nogil=True)
def _twisted(word, following):
    y = (word & uint32(0x80000000)) | (following & uint32(0x7FFFFFFF))
    return (y >> uint32(1)) ^ (uint32(0x9908B0DF) * (following & uint32(1)))
