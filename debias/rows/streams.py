"""Rows that come in batches: each batch is added to the sums at the nodes, then dropped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from debias.data.batches import Partitioned, Source
from debias.data.response import Response, warn_of_codes
from debias.data.row_order import refuse_other_order
from debias.data.sources import source_of
from debias.data.table import route_table
from debias.errors import CompositionError, InBagUnavailableError, RowsError
from debias.models.wrappers import is_wrapper, unwrap, without_shells
from debias.results.vocabulary import RowsKind
from debias.rows.bag_proof import proof_of, trees_to_prove
from debias.rows.node_sums import NodeSums, added
from debias.rows.preparation import TRAIN_WARNING, batch_rows, tell_of_stopping, training_rows
from debias.rows.provenance import Provenance, as_out_of_bag, without_bags
from debias.rows.recognition import recognised
from debias.rows.response_check import ROWS_AT_LEAST, warn_of_another_response
from debias.rows.rows import SummedRows
from debias.rows.supervised_steps import are_cross_fitted, as_out_of_bag_for_trees, of_cross_fitted
from debias.rows.unordered_digest import unordered_digest
from debias.rows.unseen_categories import note_unseen
from debias.warning_log import WarningLog, WarningLogOnce

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.batches import Batch
    from debias.models.wrappers import Member
    from debias.rows.request import Request
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

REPEATABLE = (
    "this source can be read only once. Pass a list of batches, an object that yields the batches each time it is "
    "iterated over, or a file"
)
_THE_SAME = "pass a source that gives the same rows each time"


class Stream(ABC):
    """The rows of one member of a model, which are added up at its nodes and not kept.

    Parameters
    ----------
    request : Request
    member : Member
    number : int
        Position of the member among those of the model.
    log : WarningLog
        Gets warnings about columns and about y.
    """

    def __init__(self, request: Request, member: Member, number: int, log: WarningLog) -> None:
        self.request, self.member, self.number, self.log = request, member, number, log
        self.response_warnings: tuple[str, ...] = ()
        """Warnings about y if the rows are held out, from the first batch with enough rows to check it."""

    @property
    @abstractmethod
    def once(self) -> bool:
        """Whether the rows can be read only once, or not at all."""

    def rows(self, with_running_loss: bool) -> SummedRows:
        """Return the sums over all rows at the nodes, with what is proven about the rows."""
        request = self.request
        in_bag, provenance = self._out_of_bag(self.member.ensemble) or (None, None)
        sums = self._sums(with_running_loss, in_bag)
        if not sums.n_rows:
            raise RowsError("there are no evaluation rows: none has a weight above 0")
        if not sums.total_weight > 0:
            raise RowsError("sample_weight must not be all zero")
        warn_of_codes(sums.ensemble, sums.n_rows, sums.n_of_first_label, self.log)
        kind: str = RowsKind.OOB
        if provenance is not None and self.member.supervised:
            provenance = as_out_of_bag_for_trees(self.member, request.rows, provenance, self.log)
        elif provenance is None and request.rows in ("auto", "held-out") and are_cross_fitted(self.member):
            kind, provenance = "held-out", of_cross_fitted(self.member, request.rows, self.log)
        elif provenance is None:
            counter = sums.counter
            member = self.member.with_sources(sums.ensemble)
            recognition = recognised(member, [] if counter is None else counter.counts(), sums.n_rows)
            kind, provenance = without_bags(member, recognition, request.rows, sums.n_rows, self.log)
        tell_of_stopping(sums.ensemble, self.log, may_be_these_rows=kind == RowsKind.HELD_OUT)
        if kind == RowsKind.TRAIN:
            self.log.warn(TRAIN_WARNING)
        if kind == RowsKind.HELD_OUT:
            for text in self.response_warnings:
                self.log.warn(text)
        train = None
        if self.member.train is not None:
            model, passed = self.member.model, self.member.train
            train = training_rows(
                sums.ensemble, model, passed, request.n_jobs, self.log, False, self.member.training_order
            )
        digest = self._digest(sums)
        return SummedRows(sums, self.member.model, kind, provenance, in_bag, train, request.seed, digest, self)

    def summed(self, rows: SummedRows, function: Callable[[Iterable[Rows]], Any]) -> Any:
        """See :meth:`debias.rows.rows.SummedRows.summed`; `rows` are those of the first pass."""
        raise CompositionError(f"this needs another pass over the rows, and {REPEATABLE}")

    def _out_of_bag(self, ensemble: TreeEnsemble) -> tuple[InBag, Provenance] | None:
        """Prove that the rows are the training rows in training order; return None if they may be others."""
        return None

    @abstractmethod
    def _sums(self, with_running_loss: bool, in_bag: InBag | None) -> NodeSums:
        """Return the sums over all rows."""

    @abstractmethod
    def _digest(self, sums: NodeSums) -> str:
        """Return a digest of the rows after the first pass; without a pass, one of the sums."""


class StreamOfSums(Stream):
    """Rows that were added up before, and cannot be read again. The parameters are those of :class:`Stream`."""

    once = True

    def _sums(self, with_running_loss: bool, in_bag: InBag | None) -> NodeSums:
        given: NodeSums = self.request.X
        return given

    def _digest(self, sums: NodeSums) -> str:
        return blake3(sums.state()["totals"].tobytes()).hexdigest()


class StreamOfBatches(Stream):
    """Rows that come in batches, in order.

    Parameters
    ----------
    source : Source
    request, member, number, log
        As for :class:`Stream`.
    """

    def __init__(
        self, source: Source | Partitioned, request: Request, member: Member, number: int, log: WarningLog
    ) -> None:
        super().__init__(request, member, number, log)
        self.source = source
        self.first_pass: tuple[int, str] | None = None
        """Number of rows and their digest in the first full pass; later passes must have the same."""

    @property
    def once(self) -> bool:
        """See :class:`Stream`."""
        return self.source.once

    def add_to(self, sums: NodeSums, in_bag: InBag | None = None) -> None:
        """Add the rows to sums; with bags, each row is added for the trees for which it was out of bag."""
        response_checked = in_bag is not None
        for rows in self._batches(sums.ensemble, in_bag):
            sums.ensemble = rows.ensemble
            for used in rows.with_weight():
                sums.add_rows(used)
                if not response_checked and used.n_rows >= ROWS_AT_LEAST:
                    response_checked, self.response_warnings = True, warnings_of_response(used)

    def summed(self, rows: SummedRows, function: Callable[[Iterable[Rows]], Any]) -> Any:
        """See :meth:`Stream.summed`."""
        batches = self._batches(rows.ensemble, rows.in_bag)
        return function(used for batch in batches for used in batch.with_weight())

    def _sums(self, with_running_loss: bool, in_bag: InBag | None) -> NodeSums:
        sums = NodeSums(self.member.model, running_loss=with_running_loss, n_jobs=self.request.n_jobs)
        self.add_to(sums, in_bag)
        return sums

    def _digest(self, sums: NodeSums) -> str:
        assert self.first_pass is not None
        return self.first_pass[1]

    def _encoder(self, ensemble: TreeEnsemble) -> _Encoder:
        outer = without_shells(self.request.model)
        return _Encoder(outer, self.number, self.member.model, ensemble, self.request.n_jobs)

    def _batches(self, ensemble: TreeEnsemble, in_bag: InBag | None = None) -> Iterator[Rows]:
        """Yield the rows of each batch, encoded."""
        assert isinstance(self.source, Source)
        begin, encoder, digest = 0, self._encoder(ensemble), blake3()
        for batch in self.source:
            in_bag_of_batch = None
            if in_bag is not None:
                if begin + len(batch.y) > in_bag.n_rows:
                    raise RowsError(
                        f"the source gives more than the {in_bag.n_rows} rows that were proven: {_THE_SAME}"
                    )
                in_bag_of_batch = in_bag.part(begin, begin + len(batch.y))
            try:
                rows = encoder.rows(batch, self.log, verify=not begin, in_bag=in_bag_of_batch)
            except RowsError as error:
                raise RowsError(f"in the batch that begins with row {begin}: {error}") from None
            encoder.ensemble = rows.ensemble
            _add_to(digest, rows)
            yield rows
            begin += len(batch.y)
        if self.first_pass is not None and self.first_pass != (begin, digest.hexdigest()):
            raise RowsError(
                f"the source gave other rows in a later pass than in the first ({begin} instead of "
                f"{self.first_pass[0]} rows, or other values, or another order): {_THE_SAME}"
            )
        self.first_pass = begin, digest.hexdigest()

    def _out_of_bag(self, ensemble: TreeEnsemble) -> tuple[InBag, Provenance] | None:
        rows = self.request.rows
        if rows not in ("auto", RowsKind.OOB):
            return None
        if not isinstance(self.source, Source):
            if rows == RowsKind.OOB:
                raise RowsError(
                    "rows='oob' needs the training rows in training order, and the rows of a Spark frame have none: "
                    "pass rows the model has not seen, or the training rows in memory or as a file"
                )
            return None
        if self.source.once:
            if rows == RowsKind.OOB:
                raise RowsError(f"rows='oob' needs two passes over the rows, and {REPEATABLE}")
            return None
        n_rows = self.source.n_rows
        if n_rows is None and (rows == RowsKind.OOB or ensemble.averaged):
            n_rows = sum(len(batch.y) for batch in self.source)
        may_be = ensemble.averaged and ensemble.n_train in (None, n_rows)
        if rows == "auto" and not may_be:
            return None
        assert n_rows is not None
        if ensemble.count is None:
            raise InBagUnavailableError(
                f"this {ensemble.source} does not store which rows its trees were grown on, so rows='oob' is not "
                "possible. Pass rows the model has not seen, with rows='held-out'"
            )
        trees = trees_to_prove(ensemble, n_rows)
        responses, weights, leaves = [], [], []
        for batch_of_rows in self._batches(ensemble):
            responses.append(batch_of_rows.response)
            weights.append(batch_of_rows.weight)
            leaves.append(route_table(batch_of_rows.ensemble, batch_of_rows.table, trees, batch_of_rows.n_jobs))
            if not may_be:
                break  # there is nothing to compare: the first rows are enough for the message
        response, weight = _joined(responses), np.concatenate(weights)

        def prove_with(in_bag: InBag) -> Any:
            in_bag_leaves = np.concatenate(leaves)
            for j, tree in enumerate(trees):
                in_bag_leaves[in_bag.draw(int(tree)) == 0, j] = -1
            return proof_of(self.member.with_sources(ensemble), in_bag, response, trees, in_bag_leaves)

        weight_or_none = None if self.request.sample_weight is None and (weight == 1).all() else weight
        model = self.member.model
        return as_out_of_bag(ensemble, model, rows, n_rows, response, weight_or_none, prove_with, self.log)


class StreamOfPartitions(StreamOfBatches):
    """Rows that lie in partitions, which are added up where they are, unless their order matters.

    Parameters
    ----------
    source : Partitioned
    request, member, number, log
        As for :class:`Stream`.
    """

    def __init__(self, source: Partitioned, request: Request, member: Member, number: int, log: WarningLog) -> None:
        super().__init__(source, request, member, number, log)
        self._partitions = source
        self.first_parts: NDArray[np.uint64] | None = None
        """A digest of the rows in the first full pass that does not depend on their order."""

    def add_to(self, sums: NodeSums, in_bag: InBag | None = None) -> None:
        """See :class:`StreamOfBatches`; bags are those of rows in order."""
        if in_bag is not None:
            super().add_to(sums, in_bag)
            return
        state = self._of_partitions(_partial_sums, (self._encoder(sums.ensemble), sums.empty()))
        if state is not None:
            sums.merge(state)

    def summed(self, rows: SummedRows, function: Callable[[Iterable[Rows]], Any]) -> Any:
        """See :meth:`Stream.summed`."""
        if rows.in_bag is not None:
            return super().summed(rows, function)
        return self._of_partitions(_partial_function, (self._encoder(rows.ensemble), function))

    def _digest(self, sums: NodeSums) -> str:
        if self.first_parts is None:
            return super()._digest(sums)
        return blake3(self.first_parts.tobytes()).hexdigest() if self.first_pass is None else self.first_pass[1]

    def _of_partitions(self, function: Callable[..., _Part], shared: Any) -> Any:
        """Return the sum of the results of a function over all partitions; None if there are no rows."""
        total = self._partitions.reduced(function, shared, _added)
        if total is None:
            return None
        if self.first_parts is not None and (self.first_parts != total.digest).any():
            raise RowsError(
                f"the frame gave other rows in a later pass than in the first ({total.digest[0]} instead of "
                f"{self.first_parts[0]} rows, or other values): it is computed anew for each pass, and differs, as "
                "after sample() or rand() without a seed. Write it to a file and read that, or keep it in memory "
                "(.cache() of Spark, .persist() of Dask)"
            )
        self.first_parts = total.digest
        self.response_warnings = self.response_warnings or total.response_warnings or ()
        for text in total.texts:
            self.log.warn(text)
        return total.sums


def stream_of_source(request: Request, member: Member, number: int, log: WarningLog) -> StreamOfBatches:
    """Return the rows of a source for one member of a model; the arguments are those of :class:`Stream`."""
    wanted = _columns_read(request.model, member)
    source = source_of(request.X, request.y, request.sample_weight, wanted, log)
    if isinstance(source, Partitioned):
        return StreamOfPartitions(source, request, member, number, log)
    return StreamOfBatches(source, request, member, number, log)


def _columns_read(model: Any, member: Member) -> tuple[str, ...] | None:
    """Return the columns of X that a model reads; None if it does not know them by name."""
    if member.layers and member.named:
        return member.sources
    return member.ensemble.feature_names if member.ensemble.named and not is_wrapper(model) else None


@dataclass
class _Encoder:
    """Encodes batches of rows for one member of a model."""

    outer_model: Any
    number: int
    model: Any
    ensemble: TreeEnsemble
    n_jobs: int
    compared: set[tuple[int, Any]] = field(default_factory=set)
    """Labels, by feature, for which the trees and the library were compared on a row."""

    def rows(self, batch: Batch, log: WarningLog, verify: bool, in_bag: InBag | None = None) -> Rows:
        """Return the rows of a batch, encoded."""
        refuse_other_order(batch.X, y=batch.y, weight=batch.weight)
        member = unwrap(self.outer_model, batch.X, batch.y)[self.number]
        columns = (member.X, member.y, batch.weight)
        rows = batch_rows(self.model, self.ensemble, *columns, log, self.n_jobs, verify, in_bag, self.compared)
        note_unseen(member, rows.ensemble, rows.table, log)  # its steps are before the model of these rows
        return rows


@dataclass(frozen=True)
class _Part:
    """Sums over one partition or several, and what was noticed there."""

    sums: Any
    """An array, or the state of node sums."""
    digest: NDArray[np.uint64]
    texts: list[str]
    """Warnings."""
    response_warnings: tuple[str, ...] | None = None
    """Warnings about y if the rows are held out; None if no batch had enough rows to check it."""


def _partial_sums(shared: tuple[_Encoder, NodeSums], batches: Iterable[Batch]) -> _Part:
    """Return the state of the sums over one partition."""
    encoder, log = replace(shared[0], compared=set()), WarningLogOnce(quiet=True)
    sums, digest, response_warnings = shared[1].empty(), np.zeros(2, dtype=np.uint64), None
    for number, batch in enumerate(batches):
        rows = encoder.rows(batch, log, verify=not number)
        encoder.ensemble = sums.ensemble = rows.ensemble
        for used in rows.with_weight():
            sums.add_rows(used)
            if response_warnings is None and used.n_rows >= ROWS_AT_LEAST:
                response_warnings = warnings_of_response(used)
        digest += unordered_digest(rows)
    return _Part(sums.state(), digest, log.texts, response_warnings)


def warnings_of_response(rows: Rows) -> tuple[str, ...]:
    """Return the warnings about y of rows that are held out."""
    log = WarningLogOnce(quiet=True)
    warn_of_another_response(rows, log)
    return tuple(log.texts)


def _partial_function(shared: tuple[_Encoder, Callable[[Iterable[Rows]], Any]], batches: Iterable[Batch]) -> _Part:
    """Return the sum of a function over one partition."""
    encoder, function = shared
    total, digest = function([]), np.zeros(2, dtype=np.uint64)
    for batch in batches:
        rows = encoder.rows(batch, WarningLogOnce(quiet=True), verify=False)
        total += function(rows.with_weight())
        digest += unordered_digest(rows)
    return _Part(total, digest, [])


def _added(one: _Part, other: _Part) -> _Part:
    """Return the sum of two parts, which a total may be already."""
    return _Part(
        one.sums + other.sums if isinstance(one.sums, np.ndarray) else added(one.sums, other.sums),
        one.digest + other.digest,
        list(dict.fromkeys((*one.texts, *other.texts))),
        other.response_warnings if one.response_warnings is None else one.response_warnings,
    )


def _add_to(digest: Any, rows: Rows) -> None:
    """Add responses, weights, and the leaf of each row in one tree to a digest."""
    response = rows.response
    for array in (response.codes, response.values, response.target, rows.weight):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    one_tree = np.array([rows.ensemble.n_trees // 2])
    digest.update(route_table(rows.ensemble, rows.table, one_tree, rows.n_jobs).tobytes())


def _joined(responses: Iterable[Response]) -> Response:
    parts = list(responses)
    codes = [part.codes for part in parts if part.codes is not None]
    values = [part.values for part in parts if part.values is not None]
    return Response(np.concatenate(codes) if codes else None, np.concatenate(values) if values else None)
