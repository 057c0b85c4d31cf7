"""Node sums in a file: arrays and a line about them in numpy's format, sealed by a digest, and no pickles.

The file is an uncompressed ``.npz``, so nothing in it is larger than the file. Each array is compared with what the
trees of the model ask for before it is read. The digest finds damage; whoever forges a file can forge it too, so that
what is read is held to its range all the same.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from debias.atomic_files import replacing
from debias.errors import RowsError
from debias.rows.leaf_counts import LeafCounter
from debias.rows.streamed_sums import ROWS_KEPT

if TYPE_CHECKING:
    from pathlib import Path
    from zipfile import ZipInfo

    from numpy.typing import NDArray

    from debias.rows.streamed_sums import NodeSums

FORMAT = 3
SEAL = "sha256"


def write(path: str | Path, sums: NodeSums) -> None:
    """Write node sums to a file.

    Parameters
    ----------
    path : str or Path
        An old file is replaced once the new one is whole.
    sums : NodeSums
    """
    about = {
        "format": FORMAT,
        "trees_sha256": sums.trees_sha256,
        "running_loss": sums.running_loss is not None,
        "warnings": sums.notes.texts,
    }
    arrays = {name: np.asarray(array, order="C") for name, array in sums.state().items()}
    arrays["about"] = np.array(json.dumps(about))
    with replacing(path) as file:
        np.savez(file, **arrays, **{SEAL: np.array(_digest(arrays))})  # type: ignore[arg-type]


def read(path: str | Path, sums: NodeSums) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write` wrote of sums of the same model.

    Parameters
    ----------
    path : str or Path
    sums : NodeSums
        Empty ones of the model, as a pattern.

    Returns
    -------
    (dict, dict of str to array)
        What there is to know of the sums, and their state.

    Raises
    ------
    OSError
        There is no such file, or it cannot be read.
    RowsError
        The file holds no node sums, those of another model, was written by another version, or is damaged.
    """
    with open(path, "rb") as file:
        try:
            with ZipFile(file) as stored:
                members = _members(stored)
                about = _about(stored, members)
                if about["format"] != FORMAT:
                    raise RowsError(
                        f"{path} holds node sums of format {about['format']!r}, and this debias reads format {FORMAT}: "
                        "add the rows up again with debias.NodeSums(model).update(X, y), or read it with the debias "
                        "that wrote it"
                    )
                if about["trees_sha256"] != sums.trees_sha256:
                    raise RowsError(f"{path} holds node sums of another model than this {sums.ensemble.source}")
                patterns = _patterns(sums, bool(about["running_loss"]))
                _refuse_others(members, patterns)
                state = {name: _array(stored, members[name], patterns[name]) for name in members if name in patterns}
                seal = str(_array(stored, members[SEAL], (np.dtype("<U64"), ())))
            sealed = {**state, "about": np.array(about.pop("line"))}
            if _digest(sealed) != seal:
                raise _Damage("its digest is not that of its contents")
            _refuse_out_of_range(state, sums)
        except RowsError:
            raise
        except _Damage as damage:
            raise RowsError(f"{path} is damaged: {damage}. {_WHAT_TO_DO}") from None
        except Exception as error:  # what reading a damaged archive raises is anything
            raise RowsError(f"{path} holds no node sums that debias wrote, or is damaged: {error}") from None
    return about, state


class _Damage(Exception):
    """What is wrong with a file, in words."""


def _members(stored: ZipFile) -> dict[str, ZipInfo]:
    """Return what is in the archive, by name."""
    members: dict[str, ZipInfo] = {}
    for info in stored.infolist():
        name = info.filename.removesuffix(".npy")
        if info.compress_type != ZIP_STORED or info.file_size != info.compress_size:
            raise _Damage(f"its array {name!r} is compressed, which debias does not do")
        if name in members:
            raise _Damage(f"it has two arrays {name!r}")
        members[name] = info
    return members


