"""Facts and arrays as sealed bytes, without pickles and without compression: node sums and histories are stored so.

The bytes are a line of text with the kind of the contents and the version of their format; the BLAKE3 digest of all
other bytes; the length of the head; the head, one line of JSON with plain facts and the name, type, stored type and
shape of each array; and the arrays, one after the other. Floating numbers that are all whole, such as counts, are
stored as integers in as few bytes as hold them.
"""

from __future__ import annotations

import json
import math
import os
import re
from functools import lru_cache
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

SEAL, LENGTH = 32, 8
"""Numbers of bytes of the digest and of the length of the head."""
_DTYPE = re.compile(r"[<>|=]?[fiub][0-9]{1,2}")
_FIRST_LINE = re.compile(rb"debias ([a-z ]{1,40}), format ([0-9]{1,9})\n")
_LONGEST_LINE = 70
_NARROW = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"))


class Damage(Exception):  # noqa: N818
    """A description of what is wrong with stored bytes."""


class Foreign(Damage):
    """The bytes were not written by :func:`seal`, or are of another kind."""


class OtherVersion(Damage):
    """The bytes have another version of their format, which is the only argument."""


def seal(kind: str, version: int, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return facts and arrays as bytes.

    Parameters
    ----------
    kind : str
        What they are, in small letters.
    version : int
        Version of the format of this kind: which facts and arrays there are, and what they mean.
    facts : mapping of str to plain value
        What JSON can hold.
    arrays : mapping of str to array
        Arrays of numbers or booleans.
    """
    entries, pieces = [], []
    for name, array in arrays.items():
        array = np.asarray(array)
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        stored = _narrowed(array)
        entries.append([name, array.dtype.str, stored.dtype.str, list(array.shape)])
        pieces.append(stored.tobytes())
    head = json.dumps([facts, entries]).encode()
    line = f"debias {kind}, format {version}\n".encode()
    body = b"".join([len(head).to_bytes(LENGTH, "little"), head, *pieces])
    return line + _digest(line, body) + body


class Sealed:
    """Sealed bytes of which the head was read.

    Its facts and forms are not verified before :meth:`arrays` has compared the digest, so a reader can refuse arrays
    that it does not expect before memory is taken for them.

    Parameters
    ----------
    file : binary file
        It is read from its present position to its end.
    kind : str
    version : int
        The version that the reader knows.

    Attributes
    ----------
    facts : dict
    forms : dict of str to (dtype, tuple of int)
        Types and shapes of the arrays by name.

    Raises
    ------
    Foreign
        The bytes are of another kind, or were not written by :func:`seal`.
    OtherVersion
    Damage
        The head is not complete, or says that the arrays are longer or shorter than they are.
    """

    def __init__(self, file: IO[bytes], kind: str, version: int) -> None:
        self._file, self._line = file, file.readline(_LONGEST_LINE)
        found = _FIRST_LINE.fullmatch(self._line)
        if found is None or found[1].decode() != kind:
            raise Foreign(f"its first line does not say that it holds {kind}")
        if int(found[2]) != version:
            raise OtherVersion(int(found[2]))
        self._stored_digest, length = file.read(SEAL), file.read(LENGTH)
        begin, size = file.tell(), int.from_bytes(length, "little")
        n_left = file.seek(0, os.SEEK_END) - begin - size
        if len(length) < LENGTH or n_left < 0:
            raise Damage("it is not complete")
        file.seek(begin)
        head = file.read(size)
        self._begun = length + head
        try:
            self.facts, entries = json.loads(head)
            self._entries = {str(name): _form(*form) for name, *form in entries}
        except (ValueError, TypeError, RecursionError) as error:  # a forged head: its digest may be right
            raise Damage(f"its head cannot be read: {error}") from None
        if not isinstance(self.facts, dict) or len(self._entries) != len(entries):
            raise Damage("its head is not one that debias writes")
        if n_left != sum(_n_bytes(stored, shape) for _, stored, shape in self._entries.values()):
            raise Damage("its arrays are longer or shorter than its head says")
        self.forms = {name: (dtype, shape) for name, (dtype, _, shape) in self._entries.items()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays.

        Raises
        ------
        Damage
            The digest does not fit the contents.
        """
        data = self._file.read()
        if _digest(self._line, self._begun, data) != self._stored_digest:
            raise Damage("its digest does not fit its contents")
        arrays, position = {}, 0
        for name, (dtype, stored, shape) in self._entries.items():
            size = _n_bytes(stored, shape)
            array = np.frombuffer(data, stored, size // stored.itemsize, position)
            arrays[name], position = array.reshape(shape).astype(dtype), position + size
        return arrays


def unseal(data: Any, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the facts and arrays that :func:`seal` stored.

    Raises
    ------
    Damage
        As for :class:`Sealed`.
    """
    if not isinstance(data, bytes):
        raise Foreign("it is not bytes")
    sealed = Sealed(BytesIO(data), kind, version)
    return sealed.facts, sealed.arrays()


def _digest(*pieces: bytes) -> bytes:
    digest = blake3()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


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


def _form(dtype: Any, stored: Any, shape: Any) -> tuple[np.dtype[Any], np.dtype[Any], tuple[int, ...]]:
    """Return the type, the stored type and the shape of an array, as its entry in the head says."""
    for name in (dtype, stored):
        if not isinstance(name, str):
            raise ValueError(f"it has an array of type {name}")
    kinds = _dtypes(dtype, stored)
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 8:
        raise ValueError(f"it has an array of shape {shape}")
    return *kinds, tuple(shape)


@lru_cache(maxsize=100)
def _dtypes(dtype: str, stored: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    for name in (dtype, stored):  # NumPy would read any text as Python
        if not _DTYPE.fullmatch(name):
            raise ValueError(f"it has an array of type {name}")
    kinds = np.dtype(dtype), np.dtype(stored)
    # Narrowing is by a factor of 8 at most, so no forged head makes a small file into large arrays.
    if kinds[0] != kinds[1] and (kinds[0].itemsize > 8 or kinds[1] not in _NARROW):
        raise ValueError(f"it has an array of type {dtype} stored as {stored}")
    return kinds


def _n_bytes(stored: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return math.prod(shape) * stored.itemsize
