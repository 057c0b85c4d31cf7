"""The proof of evaluation rows: they are the training rows in training order, or rows the model has not seen.

:func:`resolve` is the entry point. It takes two steps:

1. :func:`as_out_of_bag` recovers the bags of the trees and compares the rows with the nodes
   (:mod:`debias.rows.bag_proof`). If the counts and means agree at every node, the rows are proven: kind "oob".
2. Otherwise :func:`without_bags` looks at the number of rows in each leaf (:mod:`debias.rows.recognition`). Rows that
   look like training rows, in whatever order, are refused. All others are held-out rows, and
   :mod:`debias.rows.shift` compares them with the training rows at the splits.

:func:`prove_training` checks rows that are passed as ``train=``. If they are proven, the evaluation rows are compared
with them one by one (:mod:`debias.rows.shared_rows`), and not by the number of rows in each leaf. The response of
held-out rows is checked afterwards, in :mod:`debias.rows.response_check`.

The file has more than 500 lines because every refusal says what was found, and what to pass instead.

The file is long, because all kinds of rows are decided here, one after the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias.data.response import as_passed
from debias.errors import (
    ExtractionError,
    InBagUnavailableError,
    ProvenanceError,
    RowsError,
    TrainingRowsError,
    with_article,
)
from debias.hooks.registry import plugin_manager
from debias.hooks.training_weights import TrainingWeights
from debias.results.performance import ROWS_DIFFER
from debias.results.vocabulary import AS_ESTIMATED, RowsKind
from debias.rows.bag_proof import Proof, prove, response_fits, units_of_response
from debias.rows.recognition import (
    CERTAIN,
    ROWS_AT_LEAST,
    SAFE,
    Recognition,
    recognise,
    weighted_by_class,
    weighted_by_row,
)
from debias.rows.shared_rows import MOST_REPEATED
from debias.rows.weight_proof import compared_weights, counts_alike, leaf_weights_agree
from debias.text import few_digits
from debias.trees.routing import REPORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.rows.shared_pass import SharedPass
    from debias.rows.shared_rows import SharedRows
    from debias.rows.shift import Shift
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag
    from debias.warning_log import WarningLog

ENOUGH_PRESENT = 0.75
"""Rows passed as train= must contain at least this estimated share of the training set."""
MOST_SHIFTS_DESCRIBED = 3
"""Largest number of shifted features that a warning describes."""
SURE = 0.95
"""From this power on, rows that are not recognised as training rows are not training rows."""
RowsOption = Literal["auto", "oob", "held-out", "train"]
KINDS: tuple[str, ...] = get_args(RowsOption)
_UNPROVEN_WEIGHTS = "the weights are unproven, because plain sums of weights cannot be read from this"
EVERY_LEAF = "the training rows: every leaf holds its training rows"
PROVEN = ("proven", "rows proven, y unproven", "rows proven, y plausible")


@dataclass(frozen=True)
class Provenance:
    """What is known about the evaluation rows.

    Parameters
    ----------
    kind : {"oob", "held-out", "train"}
    status : str
        "proven"; "rows proven, y unproven"; "rows proven, y plausible"; "not recognised as training rows"; "cannot be
        told"; "stated by the user"; of the test rows of a fold also "proven held-out".
    detail : str
        The result in one sentence.
    training_share : float or None
        Estimated share of the rows that are training rows; None if it was not estimated.
    shift : float or None
        Largest difference between these rows and the training rows at the splits on one feature, from 0 (no difference
        is more than chance) to 2, see :mod:`debias.rows.shift`. None for training rows, and if it is not known.
    shifted_features : tuple of str
        Features for which the rows differ by more than chance, the largest difference first.
    """

    kind: str
    status: str
    detail: str
    training_share: float | None = None
    shift: float | None = None
    shifted_features: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {**asdict(self), "shifted_features": list(self.shifted_features)}


def resolve(
    ensemble: TreeEnsemble,
    model: Any,
    table: Table,
    response: Response,
    rows: str,
    sample_weight: NDArray[np.float64] | None,
    log: WarningLog,
    order: NDArray[np.int64] | None = None,
    shared: SharedRows | None = None,
    train: Provenance | None = None,
    routed: SharedPass | None = None,
) -> tuple[str, InBag | None, Provenance]:
    """Decide what the rows are, and prove it as far as the model allows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    model : object
    table : Table
    response : Response
    rows : {"auto", "oob", "held-out", "train"}
        The kind of rows, as the user states it.
    sample_weight : array of shape (n_rows,), or None
        Weights that the user passed with the rows.
    log : WarningLog
        Receives the warnings.
    order : array of int64 of shape (n_train,), optional
        Positions of the rows in the order in which the model may have been trained on them; by default their own.
    shared : SharedRows, optional
        How many of the rows are also in ``train=``, if the user passed it.
    train : Provenance, optional
        What is known about ``train=``.
    routed : SharedPass, optional
        The pass of the scores over the rows.

    Returns
    -------
    (kind, InBag or None, Provenance)

    Raises
    ------
    ProvenanceError
        The rows are not what the user states. With "auto": they are training rows, but not all of them or not in
        training order.
    InBagUnavailableError
        `rows` is "oob" and the model has no bags.
    RowsError
        `rows` is not one of the four words.
    """
    check_kind(rows)
    if rows in ("auto", "oob"):
        bags_and_provenance = as_out_of_bag(
            ensemble,
            model,
            rows,
            table.n_rows,
            response,
            sample_weight,
            lambda in_bag: prove(ensemble, in_bag, table, response),
            log,
            order,
        )
        if bags_and_provenance is not None:
            return RowsKind.OOB, *bags_and_provenance
    recognition = recognise(ensemble, table, response, routed)
    if not recognition.exact and weighted_by_class(ensemble, table, response):
        recognition = replace(recognition, exact=True)
    if shared is not None and train is not None and rows != RowsKind.TRAIN:
        _refuse_shared(shared, rows, log)
        if train.status in PROVEN:
            return RowsKind.HELD_OUT, None, _compared_with_training_rows(recognition, shared, log)
    kind, provenance = without_bags(ensemble, recognition, rows, table.n_rows, log)
    return kind, None, provenance


def check_kind(rows: str) -> None:
    """Raise a RowsError if `rows` is not a kind of rows."""
    if rows not in KINDS:
        raise RowsError(f"rows={rows!r} is not one of {', '.join(map(repr, KINDS))}")


def of_resampled(reason: str, rows: str) -> Provenance:
    """Return the provenance of rows for a model that was grown on other rows than those of any X.

    Parameters
    ----------
    reason : str
        Why the rows of the trees are not rows of X.
    rows : str
        The kind of the rows, as the user states it.

    Raises
    ------
    InBagUnavailableError
        `rows` is "oob".
    ProvenanceError
        `rows` is "auto": training rows could not be told from fresh rows.
    """
    check_kind(rows)
    if rows == RowsKind.OOB:
        raise InBagUnavailableError(
            f"the trees were not grown on the rows of X: {reason}. So no row can be proven to be out of bag. Pass rows "
            "the model has not seen, with rows='held-out'"
        )
    if rows == "auto":
        raise ProvenanceError(
            f"debias cannot tell whether the model has seen these rows, because {reason}. For rows it has not seen "
            "pass rows='held-out'; rows='train' scores training rows, and such scores are biased"
        )
    if rows == RowsKind.HELD_OUT:
        unknown = f"it is not known whether some of these rows are training rows, because {reason}"
        return Provenance(rows, "cannot be told", unknown)
    return Provenance(rows, "stated by the user", f"rows={rows!r}, and the training rows are not known: {reason}")


def as_out_of_bag(
    ensemble: TreeEnsemble,
    model: Any,
    rows: str,
    n_rows: int,
    response: Response,
    sample_weight: NDArray[np.float64] | None,
    prove_with: Callable[[InBag], Proof],
    log: WarningLog,
    order: NDArray[np.int64] | None = None,
) -> tuple[InBag, Provenance] | None:
    """Prove that rows are the training rows in training order.

    Return None if `rows` is "auto" and they may be other rows. Parameters and errors are as for :func:`resolve`;
    `prove_with` compares the rows with the nodes for the bags it is called with.
    """
    try:
        in_bag, proof, proven_weight = prove_bags(ensemble, model, n_rows, response, sample_weight, prove_with, order)
    except (ProvenanceError, InBagUnavailableError) as error:
        if rows == RowsKind.OOB or isinstance(error, TrainingRowsError):
            raise
        return None
    if proof.holds:
        of_weights = _weights_compared(ensemble, model, response, sample_weight, proven_weight, order, rows, log)
        return in_bag, proven(proof, of_weights)
    if rows == RowsKind.OOB:
        raise ProvenanceError(
            f"these are not the training rows in training order: {proof.mismatch()}. {_PASS_TRAINING}"
        )
    if proof.claims:
        raise ProvenanceError(f"these look like the training rows, but {proof.mismatch()}. {_PASS_TRAINING}")
    return None


def without_bags(
    ensemble: TreeEnsemble, recognition: Recognition, rows: str, n_rows: int, log: WarningLog
) -> tuple[str, Provenance]:
    """Decide from the leaf counts whether rows are training rows or held-out rows; errors as for :func:`resolve`."""
    if rows == RowsKind.TRAIN:
        return RowsKind.TRAIN, _claimed_training(recognition, log)
    if recognition.largely_training:
        _refuse_training_rows(ensemble, recognition, rows, n_rows, log)
        return RowsKind.HELD_OUT, _fresh(ensemble, recognition)
    if recognition.unknown_because is not None:
        report_unknown(ensemble, recognition.unknown_because, rows, log)
    if rows == "auto":
        _warn_of_training_rows(recognition, n_rows, log)
    if recognition.shift is not None and recognition.shift.features:
        log.warn(describe_shift(recognition.shift))
    return RowsKind.HELD_OUT, _fresh(ensemble, recognition)


def _warn_of_training_rows(recognition: Recognition, n_rows: int, log: WarningLog) -> None:
    """Warn of training rows among rows that are not refused."""
    advice = "They are used as held-out rows. Pass rows='held-out' if the model has not seen them"
    if recognition.agrees:
        log.warn(
            f"every leaf holds exactly as many of these {n_rows} rows as of the training rows, but there are so few "
            f"leaves that this may be chance. {advice}; otherwise pass rows it has not seen"
        )
    elif recognition.suspicious:
        log.warn(f"{_looks_like(recognition, f'these {n_rows} rows')}. {advice}; otherwise pass rows it has not seen")


def prove_bags(
    ensemble: TreeEnsemble,
    model: Any,
    n_rows: int,
    response: Response,
    sample_weight: NDArray[np.float64] | None,
    prove_with: Callable[[InBag], Proof],
    order: NDArray[np.int64] | None = None,
) -> tuple[InBag, Proof, NDArray[np.float64] | None]:
    """Recover the bags, compare the rows with the nodes, and return with which weights they were compared last.

    Raise a ProvenanceError or an InBagUnavailableError if there is nothing to compare.
    """
    n_trained = n_rows if order is None else order.size
    if ensemble.n_train is not None and ensemble.n_train != n_trained:
        what_to_pass = _PASS_TRAINING if _has_bags(ensemble) else _HOLD_OUT
        raise ProvenanceError(f"the model was trained on {ensemble.n_train} rows, but X has {n_rows}. {what_to_pass}")
    # The weights of the rows may be training weights, or weights of the evaluation only.
    for weight in (None, sample_weight) if sample_weight is not None else (None,):
        in_bag = _recovered_bags(ensemble, model, n_rows, response, weight, order)
        if ensemble.count is None or ensemble.weight is None:
            missing = "count" if ensemble.count is None else "weight"
            raise ExtractionError(
                f"the adapter of this {ensemble.source} recovers its bags, but its trees have no `{missing}`, so the "
                f"bags cannot be proven. {_HOLD_OUT} The adapter should give `count` and `weight` of every node in "
                "debias_extract, or raise InBagUnavailableError in debias_in_bag."
            )
        proof = prove_with(in_bag).with_response(in_bag.fits_response)
        if proof.holds:
            break
    return in_bag, proof, weight


def _recovered_bags(
    ensemble: TreeEnsemble,
    model: Any,
    n_rows: int,
    response: Response,
    sample_weight: NDArray[np.float64] | None,
    order: NDArray[np.int64] | None = None,
) -> InBag:
    """Return the bags that the model's adapter recovers; raise an error if they are of other rows or trees."""
    y = as_passed(response, ensemble)
    if order is not None:
        y = y[order]
        sample_weight = None if sample_weight is None else sample_weight[order]
    in_bag: InBag | None = plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=sample_weight)
    if in_bag is None:
        raise InBagUnavailableError(f"no adapter can recover the bags of {with_article(ensemble.source)}. {_HOLD_OUT}")
    if in_bag.n_trees != ensemble.n_trees:
        raise ExtractionError(
            f"debias_in_bag of the adapter of this {ensemble.source} returns bags of {in_bag.n_trees} trees, but the "
            f"model has {ensemble.n_trees}. {REPORT}"
        )
    factors, classes = in_bag.class_weight, ensemble.classes
    if isinstance(factors, np.ndarray) and classes is not None and factors.shape != classes.shape:
        raise ExtractionError(
            f"debias_in_bag of the adapter of this {ensemble.source} returns class weights of shape {factors.shape} "
            f"for {classes.size} classes. {REPORT}"
        )
    if in_bag.n_rows != (n_rows if order is None else order.size):
        raise ProvenanceError(f"the bags are those of {in_bag.n_rows} rows, but X has {n_rows}. {_PASS_TRAINING}")
    return in_bag if order is None else in_bag.in_order(order, n_rows)


