"""Rows that come in batches: they are summed at the nodes, and not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.dask_rows import DaskRows
from debias.data.response import Response, warn_of_codes
from debias.data.row_order import refuse_other_order
from debias.data.sources import source_of
from debias.data.table import route_table
from debias.errors import CompositionError, RowsError
from debias.models.wrappers import is_wrapper, unwrap
from debias.rows.bag_proof import proof_of, trees_to_prove
from debias.rows.node_sums import NodeSums, added
from debias.rows.preparation import TRAIN_WARNING, batch_rows, running_loss_needed, training_rows
from debias.rows.provenance import Provenance, as_out_of_bag, check_kind, without_bags
from debias.rows.recognition import recognised
from debias.rows.response_check import ROWS_AT_LEAST, warn_of_another_response
from debias.rows.rows import SummedRows
from debias.significance.streamed import EvidenceInBatches, Steps
from debias.trees.fingerprint import trees_sha256
from debias.warning_log import WarningLog, WarningLogOnce

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.batches import Batch, Source
    from debias.data.groups import Grouping
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.rows.request import Request
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

    EvidenceOf = Callable[[NDArray[np.float64], Grouping], EvidenceInBatches]

AGAIN = (
    "these can be read once only; pass a list of batches, an object that yields them anew each time it is iterated "
    "over, or a file"
)
_THE_SAME = "pass one that gives the same rows each time"


def prepared_batches(
    request: Request, scorers: Sequence[Scorer], tested: bool
) -> Iterator[tuple[Member, SummedRows, EvidenceOf, WarningLog]]:
    """Go through the models of trees inside a model, each with its rows summed at the nodes.

    Parameters
    ----------
    request : Request
        With a source of rows (see :mod:`debias.data.sources`) or node sums.
    scorers : sequence of Scorer
    tested : bool
        Whether the scores will be tested, which takes another pass over the rows.

    Yields
    ------
    (Member, SummedRows, callable, WarningLog)
        The callable makes the evidence of a test from node weights and a grouping.

    Raises
    ------
    CompositionError
        A test needs another pass, and the rows can be read once only.
    DebiasError
        As for :func:`debias.score`.
    """
    check_kind(request.rows)
    members, X = request.members, request.X
    streams = []
    for number, member in enumerate(members):
        log, source = WarningLogOnce((*member.notes, *member.ensemble.notes)), None
        if isinstance(X, NodeSums):
            _refuse_other_sums(X, request, member.ensemble)
        else:
            named = member.ensemble.named and not is_wrapper(request.model)
            wanted = member.ensemble.feature_names if named else None
            source = source_of(X, request.y, request.sample_weight, wanted, log)
        sums = X if isinstance(X, NodeSums) else None
        streams.append(Stream(source, sums, member, number, request, log))
    if streams[0].once and len(members) > 1:
        raise RowsError(
            f"a {members[0].path[0]} of {len(members)} models takes a pass over the rows for each of them: {AGAIN}"
        )
    if streams[0].once and tested:
        raise CompositionError(f"standard errors take a second pass over the rows: leave test out. Else, {AGAIN}")
    for stream in streams:
        rows = stream.rows(running_loss_needed(scorers))
        yield stream.member, rows, stream.evidence_of(rows), stream.log


def _refuse_other_sums(sums: NodeSums, request: Request, ensemble: TreeEnsemble) -> None:
    """Raise a RowsError if node sums are not those of a model, or if more is asked of them than they hold."""
    if request.y is not None or request.sample_weight is not None:
        raise RowsError("node sums hold the responses and weights of their rows: leave y and sample_weight out")
    if request.rows == "oob":
        raise RowsError("node sums are over rows the model has not seen: rows='oob' needs the rows themselves")
    if len(request.members) > 1:
        kind = request.members[0].path[0]
        raise RowsError(f"this {kind} holds several models: make and score node sums of each")
    if sums.trees_sha256 != trees_sha256(ensemble):  # also of a model that was trained again since
        raise RowsError("these node sums are those of another model, or of this one before it was trained again")


@dataclass
class Stream:
    """The rows of one member of a model, gone through as often as they can be."""

    source: Source | None
    sums: NodeSums | None
    member: Member
    number: int
    request: Request
    log: WarningLog
    passed: tuple[int, str] | None = None
    """Number and digest of the rows of the first whole pass: later ones must be the same."""
    unlike: tuple[str, ...] = ()
    """What speaks against y, were these rows held out, in the first batch with enough rows to tell."""

    @property
    def once(self) -> bool:
        """Whether there is one pass at most."""
        return self.source is None or self.source.once

    def rows(self, with_running_loss: bool) -> SummedRows:
        """Go through the rows and add them up."""
        request, ensemble = self.request, self.member.ensemble
        proven = self._out_of_bag(ensemble) if self.source is not None and request.rows in ("auto", "oob") else None
        in_bag, provenance = (None, None) if proven is None else proven
        sums = self.sums
        if sums is None:
            sums = NodeSums(self.member.model, running_loss=with_running_loss, n_jobs=request.n_jobs)
            self._add_up(sums, in_bag)
        if not sums.n_rows:
            raise RowsError("there are no rows to evaluate on")
        if not sums.total_weight > 0:
            raise RowsError("sample_weight must not be all zero")
        warn_of_codes(sums.ensemble, sums.n_rows, sums.n_of_first_label, self.log)
        kind = "oob"
        if provenance is None:
            counter = sums.counter
            recognition = recognised(sums.ensemble, [] if counter is None else counter.counts(), sums.n_rows)
            kind, provenance = without_bags(sums.ensemble, recognition, request.rows, sums.n_rows, self.log)
        if kind == "train":
            self.log.warn(TRAIN_WARNING)
        if kind == "held-out":
            for text in self.unlike:
                self.log.warn(text)
        beside = None
        if self.member.train is not None:
            given = (sums.ensemble, self.member.model, self.member.train, request.n_jobs, self.log)
            beside = training_rows(*given, known=False)
        return SummedRows(sums, self.member.model, kind, provenance, in_bag, beside, request.seed)

    def evidence_of(self, rows: SummedRows) -> EvidenceOf:
        """Return what makes the evidence of a test, by another pass over the rows."""
        excluded = None if rows.in_bag is None else rows.in_bag.excluded
        n_independent = rows.n_rows - (0 if excluded is None else int(excluded.sum()))
        fold = self._fold(rows)
        return lambda node_weight, grouping: EvidenceInBatches(rows, node_weight, grouping, n_independent, fold)

    def _fold(self, rows: SummedRows) -> Callable[[Steps], NDArray[np.float64]]:
        """Return what goes through the rows again."""
        if isinstance(self.source, DaskRows) and rows.in_bag is None:
            source, seen = self.source, self._seeing(rows.ensemble)
            return lambda steps: source.reduced(_partial_moments, (seen, steps), np.add)
        return lambda steps: steps.moments(self._batches(rows.ensemble, rows.in_bag))

    def _add_up(self, sums: NodeSums, in_bag: InBag | None) -> None:
        if isinstance(self.source, DaskRows) and in_bag is None:
            found = self.source.reduced(_partial_sums, (self._seeing(sums.ensemble), sums.empty()), _added)
            if found is not None:
                state, texts = found
                sums.merge(state)
                for text in texts:
                    self.log.warn(text)
            return
        looked = in_bag is not None
        for given in self._batches(sums.ensemble, in_bag):
            sums.ensemble = given.ensemble
            sums.add_rows(given)
            if not looked and given.table.n_rows >= ROWS_AT_LEAST:
                looked, self.unlike = True, _against_response(given)

    def _seeing(self, ensemble: TreeEnsemble) -> _Seeing:
        return _Seeing(self.request.model, self.number, self.member.model, ensemble, self.request.n_jobs)

    def _batches(self, ensemble: TreeEnsemble, in_bag: InBag | None = None) -> Iterator[Rows]:
        """Go through the rows, encoded."""
        assert self.source is not None
        begin, seeing, seen = 0, self._seeing(ensemble), sha256()
        for batch in self.source:
            part = None
            if in_bag is not None:
                if begin + len(batch.y) > in_bag.n_rows:
                    raise RowsError(
                        f"the source gives more than the {in_bag.n_rows} rows that were proven: {_THE_SAME}"
                    )
                part = in_bag.part(begin, begin + len(batch.y))
            try:
                rows = seeing.rows(batch, self.log, verify=not begin, in_bag=part)
            except RowsError as error:
                raise RowsError(f"in the batch that begins with row {begin}: {error}") from None
            seeing.ensemble = rows.ensemble
            _add_to(seen, rows)
            yield rows
            begin += len(batch.y)
        if self.passed is not None and self.passed != (begin, seen.hexdigest()):
            raise RowsError(
                f"the source gave other rows in a later pass than in the first ({begin} beside {self.passed[0]}, or "
                f"other values, or another order): {_THE_SAME}"
            )
        self.passed = begin, seen.hexdigest()

    def _out_of_bag(self, ensemble: TreeEnsemble) -> tuple[InBag, Provenance] | None:
        """Prove the rows to be the training rows in training order, if they can be."""
        assert self.source is not None
        rows = self.request.rows
        if self.source.once:
            if rows == "oob":
                raise RowsError(f"rows='oob' takes two passes over the rows, to prove them and to sum them: {AGAIN}")
            return None
        n_rows = self.source.n_rows
        if n_rows is None and (rows == "oob" or ensemble.averaged):
            n_rows = sum(len(batch.y) for batch in self.source)
        may_be = ensemble.averaged and ensemble.n_train in (None, n_rows)
        if rows == "auto" and not may_be:
            return None
        assert n_rows is not None
        trees = trees_to_prove(ensemble, n_rows)
        responses, weights, leaves = [], [], []
        for given in self._batches(ensemble):
            responses.append(given.response)
            weights.append(given.weight)
            leaves.append(route_table(given.ensemble, given.table, trees, given.n_jobs))
            if not may_be:
                break  # there is nothing to compare: the first rows will do for the message
        response, weight = _joined(responses), np.concatenate(weights)

        def prove_with(in_bag: InBag) -> Any:
            at = np.concatenate(leaves)
            for j, tree in enumerate(trees):
                at[in_bag.draw(int(tree)) == 0, j] = -1
            return proof_of(ensemble, in_bag, response, trees, at)

        weighted = weight if (weight != 1).any() else None
        return as_out_of_bag(ensemble, self.member.model, rows, n_rows, response, weighted, prove_with)


@dataclass
class _Seeing:
    """How one member of a model sees rows."""

    of: Any
    number: int
    model: Any
    ensemble: TreeEnsemble
    n_jobs: int
    compared: set[tuple[int, Any]] = field(default_factory=set)
    """Labels, by feature, of which a row was compared with the library."""

    def rows(self, batch: Batch, notes: WarningLog, verify: bool, in_bag: InBag | None = None) -> Rows:
        """Return the rows of a batch, encoded."""
        refuse_other_order(batch.X, y=batch.y, weight=batch.weight)
        seen = unwrap(self.of, batch.X, batch.y)[self.number]
        given = (seen.X, seen.y, batch.weight)
        return batch_rows(self.model, self.ensemble, *given, notes, self.n_jobs, verify, in_bag, self.compared)


def _partial_sums(shared: tuple[_Seeing, NodeSums], batch: Batch) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the state of the sums over one partition, and what there is to note of it."""
    seeing, notes = shared[0], WarningLogOnce(quiet=True)
    sums = shared[1].empty()
    rows = seeing.rows(batch, notes, verify=True)
    sums.ensemble = rows.ensemble
    sums.add_rows(rows)
    return sums.state(), notes.texts


def _against_response(rows: Rows) -> tuple[str, ...]:
    notes = WarningLogOnce(quiet=True)
    warn_of_another_response(rows.ensemble, rows.table, rows.response, notes)
    return tuple(notes.texts)


def _added(one: Any, other: Any) -> tuple[dict[str, NDArray[Any]], list[str]]:
    return added(one[0], other[0]), list(dict.fromkeys((*one[1], *other[1])))


def _partial_moments(shared: tuple[_Seeing, Steps], batch: Batch) -> NDArray[np.float64]:
    return shared[1].moments([shared[0].rows(batch, WarningLogOnce(quiet=True), verify=False)])


def _add_to(digest: Any, rows: Rows) -> None:
    """Add responses, weights, and the way of each row through one tree to a digest."""
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
