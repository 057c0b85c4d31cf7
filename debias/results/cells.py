"""Cells of tables: figures as a reader wants them, by the name of their column, and which columns fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.text import UNKNOWN, percent_in_table

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADING = {
    "share": "debiased share",
    "standard_error": "standard error, splits fixed",
    "p_adjusted": "adjusted p",
    "informative_folds": "informative folds",
    "lowest_rank": "lowest rank",
    "highest_rank": "highest rank",
}
FIRST = ("verdict", "selected", "share", "reported", "p_adjusted", "informative_folds", "z", "dependence")
"""The most important columns. Where there is little room, the others give way first, the last one before the rest."""


def cells(name: str, values: object) -> list[str]:
    """Format a column of an audit or of scores for a reader, by its name."""
    return [UNKNOWN if cell == "nan" else cell for cell in FORMAT.get(name, _figures)(values)]


def columns_that_fit(widths: Mapping[str, int], room: int) -> list[str]:
    """Return the columns that fit, in their order. The most important one is kept in any case.

    Parameters
    ----------
    widths : mapping of str to int
        The columns from left to right, with the room that each takes.
    room : int

    Examples
    --------
    >>> columns_that_fit({"reported": 10, "share": 10, "mdi_oob": 10, "verdict": 20}, room=45)
    ['reported', 'share', 'verdict']
    """
    by_importance = [name for name in FIRST if name in widths] + [name for name in widths if name not in FIRST]
    kept, left = set(by_importance[:1]), room - sum(widths[name] for name in by_importance[:1])
    for name in by_importance[1:]:
        left -= widths[name]
        if left < 0:
            break
        kept.add(name)
    return [name for name in widths if name in kept]


def _p_values(values: object) -> list[str]:
    return ["< 0.001" if value < 0.001 else f"{value:.3f}" for value in np.asarray(values, dtype=np.float64)]


def _z(values: object) -> list[str]:
    return [f"{value + 0.0:.2f}" for value in np.round(np.asarray(values, dtype=np.float64), 2)]


def _words(values: object) -> list[str]:
    return [str(value) for value in np.asarray(values, dtype=object)]


def _yes(values: object) -> list[str]:
    return ["yes" if value else "" for value in np.asarray(values, dtype=bool)]


def _percent(values: object) -> list[str]:
    return [percent_in_table(value) for value in np.asarray(values, dtype=np.float64)]


def _counts(values: object) -> list[str]:
    return [f"{value:,}" for value in np.asarray(values, dtype=np.int64)]


def _figures(values: object) -> list[str]:
    """Format a column with the same number of decimals everywhere: the largest entry has four digits."""
    array = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    if largest == 0:
        return [f"{value:g}" for value in array + 0.0]
    decimals = 3 - int(np.floor(np.log10(largest)))
    if decimals > 8:
        return [f"{value:.3e}" for value in array]
    return [f"{value + 0.0:,.{max(0, decimals)}f}" for value in np.round(array, max(0, decimals))]


FORMAT = {
    "reported": _percent,
    "share": _percent,
    "z": _z,
    "p_value": _p_values,
    "p_adjusted": _p_values,
    "shift": _z,
    "shift_p_adjusted": _p_values,
    "shifted": _yes,
    "verdict": _words,
    "dependence": _words,
    "dependence_p_adjusted": _p_values,
    "selected": _yes,
    "rank": _counts,
    "lowest_rank": _counts,
    "highest_rank": _counts,
    "informative_folds": _counts,
    "folds": _counts,
}
