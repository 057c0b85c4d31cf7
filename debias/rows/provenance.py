"""What is proven about the rows: the training rows in training order, or rows the model has not seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from debias.errors import InBagUnavailableError, ProvenanceError, RowsError
from debias.rows.bag_proof import Proof, prove, response_fits
from debias.rows.recognition import Recognition, recognise

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.rows.shift import Shift
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag
    from debias.warning_log import WarningLog

ENOUGH_PRESENT = 0.75
"""Least estimated share of the training set that rows given as train= must contain."""


DOUBT = 0.3
"""Probability under fresh rows below which rows that look like training rows are warned of."""
SHIFTS_TOLD = 3
"""At most so many shifted features are described in a warning."""
SURE = 0.95
"""Power from which rows that are not recognised as training rows are none."""
KINDS = ("auto", "oob", "held-out", "train")
EVERY_LEAF = "the training rows: every leaf holds its training rows"


@dataclass(frozen=True)
class Provenance:
    """What is known about the evaluation rows.

    Parameters
    ----------
    kind : {"oob", "held-out", "train"}
    status : str
        "proven"; "rows proven, y unproven"; "rows proven, y plausible"; "not recognised as training rows"; "cannot be
        told"; "stated by the user".
    detail : str
        The finding in a sentence.
    training_share : float or None
        Estimated share of the rows that are training rows, where it was estimated.
    shift : float or None
        How differently these rows and the training rows are divided by the splits on the feature for which they differ
        most, from 0 (no difference is more than chance) to 2, see :mod:`debias.rows.shift`. None for training rows, and
        where it cannot be told.
    shifted_features : tuple of str
        Features for which they differ by more than chance, the largest difference first.
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
    notes: WarningLog,
) -> tuple[str, InBag | None, Provenance]:
    """Settle what the rows are, and prove it as far as the model allows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    model : object
    table : Table
    response : Response
    rows : {"auto", "oob", "held-out", "train"}
        What the user says they are.
    sample_weight : array of shape (n_rows,), or None
        Weights the user gave with them.
    notes : WarningLog
        Takes what a reader of the scores must know.

    Returns
    -------
    (kind, InBag or None, Provenance)

    Raises
    ------
    ProvenanceError
        The rows are not what they were said to be; or, under "auto", they are training rows that cannot serve.
    InBagUnavailableError
        "oob", of a model without bags.
    RowsError
        `rows` is none of the four words.
    """
    check_kind(rows)
    if rows in ("auto", "oob"):
        found = as_out_of_bag(
            ensemble,
            model,
            rows,
            table.n_rows,
            response,
            sample_weight,
            lambda in_bag: prove(ensemble, in_bag, table, response),
        )
        if found is not None:
            return "oob", *found
    kind, provenance = without_bags(ensemble, recognise(ensemble, table, response), rows, table.n_rows, notes)
    return kind, None, provenance


def check_kind(rows: str) -> None:
    """Raise a RowsError if `rows` is no kind of rows."""
    if rows not in KINDS:
        raise RowsError(f"rows={rows!r} is none of {', '.join(map(repr, KINDS))}")


def as_out_of_bag(
    ensemble: TreeEnsemble,
    model: Any,
    rows: str,
    n_rows: int,
    response: Response,
    sample_weight: NDArray[np.float64] | None,
    prove_with: Callable[[InBag], Proof],
) -> tuple[InBag, Provenance] | None:
    """Prove that rows are the training rows in training order; None if they may be others and `rows` is "auto".

    Parameters and errors as for :func:`resolve`; `prove_with` compares the rows with the nodes, given the bags.
    """
    try:
        in_bag, proof = prove_bags(ensemble, model, n_rows, response, sample_weight, prove_with)
    except (ProvenanceError, InBagUnavailableError):
        if rows == "oob":
            raise
        return None
    if proof.holds:
        return in_bag, proven(proof)
    if rows == "oob":
        raise ProvenanceError(
            f"these are not the training rows in training order: {proof.mismatch()}. {_PASS_TRAINING}"
        )
    if proof.claims:
        raise ProvenanceError(f"these seem meant as the training rows, but {proof.mismatch()}. {_PASS_TRAINING}")
    return None


def without_bags(
    ensemble: TreeEnsemble, recognition: Recognition, rows: str, n_rows: int, notes: WarningLog
) -> tuple[str, Provenance]:
    """Tell training rows from rows the model has not seen, by what leaf counts say; errors as for :func:`resolve`."""
    if rows == "train":
        return "train", _claimed_training(ensemble, recognition, notes)
    if recognition.largely_training:
        _refuse_training_rows(ensemble, recognition, rows, n_rows, notes)
        return "held-out", _fresh(recognition)
    if recognition.untold is not None:
        _say_untold(ensemble, recognition.untold, rows, notes)
    if rows == "auto" and n_rows == ensemble.n_train:
        notes.warn(
            f"X has as many rows as the model was trained on ({n_rows}), but they are not the training rows; "
            "they are taken as held-out rows. Pass rows='held-out' if that is what they are."
        )
    if rows == "auto" and recognition.suspicious and recognition.p_fresh < DOUBT:
        notes.warn(
            f"some of these {n_rows} rows may be training rows: the counts in the leaves suggest "
            f"{recognition.share:.0%} of them, but fresh rows would look so with probability "
            f"{recognition.p_fresh:.1g}. They are taken as held-out rows: pass rows='held-out' if that is what they "
            "are, or fresh rows if it is not."
        )
    if recognition.shift is not None and recognition.shift.features:
        notes.warn(_shifted_in_words(recognition.shift))
    return "held-out", _fresh(recognition)


