"""Why scores were not tested and what to do about it, kept with the scores for who reads "untested"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from debias.results.scores import Scores

NOT_ASKED = "no test was asked for (test=None). Audit again with test='auto', which is the default"
TRAINING_ROWS = (
    "these are training rows, and the trees were fitted to them, so every score is above chance. Audit rows the model "
    "has not seen, or the training rows of a forest with bags, with rows='oob'"
)
UNKNOWN = "the scores were made without a test. Audit the model with debias.audit, or score it with test='auto'"
NO_VERDICT = "the test gave no verdict on these rows. Audit other rows, which the model has not seen"


def with_reason(scores: Scores, reason: str) -> Scores:
    """Return scores that say why they were not tested; `reason` is a clause, then sentences of what to do."""
    return replace(scores, details={**scores.details, "untested_because": reason.rstrip(".")})


def unless_tested(scores: Scores, said: list[str]) -> Scores:
    """Return scores that say why the test gave no verdict, by what it `said`; those it gave verdicts on as they are."""
    if scores.selected is not None or "untested_because" in scores.details:
        return scores
    return with_reason(scores, "; ".join(said) or NO_VERDICT)


def reason_of(scores: Scores) -> str | None:
    """Return why scores were not tested and what to do; None if they were."""
    return None if scores.selected is not None else str(scores.details.get("untested_because", UNKNOWN))