def _weights_compared(
    ensemble: TreeEnsemble,
    model: Any,
    response: Response,
    sample_weight: NDArray[np.float64] | None,
    proven_weight: NDArray[np.float64] | None,
    order: NDArray[np.int64] | None,
    rows: str,
    log: WarningLog,
    argument: str = "sample_weight=",
) -> str:
    """Compare weights with those of training, in training order: see :func:`compared_weights`."""
    stored = stored_weights(model)
    labels = as_passed(response, ensemble) if stored.multiplied else None
    if order is not None:
        sample_weight, labels = (None if each is None else each[order] for each in (sample_weight, labels))
    return compared_weights(stored.rows, proven_weight, sample_weight, labels, rows, log, argument)


def stored_weights(model: Any) -> TrainingWeights:
    """Return what the adapter of a model reads of its training weights."""
    stored: TrainingWeights | None = plugin_manager().hook.debias_training_weights(model=model)
    return TrainingWeights() if stored is None else stored


def proven(proof: Proof, of_weights: str = "") -> Provenance:
    """Return the provenance of rows that the bags prove; `of_weights` ends the sentence."""
    compared_nodes = f"at the roots and at every node of {proof.n_trees} trees"
    if proof.values_prove:
        agree = "counts agree {}, and values at the roots" if proof.only_roots_prove else "counts and values agree {}"
        detail = f"the training rows in training order: {agree.format(compared_nodes)}"
        return Provenance(RowsKind.OOB, "proven", detail + of_weights)
    return Provenance(
        RowsKind.OOB,
        "rows proven, y unproven",
        f"the training X in training order: counts agree {compared_nodes}; leaf values are not means, so they cannot "
        f"prove y{of_weights}",
    )