def prove_bags(
    ensemble: TreeEnsemble,
    model: Any,
    n_rows: int,
    response: Response,
    sample_weight: NDArray[np.float64] | None,
    prove_with: Callable[[InBag], Proof],
) -> tuple[InBag, Proof]:
    """Recover the bags and compare; raise ProvenanceError or InBagUnavailableError if there is nothing to compare."""
    from debias.hooks.registry import plugin_manager

    if ensemble.n_train is not None and ensemble.n_train != n_rows:
        what_to_pass = _PASS_TRAINING if _has_bags(ensemble) else _HOLD_OUT
        raise ProvenanceError(f"the model was trained on {ensemble.n_train} rows, but X has {n_rows}. {what_to_pass}")
    y = response.codes if response.codes is not None else response.values
    # Weights of the rows may be those of training, or of the evaluation only.
    for weight in (None, sample_weight) if sample_weight is not None else (None,):
        in_bag = plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=weight)
        if in_bag is None:
            raise InBagUnavailableError(f"no adapter recovers the bags of a {ensemble.source}. {_HOLD_OUT}")
        proof = prove_with(in_bag)
        if proof.holds:
            break
    return in_bag, proof


def proven(proof: Proof) -> Provenance:
    """Return what a proof by the bags says of the rows."""
    where = f"at the roots and at every node of {proof.n_trees} trees"
    if proof.values_prove:
        return Provenance("oob", "proven", f"the training rows in training order: counts and values agree {where}")
    return Provenance(
        "oob",
        "rows proven, y unproven",
        f"the training X in training order: counts agree {where}; leaf values are no means and cannot prove y",
    )


def _claimed_training(ensemble: TreeEnsemble, recognition: Recognition, notes: WarningLog) -> Provenance:
    if recognition.exact:
        return Provenance("train", "proven", EVERY_LEAF, 1.0)
    if recognition.power > SURE and not recognition.suspicious:
        notes.warn(
            f"these do not look like training rows: by the counts in the leaves about {recognition.share or 0:.0%} of "
            "them are. Pass rows='held-out' if the model has not seen them"
        )
    return Provenance(
        "train", "stated by the user", "taken as training rows because rows='train' says so", recognition.share
    )


def _fresh(recognition: Recognition) -> Provenance:
    share, shift = recognition.share, recognition.shift
    size, names = (None, ()) if shift is None else (shift.size, tuple(each.name for each in shift.features))
    if recognition.largely_training:
        detail = "taken as held-out rows because rows='held-out' says so, though they look like training rows"
        return Provenance("held-out", "stated by the user", detail, share, size, names)
    if recognition.untold is not None or recognition.suspicious or recognition.power < 0.5:
        why = f": {recognition.untold}" if recognition.untold else ""
        detail = f"taken as held-out rows; it cannot be told whether some of them are training rows{why}"
        return Provenance("held-out", "cannot be told", detail, share, size, names)
    detail = "leaf counts do not look like those of the training rows or of a random part of them"
    return Provenance("held-out", "not recognised as training rows", detail, share, size, names)


def _say_untold(ensemble: TreeEnsemble, why: str, rows: str, notes: WarningLog) -> None:
    """Refuse rows of a booster unless the user says what they are; say it with the scores of any model."""
    told = f"it cannot be told whether training rows of this {ensemble.source} are among these rows: {why}"
    if rows == "held-out":
        notes.add(f"{told}. rows='held-out' states that there are none")
        return
    if not ensemble.averaged:
        raise ProvenanceError(
            f"{told}. A boosted model must be scored on rows it has not seen: pass rows='held-out' to state that these "
            "are such rows"
        )
    notes.warn(f"{told}. They are taken as held-out rows: pass rows='held-out' if that is what they are")


def _shifted_in_words(shift: Shift) -> str:
    told = "; ".join(each.in_words() for each in shift.features[:SHIFTS_TOLD])
    more = len(shift.features) - SHIFTS_TOLD
    return (
        f"these rows differ from the training rows where the model splits: {told}"
        + (f"; and {more} more features" if more > 1 else "; and 1 more feature" if more == 1 else "")
        + ". Check that columns, their order and their units are those of training. If they are, the data have "
        "shifted, and the scores hold for these rows; or the model was trained with weights, which it does not tell"
    )


