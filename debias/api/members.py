"""The test of a model that is a sum of several models of trees, such as a vote: one verdict for the whole model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.prepared import PreparedRows
from debias.hooks.contracts import TreeScorer
from debias.models.wrappers import MOST_NAMED, names_of
from debias.results.untested import unless_tested
from debias.results.vocabulary import RowsKind
from debias.rows.supervised_steps import why_untested
from debias.significance.member_rows import MemberRows
from debias.significance.members_evidence import EvidenceOfMembers
from debias.significance.procedure import significance
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from debias.api.prepared import Prepared
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.results.scores import Scores
    from debias.significance.procedure import Procedure


def joint_evidence(prepared: Sequence[Prepared], scores: Scores, scorer: Scorer) -> EvidenceOfMembers | str:
    """Return the evidence on the whole model, or why its members cannot be tested together, and what to do.

    Parameters
    ----------
    prepared : sequence of Prepared
        The members of the model.
    scores : Scores
        Their weighted sum.
    scorer : Scorer
    """
    members = [each.member for each in prepared]
    kind, how = members[0].path[0], one_by_one(members)
    if any(member.positions is not None for member in members):
        return (
            f"each model inside this {kind} was scored on the rows that it alone has not seen, and these scores depend "
            f"on one another. Audit rows that none of them has seen, with rows='held-out', the folds with "
            f"debias.audit_folds, or {how}"
        )
    used = [each for each in prepared if each.member.weight != 0]
    if not used:
        return f"every model inside this {kind} has the weight 0, so no feature changes its predictions"
    supervised = [why_untested(each.member) for each in used] if scores.rows == RowsKind.OOB else []
    if any(supervised):
        return next(filter(None, supervised))
    if not isinstance(scorer, TreeScorer) or any(not isinstance(each, PreparedRows) for each in used):
        return (
            f"the {len(members)} models inside this {kind} are tested together on rows in memory, and these came in "
            f"batches. Pass them, or a sample of them, in memory, or audit {how}"
        )
    in_memory: list[Any] = list(used)
    if scores.rows == RowsKind.OOB and any(
        not np.array_equal(each.rows.paths.order, in_memory[0].rows.paths.order) for each in in_memory
    ):
        return (
            f"some rows had no weight in the training of some models inside this {kind}, and others in that of others. "
            f"Audit {how}"
        )
    of_members = [each.evidence(each.node_weight(scorer)) for each in in_memory]
    rows = [MemberRows(each.rows, each.grouping.index, each.member.weight) for each in in_memory]
    return EvidenceOfMembers(rows, of_members, replace(in_memory[0].grouping, names=scores.feature_names))


def with_joint_test(scores: Scores, evidence: EvidenceOfMembers, procedure: Procedure, *, rest: bool) -> Scores:
    """Return the scores of the whole model with its test, or with the reason why these rows give no verdict.

    Parameters
    ----------
    scores : Scores
        The weighted sum of the scores of the members.
    evidence : EvidenceOfMembers
    procedure : Procedure
    rest : bool
        Whether the features that are not found are tested together too.
    """
    log = WarningLog(scores.warnings)
    n_before = len(log.texts)
    tested = significance(scores, evidence, procedure, log, together=rest)
    if tested.selected is None:
        return unless_tested(tested, log.texts[n_before:])
    ranks = evidence.ranks(tested.values, procedure.alpha)
    return replace(tested, details={**tested.details, **ranks})


def one_by_one(members: list[Member]) -> str:
    """Return the models inside, to be audited by themselves, with their names."""
    names = names_of(members)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"these models one by one ({', '.join(names[:MOST_NAMED])}{more})"
