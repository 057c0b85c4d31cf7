"""Finished replicates in a file, so that a run that was killed goes on where it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

_TABLE = """
    CREATE TABLE IF NOT EXISTS replicate (
        fingerprint TEXT, number INTEGER, shape TEXT, bytes BLOB, PRIMARY KEY (fingerprint, number)
    )
"""


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
        The file cannot be opened, is no checkpoint, or another process is writing to it.
    """

    def __init__(self, path: str | Path, fingerprint: str) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        try:
            self._file = sqlite3.connect(self.path, isolation_level=None, timeout=1.0)
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")  # one writer, for as long as the file is open
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute(_TABLE)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            raise RowsError(
                f"checkpoint: {self.path} cannot be used ({error}). Another run may be writing to it, or it is no "
                "checkpoint: name another file"
            ) from None

    def read(self) -> dict[int, NDArray[np.float64]]:
        """Return the replicates of this fingerprint, by number."""
        rows = self._file.execute(
            "SELECT number, shape, bytes FROM replicate WHERE fingerprint = ?", (self.fingerprint,)
        )
        return {
            number: np.frombuffer(values, dtype="<f8").reshape([int(size) for size in shape.split("x") if size])
            for number, shape, values in rows
        }

    def write(self, number: int, values: NDArray[np.float64]) -> None:
        """Keep a replicate; it is on the disk, and whole, when this returns."""
        shape = "x".join(map(str, values.shape))
        self._file.execute(
            "INSERT OR REPLACE INTO replicate VALUES (?, ?, ?, ?)",
            (self.fingerprint, number, shape, values.astype("<f8").tobytes()),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