def _about(stored: ZipFile, members: dict[str, ZipInfo]) -> dict[str, Any]:
    """Read the line about the sums; `line` is the line itself."""
    if "about" not in members:
        raise ValueError("it has no line about them")
    try:
        line = str(_array(stored, members["about"], (re.compile(r"<U[0-9]{1,7}"), ())))
    except _Damage as damage:
        raise ValueError(damage) from None
    found = json.loads(line)
    if not isinstance(found, dict) or not {"format", "trees_sha256", "running_loss", "warnings"} <= found.keys():
        raise ValueError("the line about them is none")
    texts = found["warnings"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("the line about them is none")
    return {**found, "line": line}


Pattern = tuple[Any, tuple[int | range, ...]]
"""Type, or an expression its name has to match; and shape, where a range stands for what may differ."""


def _patterns(sums: NodeSums, running_loss: bool) -> dict[str, Pattern]:
    """Return type and shape of every array there may be."""
    like = {**sums.state(), **LeafCounter(sums.ensemble, keep=ROWS_KEPT).state()}
    patterns: dict[str, Pattern] = {name: (array.dtype, array.shape) for name, array in like.items()}
    patterns["squares"] = patterns["n"]
    patterns["leaves_kept"] = (patterns["leaves_kept"][0], (range(ROWS_KEPT + 1), like["leaves_kept"].shape[1]))
    patterns["names"] = (re.compile(r"<U[0-9]{1,4}"), (sums.ensemble.n_features,))
    patterns.pop("drop", None)
    if running_loss:
        patterns["drop"] = (np.dtype(np.float64), (sums.ensemble.n_features + 1,))
    return patterns


def _refuse_others(members: dict[str, ZipInfo], patterns: dict[str, Pattern]) -> None:
    optional = {"squares", "leaf_counts", "leaves_kept", "rows_counted"}
    lacking = patterns.keys() - optional - members.keys() | {SEAL} - members.keys()
    unknown = members.keys() - patterns.keys() - {"about", SEAL}
    if lacking or unknown:
        name = min(lacking or unknown)
        raise _Damage(f"its array {name!r} is {'missing' if lacking else 'none that debias writes'}")
    there = {"leaf_counts", "leaves_kept", "rows_counted"} & members.keys()
    if there and len(there) < 3:
        raise _Damage("what it counted in the leaves is not whole")


def _array(stored: ZipFile, info: ZipInfo, pattern: Pattern) -> NDArray[Any]:
    """Read an array, if its head and size are what they should be."""
    of, wanted = pattern
    name = info.filename.removesuffix(".npy")
    with stored.open(info) as member:
        head = io.BytesIO(member.read(min(info.file_size, 10_240)))
        if np.lib.format.read_magic(head) != (1, 0):
            raise _Damage(f"its array {name!r} is of another version of numpy's format")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(head)
        right = dtype.kind == "U" and of.fullmatch(dtype.str) if isinstance(of, re.Pattern) else dtype == of
        fits = len(shape) == len(wanted) and all(
            size in each if isinstance(each, range) else size == each for size, each in zip(shape, wanted, strict=True)
        )
        if not right or not fits or by_column and len(shape) > 1:
            raise _Damage(f"its array {name!r} is not what this model has")
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if head.tell() + size != info.file_size:
            raise _Damage(f"its array {name!r} is longer or shorter than it says")
        data = head.read() + member.read()
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _refuse_out_of_range(state: dict[str, NDArray[Any]], sums: NodeSums) -> None:
    """Refuse values that no rows give: a forged file has the right digest."""
    for name, array in state.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _Damage(f"its array {name!r} has values that are not finite")
    for name in ("n", "q", "squares", "totals", "leaf_counts"):
        if name in state and state[name].min(initial=0.0) < 0:
            raise _Damage(f"its array {name!r} has values below 0")
    n_rows, weight, *of_these = state["totals"]
    if n_rows != np.floor(n_rows) or n_rows >= 2**53 or any(n != np.floor(n) or n > n_rows for n in of_these):
        raise _Damage("its numbers of rows are none")
    ensemble = sums.ensemble
    leaves = np.flatnonzero(ensemble.left < 0)
    of_tree = np.add.reduceat(state["n"], np.searchsorted(leaves, ensemble.tree_start[:-1]))
    if (np.abs(of_tree - weight) > 1e-6 * weight).any():
        raise _Damage("the weights in its leaves do not add up to that of its rows")
    if "rows_counted" in state:
        counted = int(state["rows_counted"])
        if not 0 <= counted <= n_rows or len(state["leaves_kept"]) != min(counted, ROWS_KEPT):
            raise _Damage("its numbers of rows contradict each other")
        LeafCounter(ensemble, keep=ROWS_KEPT).restore(state)  # which refuses numbers of leaves there are not


def _digest(arrays: dict[str, NDArray[Any]]) -> str:
    """Return SHA-256 of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


_WHAT_TO_DO = "Take a copy of it that is whole, or add the rows up again with debias.NodeSums(model).update(X, y)"
