"""Files that are written whole or not at all: beside the old one, which is replaced once all is on the disk."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator


def write_text(path: Any, text: str) -> None:
    """Write a text in UTF-8, lines ended by a line feed; what UTF-8 cannot hold is escaped.

    Parameters
    ----------
    path : str or Path
        An old file is replaced; if anything fails, it stays as it was.
    text : str

    Raises
    ------
    OSError
        The file cannot be written.
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def append_text(path: Any, text: str) -> None:
    """Add a text at the end of a file; if that fails, the file ends where it did."""
    with open(path, "ab", buffering=0) as file:
        end, rest = file.seek(0, os.SEEK_END) if file.seekable() else None, text.encode("utf-8", "backslashreplace")
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except BaseException:
            if end is not None:
                with suppress(OSError):
                    file.truncate(end)
            raise


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """Open a file for bytes that takes the place of `path` when all is written.

    It is written beside it under another name, flushed to the disk, and renamed. Whatever is raised before, the old
    file stays as it was, and nothing remains of the new one. A link is followed. What is no plain file (a terminal, a
    pipe, /dev/stdout) is written to directly.
    """
    if _is_no_plain_file(Path(path)):
        with open(path, "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(beside, target.stat().st_mode & 0o7777)
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.filename == str(beside):  # the user knows no such file
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def _is_no_plain_file(path: Path) -> bool:
    return path.exists() and (not path.is_file() or path.absolute().parts[1:2] in (("dev",), ("proc",)))
