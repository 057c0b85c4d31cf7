"""Evaluation rows: X, y and weights, the rows that each tree may use, and the single pass over them.

Over 500 lines: the attributes that scorers may read are described here, in memory and in batches, and one pass over
the rows fills them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from debias.errors import CompositionError, RowsError, with_article
from debias.results.vocabulary import RowsKind
from debias.rows.dependent_columns import used_columns
from debias.rows.effects import LinearEffects
from debias.rows.node_totals import NodeTotals
from debias.rows.paths import Paths
from debias.rows.running_loss import running_loss
from debias.trees.leaf_lines import add_lines
from debias.trees.routing import Router, add_leaf_values, route, row_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.data.response import Response
    from debias.data.table import Table
    from debias.rows.node_sums import NodeSums
    from debias.rows.provenance import Provenance
    from debias.rows.shared_pass import SharedPass
    from debias.rows.streams import Stream
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

LEAVES_KEPT = 2**24
"""Leaves of rows in trees that are kept at once, in 64 MB."""


@dataclass(eq=False, kw_only=True)
class EvaluationRows(ABC):
    """Evaluation rows, in memory or in batches: the attributes that every scorer of trees may read.

    Attributes
    ----------
    ensemble : TreeEnsemble
    model : object
        The model that the user passed.
    kind : {"oob", "held-out", "train"}
    provenance : Provenance
        What is known about the rows.
    in_bag : InBag or None
        The bags, for kind "oob".
    train : Rows or None
        The training rows, if the user passed them in addition to held-out rows.
    seed : int or None
        Seed for scorers that draw random numbers.
    n_jobs : int
        Number of threads.
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
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def n_evaluated(self) -> int:
        """Number of rows with a weight above 0, without those that no tree is evaluated on.

        These are rows in every bag, and rows that had no weight in training.
        """

    @property
    @abstractmethod
    def node_sums(self) -> NodeTotals:
        """Sums over these rows at every node; a row is used for a tree only if it was not in the bag of the tree."""

    @property
    @abstractmethod
    def running_loss(self) -> NDArray[np.float64]:
        """Loss saved at the splits of each feature while margins run from F_0 to F_M; the last entry is by root steps.

        Weighted mean over the rows, shape (n_features + 1,). For additive ensembles.

        Raises
        ------
        CompositionError
            The objective is a function of the user, or the rows are out-of-bag rows: no row then has a margin of all
            trees.
        """

    def refuse_running_loss(self) -> NoReturn:
        """Raise a CompositionError that says why there is no running loss."""
        objective = self.ensemble.objective
        unscored = objective.why_unscored(has_queries=True)
        if unscored is not None:
            raise CompositionError(unscored)
        if self.ensemble.has_lines:
            raise CompositionError(
                f"the leaves of this {self.ensemble.source} have lines, so its loss is not that of the values of "
                "leaves: use mdi_oob"
            )
        if not objective.has_loss:
            raise CompositionError(
                f"oob_loss needs the loss of each row of this {self.ensemble.source}, and {objective.no_loss}: use "
                "mdi_oob"
            )
        raise CompositionError(
            "oob_loss is not defined on the out-of-bag rows of an additive model, because no row is out of every bag. "
            "Pass rows the model has not seen, with rows='held-out', or use mdi_oob"
        )

    @property
    def can_run_loss(self) -> bool:
        """Whether `running_loss` is defined for these rows."""
        return self.ensemble.objective.has_loss and self.in_bag is None and not self.ensemble.has_lines

    @property
    def in_bag_weight(self) -> NDArray[np.float64]:
        """In-bag weight n_t of every node, stored or recomputed, shape (n_nodes,); raises the same as `in_bag_mean`."""
        return self._in_bag_sums.n if self.ensemble.weight is None else self.ensemble.weight

    @cached_property
    def in_bag_mean(self) -> NDArray[np.float64]:
        """In-bag mean response mu_t (less the centre) of every node, shape (n_nodes, width).

        It is stored in the model if leaf values are means. Otherwise it is recomputed from the training rows.

        Raises
        ------
        RowsError
            The model does not store the means, and there are no training rows to recompute them from.
        """
        if self.ensemble.weight is not None and self.ensemble.mean_values:
            return self.ensemble.centred_value
        n, s = self._in_bag_sums.n[:, None], self._in_bag_sums.s
        return np.divide(s, n, out=np.zeros_like(s), where=n > 0)

    @cached_property
    def _in_bag_sums(self) -> NodeTotals:
        ensemble = self.ensemble
        source: Any = self if self.kind == RowsKind.OOB else self.train
        if source is None:
            how = "the training rows themselves (rows='oob'), or " if ensemble.averaged else ""
            raise RowsError(
                f"this score needs in-bag weights and means of the nodes, which {with_article(ensemble.source)} does "
                f"not store. Pass {how}train=(X_train, y_train) together with held-out rows, so that they can be "
                "recomputed; or use mdi_oob, oob_split or oob_loss, which do not need them"
            )
        sums = source.node_sums if source.in_bag is None else in_bag_sums(source, source.in_bag)
        if ensemble.weight is not None and not np.allclose(sums.n, ensemble.weight, rtol=1e-6):
            raise RowsError(
                f"the training rows do not have the weights that the nodes of this {ensemble.source} store. If it was "
                "trained with weights of rows or classes, pass train=debias.Dataset(X_train, y_train, "
                "sample_weight=...) with their product. If each tree was grown on a part of the rows, use mdi_oob, "
                "oob_split or oob_loss, which need no such sums"
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
        X, with the columns in the order of the model.
    response : Response
    weight : array of float64 of shape (n_rows,)
        Evaluation weights; ones if the user passed none.
    data : Data or None
        The same rows for scorers of data, if there are such scorers in this run.
    blocks : array of int64 of shape (n_rows,), or None
        Block of each row, numbered from 0. Rows of one block depend on one another.
    query : array of int64 of shape (n_rows,), or None
        Query of each row, for rankers. All rows of a query are in one block.
    needs_sums, needs_loss : bool
        Whether scorers of this run need node sums, and the running loss: a pass over the rows then finds both.
    shared : SharedPass or None
        A pass over these rows that their proof has begun, of an additive model without bags.
    is_kept : array of bool of shape (n_passed,), or None
        Which of the rows that were passed these are, if rows of weight 0 were left out; None if they are all.
    """

    table: Table
    response: Response
    weight: NDArray[np.float64]
    data: Data | None = None
    blocks: NDArray[np.int64] | None = None
    query: NDArray[np.int64] | None = None
    needs_sums: bool = False
    needs_loss: bool = False
    shared: SharedPass | None = None
    is_kept: NDArray[np.bool_] | None = None
    _effects: tuple[tuple[float, float, int], LinearEffects] | None = None
    _used_columns: tuple[float, tuple[NDArray[np.int64], NDArray[np.bool_]]] | None = None
    _found_leaves: list[tuple[slice, NDArray[np.int32]]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.weight = np.ascontiguousarray(self.weight, dtype=np.float64)
        if self.weight.shape != (self.n_rows,) or self.response.n_rows != self.n_rows:
            raise RowsError(
                f"X has {self.n_rows} rows, the response {self.response.n_rows}, and weight shape {self.weight.shape}: "
                "each row must have a response and a weight"
            )
        if self.table.shape[1] != self.ensemble.n_features:
            raise RowsError(f"X has {self.table.shape[1]} features, but the trees have {self.ensemble.n_features}")
        bags, expected = self.in_bag, (self.n_rows, self.ensemble.n_trees)
        if bags is not None and (bags.n_rows, bags.n_trees) != expected:
            raise RowsError(
                f"in_bag has {bags.n_rows} rows and {bags.n_trees} trees, but there are {expected[0]} rows and "
                f"{expected[1]} trees"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    def part(self, positions: NDArray[np.int64]) -> Rows:
        """Return some of these rows, which are not out-of-bag rows, as rows of their own.

        Parameters
        ----------
        positions : array of int64
            Ascending.
        """
        is_kept = np.zeros(self.n_rows if self.is_kept is None else self.is_kept.size, dtype=bool)
        is_kept[positions if self.is_kept is None else np.flatnonzero(self.is_kept)[positions]] = True
        blocks, query = (
            None if labels is None else np.unique(labels[positions], return_inverse=True)[1]
            for labels in (self.blocks, self.query)
        )
        return replace(
            self,
            table=self.table.part(self.ensemble, positions),
            response=self.response.part(positions),
            weight=self.weight[positions],
            data=None,
            blocks=blocks,
            query=query,
            shared=None,
            is_kept=is_kept,
            _effects=None,
            _used_columns=None,
        )

    def with_weight(self) -> tuple[Rows, ...]:
        """Return the rows of a batch without those of weight 0, which say nothing; an empty tuple if all are such rows.

        The same rows if bags know the rows by their place.
        """
        used = np.flatnonzero(self.weight)
        if self.in_bag is not None or used.size == self.n_rows or not self.response.is_scored:
            return (self,)
        if not used.size:
            return ()
        table = self.table.part(self.ensemble, used)
        return (replace(self, table=table, response=self.response.part(used), weight=self.weight[used]),)

    def as_passed(self, of_rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers of these rows at the places of the rows that were passed; 0 for those that were left out."""
        if self.is_kept is None:
            return of_rows
        of_passed = np.zeros((self.is_kept.size, *of_rows.shape[1:]))
        of_passed[self.is_kept] = of_rows
        return of_passed

    @property
    def n_evaluated(self) -> int:
        """See :class:`EvaluationRows`."""
        is_evaluated = self.weight > 0
        if self.in_bag is not None:
            is_evaluated &= ~self.in_bag.never_evaluated()
        return int(is_evaluated.sum())

    @cached_property
    def node_sums(self) -> NodeTotals:
        """See :class:`EvaluationRows`; the sums are computed in one pass."""
        sums, _ = self._passed(sums=True, loss=self.needs_sums and self._runs_loss)
        assert sums is not None
        return sums

    @cached_property
    def running_loss(self) -> NDArray[np.float64]:
        """See :class:`EvaluationRows`; the loss is computed in one pass."""
        if not self.can_run_loss:
            self.refuse_running_loss()
        _, drop = self._passed(sums=self.needs_sums, loss=True)
        assert drop is not None
        return drop

    @cached_property
    def margins(self) -> NDArray[np.float64] | None:
        """Raw output for each row: the margin of a boosted model, or the mean over trees that a row is out of bag for.

        Shape (n_rows, n_outputs); NaN for rows that are in every bag, or that are not used. None for out-of-bag rows of
        an additive model, which have no output of all trees.
        """
        ensemble = self.ensemble
        if self.in_bag is not None and not ensemble.averaged:
            return None
        raw = np.zeros((self.n_rows, ensemble.n_outputs))
        self._passed(sums=self.needs_sums, loss=self._runs_loss, raw=raw)
        if ensemble.has_lines:
            for rows, router in self.blocks_to_route(ensemble.n_trees):
                add_lines(ensemble, router.X, router.leaves(np.arange(ensemble.n_trees)), raw[rows])
        if ensemble.averaged:
            with np.errstate(invalid="ignore"):  # NaN without any tree
                raw /= self._n_trees_of_rows()[:, None]
        raw += ensemble.base
        return raw if self.response.margin is None else raw - ensemble.base + self.response.margin

    def know_margins(self, margins: NDArray[np.float64]) -> None:
        """Keep :attr:`margins` that another pass over the rows has found."""
        self.__dict__["margins"] = margins  # where cached properties are

    @property
    def _runs_loss(self) -> bool:
        return self.needs_loss and self.can_run_loss

    def _passed(
        self, *, sums: bool, loss: bool, raw: NDArray[np.float64] | None = None
    ) -> tuple[NodeTotals | None, NDArray[np.float64] | None]:
        """Return node sums and running loss, and add the values of leaves to `raw`, all from one pass over the rows.

        What the pass finds is kept: routing takes most of the time, so a pass finds all that scorers need.
        """
        kept = self.__dict__  # where cached properties are
        totals = kept.get("node_sums", NodeTotals(self.ensemble)) if sums else None
        drop = kept.get("running_loss", np.zeros(self.ensemble.n_features + 1)) if loss else None
        adds_sums, adds_loss = sums and "node_sums" not in kept, loss and "running_loss" not in kept
        if self.shared is not None and (adds_sums or raw is not None):
            of_shared, outputs = self.shared.finished()
            if raw is not None:
                raw += outputs
                raw = None
            if adds_sums and of_shared is not None:
                totals, adds_sums = of_shared, False
        if adds_loss:
            assert drop is not None
            for rows, leaves in self.leaf_blocks():
                if adds_sums and totals is not None:
                    totals.add(leaves, self.response, self.weight[rows], rows, n_jobs=self.n_jobs)
                self.add_running_loss(leaves, rows, drop)
                if raw is not None:
                    add_leaf_values(self.ensemble, leaves, raw[rows])
            drop /= self.weight.sum()
        elif adds_sums or raw is not None:
            trees, found = np.arange(self.ensemble.n_trees), []
            keep = self.in_bag is not None and self.n_rows * trees.size <= LEAVES_KEPT
            for rows, router in self.blocks_to_route(keep=keep):
                part = None if raw is None else raw[rows]
                if adds_sums and totals is not None:
                    totals.add_routed(router, self.response, self.weight[rows], rows, part)
                elif part is not None:
                    router.add_outputs(trees, part)
                if router.found is not None:
                    found.append((rows, router.found))
            self._found_leaves = found or None
        kept.update({name: made for name, made in (("node_sums", totals), ("running_loss", drop)) if made is not None})
        return totals, drop

    def _n_trees_of_rows(self) -> NDArray[np.int64]:
        """Return the number of trees that each row is used for."""
        number = np.full(self.n_rows, self.ensemble.n_trees)
        if self.in_bag is not None:
            for rows in row_blocks(self.n_rows, self.ensemble.n_features):
                number[rows] -= self.in_bag.not_evaluated(rows.start, rows.stop).sum(axis=0)
        return number

    @cached_property
    def paths(self) -> Paths:
        """Slot of every row in every tree, kept for later passes; it takes 2 or 4 bytes per row and tree."""
        return Paths.of(self)

    def linear_effects(self, *, min_node_size: float, shrinkage: float, bins: int) -> LinearEffects:
        """Return linear effects of these rows, see :class:`debias.rows.effects.LinearEffects`; the last are kept."""
        options = (min_node_size, shrinkage, bins)
        if self._effects is None or self._effects[0] != options:
            effects = LinearEffects.of(self, min_node_size=min_node_size, shrinkage=shrinkage, bins=bins)
            self._effects = (options, effects)
        return self._effects[1]

    def used_columns(self, least_correlation: float) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return columns with splits and which pairs depend on one another, see :func:`used_columns`; kept."""
        if self._used_columns is None or self._used_columns[0] != least_correlation:
            found = used_columns(self.ensemble, self.table.matrix(self.ensemble), least_correlation)
            self._used_columns = (least_correlation, found)
        return self._used_columns[1]

    def refuse_faulty(self) -> None:
        """Raise a RowsError if the model does not take some values, before the first of several blocks is added."""
        parts = row_blocks(self.n_rows, self.ensemble.n_features, self.ensemble.n_trees)
        for rows in parts if len(parts) > 1 else []:
            self.table.matrix(self.ensemble, rows)

    def leaf_blocks(self) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Yield blocks of rows: their position, and their leaf in every tree; -1 if a row is not used for the tree."""
        if self._found_leaves is not None:
            yield from self._found_leaves
            return
        trees = np.arange(self.ensemble.n_trees)
        for rows, router in self.blocks_to_route(trees.size):
            yield rows, router.leaves(trees)

    def leaves_in(self, trees: slice) -> NDArray[np.int32]:
        """Return the leaf of each row in some trees, shape (n_rows, n_trees); -1 if a row is not used for the tree."""
        if self._found_leaves is not None and len(self._found_leaves) == 1:
            return self._found_leaves[0][1][:, trees]
        chosen = np.arange(self.ensemble.n_trees)[trees]
        leaves = np.empty((chosen.size, self.n_rows), dtype=np.int32)
        for rows in row_blocks(self.n_rows, self.ensemble.n_features, chosen.size):
            skip = None if self.in_bag is None else self.in_bag.bits_not_evaluated(rows.start, rows.stop)[trees]
            router = Router(self.ensemble, self.table.matrix(self.ensemble, rows), skip, self.n_jobs)
            leaves[:, rows] = router.leaves(chosen).T
        return leaves.T

    def blocks_to_route(self, n_leaves: int = 1, *, keep: bool = False) -> Iterator[tuple[slice, Router]]:
        """Yield blocks of rows: their position and their router; `n_leaves` leaves of each row are kept in memory.

        `keep` is as for :class:`Router`.
        """
        for rows in row_blocks(self.n_rows, self.ensemble.n_features, n_leaves):
            skip = None if self.in_bag is None else self.in_bag.bits_not_evaluated(rows.start, rows.stop)
            yield rows, Router(self.ensemble, self.table.matrix(self.ensemble, rows), skip, self.n_jobs, keep=keep)

    def add_running_loss(self, leaves: NDArray[np.int32], rows: slice, drop: NDArray[np.float64]) -> None:
        """Add to `drop` the loss that a block of rows saves at the splits of each feature and by root steps."""
        drop += running_loss(self.ensemble, self.response.part(rows), self.weight[rows], leaves, self.n_jobs)


def in_bag_sums(rows: Rows, in_bag: InBag) -> NodeTotals:
    """Return node sums over the in-bag rows of each tree, with their weights in the bag."""
    ensemble = rows.ensemble
    sums = NodeTotals(ensemble)
    X = rows.table.matrix(ensemble)
    for tree in range(ensemble.n_trees):
        one_tree = np.array([tree])
        weight = in_bag.draw(tree)
        # The argument has the rows to leave out: here those that are not in the bag.
        leaves = route(ensemble, X, trees=one_tree, in_bag=(weight == 0)[None, :])
        sums.add(leaves, rows.response, weight, trees=one_tree)
    return sums


class SummedRows(EvaluationRows):
    """Evaluation rows that came in batches: only their sums are kept.

    Parameters
    ----------
    sums : NodeSums
        Sums over all rows.
    model, kind, provenance, in_bag, train, seed
        As for :class:`EvaluationRows`.
    digest : str
        A digest of the rows, or of the sums if there is none.
    stream : Stream, optional
        Reads the rows again.
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
        digest: str,
        stream: Stream | None = None,
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
        self.sums, self.digest, self._stream = sums, digest, stream

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.sums.n_rows

    @property
    def n_evaluated(self) -> int:
        """See :class:`EvaluationRows`."""
        return self.sums.n_evaluated

    @property
    def node_sums(self) -> NodeTotals:
        """See :class:`EvaluationRows`; the sums were computed batch by batch."""
        return self.sums

    @property
    def running_loss(self) -> NDArray[np.float64]:
        """See :class:`EvaluationRows`."""
        saved = self.sums.running_loss
        if not self.can_run_loss:
            self.refuse_running_loss()
        if saved is None:
            raise CompositionError(
                "these node sums have no running loss. Make new ones with debias.NodeSums(model, running_loss=True), "
                "and add the rows again"
            )
        return saved / self.sums.total_weight

    def summed(self, function: Callable[[Iterable[Rows]], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the sum of a function over all rows, which are read again.

        Parameters
        ----------
        function : callable
            Takes batches of rows, perhaps none. Rows in partitions send it to their workers.
        """
        assert self._stream is not None
        return self._stream.summed(self, function)

    def __getattr__(self, name: str) -> Any:
        if name in ("table", "response", "weight", "paths", "data", "blocks", "linear_effects"):
            raise CompositionError(
                "this scorer needs the rows themselves, and rows that come in batches are not kept: pass X and y in "
                "memory, or a sample of them. Scores that need only node sums take batches: mdi, mdi_oob, ufi, "
                "oob_split, oob_loss"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
