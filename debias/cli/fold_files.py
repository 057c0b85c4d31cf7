"""The model files of folds in a directory: the name of each ends with the label of its fold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from debias.models.folds import labels_of
from debias.text import escaped, listed

if TYPE_CHECKING:
    import pandas as pd


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
    label_of = {path: _label_of(_stem(path), names) for path in files}
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


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else path.stem


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
