"""Permuted copies of columns, with the same dtype, categories and missing values, and with unique names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.plugin import permuted_positions

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PREFIX = "shadow_"


def names_of_copies(names: tuple[str, ...]) -> dict[str, str]:
    """Return a name for the copy of each column, mapped to the column. No column begins with the prefix of the names.

    Examples
    --------
    >>> names_of_copies(("x", "shadow_x"))
    {'shadow_shadow_x': 'x', 'shadow_shadow_shadow_x': 'shadow_x'}
    """
    prefix = PREFIX
    while any(name.startswith(prefix) for name in names):
        prefix += PREFIX
    return {prefix + name: name for name in names}


def with_copies(
    rng: np.random.Generator, copies: dict[str, str], share: float = 1.0, jointly: bool = False
) -> Callable[..., Any]:
    """Return a function that adds permuted copies of columns.

    For a ranker it permutes them within each query: only differences of its rows matter, and a copy with values of
    other queries would differ more within a query than the column does. The copy of a column that is the same in all
    rows of each query has the values of other queries, because it would otherwise be the column itself.

    Parameters
    ----------
    rng : Generator
    copies : dict of str to str
        Names of the copies and of their columns, from :func:`names_of_copies`.
    share : float
        Share of the rows, drawn at random, whose values are permuted among each other. Other rows keep their values.
    jointly : bool
        Permute whole rows, so the copies have the same correlations as the columns.
    """

    def change(frame: pd.DataFrame, query: NDArray[np.int64] | None = None) -> pd.DataFrame:
        import pandas as pd

        orders = _Orders(rng, len(frame), query, share, jointly)
        # By name: the frame may have its columns in another order than the model, and more of them.
        place = {str(name): k for k, name in enumerate(frame.columns)}
        columns = [frame.iloc[:, place[name]] for name in copies.values()]
        shuffled = {copy: column.take(orders.of(column)).array for copy, column in zip(copies, columns, strict=True)}
        both = pd.concat([frame, pd.DataFrame(shuffled, index=frame.index)], axis=1)
        return both.set_axis([*map(str, frame.columns), *copies], axis=1)

    return change


def with_permuted(rng: np.random.Generator, columns: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function that permutes the rows of some columns jointly, and does not change the others.

    For a ranker it permutes them within each query, as :func:`with_copies` does.
    """

    def change(frame: pd.DataFrame, query: NDArray[np.int64] | None = None) -> pd.DataFrame:
        orders = _Orders(rng, len(frame), query, jointly=True)
        changed = frame.copy()
        for k, name in enumerate(frame.columns):
            if str(name) in columns:
                column = frame.iloc[:, k]
                changed.isetitem(k, column.take(orders.of(column)).array)
        return changed

    return change


@dataclass(eq=False)
class _Orders:
    """The random orders of rows in which columns are permuted.

    Parameters
    ----------
    rng : Generator
    n_rows : int
    query : array of int64 of shape (n_rows,), or None
        Queries from 0, for a ranker.
    share : float
        Share of the rows, or of the queries for a column that has one value a query, that are permuted.
    jointly : bool
        Whether all columns have the same order: one for columns of rows, and one for columns of queries.
    """

    rng: np.random.Generator
    n_rows: int
    query: NDArray[np.int64] | None
    share: float = 1.0
    jointly: bool = False
    drawn: dict[bool, NDArray[np.int64]] = field(default_factory=dict)

    def of(self, column: pd.Series) -> NDArray[np.int64]:
        """Return the order for a column."""
        of_queries = self.query is not None and _is_same_within(column, self.query)
        if not self.jointly or of_queries not in self.drawn:
            self.drawn[of_queries] = self._order(of_queries)
        return self.drawn[of_queries]

    def _order(self, of_queries: bool) -> NDArray[np.int64]:
        if self.query is None:
            return self._some(self.n_rows, self.rng.permutation)
        if of_queries:
            first = np.unique(self.query, return_index=True)[1]
            return first[self._some(first.size, self.rng.permutation)][self.query]
        query = self.query
        return self._some(self.n_rows, lambda which: which[permuted_positions(self.rng, query[which])])

    def _some(self, n: int, permuted: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return numbers from 0 to n - 1, a share of which is permuted."""
        order = np.arange(n)
        which = self.rng.choice(n, size=max(1, round(self.share * n)), replace=False) if self.share < 1 else order
        order[which] = permuted(which)
        return order


def _is_same_within(column: pd.Series, query: NDArray[np.int64]) -> bool:
    """Whether a column has one value in all rows of each query; missing values are one value."""
    import pandas as pd

    codes = pd.factorize(column)[0]
    return bool((codes == codes[np.unique(query, return_index=True)[1]][query]).all())
