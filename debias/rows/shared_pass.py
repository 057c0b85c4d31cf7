"""One pass over the rows of a boosted model for two questions: whether they are training rows, and what they score.

The first needs the margins before some of the trees, and the second the margins after all trees, and sums at the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.data.table import RoutedTable
from debias.rows.node_totals import NodeTotals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble


class SharedPass:
    """Rows that are led through the trees of an additive model, in turn, and added up on their way.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
    response : Response
    weight : array of float64 of shape (n_rows,)
    needs_sums : bool
        Whether the rows are added up at the nodes.
    """

    def __init__(
        self, ensemble: TreeEnsemble, table: Table, response: Response, weight: NDArray[np.float64], needs_sums: bool
    ) -> None:
        self._routed: RoutedTable | None = RoutedTable(ensemble, table)
        self._ensemble, self._response, self._weight = ensemble, response, weight
        self._totals = (
            NodeTotals(ensemble) if needs_sums and response.is_scored and response.values is not None else None
        )
        self._raw, self._n_trees = np.zeros((table.n_rows, ensemble.n_outputs)), 0

    @property
    def routed(self) -> RoutedTable:
        """The rows, whose leaves can be asked for until the pass is finished."""
        assert self._routed is not None
        return self._routed

    def first_outputs(self, n_trees: int) -> NDArray[np.float64]:
        """Return the sum of the values of the leaves in the first trees, shape (n_rows, n_outputs).

        The array changes with the next call, whose number of trees must not be smaller.
        """
        trees = np.arange(self._n_trees, n_trees)
        if not trees.size:
            return self._raw
        for rows, router in self.routed.routers():
            router.encode_for(self._ensemble.n_trees)
            if self._totals is None:
                router.add_outputs(trees, self._raw[rows])
            else:
                self._totals.add_routed(router, self._response, self._weight[rows], rows, self._raw[rows], trees)
        self._n_trees = n_trees
        return self._raw

    def finished(self) -> tuple[NodeTotals | None, NDArray[np.float64]]:
        """Return the sums at the nodes, if they were needed, and the outputs of all trees."""
        raw = self.first_outputs(self._ensemble.n_trees)
        self._routed = None  # its rows take memory
        return self._totals, raw
