"""Tables from files. Text is read by what the model knows: a cell of a CSV file does not say whether it is a number."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from debias.models.known_labels import KnownLabels

SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'"}
"""Other separators than a comma that tables in text have, and how they are written on the command line."""
MODEL_FILES = (".ubj", ".pkl", ".pickle", ".joblib", ".json")
ARCHIVE = b"PK\x03\x04"
"""How a zip archive begins: a model with its parts, but no table."""
ARROW = (".parquet", ".pq", ".feather", ".arrow")
DOUBTFUL = frozenset(
    ("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN")
    + ("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)
"""What pandas takes for missing by default. It may also be a category: Namibia, "None" of a questionnaire."""
QUERY = "duckdb://"
"""How the address of a query begins."""


def is_query(path: object) -> bool:
    """Whether a path is the address of a query of DuckDB."""
    return isinstance(path, str) and path.startswith(QUERY)


@dataclass(frozen=True)
class TableFile:
    """A CSV, Parquet or Feather file, or a query of DuckDB.

    Parameters
    ----------
    path : str
        For a query, ``duckdb:///FILE?sql=QUERY``; without FILE the query reads files by itself.
    separator : str, or None
        Of CSV files; by default a comma, or a tab in a .tsv file.
    decimal : str
    na : tuple of str
        What is missing in CSV files besides empty cells, if the user said it: then no cell is in doubt.
    """

    path: str
    separator: str | None = None
    decimal: str = "."
    na: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether the cells have no types."""
        return not self.path.endswith(ARROW) and not is_query(self.path)

    def read(self) -> pd.DataFrame:
        """Return the table, with numbers where all cells that are not missing are numbers, and otherwise text."""
        if is_query(self.path):
            return _read_query(self.path)
        if self.path.endswith(MODEL_FILES) or _begins_with(self.path, ARCHIVE):
            raise click.UsageError(
                f"{self.path} is no table: the model comes first, then a CSV, Parquet or Feather file"
            )
        if self.path.endswith((".csv", ".tsv", ".txt")):
            _refuse_other_separator(self.path, self._separator)
        from debias.text import message

        kind = "CSV" if self.is_text else self.path.rpartition(".")[2].replace("pq", "parquet").upper()
        try:
            if not self.is_text:
                return _read_arrow(self.path)
            frame = self._cells()
            if self._separator != "," and self.decimal == ".":
                _note_decimal_commas(self.path, frame)
            return frame
        except ImportError:
            raise
        except UnicodeDecodeError:
            raise click.UsageError(
                f"{self.path} cannot be read as CSV: it is not UTF-8 text. Save it as UTF-8"
            ) from None
        except Exception as error:  # each reader raises its own errors for a file of another format
            raise click.UsageError(f"{self.path} cannot be read as {kind}: {message(str(error))}") from None

    def as_known(self, X: pd.DataFrame, y: pd.Series, known: KnownLabels) -> tuple[pd.DataFrame, pd.Series]:
        """Return X and y as the model knows them: its categories and classes keep their spelling.

        Parameters
        ----------
        X : DataFrame
        y : Series
            Columns that :meth:`read` returned.
        known : KnownLabels

        Raises
        ------
        UsageError
            A cell could be missing, or text, or a number, and nothing says which.
        """
        target, columns = str(y.name), list(X.columns)
        frame = X.assign(**{target: y})
        features = [name for name in columns if known.names is None or name in known.names]
        labels = known.by_name(columns)
        labels |= {} if known.classes is None else {target: known.classes}
        if self.is_text:
            frame = self._spelled(frame, {name for name, each in labels.items() if each is None or _has_text(each)})
            for name in frame.columns:
                if _is_text(frame[name]) and name in (*features, target):
                    numbers = name not in labels and known.others_are_numbers
                    frame[name] = self._with_labels(frame[name], labels.get(name, []) or [], numbers)
            for name, each in labels.items():
                if "" in (each or ()) and frame[name].isna().any():
                    raise click.UsageError(
                        f"column {name!r} of {self.path} has empty cells, and the model knows an empty text as a "
                        "category: CSV cannot tell it from a missing value. Save the table as Parquet"
                    )
        for name, each in labels.items():  # encoders tell None from NaN; what a file gives depends on the reader
            knows_none = None in (each or ())
            if each and (knows_none or frame[name].dtype == object) and frame[name].isna().any():
                missing = None if knows_none else float("nan")
                frame[name] = frame[name].astype(object).where(frame[name].notna(), missing)
        return frame[columns], frame[target]

    def refuse_doubtful(self, frame: pd.DataFrame, columns: Iterable[str]) -> None:
        """Raise a UsageError if cells of columns that no model knows could be missing, or text."""
        for name in columns if self.is_text else ():
            if _is_text(frame[name]):
                self._with_labels(frame[name], [], numbers=False)

    def _with_labels(self, column: pd.Series, labels: list[Any], numbers: bool) -> pd.Series:
        """Return a column of text with labels that are no text in place of their spelling; refuse what is in doubt."""
        texts = column.dropna().unique().tolist()
        known = {label for label in labels if isinstance(label, str)}
        missing = sorted(known.intersection(self.na) - {""})
        if missing:
            raise click.UsageError(
                f"column {column.name!r} of {self.path}: --na says that {missing[0]!r} is missing, but the model "
                "knows it as a category. Leave this --na out and empty the cells that are missing, or save the table "
                "as Parquet"
            )
        doubtful = [text for text in texts if text in DOUBTFUL and text not in known] if not self.na else []
        if doubtful:
            where = int((column == doubtful[0]).to_numpy().argmax())
            raise click.UsageError(
                f"column {column.name!r} of {self.path} has the text {doubtful[0]!r} (row {where}), "
                + ("where the model takes numbers" if numbers else "which is no category that the model keeps")
                + f". Pass --na {doubtful[0]} if it means a missing value, or --na '' if only empty cells are missing"
            )
        if numbers:
            wrong = [text for text in texts if _number(text) is None]
            if wrong and len(wrong) < len(texts):
                where = int((column == wrong[0]).to_numpy().argmax())
                raise click.UsageError(
                    f"column {column.name!r} of {self.path} has the text {wrong[0]!r} (row {where}), where the model "
                    f"takes numbers. Pass --na {_quoted(wrong[0])} if it means a missing value"
                )
        others = [label for label in labels if label is not None and not isinstance(label, str) and label == label]
        replaced: dict[str, Any] = {}
        for text in texts if others else ():
            same = next((label for label in others if str(label) == text or label == _number(text)), None)
            if same is not None and text in known:
                raise click.UsageError(
                    f"column {column.name!r} of {self.path}: the model knows both the text {text!r} and the number "
                    "as categories, and CSV cannot tell them apart. Save the table as Parquet"
                )
            if same is not None:
                replaced[text] = same
        return column.astype(object).map(lambda cell: replaced.get(cell, cell)) if replaced else column

    @property
    def _separator(self) -> str:
        return self.separator or ("\t" if self.path.endswith(".tsv") else ",")

    def _cells(self, **how: Any) -> pd.DataFrame:
        import pandas as pd

        from debias.trees.tested_versions import major_minor

        # Before pandas 3.1, the default may read a number one digit off the one that was written.
        exact: dict[str, Any] = {} if major_minor(pd.__version__) >= (3, 1) else {"float_precision": "round_trip"}
        return pd.read_csv(
            self.path,
            sep=self._separator,
            decimal=self.decimal,
            keep_default_na=False,
            na_values=["", *self.na],
            low_memory=False,  # otherwise parts of one column may have different types
            **exact,
            **how,
        )

    def _spelled(self, frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
        """Return a table whose columns of categories have the text of the file where it was read as numbers."""
        import pandas as pd

        otherwise = [name for name in frame.columns if name in columns and not _is_text(frame[name])]
        if not otherwise:
            return frame
        # Only these columns are read again, unless the first column of the file became the index.
        places = [place for place, name in enumerate(self._cells(nrows=0).columns) if name in otherwise]
        some = {"usecols": places} if isinstance(frame.index, pd.RangeIndex) else {}
        texts = self._cells(dtype=dict.fromkeys(otherwise, str), **some)
        return frame.assign(**{name: texts[name] for name in otherwise})


def _has_text(labels: list[Any]) -> bool:
    return any(isinstance(label, str) for label in labels)


def _is_text(column: pd.Series) -> bool:
    """Whether all cells that are not missing are text."""
    return column.dtype.kind not in "iufb" and all(isinstance(cell, str) for cell in column.dropna())


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _quoted(text: str) -> str:
    """Return a text as an argument for a shell."""
    import shlex

    return shlex.quote(text)


def _begins_with(path: str, begin: bytes) -> bool:
    """Whether a file that can be read begins with some bytes."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(begin)) == begin
    return False


def _refuse_other_separator(path: str, separator: str) -> None:
    """Refuse a text file whose first line has another separator, and would be read as one column."""
    with open(path, encoding="utf-8", errors="replace") as file:
        heading = file.readline()
    other = next((known for known in SEPARATORS if known in heading), None)
    if separator not in heading and other is not None:
        raise click.UsageError(
            f"the columns of {path} seem to be separated by {SEPARATORS[other]}: pass --separator {SEPARATORS[other]}"
            " (and --decimal ',' if numbers are written like 1,5)"
        )


def _note_decimal_commas(path: str, frame: pd.DataFrame) -> None:
    texts = (column for _, column in frame.items() if _is_text(column) and column.notna().any())
    found = [column.name for column in texts if column.dropna().astype(str).str.fullmatch(r"-?\d*,\d+").all()]
    if found:
        click.echo(
            f"note: columns of {path} have decimal commas, so pass --decimal ',': {listed_columns(found)}", err=True
        )


def _read_arrow(path: str) -> pd.DataFrame:
    """Read a Parquet or Feather table and check it: with a damaged file pandas would read outside of its memory."""
    try:
        from pyarrow import feather, parquet
    except ImportError:
        raise ImportError("reading Parquet and Feather needs pyarrow: pip install pyarrow") from None
    is_parquet = path.endswith((".parquet", ".pq"))
    table = parquet.read_table(path) if is_parquet else feather.read_table(path, memory_map=False)
    table.validate(full=True)
    return table.to_pandas()


def _read_query(address: str) -> pd.DataFrame:
    """Run a query; the file is opened for reading only."""
    from debias.data.arrow_streams import with_plain_numbers
    from debias.text import message

    # The query is taken as it is: a + or a % in it means what it means in SQL.
    place, given, query = address.removeprefix(QUERY).partition("?sql=")
    if not given or not query.strip() or (place and not place.startswith("/")):
        raise click.UsageError(f"{message(address)} is no query: write 'duckdb:///FILE?sql=SELECT ...'")
    try:
        import duckdb
    except ImportError:
        raise ImportError("running a query needs duckdb: pip install duckdb pyarrow") from None
    file = place[1:]
    try:
        with duckdb.connect(file or ":memory:", read_only=bool(file)) as connection:
            relation = connection.sql(query)
            if relation is None:
                raise click.UsageError("the query returns no rows: write 'SELECT ...'")
            return with_plain_numbers(relation.to_arrow_table()).to_pandas()
    except click.UsageError:
        raise
    except Exception as error:  # duckdb raises errors of many types
        raise click.UsageError(f"the query cannot be run: {message(str(error))}") from None


def listed_columns(columns: Iterable[object]) -> str:
    """Return the first column names as text; a table may have many columns, and names any characters."""
    from debias.text import escaped, listed

    return escaped(listed([str(name) for name in columns], 50))
