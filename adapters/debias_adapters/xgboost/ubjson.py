"""Reader of the UBJSON that XGBoost writes. Numeric arrays are views of the data."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_CODES = {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}
_NUMBERS = {ord(marker): struct.Struct(f">{code}") for marker, code in _CODES.items()}
_DTYPES = {ord(marker): np.dtype(f">{code}") for marker, code in _CODES.items()}
_COUNTS = {ord(marker): _NUMBERS[ord(marker)] for marker in "iUIlL"}
_COUNT, _TYPE, _ARRAY_ENDS, _OBJECT_ENDS = b"#$]}"


def read(data: bytes) -> Any:
    """Parse one UBJSON document.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    object
        Dictionaries, lists, strings and numbers. Arrays of one numeric type are read-only and big-endian, as the
        format stores them.

    Raises
    ------
    ValueError
        The data is not UBJSON.

    Examples
    --------
    >>> read(b"{i" + bytes([1]) + b"a[$U#i" + bytes([2, 7, 9]) + b"}")
    {'a': array([7, 9], dtype=uint8)}
    """
    try:
        document, end = _READERS[data[0]](data, 1)
    except KeyError as error:
        raise ValueError(f"not UBJSON: {chr(error.args[0])!r} is not a marker") from None
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not UBJSON, or truncated: {error}") from error
    if end != len(data):
        raise ValueError(f"not UBJSON as XGBoost writes it: {len(data) - end} bytes follow its end")
    return document


def _count(data: bytes, position: int) -> tuple[int, int]:
    """Read a length. Like every reader, return the value and the position after it."""
    number = _COUNTS[data[position]]
    (size,) = number.unpack_from(data, position + 1)
    if size < 0:
        raise ValueError(f"not UBJSON: a length of {size} at byte {position}")
    return size, position + 1 + number.size


def _string(data: bytes, position: int) -> tuple[str, int]:
    size, position = _count(data, position)
    if position + size > len(data):
        raise ValueError(f"truncated UBJSON: a string of {size} bytes at byte {position}")
    return data[position : position + size].decode(), position + size


def _array(data: bytes, position: int) -> tuple[Any, int]:
    kind = None
    if data[position] == _TYPE:
        kind, position = data[position + 1], position + 2
        if data[position] != _COUNT:
            raise ValueError(f"not UBJSON: a type without a count at byte {position}")
    items = []
    if data[position] != _COUNT:
        while data[position] != _ARRAY_ENDS:
            item, position = _READERS[data[position]](data, position + 1)
            items.append(item)
        return items, position + 1
    size, position = _count(data, position + 1)
    if kind in _DTYPES:
        dtype = _DTYPES[kind]
        return np.frombuffer(data, dtype, size, position), position + size * dtype.itemsize
    if size > len(data):  # items of type null take no bytes
        raise ValueError(f"not UBJSON: {size} items at byte {position}")
    for _ in range(size):
        item, position = (
            _READERS[data[position]](data, position + 1) if kind is None else _READERS[kind](data, position)
        )
        items.append(item)
    return items, position


def _object(data: bytes, position: int) -> tuple[dict[str, Any], int]:
    entries = {}
    while data[position] != _OBJECT_ENDS:
        name, position = _string(data, position)
        if name in entries:  # some readers take the first value, others the last
            raise ValueError(f"not UBJSON as XGBoost writes it: {name!r} occurs twice in one object")
        entries[name], position = _READERS[data[position]](data, position + 1)
    return entries, position + 1


def _number(marker: int) -> Callable[[bytes, int], tuple[Any, int]]:
    number = _NUMBERS[marker]
    return lambda data, position: (number.unpack_from(data, position)[0], position + number.size)


def _constant(value: bool | None) -> Callable[[bytes, int], tuple[Any, int]]:
    return lambda data, position: (value, position)


_READERS = {
    **{kind: _number(kind) for kind in _NUMBERS},
    **{ord(marker): _constant(value) for marker, value in (("T", True), ("F", False), ("Z", None))},
    **{ord("S"): _string, ord("["): _array, ord("{"): _object},
}
