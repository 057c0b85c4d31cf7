"""Honest splits: the value, on unseen rows, of the best split of every feature at every node of a fitted forest.

The features of a tree compete for each split. A feature that loses a node to a correlated or many-valued one leaves no
trace in scores of the existing splits. Here every feature gets its best split on the in-bag rows of each node, and that
split is evaluated on the rows the tree has not seen, as OOBForest does while it grows (Deng, Runger and Tuv 2011,
section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.hooks.scorers import scorer_plugin
from debias.hooks.specs import hookimpl
from debias.parallel import allowed
from debias.rows.binned import MOST_BINS, Binned
from debias.rows.effects import response_columns, training_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    Result = tuple[NDArray[np.float64], dict[str, Any]]


@scorer_plugin("honest_splits", unit="covariance of a feature's best splits and response", lines="left out")
def honest_splits(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    bins: int = 256,
    min_node_size: float = 5,
    shrinkage: float = 0.0,
) -> Result:
    """Return the covariance of each feature's best in-bag splits with the response on evaluation rows.

    The term of a node is ``n'_l n'_r / n'_t (m_l - m_r) . (m'_l - m'_r)``. Here m are the in-bag means of the two
    sides of the best split; m' and n' are the means and weights of the evaluation rows there. The terms are divided by
    the evaluation weight of the tree and summed over its nodes; then the trees are averaged. A feature that is
    independent of the response has mean 0: whatever split was chosen, its values on the evaluation rows are
    exchangeable.

    Parameters
    ----------
    bins : int
        Thresholds are tried between this many bins, with about equally many rows in each. A feature with at most this
        many distinct values has one bin per value, so its splits are exact.
    min_node_size : float
        Skip nodes with less in-bag weight. Their splits take time and are mostly noise.
    shrinkage : float
        Node terms are multiplied by n_t / (n_t + shrinkage), where n_t is the in-bag weight.

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores, and ``trees_without_rows``: the number of trees without evaluation rows, which are left out.

    Raises
    ------
    RowsError
        There are held-out rows but no training rows (pass ``train=``), or no rows that the trees have not seen.

    Notes
    -----
    The best split has the largest decrease of variance (of Gini impurity, for classes); among equal splits it is the
    one on smaller values. Missing values of numbers go to the side that is better in-bag; if no in-bag row of the node
    has a missing value, they go to the side with more rows. If the model splits a feature as categories, its levels are
    ordered by their mean response in the node, and a missing value is a level. For boosted models the response is r_0,
    the negative gradient at the margin before any tree, and the trees of each output are averaged: their values are not
    used.
    """
    check_options("honest_splits", bins, min_node_size, shrinkage)
    source = training_rows(rows, "honest_splits")
    table = Binned(ensemble, source.table.matrix(ensemble), bins)
    of_tree = _OfTree(ensemble, rows, source, table, float(min_node_size), float(shrinkage))
    with allowed(rows.n_jobs) as threads:  # the sum below is in the order of the trees
        of_trees = threads.map(of_tree, range(ensemble.n_trees), "trees")
    seen = np.array([scores is not None for scores in of_trees])
    if not seen.any():
        raise RowsError(
            "no row is out of bag in any tree, so there is nothing to evaluate on. Pass rows the model has not seen, "
            "with rows='held-out' and train=(X_train, y_train)"
        )
    output = ensemble.tree_output
    per_output = np.bincount(output[seen], minlength=ensemble.n_outputs)
    score = np.zeros(ensemble.n_features)
    for tree, scores in enumerate(of_trees):
        if scores is not None:
            score += scores / per_output[output[tree]]
    return score, {"trees_without_rows": int((~seen).sum())}


@hookimpl
def debias_scorers() -> Sequence[Scorer]:
    """Return the scorer of honest splits."""
    return [honest_splits]


def check_options(scorer: str, bins: int, min_node_size: float, shrinkage: float) -> None:
    """Raise a CompositionError if an option is out of range."""
    if isinstance(bins, bool) or not isinstance(bins, int) or not 2 <= bins <= MOST_BINS:
        raise CompositionError(f"{scorer}: bins={bins!r} must be a whole number from 2 to {MOST_BINS}")
    for name, value in (("min_node_size", min_node_size), ("shrinkage", shrinkage)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
            raise CompositionError(f"{scorer}: {name}={value!r} must be 0 or more, and finite")


class _OfTree:
    """Computes the scores of one tree, given its number; they are averaged later."""

    def __init__(
        self,
        ensemble: TreeEnsemble,
        rows: Rows,
        source: Rows,
        table: Binned,
        min_node_size: float,
        shrinkage: float,
    ) -> None:
        self.ensemble, self.rows, self.source, self.table = ensemble, rows, source, table
        self.min_node_size, self.shrinkage = min_node_size, shrinkage
        self.X_train = source.table.matrix(ensemble)
        self.y_train = response_columns(source)
        same = rows is source
        self.X = self.X_train if same else rows.table.matrix(ensemble)
        self.y = self.y_train if same else response_columns(rows)
        self.bins = table.train if same else table.of(self.X)

    def __call__(self, tree: int) -> NDArray[np.float64] | None:
        """Return the scores of a tree, shape (n_features,), or None if it has no evaluation rows."""
        from debias.scorers.kernels import honest_splits as kernels
        from debias.trees.routing import route

        ensemble, rows, source = self.ensemble, self.rows, self.source
        out = rows.weight
        if rows.in_bag is not None:
            out = np.zeros(rows.n_rows)
            evaluated = rows.in_bag.out_of_bag(tree)
            out[evaluated] = rows.weight[evaluated]
        if not out.any():
            return None
        inside = source.weight if source.in_bag is None else source.in_bag.draw(tree)
        nodes = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
        left, right = ensemble.left[nodes], ensemble.right[nodes]
        which = np.array([tree])
        leaves_in = route(ensemble, self.X_train, trees=which)[:, 0]
        leaves = leaves_in if rows is source else route(ensemble, self.X, trees=which)[:, 0]
        first = int(ensemble.tree_output[tree])
        all_classes = rows.response.values is None
        fed = slice(None) if all_classes else slice(first, first + ensemble.value.shape[1])
        score = np.zeros(ensemble.n_features)
        kernels.score_tree(
            left,
            (self.table.train, inside, _columns(self.y_train, fed), *kernels.arrange(leaves_in, inside, left, right)),
            (self.bins, out, _columns(self.y, fed), *kernels.arrange(leaves, out, left, right)),
            self.table.n_bins,
            self.table.categorical,
            self.min_node_size,
            self.shrinkage,
            score,
        )
        return score / out.sum()


def _columns(y: NDArray[np.float64], fed: slice) -> NDArray[np.float64]:
    return np.ascontiguousarray(y[:, fed])
