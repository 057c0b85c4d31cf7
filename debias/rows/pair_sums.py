"""Sums over the rows of a period from which follows how the response goes with what a model does with two features.

They are the sums of products of least squares: of functions of all columns, of the interactions of named pairs, and of
the residual. The functions and the interactions depend on the model alone: where a row goes both ways at a split, it
does so in the shares of the training rows. So the sums of several periods, parts and machines add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError
from debias.rows.interactions import parts
from debias.rows.threshold_functions import threshold_functions
from debias.trees.shapley import expected_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

OF_PAIRS = ("pairs", "pair_rows", "pair_sums")
"""Arrays of a state with the sums for pairs. Sums of earlier code, whose rest of the output had its constant, had other
names: they do not add up with these."""
MOST_COLUMNS = 400
"""Least squares with more columns are refused: a period would keep 80,000 sums for each output."""


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over rows for named pairs of features.

    Parameters
    ----------
    pairs : array of int64 of shape (n_pairs, 2)
        Columns of the user, the smaller number first.
    n_rows : float
        Number of rows in the sums.
    products : array of float64 of shape (n_outputs, n_columns * (n_columns + 1) / 2)
        Of two columns of the least squares and the weight of a row: the lower triangle of a matrix, row by row. The
        columns are a constant; functions of the columns of X; what the model does with each feature alone; the rest of
        its output, without its constant; the interactions of the pairs; and the residual. None (length 0) if some of
        the rows that were added up have no sums for any of the pairs.
    """

    pairs: NDArray[np.int64]
    n_rows: float
    products: Array

    def __add__(self, other: PairSums) -> PairSums:
        return PairSums(self.pairs, self.n_rows + other.n_rows, self.products + other.products)

    def __sub__(self, other: PairSums) -> PairSums:
        return PairSums(self.pairs, self.n_rows - other.n_rows, self.products - other.products)

    @property
    def complete(self) -> bool:
        """Whether the sums are over all rows that were added up."""
        return self.products.shape[1] > 0

    @property
    def n_columns(self) -> int:
        """Number of columns of the least squares, with the residual."""
        return _n_columns(self.products.shape[1])

    @property
    def matrix(self) -> Array:
        """The products, shape (n_outputs, n_columns, n_columns)."""
        full = np.zeros((len(self.products), self.n_columns, self.n_columns))
        row, column = np.tril_indices(self.n_columns)
        full[:, row, column] = full[:, column, row] = self.products
        return full

    def of(self, pairs: NDArray[np.int64]) -> PairSums:
        """Return the sums for some of these pairs: the interactions of the others belong to the rest of the output."""
        if np.array_equal(pairs, self.pairs):
            return self
        n_columns, n_own = self.n_columns, len(self.pairs)
        first = n_columns - 1 - n_own
        at = [first + k for k in _positions(pairs, self.pairs)]
        take = np.zeros((n_columns, first + len(at) + 1))
        take[:first, :first] = np.eye(first)
        take[[*at, -1], range(first, take.shape[1])] = 1.0
        take[np.setdiff1d(range(first, n_columns - 1), at), first - 1] = 1.0
        row, column = np.tril_indices(take.shape[1])
        return PairSums(pairs, self.n_rows, (take.T @ self.matrix @ take)[:, row, column])

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the sums as arrays, in the form in which a history stores them."""
        return dict(zip(OF_PAIRS, (self.pairs, np.array([self.n_rows]), self.products), strict=True))

    @classmethod
    def of_state(cls, state: Mapping[str, NDArray[Any]]) -> PairSums | None:
        """Return what :meth:`state` returned; None if a state has no sums for pairs."""
        if OF_PAIRS[0] not in state:
            return None
        pairs, n_rows, products = (state[name] for name in OF_PAIRS)
        return cls(pairs, float(n_rows[0]), products)


def added_pairs(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the sums for the pairs that both of two states have. They are not complete if there is no such pair.

    Rows of weight 0 need no sums.
    """
    found = [PairSums.of_state(state) for state in (one, other) if state["totals"][1]]
    known = [each for each in found if each is not None]
    if not known:
        return {}
    pairs = common_pairs([each.pairs for each in known])
    if len(known) < len(found) or not len(pairs) or not all(each.complete for each in known):
        return PairSums(known[-1].pairs, 0.0, np.zeros((len(known[0].products), 0))).state()
    first, *others = (each.of(pairs) for each in known)
    return sum(others, first).state()