def _claimed_training(recognition: Recognition, log: WarningLog) -> Provenance:
    if recognition.exact:
        return Provenance(RowsKind.TRAIN, "proven", EVERY_LEAF, 1.0)
    if recognition.power > SURE and not recognition.suspicious:
        log.warn(
            f"these do not look like training rows: from the leaf counts, about {recognition.share or 0:.0%} of them "
            "are training rows. Pass rows='held-out' if the model has not seen them"
        )
    return Provenance(
        "train", "stated by the user", "used as training rows because the user passed rows='train'", recognition.share
    )


def _fresh(ensemble: TreeEnsemble, recognition: Recognition) -> Provenance:
    found = by_leaf_counts(ensemble, recognition)
    if not recognition.largely_training:
        return found
    detail = "used as held-out rows because the user passed rows='held-out', but they look like training rows"
    return replace(found, status="stated by the user", detail=detail)


def _refuse_shared(shared: SharedRows, rows: str, log: WarningLog) -> None:
    """Refuse evaluation rows that are also in ``train=``, beyond chance; warn of few, and of rows that are stated."""
    if not shared.perhaps_training:
        return
    finding = f"{shared.share:.1%} of these rows are also in train=, with the same features and response"
    if shared.repeated:
        finding += f" (the rows of train= repeat one another in {shared.repeated:.1%})"
    biased = "scores on training rows are as biased as the reported importance"
    if rows == RowsKind.HELD_OUT or not shared.too_many:
        log.warn(f"{finding}; {biased}. Pass rows that are not in train=")
        return
    raise ProvenanceError(
        f"{finding}. Pass rows that are not in train=. If these are other cases with the same features and response, "
        f"pass rows='held-out'; {biased}."
    )


