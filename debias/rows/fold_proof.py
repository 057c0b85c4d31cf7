"""The proof that the test rows of a fold are not training rows of its model.

:func:`prove_folds` shows for each fold, as far as its model allows, that all rows which the model was trained on are
among the training rows of the fold. No test row is one of these, so none is a training row of the model. Two things
can show it, as for other training rows (:mod:`debias.rows.provenance`):

1. the bags of the trees are drawn again, and the rows have the counts and means that the nodes store;
2. every leaf holds at least as many of the rows as in training, which other rows hardly ever do.

If a leaf holds fewer rows than in training, training rows are missing: the folds are not those of the models, and this
is an error. If nothing can be told about the training rows, :func:`held_out` looks at the test rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.blocks import encode_queries
from debias.data.chosen_rows import taken
from debias.data.response import encode
from debias.data.table import Table
from debias.errors import InBagUnavailableError, ProvenanceError, TrainingRowsError
from debias.models.folds import about_fold
from debias.models.wrappers import unwrap
from debias.results.vocabulary import PROVEN_HELD_OUT
from debias.rows.bag_proof import prove, response_fits
from debias.rows.leaf_counts import count_leaves, looks, of_trees
from debias.rows.provenance import EVERY_LEAF, Provenance, by_leaf_counts, describe_shift, prove_bags
from debias.rows.recognition import recognise, recognised, short_somewhere, weighted_by_class, weighted_by_row
from debias.rows.supervised_steps import steps_were_fitted_on_these
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.models.folds import Fold
    from debias.models.wrappers import Member
    from debias.rows.leaf_counts import LeafCounts
    from debias.rows.recognition import Recognition
    from debias.trees.ensemble import TreeEnsemble

DOUBTFUL = "doubtful"
AS_LIKELY = 0.7
"""Test rows that look like training rows are refused if they do so this much compared with the rows of which the fold
says that they are the training rows."""


@dataclass(frozen=True)
class TrainingProof:
    """What is known about the training rows of one model of trees.

    Parameters
    ----------
    status : {"proven", "contradicted", "doubtful", "unknown"}
        Whether all rows that the model was trained on are among the training rows of the fold. "doubtful": the trees
        do not fit these rows, but transformers may have changed them.
    detail : str
        The reason in words.
    grown_share : float or None
        How much the rows look like the training rows by the leaf counts: 1 for these, 0 for others. None if the model
        does not tell.
    agrees : bool
        Whether every leaf holds exactly as many of the rows as in training. For stumps this may be chance.
    """

    status: str
    detail: str
    grown_share: float | None = None
    agrees: bool = False


@dataclass(frozen=True, eq=False)
class FoldProof:
    """What is known about the rows of a fold.

    Parameters
    ----------
    fold : Fold
    members : tuple of TrainingProof
        One for each model of trees inside the model of the fold.
    """

    fold: Fold
    members: tuple[TrainingProof, ...]

    @property
    def holds(self) -> bool:
        """Whether the test rows are proven to be held out."""
        return all(member.status == "proven" for member in self.members)


def prove_folds(
    folds: Sequence[Fold], X: Any, y: Any, *, sample_weight: Any = None, base_margin: Any = None, qid: Any = None
) -> list[FoldProof]:
    """Prove for each fold that its test rows are not training rows of its model, as far as the model allows.

    Parameters
    ----------
    folds : sequence of Fold
        From :func:`debias.models.folds.folds_of`.
    X, y, sample_weight, base_margin, qid
        All rows of the cross-validation, as for :func:`debias.score`. If the models were trained with weights, these
        must be the training weights.

    Returns
    -------
    list of FoldProof
        One for each fold. If the folds are known by labels only, and the models were trained on the rows of earlier
        folds only, then ``train`` of their folds are these.

    Raises
    ------
    ProvenanceError
        The model of a fold was not trained on the training rows of the fold; the message says of which fold the rows
        are, if they are those of another.
    DebiasError
        A model cannot be audited, or the rows do not fit it; the message names the fold.
    """
    rows = _AllRows(X, y, sample_weight, base_margin, qid)
    of_periods = [_proof(fold, fold, rows) for fold in _trained_on_earlier_rows(folds)]
    if of_periods and all(proof.holds for proof in of_periods):
        return of_periods
    proofs = [_proof(fold, fold, rows) for fold in folds]
    for proof in proofs:
        contradicted = next((member for member in proof.members if member.status == "contradicted"), None)
        if contradicted is not None:
            raise _not_its_rows(proof.fold, contradicted.detail, _fold_that_fits(proof.fold, folds, rows))
    _refuse_unproven(proofs, folds, rows)
    return proofs


def held_out(
    ensemble: TreeEnsemble, table: Table, response: Response, proof: TrainingProof, name: str, log: WarningLog
) -> Provenance:
    """Return what is known about the test rows of a fold.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        The test rows.
    response : Response
    proof : TrainingProof
        What is known about the training rows of the model.
    name : str
        Name of the fold.
    log : WarningLog
        Receives the warnings.

    Raises
    ------
    ProvenanceError
        Nothing is proven, and the test rows look like training rows.
    """
    recognition = recognise(ensemble, table, response)
    if recognition.shift is not None and recognition.shift.features:
        log.warn(describe_shift(recognition.shift))
    if proof.status == "proven":
        detail = f"none of them is a training row: those of {name} are proven ({proof.detail})"
        return replace(by_leaf_counts(ensemble, recognition), status=PROVEN_HELD_OUT, detail=detail, training_share=0.0)
    if recognition.largely_training and _as_likely(recognition, proof):
        raise ProvenanceError(
            "its test rows look like training rows of its model (the leaf counts suggest "
            f"{recognition.share or 1:.0%} of them). {_CAUSES}"
        )
    found = by_leaf_counts(ensemble, recognition)
    return replace(found, detail=f"{found.detail}; the training rows are not proven: {proof.detail}")


class _AllRows:
    """All rows of a cross-validation, in the user's own containers."""

    def __init__(self, X: Any, y: Any, sample_weight: Any, base_margin: Any, qid: Any) -> None:
        self.X, self.y = X, y
        self._weight, self._margin, self._qid = sample_weight, base_margin, qid

    def encoded(
        self, member: Member, positions: NDArray[np.int64]
    ) -> tuple[Table, Response, NDArray[np.float64] | None]:
        """Return some rows as a model of trees sees them: X, the response, and the weights if there are any."""
        ensemble, quiet = member.ensemble, WarningLog(quiet=True)
        table = Table(member.X).aligned_to(ensemble, quiet)
        weight, margin, qid = (
            None if values is None else np.asarray(values)[positions]
            for values in (self._weight, self._margin, self._qid)
        )
        weight = None if weight is None else weight.astype(np.float64)
        query = encode_queries(qid, ensemble, table.n_rows) if ensemble.objective.by_query else None
        return table, encode(member.y, ensemble, table.n_rows, quiet, margin, weight, query), weight


