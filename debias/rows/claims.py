"""Claims: what a user, or debias itself, says that rows are. Each is proven in its own way.

:func:`claim_of` finds the claim on the rows of one model of trees, and :meth:`Claim.prove` returns what is proven.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from debias.errors import ProvenanceError
from debias.models.extraction import verify_prediction
from debias.results.vocabulary import RowsKind
from debias.rows.fold_proof import held_out
from debias.rows.provenance import Provenance, check_kind, known_bags, of_resampled, resolve, stored_weights
from debias.rows.shared_rows import SharedRows, row_digests
from debias.rows.supervised_steps import are_cross_fitted, as_out_of_bag_for_trees, of_cross_fitted, why_not_redrawn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.models.wrappers import Member
    from debias.rows.request import Request
    from debias.rows.rows import Rows
    from debias.rows.shared_pass import SharedPass
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag
    from debias.warning_log import WarningLog

KNOWN = Provenance(RowsKind.TRAIN, "known", "debias has fitted the model itself on these rows")
UNSEEN = Provenance(RowsKind.OOB, "proven", "training rows that this model was not trained on: those of its own fold")


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The rows of one model of trees, as its trees see them.

    Parameters
    ----------
    ensemble : TreeEnsemble
    model : object
    table : Table
    response : Response
    weight : array of shape (n_rows,), or None
        Weights that the user passed.
    train : Rows or None
        The training rows, if the user passed them as ``train=``.
    routed : SharedPass or None
        The pass of the scores over these rows, of an additive model.
    """

    ensemble: TreeEnsemble
    model: Any
    table: Table
    response: Response
    weight: NDArray[np.float64] | None
    train: Rows | None
    routed: SharedPass | None = None


class Proven(NamedTuple):
    """What is proven of rows."""

    kind: str
    in_bag: InBag | None
    """The bags, for kind "oob"."""
    provenance: Provenance