def _compared_with_training_rows(recognition: Recognition, shared: SharedRows, log: WarningLog) -> Provenance:
    """Return the provenance of held-out rows whose training rows are proven and were compared with them."""
    shift = recognition.shift
    if shift is not None and shift.features:
        log.warn(describe_shift(shift))
    size, names = (None, ()) if shift is None else (shift.size, tuple(feature.name for feature in shift.features))
    status = "not recognised as training rows"
    if shared.too_many:
        status = "stated by the user"
        detail = f"used as held-out rows because the user passed rows='held-out', but {shared.share:.1%} are in train="
    elif not shared.share:
        status, detail = "proven held-out", "none of them is a training row: those are proven, and none is among these"
    else:
        status = "cannot be told" if shared.cannot_be_told else status
        detail = f"{shared.share:.1%} of them are also in train=, with the same features and response; " + (
            f"{shared.repeated:.1%} of the rows of train= repeat one another, so copies cannot be told from other cases"
            if shared.repeated > MOST_REPEATED
            else f"if all rows were divided by chance, as many would be with probability {shared.p_value:.2g}"
        )
    return Provenance(RowsKind.HELD_OUT, status, detail, max(0.0, shared.beyond_chance), size, names)


def by_leaf_counts(ensemble: TreeEnsemble, recognition: Recognition) -> Provenance:
    """Return the provenance of held-out rows as far as the leaf counts tell."""
    share, shift = recognition.share, recognition.shift
    size, names = (None, ()) if shift is None else (shift.size, tuple(feature.name for feature in shift.features))
    if recognition.suspicious:
        return Provenance(
            RowsKind.HELD_OUT, "cannot be told", _looks_like(recognition, "these rows"), share, size, names
        )
    in_leaves = "leaf counts" if ensemble.count is not None else "sums of hessians in the leaves"
    if not recognition.mostly_fresh:
        why = _why_unknown(recognition, in_leaves)
        detail = f"it is not known whether some of these rows are training rows, because {why}"
        return Provenance(RowsKind.HELD_OUT, "cannot be told", detail, share, size, names)
    detail = (
        f"the {in_leaves} do not look like those of the training rows or of a random part of them: at most "
        f"{max(recognition.at_most, 0.01):.0%} of these rows are training rows (confidence {1 - SAFE:.0%})"
    )
    if ensemble.count is None:
        detail += ", if the model was trained without weights, which it does not store"
    return Provenance(RowsKind.HELD_OUT, "not recognised as training rows", detail, share, size, names)