def _trained_on_earlier_rows(folds: Sequence[Fold]) -> list[Fold]:
    """Return folds by labels with the training rows of a forward chain, as TimeSeriesSplit has them.

    These are the rows of earlier folds and those that were never held out. Return an empty list if all rows were held
    out, because then no row is left for the first model.
    """
    if not all(fold.others_are_train for fold in folds):
        return []
    assert folds[0].train is not None
    n_rows = folds[0].train.size + folds[0].test.size
    tests = [fold.test for fold in folds]
    seen = [np.setdiff1d(np.arange(n_rows), np.concatenate(tests[k:])) for k in range(len(folds))]
    return [replace(fold, train=train) for fold, train in zip(folds, seen, strict=True)] if seen[0].size else []


def _proof(of: Fold, trained_on: Fold, rows: _AllRows) -> FoldProof:
    """Compare the model of a fold with the training rows of a fold, its own or another."""
    train = trained_on.train
    with about_fold(of.name, of.if_unfitted):
        if of.proven_by is not None:
            return FoldProof(of, tuple(TrainingProof("proven", of.proven_by) for _ in unwrap(of.model)))
        if train is None:
            return FoldProof(of, tuple(TrainingProof("unknown", "cv= does not say which") for _ in unwrap(of.model)))
        members = unwrap(of.model, taken(rows.X, train), taken(rows.y, train), rows="train")
        return FoldProof(of, tuple(_training_proof(member, train, rows) for member in members))


