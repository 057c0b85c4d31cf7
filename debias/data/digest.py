"""Digests of data, models and settings: equal content has an equal digest, also in another process."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

PLAIN = (str, bytes, int, float, complex, type(None), np.generic)


def digest_of(*parts: Any) -> str:
    """Return a digest of data, models and settings. The same content gives the same digest in another process.

    Parameters
    ----------
    *parts
        Arrays; tables and columns of pandas, polars and Arrow; dataclasses, mappings and sequences; estimators (by
        class and parameters); numbers and text; and other objects that can be pickled.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> import numpy as np
    >>> digest_of(np.arange(3), "mdi") == digest_of(np.arange(3), "mdi")
    True
    >>> digest_of(np.arange(3)) == digest_of(np.arange(3.0))
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        _add(digest, part)
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    digest.update(f"<{type(part).__qualname__}>".encode())
    if isinstance(part, np.ndarray) and part.dtype.kind != "O":
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(part, np.ndarray):
        digest.update(f"{part.shape}{part.tolist()!r}".encode())
    elif hasattr(part, "iloc"):
        _add_pandas(digest, part)
    elif is_dataclass(part) and not isinstance(part, type):
        for field in fields(part):
            digest.update(field.name.encode())
            _add(digest, getattr(part, field.name))
    elif isinstance(part, Mapping):
        for key in sorted(part, key=repr):
            _add(digest, key)
            _add(digest, part[key])
    elif isinstance(part, (list, tuple, set, frozenset)):
        for item in part if isinstance(part, (list, tuple)) else sorted(part, key=repr):
            _add(digest, item)
    elif hasattr(part, "get_params"):
        _add(digest, part.get_params(deep=False))
    elif callable(part):
        digest.update(f"{getattr(part, '__module__', '')}.{getattr(part, '__qualname__', '')}".encode())
    elif isinstance(part, PLAIN):
        digest.update(repr(part).encode())
    elif (columns := _frame_columns(part)) is not None:
        _add(digest, columns)
    else:  # `repr` of other objects may show an address, or only some of their rows
        digest.update(pickle.dumps(part, protocol=4))


def _frame_columns(part: Any) -> dict[str, Any] | None:
    """Return the columns of a polars or Arrow table or column, by name; None if `part` is neither."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(part, pass_through=True, allow_series=True)
    if isinstance(frame, nw.Series):
        frame = frame.to_frame()
    if not isinstance(frame, nw.DataFrame):
        return None
    return {name: (str(frame[name].dtype), frame[name].to_numpy()) for name in frame.columns}


def _add_pandas(digest: Any, part: Any) -> None:
    import pandas as pd

    columns = part.items() if isinstance(part, pd.DataFrame) else [(part.name, part)]
    for name, column in columns:
        digest.update(f"{name!r}{column.dtype!r}".encode())
        if isinstance(column.dtype, pd.CategoricalDtype):
            _add(digest, column.cat.categories.tolist())
            _add(digest, column.cat.codes.to_numpy())
        else:
            _add(digest, column.to_numpy())
