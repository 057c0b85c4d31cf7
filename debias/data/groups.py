"""Groups of features that are scored as one: their scores are summed before the null distribution is formed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray


LOG_OF_MEAN = "log_of_mean"
"""True in the details of a scorer whose scores are logs of what has a mean over the columns of a group."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """The assignment of features to groups.

    Parameters
    ----------
    names : tuple of str
        Names of the groups in the order of their first feature. A feature without a group is a group of its own.
    index : array of int64 of shape (n_features,)
        Group of each feature.
    """

    names: tuple[str, ...]
    index: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Any, feature_names: tuple[str, ...]) -> Grouping:
        """Return the grouping for a mapping from group names to feature names; other features stay single.

        Raises
        ------
        RowsError
            `groups` is not such a mapping, names a feature that does not exist or a feature twice, or a group is empty.
        """
        if groups is None:
            return cls(feature_names, np.arange(len(feature_names)))
        if not isinstance(groups, Mapping):
            raise RowsError("groups must be a mapping from the name of each group to the names of its columns")
        group_of: dict[str, str] = {}
        known = set(feature_names)
        for group, members in groups.items():
            single = isinstance(members, str) or not isinstance(members, Iterable)
            of_group = [members] if single else list(members)
            if not of_group:
                raise RowsError(f"group {group!r} has no columns: name some, or leave the group out")
            for member in of_group:
                if str(member) not in known:
                    hint = nearest(str(member), feature_names)
                    raise RowsError(f"group {group!r} has a column {member!r} that the model does not know.{hint}")
                if str(member) in group_of:
                    raise RowsError(f"column {member!r} is in the groups {group_of[str(member)]!r} and {group!r}")
                group_of[str(member)] = str(group)
        labels = [group_of.get(name, name) for name in feature_names]
        clash = sorted(group for group in set(group_of.values()) & known if group_of.get(group) != group)
        if clash:
            raise RowsError(f"group {clash[0]!r} has the name of a column that is not in it; rename the group")
        names = tuple(dict.fromkeys(labels))
        position = {name: k for k, name in enumerate(names)}
        return cls(names, np.array([position[label] for label in labels], dtype=np.int64))

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values of features summed by group, shape (n_groups,)."""
        return np.bincount(self.index, weights=values, minlength=len(self.names)).astype(np.float64)

    def log_of_mean(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logs of the means by group of values whose logs are given, shape (n_groups,); 0 without any."""
        found = np.zeros(len(self.names))
        for group in np.unique(self.index):
            own = logs[self.index == group]
            found[group] = np.logaddexp.reduce(own) - np.log(own.size)
        return found

    @property
    def only_column(self) -> NDArray[np.int64]:
        """The only feature of each group, -1 for a group without any or with several."""
        found = np.full(len(self.names), -1, dtype=np.int64)
        found[self.index] = np.arange(self.index.size)
        found[np.bincount(self.index, minlength=len(self.names)) > 1] = -1
        return found

    @property
    def column_of(self) -> NDArray[np.int64] | None:
        """The only feature of each group, -1 for a group without any; None if a group has several."""
        if (np.bincount(self.index, minlength=len(self.names)) > 1).any():
            return None
        return self.only_column

    def sum_columns(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values of shape (n_rows, n_features) summed by group, shape (n_rows, n_groups)."""
        if np.array_equal(self.index, np.arange(len(self.names))):
            return values + 0.0
        summed = np.zeros((len(values), len(self.names)))
        for feature, group in enumerate(self.index):
            summed[:, group] += values[:, feature]
        return summed

    def after(self, first: Grouping) -> Grouping:
        """Return the grouping of features that applies `first`, and then this grouping to the groups of `first`."""
        return Grouping(self.names, self.index[first.index])
