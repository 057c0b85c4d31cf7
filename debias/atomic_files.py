"""Files that are written completely or not at all: a new file replaces the old one only when it is complete on disk."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator


def write_text(path: Any, text: str) -> None:
    """Write a text in UTF-8, with line feeds as line ends. Characters that UTF-8 cannot encode are escaped.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced, but a database is not. If anything fails, it stays as it was.
    text : str

    Raises
    ------
    OSError
        The file cannot be written. If its folder does not exist, a FileNotFoundError says so.
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def written(path: Any, text: str, end: str = "") -> str:
    """Return a text, and write it to a file with `end` after it, unless `path` is None; see :func:`write_text`."""
    if path is not None:
        write_text(path, text + end)
    return text


def append_text(path: Any, text: str) -> None:
    """Append a text to a file. If that fails, the file is cut back to its old length."""
    refuse_missing_folder(path)
    with _named(path), open(path, "ab", buffering=0) as file:
        end = file.seek(0, os.SEEK_END) if file.seekable() else None
        rest = text.encode("utf-8", "backslashreplace")
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
    """Open a binary file that replaces `path` when everything is written.

    The new file is written in the same folder, with the rights of the one it replaces, flushed to the disk, and
    renamed. If an error is raised before that, the old file stays as it was and the new one is removed. On Linux the
    new file has no name until it is complete, so none remains of a process that is killed. Links are followed. A
    terminal, a pipe or /dev/stdout is written to directly.

    Parameters
    ----------
    path : str or Path

    Yields
    ------
    binary file

    Raises
    ------
    OSError
        The file cannot be written. If its folder does not exist, a FileNotFoundError says so.
    """
    refuse_missing_folder(path)
    with _named(path):
        if not _is_regular_file(Path(path)):
            with open(path, "wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        _refuse_database(target)
        temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
        rights = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        try:
            number = _without_name(target.parent)
            has_name = number is None
            if number is None:
                number = os.open(
                    temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, 0o666 if rights is None else 0o600
                )
            with open(number, "wb") as file:
                if rights is not None and hasattr(os, "fchmod"):  # before anything is in it
                    os.fchmod(file.fileno(), rights)
                yield file
                file.flush()
                os.fsync(file.fileno())
                if not has_name:
                    os.link(f"/proc/self/fd/{file.fileno()}", temporary, src_dir_fd=file.fileno(), follow_symlinks=True)
            os.replace(temporary, target)
        except BaseException as error:
            with suppress(OSError):
                temporary.unlink()
            if isinstance(error, OSError) and error.filename == str(temporary):  # name the file the user knows
                raise type(error)(error.errno, error.strerror, str(path)) from None
            raise


def refuse_missing_folder(path: Any) -> None:
    """Raise a FileNotFoundError that says what to do if a file cannot be written because it has no folder."""
    folder = Path(os.path.realpath(path)).parent
    if not folder.exists():
        raise FileNotFoundError(
            errno.ENOENT, f"the folder {folder} does not exist: make it, or choose another path", str(path)
        )


_BINARY = getattr(os, "O_BINARY", 0)
_DATABASE = b"SQLite format 3\0"
"""What a history or a checkpoint begins with."""


def _refuse_database(target: Path) -> None:
    """Refuse to replace a history, whose path stands in the place of that of a report by a slip."""
    if not target.is_file():
        return
    with suppress(PermissionError), open(target, "rb") as file:
        if file.read(len(_DATABASE)) == _DATABASE:
            raise FileExistsError(
                errno.EEXIST,
                "this is a database, such as a history of debias, and is not replaced: choose another path",
                str(target),
            )


def _without_name(folder: Path) -> int | None:
    """Return the descriptor of a new file that has no name yet; None where the system or the disk has no such files."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):
            return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    return None


@contextmanager
def _named(path: Any) -> Iterator[None]:
    """Name the file in errors that have no name, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def _is_regular_file(path: Path) -> bool:
    """Return whether a path is a file on a disk, or does not exist yet."""
    return not path.exists() or (path.is_file() and path.absolute().parts[1:2] not in (("dev",), ("proc",)))
