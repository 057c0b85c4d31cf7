"""Arrays that begin with a line of the processor's cache: a row of 64 bytes is then in one line, and not in two."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

LINE = 64
"""Bytes of a line of the cache of x86 processors. With another size, only the speed differs."""


def empty(shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return an array as ``numpy.empty`` does, whose address is a multiple of `LINE`."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, dtype=np.uint8)
    begin = -memory.__array_interface__["data"][0] % LINE
    return memory[begin : begin + size].view(dtype).reshape(shape)


def zeros(shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return the same with zeros."""
    array = empty(shape, dtype)
    array.fill(0)
    return array
