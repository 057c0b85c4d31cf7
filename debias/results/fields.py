"""Fields of results in JSON: each is checked for type and size when it is read."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Reader = Callable[[Any, str], Any]

SCHEMA_VERSION = 1
DEEPEST = 50
"""Fields without a fixed form (details, settings, provenance) may be nested to this many levels."""
AGREE = 1e-9
"""Tolerance for numbers computed from others: another version of NumPy may add in another order."""


class Malformed(DebiasError):
    """JSON that is not what a reader expects. What the JSON should be is said by who catches it."""


def parsed(text: str | bytes) -> dict[str, Any]:
    """Return the entries of a JSON object."""
    try:
        plain = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_each_once)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except (ValueError, TypeError) as error:  # not JSON, not text, or a number of thousands of digits
        may_be_name = isinstance(text, str) and len(text) < 200 and not text.lstrip().startswith(("{", "["))
        no_file = ", and there is no file of this name" if may_be_name else ""
        raise Malformed(f"it cannot be read as JSON{no_file}: {error}") from None
    if not isinstance(plain, dict):
        raise Malformed("it is not a JSON object")
    return plain


def without_version(plain: dict[str, Any], what: str) -> dict[str, Any]:
    """Return an object without its schema version; raise unless that is the one that is read. `what`: "an audit"."""
    version = plain.get("schema_version")
    if version is None:
        raise Malformed("it has no schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise Malformed(f"its schema_version is {value_text(version)}")
    if version != SCHEMA_VERSION:
        how = (
            "A newer debias wrote it: update debias"
            if version > SCHEMA_VERSION
            else "An older debias wrote it: write it again with this version, from the old model and its rows"
        )
        raise DebiasError(
            f"{what} of schema version {version}, but this debias reads schema version {SCHEMA_VERSION}. {how}"
        )
    return {name: value for name, value in plain.items() if name != "schema_version"}


def record(
    plain: dict[str, Any], readers: Mapping[str, Reader], at: str, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the fields of an object, each read by its reader; no other field may be there, and none may be missing."""
    require(plain, tuple(name for name in readers if name not in optional), at)
    refuse_unknown(plain, tuple(readers), at)
    return {name: readers[name](value, at + name) for name, value in plain.items()}


def or_none(read: Reader) -> Reader:
    """Return a reader that also takes null."""
    return lambda value, at: None if value is None else read(value, at)


def text_of(value: Any, at: str) -> str:
    """Read text."""
    if not isinstance(value, str):
        raise Malformed(f"{at} is not text: {value_text(value)}")
    return value


def texts(value: Any, at: str) -> tuple[str, ...]:
    """Read a list of texts."""
    return tuple(text_of(item, at) for item in list_of(value, at))


def list_of(value: Any, at: str) -> list[Any]:
    """Read a list, whatever is in it."""
    if not isinstance(value, list):
        raise Malformed(f"{at} is not a list: {value_text(value)}")
    return value


def mapping(value: Any, at: str) -> dict[str, Any]:
    """Read an object, whatever is in it."""
    if not isinstance(value, dict):
        raise Malformed(f"{at} is not a JSON object: {value_text(value)}")
    return value


def tree(value: Any, at: str) -> dict[str, Any]:
    """Return an object of any form, but with finite numbers and limited nesting."""
    level: list[Any] = [mapping(value, at)]
    for _ in range(DEEPEST):
        below = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
        if not all(is_finite(item) for item in below if isinstance(item, (int, float))):
            raise Malformed(f"{at} has numbers that are not finite")
        level = [item for item in below if isinstance(item, (dict, list))]
        if not level:
            return dict(value)
    raise Malformed(f"{at} is nested too deeply")


def is_finite(number: float) -> bool:
    """Return whether a number of any size is finite."""
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def or_missing(value: Any, at: str) -> NDArray[np.float64]:
    """Read a list of finite numbers, with NaN for null."""
    return numbers([math.nan if item is None else item for item in list_of(value, at)], at, may_miss=True)


