"""The file of a history: one SQLite database, which is complete after every change or as it was before.

A connection is opened for each use, so a history may be used by several threads and processes. The journal is SQLite's
rollback journal: if a process is killed, the next use of the file rolls its unfinished change back. SQLite lets one
process write at a time. It relies on locks of the file system, which many network drives do not have.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.errors import HistoryError, with_article
from debias.monitor.times import IN_WORDS, Moment
from debias.text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

APPLICATION = 0x64627368
"""What marks the SQLite file as a history of debias."""
VERSION, WITH_WAITING = 4, 3
"""Format of the file. In format 1, parts have no parts of the loss; in formats 1 and 2, periods have no summary beside
their scores, and no rows wait for their responses; in formats 1 to 3, parts have no squares of rows. Such a file gets
format 4 when it is written to."""
PAGE = 16384
"""Bytes of a page: sums of hundreds of kB are read several times as fast as from SQLite's pages of 4096 bytes."""
MOST_PLACES = 500
"""A command has at most so many values: old versions of SQLite take 999."""
_SCHEMA = (
    """CREATE TABLE series (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, label TEXT UNIQUE, added TEXT NOT NULL, trees BLOB NOT NULL
)""",
    """CREATE TABLE periods (
    id INTEGER PRIMARY KEY, series INTEGER NOT NULL REFERENCES series (id), kind TEXT NOT NULL, sorted NOT NULL,
    at TEXT NOT NULL, scores BLOB NOT NULL, UNIQUE (series, at)
)""",
    """CREATE TABLE parts (
    id INTEGER PRIMARY KEY, period INTEGER NOT NULL REFERENCES periods (id), part TEXT NOT NULL,
    n_rows INTEGER NOT NULL, rows_digest TEXT NOT NULL, added TEXT NOT NULL, sums BLOB NOT NULL, UNIQUE (period, part)
)""",
    "CREATE INDEX parts_by_rows ON parts (rows_digest)",
    "CREATE INDEX periods_by_time ON periods (sorted)",
)
_WAITING = """CREATE TABLE waiting (
    id INTEGER PRIMARY KEY, series INTEGER NOT NULL REFERENCES series (id), kind TEXT NOT NULL, sorted NOT NULL,
    at TEXT NOT NULL, part TEXT NOT NULL, n_rows INTEGER NOT NULL, rows_digest TEXT NOT NULL, added TEXT NOT NULL,
    sums BLOB NOT NULL, UNIQUE (series, at, part)
)"""
"""Rows whose responses are not known yet. They stand apart, so that nothing that is about responses reads them."""
_SCHEMAS = {version: {*_SCHEMA, *([_WAITING] if version >= WITH_WAITING else [])} for version in range(1, VERSION + 1)}
"""The tables of the formats that this version reads."""


@dataclass(frozen=True)
class Series:
    """A row of the table of series: one model."""

    id: int
    digest: str
    label: str
    added: str
    given_label: str | None
    """The label that a user gave; None if it is made up."""


@dataclass(frozen=True)
class Period:
    """A row of the table of periods."""

    id: int
    series: int
    kind: str
    key: int | float
    at: str

    @property
    def moment(self) -> Moment:
        """The time of the period."""
        return Moment(self.kind, self.key, self.at)


@dataclass(frozen=True)
class Part:
    """A row of the table of parts, without its sums."""

    id: int
    period: int
    part: str
    n_rows: int
    rows_digest: str
    added: str


@dataclass(frozen=True)
class Waiting:
    """A row of the table of waiting parts, without its sums: rows whose responses are not known yet."""

    id: int
    series: int
    kind: str
    key: int | float
    at: str
    part: str
    n_rows: int
    rows_digest: str
    added: str

    @property
    def moment(self) -> Moment:
        """The time of the period."""
        return Moment(self.kind, self.key, self.at)


