"""Rows drawn at random from a source of rows, to have them in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.data.chosen_rows import taken
from debias.data.dataset import as_frame
from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.data.batches import Source


class SampledRows(NamedTuple):
    """Rows of a source in memory, in its order.

    Parameters
    ----------
    X, y, weight
        As the source gives them; None if there are no weights.
    n_passed : int
        Number of rows of the source.
    """

    X: Any
    y: Any
    weight: Any
    n_passed: int


def sampled(source: Source, most: int, seed: int | None) -> SampledRows:
    """Return at most `most` rows of a source, drawn at random: all of them if it has no more.

    Parameters
    ----------
    source : Source
    most : int
    seed : int or None
        The same seed draws the same rows, however they are cut into batches. None is seed 0.

    Raises
    ------
    RowsError
        The source has no rows.
    """
    rng = np.random.default_rng(0 if seed is None else seed)
    parts: list[tuple[NDArray[np.float64], Any]] = []
    n_passed, limit = 0, np.inf
    for batch in source:
        keys = rng.random(len(batch.y))  # the rows with the smallest ones are kept
        n_passed += keys.size
        parts += _below(limit, [(keys, batch)])
        if sum(part_keys.size for part_keys, _ in parts) > 2 * most:
            limit = _limit(parts, most)
            parts = _below(limit, parts)
    if not parts:
        raise RowsError("the source has no rows")
    chosen = [batch for _, batch in _below(_limit(parts, most), parts)]
    X, y, weight = (_joined([batch[k] for batch in chosen]) for k in range(3))
    return SampledRows(X, y, weight, n_passed)


def _limit(parts: Sequence[tuple[NDArray[np.float64], Any]], most: int) -> float:
    """Return the largest key of the rows that are kept."""
    keys = np.concatenate([part_keys for part_keys, _ in parts])
    return float(np.partition(keys, most - 1)[most - 1]) if keys.size > most else np.inf


def _below(limit: float, parts: Sequence[tuple[NDArray[np.float64], Any]]) -> list[tuple[NDArray[np.float64], Any]]:
    """Return the rows with keys up to a limit."""
    kept = []
    for keys, batch in parts:
        at = np.flatnonzero(keys <= limit)
        if at.size == keys.size:
            kept.append((keys, batch))
        elif at.size:
            kept.append((keys[at], type(batch)(*(taken(values, at) for values in batch))))
    return [part for part in kept if part[0].size]


def _joined(parts: list[Any]) -> Any:
    """Return the rows of all parts in one container; None if the parts are None."""
    first = parts[0]
    if first is None or len(parts) == 1:
        return first
    if hasattr(first, "tocsr"):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    if hasattr(first, "columns") or hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat([part if hasattr(part, "iloc") else as_frame(part) for part in parts])
    return np.concatenate([np.asarray(part) for part in parts])
