"""Input of the commands: models and tables from files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from debias.cli.output import warn

if TYPE_CHECKING:
    import pandas as pd


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
    rows: str
    train: str | None
    seed: int | None
    jobs: int

    @property
    def files(self) -> dict[str, str | None]:
        """The input files by their names on the command line."""
        return {"MODEL": self.model, "DATA": self.data, "--params": self.params, "--train": self.train}

    def read(self) -> tuple[Any, pd.DataFrame, pd.Series, dict[str, Any]]:
        """Return model, X, y and further arguments of :func:`debias.score`. Without `data` the model is None."""
        import debias

        model, data = (None, self.model) if self.data is None else (self._load(), self.data)
        ensemble = None if model is None else debias.extract(model)
        wanted = list(ensemble.feature_names) if ensemble is not None and ensemble.named else None
        X, y, sample_weight = self._columns(data, wanted)
        options: dict[str, Any] = {
            "sample_weight": sample_weight,
            "rows": self.rows,
            "seed": self.seed,
            "n_jobs": self.jobs,
        }
        if self.train is not None:
            options["train"] = self._columns(self.train, wanted)[:2]
        return model, X, y, options

    def _load(self) -> Any:
        """Load the model in a child process, which may crash, and then in this process."""
        import debias
        from debias.models.files import load
        from debias.models.sandbox import check

        path, allow_pickle = self.model, self.allow_pickle
        params = None if self.params is None else read_params(self.params)
        if allow_pickle:
            click.echo(f"warning: --allow-pickle: if {path} is a pickle, it runs code from the file", err=True)
        check(path, self.trust, allow_pickle)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = load(Path(path), self.trust, allow_pickle, params, guard=False)
        warn(tuple(str(entry.message) for entry in caught if issubclass(entry.category, debias.DebiasWarning)))
        return model

    def _columns(self, path: str, wanted: list[str] | None) -> tuple[pd.DataFrame, pd.Series, pd.Series | None]:
        """Return X, y and weights of a table. Columns the model does not know are left out, with a note."""
        frame, target, weight = _read(path), self.target, self.weight
        for column in (target, weight):
            if column is not None and column not in frame.columns:
                raise click.UsageError(f"{path} has no column {column!r}; it has {_listed(frame.columns)}")
        X = frame.drop(columns=[column for column in (target, weight) if column is not None])
        if wanted is not None and set(wanted) <= set(X.columns):
            unused = [str(column) for column in X.columns if column not in wanted]
            if unused:
                click.echo(
                    f"note: columns of {path} that the model does not know are left out: {_listed(unused)}", err=True
                )
                X = X[wanted]
        return X, frame[target], None if weight is None else frame[weight]


def read_params(path: str) -> dict[str, Any]:
    """Return the hyper-parameters in a JSON or TOML file."""
    import json
    import tomllib

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        params = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(
            f"{path} cannot be read as {'TOML' if path.endswith('.toml') else 'JSON'}: {error}"
        ) from None
    if not isinstance(params, dict):
        raise click.UsageError(f"{path} has no hyper-parameters: it must be one mapping of names to values")
    return params


def matrix(path: str, drop: tuple[str, ...], numeric: bool) -> pd.DataFrame:
    """Return a table without the columns in `drop`. If `numeric`, other columns are left out too, with a note."""
    frame = _read(path)
    absent = [name for name in drop if name not in frame.columns]
    if absent:
        raise click.UsageError(f"{path} has no column {absent[0]!r}; it has {_listed(frame.columns)}")
    frame = frame.drop(columns=list(drop))
    if not numeric:
        return frame
    numbers = frame.select_dtypes("number")
    other = [str(name) for name in frame.columns if name not in numbers.columns]
    if other:
        click.echo(f"note: columns of {path} that are not numeric are left out: {_listed(other)}", err=True)
    return numbers


def _read(path: str) -> pd.DataFrame:
    import pandas as pd

    from debias.text import message
    from debias.trees.tested_versions import major_minor

    ending = next((known for known in (".parquet", ".pq", ".feather", ".arrow") if path.endswith(known)), ".csv")
    try:
        if ending == ".csv":
            # Before pandas 3.1, the default may read a number one digit off the one that was written.
            exact: dict[str, Any] = {} if major_minor(pd.__version__) >= (3, 1) else {"float_precision": "round_trip"}
            return pd.read_csv(path, **exact)
        return _read_arrow(path, ending in (".parquet", ".pq"))
    except ImportError:
        raise
    except Exception as error:  # each reader raises its own errors for a file of another format
        raise click.UsageError(f"{path} cannot be read as {ending[1:].upper()}: {message(str(error))}") from None


def _read_arrow(path: str, is_parquet: bool) -> pd.DataFrame:
    """Read a Parquet or Feather table and check it: with a damaged file pandas would read outside of its memory."""
    try:
        from pyarrow import feather, parquet
    except ImportError:
        raise ImportError("reading Parquet and Feather needs pyarrow: pip install debias-trees[files]") from None
    table = parquet.read_table(path) if is_parquet else feather.read_table(path, memory_map=False)
    table.validate(full=True)
    return table.to_pandas()


def _listed(columns: Iterable[object]) -> str:
    """Return the first column names as text; a table may have many columns, and names any characters."""
    from debias.text import listed, shown

    return shown(listed([str(name) for name in columns], 50))
