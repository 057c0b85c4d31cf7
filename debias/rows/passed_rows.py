"""The rows that a user passed, in the form in which they came: in memory, in batches, or as sums over them.

A request has one of these, and callers do not ask which: each form prepares its rows, adds them to sums, and refuses
what it cannot do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from debias.data.batches import Source
from debias.data.sampled_rows import sampled
from debias.data.sources import in_memory, is_source
from debias.data.table import names_of_columns
from debias.early_stopping import NOTES_OF_STOPPING
from debias.errors import CompositionError, RowsError, with_article
from debias.models.wrappers import warn_of_version
from debias.results.vocabulary import RowsKind
from debias.rows.node_sums import NodeSums
from debias.rows.preparation import batch_rows, prepare, running_loss_needed
from debias.rows.provenance import check_kind, of_resampled
from debias.rows.streams import REPEATABLE, StreamOfSums, stream_of_source, warnings_of_response
from debias.text import listed
from debias.trees.fingerprint import trees_digest
from debias.warning_log import WarningLog, WarningLogOnce

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from debias.data.sampled_rows import SampledRows
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.rows.request import Request
    from debias.rows.rows import EvaluationRows
    from debias.rows.streams import Stream


class PassedRows:
    """The rows of a request, or none. This class is the form of rows in memory. Make them with :meth:`of`.

    Parameters
    ----------
    X, y
        As for :func:`debias.score`.
    """

    def __init__(self, X: Any, y: Any) -> None:
        self.X, self.y = X, y

    @staticmethod
    def of(X: Any, y: Any) -> PassedRows:
        """Return rows in the form in which they were passed."""
        if isinstance(X, NodeSums):
            return PassedSums(X, y)
        return PassedBatches(X, y) if is_source(X, y) else PassedRows(X, y)

    def check(self, **of_rows: Any) -> None:
        """Raise an error if y or an argument with one value per row does not suit the form of the rows.

        Rows in memory need values and no names of columns. Other forms take names of columns as y and as weights, and
        nothing else that has one value per row.
        """
        is_pandas = hasattr(self.X, "iloc")
        for argument, text in {"y": self.y, **of_rows}.items():
            if not isinstance(text, str):
                continue
            if text not in (names_of_columns(self.X) or ()):
                what = "the response itself" if argument == "y" else "the values themselves"
                raise RowsError(
                    f"{argument} is the text {text!r}, which is no column of X: pass {what}, one value per row"
                )
            if argument == "y":
                how = f": X.drop(columns=[{text!r}]) as X, and X[{text!r}] as y" if is_pandas else ""
                raise RowsError(
                    f"y is the text {text!r}, the name of a column of X: pass the column itself as y, and X without "
                    f"it{how}"
                )
            how = f": {argument}=X[{text!r}]" if is_pandas else ""
            raise RowsError(f"{argument} is the text {text!r}, the name of a column of X: pass the column itself{how}")

    @property
    def lacks_response(self) -> bool:
        """Whether there is no response. Batches and sources of rows bring their own."""
        return self.y is None

    def refuse_batches(self, what: str) -> None:
        """Raise a CompositionError if the rows are not in memory; `what` needs all of them at once."""

    def sampled(self, request: Request, what: str, most: int, log: WarningLog) -> SampledRows | None:
        """Return at most so many rows, drawn at random, if they are not in memory; None if they are.

        Parameters
        ----------
        request : Request
            The request with these rows.
        what : str
            What needs the rows in memory.
        most : int
        log : WarningLog
            Gets a warning about columns that are left out.

        Raises
        ------
        CompositionError
            There are sums of rows only, or workers have the rows.
        """
        return None

    def as_wrappers_take_them(self) -> tuple[Any, Any]:
        """Return X and y for a wrapper that transforms them for its members; Nones if it gets them batch by batch."""
        return self.X, self.y

    def of_members(
        self, request: Request, scorers: Sequence[Scorer], *, tested: bool, known: bool
    ) -> Iterator[tuple[Member, EvaluationRows | None, WarningLog]]:
        """Yield the models of trees inside the model of a request, each with its rows, encoded and proven.

        The parameters are those of :func:`debias.api.prepared.prepared_members`.
        """
        for member in request.members:
            rows, log = prepare(request, member, scorers, known)
            yield member, rows, log

    def add_to(self, sums: NodeSums, request: Request, member: Member, log: WarningLog) -> None:
        """Add the rows to sums of a model. What kind of rows they are is not decided here.

        Parameters
        ----------
        sums : NodeSums
        request : Request
            The request with these rows.
        member : Member
            The only model of trees inside its model.
        log : WarningLog
            Gets warnings about columns and about y.

        Raises
        ------
        DebiasError
            As for :func:`debias.score`. Then some of the rows may have been added.
        """
        columns, margin = (self.X, self.y, request.sample_weight), request.base_margin
        rows = batch_rows(request.model, sums.ensemble, *columns, log, request.n_jobs, verify=True, base_margin=margin)
        rows.refuse_faulty()
        sums.ensemble = rows.ensemble
        for used in rows.with_weight():
            sums.add_rows(used)
            for text in warnings_of_response(used):
                log.warn(text)


class _AddedUp(PassedRows, ABC):
    """Rows of which only sums are kept."""

    def check(self, **of_rows: Any) -> None:
        """Raise a CompositionError if there is anything besides y and weights, which each batch has."""
        given = [name for name, values in of_rows.items() if values is not None and name != "sample_weight"]
        if given:
            self.refuse_batches(f"a call with {listed(given)}")

    @property
    def lacks_response(self) -> bool:
        """Return False: see :class:`PassedRows`."""
        return False

    def refuse_batches(self, what: str) -> None:
        """Raise a CompositionError."""
        raise CompositionError(f"{what} needs all rows at once: {in_memory(self.X)}, not as a source of rows")

    def sampled(self, request: Request, what: str, most: int, log: WarningLog) -> SampledRows | None:
        """See :class:`PassedRows`."""
        self.refuse_batches(what)
        return None

    def as_wrappers_take_them(self) -> tuple[Any, Any]:
        """Return Nones: each batch is transformed by itself."""
        return None, None

    def of_members(
        self, request: Request, scorers: Sequence[Scorer], *, tested: bool, known: bool
    ) -> Iterator[tuple[Member, EvaluationRows | None, WarningLog]]:
        """See :class:`PassedRows`; a test makes another pass over the rows, so they must be there once more."""
        check_kind(request.rows)
        members = request.members
        streams = []
        for number, member in enumerate(members):
            if member.resampled is not None:
                of_resampled(member.resampled, request.rows)
            notes = (note for note in member.ensemble.notes if note not in NOTES_OF_STOPPING)
            log = WarningLogOnce((*member.told, *notes))
            warn_of_version(member, members, log)
            streams.append(self._stream(request, member, number, log))
        if streams[0].once and len(members) > 1:
            raise RowsError(
                f"{with_article(members[0].path[0])} of {len(members)} models needs one pass over the rows for each "
                f"model, and {REPEATABLE}"
            )
        if streams[0].once and tested:
            raise CompositionError(f"test= needs a second pass over the rows, and {REPEATABLE}; or leave test out")
        for stream in streams:
            yield (
                stream.member,
                stream.rows(running_loss_needed(scorers) and not stream.member.ensemble.has_lines),
                stream.log,
            )

    @abstractmethod
    def _stream(self, request: Request, member: Member, number: int, log: WarningLog) -> Stream:
        """Return the rows for one member of the model."""


class PassedBatches(_AddedUp):
    """Rows of a file, a dataset, a frame of Dask or Spark, or an iterable of batches."""

    def sampled(self, request: Request, what: str, most: int, log: WarningLog) -> SampledRows | None:
        """See :class:`PassedRows`."""
        source = stream_of_source(request, request.members[0], 0, log).source
        if not isinstance(source, Source):
            self.refuse_batches(what)
            return None
        return sampled(source, most, request.seed)

    def add_to(self, sums: NodeSums, request: Request, member: Member, log: WarningLog) -> None:
        """See :class:`PassedRows`."""
        stream = stream_of_source(request, member, 0, log)
        stream.add_to(sums)
        for text in stream.response_warnings:
            log.warn(text)

    def _stream(self, request: Request, member: Member, number: int, log: WarningLog) -> Stream:
        return stream_of_source(request, member, number, log)


class PassedSums(_AddedUp):
    """Sums over rows, which belong to one model."""

    def add_to(self, sums: NodeSums, request: Request, member: Member, log: WarningLog) -> None:
        """See :class:`PassedRows`."""
        self._refuse_others(request, sums.trees_digest)
        if type(self.X) is not type(sums):
            raise RowsError(f"X is {with_article(type(self.X).__name__)}: pass rows, or {type(sums).__name__}")
        sums.merge(self.X.state())

    def _stream(self, request: Request, member: Member, number: int, log: WarningLog) -> Stream:
        self._refuse_others(request, trees_digest(member.ensemble))
        return StreamOfSums(request, member, number, log)

    def _refuse_others(self, request: Request, digest: str) -> None:
        """Raise a RowsError if the sums belong to other trees, or if the request needs more than they hold."""
        if self.y is not None or request.sample_weight is not None:
            raise RowsError("node sums contain the responses and weights of their rows: leave y and sample_weight out")
        if request.rows == RowsKind.OOB:
            raise RowsError("node sums are over rows the model has not seen: for rows='oob', pass the rows themselves")
        if len(request.members) > 1:
            kind = request.members[0].path[0]
            raise RowsError(f"this {kind} holds several models: make and score node sums of each")
        if self.X.trees_digest != digest:  # this also finds a model that was refitted
            raise RowsError("these node sums belong to another model, or to this model before it was refitted")
