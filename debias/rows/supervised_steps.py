"""Rows of a model behind steps that were fitted with y: selectors, target encoders, supervised projections.

Such steps have seen y of all training rows. Two things follow:

1. No training row is out of bag for the whole model. A selector keeps columns of noise that go with y by chance, also
   in the rows that are out of bag for a tree. Scores of these rows are too high, and a test that permutes y behind the
   step does not see the selection. Therefore these rows are scored only if the user asks for them, and never tested.
2. Encoders with cross-fitting give rows other values while they are fitted to them than later on, so the counts in the
   leaves do not show training rows. A step that is the same when it is fitted again on some rows was fitted on these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from debias.errors import ProvenanceError
from debias.results.vocabulary import LIKE_TRAINING, RowsKind
from debias.rows.provenance import Provenance, report_unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from debias.hooks.wrapping import Supervised
    from debias.models.wrappers import Member
    from debias.warning_log import WarningLog

_PASS_OTHERS = (
    "pass rows the model has not seen, with rows='held-out', or audit the models of a cross-validation with "
    "debias.audit_folds"
)


def are_cross_fitted(member: Member) -> bool:
    """Whether the trees were grown on other values than the steps before them give the training rows now."""
    return any(found.cross_fitted is not None for found in member.supervised)


def steps_were_fitted_on_these(member: Member) -> str | None:
    """Return the steps with cross-fitting that were fitted on the rows of a member, in words; None if none can be."""
    return next(
        (
            found.cross_fitted
            for found in member.supervised
            if found.fitted_on_these is not None and found.fitted_on_these()
        ),
        None,
    )


def of_cross_fitted(member: Member, rows: str, log: WarningLog) -> Provenance:
    """Return what is known about rows that the user gives as held-out rows, or as rows of any kind.

    Parameters
    ----------
    member : Member
        Behind steps with cross-fitting.
    rows : {"auto", "held-out"}
    log : WarningLog
        Receives a warning if they are the training rows, or may be.

    Raises
    ------
    ProvenanceError
        `rows` is "auto": they are the training rows, or the model is boosted and may have seen some of them.
    """
    steps = steps_were_fitted_on_these(member)
    if steps is not None:
        finding = f"these are the training rows: {steps}, fitted again on them, is the same"
        if rows == RowsKind.HELD_OUT:
            log.warn(f"{finding}. Scores of training rows are too high on average, also those of noise")
            detail = "used as held-out rows because the user passed rows='held-out', but they are the training rows"
            return Provenance(RowsKind.HELD_OUT, LIKE_TRAINING, detail, 1.0)
        raise ProvenanceError(f"{finding}. {_reason(member.supervised)}: {_PASS_OTHERS}. {_WITH_OOB}")
    crossed = next(found.cross_fitted for found in member.supervised if found.cross_fitted is not None)
    unknown = (
        f"{crossed} gave the training rows other values in training than now, so the counts in the leaves do not show "
        "training rows"
    )
    report_unknown(member.ensemble, unknown, rows, log)
    detail = f"it is not known whether some of these rows are training rows, because {unknown}"
    return Provenance(RowsKind.HELD_OUT, "cannot be told", detail)


def why_not_redrawn(member: Member) -> ProvenanceError | None:
    """Return the error for training rows, given as such, whose values in training cannot be made again."""
    steps = steps_were_fitted_on_these(member)
    if steps is None:
        return None
    return ProvenanceError(
        f"these are the training rows, but the values that {steps} gave them in training cannot be made again: the "
        f"rows are in another order, or its random_state is not a number. P{_PASS_OTHERS[1:]}"
    )


def as_out_of_bag_for_trees(member: Member, rows: str, provenance: Provenance, log: WarningLog) -> Provenance:
    """Refuse training rows behind steps that have seen y, unless the user asks for them; then warn.

    Parameters
    ----------
    member : Member
    rows : {"auto", "oob"}
    provenance : Provenance
        Of rows that are proven to be the training rows.
    log : WarningLog

    Returns
    -------
    Provenance
        It says that the steps have seen y.

    Raises
    ------
    ProvenanceError
        `rows` is "auto".
    """
    reason = _reason(member.supervised)
    if rows == "auto":
        raise ProvenanceError(f"these are the training rows. {reason}: {_PASS_OTHERS}. {_WITH_OOB}")
    log.warn(f"{reason}. Scores of these rows are too high on average, also those of noise, and are not tested")
    return replace(provenance, detail=f"{provenance.detail}. {reason}")


def why_untested(member: Member) -> str | None:
    """Return why scores of training rows cannot be tested, and what to do; None if nothing but trees has seen y."""
    if member.tuned_on_unseen is not None:
        reason = member.tuned_on_unseen
    elif member.supervised:
        reason = _reason(member.supervised)
    else:
        return None
    return f"{reason[0].lower()}{reason[1:]}. Features of noise would be informative too often. P{_PASS_OTHERS[1:]}"


def _reason(supervised: Sequence[Supervised]) -> str:
    steps = " and ".join(found.steps for found in supervised)
    return f"{steps[0].upper()}{steps[1:]} saw y of all training rows, so no row is out of bag for the whole model"


_WITH_OOB = (
    "rows='oob' scores the training rows of a bagged forest; such scores are too high on average, also those of noise, "
    "and are not tested"
)
