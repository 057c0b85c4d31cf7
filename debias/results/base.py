"""What every result can do: its table as a data frame and CSV, its JSON, and how a notebook shows it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from debias.atomic_files import written
from debias.errors import DebiasError
from debias.results.draws import read_draws, with_draws, without_draws, write_draws
from debias.results.fields import Malformed, parsed
from debias.text import escaped, json_text, to_csv

if TYPE_CHECKING:
    from typing import Self

    import pandas as pd


class BaseResult:
    """A result: a table of features, and JSON from which it is read without loss.

    A subclass has :meth:`to_frame`, :meth:`to_dict` and ``_read``, which is the opposite of `to_dict`.
    """

    WRITTEN_AS: ClassVar[str]
    """What a file of this kind is called in messages."""

    def to_frame(self) -> pd.DataFrame:
        """Return the table of the result as a data frame."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        raise NotImplementedError

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Self:
        """Return the result from what `to_dict` returned; raise a Malformed or another DebiasError if it is wrong."""
        raise NotImplementedError

    def to_json(self, path: Any = None, indent: int | None = 2) -> str:
        """Return the result as JSON, which :meth:`from_json` reads without loss, and write it to `path` if given.

        Parameters
        ----------
        path : str or Path, optional
        indent : int or None
            Number of spaces of each level; None for one line.

        Returns
        -------
        str
        """
        return written(path, json_text(self.to_dict(), indent=indent, allow_nan=False), end="\n")

    @classmethod
    def from_json(cls, source: Any) -> Self:
        """Return the result that :meth:`to_json` wrote.

        Parameters
        ----------
        source : str, bytes or Path
            The JSON, or the path of a file. A `str` is a path if a file of this name exists.

        Returns
        -------
        The same class.

        Raises
        ------
        DebiasError
            ``to_json`` did not write this, or it has another schema version. The message says what is wrong, and begins
            with the path if it is of a file.
        OSError
            The file cannot be read.
        """
        if not _is_path(source):
            return cls._from_text(source)
        with open(source, "rb") as file:  # a shell may have written UTF-16, which the JSON reader detects
            text = file.read()
        try:
            return cls._from_text(text)
        except DebiasError as error:
            raise DebiasError(f"{os.fspath(source)}: {error}") from None

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """Return the result from the plain Python values that :meth:`to_dict` returned; errors are as for JSON."""
        try:
            return cls._read(plain)
        except Malformed as error:
            raise DebiasError(f"not {cls.WRITTEN_AS}: {error}") from None

    @classmethod
    def _from_text(cls, text: str | bytes) -> Self:
        try:
            plain = parsed(text)
        except Malformed as error:
            raise DebiasError(f"not {cls.WRITTEN_AS}: {error}") from None
        return cls.from_dict(plain)

    def to_csv(self, path: Any = None) -> str:
        """Return the table as CSV, and write it to `path` if that is not None.

        The file is safe to open in a spreadsheet: a name that looks like a formula gets an apostrophe in front, and
        invisible characters are escaped. Numbers are unchanged. :meth:`to_frame` has the original names. A file may be
        read without the result that it is from, so what is not known of all features has a column in it.
        """
        frame = self.to_frame()
        for name, text in reversed(self._reservations().items()):
            frame.insert(list(frame.columns).index("verdict") + 1, name, text)
        return written(path, to_csv(frame))

    def _reservations(self) -> dict[str, str]:
        """Return why verdicts are missing or hold only on a condition, if that is so of all features, by its name."""
        return {}

    def _repr_html_(self) -> str:
        """Return the table as HTML for a notebook."""
        return str(self.to_frame().rename(index=escaped).to_html())


class ReportedResult(BaseResult):
    """A result with sentences and a report. A subclass also has :meth:`summary` and ``_page``."""

    def summary(self) -> list[str]:
        """Return the result in sentences."""
        raise NotImplementedError

    def _page(self, title: str | None) -> str:
        raise NotImplementedError

    def to_json(self, path: Any = None, indent: int | None = 2, *, draws: Any = None) -> str:
        """Return the result as JSON, which :meth:`from_json` reads, and write it to `path` if given.

        Parameters
        ----------
        path : str or Path, optional
        indent : int or None
            Number of spaces of each level; None for one line.
        draws : str or Path, optional
            Second file for the draws of permutation tests (``null`` of the scores), which are 95 % of the numbers. The
            JSON has their quantiles, from which pictures and pages are drawn. It is a file of NumPy (.npz).

        Returns
        -------
        str
        """
        plain, apart = without_draws(self.to_dict())
        if draws is not None:
            write_draws(draws, apart)
        return written(path, json_text(plain, indent=indent, allow_nan=False), end="\n")

    @classmethod
    def from_json(cls, source: Any, *, draws: Any = None) -> Self:
        """Return the result that :meth:`to_json` wrote.

        Parameters
        ----------
        source : str, bytes or Path
            The JSON, or the path of a file. A `str` is a path if a file of this name exists.
        draws : str or Path, optional
            The second file, if `to_json` wrote one: then nothing is lost. Without it ``null`` of the scores is None.

        Returns
        -------
        The same class.

        Raises
        ------
        DebiasError
            ``to_json`` did not write this, it has another schema version, or the draws are those of another result. The
            message says what is wrong, and begins with the path if it is of a file.
        OSError
            A file cannot be read.
        """
        result = super().from_json(source)
        return result if draws is None else cls.from_dict(with_draws(result.to_dict(), read_draws(draws)))

    def to_html(self, path: Any = None, title: str | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if that is not None.

        Parameters
        ----------
        path : str or Path, optional
        title : str, optional
            Title of the page. By default it names the kind of model.

        Returns
        -------
        str

        Raises
        ------
        ImportError
            matplotlib or Jinja2 is not installed (``pip install matplotlib jinja2``).
        OSError
            The file cannot be written, for example because its folder does not exist.
        """
        return written(path, self._page(title))


def _is_path(source: Any) -> bool:
    """Return whether this is the path of a file, and not JSON."""
    if isinstance(source, str) and not source.lstrip().startswith(("{", "[")):
        with suppress(OSError, ValueError):  # a name that is too long, or has a null byte
            return os.path.isfile(source)
    return isinstance(source, os.PathLike)
