"""The evidence of a test: evaluation rows, the node weights of one scorer, and the groups of features.

A method of testing (:mod:`debias.significance.method`) gets an `Evidence` and reads nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from debias.data.groups import Grouping
from debias.errors import RowsError
from debias.results.vocabulary import RowsKind
from debias.rows.classes import class_codes
from debias.rows.effects import response_columns
from debias.significance.contributions import POWERS, effective_rows, influence_error, is_constant, moments
from debias.significance.dependent_rows import warn_of_neighbours
from debias.significance.member_rows import MemberRows
from debias.significance.normal_scores import normal_scores_if_few_count
from debias.significance.permutation import Drawing, EffectStatistic, PermutedResponses, SplitStatistic, seed_of
from debias.significance.rare_classes import OutOfBagClasses, too_rare_for_t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.rows.effects import LinearEffects
    from debias.rows.rows import EvaluationRows, Rows
    from debias.warning_log import WarningLog

    Moments = tuple[NDArray[np.float64], NDArray[np.float64]]

ENOUGH_BLOCKS = 5
"""Frozen-forest permutations need about this many independent evaluation rows (blocks) per tree. With 0.5 and 2 whole
blocks out of bag, the family-wise error was 0.1 instead of 0.05 (docs/significance.md)."""
FEW_ROWS = 2000
"""Up to this many effective held-out rows the response is permuted, which is exact. With 48 or 270 rows of a rare class
among 4,800, Student's t with the number of rows found noise in 1 of 10 data sets instead of 1 of 20; with 1,100 rows or
more it had its nominal level (docs/significance.md)."""
MOST_VALUES = 4e7
"""More rows than FEW_ROWS are permuted only if rows x trees x columns of node values are at most this many: 200
permutations then take half a minute on one processor."""
LARGE_BAG = 0.68
"""Frozen-forest permutations need bags with at most about this share of the rows. With 70 to 90 %, all trees choose
their splits by nearly the same rows, and the rows that they leave out confirm what is there by chance: the family-wise
error was .08 to .22 instead of .05 (docs/significance.md). Bootstrap samples have 63 %, and 65 % of 10 rows."""
SOME_BAGS = 10
"""The size of bags is that of the first so many trees: bags of other trees are drawn in the same way."""
MANY_ERRORS = 4.0
"""A correlation of weights and response this many standard errors from 0 is not chance (1 in 16,000)."""
FEWEST = 4
"""With fewer rows (blocks) there are so few orders that no permutation test can reject at 5 %."""
CONSTANT = (
    "the response is the same in all evaluation rows, so no feature can be tested. Pass rows with different responses "
    "(for a classifier: rows of two classes or more)"
)
NOTHING_FITTED = (
    "the response is the same in all rows of each bag, so no line fits anything. For a classifier, the rows that were "
    "drawn for a tree have one class only: train with weights that leave rows of other classes in the bags"
)
NO_EFFECTS_OUT_OF_BAG = (
    "{why}. So linear effects are not tested out of bag: hold out {unit}, and pass rows='held-out' with "
    "train=(X_train, y_train)"
)
TWO_GROUPS = ("the rest", "the features that were found")
"""Names of the groups into which features are divided after they were tested."""
TOO_FEW = "independent rows or blocks are too few to test any feature: pass more rows"


class Evidence(Protocol):
    """What a test needs to know about rows, scorer and groups of features."""

    @property
    def rows(self) -> Any:
        """Evaluation rows (:class:`debias.rows.rows.EvaluationRows`)."""

    @property
    def node_weight(self) -> NDArray[np.float64]:
        """Factor of the centred covariance of each split in the score, shape (n_nodes,)."""

    @property
    def shrinkage(self) -> NDArray[np.float64]:
        """Factor of `node_weight` in the statistic of a test, see :func:`shrunk`."""

    @property
    def grouping(self) -> Grouping:
        """Groups of features. The scores of a group are summed."""

    @property
    def effects(self) -> LinearEffects | None:
        """The linear effects whose contributions the score sums; None if it sums terms of the model's splits."""

    @property
    def weights_splits(self) -> bool:
        """Whether the score gives splits other weights than 1."""

    @property
    def members(self) -> Sequence[MemberRows]:
        """The models of trees of which the model is the sum, with their rows; none if these come in batches."""

    def divided(self, found: NDArray[np.bool_]) -> Evidence | None:
        """Return the evidence on two groups, of which the first is tested: the features that were not found.

        None if rows come in batches.

        Parameters
        ----------
        found : array of bool of shape (n_groups,)
        """

    @property
    def n_independent(self) -> int:
        """Number of rows, or of blocks of rows, that are independent of one another."""

    @property
    def has_blocks(self) -> bool:
        """Whether there are blocks of rows that depend on one another."""

    @property
    def can_permute(self) -> bool:
        """Whether the response can be permuted: all rows are in memory."""

    @property
    def should_permute(self) -> bool:
        """Whether a permutation test is the best one for these rows."""

    def no_verdict(self, test: str = "auto") -> str | None:
        """Return why these rows cannot be tested in this way, the ``test=`` of the user; None if they can."""

    def warn_of_classes(self, log: WarningLog) -> None:
        """Warn of classes whose rows are almost never out of bag."""

    def refuse_uncalibrated(self) -> None:
        """Raise a RowsError if permutations are not calibrated: bags are large, or few whole blocks are out of bag."""

    def warn(self, method: str, log: WarningLog) -> None:
        """Warn if a test by this method is weak or approximate on these rows."""

    def warn_of_blocks(self, log: WarningLog) -> None:
        """Warn if a test is approximate because few rows dominate the response and blocks have different sizes."""

    def drawings(
        self, node_weight: NDArray[np.float64], combined: bool = False, within_fit: bool = False
    ) -> list[Drawing]:
        """Return what a permutation test draws: the splits of the model, its linear effects, or (`combined`) both.

        With `within_fit` the linear effects are those of fewer trees where features are many.
        """

    @property
    def normal_scores(self) -> NDArray[np.float64] | None:
        """The normal scores of the response, if a permutation test uses them: where few rows dominate the response."""

    def effect_moments(self) -> NDArray[np.float64]:
        """Return sums of the first four powers of the contributions to linear effects, shape (4, n_groups)."""

    def out_of_bag_error(self) -> NDArray[np.float64] | None:
        """Return the standard error of scores of splits on out-of-bag rows; None if node values are no means."""

    def moments(self, versions: list[tuple[NDArray[np.float64], bool]]) -> list[Moments]:
        """Return power sums of the contributions of rows, in one or several versions.

        Parameters
        ----------
        versions : list of (array of shape (n_nodes,), bool)
            Node weights, and whether deviations are enlarged (see :meth:`debias.rows.paths.Paths.factor`).

        Returns
        -------
        list of (array of shape (4, n_groups), array of shape (n_groups,))
            Sums of the first four powers, and the units of the contributions.
        """