def _why_unknown(recognition: Recognition, in_leaves: str) -> str:
    if recognition.unknown_because is not None:
        return recognition.unknown_because
    if recognition.share is None:
        return f"there are fewer than {ROWS_AT_LEAST} different ones among them"
    if not recognition.sampling_known:
        return (
            "each tree may have been grown on a part of the training rows, and the model does not store on how many "
            f"of them. {_WITH_TRAIN}"
        )
    if recognition.at_most > 0.995:
        return f"the {in_leaves} do not show it: there are too few rows or leaves. {_WITH_TRAIN}"
    return (
        f"by the {in_leaves} up to {recognition.at_most:.0%} of them may be (confidence {1 - SAFE:.0%}). {_WITH_TRAIN}"
    )


def report_unknown(ensemble: TreeEnsemble, reason: str, rows: str, log: WarningLog) -> None:
    """Refuse rows of a boosted model unless the user states what they are; add a warning for any other model."""
    unknown = f"debias cannot check whether these rows contain training rows of this {ensemble.source}: {reason}"
    if rows == RowsKind.HELD_OUT:
        log.add(f"{unknown}. rows='held-out' states that they contain none")
        return
    if not ensemble.averaged:
        raise ProvenanceError(
            f"{unknown}. A boosted model must be scored on rows it has not seen: pass rows='held-out' to state that "
            "these are such rows"
        )
    log.warn(f"{unknown}. They are used as held-out rows. Pass rows='held-out' if the model has not seen them")


