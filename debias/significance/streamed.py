"""Evidence of rows that come in batches: a second pass over the rows, after the node sums over all rows are known.

The contribution of a row to a score depends only on the row and on the sums at the nodes of its path
(docs/significance.md). Sums of powers of contributions add up over batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from debias.errors import CompositionError
from debias.results.vocabulary import RowsKind
from debias.rows.paths import DividingSplits
from debias.significance.contributions import POWERS, coded_response, fixed_differences, units
from debias.significance.evidence import CONSTANT, shrunk
from debias.significance.rare_classes import too_rare_for_t

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.rows.node_sums import NodeSums
    from debias.rows.rows import Rows, SummedRows
    from debias.significance.evidence import Moments
    from debias.warning_log import WarningLog


NOT_PERMUTED = "rows that come in batches cannot be permuted: pass X and y in memory, or test='auto'"
ROUNDING = 1e-12
"""Variance of a response relative to its square. A smaller one is the rounding error of a constant response."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps(DividingSplits):
    """What a row adds to a score at every dividing split (see debias.rows.kernels.paths), in one or several versions.

    Parameters
    ----------
    ensemble, start, splits, slot_of_split
        As for :class:`debias.rows.paths.DividingSplits`.
    slot_of_node : array of int32 of shape (n_nodes,)
    column : array of int32 of shape (n_dividing,)
        Group of features that each split uses.
    n_groups : int
    step : array of shape (n_dividing, 2, width)
        Difference of the values of the two children, and mean response of the rows at the split.
    factors : list of array of shape (n_dividing, 2)
        One for each version.
    unit : array of shape (n_groups,)
        Units of the contributions to each group, see :func:`debias.significance.contributions.units`.
    """

    slot_of_node: NDArray[np.int32]
    column: NDArray[np.int32]
    n_groups: int
    step: NDArray[np.float64]
    factors: list[NDArray[np.float64]]
    unit: NDArray[np.float64]

    @classmethod
    def of(cls, sums: NodeSums, grouping: Grouping, versions: list[tuple[NDArray[np.float64], bool]]) -> Steps:
        """Lay out the splits that have rows on both sides.

        Parameters
        ----------
        sums : NodeSums
            Sums over all rows.
        grouping : Grouping
        versions : list of (array of shape (n_nodes,), bool)
            Factor of the term of each split in the score, and whether deviations are enlarged: see
            :meth:`debias.rows.paths.Paths.factor`.
        """
        from debias.rows.kernels import paths as path_kernels

        ensemble = sums.ensemble
        splits, slots_of, slot_of_node = [], [], np.empty(ensemble.n_nodes, dtype=np.int32)
        for tree in range(ensemble.n_trees):
            nodes = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
            left, leaf = ensemble.left[nodes], ensemble.left[nodes] < 0
            # In-bag weights matter to permuted responses only; here every leaf gets some.
            seen, grown = np.where(leaf, sums.n[nodes], 0.0), leaf.astype(np.float64)
            dividing, lies_in = np.empty((2, left.size // 2 + 1), dtype=np.int32)
            all_nodes = np.arange(left.size, dtype=np.int32)
            tree_arrays = (left, ensemble.right[nodes], ensemble.parent[nodes], seen, grown, all_nodes)
            n = path_kernels.find_slots(*tree_arrays, slot_of_node[nodes], dividing, lies_in)
            splits.append(dividing[:n].astype(np.int64) + nodes.start)
            slots_of.append(lies_in[:n])
        start = np.cumsum([0, *(part.size for part in splits)])
        at = np.concatenate(splits)
        mean = sums.s[at] / sums.n[at, None]
        # Without the first class, see `class_product`.
        mean = mean[:, 1:] if ensemble.averaged and ensemble.is_classifier else mean
        steps = cls(
            ensemble=ensemble,
            start=start,
            splits=at,
            slot_of_split=np.concatenate(slots_of),
            slot_of_node=slot_of_node,
            column=grouping.index[ensemble.feature[at]].astype(np.int32),
            n_groups=len(grouping.names),
            step=np.empty((at.size, 2, mean.shape[1])),
            factors=[],
            unit=np.ones(len(grouping.names)),
        )
        steps.step[:, 0] = fixed_differences(steps, mean.shape[1])
        steps.step[:, 1] = mean
        steps.factors.extend(steps._factor(sums, *version) for version in versions)
        weight = np.minimum(np.stack(steps._weight_of_sides(sums), axis=1), sums.total_weight / sums.n_rows)
        steps.unit[:] = units(steps.factors[0], steps.step[:, 0], weight, steps.column, steps.n_groups)
        for factor in steps.factors:
            factor /= steps.unit[steps.column][:, None]
        return steps

    def _factor(self, sums: NodeSums, node_weight: NDArray[np.float64], enlarged: bool) -> NDArray[np.float64]:
        n_left, n_right = self._weight_of_sides(sums)
        n_inside = sums.n[self.splits]
        effective = None
        if enlarged:
            squares = sums.squares[self.splits]  # 0 if all weights are below 1e-162: then the least number is taken
            effective = np.maximum(np.divide(n_inside**2, squares, out=np.zeros_like(squares), where=squares > 0), 2.0)
        return self.side_factors(node_weight, sums.n_root, n_inside, n_left, n_right, effective)

    def _weight_of_sides(self, sums: NodeSums) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        ensemble = self.ensemble
        begin = np.repeat(ensemble.tree_start[:-1], np.diff(self.start))
        return sums.n[begin + ensemble.left[self.splits]], sums.n[begin + ensemble.right[self.splits]]

    def moments(self, batches: Iterable[Rows]) -> NDArray[np.float64]:
        """Return sums of the first four powers of contributions, in units, shape (n_versions, 4, n_groups)."""
        from debias.rows.kernels import paths as path_kernels

        total = np.zeros((len(self.factors), POWERS, self.n_groups))
        for rows in batches:
            y = coded_response(rows)
            for part, leaves in rows.leaf_blocks():
                slots = np.zeros(leaves.T.shape, dtype=np.int32)
                evaluated = (leaves.T >= 0) & (rows.weight[part] > 0)
                path_kernels.look_up(leaves.T, self.ensemble.tree_start, self.slot_of_node, slots)
                positions = (slots, evaluated, self.start, self.slot_of_split, self.column)
                values = (self.step, self.ensemble.tree_output, np.ascontiguousarray(y[part]), rows.weight[part])
                for factor, sums in zip(self.factors, total, strict=True):
                    # Every row is a block of its own.
                    path_kernels.moments(0, len(leaves), np.arange(len(leaves)), *positions, factor, *values, sums)
        return total


@dataclass(frozen=True, eq=False)
class EvidenceInBatches:
    """Evidence of rows that come in batches: their node sums, and another pass over the rows.

    Parameters
    ----------
    rows : SummedRows
        The node sums over all rows.
    node_weight : array of shape (n_nodes,)
    grouping : Grouping
    """

    rows: SummedRows
    node_weight: NDArray[np.float64]
    grouping: Grouping

    @property
    def n_independent(self) -> int:
        """Number of rows, without those that had no weight in training."""
        in_bag = self.rows.in_bag
        return self.rows.n_rows - (0 if in_bag is None or in_bag.excluded is None else int(in_bag.excluded.sum()))

    @property
    def has_blocks(self) -> bool:
        """Always False: blocks need all rows at once."""
        return False

    @property
    def can_permute(self) -> bool:
        """Always False: the response of rows in batches cannot be permuted."""
        return False

    @property
    def should_permute(self) -> bool:
        """Always False."""
        return False

    def no_verdict(self, test: str = "auto") -> str | None:
        """Return why no test is possible if the response is constant or a class too rare; otherwise None."""
        if _is_constant(self.rows.sums):
            return CONSTANT
        sums, classes = self.rows.sums, self.rows.ensemble.classes
        root = int(np.flatnonzero(sums.n_root > 0)[0])
        at = sums.ensemble.tree_start[root]
        # With weights, sums are not numbers of rows.
        counts = classes is not None and sums.ensemble.averaged and sums.squares[at] == sums.n[at]
        if self.rows.kind == RowsKind.OOB or classes is None or not counts:
            return None
        return too_rare_for_t(sums.s[at], classes)

    def refuse_uncalibrated(self) -> None:
        """Do nothing: there are no permutations."""

    def warn(self, method: str, log: WarningLog) -> None:
        """Do nothing: the number of out-of-bag rows is not known."""

    def warn_of_classes(self, log: WarningLog) -> None:
        """Do nothing: the number of out-of-bag rows of each class is not known."""

    def warn_of_blocks(self, log: WarningLog) -> None:
        """Do nothing: there are no blocks."""

    @property
    def shrinkage(self) -> NDArray[np.float64]:
        """See :class:`debias.significance.evidence.Evidence`."""
        return shrunk(self.rows)

    @property
    def weights_splits(self) -> bool:
        """See :class:`debias.significance.evidence.Evidence`."""
        return bool((self.node_weight[self.rows.ensemble.splits] != 1).any())

    @property
    def members(self) -> tuple[()]:
        """Always none: the rows are not kept."""
        return ()

    def divided(self, found: NDArray[np.bool_]) -> None:
        """Return None: another test needs another pass over the rows."""

    @property
    def effects(self) -> None:
        """Always None: linear effects need all rows at once."""
        return

    @property
    def normal_scores(self) -> None:
        """Always None: ranks need all rows at once."""
        return

    def drawings(self, node_weight: NDArray[np.float64], combined: bool = False, within_fit: bool = False) -> NoReturn:
        """Raise a CompositionError: rows in batches are not permuted."""
        raise CompositionError(NOT_PERMUTED)

    def out_of_bag_error(self) -> None:
        """Return None: rows are not permuted."""
        return

    def effect_moments(self) -> NoReturn:
        """Raise a CompositionError: rows in batches have no linear effects."""
        raise CompositionError(
            "linear effects at nodes need all rows at once, and these rows come in batches: pass X and y in memory"
        )

    def moments(self, versions: list[tuple[NDArray[np.float64], bool]]) -> list[Moments]:
        """Return power sums of the contributions of rows; all versions are summed in one pass."""
        steps = Steps.of(self.rows.sums, self.grouping, versions)
        return [(sums, steps.unit) for sums in self.rows.summed(steps.moments)]


def _is_constant(sums: NodeSums) -> bool:
    """Whether all rows have the same response, up to rounding errors of the sums."""
    roots = sums.ensemble.tree_start[:-1][sums.n_root > 0]
    squares = sums.q[roots]
    spread_about_mean = squares - (sums.s[roots] ** 2).sum(axis=1) / sums.n[roots]
    return bool((spread_about_mean <= ROUNDING * squares).all())
