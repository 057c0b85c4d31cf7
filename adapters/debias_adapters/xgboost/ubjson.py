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


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Read a length. Like every reader, return the value and the position after it."""
    number = _COUNTS[data[at]]
    (size,) = number.unpack_from(data, at + 1)
    if size < 0:
        raise ValueError(f"not UBJSON: a length of {size} at byte {at}")
    return size, at + 1 + number.size


def _string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _count(data, at)
    if at + size > len(data):
        raise ValueError(f"truncated UBJSON: a string of {size} bytes at byte {at}")
    return data[at : at + size].decode(), at + size


def _array(data: bytes, at: int) -> tuple[Any, int]:
    kind = None
    if data[at] == _TYPE:
        kind, at = data[at + 1], at + 2
        if data[at] != _COUNT:
            raise ValueError(f"not UBJSON: a type without a count at byte {at}")
    items = []
    if data[at] != _COUNT:
        while data[at] != _ARRAY_ENDS:
            item, at = _READERS[data[at]](data, at + 1)
            items.append(item)
        return items, at + 1
    size, at = _count(data, at + 1)
    if kind in _DTYPES:
        dtype = _DTYPES[kind]
        return np.frombuffer(data, dtype, size, at), at + size * dtype.itemsize
    if size > len(data):  # typed nulls take no bytes
        raise ValueError(f"not UBJSON: {size} items at byte {at}")
    for _ in range(size):
        item, at = _READERS[data[at]](data, at + 1) if kind is None else _READERS[kind](data, at)
        items.append(item)
    return items, at


def _object(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    entries = {}
    while data[at] != _OBJECT_ENDS:
        name, at = _string(data, at)
        if name in entries:  # one reader may take the first value, another the last
            raise ValueError(f"not UBJSON as XGBoost writes it: {name!r} occurs twice in one object")
        entries[name], at = _READERS[data[at]](data, at + 1)
    return entries, at + 1


def _number(kind: int) -> Callable[[bytes, int], tuple[Any, int]]:
    number = _NUMBERS[kind]
    return lambda data, at: (number.unpack_from(data, at)[0], at + number.size)


def _constant(value: bool | None) -> Callable[[bytes, int], tuple[Any, int]]:
    return lambda data, at: (value, at)


_READERS = {
    **{kind: _number(kind) for kind in _NUMBERS},
    **{ord(marker): _constant(value) for marker, value in (("T", True), ("F", False), ("Z", None))},
    **{ord("S"): _string, ord("["): _array, ord("{"): _object},
}
