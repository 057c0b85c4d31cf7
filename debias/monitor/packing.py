"""Arrays as sealed bytes, without pickles and without compression: what is read is never larger than what is stored.

The bytes are the BLAKE3 digest of the rest; the length of the head; the head, one line of JSON with plain facts and
the name, type, stored type and shape of each array; and the arrays, one after the other. Floating numbers that are all
whole, such as counts, are stored as integers in as few bytes as hold them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

SEAL, LENGTH = 32, 8
"""Numbers of bytes of the digest and of the length of the head."""
_NARROW = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"))


class Damage(Exception):  # noqa: N818
    """A description of what is wrong with stored bytes."""


def pack(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return facts and arrays as bytes.

    Parameters
    ----------
    facts : mapping of str to plain value
        What JSON can hold.
    arrays : mapping of str to array
        Arrays of numbers, booleans or text.
    """
    entries, pieces = [], []
    for name, array in arrays.items():
        array = np.asarray(array)
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        stored = _narrowed(array)
        entries.append([name, array.dtype.str, stored.dtype.str, list(array.shape)])
        pieces.append(stored.tobytes())
    head = json.dumps([facts, entries]).encode()
    body = b"".join([len(head).to_bytes(LENGTH, "little"), head, *pieces])
    return blake3(body).digest() + body


def unpack(data: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the facts and arrays that :func:`pack` stored; the arrays may be read-only.

    Raises
    ------
    Damage
        The bytes are not complete, were changed, or were not written by :func:`pack`.
    """
    if not isinstance(data, bytes) or len(data) < SEAL + LENGTH:
        raise Damage("stored sums are not complete")
    if blake3(memoryview(data)[SEAL:]).digest() != data[:SEAL]:
        raise Damage("the digest of stored sums does not fit their contents")
    begin = SEAL + LENGTH
    position = begin + int.from_bytes(data[SEAL:begin], "little")
    try:
        facts, entries = json.loads(data[begin:position])
        arrays = {}
        for name, dtype, stored, shape in entries:
            arrays[str(name)], position = _array(data, position, dtype, stored, shape)
    except (ValueError, TypeError, RecursionError) as error:  # a forged head: its digest may be right
        raise Damage(f"stored sums cannot be read: {error}") from None
    if position != len(data) or not isinstance(facts, dict):
        raise Damage("stored sums are longer or shorter than their head says")
    return facts, arrays


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the smallest type that holds them; other arrays unchanged."""
    if array.dtype.kind != "f" or not array.size:
        return array
    low, high = array.min(), array.max()
    dtype = next((dtype for dtype in _NARROW if high <= np.iinfo(dtype).max), None)
    if dtype is None or not low >= 0:  # also if a value is NaN
        return array
    narrow = array.astype(dtype)
    # A zero may be negative: the integer has no sign, and the bytes must come back as they were.
    return narrow if np.array_equal(narrow, array) and not np.signbit(array).any() else array


def _array(data: bytes, position: int, dtype: Any, stored: Any, shape: Any) -> tuple[NDArray[Any], int]:
    """Return the array that begins at a position, and where the next begins."""
    kinds = (np.dtype(str(dtype)), np.dtype(str(stored)))
    if any(kind.kind not in "fiubU" or not 0 < kind.itemsize <= 4096 for kind in kinds):
        raise ValueError(f"it has an array of type {dtype}")
    # Narrowing is by a factor of 8 at most, so no forged head makes a small file into large arrays.
    if kinds[0] != kinds[1] and (kinds[0].itemsize > 8 or kinds[1] not in _NARROW):
        raise ValueError(f"it has an array of type {dtype} stored as {stored}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 8:
        raise ValueError(f"it has an array of shape {shape}")
    size = int(np.prod(shape, dtype=object)) if shape else 1
    end = position + size * kinds[1].itemsize
    if end > len(data):
        raise ValueError("it is shorter than its head says")
    array = np.frombuffer(data, kinds[1], size, position).reshape(shape).astype(kinds[0], copy=False)
    return array, end
