"""Categories that the transformers before the trees never saw, such as a shop that is new to a one-hot encoder.

The trees do not see them: most encoders give such a row the values of no category, or of an average one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.chosen_rows import rows_of
from debias.data.dataset import as_frame
from debias.errors import RowsError, UnsupportedModelError
from debias.text import listed, percent

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.models.wrappers import Layer, Member
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

NUMERIC = "biufcmM"
"""Kinds of types whose values are no categories."""


def note_unseen(
    member: Member, ensemble: TreeEnsemble, table: Table, log: WarningLog, used: NDArray[np.int64] | None = None
) -> None:
    """Note in a table which of its rows have categories that the transformers of the member never saw, and warn.

    Parameters
    ----------
    member : Member
    ensemble : TreeEnsemble
        Its trees, which callers have read already.
    table : Table
        Rows as the trees see them.
    log : WarningLog
    used : array of int64, optional
        Positions of the rows of the table among those of the member; by default all.
    """
    after: dict[int, Any] = {k: labels.tolist() for k, labels in (ensemble.category_labels or {}).items()}
    made: dict[int, int] | None = None
    for number, layer in reversed(list(enumerate(member.layers))):
        frame = _frame_of(member, layer, number, table.n_rows, used)
        try:
            made = _first_made(layer, made)
        except UnsupportedModelError:  # only scores of the columns of the trees can be had
            made = {}
        after, own = ({}, {}) if layer.labels is None else (dict(layer.labels(after)), dict(layer.labels({})))
        if frame is None:
            if number == 0 and _has_columns(layer.X):
                table.uncounted = ("X",)
            continue
        for k, labels in own.items():
            if labels is not None and k in made and k < frame.shape[1]:
                _compare(frame.iloc[:, k], labels, made[k], table, log)
        if number == 0:
            table.uncounted = tuple(
                str(frame.columns[k])
                for k in sorted(made)
                if k < frame.shape[1] and after.get(k) is None and frame.dtypes.iloc[k].kind not in NUMERIC
            )


def _frame_of(
    member: Member, layer: Layer, number: int, n_rows: int, used: NDArray[np.int64] | None
) -> pd.DataFrame | None:
    """Return the rows of a table as the transformers of a layer see them; None if these cannot be told."""
    X = layer.X
    if not _has_columns(X):
        return None
    if member.positions is not None and len(X) > member.positions.size:
        X = rows_of(X, member.positions)
    if used is not None:
        X = rows_of(X, used)
    try:
        frame = as_frame(X)
    except RowsError:  # of a kind that scikit-learn takes, such as masked arrays
        return None
    if len(frame) != n_rows:
        return None
    if number == 0 and set(member.sources) <= set(frame.columns):
        return frame[list(member.sources)]
    return frame


def _has_columns(X: Any) -> bool:
    """Whether these rows have columns that may be categories: not a sparse matrix, which has numbers, and not texts."""
    if X is None or hasattr(X, "tocsr"):
        return False
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], list | tuple | np.ndarray)
    return len(getattr(X, "shape", ())) == 2


def _first_made(layer: Layer, later: dict[int, int] | None) -> dict[int, int]:
    """Return for each column of a layer the first column of the trees that is made of it.

    `later` is the same for the columns that the layer makes; None if these are the columns of the trees.
    """
    found: dict[int, int] = {}
    for column, sources in enumerate(layer.traced()):
        place = column if later is None else later.get(column)
        if place is not None:
            for source in sources:
                found.setdefault(source, place)
    return found


def _compare(values: pd.Series, labels: list[Any], place: int, table: Table, log: WarningLog) -> None:
    import pandas as pd

    number, distinct = pd.factorize(values)  # -1 where missing
    known = set(labels)
    unknown = [k for k, value in enumerate(distinct) if value not in known]
    if not unknown:
        return
    is_unseen = np.isin(number, unknown)
    before = table.unseen_before.get(place)
    table.unseen_before[place] = is_unseen if before is None else before | is_unseen
    examples = listed([repr(distinct[k]) for k in unknown])
    log.warn(
        f"column {str(values.name)!r} has values that a step before the trees never saw ({examples}, in "
        f"{percent(is_unseen.mean())} of the rows); that step decides what the trees see of them"
    )
