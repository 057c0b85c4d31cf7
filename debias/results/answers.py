"""What a reader of an audit wants to do: keep features, drop some, look at others; and what the audit says of each.

Every sentence must be true of the table. The tests recompute each sentence from the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from debias.results.sentences import condition_of_verdicts, enumerated, of_rest, of_unused, test_summary, to_look_at
from debias.results.vocabulary import Finding, Verdict
from debias.text import counted

if TYPE_CHECKING:
    from debias.results.audit import Audit

KEEP, DROP, LOOK_AT = "Keep", "Drop", "Look at"
MOST_NAMED = 10
"""An answer names at most this many features, by default."""
HOW_TO_DROP = (
    "This audit does not say which features may go. "
    "debias.droppable answers that: it fits the model again without them, so it needs a model that can be fitted again."
)

NOTHING_ELSE = "This audit found nothing else to look at."


def answers(audit: Audit, most_named: int = MOST_NAMED) -> dict[str, list[str]]:
    """Return what an audit says to each of three questions.

    Parameters
    ----------
    audit : Audit
    most_named : int
        An answer names at most this many features to keep.

    Returns
    -------
    dict of str to list of str
        Sentences by question: "Keep", "Drop", "Look at".
    """
    return {KEEP: _keep(audit, most_named), DROP: _drop(audit), LOOK_AT: _look_at(audit)}


def _keep(audit: Audit, most_named: int) -> list[str]:
    if not audit.tested:
        return ["No feature was tested, so this audit does not say which features matter."]
    names = audit.tested_scores.feature_names
    informative = audit.which(Verdict.INFORMATIVE)
    by_share = audit.strongest_first
    lines = ["This audit found no feature that matters by itself. That is no reason to drop all of them."]
    if informative.any():
        kept = enumerated([names[k] for k in by_share if informative[k]], most_named)
        are, them = ("is", "it") if informative.sum() == 1 else ("are", "them")
        limit = condition_of_verdicts(audit, named=False)
        # With a doubt about the rows, nothing follows for rows that the model has not seen.
        doubtful = ", but" in limit
        what_holds = "" if doubtful else f": what the model does with {them} holds on rows that it has not seen"
        lines = [f"{kept} {are} {Verdict.INFORMATIVE.phrase}{what_holds}{limit}."]
    findings = audit.finding
    for finding, what in (
        (Finding.RELATED, "What this model does with {them} is not confirmed."),
        (Finding.RELATED_UNUSED, "No tree splits on {them}."),
    ):
        related = [names[k] for k in by_share if findings[k] is finding]
        if related:
            them = "it" if len(related) == 1 else "them"
            lines.append(f"The response also depends on {enumerated(related, most_named)}. {what.format(them=them)}")
    return lines


def _drop(audit: Audit) -> list[str]:
    return [HOW_TO_DROP, *of_unused(audit), *of_rest(audit)]


def _look_at(audit: Audit) -> list[str]:
    lines = to_look_at(audit) if audit.tested else [test_summary(audit)]
    n_warnings = len(audit.warnings)
    if n_warnings:
        lines = [*lines, f"There {'is' if n_warnings == 1 else 'are'} {counted(n_warnings, 'warning')}."]
    return lines or [NOTHING_ELSE]