def describe_shift(shift: Shift) -> str:
    """Return a warning about rows that differ from the training rows at the splits."""
    described = "; ".join(feature.in_words() for feature in shift.features[:MOST_SHIFTS_DESCRIBED])
    more = len(shift.features) - MOST_SHIFTS_DESCRIBED
    return (
        f"{ROWS_DIFFER}: {described}"
        + (f"; and {more} more features" if more > 1 else "; and 1 more feature" if more == 1 else "")
        + ". Check that the columns, their order and their units are the same as in training; if the model is a step "
        "of a pipeline, pass the whole pipeline. If they are the same, the data have shifted, and the scores hold for "
        "these rows; or the model was trained on rows drawn by class, or with weights, which it does not store"
    )


def _refuse_training_rows(
    ensemble: TreeEnsemble, recognition: Recognition, rows: str, n_rows: int, log: WarningLog
) -> None:
    finding = (
        _certain(ensemble, recognition, n_rows)
        if recognition.exact
        else _looks_like(recognition, f"these {n_rows} rows")
    )
    remedy = (
        "Pass all training rows and no others, in training order, to score on out-of-bag rows, or pass only rows the "
        "model has not seen"
        if _has_bags(ensemble)
        else "A model without bags must be scored on rows it has not seen: pass only such rows"
    )
    if rows == RowsKind.HELD_OUT:
        log.warn(f"{finding}; scores on training rows are as biased as the reported importance. {remedy}")
        return
    raise ProvenanceError(
        f"{finding}. {remedy}. If the model has not seen these rows, pass rows='held-out'. rows='train' scores them as "
        "training rows; such scores are as biased as the reported importance."
    )


def _has_bags(ensemble: TreeEnsemble) -> bool:
    """Whether each tree was grown on its own part of the training rows."""
    if not ensemble.averaged or ensemble.count is None:
        return False
    return ensemble.n_train is None or bool((ensemble.count[ensemble.tree_start[:-1]] < ensemble.n_train).any())


def _looks_like(recognition: Recognition, rows: str) -> str:
    part = "" if recognition.trees is None else " of trees {} to {}".format(*recognition.trees)
    are = "are" if recognition.p_fresh < CERTAIN else "may be"
    about = "about" if recognition.sampling_known else "at least about"
    return (
        f"{about} {recognition.share:.0%} of {rows} {are} training rows{part}, {AS_ESTIMATED} "
        f"(rows the model has not seen would look like this with probability {recognition.p_fresh:.1g})"
    )