def _training_proof(member: Member, train: NDArray[np.int64], rows: _AllRows) -> TrainingProof:
    """Compare a model of trees with rows that may be all its training rows, or more than these."""
    if member.resampled is not None:
        return TrainingProof("unknown", member.resampled)
    steps = steps_were_fitted_on_these(member)
    if steps is not None:
        return TrainingProof("proven", f"{steps}, fitted again on the training rows of the fold, is the same")
    ensemble = member.ensemble
    table, response, weight = rows.encoded(member, train)
    found = _by_bags(member, table, response, weight)
    if found.status in ("proven", "contradicted"):
        return found
    counted = count_leaves(ensemble, table, response)
    of_whole = of_trees(counted, looks(ensemble)[0]) if counted else []
    recognition = recognised(ensemble, counted, table.n_rows)
    if recognition.exact or weighted_by_class(ensemble, table, response):
        if recognition.agrees and response.is_scored and not response_fits(ensemble, table, response):
            return TrainingProof("contradicted", "y is not the response that the model was trained on")
        return TrainingProof("proven", EVERY_LEAF)
    if weighted_by_row(ensemble, table, response, weight):
        return TrainingProof("proven", "every leaf has the weight of its training rows")
    if found.status == "unknown" and _rows_are_absent(ensemble, of_whole):
        found = TrainingProof(DOUBTFUL, "some leaves hold fewer of these rows than in training")
    grown_share = None if recognition.share is None else recognition.grown_share
    if found.status == DOUBTFUL:
        if not member.layers:
            return replace(found, status="contradicted")
        detail = f"{found.detail}; or transformers make other columns now than in training, as target encoders do"
        return TrainingProof(DOUBTFUL, detail, grown_share)
    reason = recognition.unknown_because or "the leaf counts are not precise enough"
    return TrainingProof("unknown", reason, grown_share, recognition.agrees)


def _by_bags(member: Member, table: Table, response: Response, weight: NDArray[np.float64] | None) -> TrainingProof:
    """Compare the bags of the trees, drawn again, with the nodes."""
    ensemble = member.ensemble
    order = None if member.training_order is None else member.training_order(member.y)
    if ensemble.n_train is not None and ensemble.n_train > table.n_rows:
        return TrainingProof(
            "contradicted", f"the model was trained on {ensemble.n_train} rows, and these are {table.n_rows}"
        )
    try:
        in_bag, proof, _ = prove_bags(
            ensemble,
            member.model,
            table.n_rows,
            response,
            weight,
            lambda in_bag: prove(ensemble, in_bag, table, response),
            order,
        )
    except TrainingRowsError:
        return TrainingProof("proven", "the library knows them as the training rows")
    except (InBagUnavailableError, ProvenanceError):
        return TrainingProof("unknown", "there are no bags of so many rows")
    if proof.holds:
        nodes = f"at the roots and at every node of {proof.n_trees} trees"
        return TrainingProof("proven", f"counts {'and values ' if proof.values_prove else ''}agree {nodes}")
    assert ensemble.count is not None
    if not np.array_equal(in_bag.n_samples(), ensemble.count[ensemble.tree_start[:-1]]):
        return TrainingProof("unknown", proof.mismatch())  # the seeds are not those of the trees
    weights_agree = proof.root_counts == proof.root_weights == 1  # so that they do not blur the means of y
    of_y = weights_agree and proof.values_prove and proof.telling
    if of_y and proof.root_values < 1:
        return TrainingProof("contradicted", "the means of y in the bags are not those of training")
    if of_y and member.layers:
        return TrainingProof("proven", "counts and means of y agree at the roots")
    if proof.counts == 1:
        return TrainingProof("contradicted" if of_y else "unknown", proof.mismatch())
    return TrainingProof(DOUBTFUL, f"{1 - proof.counts:.0%} of the nodes hold other rows")


def _rows_are_absent(ensemble: TreeEnsemble, counted: list[LeafCounts]) -> bool:
    """Whether some training rows are not among the counted rows.

    A leaf with fewer rows than in training shows it, if the model stores numbers of distinct rows. XGBoost and CatBoost
    store sums of weights, which are more than the rows unless all weights are 1; the weights are not stored.
    """
    if not counted or not ensemble.uniform_rows or ensemble.objective.smoothed or not short_somewhere(counted):
        return False
    if not ensemble.averaged:
        first = counted[0]  # later sums of hessians are smaller
        is_first = ensemble.count is not None or first.tree == 0
        # Half a row for rounding. Larger sums are of weights, and then a leaf with fewer rows shows nothing.
        return is_first and bool(first.stored.sum() <= first.reached.sum() + 0.5)
    if ensemble.n_train is not None or ensemble.count is None:
        return ensemble.count is not None
    return bool(np.ptp(ensemble.count[ensemble.tree_start[:-1]]) == 0)  # without bags, a row counts once


