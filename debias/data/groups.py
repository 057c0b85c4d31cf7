"""Groups of features that are judged as one: their scores are summed before any null is formed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which features are summed.

    Parameters
    ----------
    names : tuple of str
        Names of the groups, single features among them, in the order of their first feature.
    index : array of int64 of shape (n_features,)
        Group of each feature.
    """

    names: tuple[str, ...]
    index: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Any, feature_names: tuple[str, ...]) -> Grouping:
        """Make groups of a mapping from group names to feature names; features not named stay as they are.

        Raises
        ------
        RowsError
            `groups` is no such mapping, or names a feature that does not exist or twice.
        """
        if groups is None:
            return cls(feature_names, np.arange(len(feature_names)))
        if not isinstance(groups, Mapping):
            raise RowsError("groups must be a mapping from the name of each group to the names of its columns")
        owner: dict[str, str] = {}
        known = set(feature_names)
        for group, members in groups.items():
            single = isinstance(members, str) or not isinstance(members, Iterable)
            for member in [members] if single else members:
                if str(member) not in known:
                    hint = nearest(str(member), feature_names)
                    raise RowsError(f"group {group!r} has a column {member!r} that the model does not know.{hint}")
                if str(member) in owner:
                    raise RowsError(f"column {member!r} is in the groups {owner[str(member)]!r} and {group!r}")
                owner[str(member)] = str(group)
        label = [owner.get(name, name) for name in feature_names]
        clash = sorted(set(owner.values()) & {name for name in feature_names if name not in owner})
        if clash:
            raise RowsError(f"group {clash[0]!r} has the name of a column that is not in it; rename the group")
        names = tuple(dict.fromkeys(label))
        place = {name: k for k, name in enumerate(names)}
        return cls(names, np.array([place[each] for each in label], dtype=np.int64))

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return figures of features summed by group, shape (n_groups,)."""
        return np.bincount(self.index, weights=values, minlength=len(self.names)).astype(np.float64)

    def sum_columns(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return figures of shape (n_rows, n_features) summed by group, shape (n_rows, n_groups)."""
        summed = np.zeros((len(values), len(self.names)))
        for feature, group in enumerate(self.index):
            summed[:, group] += values[:, feature]
        return summed

    def after(self, first: Grouping) -> Grouping:
        """Return the groups of what `first` has summed: `self` is about its groups."""
        return Grouping(self.names, self.index[first.index])