def _certain(ensemble: TreeEnsemble, recognition: Recognition, n_rows: int) -> str:
    n_train = ensemble.n_train if ensemble.n_train is not None else recognition.n_grown
    if recognition.share is not None and not recognition.agrees and n_rows > n_train:
        return f"the training rows are among these {n_rows} rows: each leaf holds as many as in training, or more"
    return "these are the training rows: the leaves hold the rows they held in training"


_PASS_TRAINING = (
    "To score on out-of-bag rows, pass all rows of the training X and y, unchanged and in training order. "
    "Otherwise pass rows the model has not seen, with rows='held-out'."
)
_WITH_TRAIN = "If the training rows are passed too, they are compared one by one"
_HOLD_OUT = "Pass rows the model has not seen, with rows='held-out'."


def prove_training(
    ensemble: TreeEnsemble,
    model: Any,
    table: Table,
    response: Response,
    weight: NDArray[np.float64] | None,
    log: WarningLog,
    order: NDArray[np.int64] | None = None,
) -> tuple[InBag | None, Provenance]:
    """Prove the rows of ``train=``: in-bag sums over rows that are not the training rows would be wrong.

    Parameters
    ----------
    ensemble, model, table, response, log, order
        As for :func:`debias.rows.provenance.resolve`.
    weight : array of shape (n_rows,), or None
        Training weights that the user passed with the rows.

    Returns
    -------
    (InBag or None, Provenance)

    Raises
    ------
    ProvenanceError
        They are not the training rows, or not all of them. If the model stores no row counts, there is only a warning.
    """
    try:
        in_bag, proof, proven_weight = prove_bags(
            ensemble,
            model,
            table.n_rows,
            response,
            weight,
            lambda in_bag: prove(ensemble, in_bag, table, response),
            order,
        )
    except InBagUnavailableError:
        pass
    except ProvenanceError as error:
        raise ProvenanceError(f"train: {error}") from None
    else:
        if proof.holds:
            third = "sample_weight= (of train, that of its Dataset)"
            try:
                of_weights = _weights_compared(
                    ensemble, model, response, weight, proven_weight, order, "oob", log, third
                )
            except ProvenanceError as error:
                raise ProvenanceError(f"train: {error}") from None
            if not proof.values_prove:
                _refuse_another_response(ensemble, table, response, weight)
            return in_bag, proven(proof, of_weights)
        raise ProvenanceError(f"train is not the training rows in training order: {proof.mismatch()}")
    recognition = recognise(ensemble, table, response)
    if recognition.exact or weighted_by_row(ensemble, table, response, weight):
        _refuse_another_response(ensemble, table, response, weight)
        _check_weights_of_leaves(ensemble, model, table, weight, recognition, log)
        return None, Provenance(RowsKind.TRAIN, "rows proven, y plausible", EVERY_LEAF, 1.0)
    sums_known = not ensemble.objective.compares_rows and not ensemble.objective.curvature_needs_response
    if ensemble.count is None and ensemble.cover is not None and recognition.share is None and sums_known:
        log.warn(
            f"train: the leaves of this {ensemble.source} do not hold the sums of these rows "
            + ("without weights. " if weight is None else "with these weights. ")
            + "If it was trained on all rows, the weights are not those of training: pass "
            "train=debias.Dataset(X_train, y_train, sample_weight=...). Otherwise the rows and their weights are "
            "unproven"
        )
    mismatch = _other_rows(ensemble, table, recognition)
    if mismatch is not None and ensemble.count is not None:
        raise ProvenanceError(f"{mismatch}. Pass all rows the model was trained on.")
    try:
        _refuse_another_response(ensemble, table, response, weight)
    except ProvenanceError:
        if mismatch is None:
            raise
        # Other rows have another response too, and then its units are not what is wrong.
        raise ProvenanceError(f"{mismatch}. Pass all rows the model was trained on.") from None
    if mismatch is not None:
        # XGBoost stores sums of hessians. Training weights change them, and the model does not store the weights.
        log.warn(f"{mismatch}. If the model was trained with weights, this check does not hold.")
    elif weight is not None:
        log.add(f"train: {_UNPROVEN_WEIGHTS} {ensemble.source}")
    detail = "used as training rows because the user passed train="
    return None, Provenance(RowsKind.TRAIN, "stated by the user", detail, recognition.share)


