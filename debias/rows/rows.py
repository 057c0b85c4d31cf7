"""Evaluation rows: X, y and weights, which tree may see which row, and the one pass over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.rows.node_totals import NodeTotals
from debias.rows.paths import Paths
from debias.rows.running_loss import running_loss
from debias.trees.routing import Router, route, row_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.data.response import Response
    from debias.data.table import Table
    from debias.rows.node_sums import NodeSums
    from debias.rows.provenance import Provenance
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag


@dataclass(eq=False, kw_only=True)
class EvaluationRows:
    """Evaluation rows, in memory or in batches: what every scorer of trees may read.

    Attributes
    ----------
    ensemble : TreeEnsemble
    model : object
        The user's model, routed by its own library.
    kind : {"oob", "held-out", "train"}
    provenance : Provenance
        What was proven about the rows.
    in_bag : InBag or None
        The bags, for kind "oob".
    train : Rows or None
        The training rows beside held-out ones, where the user gave them.
    seed : int or None
        For scorers that draw.
    n_jobs : int
        Threads to route with.
    """

    ensemble: TreeEnsemble
    model: Any
    kind: str
    provenance: Provenance
    in_bag: InBag | None = None
    train: Rows | None = None
    seed: int | None = None
    n_jobs: int = 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        raise NotImplementedError

    @property
    def n_evaluated(self) -> int:
        """Number of rows with a weight above 0, less those without weight in training, which are in no evaluation."""
        raise NotImplementedError

    @property
    def node_sums(self) -> NodeTotals:
        """Sums over these rows at every node; a row counts in a tree only where it was not in its bag."""
        raise NotImplementedError

    @property
    def running_loss(self) -> NDArray[np.float64]:
        """Loss saved at the splits of each feature as margins run from F_0 to F_M, and in the last place by root steps.

        Weighted mean over the rows, shape (n_features + 1,). For additive ensembles.

        Raises
        ------
        CompositionError
            The loss is an objective of the user's own, or the rows are out-of-bag: no row then sees all trees, and
            there is no margin to run.
        """
        raise NotImplementedError

    def refuse_running_loss(self) -> NoReturn:
        """Raise a CompositionError that says why there is no running loss."""
        raise CompositionError(
            "oob_loss is not defined on the out-of-bag rows of an additive model: no row is out of every bag. "
            "Pass rows the model has not seen, with rows='held-out', or use mdi_oob"
            if self.in_bag is not None
            else f"oob_loss needs the loss this {self.ensemble.source} was trained for, and only the gradient of "
            "an objective of your own is known; use mdi_oob"
        )

    @property
    def can_run_loss(self) -> bool:
        """Whether `running_loss` is defined for these rows."""
        return self.ensemble.objective.has_loss and self.in_bag is None

    @property
    def in_bag_weight(self) -> NDArray[np.float64]:
        """In-bag weight n_t of every node, stored or recomputed, shape (n_nodes,); raises as `in_bag_mean`."""
        return self._in_bag_sums.n if self.ensemble.weight is None else self.ensemble.weight

    @cached_property
    def in_bag_mean(self) -> NDArray[np.float64]:
        """In-bag mean response mu_t (less the centre) of every node, shape (n_nodes, width).

        Stored where leaf values are means; otherwise recomputed from the training rows, which have to be there.

        Raises
        ------
        RowsError
            The model stores none and there are no training rows to recompute them from.
        """
        if self.ensemble.weight is not None and self.ensemble.mean_values:
            return self.ensemble.centred_value
        n, s = self._in_bag_sums.n[:, None], self._in_bag_sums.s
        return np.divide(s, n, out=np.zeros_like(s), where=n > 0)

    @cached_property
    def _in_bag_sums(self) -> NodeTotals:
        ensemble = self.ensemble
        source: Any = self if self.kind == "oob" else self.train
        if source is None:
            how = "the training rows themselves (rows='oob'), or " if ensemble.averaged else ""
            raise RowsError(
                f"this score needs in-bag weights and means of the nodes, which a {ensemble.source} does not store; "
                f"pass {how}train=(X_train, y_train) beside held-out rows so that they can be recomputed, or use "
                "mdi_oob, oob_split or oob_loss, which need none"
            )
        sums = source.node_sums if source.in_bag is None else in_bag_sums(source, source.in_bag)
        if ensemble.weight is not None and not np.allclose(sums.n, ensemble.weight, rtol=1e-6):
            raise RowsError(
                f"the training rows do not have the weight that the nodes of this {ensemble.source} store. If it was "
                "trained with weights of rows or classes, pass train=(X_train, y_train, weight) with their product; if "
                "each tree was grown on a part of the rows, use mdi_oob, oob_split or oob_loss: they need no such sums"
            )
        return sums


@dataclass(eq=False, kw_only=True)
class Rows(EvaluationRows):
    """Evaluation rows in memory.

    Attributes
    ----------
    ensemble, model, kind, provenance, in_bag, train, seed, n_jobs
        As for :class:`EvaluationRows`.
    table : Table
        X, columns in the model's order.
    response : Response
    weight : array of float64 of shape (n_rows,)
        Evaluation weights; ones if the user gave none.
    data : Data or None
        The same rows as data-only scorers see them, if there are such scorers in this run.
    blocks : array of int64 of shape (n_rows,), or None
        Block of each row, numbered from 0, where rows of one block depend on one another.
    """

    table: Table
    response: Response
    weight: NDArray[np.float64]
    data: Data | None = None
    blocks: NDArray[np.int64] | None = None
    with_running_loss: bool = field(default=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    @property
    def n_evaluated(self) -> int:
        """As for any rows."""
        counts = self.weight > 0
        if self.in_bag is not None and self.in_bag.excluded is not None:
            counts &= ~self.in_bag.excluded
        return int(counts.sum())

    @cached_property
    def node_sums(self) -> NodeTotals:
        """As for any rows; they are added up in one pass."""
        return self._pass[0]

    @cached_property
    def running_loss(self) -> NDArray[np.float64]:
        """As for any rows; it is added up in the pass over the rows."""
        if not self.can_run_loss:
            self.refuse_running_loss()
        self.with_running_loss = True
        drop = self._pass[1]
        if drop is None:  # the pass was made before anyone asked for the loss
            del self.__dict__["_pass"]
            drop = self._pass[1]
        assert drop is not None
        return drop / self.weight.sum()

    @cached_property
    def paths(self) -> Paths:
        """Slot of every row in every tree, kept for the passes that follow the first; 2 or 4 bytes a row and tree."""
        return Paths.of(self)

    @cached_property
    def _pass(self) -> tuple[NodeTotals, NDArray[np.float64] | None]:
        """Route every row once, in blocks, and add up all that the scorers of this run need."""
        sums = NodeTotals(self.ensemble)
        if not (self.with_running_loss and self.can_run_loss):
            for rows, router in self.blocks_to_route():
                sums.add_routed(router, self.response, self.weight[rows], rows)
            return sums, None
        drop = np.zeros(self.ensemble.n_features + 1)
        for rows, leaves in self.leaf_blocks():
            sums.add(leaves, self.response, self.weight[rows], rows)
            self.add_running_loss(leaves, rows, drop)
        return sums, drop

    def refuse_faulty(self) -> None:
        """Raise a RowsError if rows have values the model does not take, and some would be added before it shows."""
        parts = row_blocks(self.n_rows, self.ensemble.n_features, self.ensemble.n_trees)
        for rows in parts if len(parts) > 1 else []:
            self.table.matrix(self.ensemble, rows)

    def leaf_blocks(self) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Go through blocks of rows: which they are, and their leaf in every tree; -1 where they do not count."""
        trees = np.arange(self.ensemble.n_trees)
        for rows, router in self.blocks_to_route(trees.size):
            yield rows, router.leaves(trees)

    def blocks_to_route(self, n_leaves: int = 1) -> Iterator[tuple[slice, Router]]:
        """Go through blocks of rows of whose leaves so many are kept: which they are, and what routes them."""
        for rows in row_blocks(self.n_rows, self.ensemble.n_features, n_leaves):
            skip = None if self.in_bag is None else self.in_bag.bits_not_evaluated(rows.start, rows.stop)
            yield rows, Router(self.ensemble, self.table.matrix(self.ensemble, rows), skip, self.n_jobs)

    def add_running_loss(self, leaves: NDArray[np.int32], rows: slice, drop: NDArray[np.float64]) -> None:
        """Add the loss that a block of rows saves at the splits of each feature, and at root steps, to `drop`."""
        drop += running_loss(self.ensemble, self.response.part(rows), self.weight[rows], leaves, self.n_jobs)


