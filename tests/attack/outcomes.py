"""What an audit says of the rows it is given: it refuses them, warns, says what is open, or gives verdicts silently.

No wording is read. An error is an error of debias. A warning is one that debias issues in an audit without a test, so
it is about the rows, the columns, y, the weights or the model; a warning that is always given counts against debias for
the right rows. What is open is the status of the rows, and the doubt of a model that predicts no better than a
constant.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import debias
from attack.real_data import NOISE
from debias.errors import DebiasError, DebiasWarning

if TYPE_CHECKING:
    from attack.wrong_uses import Attempt

REFUSED, WARNED, SAID, SILENT, RAW = "refused", "warned", "said", "silent", "raw"
"""refused: an error of debias. warned: a warning. said: neither, but the result begins with what is not known of the
rows, y or weights, or with a model that predicts no better than a constant. silent: verdicts without any of these. raw:
an error that is not one of debias."""


@dataclass(frozen=True)
class Outcome:
    """What became of an attempt.

    Parameters
    ----------
    found : str
        One of the five outcomes.
    words : str
        What was said.
    noise_informative : bool or None
        Whether a column of noise was called informative; None if no verdict was asked for.
    """

    found: str
    words: str
    noise_informative: bool | None = None


def outcome(attempt: Attempt, about: str, with_verdicts: bool) -> Outcome:
    """Audit the rows of an attempt.

    Parameters
    ----------
    attempt : Attempt
    about : str
        What is wrong: "rows", "columns", "y" or "weights"; "right" if nothing is.
    with_verdicts : bool
        Whether rows that pass silently are audited again with the default test, which may warn, too.
    """
    audit, heard = None, list[str]()
    try:
        audit, heard = heard_audit(attempt, test=None)
    except DebiasError as error:
        return Outcome(REFUSED, f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001, every other error is a finding of its own
        return Outcome(RAW, f"{type(error).__name__}: {error}")
    if heard:
        return Outcome(WARNED, "; ".join(heard))
    said = left_open(audit, about)
    if said is not None:
        return Outcome(SAID, said)
    if not with_verdicts:
        return Outcome(SILENT, audit.provenance["detail"])
    tested, heard = heard_audit(attempt, test="auto")
    if heard:  # as for rows that repeat one another, which only a test cares about
        return Outcome(WARNED, "; ".join(heard))
    return Outcome(SILENT, audit.provenance["detail"], noise_is_informative(tested))


def heard_audit(attempt: Attempt, **test: Any) -> tuple[debias.Audit, list[str]]:
    """Return the audit of an attempt, and the warnings that debias issued."""
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        audit = debias.audit(
            attempt.model, attempt.rows, None, ["mdi_oob"], random_state=0, **test, **attempt.arguments
        )
    return audit, [str(each.message) for each in issued if issubclass(each.category, DebiasWarning)]


def left_open(audit: debias.Audit, about: str) -> str | None:
    """Return what the result itself says is not known, as far as it is about what is wrong; None if nothing."""
    status, detail = str(audit.provenance["status"]), str(audit.provenance["detail"])
    performance = audit.performance
    doubts = [] if performance is None else performance.doubts()
    if performance is not None and performance.too_good is not None:
        doubts = [performance.sentence()]
    rows_open = audit.tested_scores.unproven_because is not None
    if about in ("y", "columns", "right") and doubts:
        return " ".join(doubts)
    if about != "y" and rows_open:
        return detail
    return detail if about in ("y", "weights", "right") and "unproven" in status else None


def noise_is_informative(audit: debias.Audit) -> bool:
    """Return whether an audit with a test calls a column of noise informative."""
    verdicts = dict(zip(audit.tested_scores.feature_names, audit.verdict, strict=True))
    return any(verdicts.get(name) == "informative" for name in NOISE)
