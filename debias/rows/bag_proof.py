"""The proof that rows are the training rows in training order: counts and means are compared node by node.

:func:`prove` is the entry point. It draws the bag of each tree again, routes the rows of the bag, and compares the
number of rows, their weight and their mean response with what the nodes store. :mod:`debias.rows.provenance` decides
what a failed proof means. For rows in batches, :func:`proof_of` takes leaves that are known already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from debias.data.table import route_table
from debias.positions import evenly_spaced
from debias.text import listed
from debias.trees.routing import Router, route, row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

ROOTS_TO_CHECK = 10
LEAST_CORRELATION, LEAST_OF_BOOSTED = 0.6, 0.3
"""Least correlation of the leaf values of the first trees with the mean response of the leaves. Without shrinkage and
sampling the correlation is 1. Boosted trees of 30 % of the rows, for a noisy response, had .3 to .6 in 4 %
of 73 fits."""
WRONG_SPLITS = 0.4
"""A column differs if the rows go to the wrong side at this part of the splits on it that can be judged, or more,"""
LEAST_WRONG = 2
"""and at so many of them."""
LEAST_RIGHT, RIGHT_FOR_ONE_WRONG = 5, 20
"""The other columns are right if so many splits on them are, and so many for each wrong one."""
ROWS_BELOW = 10
"""Nodes below a wrong split are compared if they held so many training rows: smaller ones agree by chance."""
FEW_ROWS = 0.15
"""If more than this part of them agree, a few rows were changed and not a column,"""
CLEARLY_WRONG = 0.9
"""unless this part of the splits on the columns is wrong."""
MOST_COLUMNS = 5
"""Largest number of columns that a message names."""
TREES_FOR_UNITS, FIRST_TREES, ROWS_FOR_UNITS = 20, 100, 20_000
"""The units of y show in the leaf values of so many trees, spread over so many first ones, for at most so many rows."""
OTHER_UNITS = 2.0
"""y this many times larger or smaller than in training has other units. Right ones had factors of 0.76 to 1.28, if many
leaves tell."""
SURE_OF_UNITS = 0.001
"""Units are other ones if all factors between are rejected at this level. Few leaves, and trees of a part of the rows,
tell the factor roughly: for the right y, it was further from 1 in 35 % of 1,972 fits of 2 to 20 trees of 30 % or 70 %
of the rows, and rejected in two."""
LEAST_ROUNDS = 10
"""They do not show if trees are grown side by side, and there are fewer rounds among these first trees."""
ROW_TREES_TO_CHECK = 40_000
"""Number of rows times trees that are routed for the proof at every node (at least four trees)."""


@dataclass(frozen=True)
class Proof:
    """How the rows that may be the training rows compare with what the nodes store.

    Parameters
    ----------
    n_trees : int
        Number of trees compared at every node; the roots of more trees are compared.
    root_counts, root_weights, root_values, counts, values : float
        Share of roots, and share of nodes, whose counts, weights and values the rows reproduce.
    columns : list of str
        Columns of the user's X at whose splits the rows first go to the wrong side.
    others_right : bool
        Whether the splits on other columns send their rows to the right side, so that only `columns` differ.
    values_prove : bool
        Whether leaf values are means, so that they can prove y.
    telling : bool
        Whether the means at the roots identify y. They do not if labels are sorted by class, or if every bag is
        balanced: then the y of another sample gives the same means.
    has_splits : bool
        Whether the trees have splits. Without any, every set of as many rows reproduces the counts.
    only_roots_prove : bool
        Whether values are no means, and the adapter compared those at the roots with y.
    """

    n_trees: int
    root_counts: float
    root_weights: float
    root_values: float
    counts: float
    values: float
    columns: list[str]
    others_right: bool
    values_prove: bool
    telling: bool
    has_splits: bool
    only_roots_prove: bool = False

    def with_response(self, fits: bool | None) -> Proof:
        """Return the proof with what an adapter found out about y, if it did (`InBag.fits_response`)."""
        if fits is None:
            return self
        return replace(
            self, root_values=float(fits), values=float(fits), values_prove=True, telling=True, only_roots_prove=True
        )

    @property
    def holds(self) -> bool:
        """Whether the rows are proven (and y, if the values can prove it)."""
        values = not self.values_prove or self.values == self.root_values == 1
        return self.root_counts == self.root_weights == self.counts == 1 and values

    @property
    def claims(self) -> bool:
        """Whether so much agrees that the user must have meant these as the training rows."""
        return self.y_in_order or (self.has_splits and (self.counts > 0.5 or self.others_right))

    @property
    def y_in_order(self) -> bool:
        """Whether the means of the bags show that y is the training response in training order."""
        return self.values_prove and self.telling and self.root_values > 0.9

    def mismatch(self) -> str:
        """Return a description of what does not match."""
        if self.root_counts < 1:
            return (
                f"the stored row counts differ already at {1 - self.root_counts:.0%} of the roots: the settings of the "
                "model were changed after fitting, or it was fitted in several steps (warm_start)"
            )
        if self.root_weights < 1:
            return (
                f"the weights are different at {1 - self.root_weights:.0%} of the roots: the model was trained with "
                "other weights than these rows are passed with, or its class_weight was changed after fitting. Pass "
                "the weights of training as sample_weight=, in the order of the rows of X"
            )
        if self.counts == 1:
            return (
                f"X is the training X in training order, and y is not the training response ({self.values:.1%} of the "
                "node values are reproduced): y was changed or permuted, or the weights of rows or classes are not "
                "those of the model"
            )
        if self.others_right:
            y_fits = "y is the training response in training order, and " if self.y_in_order else ""
            return f"{y_fits}these columns of X differ: {self._named_columns()}. {_FOLDS}"
        if self.counts > 0.9:
            return f"{1 - self.counts:.1%} of the nodes hold other rows: a few rows of X were changed"
        if self.y_in_order:
            example = f" (the first wrong splits are on {self._named_columns()})" if self.columns else ""
            return (
                "y is the training response in training order, and the rows of X are in another order, or columns of X "
                f"have other values than in training{example}. {_FOLDS}"
            )
        return f"only {self.counts:.0%} of the nodes hold their training rows: the rows are in another order"

    def _named_columns(self) -> str:
        return listed([repr(name) for name in self.columns], MOST_COLUMNS)


_FOLDS = (
    "If an encoder with cross-fitting made them, such as TargetEncoder, the trees were grown on other values than the "
    "encoder returns now. Score such a model on rows it has not seen. If the model is a step of a pipeline, pass the "
    "whole pipeline, with X as it takes it"
)


def prove(ensemble: TreeEnsemble, in_bag: InBag, table: Table, response: Response) -> Proof:
    """Compare rows that may be the training rows with the nodes.

    The number of distinct rows is compared at the roots of all trees, the mean and the weight at up to 10 roots, and
    all three at every node of at least four trees. These trees are spread evenly over the ensemble, including the first
    and the last.

    Parameters
    ----------
    ensemble : TreeEnsemble
        With `count` and `weight`.
    in_bag : InBag
    table : Table
    response : Response

    Returns
    -------
    Proof
    """
    trees = trees_to_prove(ensemble, table.n_rows)
    return proof_of(ensemble, in_bag, response, trees, _in_bag_leaves(ensemble, in_bag, table, trees))


def trees_to_prove(ensemble: TreeEnsemble, n_rows: int) -> NDArray[np.int64]:
    """Return the trees that `n_rows` rows are compared with at every node."""
    assert ensemble.count is not None
    in_bag = float(ensemble.count[ensemble.tree_start[:-1]].mean())
    rows_per_tree = max(in_bag, n_rows / 50, 1.0)  # rows to route; small bags take time too, since they are redrawn
    return evenly_spaced(ensemble.n_trees, max(4, int(ROW_TREES_TO_CHECK / rows_per_tree)))


def proof_of(
    ensemble: TreeEnsemble,
    in_bag: InBag,
    response: Response,
    trees: NDArray[np.int64],
    leaves: NDArray[np.int32],
) -> Proof:
    """Compare rows with the nodes; `leaves` (n_rows, len(trees)) are their leaves in `trees`, -1 if out of bag."""
    assert ensemble.count is not None
    assert ensemble.weight is not None
    roots = ensemble.tree_start[:-1]
    tolerance = _value_tolerance(ensemble, response)
    root_counts = in_bag.n_samples() == ensemble.count[roots]
    at_root = set(evenly_spaced(ensemble.n_trees, ROOTS_TO_CHECK).tolist())
    column_of = {tree: column for column, tree in enumerate(trees.tolist())}
    root_weights, root_values, matched_counts, matched_values = [], [], [], []
    for tree in sorted(at_root | column_of.keys()):
        weight = in_bag.draw(tree)
        if tree in at_root:
            root_weights.append(abs(weight.sum() / ensemble.weight[roots[tree]] - 1) < 1e-6)
            gap = np.abs(_mean(response, weight, ensemble) - ensemble.centred_value[roots[tree]])
            root_values.append(gap.max() <= tolerance)
        if tree in column_of:
            reached, samples = leaves[:, column_of[tree]], in_bag.samples(tree, weight)
            counts, values = _compare_tree(ensemble, tree, reached, weight, samples, response, tolerance)
            matched_counts.append(counts)
            matched_values.append(values)
    counts, values = np.concatenate(matched_counts), np.concatenate(matched_values)
    columns, others_right = _columns_that_differ(ensemble, trees, counts & values if ensemble.mean_values else counts)
    return Proof(
        n_trees=int(trees.size),
        root_counts=float(root_counts.mean()),
        root_weights=float(np.mean(root_weights)),
        root_values=float(np.mean(root_values)),
        counts=float(counts.mean()),
        values=float(values.mean()),
        columns=columns,
        others_right=others_right,
        values_prove=ensemble.mean_values,
        telling=_telling(response, ensemble.n_outputs) and _roots_vary(ensemble, tolerance),
        has_splits=ensemble.splits.size > 0,
    )


def response_fits(ensemble: TreeEnsemble, table: Table, response: Response) -> bool:
    """Whether the values of the leaves of the first trees agree with the response that the user passed for training.

    The value of a leaf is the mean or median of y over its training rows; in the first round of a boosted model, that
    of r_0, shrunk and scaled. So the values and the means of the leaves go up and down together.
    """
    if response.values is not None:
        fitted = ensemble.objective.fitted_first(response.values)
        if fitted is None:
            return True
        values = fitted
    else:
        assert response.codes is not None
        values = np.eye(ensemble.n_outputs)[response.codes]
    least = LEAST_CORRELATION if ensemble.averaged else LEAST_OF_BOOSTED
    for tree in range(1 if ensemble.averaged else ensemble.trees_a_round):
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        leaves = route_table(ensemble, table, np.array([tree]))[:, 0]
        n = np.maximum(np.bincount(leaves), 1)
        value = ensemble.value[nodes][leaves].T
        of_outputs = values.T[ensemble.tree_output[tree] :][: len(value)]
        mean = np.stack([(np.bincount(leaves, weights=output) / n)[leaves] for output in of_outputs])
        if not ensemble.averaged:  # together: a leaf may vote for one class of several
            value, mean = value.reshape(1, -1), mean.reshape(1, -1)
        for of_leaves, of_rows in zip(value, mean, strict=True):
            if np.ptp(of_leaves) == 0:
                continue
            if np.ptp(of_rows) == 0 or np.corrcoef(of_leaves, of_rows)[0, 1] <= least:
                return False
    return True


def units_of_response(
    ensemble: TreeEnsemble, table: Table, response: Response, weight: NDArray[np.float64] | None = None
) -> float | None:
    """Return how many times larger y is than the training response, if the leaf values of the first trees show it.

    A boosted tree for the squared error predicts a part of the mean of what is left: of y, less the trees before it. If
    y has other units, only the first of the two terms is multiplied, so the ratio of their coefficients shows the
    factor. Trees of one round (``num_parallel_tree``, a forest of XGBoost) are grown side by side, so that those of few
    rounds do not tell. The first round has a constant of its own, because some files keep the start of the
    boosting there. The values of averaged trees are means or medians of y itself.

    Returns
    -------
    float or None
        The factor: `OTHER_UNITS` or more, or at most its inverse; not above 0 if the values of the leaves do not follow
        y.
        None for the training response, other losses, several outputs, and trees that do not tell.
    """
    from scipy.stats import t as student

    if ensemble.objective.compares_rows:  # the values of survival trees are no means of y
        return None
    if response.values is None or ensemble.n_outputs > 1 or ensemble.rescaled or ensemble.class_sets is not None:
        return None
    if not ensemble.averaged and (ensemble.objective.name != "squared_error" or ensemble.n_trees == 1):
        return None
    if ensemble.trees_a_round > 1 and min(ensemble.n_trees, FIRST_TREES) < LEAST_ROUNDS * ensemble.trees_a_round:
        return None
    of_y, of_trees, of_first, found, size = (list["NDArray[np.float64]"]() for _ in range(5))
    rows, n_trees = evenly_spaced(table.n_rows, ROWS_FOR_UNITS), min(ensemble.n_trees, FIRST_TREES)
    leaves = route(ensemble, table.matrix(ensemble, rows), np.arange(n_trees))
    y, before, of_round = response.values[rows, 0], np.zeros(rows.size), np.zeros(rows.size)
    weight = np.ones(rows.size) if weight is None else weight[rows]
    chosen = set(evenly_spaced(n_trees, TREES_FOR_UNITS).tolist())
    for tree in range(n_trees):
        value = ensemble.value[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1], 0]
        at = leaves[:, tree]
        if tree in chosen:
            n = np.bincount(at, weights=weight, minlength=value.size).astype(np.float64)
            reached = n > 0
            for means, numbers in ((of_y, y), (of_trees, before)):
                means.append(np.bincount(at, weights=weight * numbers, minlength=value.size)[reached] / n[reached])
            of_first.append(np.full(int(reached.sum()), float(tree < ensemble.trees_a_round)))
            found.append(value[reached] - (ensemble.centre[0] if ensemble.averaged else 0.0))
            size.append(n[reached])
        if not ensemble.averaged:
            of_round += value[at]
            if (tree + 1) % ensemble.trees_a_round == 0:
                before, of_round = before + of_round, np.zeros(rows.size)
    means_of_leaves = map(np.concatenate, (of_y,) if ensemble.averaged else (of_y, of_trees))
    terms = [each - each.mean() for each in means_of_leaves]  # y may be far from 0
    value_of = np.concatenate(found)
    told = np.ones(value_of.size, dtype=bool)
    if not ensemble.averaged:
        terms.append(np.concatenate(of_first))
        later = terms[-1] == 0
        clipped = later & np.isclose(np.abs(value_of), np.abs(value_of[later]).max(initial=0.0), rtol=1e-6, atol=0.0)
        told = ~clipped if clipped.sum() > 1 else told  # several largest values are those of max_delta_step
    columns = np.column_stack([*terms, np.ones(value_of.size)])[told]
    value_of, root = value_of[told], np.sqrt(np.concatenate(size))[told]
    # Weighted by the number of rows: the mean over a leaf of n rows varies by 1 / n.
    weighted = columns * root[:, None]
    coefficients, _, rank, _ = np.linalg.lstsq(weighted, value_of * root, rcond=None)
    degrees = columns.shape[0] - columns.shape[1]
    if rank < columns.shape[1] or coefficients[0] == 0 or degrees < 1:
        return None
    factor = float((1.0 if ensemble.averaged else -coefficients[1]) / coefficients[0])
    if 1 / OTHER_UNITS < factor < OTHER_UNITS:
        return None
    # With the factor f, the coefficient of y is 1 / f, or that of the trees before it is -f times it: a contrast is 0.
    left, inverse = value_of * root - weighted @ coefficients, np.linalg.pinv(weighted)
    covariance = inverse @ inverse.T * (left @ left) / degrees
    least = student.isf(SURE_OF_UNITS / 2, degrees)
    for possible in np.geomspace(1 / OTHER_UNITS, OTHER_UNITS, 9):
        contrast = np.zeros(columns.shape[1])
        contrast[:2] = (possible, 0.0) if ensemble.averaged else (possible, 1.0)
        distance = contrast @ coefficients - float(ensemble.averaged)
        if abs(distance) <= least * np.sqrt(contrast @ covariance @ contrast):
            return None
    return factor


def _telling(response: Response, n_classes: int) -> bool:
    """Whether the order of y identifies it: two halves of sorted data have exactly the same labels in order."""
    if response.codes is not None:
        # Labels that are sorted by class change n_classes - 1 times.
        return int((np.diff(response.codes) != 0).sum()) > 4 * n_classes
    assert response.values is not None
    return len(np.unique(response.values)) > 4


def _roots_vary(ensemble: TreeEnsemble, tolerance: float) -> bool:
    """Whether means at the roots depend on the rows in the bags: in balanced bags all classes have the same weight."""
    values = ensemble.centred_value[ensemble.tree_start[:-1]]
    return ensemble.n_trees == 1 or bool(np.ptp(values, axis=0).max() > tolerance)


def _value_tolerance(ensemble: TreeEnsemble, response: Response) -> float:
    """Return the tolerance of node means: rounding of y to float32 must not matter."""
    if response.values is None:
        return 1e-6
    # If all n numbers contain a large constant, their mean is exact to n roundings of that constant.
    rounding = float(np.abs(ensemble.centre).max()) * response.n_rows * np.finfo(np.float64).eps
    return max(1e-6 * float(np.abs(response.values).max(initial=0.0)), rounding, 1e-12)


def _mean(response: Response, weight: NDArray[np.float64], ensemble: TreeEnsemble) -> NDArray[np.float64]:
    if response.values is None:
        assert response.codes is not None
        total = np.bincount(response.codes, weights=weight, minlength=ensemble.n_outputs).astype(np.float64)
    else:
        total = (weight[:, None] * response.values).sum(axis=0)  # `@` would start threads of its own
    return total / max(weight.sum(), 1e-300)


def _in_bag_leaves(ensemble: TreeEnsemble, in_bag: InBag, table: Table, trees: NDArray[np.int64]) -> NDArray[np.int32]:
    # Tree by tree in memory, because trees are compared one after another.
    leaves = np.empty((trees.size, table.n_rows), dtype=np.int32).T
    for rows in row_blocks(table.n_rows, ensemble.n_features, trees.size):
        out_of_bag = ~in_bag.bits(rows.start, rows.stop)[trees]
        leaves[rows] = Router(ensemble, table.matrix(ensemble, rows), out_of_bag).leaves(trees)
    return leaves


def _compare_tree(
    ensemble: TreeEnsemble,
    tree: int,
    leaves: NDArray[np.int32],
    weight: NDArray[np.float64],
    samples: NDArray[np.float64],
    response: Response,
    tolerance: float,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which nodes of a tree have the stored count, and which the stored value."""
    from debias.rows.kernels import proof as kernels

    assert ensemble.count is not None
    nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
    counts, values = np.empty((2, nodes.stop - nodes.start), dtype=bool)
    codes = response.codes if response.values is None else None
    of_rows = (leaves, weight, samples, codes, response.values)
    of_nodes = (ensemble.left[nodes], ensemble.right[nodes], ensemble.count[nodes], ensemble.centred_value[nodes])
    kernels.compare_tree(*of_rows, *of_nodes, tolerance, counts, values)
    return counts, values