def number(value: Any, at: str) -> float:
    """Read a finite number."""
    return float(numbers([value], at)[0])


def numbers(value: Any, at: str, *, may_miss: bool = False) -> NDArray[np.float64]:
    """Read a list of finite numbers; they may be NaN if they `may_miss`."""
    if not set(map(type, list_of(value, at))) <= {int, float}:
        raise Malformed(f"{at} is not a list of numbers")
    try:
        array = np.array(value, dtype=np.float64)
    except OverflowError:
        raise Malformed(f"{at} has numbers that are not finite") from None
    if np.isinf(array).any() or (np.isnan(array).any() and not may_miss):
        raise Malformed(f"{at} has numbers that are not finite")
    return array


def whole(value: Any, at: str) -> int:
    """Read a whole number of at least 0."""
    return int(whole_numbers([value], at)[0])


def whole_numbers(value: Any, at: str) -> NDArray[np.int64]:
    """Read a list of whole numbers of at least 0."""
    if not set(map(type, list_of(value, at))) <= {int} or any(not 0 <= item < 2**63 for item in value):
        raise Malformed(f"{at} is not a whole number of at least 0, or a list of them")
    return np.array(value, dtype=np.int64)


def yes_or_no(value: Any, at: str) -> NDArray[np.bool_]:
    """Read a list of true and false."""
    if not set(map(type, list_of(value, at))) <= {bool}:
        raise Malformed(f"{at} is not a list of true and false")
    return np.array(value, dtype=bool)


def number_or_missing(value: Any, at: str) -> float:
    """Read one number, or null as NaN."""
    return float(or_missing([value], at)[0])


def flag(value: Any, at: str) -> bool:
    """Read one yes or no."""
    return bool(yes_or_no([value], at)[0])


def table(value: Any, at: str) -> NDArray[np.float64]:
    """Read a list of lists of numbers, all of one length."""
    rows = [numbers(row, at) for row in list_of(value, at)]
    if len({row.size for row in rows}) > 1:
        raise Malformed(f"{at} has rows of different lengths")
    return np.array(rows, dtype=np.float64)


def require(plain: dict[str, Any], names: tuple[str, ...], at: str) -> None:
    """Raise unless all fields are there."""
    missing = [name for name in names if name not in plain]
    if missing:
        raise Malformed(f"it has no {at}{missing[0]}")


def refuse_unknown(plain: dict[str, Any], names: tuple[str, ...], at: str) -> None:
    """Raise if there are other fields."""
    unknown = [name for name in plain if name not in names]
    if unknown:
        raise Malformed(f"{at}{unknown[0]} is not a field of schema version {SCHEMA_VERSION}")


def agree(written: Any, follows: Any) -> bool:
    """Return whether numbers that were written are those that follow from the others."""
    if written is None or follows is None:
        return written is follows
    written, follows = (value if isinstance(value, list) else [value] for value in (written, follows))
    numbers = set(map(type, written)) <= {int, float} and len(written) == len(follows)
    return numbers and all(
        is_finite(one) and abs(one - other) <= AGREE for one, other in zip(written, follows, strict=True)
    )


def _refuse_constant(name: str) -> None:
    raise Malformed(f"it holds {name}, which is not JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if (twice := repeated([name for name, _ in pairs])) is not None:
        raise Malformed(f"it has {twice!r} twice in one object")
    return entries


def repeated(names: Sequence[str]) -> str | None:
    """Return the first name that is there twice or more; None if all are different."""
    return next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None


def value_text(value: Any) -> str:
    """Return a value for a message."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def plain_numbers(values: NDArray[Any]) -> list[Any]:
    """Return an array as a list for JSON, with None for NaN and infinity."""
    if values.dtype.kind == "b":
        return list(map(bool, values))
    return [float(value) if np.isfinite(value) else None for value in values]