class Store:
    """The file of a history.

    Parameters
    ----------
    path : Path
    timeout : float
        Number of seconds to wait while another process writes.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self.timeout = path, timeout

    @classmethod
    def of(cls, path: Any, timeout: Any) -> Store:
        """Return the file of a history at a path, which need not exist.

        Raises
        ------
        HistoryError
            The path is none of a file, its folder does not exist, or `timeout` is not a number of seconds.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout < 1e6:
            raise HistoryError(f"timeout={timeout!r} is not a number of seconds")
        if not isinstance(path, (str, os.PathLike)):
            raise HistoryError(
                f"path is {with_article(type(path).__name__)}: it must be the path of a file, as in "
                "debias.History(model, path)"
            )
        store = cls(Path(path).absolute(), timeout)  # a program may change its folder later
        if "\0" in str(store.path):  # SQLite would use the name before it
            raise HistoryError(f"path={str(path)!r} is not the name of a file")
        if store.path.is_dir():
            raise HistoryError(f"{store.path} is a folder: pass the path of a file in it")
        store.refuse_missing_folder()
        return store

    @property
    def exists(self) -> bool:
        """Whether there is a file with contents: a process that was killed may leave one without."""
        if not self.path.exists():
            return False
        with self._connected(self._mode_to_read) as database:
            return not _is_empty(database)

    def refuse_missing_folder(self) -> None:
        """Raise a HistoryError if the folder of the file does not exist."""
        if not self.path.parent.is_dir():
            raise HistoryError(f"the folder {self.path.parent} does not exist, so {self.path} cannot be a history")

    @contextmanager
    def reading(self) -> Iterator[Content]:
        """Open the file to read a consistent state of it."""
        with self._connected(self._mode_to_read) as database:
            database.execute("BEGIN")
            _refuse_other_files(database, self.path)
            content = Content(database, self.path)
            if database.execute("PRAGMA foreign_key_check").fetchone() is not None:
                raise content.damage("a period without a model, or a part without a period")
            yield content
            database.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Content]:
        """Open the file to change it, and make it if there is none. An error in the block undoes all changes."""
        with self._connected("rwc") as database:
            database.execute(f"PRAGMA page_size = {PAGE}")  # of a new file only
            database.execute("BEGIN IMMEDIATE")  # from here on, other writers wait
            try:
                if _is_empty(database):
                    for command in (*_SCHEMA, _WAITING):
                        database.execute(command)
                    database.execute(f"PRAGMA application_id = {APPLICATION}")
                    database.execute(f"PRAGMA user_version = {VERSION}")
                _refuse_other_files(database, self.path)
                if _version(database) < WITH_WAITING:
                    database.execute(_WAITING)
                if _version(database) < VERSION:
                    database.execute(f"PRAGMA user_version = {VERSION}")
                yield Content(database, self.path)
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    @property
    def _mode_to_read(self) -> str:
        """To roll back what a killed process left unfinished, SQLite must be able to write."""
        return "rw" if os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK) else "ro"

    @contextmanager
    def _connected(self, mode: str) -> Iterator[sqlite3.Connection]:
        self.refuse_missing_folder()
        if mode != "rwc" and not self.path.exists():
            raise HistoryError(f"there is no history {self.path}")
        with self._translated_errors():
            uri = f"{self.path.absolute().as_uri()}?mode={mode}"
            with closing(sqlite3.connect(uri, timeout=self.timeout, isolation_level=None, uri=True)) as database:
                database.execute("PRAGMA trusted_schema = OFF")
                database.execute("PRAGMA foreign_keys = ON")
                database.execute("PRAGMA synchronous = EXTRA")  # what was reported as added survives a loss of power
                yield database

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into those of debias, which say what to do."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the lower byte is the kind of error
            raise HistoryError(f"{self.path} {self._in_words(code, error)}") from None
        except UnicodeDecodeError:  # in its schema, which SQLite quotes in its error
            raise HistoryError(
                f"{self.path} is damaged: it has text that is not UTF-8. Restore a copy of it, or delete it and add "
                "its periods again"
            ) from None
        except OverflowError as error:
            raise HistoryError(f"{self.path} does not take a number of this size: {error}") from None

    def _in_words(self, code: int, error: Exception) -> str:
        known = {
            sqlite3.SQLITE_BUSY: f"is in use: another process has not finished within {self.timeout:g} seconds. "
            "Nothing was changed. Try again, or pass a longer timeout=",
            sqlite3.SQLITE_FULL: "cannot be written, because the disk is full. Nothing was changed",
            sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only. Nothing was changed",
            sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that it is a file, and that you may read and write it "
            "and its folder",
            sqlite3.SQLITE_NOTADB: "is not a history of debias: choose another path",
            sqlite3.SQLITE_CORRUPT: "is damaged: restore a copy of it, or delete it and add its periods again",
            sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
        }
        return known.get(code, "cannot be used") + f" ({error})"