def _columns_that_differ(
    ensemble: TreeEnsemble, trees: NDArray[np.int64], agrees: NDArray[np.bool_]
) -> tuple[list[str], bool]:
    """Return the columns whose splits send rows to the wrong side, and whether the splits on the others are right.

    A split can be judged if its node and all nodes above hold their training rows: then they reach it, and if its
    children hold others, the values of its own column are the cause. Below it nothing can be judged, because nodes with
    other rows agree now and then by chance. `agrees` has the nodes of `trees`, tree after tree.

    If a few rows were changed in all columns, splits near the root are wrong too, but most of the nodes below hold none
    of these rows and agree.
    """
    if agrees.all():
        return [], False
    assert ensemble.count is not None
    right, wrong = np.zeros((2, ensemble.n_features))
    n_below, n_below_agree, begin = 0, 0, 0
    for tree in trees:
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        end = begin + nodes.stop - nodes.start
        left, right_child, feature = ensemble.left[nodes], ensemble.right[nodes], ensemble.feature[nodes]
        of_tree, begin = agrees[begin:end], end
        reached = _with_all_above(of_tree, ensemble.parent[nodes])
        split = np.flatnonzero(reached & (left >= 0))
        is_right = of_tree[left[split]] & of_tree[right_child[split]]
        right += np.bincount(feature[split[is_right]], minlength=ensemble.n_features)
        wrong += np.bincount(feature[split[~is_right]], minlength=ensemble.n_features)
        below = ~reached & (ensemble.count[nodes] >= ROWS_BELOW)
        n_below, n_below_agree = n_below + int(below.sum()), n_below_agree + int(of_tree[below].sum())
    differs = (wrong >= LEAST_WRONG) & (wrong >= WRONG_SPLITS * (wrong + right))
    n_right = right[~differs].sum()
    others_right = bool(
        differs.any() and n_right >= LEAST_RIGHT and n_right >= RIGHT_FOR_ONE_WRONG * wrong[~differs].sum()
    )
    few_rows = n_below_agree > FEW_ROWS * n_below
    if few_rows and wrong[differs].sum() < CLEARLY_WRONG * (wrong + right)[differs].sum():
        return [], False
    return list(dict.fromkeys(ensemble.source_of(k) for k in np.flatnonzero(differs).tolist())), others_right


def _with_all_above(agrees: NDArray[np.bool_], parent: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which nodes of a tree agree together with all nodes above them."""
    reached = agrees
    # One level of the tree at a time.
    while True:
        lower = reached & (reached[parent] | (parent < 0))
        if (lower == reached).all():
            return reached
        reached = lower
