"""Node sums in a file: arrays and a line about them in numpy's format, and no pickles."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.node_sums import NodeSums

FORMAT = 1


def write(path: str | Path, sums: NodeSums) -> None:
    """Write node sums to a file.

    Parameters
    ----------
    path : str or Path
        It is overwritten.
    sums : NodeSums
    """
    about = {
        "format": FORMAT,
        "trees_sha256": sums.trees_sha256,
        "running_loss": sums.running_loss is not None,
        "warnings": sums.notes.texts,
    }
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about)), **sums.state()}
    with open(path, "wb") as file:  # numpy would add an ending to a name that has none
        np.savez(file, **arrays)


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write` wrote.

    Returns
    -------
    (dict, dict of str to array)
        What there is to know of the sums, and their state.

    Raises
    ------
    RowsError
        The file holds no node sums, or was written by another version.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            state = {name: stored[name] for name in stored.files}
        about = json.loads(str(state.pop("about")))
        version = about["format"]
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, BadZipFile) as error:
        raise RowsError(f"{path} holds no node sums that debias wrote: {error}") from None
    if version != FORMAT:
        raise RowsError(f"{path} holds node sums of format {version!r}; this debias reads format {FORMAT}")
    return about, state
