"""Input of the commands: models and tables from files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from debias.cli.fold_files import files_of_folds
from debias.cli.output import warn
from debias.errors import nearest

if TYPE_CHECKING:
    import pandas as pd


SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'"}
"""Other separators than a comma that tables in text have, and how they are written on the command line."""
MODEL_FILES = (".ubj", ".pkl", ".pickle", ".joblib", ".json")
ARCHIVE = b"PK\x03\x04"
"""How a zip archive begins: a model with its parts, but no table."""


@dataclass(frozen=True)
class Source:
    """Model and rows, as given by the arguments and options of a command."""

    model: str
    data: str | None
    trust: tuple[str, ...]
    allow_pickle: bool
    params: str | None
    target: str
    weight: str | None
    blocks: str | None
    qid: str | None
    groups: str | None
    level: str | None
    drop: tuple[str, ...]
    separator: str | None
    decimal: str
    rows: str
    train: str | None
    seed: int | None
    jobs: int
    progress: bool | None

    @property
    def files(self) -> dict[str, str | None]:
        """The input files by their names on the command line."""
        read = {"--params": self.params, "--groups": self.groups, "--train": self.train}
        return {"MODEL": self.model, "DATA": self.data, **read}

    def read(self) -> tuple[Any, pd.DataFrame, pd.Series, dict[str, Any]]:
        """Return model, X, y and further arguments of :func:`debias.score`. Without `data` the model is None.

        What can be wrong with the tables is found before the model is loaded, which takes longer.
        """
        X, y, of_rows = self._columns(self.model if self.data is None else self.data)
        options: dict[str, Any] = {
            **of_rows,
            "groups": None if self.groups is None else read_mapping(self.groups, "groups of columns"),
            "level": self.level,
            "rows": self.rows,
            "seed": self.seed,
            "n_jobs": self.jobs,
        }
        if self.train is not None:
            train_X, train_y, of_training = self._columns(self.train, training=True)
            with_queries = () if self.qid is None else (None, of_training["qid"])
            options["train"] = (train_X, train_y, *with_queries)
        return None if self.data is None else self._load(self.model), X, y, options

    def read_folds(self, column: str) -> tuple[Any, pd.DataFrame, pd.Series, pd.Series, dict[str, Any]]:
        """Return the models of folds, X, y, the label of each row's fold, and arguments of `audit_folds`.

        What can be wrong with the tables and the names of files is found before the models are loaded.
        """
        if self.rows not in ("auto", "held-out") or self.train is not None:
            wrong = "--train" if self.train is not None else f"--rows {self.rows}"
            raise click.UsageError(f"--folds says which rows each model has not seen: leave {wrong} out")
        assert self.data is not None
        X, y, of_rows = self._columns(self.data, folds=column)
        labels = of_rows.pop("folds")
        assert labels is not None
        options = {
            **of_rows,
            "groups": None if self.groups is None else read_mapping(self.groups, "groups of columns"),
            "level": self.level,
            "seed": self.seed,
            "n_jobs": self.jobs,
        }
        path = Path(self.model)
        if not path.is_dir() or (path / "MLmodel").is_file():
            return self._load(self.model), X, y, labels, options
        files = files_of_folds(path, labels)
        return {label: self._load(str(file)) for label, file in files.items()}, X, y, labels, options

    def _load(self, path: str) -> Any:
        """Load a model in a child process, which may crash, and then in this process."""
        import debias
        from debias.models.files import load
        from debias.models.sandbox import check

        allow_pickle = self.allow_pickle
        params = None if self.params is None else read_mapping(self.params, "hyper-parameters")
        if allow_pickle:
            click.echo(f"warning: --allow-pickle: if {path} is a pickle, it runs code from the file", err=True)
        check(path, self.trust, allow_pickle)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = load(Path(path), self.trust, allow_pickle, params, guard=False)
        warn(tuple(str(entry.message) for entry in caught if issubclass(entry.category, debias.DebiasWarning)))
        return model

    def _columns(
        self, path: str, training: bool = False, folds: str | None = None
    ) -> tuple[pd.DataFrame, pd.Series, dict[str, pd.Series | None]]:
        """Return X, y, and weights, blocks, queries and folds of a table; training rows need queries only."""
        frame = _read(path, self.separator, self.decimal)
        of_rows = {"sample_weight": self.weight, "blocks": self.blocks, "qid": self.qid}
        of_rows |= {} if folds is None else {"folds": folds}
        named = [self.target, *self.drop, *(column for column in of_rows.values() if column is not None)]
        needed = [column for column in (self.target, self.qid) if column is not None] if training else named
        _refuse_absent(path, frame, needed)
        X = frame.drop(columns=[column for column in dict.fromkeys(named) if column in frame.columns])
        read = {name: column for name, column in of_rows.items() if column in needed}
        return X, frame[self.target], {name: frame[read[name]] if name in read else None for name in of_rows}


def read_mapping(path: str, what: str) -> dict[str, Any]:
    """Return the mapping in a JSON or TOML file; `what` says what it holds, for messages."""
    import json
    import tomllib

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        mapping = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(
            f"{path} cannot be read as {'TOML' if path.endswith('.toml') else 'JSON'}: {error}"
        ) from None
    if not isinstance(mapping, dict):
        raise click.UsageError(f"{path} has no {what}: it must be one mapping of names to values")
    return mapping


def _refuse_absent(path: str, frame: pd.DataFrame, columns: Iterable[str]) -> None:
    for column in columns:
        if column not in frame.columns:
            hint = nearest(column, [str(name) for name in frame.columns])
            raise click.UsageError(f"{path} has no column {column!r}; it has {_listed(frame.columns)}.{hint}")


def matrix(path: str, drop: tuple[str, ...], numeric: bool) -> pd.DataFrame:
    """Return a table without the columns in `drop`. If `numeric`, other columns are left out too, with a note."""
    frame = _read(path)
    _refuse_absent(path, frame, drop)
    frame = frame.drop(columns=list(drop))
    if not numeric:
        return frame
    numbers = frame.select_dtypes("number")
    other = [str(name) for name in frame.columns if name not in numbers.columns]
    if other:
        click.echo(f"note: columns of {path} that are not numeric are left out: {_listed(other)}", err=True)
    return numbers


def _read(path: str, separator: str | None = None, decimal: str = ".") -> pd.DataFrame:
    ending = next((known for known in (".parquet", ".pq", ".feather", ".arrow") if path.endswith(known)), ".csv")
    if separator is None:
        separator = "\t" if path.endswith(".tsv") else ","
    if path.endswith(MODEL_FILES) or _begins_with(path, ARCHIVE):
        raise click.UsageError(f"{path} is no table: the model comes first, then a CSV, Parquet or Feather file")
    if path.endswith((".csv", ".tsv", ".txt")):
        _refuse_other_separator(path, separator)
    import pandas as pd

    from debias.text import message
    from debias.trees.tested_versions import major_minor

    try:
        if ending == ".csv":
            # Before pandas 3.1, the default may read a number one digit off the one that was written.
            exact: dict[str, Any] = {} if major_minor(pd.__version__) >= (3, 1) else {"float_precision": "round_trip"}
            frame = pd.read_csv(path, sep=separator, decimal=decimal, **exact)
            if separator != "," and decimal == ".":
                _note_decimal_commas(path, frame)
            return frame
        return _read_arrow(path, ending in (".parquet", ".pq"))
    except ImportError:
        raise
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} cannot be read as CSV: it is not UTF-8 text. Save it as UTF-8") from None
    except Exception as error:  # each reader raises its own errors for a file of another format
        raise click.UsageError(f"{path} cannot be read as {ending[1:].upper()}: {message(str(error))}") from None


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
    texts = (column for _, column in frame.items() if column.dtype.kind == "O" and column.notna().any())
    found = [column.name for column in texts if column.dropna().astype(str).str.fullmatch(r"-?\d*,\d+").all()]
    if found:
        click.echo(f"note: columns of {path} have decimal commas, so pass --decimal ',': {_listed(found)}", err=True)


def _read_arrow(path: str, is_parquet: bool) -> pd.DataFrame:
    """Read a Parquet or Feather table and check it: with a damaged file pandas would read outside of its memory."""
    try:
        from pyarrow import feather, parquet
    except ImportError:
        raise ImportError("reading Parquet and Feather needs pyarrow: pip install pyarrow") from None
    table = parquet.read_table(path) if is_parquet else feather.read_table(path, memory_map=False)
    table.validate(full=True)
    return table.to_pandas()


def _listed(columns: Iterable[object]) -> str:
    """Return the first column names as text; a table may have many columns, and names any characters."""
    from debias.text import listed, shown

    return shown(listed([str(name) for name in columns], 50))
