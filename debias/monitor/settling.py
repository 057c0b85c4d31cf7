"""Which of the rows that wait for their responses have them now, as far as sums tell.

The rows themselves are not kept. What is compared is how many of them are in each leaf of each tree, and how many have
new categories. If some rows are among others, no leaf has more of the former. Counts are sums of weights, so rows with
weights cannot be compared with the same rows without. Then their numbers decide, unless rows are in leaves that have
none of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    Counts = Mapping[str, NDArray[Any]]

AGREE = 1e-9
"""Sums over the same rows agree to this relative error, whatever the order of the rows."""
PER_LEAF = ("n", "unseen")
ADD_UP = (*PER_LEAF, "totals", "weights")
"""Arrays of the state of :class:`debias.rows.period_sums.PeriodSums` that are read here. They add up over rows."""


def n_rows(state: Counts) -> int:
    """Return the number of rows of a state."""
    return int(state["totals"][0])


def together(states: Iterable[Counts]) -> Counts:
    """Return the counts of several states, of which there is at least one, together."""
    listed = list(states)
    return {name: np.sum([each[name] for each in listed], axis=0) for name in ADD_UP}


def within(some: Counts, rows: Counts) -> bool | None:
    """Return whether some rows are among others, as far as counts tell; None if only numbers of rows tell.

    Rows that are as many as the others are among them if they are the same.
    """
    if n_rows(some) > n_rows(rows):
        return False
    same_number = n_rows(some) == n_rows(rows)
    fits = all(_at_most(some[name], rows[name], exactly=same_number) for name in PER_LEAF)
    weighted = [_has_weights(each) for each in (some, rows)]
    if not any(weighted):
        return fits
    if all(weighted) and fits:
        return True
    if weighted[0] or same_number:  # rows of weight 0 are in no leaf, so rows with weights may have fewer leaves
        one, other = (some, rows) if weighted[0] else (rows, some)
        if ((one["n"] > 0) & (other["n"] == 0)).any():
            return False
    return None


def answered(waits: Counts, parts: Iterable[Counts]) -> tuple[int, bool]:
    """Return how many rows of a waiting part have responses, and whether counts tell it (else only numbers of rows do).

    Parameters
    ----------
    waits : state
        Sums of the part.
    parts : iterable of states
        Parts of its period with responses. Those whose rows are not among the ones that wait are left out. No row is
        counted twice: each part takes its rows from those that are left. The largest come first.
    """
    left, sure = waits, True
    for part in sorted(parts, key=n_rows, reverse=True):
        found = False if within(part, waits) is False else within(part, left)
        if found is not False:
            sure = sure and found is True
            left = {name: left[name] - part[name] for name in ADD_UP}
    return n_rows(waits) - n_rows(left), sure


def _has_weights(state: Counts) -> bool:
    """Return whether a row has another weight than 1: else rows, weights and squares of weights have the same sum."""
    number, (weight, squares) = state["totals"][0], (state["totals"][1], state["weights"][1])
    return bool(max(abs(weight - number), abs(squares - number)) > AGREE * number)


def _at_most(some: NDArray[np.float64], rows: NDArray[np.float64], *, exactly: bool) -> bool:
    margin = AGREE * np.abs(rows).max(initial=0.0)
    difference = some - rows
    return bool((np.abs(difference) if exactly else difference).max(initial=0.0) <= margin)
