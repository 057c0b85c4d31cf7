"""Reader of the UBJSON that XGBoost writes: numeric arrays come back as numpy arrays, without a copy in Python."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_SCALARS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}


def read(data: bytes) -> Any:
    """Parse one UBJSON document.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    object
        Dictionaries, lists, strings, numbers; arrays of one numeric type as arrays in native byte order.

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
        return _value(data, 1, chr(data[0]))[0]
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not UBJSON, or truncated: {error}") from error


def _value(data: bytes, at: int, kind: str) -> tuple[Any, int]:
    if kind in _SCALARS:
        return _scalar(data, at, kind)
    if kind == "S":
        return _string(data, at)
    if kind in "TFZ":
        return {"T": True, "F": False, "Z": None}[kind], at
    if kind == "[":
        return _array(data, at)
    if kind == "{":
        return _object(data, at)
    raise ValueError(f"not UBJSON: unknown marker {kind!r} at byte {at - 1}")


def _scalar(data: bytes, at: int, kind: str) -> tuple[Any, int]:
    dtype = np.dtype(_SCALARS[kind])
    return np.frombuffer(data, dtype, 1, at)[0].item(), at + dtype.itemsize


def _string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _scalar(data, at + 1, chr(data[at]))
    return data[at : at + size].decode(), at + size


def _array(data: bytes, at: int) -> tuple[Any, int]:
    kind = None
    if chr(data[at]) == "$":
        kind, at = chr(data[at + 1]), at + 2
    if chr(data[at]) == "#":
        size, at = _scalar(data, at + 2, chr(data[at + 1]))
        if kind in _SCALARS:
            dtype = np.dtype(_SCALARS[kind])
            return np.frombuffer(data, dtype, size, at).astype(dtype.newbyteorder("=")), at + size * dtype.itemsize
        items = []
        for _ in range(size):
            item, at = _value(data, at if kind else at + 1, kind or chr(data[at]))
            items.append(item)
        return items, at
    items = []
    while chr(data[at]) != "]":
        item, at = _value(data, at + 1, chr(data[at]))
        items.append(item)
    return items, at + 1


def _object(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    found = {}
    while chr(data[at]) != "}":
        name, at = _string(data, at)
        found[name], at = _value(data, at + 1, chr(data[at]))
    return found, at + 1