@dataclass(frozen=True, eq=False)
class EvidenceInMemory:
    """Evidence of rows in memory.

    Parameters
    ----------
    rows : Rows
    node_weight : array of shape (n_nodes,)
    grouping : Grouping
    effects : LinearEffects, optional
    kept : dict, optional
        Keeps drawings, so that several tests of the same rows and groups draw only once, and that neighbours were
        compared.
    n_tested : int, optional
        Number of groups that permutations test, the first ones. By default all.
    """

    rows: Rows
    node_weight: NDArray[np.float64]
    grouping: Grouping
    effects: LinearEffects | None = None
    kept: dict[tuple[str, int], Any] = field(default_factory=dict)
    n_tested: int | None = None

    @property
    def n_independent(self) -> int:
        """See :class:`Evidence`."""
        return self.rows.paths.n_weighted_blocks

    @property
    def has_blocks(self) -> bool:
        """See :class:`Evidence`."""
        return self.rows.blocks is not None

    @property
    def shrinkage(self) -> NDArray[np.float64]:
        """See :class:`Evidence`."""
        return shrunk(self.rows)

    @property
    def weights_splits(self) -> bool:
        """See :class:`Evidence`."""
        return bool((self.node_weight[self.rows.ensemble.splits] != 1).any())

    @property
    def members(self) -> tuple[MemberRows]:
        """See :class:`Evidence`: one."""
        return (MemberRows(self.rows, self.grouping.index),)

    def divided(self, found: NDArray[np.bool_]) -> EvidenceInMemory:
        """See :class:`Evidence`."""
        group = Grouping(TWO_GROUPS, found[self.grouping.index].astype(np.int64))
        return replace(self, grouping=group, n_tested=1, kept={})

    @property
    def can_permute(self) -> bool:
        """Always True: all rows are in memory."""
        return True

    @cached_property
    def should_permute(self) -> bool:
        """Whether permutations are calibrated; for held-out rows, whether few count and all blocks have one size."""
        rows = self.rows
        if rows.kind == RowsKind.OOB:
            return self._why_uncalibrated is None
        sizes = np.ones(rows.n_rows) if rows.blocks is None else np.unique(rows.blocks, return_counts=True)[1]
        if np.ptp(sizes) > 0:
            return False
        if sizes.size <= FEW_ROWS:
            return True
        n_values = float(rows.n_rows) * rows.ensemble.n_trees * rows.ensemble.value.shape[1]
        return n_values <= MOST_VALUES and effective_rows(rows) <= FEW_ROWS

    def no_verdict(self, test: str = "auto") -> str | None:
        """Return a reason if the response is constant, or rows are too few, or those of a class; otherwise None."""
        unseen = None if self._classes is None else self._classes.no_verdict()
        if unseen is not None:
            return unseen
        if is_constant(self.rows):
            return CONSTANT
        if self.effects is not None and self.rows.kind == RowsKind.OOB and not self.should_permute:
            return NO_EFFECTS_OUT_OF_BAG.format(why=self._why_uncalibrated, unit=self._unit_out_of_bag)
        if self.effects is not None and self.effects.fits_nothing:
            return NOTHING_FITTED
        if self.n_independent < FEWEST:
            return f"{self.n_independent} {TOO_FEW}"
        codes, classes = class_codes(self.rows.ensemble, self.rows.response), self.rows.ensemble.classes
        by_t = self.rows.kind != RowsKind.OOB and (
            test == "naive" or (test in ("auto", "combined") and not self.should_permute)
        )
        if not by_t or codes is None:
            return None
        classes = np.arange(2) if classes is None else classes
        return too_rare_for_t(np.bincount(codes[self.rows.weight > 0], minlength=classes.size), classes)

    def refuse_uncalibrated(self) -> None:
        """Raise a RowsError if permutations are not calibrated on these out-of-bag rows."""
        if self._why_uncalibrated is None:
            return
        raise RowsError(
            f"{self._why_uncalibrated}. Permutations are not calibrated then, and call noise informative too often. "
            f"Hold out {self._unit_out_of_bag} and test on them with rows='held-out', or audit these with "
            "debias.audit(test='conservative')"
        )

    def warn(self, method: str, log: WarningLog) -> None:
        """Warn if permutations are not calibrated, so that a test has little power, or if neighbours are alike."""
        if self._why_uncalibrated is not None:
            log.warn(
                f"{self._why_uncalibrated}. Permutations are not calibrated then, and the {method} test has little "
                f"power. To get more power, hold out {self._unit_out_of_bag} and test on them with rows='held-out'"
            )
        if self.rows.kind != RowsKind.OOB and method != "residuals" and _weights_follow_response(self.rows):
            log.warn(
                "the weights of these rows depend on their response (as weights of classes do). This test treats "
                "weights as fixed, so it calls noise informative too often: with balanced weights of a class of "
                "7 %, in .25 of data sets instead of .05. Leave the weights of held-out rows out"
            )
        if ("neighbours", 0) not in self.kept:
            self.kept["neighbours", 0] = True
            warn_of_neighbours(self.rows, log)

    @cached_property
    def _why_uncalibrated(self) -> str | None:
        """Why permutations are not calibrated on out-of-bag rows; None if they are, and for other rows."""
        rows = self.rows
        if rows.kind != RowsKind.OOB:
            return None
        if rows.paths.evaluated_blocks < ENOUGH_BLOCKS:
            return (
                f"a tree has {rows.paths.evaluated_blocks:.2g} {self._unit_out_of_bag} out of bag on average, less "
                f"than {ENOUGH_BLOCKS}"
            )
        drawn = _share_drawn(rows)
        if drawn <= LARGE_BAG:
            return None
        return (
            f"the bag of a tree has {drawn:.0%} of the rows, more than {LARGE_BAG:.0%}: all trees choose their splits "
            "by nearly the same rows, and the few rows out of bag confirm what is there by chance"
        )

    @property
    def _unit_out_of_bag(self) -> str:
        return "rows" if self.rows.blocks is None else "whole blocks"

    def warn_of_classes(self, log: WarningLog) -> None:
        """Warn of classes that are almost never out of bag, for example because rows are drawn by class weight."""
        if self._classes is not None:
            self._classes.warn(log)

    @cached_property
    def _classes(self) -> OutOfBagClasses | None:
        return OutOfBagClasses.of(self.rows)

    def warn_of_blocks(self, log: WarningLog) -> None:
        """Warn if few held-out rows dominate the response, and their blocks cannot be permuted.

        Sums over blocks then look normal, but scores are as skewed as without blocks. With forests of depth 3, balanced
        weights and a class of 1 in 20, noise was found in 0.17 (SE 0.03) of sets of 2,400 rows in 40 or in 200 blocks.
        """
        rows = self.rows
        if rows.blocks is None or np.ptp(np.unique(rows.blocks, return_counts=True)[1]) == 0:
            return
        n, effective = int((rows.weight > 0).sum()), effective_rows(rows, by_block=False)
        if effective < n / 10:
            log.warn(
                f"few rows dominate the response (effectively {effective:.3g} of {n}, as happens if a class is rare), "
                "and blocks of different sizes cannot be permuted. The test is then approximate and may call noise "
                "informative too often. Blocks of one size are permuted instead"
            )

    def moments(self, versions: list[tuple[NDArray[np.float64], bool]]) -> list[Moments]:
        """Return power sums of the contributions of rows, with one pass over the rows for each version."""
        rows, paths = self.rows, self.rows.paths
        return [
            moments(paths, rows, paths.factor(node_weight, enlarged), self.grouping)
            for node_weight, enlarged in versions
        ]

    def drawings(
        self, node_weight: NDArray[np.float64], combined: bool = False, within_fit: bool = False
    ) -> list[Drawing]:
        """See :class:`Evidence`."""
        rows, block, seed, weight = self.rows, self.rows.paths.block, seed_of(self.rows), self.rows.paths.weight
        values, chosen = self.normal_scores, []
        if self.effects is None or combined:
            key = ("splits", hash(node_weight.tobytes()))
            if key not in self.kept:
                splits = SplitStatistic(rows, node_weight, self.grouping, values, self.n_tested)
                self.kept[key] = Drawing(splits, PermutedResponses(block, splits.response, seed, weight))
            chosen.append(self.kept[key])
        if self.effects is not None:
            key = ("effects", id(self.effects))
            if key not in self.kept:
                lines = self.effects if values is None else self.effects.with_response(values)
                effects = EffectStatistic(lines, self.grouping, within_fit=within_fit)
                self.kept[key] = Drawing(effects, PermutedResponses(block, effects.response, seed, weight))
            chosen.append(self.kept[key])
        return chosen

    @cached_property
    def normal_scores(self) -> NDArray[np.float64] | None:
        """See :class:`Evidence`."""
        return normal_scores_if_few_count(self.rows)

    def out_of_bag_error(self) -> NDArray[np.float64] | None:
        """See :class:`Evidence`."""
        rows = self.rows
        if not rows.ensemble.mean_values:
            return None
        return influence_error(rows.paths, rows, self.node_weight, self.grouping)

    def effect_moments(self) -> NDArray[np.float64]:
        """See :class:`Evidence`."""
        assert self.effects is not None
        phi = self.grouping.sum_columns(self.effects.contributions(self.rows.n_rows))
        block = np.arange(len(phi)) if self.rows.blocks is None else self.rows.blocks
        of_block = np.zeros((int(block.max()) + 1, phi.shape[1]))
        np.add.at(of_block, block, phi)
        unit = np.maximum(np.abs(of_block).max(axis=0), np.finfo(float).tiny)  # fourth powers stay within floats
        return np.stack([((of_block / unit) ** power).sum(axis=0) for power in range(1, POWERS + 1)])