class Content:
    """What is in the file, during one transaction."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self.path = database, path

    def damage(self, what: object) -> HistoryError:
        """Return the error for contents that debias did not write."""
        return HistoryError(
            f"{self.path} is damaged: {what}. Restore a copy of it, or delete it and add its periods again"
        )

    def series(self) -> list[Series]:
        """Return all series, the oldest first. Those without a label are called "model" and their number."""
        rows = self._database.execute("SELECT id, digest, label, added FROM series ORDER BY id").fetchall()
        for row in rows:
            self._refuse_other_types(row, (int,), (str,), (str, type(None)), (str,))
        return [
            Series(number, digest, f"model {k}" if label is None else label, added, label)
            for k, (number, digest, label, added) in enumerate(rows, 1)
        ]

    def periods(self, series: int | None = None, at: str | None = None) -> list[Period]:
        """Return periods sorted by time, then by series: all, or those of a series or of a time."""
        rows = self._rows("id, series, kind, sorted, at", "periods", "sorted, series", series=series, at=at)
        for row in rows:
            self._refuse_other_types(row, (int,), (int,), (str,), (int, float), (str,))
        found = [Period(*row) for row in rows]
        if not all(period.moment.is_sound for period in found) or len({period.kind for period in found}) > 1:
            raise self.damage("the times of its periods do not fit together")
        return found

    def parts(self, period: int | None = None, rows_digest: str | None = None) -> list[Part]:
        """Return parts in the order of their periods and names: all, or those of a period or with some rows."""
        columns = "id, period, part, n_rows, rows_digest, added"
        rows = self._rows(columns, "parts", "period, part", period=period, rows_digest=rows_digest)
        for row in rows:
            self._refuse_other_types(row, (int,), (int,), (str,), (int,), (str,), (str,))
        return [Part(*row) for row in rows]

    def waiting(
        self, series: int | None = None, at: str | None = None, rows_digest: str | None = None
    ) -> list[Waiting]:
        """Return parts whose responses are not known yet, sorted by time, series and part: all, or some."""
        if not self._has_waiting:
            return []
        columns = "id, series, kind, sorted, at, part, n_rows, rows_digest, added"
        rows = self._rows(columns, "waiting", "sorted, series, part", series=series, at=at, rows_digest=rows_digest)
        for row in rows:
            self._refuse_other_types(row, (int,), (int,), (str,), (int, float), (str,), (str,), (int,), (str,), (str,))
        found = [Waiting(*row) for row in rows]
        if not all(each.moment.is_sound for each in found):
            raise self.damage("the times of its periods do not fit together")
        return found

    @property
    def _has_waiting(self) -> bool:
        """Whether the file has the table: one of an earlier format has not, until it is written to."""
        return _version(self._database) >= WITH_WAITING

    def kinds(self) -> set[str]:
        """Return the kinds of the times of all periods."""
        tables = ("periods", "waiting") if self._has_waiting else ("periods",)
        kinds = {
            kind
            for table in tables
            for (kind,) in self._database.execute(f"SELECT DISTINCT kind FROM {table} LIMIT 10").fetchall()
        }
        if not kinds <= IN_WORDS.keys():
            raise self.damage("its periods have times of no kind that debias writes")
        return kinds

    def last_key(self) -> int:
        """Return the largest key of a period; -1 if there is none."""
        last = -1
        for table in ("periods", "waiting") if self._has_waiting else ("periods",):
            (key,) = self._database.execute(f"SELECT MAX(sorted) FROM {table}").fetchone()
            if not isinstance(key, int | None):
                raise self.damage("its labels have no order")
            last = max(last, -1 if key is None else key)
        return last

    def blob(self, table: str, column: str, row: int) -> bytes:
        """Return the bytes in a row of a table."""
        found = self._database.execute(f"SELECT {column} FROM {table} WHERE id = ?", (row,)).fetchone()
        if found is None or not isinstance(found[0], bytes):
            raise self.damage(f"a row of its table of {table} is missing")
        return found[0]

    def blobs(self, table: str, column: str, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the bytes in rows of a table, by their id."""
        found: dict[int, bytes] = {}
        for begin in range(0, len(rows), MOST_PLACES):
            some = rows[begin : begin + MOST_PLACES]
            command = f"SELECT id, {column} FROM {table} WHERE id IN ({', '.join('?' * len(some))})"
            found |= dict(self._database.execute(command, tuple(some)).fetchall())
        if any(type(blob) is not bytes for blob in found.values()) or len(found) < len(rows):
            raise self.damage(f"a row of its table of {table} is missing")
        return found

    def latest_series(self) -> int | None:
        """Return the id of the series with the latest period, or with rows that wait; None if there is neither."""
        for table in ("periods", "waiting") if self._has_waiting else ("periods",):
            command = f"SELECT series FROM {table} ORDER BY sorted DESC, series DESC LIMIT 1"
            found = self._database.execute(command).fetchone()
            if found is not None:
                return int(found[0])
        return None

    def insert(self, table: str, **values: Any) -> int:
        """Insert a row, and return its id."""
        places = ", ".join("?" * len(values))
        command = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})"
        row = self._database.execute(command, tuple(values.values())).lastrowid
        assert row is not None
        return row

    def update(self, table: str, row: int, **values: Any) -> None:
        """Change values of a row."""
        changes = ", ".join(f"{column} = ?" for column in values)
        self._database.execute(f"UPDATE {table} SET {changes} WHERE id = ?", (*values.values(), row))

    def delete(self, table: str, row: int) -> None:
        """Delete a row."""
        self._database.execute(f"DELETE FROM {table} WHERE id = ?", (row,))

    def _rows(self, columns: str, table: str, order: str, **where: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a table with these values; a value of None stands for all."""
        wanted = {column: value for column, value in where.items() if value is not None}
        conditions = " AND ".join(f"{column} = ?" for column in wanted) or "1"
        command = f"SELECT {columns} FROM {table} WHERE {conditions} ORDER BY {order}"
        return self._database.execute(command, tuple(wanted.values())).fetchall()

    def _refuse_other_types(self, row: tuple[Any, ...], *types: tuple[type, ...]) -> None:
        """Refuse a row with values of other types: SQLite stores any type in any column."""
        if not all(type(value) in allowed for value, allowed in zip(row, types, strict=True)):
            raise self.damage(f"it has a row {escaped(repr(row))[:200]}, which debias does not write")


def _version(database: sqlite3.Connection) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return int(version)


def _is_empty(database: sqlite3.Connection) -> bool:
    (n_tables,) = database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    return _version(database) == n_tables == 0


def _refuse_other_files(database: sqlite3.Connection, path: Path) -> None:
    """Raise a HistoryError if this is not a history that this version of debias can read."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    version = _version(database)
    if _is_empty(database):
        raise HistoryError(f"there is no history in {path}: nothing was added to it")
    if application != APPLICATION:
        raise HistoryError(f"{path} is a file of another program, not a history of debias: choose another path")
    if version > VERSION:
        raise HistoryError(
            f"{path} was written by a newer version of debias, in format {version}. This version reads format "
            f"{VERSION}: update debias"
        )
    # A view or a trigger would run SQL of whoever made the file.
    tables = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 10").fetchall()
    if {sql for (sql,) in tables} != _SCHEMAS.get(version):
        raise HistoryError(f"{path} is damaged: it has other tables than a history. Restore a copy of it")
