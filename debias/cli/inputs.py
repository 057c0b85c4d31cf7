"""Input of the commands: models and tables from files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from debias.cli.output import warn
from debias.cli.tables import DOUBTFUL, TableFile, listed_columns
from debias.data.user_rows import Dataset
from debias.errors import nearest
from debias.models.folds import labels_of
from debias.text import escaped, listed

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Source:
    """Model and rows, as given by the arguments and options of a command."""

    model: str
    data: str | None
    trust: tuple[str, ...]
    allow_pickle: bool
    load_seconds: float | None
    params: str | None
    target: str
    weight: str | None
    base_margin: str | None
    blocks: str | None
    qid: str | None
    groups: str | None
    level: str | None
    drop: tuple[str, ...]
    separator: str | None
    decimal: str
    na: tuple[str, ...]
    rows: str
    train: str | None
    random_state: int | None
    jobs: int
    progress: bool | None

    @property
    def files(self) -> dict[str, str | None]:
        """The input files by their names on the command line."""
        read = {"--params": self.params, "--groups": self.groups, "--train": self.train}
        return {"MODEL": self.model, "DATA": self.data, **read}

    def read(self) -> tuple[Any, Dataset, dict[str, Any]]:
        """Return the model, the rows and further arguments of :func:`debias.score`. Without `data` the model is None.

        What can be wrong with the tables is found before the model is loaded, which takes longer.
        """
        from debias.models.known_labels import known_labels

        path = self.model if self.data is None else self.data
        X, y, of_rows = self._columns(path)
        options = {**self._settings, "rows": self.rows}
        if self.train is not None:
            train_X, train_y, of_training = self._columns(self.train, training=True)
        if self.data is None:
            self._file(path).refuse_doubtful(X.assign(**{self.target: y}), [*X.columns, self.target])
            return None, Dataset(X, y, **of_rows), options
        model = self.load(self.model)
        known = known_labels(model)
        if self.train is not None:
            options["train"] = Dataset(*self._file(self.train).as_known(train_X, train_y, known), **of_training)
        return model, Dataset(*self._file(path).as_known(X, y, known), **of_rows), options

    def read_unlabelled(self) -> tuple[Any, Dataset, dict[str, Any]]:
        """Return what :meth:`read` does, of rows without a response."""
        from debias.models.known_labels import known_labels

        assert self.data is not None
        file = self._file(self.data)
        frame = file.read()
        of_rows = {"sample_weight": self.weight, "base_margin": self.base_margin}
        given: dict[str, Any] = {name: column for name, column in of_rows.items() if column is not None}
        _refuse_two_roles({"--weight": self.weight, "--base-margin": self.base_margin})
        named = [*self.drop, *given.values()]
        _refuse_absent(self.data, frame, named)
        X = frame.drop(columns=list(dict.fromkeys(named)))
        model = self.load(self.model)
        no_response = X.iloc[:, 0].notna().rename("\0 no response")  # it has no missing value, and no model knows it
        X, _ = file.as_known(X, no_response, replace(known_labels(model), classes=None))
        return model, Dataset(X, **{name: frame[column] for name, column in given.items()}), {"rows": self.rows}

    def read_with(self, baseline: str) -> tuple[Any, Any, Dataset, dict[str, Any]]:
        """Return the model, an older one from a file, the rows, and further arguments of `debias.compare`."""
        from debias.models.known_labels import known_by_either

        assert self.data is not None
        X, y, of_rows = self._columns(self.data)
        models = [self.load(path) for path in (self.model, baseline)]
        known = known_by_either(models, list(X.columns))
        options = {name: value for name, value in self._settings.items() if name != "groups"} | {"rows": self.rows}
        return *models, Dataset(*self._file(self.data).as_known(X, y, known), **of_rows), options

    def read_folds(self, column: str) -> tuple[Any, Dataset, pd.Series, dict[str, Any]]:
        """Return the models of folds, the rows, the label of each row's fold, and arguments of `audit_folds`.

        What can be wrong with the tables and the names of files is found before the models are loaded.
        """
        from debias.models.known_labels import known_labels

        if self.rows not in ("auto", "held-out") or self.train is not None:
            wrong = "--train" if self.train is not None else f"--rows {self.rows}"
            raise click.UsageError(f"--folds says which rows each model has not seen: leave {wrong} out")
        assert self.data is not None
        X, y, of_rows = self._columns(self.data, folds=column)
        labels = of_rows.pop("folds")
        assert labels is not None
        options = self._settings
        path = Path(self.model)
        if not path.is_dir() or (path / "MLmodel").is_file():
            models = self.load(self.model)
        else:
            files = files_of_folds(path, labels)
            models = {label: self.load(str(file)) for label, file in files.items()}
        rows = Dataset(*self._file(self.data).as_known(X, y, known_labels(models)), **of_rows)
        return models, rows, labels, options

    def read_periods(self, column: str) -> tuple[Any, list[tuple[Any, Dataset]]]:
        """Return the model, and the rows of each period that a column names, in the order in which they first come."""
        from debias.models.known_labels import known_labels

        assert self.data is not None
        X, y, of_rows = self._columns(self.data, folds=column)
        named = of_rows.pop("folds")
        assert named is not None
        if named.isna().any():
            raise click.UsageError(f"the column {column!r} of {self.data} does not name the period of every row")
        model = self.load(self.model)
        X, y = self._file(self.data).as_known(X, y, known_labels(model))
        periods = []
        for at in named.unique().tolist():
            rows = (named == at).to_numpy()
            own = {name: None if values is None else values[rows] for name, values in of_rows.items()}
            periods.append((at, Dataset(X[rows], y[rows], **own)))
        return model, periods

    @property
    def _settings(self) -> dict[str, Any]:
        """Arguments of an audit of one model or of folds."""
        return {
            "groups": None if self.groups is None else read_mapping(self.groups, "groups of columns"),
            "level": self.level,
            "random_state": self.random_state,
            "n_jobs": self.jobs,
        }

    def load(self, path: str) -> Any:
        """Load a model in a child process, which may crash, and then in this process."""
        import debias
        from debias.models.loading import load, local_copy
        from debias.models.sandbox import check

        allow_pickle = self.allow_pickle
        params = None if self.params is None else read_mapping(self.params, "hyper-parameters")
        if allow_pickle:
            click.echo(f"warning: --allow-pickle: if {path} is a pickle, it runs code from the file", err=True)
        with local_copy(path) as file:
            check(file, self.trust, allow_pickle, self.load_seconds, params)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = load(file, self.trust, allow_pickle, params, guard=False)
        warn(tuple(str(entry.message) for entry in caught if issubclass(entry.category, debias.DebiasWarning)))
        return model

    def _columns(
        self, path: str, training: bool = False, folds: str | None = None
    ) -> tuple[pd.DataFrame, pd.Series, dict[str, Any]]:
        """Return X, y, and weights, margins, blocks, queries and folds.

        Training rows have no margins, blocks and folds. They may lack the column of weights: then there were none.
        """
        frame = self._file(path).read()
        of_rows = {"sample_weight": self.weight, "base_margin": self.base_margin}
        of_rows |= {"blocks": self.blocks, "qid": self.qid}
        of_rows |= {} if folds is None else {"folds": folds}
        named = [self.target, *self.drop, *(column for column in of_rows.values() if column is not None)]
        _refuse_two_roles({"--target": self.target, "--weight": self.weight, "--base-margin": self.base_margin})
        needed = named
        if training:
            weight = self.weight if self.weight in frame.columns else None
            needed = [column for column in (self.target, weight, self.qid) if column is not None]
        _refuse_absent(path, frame, needed)
        X = frame.drop(columns=[column for column in dict.fromkeys(named) if column in frame.columns])
        self._file(path).refuse_doubtful(frame, [column for column in of_rows.values() if column in needed])
        read = {name: column for name, column in of_rows.items() if column in needed}
        return X, frame[self.target], {name: frame[read[name]] if name in read else None for name in of_rows}

    def _file(self, path: str) -> TableFile:
        return TableFile(path, self.separator, self.decimal, self.na)


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


def _refuse_two_roles(options: dict[str, str | None]) -> None:
    """Raise a UsageError if two options that cannot mean the same numbers name one column."""
    role_of: dict[str, str] = {}
    for option, column in options.items():
        if column in role_of:
            raise click.UsageError(f"{role_of[column]} and {option} are both {column!r}: name two columns")
        if column is not None:
            role_of[column] = option


def _refuse_absent(path: str, frame: pd.DataFrame, columns: Iterable[str]) -> None:
    for column in columns:
        if column not in frame.columns:
            hint = nearest(column, [str(name) for name in frame.columns])
            raise click.UsageError(f"{path} has no column {column!r}; it has {listed_columns(frame.columns)}.{hint}")


def matrix(path: str, drop: tuple[str, ...], numeric: bool) -> pd.DataFrame:
    """Return the features in the file of a table.

    Parameters
    ----------
    path : str
        A CSV or Parquet file.
    drop : tuple of str
        Columns to leave out.
    numeric : bool
        Whether columns that are not numeric are left out too, with a note on stderr.

    Returns
    -------
    DataFrame

    Raises
    ------
    click.UsageError
        A column in `drop` is not in the table.
    DebiasError
        The file cannot be read.
    """
    frame = TableFile(path, na=tuple(DOUBTFUL)).read()  # no model knows better than pandas
    _refuse_absent(path, frame, drop)
    frame = frame.drop(columns=list(drop))
    if not numeric:
        return frame
    numbers = frame.select_dtypes("number")
    other = [str(name) for name in frame.columns if name not in numbers.columns]
    if other:
        click.echo(f"note: columns of {path} that are not numeric are left out: {listed_columns(other)}", err=True)
    return numbers


def files_of_folds(directory: Path, labels: pd.Series) -> dict[str, Path]:
    """Return the model file of each fold.

    Parameters
    ----------
    directory : Path
        Its files are models, and the name of each, without its ending, ends with the label of a fold: ``model-0.ubj``,
        ``fold03.txt``. Hidden files are ignored.
    labels : Series
        The fold in which each row was held out.

    Raises
    ------
    UsageError
        A label has no file or several, or a file has no label.
    """
    names = labels_of(labels)
    files = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    label_of = {path: _label_of(path.name if path.is_dir() else path.stem, names) for path in files}
    found = {name: [path for path, label in label_of.items() if label == name] for name in names}
    without = [name for name in names if not found[name]]
    unused = [path.name for path, label in label_of.items() if label is None]
    if without or unused:
        faults = [f"no file for the fold {listed(without)}"] if without else []
        faults += [f"no rows for {listed(unused)}"] if unused else []
        raise click.UsageError(
            escaped(
                f"the files in {directory} and the folds in DATA are not the same: {'; '.join(faults)}. The name of "
                "each model file must end with the label of its fold, such as model-0.ubj"
            )
        )
    double = next((name for name in names if len(found[name]) > 1), None)
    if double is not None:
        raise click.UsageError(
            escaped(f"{directory} has several files for the fold {double}: {listed([p.name for p in found[double]])}")
        )
    return {name: found[name][0] for name in names}


def _label_of(stem: str, names: list[str]) -> str | None:
    """Return the longest label with which a name ends: "north-west" rather than "west"."""
    return max((name for name in names if _ends_with(stem, name)), key=len, default=None)


def _ends_with(stem: str, label: str) -> bool:
    """Whether a name ends with a label: numbers as whole numbers, texts after a sign or at the beginning."""
    if label.isdecimal():
        digits = re.search(r"[0-9]+$", stem)
        return digits is not None and int(digits.group()) == int(label)
    before = stem.removesuffix(label)
    return stem.endswith(label) and (not before or not before[-1].isalnum())
