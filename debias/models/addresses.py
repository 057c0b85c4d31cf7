"""Models that are named by an address, such as ``models:/name/1``: a plugin copies them to a folder."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from debias.errors import DebiasError, UnsupportedModelError
from debias.hooks.registry import plugin_manager

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""How an address begins. A drive of Windows has one letter."""


def is_address(path: str | Path) -> bool:
    """Return whether a text is the address of a model, and no path of a file."""
    return _ADDRESS.match(str(path)) is not None and not Path(path).exists()


@contextmanager
def local_copy(path: str | Path) -> Iterator[Path]:
    """Give the path of a model's file or directory. What has an address is copied first, and deleted afterwards.

    Errors name the address and not the copy.

    Parameters
    ----------
    path : str or Path
        A path, or an address that a plugin knows.

    Raises
    ------
    UnsupportedModelError
        No plugin knows the address, or there is no model.
    """
    if not is_address(path):
        yield Path(path)
        return
    address = str(path)
    with tempfile.TemporaryDirectory(prefix="debias-") as folder:
        copy = plugin_manager().hook.debias_download_model(address=address, folder=Path(folder))
        if copy is None:
            raise UnsupportedModelError(
                f"no plugin knows the address {address}. debias reads models:/ and runs:/ of MLflow, and files"
            )
        try:
            yield copy
        except DebiasError as error:
            raise type(error)(str(error).replace(str(copy), address)) from error
