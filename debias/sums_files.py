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

FORMAT = 2
BROKEN = (*(ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, BadZipFile, RuntimeError, MemoryError),)
"""What reading a damaged file may raise."""


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
        about = {name: about[name] for name in ("trees_sha256", "running_loss", "warnings")}
    except FileNotFoundError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        OSError,
        BadZipFile,
        RuntimeError,
        MemoryError,
    ) as error:
        raise RowsError(f"{path} holds no node sums that debias wrote: {error}") from None
    if version != FORMAT:
        raise RowsError(f"{path} holds node sums of format {version!r}; this debias reads format {FORMAT}")
    return about, state


def refuse_damaged(path: str | Path, state: dict[str, NDArray[Any]], sums: NodeSums) -> None:
    """Raise a RowsError if arrays are missing, of another shape or kind, or contradict each other.

    Parameters
    ----------
    path : str or Path
        For the message.
    state : dict of str to array
    sums : NodeSums
        Empty ones of the same model, as a pattern.
    """
    for name, pattern in sums.state().items():
        found = state.get(name)
        if found is None or found.shape != pattern.shape or found.dtype.kind != pattern.dtype.kind:
            raise RowsError(f"{path} is damaged: its array {name!r} is missing, or not what this model has")
    for name, array in state.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RowsError(f"{path} is damaged: its array {name!r} has values that are not finite")
    ensemble, weight = sums.ensemble, state["totals"][1]
    leaves = np.flatnonzero(ensemble.left < 0)
    of_tree = np.add.reduceat(state["n"], np.searchsorted(leaves, ensemble.tree_start[:-1]))
    if (state["n"] < 0).any() or (np.abs(of_tree - weight) > 1e-6 * abs(weight)).any():
        raise RowsError(f"{path} is damaged: the weights in its leaves do not add up to that of its rows")
    kept, counts = state.get("leaves_kept"), state.get("leaf_counts")
    if (kept is None) != (counts is None) or (kept is not None and (kept.ndim != 2 or kept.min(initial=0) < 0)):
        raise RowsError(f"{path} is damaged: what it counted in the leaves is not whole")
