"""What debias says of rows: a verdict without a word, a warning, a refusal."""

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
"""A warning that has one of these speaks of what the rows are, and not of something else."""

REFUSED, WARNED, SAID, PROVEN, SILENT, RAW = "refused", "warned", "said", "proven", "silent", "raw"
"""refused: a DebiasError. warned: a warning that speaks of the rows. said: no warning, but the provenance has it that
this cannot be told or proven, and the summary says so. proven: the training rows in training order, used out of bag.
silent: a verdict without a word. raw: an error that is not debias' own."""


def outcome(model: Any, X: Any, y: Any, **passed: Any) -> tuple[str, str]:
    """Return which of the six it is, and the words that were said.

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
