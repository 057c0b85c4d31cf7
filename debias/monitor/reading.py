"""Rows of the user's model: from X and y, in memory or from any source, to sums of a period."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.user_rows import dataset
from debias.early_stopping import NOTES_OF_STOPPING
from debias.errors import (
    CompositionError,
    ExtractionError,
    HistoryArgumentError,
    HistoryError,
    RowsError,
    UnsupportedModelError,
    nearest,
)
from debias.models.wrappers import unwrap
from debias.monitor.records import HAS_MARGINS
from debias.rows.pair_sums import refuse_other_losses
from debias.rows.period_sums import PeriodSums
from debias.rows.preparation import rows_as_predicted
from debias.rows.request import Request
from debias.text import listed
from debias.warning_log import WarningLogOnce

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.data.user_rows import Dataset
    from debias.models.wrappers import Member
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog


class OwnModel:
    """The model whose rows are added.

    Parameters
    ----------
    model : estimator or Booster
    n_jobs : int, optional
        Number of threads.
    loss_rows, kept_rows
        As for :class:`debias.rows.period_sums.PeriodSums`.
    pairs : tuple of tuples of two str
        Columns whose interactions are watched.
    """

    def __init__(
        self,
        model: Any,
        n_jobs: int | None,
        loss_rows: int | None,
        kept_rows: int,
        pairs: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._model, self._pairs = model, pairs
        members = unwrap(model)
        self._member = members[0]
        # The sums share the arrays of the member: two sets of them would be half of what a history keeps in memory.
        of = model if len(members) > 1 else self._member.ensemble
        self._empty = PeriodSums(of, n_jobs=n_jobs, loss_rows=loss_rows, kept_rows=kept_rows)
        self._empty.model = model
        if pairs:
            refuse_other_losses(self.ensemble)

    @property
    def digest(self) -> str:
        """Digest of the trees, which is that of the series."""
        return self._empty.trees_digest

    @property
    def ensemble(self) -> TreeEnsemble:
        """The trees of the model."""
        return self._empty.ensemble

    def read(
        self, X: Any, y: Any, sample_weight: Any, rows: str, base_margin: Any = None
    ) -> tuple[PeriodSums, list[str]]:
        """Return the sums over rows, and what a reader of them must know; it is warned of as well.

        Parameters
        ----------
        X, y, sample_weight
            As for :func:`debias.score`, or sums of this model as X.
        rows : {"auto", "held-out"}
        base_margin : array-like, optional
            As for :func:`debias.score`, for rows in memory.

        Raises
        ------
        HistoryError
            There are no rows, or the model was fitted again.
        DebiasError
            As for :func:`debias.score`.
        """
        notes = (*self._member.notes, *self._member.ensemble.notes)
        # Rows of a history come after training, so they have not stopped it.
        log = WarningLogOnce(note for note in notes if note not in NOTES_OF_STOPPING)
        sums = self._empty.empty()
        passed = dataset(X, y, sample_weight, base_margin)
        for name in ("blocks", "qid", "feature_names"):
            if getattr(passed, name) is not None:
                raise RowsError(f"a history takes no {name}: leave {name} out of the Dataset")
        request = Request.of(self._model, passed, n_jobs=self._empty.n_jobs)
        if self._pairs:
            sums.watch(self._named(request))
        try:
            request.passed.add_to(sums, request, self._member, log)
        except ExtractionError:
            if PeriodSums(self._model, loss_rows=0).trees_digest != self.digest:
                raise HistoryError(
                    "the model was fitted again after this history was opened: make another debias.History(model, "
                    "path), which begins a new series"
                ) from None
            raise
        if not sums.n_rows or not sums.total_weight > 0:
            raise HistoryError("there are no rows with a weight above 0")
        sums.refuse_training_rows(rows, log)
        return sums, self._noted(sums, log, passed)

    def read_unlabelled(self, X: Any, sample_weight: Any, base_margin: Any = None) -> tuple[PeriodSums, list[str]]:
        """Return the sums over rows whose responses are not known, taken to be as predicted, and the notes.

        Raises
        ------
        HistoryError
            There are no rows, they are not in memory, or the loss of the model is not that of single rows; or a name of
            a pair is that of no column.
        DebiasError
            As for :func:`debias.score`.
        """
        log = WarningLogOnce(self._member.notes)
        sums = self._empty.empty()
        passed = dataset(X, None, sample_weight, base_margin)
        request = Request.of(self._model, passed, n_jobs=self._empty.n_jobs)
        request.passed.refuse_batches("a history of rows without responses")
        columns = (request.X, request.sample_weight)
        try:
            rows = rows_as_predicted(
                self._model, sums.ensemble, *columns, log, request.n_jobs, base_margin=request.base_margin
            )
        except CompositionError as error:
            raise HistoryError(f"rows without responses cannot be kept: {error}") from None
        rows.refuse_faulty()
        if not rows.n_rows or not rows.weight.sum() > 0:
            raise HistoryError("there are no rows" + (" with a weight above 0" if rows.n_rows else ""))
        sums.ensemble = rows.ensemble
        if self._pairs:
            self._named(request)(rows.ensemble)  # an unknown name is told now, and not when responses come
        for used in rows.with_weight():
            sums.add_rows(used)
        sums.forget_proof()
        return sums, self._noted(sums, log, passed)

    def _noted(self, sums: PeriodSums, log: WarningLog, passed: Dataset) -> list[str]:
        """Return the notes of a part: what readers were warned of, and what they see in the results only."""
        estimated = [] if sums.estimated is None else [sums.estimated]
        return log.texts + [HAS_MARGINS] * (passed.base_margin is not None) + estimated

    def _named(self, request: Request) -> NamedPairs:
        return NamedPairs(_traced(request), self._pairs)

    def grouping(self, ensemble: TreeEnsemble, X: Any) -> Grouping:
        """Return the columns that scores are for: those of X, or those of the trees if X is one column of texts.

        Parameters
        ----------
        ensemble : TreeEnsemble
            The trees, with the names of the columns of X if the model stores none.
        X
            The first rows of the series.

        Raises
        ------
        UnsupportedModelError
            The columns that the trees see cannot be traced back to those of X.
        """
        return _traced(Request.of(self._model, X)).grouping(None, ensemble)


def _traced(request: Request) -> Member:
    """Return the model with its columns, which some transformers tell only if they are tried on the rows."""
    member = request.members[0].at(request.level_of_columns, None)
    try:
        member.columns  # noqa: B018  # it is computed here
    except UnsupportedModelError as error:
        reason = re.sub(r"\. Pass [^.]*level='model'.*", "", str(error))  # a history has no level
        raise UnsupportedModelError(
            f"{reason}. Keep a history of the model inside, and add the rows as the steps before it transform them"
        ) from error
    return member


@dataclass(frozen=True)
class NamedPairs:
    """Where the columns of named pairs are. It is sent to the processes that read the partitions of a cluster.

    Parameters
    ----------
    member : Member
        The model, at the level of the columns of X.
    pairs : tuple of tuples of two str
    """

    member: Member
    pairs: tuple[tuple[str, str], ...]

    def __call__(self, ensemble: TreeEnsemble) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the column that each feature of the trees is made from, and the pairs of such columns.

        Raises
        ------
        HistoryError
            A name is that of no column.
        """
        grouping = self.member.grouping(None, ensemble)
        place = {ensemble.stored_name(name): k for k, name in enumerate(grouping.names)}
        pairs = [tuple(map(ensemble.stored_name, pair)) for pair in self.pairs]
        for name in (name for pair in pairs for name in pair):
            if name not in place:
                raise HistoryArgumentError(
                    f"interactions= names {name!r}, which is no column.{nearest(name, grouping.names)} There are: "
                    f"{listed(grouping.names)}"
                )
        positions = sorted({tuple(sorted(place[name] for name in pair)) for pair in pairs})
        return grouping.index, np.array(positions, dtype=np.int64)


def named_pairs(interactions: Any) -> tuple[tuple[str, str], ...]:
    """Return the pairs that the user named.

    Raises
    ------
    HistoryError
        These are no pairs of two different names.
    """
    if interactions is None:
        return ()
    given = list(interactions) if isinstance(interactions, Iterable) and not isinstance(interactions, str) else []
    pairs = [(each[0], each[1]) for each in given if isinstance(each, tuple | list) and len(each) == 2]
    are_names = all(isinstance(one, str) and isinstance(other, str) and one != other for one, other in pairs)
    if not pairs or len(pairs) < len(given) or not are_names:
        raise HistoryArgumentError(
            f"interactions={interactions!r} does not name pairs of two features: pass a list of tuples, such as "
            "[('age', 'income')]. debias.interactions tells which pairs a model uses together"
        )
    return tuple(pairs)