def _refuse_unproven(proofs: list[FoldProof], folds: Sequence[Fold], rows: _AllRows) -> None:
    """Refuse folds that are not proven, if others fit their models, or test rows fit as well as training rows."""
    unproven = [proof for proof in proofs if not proof.holds]
    other = _fold_that_fits(unproven[0].fold, folds, rows) if unproven else None
    if other is not None:
        raise _not_its_rows(unproven[0].fold, "the trees do not fit them", other)
    with_more = next((proof.fold for proof in unproven if _all_rows_fit(proof.fold, rows)), None)
    if with_more is not None:
        raise _not_its_rows(with_more, "it was trained on rows of X that are not among them", None)
    shares = [pair for proof in unproven for pair in _shares(proof, rows)]
    if shares:
        of_test, of_train = np.mean(shares, axis=0)
        if of_test > AS_LIKELY * of_train:
            doubted = next(m for proof in unproven for m in proof.members if m.status == DOUBTFUL)
            raise _not_its_rows(unproven[0].fold, doubted.detail, None)


def _shares(proof: FoldProof, rows: _AllRows) -> list[tuple[float, float]]:
    """Return for each doubtful model how much the test rows, and the training rows, look like training rows."""
    test = proof.fold.test
    if all(member.status != DOUBTFUL for member in proof.members):
        return []
    shares = []
    with about_fold(proof.fold.name):
        members = unwrap(proof.fold.model, taken(rows.X, test), taken(rows.y, test))
        for member, of_train in zip(members, proof.members, strict=True):
            if of_train.status == DOUBTFUL and of_train.grown_share is not None:
                recognition = recognise(member.ensemble, *rows.encoded(member, test)[:2])
                if recognition.share is not None:
                    shares.append((recognition.grown_share, of_train.grown_share))
    return shares


def _as_likely(test: Recognition, train: TrainingProof) -> bool:
    """Whether the test rows look like training rows no less than the rows that should be."""
    if train.agrees and not test.agrees:
        return False
    return test.exact or train.grown_share is None or test.grown_share > AS_LIKELY * train.grown_share


def _fold_that_fits(fold: Fold, folds: Sequence[Fold], rows: _AllRows) -> Fold | None:
    """Return another fold whose training rows are those of the model of this fold."""
    others = (other for other in folds if other is not fold and other.train is not None)
    return next((other for other in others if _proof(fold, other, rows).holds), None)


def _all_rows_fit(fold: Fold, rows: _AllRows) -> bool:
    """Whether all training rows of the model are rows of X, if this is not proven for the training rows of the fold.

    More rows prove it only if some training rows are missing among those of the fold.
    """
    if fold.train is None:
        return False
    n_rows = rows.y.shape[0] if hasattr(rows.y, "shape") else len(rows.y)
    return _proof(fold, replace(fold, train=np.arange(n_rows)), rows).holds


_CAUSES = (
    "Likely causes: cv= has another random_state or shuffle than in training, the models were trained on all rows or "
    "are in another order than the folds, X and y are not all rows of the cross-validation in the same order, or the "
    "models were trained with weights, which must be passed as sample_weight="
)


def _not_its_rows(fold: Fold, detail: str, other: Fold | None) -> ProvenanceError:
    finding = f"{fold.name}: its model was not trained on the training rows of this fold ({detail})"
    if other is not None:
        return ProvenanceError(
            f"{finding}. It was trained on those of {other.name}: the models are in another order than the folds. Put "
            "them in the same order"
        )
    by_label = (
        ". With labels as cv=, all other rows are the training rows of a fold: if the models were trained on others, "
        "pass cv= as (train, test) positions"
        if fold.others_are_train
        else ""
    )
    return ProvenanceError(f"{finding}. {_CAUSES}{by_label}")
