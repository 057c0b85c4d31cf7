"""The evidence of a test of a model that is a sum of several models of trees: a vote, a bag, a stack.

Its score is the sum of the scores of its members times their weights, and each of these is a sum over the same rows. So
the contributions of a row are added up too: for the score and its standard error, for ranks, and for each permuted
response, which is the same for all members. Where residuals are tested (:mod:`debias.significance.residuals`), the
members are one model.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from debias.data.groups import Grouping
from debias.errors import CompositionError
from debias.results.vocabulary import RowsKind
from debias.significance.contributions import POWERS, contributions, influences, spread, sums_of_runs
from debias.significance.evidence import TWO_GROUPS
from debias.significance.member_rows import by_response
from debias.significance.permutation import LANES, Drawing, PermutedResponses, SplitStatistic, seed_of
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


@dataclass(frozen=True, eq=False)
class EvidenceOfMembers:
    """Evidence of rows in memory on several models of trees that are added up.

    Node weights are those of all members, one after another.

    Parameters
    ----------
    members : sequence of MemberRows
        Those with a weight other than 0.
    of_members : sequence of EvidenceInMemory
        The evidence on each of them by itself.
    grouping : Grouping
        Names of the features of the whole model; the index is that of the first member.
    n_tested : int, optional
        Number of groups that permutations test, the first ones. By default all.
    kept : dict, optional
        Keeps drawings, so that several tests draw only once.
    """

    members: Sequence[MemberRows]
    of_members: Sequence[EvidenceInMemory]
    grouping: Grouping
    n_tested: int | None = None
    kept: dict[int, Drawing] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """The rows as the first member sees them: kind, weights and blocks are the same for all."""
        return self.members[0].rows

    @cached_property
    def node_weight(self) -> Array:
        """Node weights of all members."""
        return np.concatenate([each.node_weight for each in self.of_members])

    @cached_property
    def shrinkage(self) -> Array:
        """See :class:`debias.significance.evidence.Evidence`."""
        return np.concatenate([each.shrinkage for each in self.of_members])

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
        two_groups = Grouping(TWO_GROUPS, members[0].group)
        return replace(self, members=members, grouping=two_groups, n_tested=1, kept={})

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
        """Whether a permutation test is the best one for each member."""
        return all(each.should_permute for each in self.of_members)

    def no_verdict(self, test: str = "auto") -> str | None:
        """Return why no member can be tested; None if one can. A response may be constant, and another not."""
        reasons = [each.no_verdict(test) for each in self.of_members]
        return None if None in reasons else reasons[0]

    def refuse_uncalibrated(self) -> None:
        """Raise a RowsError if permutations are not calibrated for a member."""
        for each in self.of_members:
            each.refuse_uncalibrated()

    def warn(self, method: str, log: WarningLog) -> None:
        """See :class:`debias.significance.evidence.Evidence`; neighbours are compared for each response."""
        evidence = dict(zip(map(id, self.members), self.of_members, strict=True))
        for first, *_ in by_response(self.members):
            evidence[id(first)].warn(method, log)

    def warn_of_classes(self, log: WarningLog) -> None:
        """See :class:`debias.significance.evidence.Evidence`, for each member."""
        for each in self.of_members:
            each.warn_of_classes(log)

    def warn_of_blocks(self, log: WarningLog) -> None:
        """See :class:`debias.significance.evidence.Evidence`: blocks and rows are the same for all members."""
        self.of_members[0].warn_of_blocks(log)

    def drawings(self, node_weight: Array, combined: bool = False, within_fit: bool = False) -> list[Drawing]:
        """See :class:`debias.significance.evidence.Evidence`: one, of the sum."""
        key = hash(node_weight.tobytes())
        if key not in self.kept:
            parts = [
                (SplitStatistic(member.rows, weight, self._grouping(member), each.normal_scores), member.weight)
                for member, each, weight in zip(
                    self.members, self.of_members, self._by_member(node_weight), strict=True
                )
            ]
            statistic, paths = _SumStatistic(parts, self.n_tested), self.rows.paths
            source = PermutedResponses(paths.block, statistic.response, seed_of(self.rows), paths.weight)
            self.kept[key] = Drawing(statistic, source)
        return [self.kept[key]]

    @property
    def normal_scores(self) -> Array | None:
        """Those of the first member that has some: they differ from those of others by a shift of the response."""
        return next((each.normal_scores for each in self.of_members if each.normal_scores is not None), None)

    def effect_moments(self) -> NoReturn:
        """Raise a CompositionError: there are no linear effects."""
        raise CompositionError("linear effects of several models are not added up: test each of them by itself")

    def out_of_bag_error(self) -> Array | None:
        """See :class:`debias.significance.evidence.Evidence`."""
        if not all(each.rows.ensemble.mean_values for each in self.of_members):
            return None
        paths = self.rows.paths
        of_rows = np.zeros((paths.n_rows, len(self.grouping.names)))
        for member, each in zip(self.members, self.of_members, strict=True):
            unit, of_part = influences(member.rows.paths, member.rows, each.node_weight, self._grouping(member))
            for part in member.rows.paths.parts:
                of_rows[slice(*part)] += member.weight * unit * of_part(part)
        return spread(*_power_sums(sums_of_runs(of_rows, paths.block), 2))

    def moments(self, versions: list[tuple[Array, bool]]) -> list[Moments]:
        """Return power sums of the contributions to the scores of the whole model."""
        found = []
        for node_weight, enlarged in versions:
            values = self._contributions(node_weight, enlarged=enlarged)
            unit = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)  # fourth powers stay within floats
            found.append((_power_sums(values / unit, POWERS)[0], unit))
        return found

    def ranks(self, score: Array, alpha: float) -> dict[str, Any]:
        """Return simultaneous intervals of the ranks of scores, see :func:`debias.significance.ranks.ranks_of`.

        None for out-of-bag rows, on which contributions of rows are not all of the error.
        """
        if self.rows.kind == RowsKind.OOB:
            return {}
        values = self._contributions(self.node_weight, enlarged=True)
        return ranks_of(score, values - values.mean(axis=0), alpha)

    def _contributions(self, node_weight: Array, *, enlarged: bool) -> Array:
        """Return what each row, or block, adds to the scores of the whole model, shape (n_independent, n_groups)."""
        total = np.zeros((self.rows.n_rows, len(self.grouping.names)))
        for member, weight in zip(self.members, self._by_member(node_weight), strict=True):
            phi = contributions(member.rows.paths, member.rows, weight, enlarged=enlarged)
            total += member.weight * self._grouping(member).sum_columns(phi)
        paths = self.rows.paths
        used = np.sort(paths.order[paths.weight > 0])
        blocks = self.rows.blocks
        return total[used] if blocks is None else sums_of_blocks(total[used], blocks[used])

    def _by_member(self, node_weight: Array) -> list[Array]:
        """Return the node weights of each member."""
        ends = np.cumsum([member.rows.ensemble.n_nodes for member in self.members])
        return np.split(node_weight, ends[:-1])

    def _grouping(self, member: MemberRows) -> Grouping:
        return Grouping(self.grouping.names, member.group)


class _SumStatistic:
    """The studentised scores of a sum of models, for permuted responses.

    Parameters
    ----------
    parts : sequence of (SplitStatistic, float)
        The members, of the same rows, and their weights.
    n_tested : int, optional
        Number of groups that are tested, the first ones; others have z = 0. By default all.
    """

    rounding = 0.0
    steps_of_lines = 0.0
    lanes = LANES

    def __init__(self, parts: Sequence[tuple[SplitStatistic, float]], n_tested: int | None) -> None:
        self._parts, self._n_tested = parts, n_tested
        self._paths = parts[0][0].along.paths
        self.response = np.concatenate([part.response for part, _ in parts], axis=1)
        """Those of all members beside one another."""
        self._ends = np.cumsum([part.response.shape[1] for part, _ in parts])

    @property
    def details(self) -> dict[str, object]:
        """The number of models."""
        return {"models": len(self._parts)} if len(self._parts) > 1 else {}

    def observed(self) -> None:
        """Return None: all scores are in double precision."""

    def of(self, response: NDArray[Any]) -> Array:
        """Return z of permuted responses, shape (n_permutations, n_groups).

        `response` has shape (n_rows, n_outputs of all members, n_permutations).
        """
        return np.stack([self._z(np.ascontiguousarray(response[:, :, k])) for k in range(response.shape[2])])

    def _z(self, response: NDArray[Any]) -> Array:
        of_rows = np.zeros((self._paths.n_rows, self._parts[0][0].along.n_columns))
        of_members = np.split(response, self._ends[:-1], axis=1)
        for (part, weight), of_member in zip(self._parts, of_members, strict=True):
            own = np.ascontiguousarray(of_member, dtype=part.response.dtype)
            of_rows += weight * part.contributions(own)
        sums, n = _power_sums(sums_of_runs(of_rows, self._paths.block), 2)
        error = spread(sums, n)
        z = np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0)
        return z if self._n_tested is None else np.where(np.arange(z.size) < self._n_tested, z, 0.0)


def _power_sums(values: Array, powers: int) -> tuple[Array, int]:
    """Return the sums of the first powers of values over rows, shape (powers, n_columns), and the number of rows."""
    return np.stack([(values**power).sum(axis=0) for power in range(1, powers + 1)]), len(values)
