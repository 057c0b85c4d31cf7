"""Scoring of rows that come in batches: each batch is added to the sums at the nodes, then dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from debias.api.prepared import Prepared
from debias.api.row_facts import FactsOfSums
from debias.data.batches import Partitioned, Source
from debias.data.response import Response, warn_of_codes
from debias.data.row_order import refuse_other_order
from debias.data.sources import source_of
from debias.data.table import route_table
from debias.early_stopping import NOTES_OF_STOPPING
from debias.errors import CompositionError, InBagUnavailableError, RowsError, with_article
from debias.models.wrappers import is_wrapper, unwrap, warn_of_version, without_shells
from debias.results.vocabulary import RowsKind
from debias.rows.bag_proof import proof_of, trees_to_prove
from debias.rows.node_sums import NodeSums, added
from debias.rows.preparation import TRAIN_WARNING, batch_rows, running_loss_needed, tell_of_stopping, training_rows
from debias.rows.provenance import Provenance, as_out_of_bag, check_kind, of_resampled, without_bags
from debias.rows.recognition import recognised
from debias.rows.response_check import ROWS_AT_LEAST, warn_of_another_response
from debias.rows.rows import SummedRows
from debias.rows.supervised_steps import are_cross_fitted, as_out_of_bag_for_trees, of_cross_fitted
from debias.rows.unordered_digest import unordered_digest
from debias.significance.streamed import EvidenceInBatches, Steps
from debias.trees.fingerprint import trees_digest
from debias.warning_log import WarningLog, WarningLogOnce

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.batches import Batch
    from debias.data.groups import Grouping
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.rows.effects import LinearEffects
    from debias.rows.request import Request
    from debias.rows.rows import Rows
    from debias.significance.evidence import Evidence
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

REPEATABLE = (
    "this source can be read only once. Pass a list of batches, an object that yields the batches each time it is "
    "iterated over, or a file"
)
_THE_SAME = "pass a source that gives the same rows each time"


@dataclass(frozen=True, eq=False)
class PreparedSums(Prepared):
    """One model of trees with the sums over rows that came in batches.

    Parameters
    ----------
    request, member, ensemble, rows, grouping, log
        As for :class:`debias.api.prepared.Prepared`.
    stream : Stream
        Reads the rows again.
    """

    stream: Stream

    @property
    def facts(self) -> FactsOfSums:
        """See :class:`Prepared`."""
        return FactsOfSums(self.rows)

    def evidence(self, node_weight: NDArray[np.float64], effects: LinearEffects | None = None) -> Evidence:
        """See :class:`Prepared`; a test makes another pass over the rows."""
        return self.stream.evidence(self.rows, node_weight, self.grouping)

    def can_test_dependence(self) -> bool:
        """Return False: the test needs all rows at once."""
        return False


def prepared_batches(request: Request, scorers: Sequence[Scorer], tested: bool) -> Iterator[PreparedSums]:
    """Yield the models of trees inside a model, each with its rows summed at the nodes.

    Parameters
    ----------
    request : Request
        With a source of rows (see :mod:`debias.data.sources`) or node sums.
    scorers : sequence of Scorer
    tested : bool
        Whether the scores will be tested, which needs another pass over the rows.

    Raises
    ------
    CompositionError
        A test needs another pass, and the rows can be read only once.
    DebiasError
        As for :func:`debias.score`.
    """
    check_kind(request.rows)
    members, X = request.members, request.X
    streams = []
    for number, member in enumerate(members):
        if member.resampled is not None:
            of_resampled(member.resampled, request.rows)
        notes = (note for note in member.ensemble.notes if note not in NOTES_OF_STOPPING)
        log, source = WarningLogOnce((*member.notes, *notes)), None
        warn_of_version(member, members, log)
        if isinstance(X, NodeSums):
            _refuse_other_sums(X, request, member.ensemble)
        else:
            wanted = _columns_read(request.model, member)
            source = source_of(X, request.y, request.sample_weight, wanted, log)
        sums = X if isinstance(X, NodeSums) else None
        streams.append(Stream(source, sums, member, number, request, log))
    if streams[0].once and len(members) > 1:
        raise RowsError(
            f"{with_article(members[0].path[0])} of {len(members)} models needs one pass over the rows for each "
            f"model, and {REPEATABLE}"
        )
    if streams[0].once and tested:
        raise CompositionError(f"test= needs a second pass over the rows, and {REPEATABLE}; or leave test out")
    for stream in streams:
        rows = stream.rows(running_loss_needed(scorers))
        grouping = stream.member.grouping(request.groups, rows.ensemble)
        yield PreparedSums(request, stream.member, rows.ensemble, rows, grouping, stream.log, stream)


def add_rows_of(request: Request, member: Member, sums: NodeSums, log: WarningLog) -> None:
    """Add the rows of a request to sums of its model. What kind of rows they are is not decided here.

    Parameters
    ----------
    request : Request
        With rows in memory, or a source of rows.
    member : Member
        The only model of trees inside the model of the request.
    sums : NodeSums
    log : WarningLog
        Gets warnings about columns and about y.

    Raises
    ------
    DebiasError
        As for :func:`debias.score`. Then some of the rows may have been added.
    """
    if request.in_batches:
        wanted = _columns_read(request.model, member)
        source = source_of(request.X, request.y, request.sample_weight, wanted, log)
        stream = Stream(source, None, member, 0, request, log)
        stream._add_up(sums, None)
        response_warnings = stream.response_warnings
    else:
        columns = (request.X, request.y, request.sample_weight)
        margin = request.base_margin
        rows = batch_rows(request.model, sums.ensemble, *columns, log, request.n_jobs, verify=True, base_margin=margin)
        rows.refuse_faulty()
        sums.ensemble = rows.ensemble
        sums.add_rows(rows)
        response_warnings = _response_warnings(rows)
    for text in response_warnings:
        log.warn(text)


def _columns_read(model: Any, member: Member) -> tuple[str, ...] | None:
    """Return the columns of X that a model reads; None if it does not know them by name."""
    if member.layers and member.named:
        return member.sources
    return member.ensemble.feature_names if member.ensemble.named and not is_wrapper(model) else None


def _refuse_other_sums(sums: NodeSums, request: Request, ensemble: TreeEnsemble) -> None:
    """Raise a RowsError if node sums belong to another model, or if the request needs more than they hold."""
    if request.y is not None or request.sample_weight is not None:
        raise RowsError("node sums contain the responses and weights of their rows: leave y and sample_weight out")
    if request.rows == RowsKind.OOB:
        raise RowsError("node sums are over rows the model has not seen: for rows='oob', pass the rows themselves")
    if len(request.members) > 1:
        kind = request.members[0].path[0]
        raise RowsError(f"this {kind} holds several models: make and score node sums of each")
    if sums.trees_digest != trees_digest(ensemble):  # this also finds a model that was refitted
        raise RowsError("these node sums belong to another model, or to this model before it was refitted")


@dataclass
class Stream:
    """The rows of one member of a model, which can be read once or several times."""

    source: Source | Partitioned | None
    sums: NodeSums | None
    member: Member
    number: int
    request: Request
    log: WarningLog
    first_pass: tuple[int, str] | None = None
    """Number of rows and their digest in the first full pass; later passes must have the same."""
    first_parts: NDArray[np.uint64] | None = None
    """The same for rows in partitions: a digest that does not depend on the order."""
    response_warnings: tuple[str, ...] = ()
    """Warnings about y if the rows are held out, from the first batch with enough rows to check it."""

    @property
    def once(self) -> bool:
        """Whether the rows can be read only once, or not at all."""
        return self.source is None or self.source.once

    def rows(self, with_running_loss: bool) -> SummedRows:
        """Read the rows and add them up at the nodes."""
        request, ensemble = self.request, self.member.ensemble
        in_bag, provenance = None, None
        if self.source is not None and request.rows in ("auto", "oob"):
            in_bag, provenance = self._out_of_bag(ensemble) or (None, None)
        sums = self.sums
        if sums is None:
            sums = NodeSums(self.member.model, running_loss=with_running_loss, n_jobs=request.n_jobs)
            self._add_up(sums, in_bag)
        if not sums.n_rows:
            raise RowsError("there are no evaluation rows")
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
        return SummedRows(sums, self.member.model, kind, provenance, in_bag, train, request.seed, digest)

    def _digest(self, sums: NodeSums) -> str:
        """Return a digest of the rows after the first pass; without a pass, one of the sums."""
        if self.first_pass is not None:
            return self.first_pass[1]
        known = sums.state()["totals"] if self.first_parts is None else self.first_parts
        return blake3(known.tobytes()).hexdigest()

    def evidence(self, rows: SummedRows, node_weight: NDArray[np.float64], grouping: Grouping) -> EvidenceInBatches:
        """Return the evidence of a test, which makes another pass over the rows."""
        excluded = None if rows.in_bag is None else rows.in_bag.excluded
        n_independent = rows.n_rows - (0 if excluded is None else int(excluded.sum()))
        return EvidenceInBatches(rows, node_weight, grouping, n_independent, self._moments_over(rows))

    def _moments_over(self, rows: SummedRows) -> Callable[[Steps], NDArray[np.float64]]:
        """Return a function that reads the rows again and sums ``steps.moments`` over them."""
        if isinstance(self.source, Partitioned) and rows.in_bag is None:
            source, encoder = self.source, self._encoder(rows.ensemble)
            return lambda steps: self._of_partitions(source, _partial_moments, (encoder, steps))
        return lambda steps: steps.moments(self._batches(rows.ensemble, rows.in_bag))

    def _add_up(self, sums: NodeSums, in_bag: InBag | None) -> None:
        if isinstance(self.source, Partitioned) and in_bag is None:
            state = self._of_partitions(self.source, _partial_sums, (self._encoder(sums.ensemble), sums.empty()))
            if state is not None:
                sums.merge(state)
            return
        response_checked = in_bag is not None
        for rows in self._batches(sums.ensemble, in_bag):
            sums.ensemble = rows.ensemble
            sums.add_rows(rows)
            if not response_checked and rows.table.n_rows >= ROWS_AT_LEAST:
                response_checked, self.response_warnings = True, _response_warnings(rows)

    def _of_partitions(self, source: Partitioned, function: Callable[..., _Part], shared: Any) -> Any:
        """Return the sum of the results of a function over all partitions; None if there are no rows."""
        total = source.reduced(function, shared, _added)
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
        """Prove that the rows are the training rows in training order; return None if they may be others."""
        assert self.source is not None
        rows = self.request.rows
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
        return batch_rows(self.model, self.ensemble, *columns, log, self.n_jobs, verify, in_bag, self.compared)


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
        sums.add_rows(rows)
        digest += unordered_digest(rows)
        if response_warnings is None and rows.table.n_rows >= ROWS_AT_LEAST:
            response_warnings = _response_warnings(rows)
    return _Part(sums.state(), digest, log.texts, response_warnings)


def _response_warnings(rows: Rows) -> tuple[str, ...]:
    log = WarningLogOnce(quiet=True)
    warn_of_another_response(rows, log)
    return tuple(log.texts)


def _partial_moments(shared: tuple[_Encoder, Steps], batches: Iterable[Batch]) -> _Part:
    """Return the sums of powers of contributions over one partition."""
    encoder, steps = shared
    moments, digest = steps.moments([]), np.zeros(2, dtype=np.uint64)
    for batch in batches:
        rows = encoder.rows(batch, WarningLogOnce(quiet=True), verify=False)
        moments += steps.moments([rows])
        digest += unordered_digest(rows)
    return _Part(moments, digest, [])


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