SHRINKAGE = 30.0
"""The node terms of the test statistic are multiplied by n_t / (n_t + 30): the level is the same, the power higher."""


def shrunk(rows: EvaluationRows) -> NDArray[np.float64]:
    """Return n_t / (n_t + 30) of every node, or ones if the model does not store in-bag counts."""
    n = rows.ensemble.weight
    return np.ones(rows.ensemble.n_nodes) if n is None or not rows.ensemble.averaged else n / (n + SHRINKAGE)


def _share_drawn(rows: Rows) -> float:
    """Return the mean share of the rows with training weight that are drawn for a tree, whatever blocks they are in."""
    bags = rows.in_bag
    assert bags is not None
    some = min(bags.n_trees, SOME_BAGS)
    trained = bags.n_rows if bags.excluded is None else int((~bags.excluded).sum())
    return float(np.mean([np.count_nonzero(bags.multiplicity(tree)) for tree in range(some)])) / max(trained, 1)


def _weights_follow_response(rows: Rows) -> bool:
    """Return whether weights and response are correlated, in ranks, by more than chance."""
    used = rows.weight > 0
    weight = np.unique(rows.weight[used], return_inverse=True)[1].astype(np.float64)
    if np.ptp(weight) == 0:
        return False
    values = response_columns(rows)[used]
    ranks = np.column_stack([np.unique(column, return_inverse=True)[1] for column in values.T]).astype(np.float64)
    weight, ranks = weight - weight.mean(), ranks - ranks.mean(axis=0)
    scale = np.sqrt((weight**2).sum() * (ranks**2).sum(axis=0))
    correlation = np.divide(weight @ ranks, scale, out=np.zeros(scale.size), where=scale > 0)
    return bool(np.abs(correlation).max() * np.sqrt(weight.size) > MANY_ERRORS)