def _refuse_training_rows(
    ensemble: TreeEnsemble, recognition: Recognition, rows: str, n_rows: int, notes: WarningLog
) -> None:
    found = _CERTAIN if recognition.exact else _looks_like(recognition, n_rows)
    remedy = (
        "Pass the training rows whole and in training order to score on out-of-bag rows, or rows the model has not seen"
        if _has_bags(ensemble)
        else "A model without bags has to be scored on rows it has not seen"
    )
    if rows == "held-out":
        notes.warn(f"{found}; scores on training rows are as biased as the reported importance. {remedy}")
        return
    raise ProvenanceError(
        f"{found}. {remedy}. rows='held-out' states that they are fresh; rows='train' scores them for what they are, "
        "as biased as the reported importance."
    )


def _has_bags(ensemble: TreeEnsemble) -> bool:
    """Whether trees were grown on parts of the training rows, each for itself."""
    if not ensemble.averaged or ensemble.count is None:
        return False
    return ensemble.n_train is None or bool((ensemble.count[ensemble.tree_start[:-1]] < ensemble.n_train).any())


def _looks_like(recognition: Recognition, n_rows: int) -> str:
    return (
        f"about {recognition.share:.0%} of these {n_rows} rows are training rows, by the counts in the leaves (fresh "
        f"rows would look so with probability {recognition.p_fresh:.1g})"
    )


_CERTAIN = "these are the training rows: the leaves hold the rows they held in training"
_PASS_TRAINING = (
    "Pass the training X, y whole, unchanged and in training order to score on out-of-bag rows, "
    "or rows the model has not seen with rows='held-out'."
)
_HOLD_OUT = "Pass rows the model has not seen, with rows='held-out'."


def prove_training(
    ensemble: TreeEnsemble,
    model: Any,
    table: Table,
    response: Response,
    weight: NDArray[np.float64] | None,
    notes: WarningLog,
) -> tuple[InBag | None, Provenance]:
    """Prove rows given as training rows beside held-out ones: in-bag sums of other rows would be wrong.

    Parameters
    ----------
    ensemble, model, table, response, notes
        As for :func:`debias.rows.provenance.resolve`.
    weight : array of shape (n_rows,), or None
        Weights of training the user gave with them.

    Returns
    -------
    (InBag or None, Provenance)

    Raises
    ------
    ProvenanceError
        They are not the training rows, or not all of them. Of a model that stores no row counts it is only noted.
    """
    try:
        in_bag, proof = prove_bags(
            ensemble, model, table.n_rows, response, weight, lambda in_bag: prove(ensemble, in_bag, table, response)
        )
    except InBagUnavailableError:
        pass
    except ProvenanceError as error:
        raise ProvenanceError(f"train: {error}") from None
    else:
        if proof.holds:
            if not proof.values_prove:
                _refuse_another_response(ensemble, table, response)
            return in_bag, proven(proof)
        raise ProvenanceError(f"train is not the training rows in training order: {proof.mismatch()}")
    found = recognise(ensemble, table, response)
    _refuse_another_response(ensemble, table, response)
    if found.exact:
        return None, Provenance("train", "rows proven, y plausible", EVERY_LEAF, 1.0)
    too_few = table.n_rows < found.n_grown - 0.5
    as_many = abs(table.n_rows - found.n_grown) < 0.5 and not found.agrees
    if found.share is not None and (too_few or as_many or (found.power > SURE and found.present < ENOUGH_PRESENT)):
        wrong = (
            f"train does not look like the training rows: trees were grown on {found.n_grown:.0f} rows, and by the "
            f"counts in the leaves about {min(1.0, max(0.0, found.present)):.0%} of them are among these {table.n_rows}"
        )
        if ensemble.count is not None:
            raise ProvenanceError(f"{wrong}. Pass all rows the model was trained on.")
        # XGBoost stores sums of hessians, which training weights change in a way the model does not tell.
        notes.warn(f"{wrong}. If it was trained with weights, this cannot be told.")
    return None, Provenance("train", "stated by the user", "taken as training rows because train= says so", found.share)


def known_bags(model: Any, response: Response, sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Return the bags of a model that debias itself has just trained on these rows; None if it has none.

    Parameters
    ----------
    model, response
        As for :func:`debias.rows.provenance.resolve`.
    sample_weight : array of shape (n_rows,), or None
        Weights of training.
    """
    from debias.hooks.registry import plugin_manager

    y = response.codes if response.codes is not None else response.values
    try:
        found: InBag | None = plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=sample_weight)
    except InBagUnavailableError:
        return None
    return found


def _refuse_another_response(ensemble: TreeEnsemble, table: Table, response: Response) -> None:
    if not response_fits(ensemble, table, response):
        raise ProvenanceError(
            "train: y is not the response the model was trained on: the leaves of the first trees do not follow it"
        )