def _other_rows(ensemble: TreeEnsemble, table: Table, recognition: Recognition) -> str | None:
    """Return why rows do not look like the training rows, by the counts of the leaves; None if they may be these."""
    # Fewer rows than the trees were grown on are not all of them, as many must have the same counts, and of more rows
    # most must be found. Half a row is for sums of hessians, which are not whole.
    too_few = table.n_rows < recognition.n_grown - 0.5
    as_many = abs(table.n_rows - recognition.n_grown) < 0.5 and not recognition.agrees
    largely_absent = recognition.power > SURE and recognition.present < ENOUGH_PRESENT
    if recognition.share is None or not (too_few or as_many or largely_absent):
        return None
    present = min(1.0, max(0.0, recognition.present))
    grown = f"the trees were grown on {recognition.n_grown:.0f} rows"
    if ensemble.count is None:
        grown = f"the leaves hold sums of hessians, as of {recognition.n_grown:.0f} rows without weights"
    return (
        f"train does not look like the training rows: {grown}, and from the leaf counts about {present:.0%} of "
        f"them are among these {table.n_rows}"
    )


def _check_weights_of_leaves(
    ensemble: TreeEnsemble,
    model: Any,
    table: Table,
    weight: NDArray[np.float64] | None,
    recognition: Recognition,
    log: WarningLog,
) -> None:
    """Refuse other weights than those of training, for all training rows; say if weights cannot be proven."""
    # Sums of hessians that are those of rows without weights show that there were none.
    trained_without = ensemble.count is None and recognition.exact and recognition.agrees
    stored = stored_weights(model)
    agree = None if stored.classes else leaf_weights_agree(ensemble, table, weight, trained_without=trained_without)
    if agree is False and weight is not None and counts_alike(weight):
        log.add(f"train: these rows count alike, and this {ensemble.source} was trained with other weights")
    elif agree is False:
        raise ProvenanceError(
            f"train: every leaf holds its training rows, but this {ensemble.source} was trained with other weights. "
            "Pass the weights of training as sample_weight= (of train, that of its Dataset), or none if there were none"
        )
    if agree is None and weight is not None and recognition.exact:
        log.add(f"train: {_UNPROVEN_WEIGHTS} {ensemble.source}")


def known_bags(
    ensemble: TreeEnsemble, model: Any, response: Response, sample_weight: NDArray[np.float64] | None
) -> InBag | None:
    """Return the bags of a model that debias itself has just fitted on these rows; None if it has none.

    Parameters
    ----------
    ensemble, model, response
        As for :func:`debias.rows.provenance.resolve`.
    sample_weight : array of shape (n_rows,), or None
        Training weights.
    """
    try:
        return _recovered_bags(ensemble, model, response.n_rows, response, sample_weight)
    except InBagUnavailableError:
        return None


def _refuse_another_response(
    ensemble: TreeEnsemble, table: Table, response: Response, weight: NDArray[np.float64] | None
) -> None:
    if not response_fits(ensemble, table, response):
        raise ProvenanceError(
            "train: y is not the response the model was trained on: the leaves of the first trees do not follow it"
        )
    factor = units_of_response(ensemble, table, response, weight)
    if factor is not None and factor <= 0:
        raise ProvenanceError(
            "train: y is not the response the model was trained on: the values of the leaves do not follow it"
        )
    if factor is not None:
        raise ProvenanceError(
            "train: y has other units than the response the model was trained on, or is transformed: by the values of "
            f"the leaves, it is {few_digits(factor)} times as large. Pass y as in training"
            + (
                ", or the weights of training, if there were any: train=debias.Dataset(X_train, y_train, "
                "sample_weight=...)"
                if weight is None
                else ", with the weights of training"
            )
        )