def in_bag_sums(rows: Rows, in_bag: InBag) -> NodeTotals:
    """Return node sums over the in-bag rows of each tree, with the weights they had there."""
    ensemble = rows.ensemble
    sums = NodeTotals(ensemble)
    X = rows.table.matrix(ensemble)
    for tree in range(ensemble.n_trees):
        which = np.array([tree])
        weight = in_bag.draw(tree)
        leaves = route(ensemble, X, trees=which, in_bag=(weight == 0)[None, :])
        sums.add(leaves, rows.response, weight, trees=which)
    return sums


class SummedRows(EvaluationRows):
    """Evaluation rows that came in batches: only their sums are kept.

    Parameters
    ----------
    sums : NodeSums
        Over all rows.
    model, kind, provenance, in_bag, train, seed
        As for :class:`EvaluationRows`.
    """

    def __init__(
        self,
        sums: NodeSums,
        model: Any,
        kind: str,
        provenance: Provenance,
        in_bag: InBag | None,
        train: Rows | None,
        seed: int | None,
    ) -> None:
        super().__init__(
            ensemble=sums.ensemble,
            model=model,
            kind=kind,
            provenance=provenance,
            in_bag=in_bag,
            train=train,
            seed=seed,
            n_jobs=sums.n_jobs,
        )
        self.sums = sums

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.sums.n_rows

    @property
    def n_evaluated(self) -> int:
        """As for any rows."""
        return self.sums.n_evaluated

    @property
    def node_sums(self) -> NodeTotals:
        """As for any rows; they were added up batch by batch."""
        return self.sums

    @property
    def running_loss(self) -> NDArray[np.float64]:
        """As for any rows."""
        saved = self.sums.running_loss
        if not self.can_run_loss:
            self.refuse_running_loss()
        if saved is None:
            raise CompositionError(
                "these node sums have no running loss added up: make them with debias.NodeSums(model, "
                "running_loss=True) before the first row"
            )
        return saved / self.sums.total_weight

    def __getattr__(self, name: str) -> Any:
        if name in ("table", "response", "weight", "paths", "data", "blocks"):
            raise CompositionError(
                "this scorer looks at the rows one by one, and rows that come in batches are not kept: pass X and y in "
                "memory, or a sample of them. Scores of node sums can be streamed: mdi, mdi_oob, ufi, oob_split, "
                "oob_loss"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
