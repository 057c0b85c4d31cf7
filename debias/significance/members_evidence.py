"""The evidence of a test of a model that is a sum of several models of trees, on held-out rows: a vote, a bag, a stack.

Its score is the sum of the scores of its members times their weights, and each of these is a sum over the same rows. So
the contributions of a row are added up too, and give standard errors and ranks of the sum. Residuals are tested
(:mod:`debias.significance.residuals`), for which the members are one model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from debias.data.groups import Grouping
from debias.errors import CompositionError
from debias.significance.contributions import POWERS, contributions
from debias.significance.evidence import TWO_GROUPS
from debias.significance.member_rows import by_response
from debias.significance.ranks import ranks_of, sums_of_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.significance.evidence import EvidenceInMemory, Moments
    from debias.significance.member_rows import MemberRows
    from debias.warning_log import WarningLog

    Array = NDArray[np.float64]

_ONLY_RESIDUALS = "the members of this model are tested together by their residuals only: pass test='auto'"


@dataclass(frozen=True, eq=False)
class EvidenceOfMembers:
    """Evidence of held-out rows in memory on several models of trees that are added up.

    Parameters
    ----------
    members : sequence of MemberRows
        Those with a weight other than 0.
    of_members : sequence of EvidenceInMemory
        The evidence on each of them by itself.
    grouping : Grouping
        Names of the features of the whole model; the index is that of the first member.
    """

    members: Sequence[MemberRows]
    of_members: Sequence[EvidenceInMemory]
    grouping: Grouping

    @property
    def rows(self) -> Rows:
        """The rows as the first member sees them: kind, weights and blocks are the same for all."""
        return self.members[0].rows

    @property
    def node_weight(self) -> Array:
        """Node weights of the first member."""
        return self.of_members[0].node_weight

    @property
    def effects(self) -> None:
        """Always None: linear effects of several models are not added up."""
        return

    @property
    def weights_splits(self) -> bool:
        """See :class:`debias.significance.evidence.Evidence`."""
        return any(each.weights_splits for each in self.of_members)

    def divided(self, found: NDArray[np.bool_]) -> EvidenceOfMembers:
        """See :class:`debias.significance.evidence.Evidence`."""
        members = [member.divided(found) for member in self.members]
        return EvidenceOfMembers(members, self.of_members, Grouping(TWO_GROUPS, members[0].group))

    @property
    def n_independent(self) -> int:
        """See :class:`debias.significance.evidence.Evidence`."""
        return self.of_members[0].n_independent

    @property
    def has_blocks(self) -> bool:
        """See :class:`debias.significance.evidence.Evidence`."""
        return self.of_members[0].has_blocks

    @property
    def can_permute(self) -> bool:
        """Always True: all rows are in memory."""
        return True

    @property
    def should_permute(self) -> bool:
        """Always False: responses are not permuted, residuals are."""
        return False

    def no_verdict(self, test: str = "auto") -> str | None:
        """Return why no member can be tested; None if one can. A response may be constant, and another not."""
        reasons = [each.no_verdict(test) for each in self.of_members]
        return None if None in reasons else reasons[0]

    def refuse_uncalibrated(self) -> None:
        """Do nothing: the rows are held out."""

    def warn(self, method: str, log: WarningLog) -> None:
        """See :class:`debias.significance.evidence.Evidence`; neighbours are compared for each response."""
        evidence = dict(zip(map(id, self.members), self.of_members, strict=True))
        for first, *_ in by_response(self.members):
            evidence[id(first)].warn(method, log)

    def warn_of_classes(self, log: WarningLog) -> None:
        """Do nothing: the rows are held out."""

    def warn_of_blocks(self, log: WarningLog) -> None:
        """Do nothing: residuals are not tested where the warning applies."""

    def drawings(self, node_weight: Array, combined: bool = False, within_fit: bool = False) -> NoReturn:
        """Raise a CompositionError: responses are not permuted."""
        raise CompositionError(_ONLY_RESIDUALS)

    @property
    def normal_scores(self) -> None:
        """Always None: responses are not permuted."""
        return

    def effect_moments(self) -> NoReturn:
        """Raise a CompositionError: there are no linear effects."""
        raise CompositionError(_ONLY_RESIDUALS)

    def moments(self, versions: list[tuple[Array, bool]]) -> list[Moments]:
        """Return power sums of the contributions to the scores of the whole model, with deviations enlarged."""
        values = self._contributions
        unit = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)  # fourth powers stay within floats
        sums = np.stack([((values / unit) ** power).sum(axis=0) for power in range(1, POWERS + 1)])
        return [(sums, unit) for _ in versions]

    def ranks(self, score: Array, alpha: float) -> dict[str, Any]:
        """Return simultaneous intervals of the ranks of scores, see :func:`debias.significance.ranks.ranks_of`."""
        return ranks_of(score, self._contributions - self._contributions.mean(axis=0), alpha)

    @cached_property
    def _contributions(self) -> Array:
        """What each row, or block, adds to the scores of the whole model, shape (n_independent, n_groups)."""
        total = np.zeros((self.rows.n_rows, len(self.grouping.names)))
        for member, evidence in zip(self.members, self.of_members, strict=True):
            phi = contributions(member.rows.paths, member.rows, evidence.node_weight, enlarged=True)
            total += member.weight * Grouping(self.grouping.names, member.group).sum_columns(phi)
        used = self.rows.weight > 0
        blocks = self.rows.blocks
        return total[used] if blocks is None else sums_of_blocks(total[used], blocks[used])
