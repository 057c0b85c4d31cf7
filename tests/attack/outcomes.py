"""The outcomes of an audit of wrong rows: a refusal, a warning, a verdict without a warning."""

from __future__ import annotations

import re
import warnings
from typing import Any

import debias
from debias.errors import DebiasError

OF_THE_ROWS = re.compile(
    r"training rows|trained on \(|of the rows|fresh rows|held-out rows|leaves that|shifted|cannot be told|cannot tell"
    r"|look like|y goes down|other columns|outside the",
    re.IGNORECASE,
)
"""A warning with one of these phrases is about the rows themselves."""

REFUSED, WARNED, SAID, PROVEN, SILENT, RAW = "refused", "warned", "said", "proven", "silent", "raw"
"""refused: a DebiasError. warned: a warning about the rows. said: no warning, but provenance and summary say that this
cannot be told or proven. proven: the training rows in training order, used out of bag. silent: a verdict without
any of these. raw: an error that is not one of debias."""


def outcome(model: Any, X: Any, y: Any, **passed: Any) -> tuple[str, str]:
    """Return the outcome, one of six, and the message.

    Parameters
    ----------
    model, X, y, **passed
        As for :func:`debias.audit`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are read from the result, as whoever gets the report reads them
        try:
            audit = debias.audit(model, X, y, ["mdi_oob"], test=None, **passed)
        except DebiasError as error:
            return REFUSED, f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001, every other error is a finding of its own
            return RAW, f"{type(error).__name__}: {error}"
    of_rows = [text for text in audit.warnings if OF_THE_ROWS.search(text)]
    if of_rows:
        return WARNED, "; ".join(of_rows)
    provenance = audit.provenance
    status, detail = provenance["status"], provenance["detail"]
    open_question = "cannot be told" in status or "unproven" in status
    if open_question and any(detail in line for line in audit.summary()):
        return SAID, detail
    return (PROVEN if provenance["kind"] == "oob" and status == "proven" else SILENT), detail
