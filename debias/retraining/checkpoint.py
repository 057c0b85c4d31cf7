"""Finished replicates in a file, so that a run that was killed goes on where it was.

Each has a digest of its values: one that is damaged is left out, and drawn again. A file that sqlite cannot read, or
that holds something else, is refused.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from numpy.typing import NDArray

_TABLE = (
    "CREATE TABLE sealed_replicate "
    "(fingerprint TEXT, number INTEGER, shape TEXT, bytes BLOB, sha256 TEXT, PRIMARY KEY (fingerprint, number))"
)
_OWN_TABLES = (b"sealed_replicate", b"replicate")
"""Today's, and that of earlier versions, whose replicates were not sealed and are drawn again."""
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class Checkpoint:
    """A sqlite3 file with one writer; runs of other fingerprints may be in it too.

    Parameters
    ----------
    path : str or Path
    fingerprint : str
        Names all that the results depend on.

    Raises
    ------
    RowsError
        The file cannot be opened, is no checkpoint or a damaged one, or another process is writing to it. Of every
        method.
    """

    def __init__(self, path: str | Path, fingerprint: str) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        self.n_damaged = 0
        """Number of replicates that :meth:`read` left out."""
        with self._named_errors():
            self._file = sqlite3.connect(self.path, isolation_level=None, timeout=1.0)
        try:
            with self._named_errors():
                self._file.text_factory = bytes  # damaged text is no text
                self._file.execute("PRAGMA trusted_schema=OFF")
                self._file.execute("PRAGMA locking_mode=EXCLUSIVE")  # one writer, for as long as the file is open
                self._file.execute("BEGIN IMMEDIATE")
                self._open_table()
                self._file.execute("COMMIT")
        except BaseException:
            self._file.close()
            raise

    def read(self) -> dict[int, NDArray[np.float64]]:
        """Return the replicates of this fingerprint, by number; those that are damaged are counted and left out."""
        with self._named_errors():
            rows = self._file.execute(
                "SELECT number, shape, bytes, sha256 FROM sealed_replicate WHERE fingerprint = ?", (self.fingerprint,)
            ).fetchall()
        found = {}
        for number, shape, values, digest in rows:
            if digest == self._digest(number, shape, values).encode():
                sizes = [int(size) for size in shape.decode().split("x") if size]
                found[number] = np.frombuffer(values, dtype="<f8").reshape(sizes)
            else:  # it is drawn again, or its number is none of this run's
                with self._named_errors():
                    self._file.execute(
                        "DELETE FROM sealed_replicate WHERE fingerprint = ? AND number IS ?", (self.fingerprint, number)
                    )
        self.n_damaged = len(rows) - len(found)
        return found

    def write(self, number: int, values: NDArray[np.float64]) -> None:
        """Keep a replicate; it is on the disk, and whole, when this returns."""
        shape, data = "x".join(map(str, values.shape)), values.astype("<f8").tobytes()
        row = (self.fingerprint, number, shape, data, self._digest(number, shape.encode(), data))
        with self._named_errors():
            self._file.execute("INSERT OR REPLACE INTO sealed_replicate VALUES (?, ?, ?, ?, ?)", row)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _open_table(self) -> None:
        """Make the table in an empty file; refuse a file that is damaged or has more in it than tables."""
        damage = [text.decode("utf-8", "replace") for (text,) in self._file.execute("PRAGMA quick_check(1)")]
        if damage != ["ok"]:
            raise sqlite3.DatabaseError(damage[0] if damage else "no answer to a check")
        schema = dict(self._file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
        others = self._file.execute("SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone()
        if foreign := [name.decode("utf-8", "replace") for name in schema if name not in _OWN_TABLES]:
            raise sqlite3.DatabaseError(f"it holds the table {foreign[0]!r}, which debias does not make")
        if b"sealed_replicate" not in schema:
            self._file.execute(_TABLE)
        elif schema[b"sealed_replicate"] != _TABLE.encode():
            raise sqlite3.DatabaseError("its table is none that debias made")
        if others != (0,):
            raise sqlite3.DatabaseError("it has triggers or views, which debias does not make")

    def _digest(self, number: Any, shape: Any, values: Any) -> str:
        return sha256(repr((self.fingerprint, number, shape, values)).encode()).hexdigest()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
                what = "Another run may be writing to it: wait for that run, or name another file"
            elif type(error) is sqlite3.OperationalError:
                what = "Name a file that can be written, on a disk with room"
            else:
                what = "It is no checkpoint, or a damaged one: delete the file, or name another"
            raise RowsError(f"checkpoint: {self.path} cannot be used ({error}). {what}") from None
