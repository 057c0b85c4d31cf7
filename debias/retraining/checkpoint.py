"""Checkpoints: finished replicates in a file, so that a run that was killed continues where it stopped.

Each replicate is stored with a digest of its values. A damaged replicate is left out and drawn again. A file that
sqlite cannot read, or that holds something else, is refused.
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
"""The current table, and the table of earlier versions, whose replicates had no digest and are drawn again."""
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class Checkpoint:
    """A sqlite3 file with one writer. It may hold runs with several fingerprints.

    Parameters
    ----------
    path : str or Path
    fingerprint : str
        Identifies everything that the results depend on.

    Raises
    ------
    RowsError
        The file cannot be opened, is not a checkpoint, is damaged, or another process is writing to it. Every method
        may raise it.
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
        """Return the replicates of this fingerprint by number; damaged replicates are counted and left out."""
        with self._named_errors():
            rows = self._file.execute(
                "SELECT number, shape, bytes, sha256 FROM sealed_replicate WHERE fingerprint = ?", (self.fingerprint,)
            ).fetchall()
        replicates = {}
        for number, shape, values, digest in rows:
            if digest == self._digest(number, shape, values).encode():
                sizes = [int(size) for size in shape.decode().split("x") if size]
                replicates[number] = np.frombuffer(values, dtype="<f8").reshape(sizes)
            else:  # it is drawn again, or its number does not belong to this run
                with self._named_errors():
                    self._file.execute(
                        "DELETE FROM sealed_replicate WHERE fingerprint = ? AND number IS ?", (self.fingerprint, number)
                    )
        self.n_damaged = len(rows) - len(replicates)
        return replicates

    def write(self, number: int, values: NDArray[np.float64]) -> None:
        """Store a replicate; it is complete on the disk when this method returns."""
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
        """Create the table in an empty file; refuse a file that is damaged or has other contents."""
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
            raise sqlite3.DatabaseError("its table was not made by debias")
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
                remedy = "Another run may be writing to it: wait for that run, or pass another file"
            elif type(error) is sqlite3.OperationalError:
                remedy = "Pass a file that can be written, on a disk with free space"
            else:
                remedy = "It is not a checkpoint, or it is damaged: delete the file, or pass another"
            raise RowsError(f"checkpoint: {self.path} cannot be used ({error}). {remedy}") from None
