"""Sums over the rows of one period, which have what a comparison of periods needs.

``debias.monitor`` keeps such sums for each day or batch. :mod:`debias.significance.change` compares them.

Over 500 lines: how the sums are made, stored, added and read are one class, whose parts must agree.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.parallel import allowed
from debias.positions import evenly_spaced
from debias.rows.few_trees import leaves_of_a_tree, trees_a_row
from debias.rows.leaf_lines import refuse_lines
from debias.rows.loss_parts import KeptRows, loss_sums, metric_of
from debias.rows.node_sums import KEPT, NodeSums
from debias.rows.pair_sums import PairSums, added_pairs, pair_sums, refuse_other_losses
from debias.rows.provenance import without_bags
from debias.rows.recognition import recognised
from debias.rows.unordered_digest import hashes_of
from debias.trees.routing import Router, row_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.rows.leaf_counts import Routed
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.routing import KnownLeaves, NumberedLeaves
    from debias.warning_log import WarningLog

N_MEANS = 3
"""The response, the prediction and the residual have a mean each."""
N_GROUPS = 10
"""Number of groups of random rows that the jackknife within a period leaves out, one at a time."""
DIFFERENT = 1e-4
"""Batches with a smaller p-value of equal means are no random samples of the rows of a period."""
BEYOND_CHANCE = 1e-4
"""The rows of a period look like training rows if fresh rows would do so with a smaller probability: a history may have
hundreds of periods."""
SHARES = 32
TREES_A_SHARE = 8
"""The trees are divided into at most 32 shares of 8 trees or more, whatever the number of threads: sums then round in
the same way."""
ROUNDING = 1e-9
"""A smaller share of the sum of squares is 0 up to rounding."""
LOSS_ROWS = 1000
"""The loss of so many rows of a table or batch is divided into its parts: of 10,000 rows this would take 1 to 8 times
as long as everything else that is added up."""
KEPT_ROWS = 50
"""So many rows of a table or batch are kept, to tell why a feature costs more loss."""
MOST_KEPT = 1000
"""At most so many rows of a period are kept."""
PAIR_ROWS = 1000
"""What named pairs of features do together is added up over so many rows of a table or batch: of 10,000 rows this would
take several times as long as everything else."""
BEFORE_PARTS = 4
"""Entries before those of features in the sums of the parts of the loss: the weight of the rows whose loss was divided,
their number, the loss, and the base."""

if TYPE_CHECKING:
    Named = Callable[[TreeEnsemble], tuple[NDArray[np.int64], NDArray[np.int64]]]


class PeriodSums(NodeSums):
    """Weighted count, response sum and residual sum of the rows of a period at each leaf, and variances of scores.

    The residual of a row is the negative gradient of the loss at the model's own prediction: y minus the prediction for
    squared errors and for probabilities of classes. Sums of two parts of a period add up to the sums of the period, as
    for :class:`debias.NodeSums`.

    The variances are those of two scores of each feature: ``mdi_oob``, and the same formula for the residual. They are
    estimated by a jackknife. The rows that are added together are divided into 10 groups at random, which are left out
    one at a time; the order of the rows does not matter. Rows that are added in another step (batches) are taken as
    independent of these, so batches must be random samples of the rows, which :meth:`refuse_training_rows` tests. Few
    rows show too little of the variance at deep nodes, so add some hundred rows or more at a time if there are so many.

    Parameters
    ----------
    model : estimator, Booster or TreeEnsemble
        A fitted model, or a wrapper around one.
    n_jobs : int, optional
        Number of threads; 1 by default.
    loss_rows : int or None
        The loss of so many rows at most of each table or batch, drawn at random, is divided into its parts
        (:mod:`debias.rows.loss_parts`); of all rows if None, and of none if 0. Of a forest with large trees the parts
        are then estimates, unless it is None (:mod:`debias.rows.few_trees`).
    kept_rows : int
        So many of these rows at most are kept as they are.

    Attributes
    ----------
    metric : str or None
        Name of the loss; None if it is not divided.
    no_loss : str or None
        Why it is not divided, for these or for some rows; None if it is.

    Raises
    ------
    CompositionError
        The loss of the model compares rows with each other (rankers, Cox), so its sums depend on all rows together.
    UnsupportedModelError
        The model is not fitted, or no adapter supports it.

    Examples
    --------
    >>> from debias.rows.period_sums import PeriodSums
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X[:300], y[:300])
    >>> monday, tuesday = PeriodSums(forest), PeriodSums(forest)
    >>> monday.update(X[300:350], y[300:350])
    >>> tuesday.update(X[350:], y[350:])
    >>> (monday + tuesday).n_rows
    142
    """

    def __init__(
        self, model: Any, *, n_jobs: int | None = None, loss_rows: int | None = LOSS_ROWS, kept_rows: int = 0
    ) -> None:
        super().__init__(model, n_jobs=n_jobs)
        refuse_lines(self.ensemble)
        self._q = np.zeros(0)  # no score of a history needs squares of the response
        self._e = np.zeros_like(self._s)
        self._variances = np.zeros((5, self.ensemble.n_features))
        self._weights = np.zeros(2)  # of rows with variances; sum of squares of all
        self._batches = np.zeros((4, 2 * self.ensemble.n_outputs))  # see _add_batch
        self._squares_of_rows = np.zeros((2 * N_MEANS + 1, self.ensemble.n_outputs))  # see _add_squares
        self._unseen = np.zeros(self.ensemble.n_features)
        self._repeated = np.zeros(1)
        self._loss_rows, self._loss_parts = loss_rows, np.zeros(BEFORE_PARTS + 2 * self.ensemble.n_features)
        self._kept_rows, self._kept = kept_rows, self._none_kept()
        self._named: Named | None = None
        self._pairs: PairSums | None = None
        self.metric: str | None = None
        self.no_loss: str | None = None if loss_rows != 0 else "their rows were added without parts of the loss"
        if self.no_loss is None:
            try:
                self.metric = metric_of(self.ensemble)
            except CompositionError as error:
                self.no_loss = str(error)

    def watch(self, named: Named) -> None:
        """Add up what pairs of features do together in rows that are added later.

        Parameters
        ----------
        named : callable
            Returns the column of the user of each feature of the trees, and the pairs of such columns, for the trees
            with the names of the columns.

        Raises
        ------
        CompositionError
            The response is no number with a mean.
        """
        refuse_other_losses(self.ensemble)
        self._named = named

    def add_rows(self, rows: Rows) -> None:
        """Add held-out rows that are encoded already."""
        n_trees, counter = self.ensemble.n_trees, self._counter_for(rows)
        order = random_order(rows.n_rows)
        total, squares = np.zeros((2, self._batches.shape[1]))
        margins = np.empty((rows.n_rows, self.ensemble.n_outputs))
        for block in row_blocks(rows.n_rows, self.ensemble.n_features, n_trees):
            part = order[block]
            leaves = Router(rows.ensemble, rows.table.matrix(rows.ensemble, part), None, rows.n_jobs).known()
            response, weight = rows.response.part(part), rows.weight[part]
            margins[part] = margin_of(self.ensemble, response, leaves)
            both = np.hstack(self._add_block(leaves, response, margins[part], weight, rows.n_jobs))
            if not self._has_labels:
                self._add_squares(both, weight)
            # No products of matrices: their last digits may depend on where the arrays are in memory.
            total += (weight[:, None] * both).sum(axis=0)
            squares += (weight[:, None] * both**2).sum(axis=0)
            if counter is not None:
                counter.add(leaves, response)
        self._add_batch(total, squares, float(rows.weight.sum()))
        rows.know_margins(margins)
        self._weights = self._weights + [0.0, (rows.weight**2).sum()]
        self._add_totals(rows)
        self._add_faults(rows)
        if self.metric is not None:
            self._add_loss_parts(rows, order)
        if self._named is not None:
            self._add_pairs(rows, order, self._named)
        self._summed_up = False

    def refuse_training_rows(self, rows: str, log: WarningLog) -> None:
        """Check by the leaf counts whether the rows are training rows, and forget the counts.

        Call it when the period is complete. :meth:`state` is small afterwards. If the rows came in batches that are no
        random samples of them, the variances are forgotten too, because they lack the differences between batches.

        Parameters
        ----------
        rows : {"auto", "held-out"}
            As for :func:`debias.score`.
        log : WarningLog
            Gets the warnings that :func:`debias.score` would give for these rows, but for that about a shift since
            training: the rows of a day or a batch nearly always differ from the training rows (they have one weekday).
            :mod:`debias.significance.change` compares windows of periods with each other. And a warning that rows are
            training rows needs more evidence, because a history has many periods.

        Raises
        ------
        ProvenanceError
            The rows are training rows.
        CompositionError
            `rows` is not one of the above.
        """
        if rows not in ("auto", "held-out"):
            raise CompositionError(
                f"rows={rows!r} is not one of 'auto', 'held-out': a history is of rows that the model has not seen"
            )
        counts = [] if self._counter is None else self._counter.counts()
        found = recognised(self.ensemble, counts, self.n_rows, with_shift=False)
        if found.p_fresh >= BEYOND_CHANCE:
            found = replace(found, p_fresh=1.0)
        without_bags(self.ensemble, found, rows, self.n_rows, log)
        if self._batches_differ():
            self._variances, self._weights = np.zeros_like(self._variances), self._weights * [0.0, 1.0]
            log.warn(
                "the rows of a period came in batches that differ more than random samples of them would, in their "
                "mean response or in the mean error of the model. So standard errors within this period are not known. "
                "Add its rows as one table, or put them in random order before they are divided into batches"
            )
        self.forget_proof()

    def forget_proof(self) -> None:
        """Forget what only :meth:`refuse_training_rows` needs, so that :meth:`state` is small."""
        self._counter, self._batches = None, np.zeros_like(self._batches)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that can be added, as arrays, in the form in which a history stores it.

        Returns
        -------
        dict of str to array
            ``n`` of shape (n_leaves,), ``s`` and ``residual`` of shape (n_leaves, width): sums at the leaves.
            ``variances`` of shape (5, n_features): those of the sums of terms, their squares over the degrees of
            freedom, and the covariance. ``totals`` and ``weights``: numbers of rows, sums of weights. ``unseen`` of
            shape (n_features,) and ``repeated`` of shape (1,): see :attr:`unseen` and :attr:`repeated`. ``loss_parts``
            of shape (4 + 2 n_features,): see :attr:`loss_parts`. ``squares_of_rows`` of shape (7, n_outputs): see
            :meth:`variances_of_means`. Those of :class:`debias.rows.pair_sums.PairSums`, if
            pairs are watched. ``names``: the features. Leaf counts and sums over
            batches, until :meth:`refuse_training_rows` was called.
        """
        leaf = np.flatnonzero(self.ensemble.left < 0)
        own = {"residual": self._e[leaf], "variances": self._variances, "weights": self._weights}
        own |= {"unseen": self._unseen, "repeated": self._repeated, "loss_parts": self._loss_parts}
        own |= {"squares_of_rows": self._squares_of_rows} | self._kept
        own |= {} if self._pairs is None else self._pairs.state()
        return super().state() | own | ({"batches": self._batches} if self._batches.any() else {})

    def merge(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Add the :meth:`state` of other period sums over the same trees."""
        if "residual" not in state:
            raise RowsError("these are node sums without residuals: make period sums of the same rows, and add those")
        self._pairs = self._pairs_with(state)
        super().merge(state)
        self._e[np.flatnonzero(self.ensemble.left < 0)] += state["residual"]
        self._variances = self._variances + state["variances"]
        self._weights = self._weights + state["weights"]
        self._batches = self._batches + state.get("batches", 0.0)
        self._unseen = self._unseen + state["unseen"]
        self._repeated = self._repeated + state["repeated"]
        # An earlier version kept none of these.
        self._loss_parts = self._loss_parts + state.get("loss_parts", 0.0)
        self._squares_of_rows = self._squares_of_rows + state.get("squares_of_rows", 0.0)
        self._keep({name: state.get(name, kept[:0]) for name, kept in self._kept.items()})

    def empty(self) -> PeriodSums:
        """Return sums over no rows of the same model."""
        sums = super().empty()
        assert isinstance(sums, PeriodSums)
        sums._e, sums._variances = np.zeros_like(self._e), np.zeros_like(self._variances)
        sums._weights, sums._batches = np.zeros(2), np.zeros_like(self._batches)
        sums._squares_of_rows = np.zeros_like(self._squares_of_rows)
        sums._unseen, sums._repeated = np.zeros_like(self._unseen), np.zeros(1)
        sums._loss_parts, sums._kept = np.zeros_like(self._loss_parts), self._none_kept()
        sums._pairs = None
        return sums

    @property
    def residual(self) -> NDArray[np.float64]:
        """Weighted sum of the residual at each node, shape (n_nodes, width)."""
        self._sum_up()
        return self._e

    @property
    def q(self) -> NDArray[np.float64]:
        """Raise a CompositionError: there are no sums of squares."""
        raise CompositionError(
            "sums of periods have no squares of the response. Scores that need none work: mdi_oob and oob_split; for "
            "others, make debias.NodeSums of the rows"
        )

    @property
    def total_squared_weight(self) -> float:
        """Sum of the squared weights of the rows."""
        return float(self._weights[1])

    @property
    def unseen(self) -> NDArray[np.float64]:
        """Number of rows with a category that the model never saw, of each feature."""
        return self._unseen

    @property
    def repeated(self) -> float:
        """Number of rows that repeat another row in all features, the response and the weight.

        Only rows that were added together are compared. Of two equal rows, one is counted.
        """
        return float(self._repeated[0])

    @property
    def loss_parts(self) -> NDArray[np.float64] | None:
        """Sums over rows of the parts of the loss, shape (4 + 2 n_features,); None if they are not those of all rows.

        The weight of the rows; the number of rows whose loss was divided; and the weighted sums of the loss, the base,
        what each feature saves, and what it would save if the response were what the model predicts. If the loss of a
        random sample of the rows was divided, its sums are scaled to the weight of all rows.
        """
        covers = abs(self._loss_parts[0] - self.total_weight) <= ROUNDING * self.total_weight
        return self._loss_parts if covers and self.total_weight > 0 else None

    @property
    def estimated(self) -> str | None:
        """How the parts of the loss are estimated; None if they are exact, or there are none."""
        few, n_trees = self._trees_a_row, self.ensemble.n_trees
        if self.metric is None or few == n_trees:
            return None
        return (
            f"the parts of the loss are estimates: each row went through {few} of the {n_trees:,} trees, which have "
            f"{leaves_of_a_tree(self.ensemble):,.0f} leaves on average. They add up to the loss; standard errors over "
            "periods contain what the estimates vary"
        )

    @property
    def _trees_a_row(self) -> int:
        """Through how many trees a row goes for the parts of the loss."""
        return self.ensemble.n_trees if self._loss_rows is None else trees_a_row(self.ensemble)

    @property
    def kept(self) -> tuple[KeptRows, NDArray[np.float64]]:
        """Rows that were kept as they are, and their weights, which are scaled to those of all rows."""
        X, y, start, weight = (self._kept[name] for name in KEPT)
        return KeptRows(X, y, start), weight

    @property
    def pairs(self) -> PairSums | None:
        """Sums for the pairs of features that are watched; None if none are. They may not be complete."""
        return self._pairs

    def _pairs_with(self, state: Mapping[str, NDArray[Any]]) -> PairSums | None:
        """Return the sums for pairs of these rows and those of another state."""
        own = {"totals": self._totals} | ({} if self._pairs is None else self._pairs.state())
        return PairSums.of_state(added_pairs(own, state))

    def _none_kept(self) -> dict[str, NDArray[np.float64]]:
        widths = (self.ensemble.n_features, self.ensemble.n_outputs, self.ensemble.n_outputs)
        return dict(zip(KEPT, (*(np.zeros((0, width)) for width in widths), np.zeros(0)), strict=True))

    def variances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return variances of the scores by the jackknife within the period, and their degrees of freedom.

        Returns
        -------
        variances : array of shape (3, n_features)
            Of ``mdi_oob``; of the same formula for the residual; and the covariance of the two. NaN if no two rows were
            added together, or batches were not alike.
        freedom : array of shape (2, n_features)
            Of the two variances.
        """
        of_sum, of_square = self._variances[[0, 1, 4]], self._variances[2:4]
        varied = self._weights[0]
        freedom = np.divide(of_sum[:2] ** 2, of_square, out=np.zeros_like(of_square), where=of_square > 0)
        if not varied:
            return np.full_like(of_sum, np.nan), freedom
        return of_sum / (varied * self.total_weight), freedom

    def variances_of_means(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variances of the means of the response, the prediction and the residual, of independent rows.

        Parameters
        ----------
        means : array of shape (3, n_outputs)
            These means, of the values whose sums are at the nodes.

        Returns
        -------
        array of shape (3, n_outputs)
            NaN if there is one row, or squares of some rows are missing: there are none of labels, an earlier version
            kept none, and they may be beyond the range of floats.
        """
        of_weights, firsts, seconds = np.split(self._squares_of_rows, [1, N_MEANS + 1])
        known = np.abs(of_weights - self.total_squared_weight) <= ROUNDING * self.total_squared_weight
        number = self.total_weight**2 / self.total_squared_weight if self.total_squared_weight > 0 else 0.0
        if not known.all() or not number > 1 + ROUNDING:
            return np.full_like(seconds, np.nan)
        squares = np.maximum(seconds - 2 * means * firsts + means**2 * of_weights, 0.0)
        return squares / self.total_weight**2 * (number / (number - 1))

    @property
    def _has_labels(self) -> bool:
        """Whether responses are labels, or 0 and 1. Then no row can be far from the others."""
        ensemble = self.ensemble
        return ensemble.is_classifier or ensemble.class_sets is not None or ensemble.objective.name == "logistic"

    def _add_squares(self, both: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """Add the sums over rows of squared weights, alone and times values and their squares.

        The values are the response, the prediction and the residual, whose first and last are given side by side.
        """
        response, residual = np.hsplit(both, 2)
        values = np.stack([response, response - residual, residual])
        with np.errstate(over="ignore", invalid="ignore"):
            of_rows = np.concatenate([np.ones((1, *residual.shape)), values, values**2])
            sums = (of_rows * (weight**2)[:, None]).sum(axis=1)
        if np.isfinite(sums).all():
            self._squares_of_rows = self._squares_of_rows + sums

    def _add_block(
        self,
        leaves: KnownLeaves | NumberedLeaves,
        response: Response,
        margin: NDArray[np.float64],
        weight: NDArray[np.float64],
        n_jobs: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Add rows in random order, whose leaves and margins are known, and the variances of their scores.

        Return their responses and residuals.
        """
        from debias.rows.kernels import period_sums as kernels

        ensemble = self.ensemble
        edges = np.linspace(0, weight.size, min(N_GROUPS, weight.size) + 1).astype(np.int64)
        values, residual = (
            np.ascontiguousarray(array)
            for array in (values_of(ensemble, response), residual_of(ensemble, response, margin))
        )

        weight, n_outputs = np.ascontiguousarray(weight), ensemble.value.shape[1]
        of_nodes = (ensemble.tree_start, ensemble.left, ensemble.right, ensemble.feature)
        of_trees = (*of_nodes, ensemble.tree_output, ensemble.centred_value)
        numbers = leaves.numbers if n_outputs == 1 else None
        added = np.zeros((0, 0, 4) if numbers is None else (ensemble.n_outputs, weight.size, 4))
        if numbers is not None:
            added[:, :, 0] = weight
            added[:, :, 1], added[:, :, 2] = (weight * array.T for array in (values, residual))

        def add_share(share: slice) -> NDArray[np.float64]:
            trees, terms = np.arange(share.start, share.stop), np.zeros((edges.size, 2, ensemble.n_features))
            sums = (edges, self._n, self._s, self._e, terms)
            if numbers is None:
                reached = np.ascontiguousarray(leaves.leaves(trees).T)
                kernels.add_groups(reached, trees, *of_trees, values, residual, weight, *sums)
            else:
                of_rows, leaf, leaf_start = numbers
                kernels.add_numbered_groups(of_rows[share], leaf, leaf_start, trees, *of_trees, added, *sums)
            return terms

        n_shares = max(1, min(SHARES, ensemble.n_trees // TREES_A_SHARE))
        bounds = np.linspace(0, ensemble.n_trees, n_shares + 1).astype(np.int64).tolist()
        with allowed(n_jobs) as threads:
            terms = np.sum(threads.map(add_share, [slice(*pair) for pair in pairwise(bounds)]), axis=0)
        self._add_variances(terms, np.diff(np.concatenate([[0.0], np.cumsum(weight)])[edges]))
        return values, residual

    def _add_variances(self, terms: NDArray[np.float64], of_group: NDArray[np.float64]) -> None:
        """Add the variances of the sums of terms, given these sums without each group, and the weights of the groups.

        Variances of mean terms are multiplied by the weight of the rows squared, so that those of independent rows add
        up.
        """
        weight = of_group.sum()
        used = (of_group > 0) & (of_group < weight)
        if used.sum() < 2:
            return
        number = self.ensemble.n_trees if self.ensemble.averaged else 1
        without = terms[:-1][used] / (weight - of_group[used])[:, None, None]
        # The variance of a sum is that of both parts, and twice their covariance.
        scores = np.append(terms[-1], terms[-1:].sum(axis=1), axis=0) / weight
        without = np.concatenate([without, without.sum(axis=1, keepdims=True)], axis=1)
        variance, freedom = group_variance(scores, without, of_group[used] / weight)
        of_score, of_residual, of_both = variance * (weight / number) ** 2
        with np.errstate(over="ignore"):
            squares = [of_score**2 / freedom, of_residual**2 / freedom]
        covariance = (of_both - of_score - of_residual) / 2
        added = np.stack([of_score, of_residual, *squares, covariance])
        if not np.isfinite(added).all():
            raise RowsError(
                "the response is so large that the squares of variances are outside the range of floats: train the "
                "model and add rows in another unit"
            )
        self._variances = self._variances + added
        self._weights = self._weights + [weight, 0.0]

    def _add_faults(self, rows: Rows) -> None:
        """Count rows with categories that the model never saw, and rows that repeat other rows."""
        unseen = np.zeros_like(self._unseen)
        for k, number in rows.table.unseen.items():
            unseen[k] = number
        self._unseen = self._unseen + unseen
        self._repeated = self._repeated + float(rows.n_rows - np.unique(hashes_of(rows)).size)

    def _add_loss_parts(self, rows: Rows, order: NDArray[np.int64]) -> None:
        """Add the parts of the loss of the first rows in random order, scaled to the weight of all rows."""
        used = order[rows.weight[order] > 0][: self._loss_rows]
        if not used.size:
            return
        X = np.ascontiguousarray(rows.table.matrix(rows.ensemble, used))
        with np.errstate(over="ignore", invalid="ignore"):
            total, weight = rows.weight.sum(), rows.weight[used]
            assert rows.margins is not None
            of_rows = (X, rows.response.part(used), rows.margins[used], weight)
            sums = loss_sums(rows.ensemble, *of_rows, rows.n_jobs, self._trees_a_row)
            sums *= total / weight.sum()
        if not np.isfinite(sums).all():
            self.no_loss = f"the {self.metric} of some rows is not finite"
            return
        self._loss_parts = self._loss_parts + np.concatenate([[total, used.size], sums])
        few = slice(0, self._kept_rows)
        rows_kept = KeptRows.of(rows.ensemble, X[few], rows.response.part(used[few]))
        of_few = weight[few] * (total / (weight[few].sum() or 1.0))
        self._keep(dict(zip(KEPT, (rows_kept.X, rows_kept.y, rows_kept.start, of_few), strict=True)))

    def _add_pairs(self, rows: Rows, order: NDArray[np.int64], named: Named) -> None:
        """Add the sums for pairs of the first rows in random order, scaled to the weight of all rows."""
        used = order[rows.weight[order] > 0][:PAIR_ROWS]
        if not used.size:
            return
        assert rows.margins is not None
        group, pairs = named(rows.ensemble)
        X = np.ascontiguousarray(rows.table.matrix(rows.ensemble, used))
        response, margin = rows.response.part(used), rows.margins[used]
        residual = residual_of(rows.ensemble, response, margin)
        output = margin if response.margin is None else margin - response.margin
        weight = rows.weight[used] * (rows.weight.sum() / rows.weight[used].sum())
        found = pair_sums(rows.ensemble, X, group, pairs, output, residual, weight)
        # The totals have these rows already, and before the first ones no other rows but those of weight 0.
        first = self.total_weight - rows.weight.sum() <= ROUNDING * self.total_weight
        self._pairs = found if first else self._pairs_with({"totals": self._totals} | found.state())

    def _keep(self, further: Mapping[str, NDArray[Any]]) -> None:
        """Keep further rows. If there are too many then, all parts lose the same share of theirs."""
        kept = {name: np.concatenate([rows, further[name]]) for name, rows in self._kept.items()}
        weight = kept[KEPT[-1]]
        if weight.size > MOST_KEPT:
            at = evenly_spaced(weight.size, MOST_KEPT)
            kept = {name: rows[at] for name, rows in kept.items()}
            kept[KEPT[-1]] = kept[KEPT[-1]] * (weight.sum() / weight[at].sum())
        self._kept = kept

    def _add_batch(self, total: NDArray[np.float64], squares: NDArray[np.float64], weight: float) -> None:
        """Add the weighted sums of responses and residuals of rows that were added together, and of their squares.

        The third row of the sums over batches has the squares of the batches' totals over their weights, so that sums
        of squares between and within batches follow. The last one has the number of batches.
        """
        if weight > 0:
            self._batches = self._batches + np.stack([total, squares, total**2 / weight, np.ones_like(total)])

    def _batches_differ(self) -> bool:
        """Whether means differ between batches, by an analysis of variance with the effective number of rows."""
        from scipy.stats import f

        total, squares, of_batches, (number, *_) = self._batches
        if number < 2:
            return False
        weight, squared_weight = self.total_weight, self.total_squared_weight
        a_row = squared_weight / weight  # of the weight, as many rows of equal weight would have
        freedom = number - 1, weight / a_row - number
        between, within = of_batches - total**2 / weight, squares - of_batches
        telling = between > ROUNDING * squares
        if freedom[1] <= 0 or not telling.any():
            return False
        mean_within = np.maximum(within[telling], 0.0) / (weight - number * a_row)
        with np.errstate(divide="ignore"):  # batches of one class each have no variance within
            ratio = between[telling] / (freedom[0] * a_row) / mean_within
        return bool((f.sf(ratio, *freedom) * total.size < DIFFERENT).any())

    def _sum_up(self) -> None:
        from debias.trees.kernels import nodes as kernels

        if self._summed_up:
            return
        trees = (self.ensemble.tree_start, self.ensemble.left, self.ensemble.right)
        by_output = np.ascontiguousarray(self._e.T)
        for of_output in by_output:  # in the place of numbers of rows, which the kernel sums up too
            kernels.sum_up(*trees, of_output, np.zeros((of_output.size, 0)), self._q)
        self._e[:] = by_output.T
        super()._sum_up()


def random_order(n_rows: int) -> NDArray[np.int64]:
    """Return the order in which rows are added: consecutive rows are random samples then, however a table is sorted."""
    return np.random.default_rng(0).permutation(n_rows)


def group_variance(
    whole: NDArray[np.float64], without: NDArray[np.float64], share: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the variance of scores by a jackknife that leaves out one group at a time.

    For groups of one size this is the delete-a-group jackknife. For groups of different sizes, the deviations are
    weighted so that the variance is unbiased for a mean of independent rows, as HC2 of MacKinnon and White (1985) is.

    Parameters
    ----------
    whole : array
        The scores over all groups.
    without : array of shape (n_groups, ...)
        The scores without each group.
    share : array of shape (n_groups,)
        Share of the weight that each group has; less than 1.

    Returns
    -------
    (array, float)
        The variances, and their degrees of freedom: ``n_groups - 1`` for groups of one size.
    """
    variance: NDArray[np.float64] = np.sum(
        [(1 - own) * (whole - one) ** 2 for own, one in zip(share, without, strict=True)], axis=0
    )
    return variance, max(1.0, 1 / float((share**2).sum()) - 1)


def values_of(ensemble: TreeEnsemble, response: Response) -> NDArray[np.float64]:
    """Return the response that node sums add up, shape (n_rows, n_outputs); one-hot for averaged classifiers."""
    if ensemble.averaged and response.codes is not None:
        return np.eye(ensemble.n_outputs)[response.codes]
    assert response.values is not None
    return response.values


def margin_of(ensemble: TreeEnsemble, response: Response, routed: Routed) -> NDArray[np.float64]:
    """Return the margin of each row, or the mean over the trees, as ``Rows.margins``: shape (n_rows, n_outputs).

    Parameters
    ----------
    ensemble : TreeEnsemble
        Without lines in its leaves.
    response : Response
    routed : Routed
        The rows.
    """
    raw = np.zeros((response.n_rows, ensemble.n_outputs))
    routed.add_outputs(np.arange(ensemble.n_trees), raw)
    if ensemble.averaged:
        raw /= ensemble.n_trees
    raw += ensemble.base
    return raw if response.margin is None else raw - ensemble.base + response.margin


def residual_of(ensemble: TreeEnsemble, response: Response, margin: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the negative gradient of the loss at the margin of each row, shape (n_rows, n_outputs).

    Returns
    -------
    array of float64
        y minus the prediction, for averaged trees.
    """
    if ensemble.averaged:
        return values_of(ensemble, response) + ensemble.centre - margin
    assert response.target is not None
    return ensemble.objective.response(response.target, margin)
