"""Scores of rows that are not all in memory at once: batches are summed at the nodes, and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.evaluation import combined, node_weight_of, require_one_scale, scored
from debias.data.dask_rows import DaskRows
from debias.data.response import Response, warn_of_codes
from debias.data.row_order import refuse_other_order
from debias.data.sources import source_of
from debias.data.table import route_table
from debias.errors import CompositionError, RowsError
from debias.models.extraction import extract
from debias.models.wrappers import is_one, is_wrapper, members_in_words, unwrap
from debias.results.untested import unless_tested
from debias.rows.bag_proof import proof_of, trees_to_prove
from debias.rows.preparation import TRAIN_WARNING, batch_rows, training_rows
from debias.rows.provenance import Provenance, as_out_of_bag, check_kind, without_bags
from debias.rows.recognition import recognised
from debias.rows.response_check import ROWS_AT_LEAST, warn_of_another_response
from debias.rows.rows import StreamedRows
from debias.rows.streamed_sums import NodeSums, added
from debias.significance.streamed import Steps, streamed_significance
from debias.trees.fingerprint import trees_sha256
from debias.warning_log import Notes, NotesOnce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.data.batches import Batch, Source
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.results.scores import Scores
    from debias.rows.rows import Rows
    from debias.significance.procedure import Procedure
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

AGAIN = (
    "these can be read once only; pass a list of batches, an object that yields them anew each time it is iterated "
    "over, or a file"
)
_THE_SAME = "pass one that gives the same rows each time"


def streamed_scores(
    model: Any,
    X: Any,
    y: Any,
    scorer: Scorer,
    *,
    rows: str,
    train: tuple[Any, ...] | None,
    sample_weight: Any,
    groups: Mapping[str, Any] | None,
    test: Procedure | None,
    seed: int | None,
    n_jobs: int,
) -> Scores:
    """Score rows that come in batches, or node sums.

    Parameters
    ----------
    model, rows, train, groups, seed
        As for :func:`debias.score`.
    X : source or NodeSums
        See :mod:`debias.data.sources`.
    y, sample_weight : str or None
        Columns of a file or dataset.
    scorer : Scorer
        That looks at a model and is no meta-method.
    test : Procedure or None
    n_jobs : int

    Raises
    ------
    CompositionError
        The scorer or the test needs all rows at once.
    DebiasError
        As for :func:`debias.score`.
    """
    check_kind(rows)
    members = unwrap(model, train=train)
    ensembles = [extract(member.model) for member in members]
    if len(members) > 1:
        require_one_scale(members, ensembles)
    if test is not None and not is_one(members):
        raise CompositionError(f"{members_in_words(members)}, or leave test out")
    streams = []
    for number, (member, ensemble) in enumerate(zip(members, ensembles, strict=True)):
        notes, source = NotesOnce((*member.notes, *ensemble.notes)), None
        if isinstance(X, NodeSums):
            _refuse_other_sums(X, y, sample_weight, members, ensemble, rows)
        else:
            wanted = ensemble.feature_names if ensemble.named and not is_wrapper(model) else None
            source = source_of(X, y, sample_weight, wanted, notes)
        sums = X if isinstance(X, NodeSums) else None
        streams.append(Stream(source, sums, member, number, model, notes, n_jobs, seed))
    if streams[0].once and len(members) > 1:
        raise RowsError(
            f"a {members[0].path[0]} of {len(members)} models takes a pass over the rows for each of them: {AGAIN}"
        )
    if streams[0].once and test is not None:
        raise CompositionError(f"standard errors take a second pass over the rows: leave test out. Else, {AGAIN}")
    scores = []
    for stream, ensemble in zip(streams, ensembles, strict=True):
        given = stream.rows(ensemble, scorer, rows, stream.member.train)
        grouping = stream.member.grouping(groups, given.ensemble)
        found = scored(scorer, given.ensemble, given, grouping, stream.notes, seed)
        if test is not None:
            weight = node_weight_of(scorer, given.ensemble, given)
            fold, n, known = stream.fold(given), stream.n_independent(given), len(stream.notes.texts)
            found = streamed_significance(found, given, n, weight, grouping, test, stream.notes, fold)
            found = unless_tested(found, stream.notes.texts[known:])
        scores.append(found)
    return combined(members, scores, ensembles)


def _refuse_other_sums(
    sums: NodeSums, y: Any, sample_weight: Any, members: list[Member], ensemble: TreeEnsemble, rows: str
) -> None:
    """Raise a RowsError if node sums are not those of a model, or if more is asked of them than they hold."""
    if y is not None or sample_weight is not None:
        raise RowsError("node sums hold the responses and weights of their rows: leave y and sample_weight out")
    if rows == "oob":
        raise RowsError("node sums are over rows the model has not seen: rows='oob' needs the rows themselves")
    if len(members) > 1:
        raise RowsError(f"this {members[0].path[0]} holds several models: make and score node sums of each")
    if sums.trees_sha256 != trees_sha256(ensemble):  # also of a model that was trained again since
        raise RowsError("these node sums are those of another model, or of this one before it was trained again")


@dataclass
class Stream:
    """The rows of one member of a model, gone through as often as they can be."""

    source: Source | None
    sums: NodeSums | None
    member: Member
    number: int
    of: Any
    notes: Notes
    n_jobs: int
    seed: int | None
    passed: tuple[int, str] | None = None
    """Number and digest of the rows of the first whole pass: later ones must be the same."""
    unlike: tuple[str, ...] = ()
    """What speaks against y, were these rows held out, in the first batch with enough rows to tell."""

    @property
    def once(self) -> bool:
        """Whether there is one pass at most."""
        return self.source is None or self.source.once

    def rows(self, ensemble: TreeEnsemble, scorer: Scorer, rows: str, train: tuple[Any, ...] | None) -> StreamedRows:
        """Go through the rows and add them up."""
        found = self._out_of_bag(ensemble, rows) if self.source is not None and rows in ("auto", "oob") else None
        in_bag, provenance = (None, None) if found is None else found
        sums = self.sums
        if sums is None:
            sums = NodeSums(self.member.model, running_loss="running-loss" in scorer.needs, n_jobs=self.n_jobs)
            self._add_up(sums, in_bag)
        if not sums.n_rows:
            raise RowsError("there are no rows to evaluate on")
        if not sums.total_weight > 0:
            raise RowsError("sample_weight must not be all zero")
        warn_of_codes(sums.ensemble, sums.n_rows, sums.n_of_first_label, self.notes)
        kind = "oob"
        if provenance is None:
            counter = sums.counter
            recognition = recognised(sums.ensemble, [] if counter is None else counter.counts(), sums.n_rows)
            kind, provenance = without_bags(sums.ensemble, recognition, rows, sums.n_rows, self.notes)
        if kind == "train":
            self.notes.warn(TRAIN_WARNING)
        if kind == "held-out":
            for text in self.unlike:
                self.notes.warn(text)
        beside = None
        if train is not None:
            beside = training_rows(sums.ensemble, self.member.model, train, self.n_jobs, self.notes, False)
        return StreamedRows(sums, self.member.model, kind, provenance, in_bag, beside, self.seed)

    def fold(self, rows: StreamedRows) -> Callable[[Steps], NDArray[np.float64]]:
        """Return what goes through the rows again."""
        if isinstance(self.source, DaskRows) and rows.in_bag is None:
            source, seen = self.source, self._seeing(rows.ensemble)
            return lambda steps: source.reduced(_partial_moments, (seen, steps), np.add)
        return lambda steps: steps.moments(self._batches(rows.ensemble, rows.in_bag))

    def n_independent(self, rows: StreamedRows) -> int:
        """Return the number of rows that take part."""
        excluded = None if rows.in_bag is None else rows.in_bag.excluded
        return rows.n_rows - (0 if excluded is None else int(excluded.sum()))

    def _add_up(self, sums: NodeSums, in_bag: InBag | None) -> None:
        if isinstance(self.source, DaskRows) and in_bag is None:
            found = self.source.reduced(_partial_sums, (self._seeing(sums.ensemble), sums.empty()), _added)
            if found is not None:
                state, texts = found
                sums.merge(state)
                for text in texts:
                    self.notes.warn(text)
            return
        looked = in_bag is not None
        for given in self._batches(sums.ensemble, in_bag):
            sums.ensemble = given.ensemble
            sums.add_rows(given)
            if not looked and given.table.n_rows >= ROWS_AT_LEAST:
                looked, self.unlike = True, _against_response(given)

    def _seeing(self, ensemble: TreeEnsemble) -> _Seeing:
        return _Seeing(self.of, self.number, self.member.model, ensemble, self.n_jobs)

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
                rows = seeing.rows(batch, self.notes, verify=not begin, in_bag=part)
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

    def _out_of_bag(self, ensemble: TreeEnsemble, rows: str) -> tuple[InBag, Provenance] | None:
        """Prove the rows to be the training rows in training order, if they can be."""
        assert self.source is not None
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

    def rows(self, batch: Batch, notes: Notes, verify: bool, in_bag: InBag | None = None) -> Rows:
        """Return the rows of a batch, encoded."""
        refuse_other_order(batch.X, y=batch.y, weight=batch.weight)
        seen = unwrap(self.of, batch.X, batch.y)[self.number]
        given = (seen.X, seen.y, batch.weight)
        return batch_rows(self.model, self.ensemble, *given, notes, self.n_jobs, verify, in_bag, self.compared)


def _partial_sums(shared: tuple[_Seeing, NodeSums], batch: Batch) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the state of the sums over one partition, and what there is to note of it."""
    seeing, notes = shared[0], NotesOnce(quiet=True)
    sums = shared[1].empty()
    rows = seeing.rows(batch, notes, verify=True)
    sums.ensemble = rows.ensemble
    sums.add_rows(rows)
    return sums.state(), notes.texts


def _against_response(rows: Rows) -> tuple[str, ...]:
    notes = NotesOnce(quiet=True)
    warn_of_another_response(rows.ensemble, rows.table, rows.response, notes)
    return tuple(notes.texts)


def _added(one: Any, other: Any) -> tuple[dict[str, NDArray[Any]], list[str]]:
    return added(one[0], other[0]), list(dict.fromkeys((*one[1], *other[1])))


def _partial_moments(shared: tuple[_Seeing, Steps], batch: Batch) -> NDArray[np.float64]:
    return shared[1].moments([shared[0].rows(batch, NotesOnce(quiet=True), verify=False)])


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
