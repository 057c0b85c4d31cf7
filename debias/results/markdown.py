"""An audit on one page of Markdown, as GitHub shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debias.results.answers import answers
from debias.results.report.figures import drawn_features
from debias.results.sentences import doubts, headline, reports_anything
from debias.results.tables import Table, for_markdown, rows_named
from debias.results.untested import tell_nothing
from debias.results.vocabulary import RowsKind, Verdict
from debias.text import percent

if TYPE_CHECKING:
    from debias.results.audit import Audit

LIMITS = (
    "Verdicts are about this model and its splits, on these rows.",
    f"A feature that is not {Verdict.INFORMATIVE.text} alone may matter together with others.",
    "The audit is about dependence, not about causes. It takes rows as independent, unless blocks were passed.",
)


def markdown(audit: Audit, max_features: int, title: str | None) -> str:
    """Return an audit as Markdown; see ``Audit.to_markdown``."""
    drawn, n_left = drawn_features(audit, max_features)
    scores, frame = audit.tested_scores, audit.to_frame()
    shown = ["reported", "reported_unseen", "share", "z", "p_adjusted", "finding"]
    known = [name for name in shown if name in frame and (name not in ("z", "p_adjusted") or scores.z is not None)]
    table = Table.of(rows_named(frame, [scores.feature_names[k] for k in drawn]), known, {"share": "debiased"})
    by_question = answers(audit)
    said = {line for lines in by_question.values() for line in lines} | {headline(audit)}
    name = title or f"Which features of this {scores.settings['model']} matter"
    lines = [f"## {for_markdown(name)}", ""]
    lines += [f"**{for_markdown(line)}**" for line in [*doubts(audit), headline(audit)]]
    for question, told in by_question.items():
        lines += ["", f"**{question}**", "", *(f"- {for_markdown(line)}" for line in told)]
    lines += ["", *table.to_markdown()]
    if n_left:
        lines += ["", for_markdown(_others(audit, set(drawn.tolist())))]
    lines += [
        "",
        "**Test, rows and limits**",
        "",
        *(f"- {for_markdown(line)}" for line in audit.summary() if line not in said),
    ]
    null = scores.details.get("test", {}).get("null_hypothesis")
    null_hypothesis = [] if null is None else [f"The null hypothesis of each feature: {null}."]
    lines += [f"- {for_markdown(line)}" for line in [*null_hypothesis, *LIMITS]]
    if audit.warnings:
        lines += ["", "**Warnings**", "", *(f"- {for_markdown(text)}" for text in audit.warnings)]
    return "\n".join(lines) + "\n"


def _others(audit: Audit, drawn: set[int]) -> str:
    """Return what the features that are left out have together, each figure by itself."""
    left = [k for k in range(audit.share.size) if k not in drawn]
    parts = []
    if reports_anything(audit) and audit.reported is not None:
        parts.append(f"{percent(audit.reported[left].sum())} of the reported importance")
    if not tell_nothing(audit.tested_scores) and audit.tested_scores.rows != RowsKind.TRAIN:
        parts.append(f"{percent(audit.share[left].sum())} of the debiased scores")
    n_informative = int(audit.which(Verdict.INFORMATIVE)[left].sum())
    number = f"{n_informative:,}" if n_informative else "none"
    found = f"; {number} of them {'is' if n_informative < 2 else 'are'} {Verdict.INFORMATIVE.phrase}"
    have = " has" if len(left) == 1 else " together have"
    together = f"{have} {' and '.join(parts)}" if parts else (" is not shown" if len(left) == 1 else " are not shown")
    others = "The other feature" if len(left) == 1 else f"The other {len(left):,} features"
    return f"{others}{together}{found if audit.tested else ''}."