def common_pairs(of_each: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the pairs that are in all of some arrays of pairs, in the order of the first."""
    first, *others = of_each
    kept = [all((pair == each).all(axis=1).any() for each in others) for pair in first]
    return first[kept]


def are_possible(state: Mapping[str, NDArray[Any]], n_outputs: int, n_groups: int) -> bool:
    """Return whether the arrays of a state for pairs can be such sums; True if it has none."""
    names = [name for name in OF_PAIRS if name in state]
    if not names:
        return True
    if len(names) < len(OF_PAIRS):
        return False
    pairs, n_rows, products = (state[name] for name in OF_PAIRS)
    if pairs.dtype != np.int64 or pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        return False
    ordered = (pairs[:, 0] >= 0) & (pairs[:, 0] < pairs[:, 1]) & (pairs[:, 1] < n_groups)
    if not ordered.all() or n_rows.dtype != np.float64 or n_rows.shape != (1,):
        return False
    if products.dtype != np.float64 or products.ndim != 2 or len(products) != n_outputs:
        return False
    if not products.shape[1]:
        return bool(n_rows[0] == 0)
    n_columns, length = _n_columns(products.shape[1]), products.shape[1]
    if n_columns * (n_columns + 1) // 2 != length or n_columns < len(pairs) + 3:
        return False
    diagonal = np.arange(n_columns) * (np.arange(n_columns) + 3) // 2
    return bool(0 <= n_rows[0] <= state["totals"][0] and (products[:, diagonal] >= 0).all())


def refuse_other_losses(ensemble: TreeEnsemble) -> None:
    """Raise a CompositionError if the response has no mean that the outputs of the trees add up to."""
    if ensemble.classes is None and (ensemble.averaged or ensemble.objective.name == "squared_error"):
        return
    what = "classes" if ensemble.classes is not None else f"the loss {ensemble.objective.name!r}"
    raise CompositionError(
        f"interactions are watched over time in models of numbers with squared errors, and this one has {what}: if the "
        "effect of a single feature changes there, so does what it does together with others. Leave interactions out, "
        "and test the rows of both windows with debias.interactions"
    )


def pair_sums(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    group: NDArray[np.int64],
    pairs: NDArray[np.int64],
    output: Array,
    residual: Array,
    weight: Array,
) -> PairSums:
    """Return the sums over rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : array of shape (n_rows, n_features)
        The float matrix on which the library routes.
    group : array of int64 of shape (n_features,)
        Column of the user that each feature of the trees is made from.
    pairs : array of int64 of shape (n_pairs, 2)
        Such columns, the smaller number first.
    output : array of shape (n_rows, n_outputs)
        Output of the trees, with any constant.
    residual : array of shape (n_rows, n_outputs)
        The response less the prediction.
    weight : array of shape (n_rows,)

    Raises
    ------
    CompositionError
        The model uses too many columns.
    """
    functions = threshold_functions(ensemble, X)
    used = np.unique(group[ensemble.feature[ensemble.splits]])
    n_columns = 3 + functions.shape[1] + used.size + len(pairs)
    if n_columns > MOST_COLUMNS:
        raise CompositionError(
            f"the model uses {used.size:,} columns, and interactions are watched beside functions of all of them: "
            f"{n_columns:,} functions and pairs are more than {MOST_COLUMNS}. Leave interactions out"
        )
    n, n_groups = training_weight(ensemble), int(group.max()) + 1
    sets = [*((g,) for g in used.tolist()), *map(tuple, pairs.tolist())]
    found = parts(ensemble, X, n, group, sets, n_groups)
    # Without the constant of the output, beside which three features together would be lost.
    rest = output - expected_output(ensemble) - found.sum(axis=1)
    row, column = np.tril_indices(n_columns)
    products = np.empty((ensemble.n_outputs, row.size))
    for c in range(ensemble.n_outputs):
        alone, together = found[:, : used.size, c], found[:, used.size :, c]
        columns = np.column_stack([np.ones(len(X)), functions, alone, rest[:, c], together, residual[:, c]])
        products[c] = (columns.T @ (weight[:, None] * columns))[row, column]
    return PairSums(pairs, float(len(X)), products)


def training_weight(ensemble: TreeEnsemble) -> Array:
    """Return the weight of the training rows at each node, as far as the model tells; zeros if it does not."""
    for known in (ensemble.weight, ensemble.count, ensemble.cover, ensemble.averaging_weight):
        if known is not None:
            return known.astype(np.float64)
    return np.zeros(ensemble.n_nodes)


def _positions(pairs: NDArray[np.int64], among: NDArray[np.int64]) -> list[int]:
    return [int(np.flatnonzero((among == pair).all(axis=1))[0]) for pair in pairs]


def _n_columns(length: int) -> int:
    """Return the size of the matrix whose lower triangle has this length."""
    return round((np.sqrt(8 * length + 1) - 1) / 2)
