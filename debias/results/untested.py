"""Why scores were not tested and what to do about it, kept with the scores for who reads "untested"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from debias.models.wrappers import names_of

if TYPE_CHECKING:
    from debias.models.wrappers import Member
    from debias.results.scores import Scores

NOT_ASKED = "no test was asked for (se=None). Audit again with se='auto', which is the default"
TRAINING_ROWS = (
    "these are training rows, and the trees were fitted to them, so every score is above chance. Audit rows the model "
    "has not seen, or the training rows of a forest with bags, with rows='oob'"
)
UNKNOWN = "the scores were made without a test. Audit the model with debias.audit, or score it with se='auto'"
NO_VERDICT = "the test gave no verdict on these rows. Audit other rows, which the model has not seen"
MOST_NAMED = 5
"""At most so many members of a model are named."""


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


def members_in_words(members: list[Member]) -> str:
    """Return why scores of a model made of others are not tested, and what to do."""
    kind, names = members[0].path[0], names_of(members)
    if len(members) == 1:
        return (
            f"the scores of this {kind} are those of the one model inside, times a weight. Audit that model "
            f"({names[0]}) by itself"
        )
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"the scores of this {kind} combine those of {len(members)} models, whose common standard error is not known. "
        f"Audit these models one by one ({', '.join(names[:MOST_NAMED])}{rest})"
    )
