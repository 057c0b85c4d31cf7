"""Sums over evaluation rows at every node, from which the node scores are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError
from debias.parallel import over_parts, worth
from debias.trees.routing import checked_leaves, checked_trees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.routing import Router


class NodeTotals:
    """Weighted count, response sum and sum of squares of the rows that reach each node.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees at whose nodes the rows are summed.
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self.ensemble = ensemble
        self._one_hot = ensemble.averaged and ensemble.is_classifier
        self._n = np.zeros(ensemble.n_nodes)
        self._s = np.zeros(ensemble.value.shape)
        self._q = np.zeros(0 if self._one_hot else ensemble.n_nodes)
        # Rows are added at their leaves only; the nodes above are summed up when they are first read.
        self._summed_up = True

    def add(
        self,
        leaves: NDArray[np.int32],
        response: Response,
        weight: NDArray[np.float64],
        rows: slice = slice(None),
        trees: NDArray[np.int64] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        """Add rows whose leaves are known to the sums.

        Parameters
        ----------
        leaves : array of int32 of shape (n_rows, n_trees)
            Leaf of each row within each tree; -1 if the row is not used for the tree.
        response : Response
        weight : array of float64 of shape (n_rows,)
        rows : slice
            The position of these rows in `response`.
        trees : array of int64, optional
            The trees of the columns of `leaves`; all by default.
        n_jobs : int, optional
            Number of threads, over trees; by default as many as are allowed. It does not change the sums.

        Raises
        ------
        RowsError
            Arrays have other shapes, or name trees, leaves or classes that do not exist. Then nothing was added.
        """
        from debias.rows.kernels import sums as kernels

        ensemble = self.ensemble
        trees = np.arange(ensemble.n_trees) if trees is None else checked_trees(ensemble, trees)
        weight = np.ascontiguousarray(weight, dtype=np.float64)
        leaves = checked_leaves(ensemble, leaves, trees, weight.size, least=-1)
        added = self._checked_response(response.part(rows), weight)

        def add_part(part: slice) -> None:
            where = (leaves[:, part], trees[part], ensemble.tree_start)
            if self._one_hot:
                kernels.add_codes(*where, added, weight, self._n, self._s)
            else:
                kernels.add_values(*where, ensemble.tree_output, added, weight, self._n, self._s, self._q)

        over_parts(trees.size, add_part, n_jobs, worth(trees.size, leaves.size))
        self._summed_up = False

    def _checked_response(self, response: Response, weight: NDArray[np.float64]) -> NDArray[Any]:
        """Return what is added of a response: its codes or its values."""
        n_outputs = self.ensemble.n_outputs
        kind, added = ("codes", response.codes) if self._one_hot else ("values", response.values)
        shape = weight.shape if self._one_hot else (*weight.shape, n_outputs)
        if added is None:
            raise RowsError(f"the response has no {kind}, which the sums of this {self.ensemble.source} add up")
        if weight.ndim != 1 or added.shape != shape:
            raise RowsError(
                f"weight has shape {weight.shape}, and {kind} of the response {added.shape}: each row must have a "
                f"weight and {'a code' if self._one_hot else f'{n_outputs} values'}"
            )
        if self._one_hot and added.size and not 0 <= added.min() <= added.max() < n_outputs:
            raise RowsError(f"codes of the response must be from 0 to {n_outputs - 1}")
        return added

    def add_routed(
        self,
        router: Router,
        response: Response,
        weight: NDArray[np.float64],
        rows: slice = slice(None),
        raw: NDArray[np.float64] | None = None,
        trees: NDArray[np.int64] | None = None,
    ) -> None:
        """Route rows through all trees and add them to the sums; other parameters are as for :meth:`add`.

        `raw` (n_rows, n_outputs), if given, gets the values of the leaves of these rows, tree by tree. Of an additive
        model, `trees` may be some of the trees.
        """
        if self._one_hot:
            assert response.codes is not None
            router.add_codes(response.codes[rows], weight, self._n, self._s, raw)
        else:
            assert response.values is not None
            router.add_values(response.values[rows], weight, self._n, self._s, self._q, raw, trees)
        self._summed_up = False

    @property
    def n(self) -> NDArray[np.float64]:
        """n'_t: weighted number of rows at each node, shape (n_nodes,)."""
        self._sum_up()
        return self._n

    @property
    def s(self) -> NDArray[np.float64]:
        """Weighted sum of the response (less the ensemble's centre) at each node, shape (n_nodes, width)."""
        self._sum_up()
        return self._s

    @property
    def q(self) -> NDArray[np.float64]:
        """Weighted sum of squares of the same response at each node, shape (n_nodes,)."""
        self._sum_up()
        return self._n if self._one_hot else self._q  # a one-hot row has square 1

    @property
    def n_root(self) -> NDArray[np.float64]:
        """Weighted number of rows each tree was evaluated on, shape (n_trees,)."""
        return self.n[self.ensemble.tree_start[:-1]]

    def _sum_up(self) -> None:
        if self._summed_up:
            return
        from debias.trees.kernels import nodes as kernels

        ensemble = self.ensemble
        arrays = (ensemble.left, ensemble.right, self._n, self._s, self._q)
        over_parts(
            ensemble.n_trees,
            lambda trees: kernels.sum_up(ensemble.tree_start[trees.start : trees.stop + 1], *arrays),
            at_least=ensemble.trees_worth,
        )
        self._summed_up = True