@dataclass(frozen=True, eq=False)
class Claim(ABC):
    """What the rows of one model of trees are said to be.

    Parameters
    ----------
    request : Request
    member : Member
    """

    checks_response: ClassVar[bool] = True
    """Whether y may be another response than that of training, so that it must be checked."""

    request: Request
    member: Member

    def prove(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """Compare the trees with their library on these rows, and prove the claim as far as the model allows.

        Parameters
        ----------
        rows : EncodedRows
        log : WarningLog
            Receives the warnings.

        Raises
        ------
        ProvenanceError
            The rows are not what they are said to be.
        InBagUnavailableError
            They are said to be out of bag, and the model has no bags.
        RowsError
            There is no such kind of rows.
        """
        verify_prediction(rows.ensemble, rows.model, rows.table)
        return self.proven(rows, log)

    @abstractmethod
    def proven(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """Return what is proven of rows on which the trees predict as their library does."""


@dataclass(frozen=True, eq=False)
class FittedByDebias(Claim):
    """Debias itself has fitted the model, on these rows or on others: nothing has to be proven.

    Parameters
    ----------
    request, member
        As for :class:`Claim`.
    train_weight : array of shape (n_rows,), or None
        Weights that the model was fitted with, if these are its training rows.
    """

    checks_response: ClassVar[bool] = False

    train_weight: NDArray[np.float64] | None

    def prove(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """Return what is known; the trees of each refit are not compared with the library again."""
        return self.proven(rows, log)

    def proven(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """See :class:`Claim`."""
        kind, in_bag = self.request.rows, None
        if kind == RowsKind.OOB:
            in_bag = known_bags(rows.ensemble, rows.model, rows.response, self.train_weight)
        return Proven(kind, in_bag, KNOWN)


class GrownOnOtherRows(Claim):
    """The trees were grown on rows that are none of X, such as resampled ones: the user says what the rows are."""

    checks_response: ClassVar[bool] = False

    def proven(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """See :class:`Claim`."""
        assert self.member.resampled is not None
        return Proven(self.request.rows, None, of_resampled(self.member.resampled, self.request.rows))


class UnseenByMember(Claim):
    """Training rows of a wrapper that this one of its models was not trained on: its wrapper proves them."""

    checks_response: ClassVar[bool] = False

    def proven(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """See :class:`Claim`."""
        return Proven(RowsKind.HELD_OUT, None, UNSEEN)


class HeldOutByFold(Claim):
    """Test rows of a fold: all folds together prove them."""

    def proven(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """See :class:`Claim`."""
        fold = self.request.fold
        assert fold is not None
        proof = fold.members[self.request.members.index(self.member)]
        provenance = held_out(rows.ensemble, rows.table, rows.response, proof, fold.fold.name, log)
        return Proven(RowsKind.HELD_OUT, None, provenance)


class BehindCrossFitting(Claim):
    """Rows that steps with cross-fitting transform in another way than in training: the steps tell, not the leaves."""

    def proven(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """See :class:`Claim`."""
        return Proven(RowsKind.HELD_OUT, None, of_cross_fitted(self.member, self.request.rows, log))


class StatedByUser(Claim):
    """Rows of the kind that the user states, or of whatever kind they can be proven to be."""

    def proven(self, rows: EncodedRows, log: WarningLog) -> Proven:
        """See :class:`Claim`."""
        member, stated = self.member, self.request.rows
        ensemble, table, response, train = rows.ensemble, rows.table, rows.response, rows.train
        order = None if member.training_order is None else member.training_order(member.y)
        shared = None
        if train is not None:
            theirs = row_digests(ensemble, train.table, train.response)
            shared = SharedRows.of(row_digests(ensemble, table, response), theirs)
        of_train = None if train is None else train.provenance
        given = (ensemble, rows.model, table, response, stated, rows.weight, log, order, shared, of_train, rows.routed)
        try:
            kind, in_bag, provenance = resolve(*given)
        except ProvenanceError as error:
            raise why_not_redrawn(member) or _weights_not_kept(rows, member) or error from None
        if kind == RowsKind.OOB and member.supervised:
            provenance = as_out_of_bag_for_trees(member, stated, provenance, log)
        return Proven(kind, in_bag, provenance)


def _weights_not_kept(rows: EncodedRows, member: Member) -> ProvenanceError | None:
    """Return the error for rows whose bags depend on weights that the outer model made and the model does not keep."""
    if not member.reweights or not rows.ensemble.averaged or stored_weights(rows.model).rows is not None:
        return None
    inside = type(rows.model).__name__
    return ProvenanceError(
        f"these may be training rows, and none can be proven to be out of bag: the model around this {inside} gave it "
        f"weights in training, and this {inside} does not keep them (scikit-learn keeps them since 1.9). Pass rows the "
        "model has not seen, with rows='held-out', or train the model again with a newer scikit-learn"
    )


def claim_of(
    request: Request, member: Member, known: bool = False, train_weight: NDArray[np.float64] | None = None
) -> Claim:
    """Return the claim on the rows of one model of trees.

    Parameters
    ----------
    request : Request
    member : Member
        One of ``request.members``.
    known : bool
        Whether debias itself has fitted the model.
    train_weight : array of shape (n_rows,), optional
        Weights that a known model was fitted with, if the rows are its training rows.

    Raises
    ------
    RowsError
        The user states a kind of rows that does not exist.
    """
    if known:
        return FittedByDebias(request, member, train_weight)
    if member.resampled is not None:
        return GrownOnOtherRows(request, member)
    if member.positions is not None:
        return UnseenByMember(request, member)
    if request.fold is not None:
        return HeldOutByFold(request, member)
    check_kind(request.rows)
    if request.rows in ("auto", "held-out") and are_cross_fitted(member):
        return BehindCrossFitting(request, member)
    return StatedByUser(request, member)
