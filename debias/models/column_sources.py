"""The columns of a model inside others, grouped by the columns of the user's X that they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.groups import Grouping
from debias.errors import UnsupportedModelError
from debias.text import listed

if TYPE_CHECKING:
    from debias.models.wrappers import Member

MOST_NAMED = 5
"""Largest number of columns of X in the name of a group of them."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A model around another one, which makes the columns of the inner model of its own columns.

    Parameters
    ----------
    columns : array of int64, sequence of tuples of int, or callable
        As in :class:`debias.hooks.wrapping.Inner`.
    X : array or data frame of shape (n_rows, n_features), or None
        Rows as the outer model sees them.
    """

    columns: Any
    X: Any

    def traced(self) -> list[tuple[int, ...]]:
        """Return for each column of the inner model the columns of the outer model that it is made of."""
        columns = self.columns(self.X) if callable(self.columns) else self.columns
        if isinstance(columns, np.ndarray):
            return [(k,) for k in columns.tolist()]
        return list(columns)


def grouping_by_source(member: Member) -> Grouping:
    """Return the grouping of the columns of a member by the columns of X that they come from.

    A column of X that is only part of groups is no group of its own; one that nothing is made of is.

    Raises
    ------
    UnsupportedModelError
        All columns are made of the same columns of X, the source of one is unknown, or names would not be unique.
    """
    columns = member.layers[0].traced()
    for layer in member.layers[1:]:
        columns = [tuple(sorted({k for j in made_of for k in columns[j]})) for made_of in layer.traced()]
    kinds = dict.fromkeys(columns)
    kind = " > ".join(member.path)
    if len(kinds) == 1 and len(columns[0]) > 1:
        raise UnsupportedModelError(
            f"{kind}: the transformers compute every column of the model from the same {len(columns[0])} columns of X "
            f"({listed([member.sources[k] for k in columns[0]])}), so scores cannot be divided among them. Pass "
            "level='model' to score the columns that the trees see"
        )
    if () in kinds:
        _refuse_unknown_source(member, columns)
        columns = [made_of or (0,) for made_of in columns]  # no tree splits on it, so its score is 0
    single = {made_of[0] for made_of in columns if len(made_of) == 1}
    shared = {k for made_of in columns if len(made_of) > 1 for k in made_of}
    groups: list[tuple[int, ...]] = [(k,) for k in range(len(member.sources)) if k in single or k not in shared]
    groups += [made_of for made_of in dict.fromkeys(columns) if len(made_of) > 1]
    names = [_joined([member.sources[k] for k in group]) for group in groups]
    place = {group: k for k, group in enumerate(groups)}
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UnsupportedModelError(
            f"{kind}: {twice!r} would name a column and a group of columns; rename the column, or pass level='model'"
        )
    return Grouping(tuple(names), np.array([place[made_of] for made_of in columns], dtype=np.int64))


def _joined(names: list[str]) -> str:
    """Return the name of a group of columns of X."""
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return " + ".join([*names[:MOST_NAMED], *more])


def _refuse_unknown_source(member: Member, columns: list[tuple[int, ...]]) -> None:
    """Refuse a column of unknown source, unless no tree splits on it."""
    ensemble = member.ensemble
    used = np.unique(ensemble.feature[ensemble.splits])
    unknown = [int(k) for k in used if k < len(columns) and not columns[k]]
    if unknown:
        names = member.feature_names or ensemble.feature_names
        raise UnsupportedModelError(
            f"{' > '.join(member.path)}: no column of X could be found that changes "
            f"{listed([repr(names[k]) for k in unknown])}, which the trees split on. Pass more rows, or level='model' "
            "to score the columns that the trees see"
        )
