"""The zip file of a MOJO: members read within limits, the lines of ``model.ini``, and the labels of columns."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from typing import IO

INFO = "model.ini"
"""The member by which a MOJO is recognised."""
DETAILS = "experimental/modelDetails.json"
LEAST_READ, TIMES_THE_FILE = 4_000_000, 25
"""Most bytes that are unpacked: so many, and so many times the size of the file. Real files unpack to about three."""
MOST_COLUMNS = 65_535
"""Trees number columns with 16 bits, of which the largest number marks a leaf."""
_LABEL = re.compile(r'(?:"((?:[^"]|"")*)"|([^\r\n]*))(?:\r\n|\r|\n|\Z)')
_ESCAPED = {"n": "\n", "r": "\r", "\\": "\\"}


class Archive:
    """The members of a MOJO, in a zip file or in a directory that it was unpacked to.

    Parameters
    ----------
    path : Path

    Raises
    ------
    UnsupportedModelError
        The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._zip = path, None
        if path.is_dir():
            self.names = {each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()}
            self._left = LEAST_READ + sum((path / name).stat().st_size for name in self.names)
            return
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise damaged(f"it is no whole zip file ({error})") from error
        self.names = set(self._zip.namelist())
        self._left = LEAST_READ + TIMES_THE_FILE * path.stat().st_size

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        if self._zip is not None:
            self._zip.close()

    def blob(self, name: str) -> bytes:
        """Return the content of a member."""
        if name not in self.names:
            raise damaged(f"it has no {name}")
        try:
            with self._open(name) as member:
                content = member.read(self._left + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise damaged(f"{name} in it cannot be read ({error})") from error
        self._left -= len(content)
        if self._left < 0:
            raise UnsupportedModelError(
                f"this MOJO unpacks to more than {TIMES_THE_FILE} times its size, which no MOJO of H2O does"
            )
        return content

    def text(self, name: str) -> str:
        """Return the content of a member as text."""
        try:
            return self.blob(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise damaged(f"{name} in it is no text ({error})") from error

    def details(self) -> dict[str, Any]:
        """Return what ``experimental/modelDetails.json`` says of the training; empty if the file has none."""
        if DETAILS not in self.names:
            return {}
        try:
            found = json.loads(self.text(DETAILS))
        except ValueError as error:
            raise damaged(f"{DETAILS} in it is no JSON ({error})") from error
        return found if isinstance(found, dict) else {}

    def _open(self, name: str) -> IO[bytes]:
        return open(self._path / name, "rb") if self._zip is None else self._zip.open(name)


class Info:
    """The three parts of ``model.ini``: values by name, the columns, and the files of labels.

    Parameters
    ----------
    text : str

    Raises
    ------
    UnsupportedModelError
        A part is missing, or does not have the stated length.
    """

    def __init__(self, text: str) -> None:
        part, self.values, self.columns = "", dict[str, str](), list[str]()
        self.label_files: dict[int, tuple[int, str]] = {}
        for line in map(str.strip, re.split(r"\r\n|\r|\n", text)):
            if line in ("[info]", "[columns]", "[domains]"):
                part = line
            elif not line or line.startswith("#"):
                continue
            elif part == "[info]":
                name, _, value = line.partition("=")
                self.values[name.strip()] = value.strip()
            elif part == "[columns]":
                self.columns.append(line)
            elif part == "[domains]":
                found = re.fullmatch(r"(\d{1,9}):\s*(\d{1,9}) ([\w.]+)", line)
                if found is None:
                    raise damaged(f"{INFO} has the line {line[:60]!r}")
                self.label_files[int(found[1])] = (int(found[2]), f"domains/{found[3]}")
        n_columns = self.whole("n_columns")
        if not 0 <= n_columns <= MOST_COLUMNS or len(self.columns) != n_columns:
            raise damaged(f"{INFO} lists {len(self.columns)} columns, and states {n_columns}")

    def __contains__(self, name: str) -> bool:
        return self.values.get(name, "null") != "null"

    def word(self, name: str) -> str:
        """Return a value as it is written."""
        if name not in self:
            raise damaged(f"{INFO} has no {name}")
        return self.values[name]

    def whole(self, name: str) -> int:
        """Return a whole number."""
        return int(self.number(name, whole=True))

    def number(self, name: str, whole: bool = False) -> float:
        """Return a number."""
        try:
            return int(self.word(name)[:20]) if whole else float(self.word(name))
        except ValueError:
            raise damaged(f"{INFO} has {name} = {self.values[name][:60]!r}, which is no number") from None

    def true(self, name: str) -> bool:
        """Whether a value is ``true``; a value that is missing is not."""
        return self.values.get(name) == "true"

    def numbers(self, name: str) -> list[float]:
        """Return the numbers in brackets."""
        try:
            return [float(each) for each in self.word(name).strip("[]").split(",") if each.strip()]
        except ValueError:
            raise damaged(f"{INFO} has {name} = {self.values[name][:60]!r}, which are no numbers") from None


def labels_of(text: str, n_labels: int, escaped: bool) -> list[str]:
    r"""Return the labels in a file of a column, one in a line.

    Parameters
    ----------
    text : str
    n_labels : int
        How many there must be.
    escaped : bool
        Whether ``\n``, ``\r`` and ``\\`` stand for ends of lines and a backslash. Older files may have labels in
        quotes.
    """
    if escaped:
        lines = re.split(r"\r\n|\r|\n", text)
        labels = [re.sub(r"\\([nr\\])", lambda each: _ESCAPED[each[1]], line) for line in lines]
    else:
        found = [match.groups() for match in _LABEL.finditer(text)]
        labels = [plain if quoted is None else quoted.replace('""', '"') for quoted, plain in found]
    labels = labels[:-1]  # the last one is what follows the last end of a line
    if len(labels) != n_labels:
        raise damaged(f"a column has {len(labels)} labels, and {n_labels} are stated")
    return labels


def damaged(why: str) -> UnsupportedModelError:
    """Return the error of a file that H2O did not write like this."""
    return UnsupportedModelError(f"this MOJO is damaged: {why}")
