"""The importance that the model reports, computed again on evaluation rows: the same figure in the same unit.

A split was chosen because of what the training rows showed at it. The figure that the library adds up for the split is
multiplied by the share of this that the evaluation rows show:

- of an averaged tree, by the covariance of the split's step and the response, divided by the same of the training rows;
- of a boosted tree, by ``G'_l - p' G'_t`` divided by ``G_l - p G_t``, where G are sums of negative gradients at the
  margin before the tree, l is the left child of the node t, and p is the share of l in the second derivatives (in the
  rows, if the library's gain is a decrease of the variance). Letters with a prime are of the evaluation rows.

On the training rows the share is 1, so the figure is the one that the library reports. For a feature that is
independent of the response and of the other features its mean on unseen rows is 0 in averaged trees, since the rows of
a node are then divided at random. In boosted trees it is 0 or below, because a tree also corrects on the training rows
what the trees before it have left of their noise. UnbiasedGBM replaces one of the two sums of gradients in a gain in
the same way (Zhang et al. 2023, arXiv 2305.10696, section 5).

A number of splits has no such counterpart. Splits that hold on unseen rows less those that do not were tried: late
trees, whose splits are nearly all noise, decide that number, and features that matter got 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.hooks.reported import LeafSums, Measure, ReportedImportance
from debias.hooks.scorers import scorer_plugin
from debias.hooks.specs import hookimpl
from debias.rows.rows import LEAVES_KEPT, Rows
from debias.rows.running_sums import SummedRows, of_leaves, running_sums
from debias.scorers.native import reported_importance
from debias.scorers.split_terms import sum_by_feature, terms_of_splits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]
    Figures = Callable[[Any], Array]
    """Figures of the features on evaluation rows."""
    Reproduce = Callable[[TreeEnsemble, ReportedImportance], Figures]

WITH_GAINS = ("squared_error", "logistic", "softmax", "poisson", "gamma", "tweedie", "huber", "fair", "exponential")
"""Losses of boosted models whose leaf values follow from the gradients and second derivatives of the rows."""
OF_CLASSES = ("logistic", "softmax", "exponential")
"""Losses whose gradients depend on how often the classes occur."""
LARGEST_EXCESS = 2.0
"""The gradients of the rows of a class, and those of the other rows, may differ in sum by this factor. With a class
weight of 2 shares differ by up to .03 from those of rows with the weights of training, with 5 by up to .08, and with 20
they tell nothing."""
BEYOND_CHANCE = 4.0
"""Both sums must differ by this many of their standard errors."""
REPRODUCED = 1e-2
"""The gains that follow from the leaves may differ from the stored ones by this part of their sum."""


@scorer_plugin("native_unseen", unit="as the library reports it, on evaluation rows")
def native_unseen(ensemble: TreeEnsemble, rows: Any) -> tuple[Array, dict[str, Any]]:
    """Return the importance that the model itself reports, computed again on evaluation rows: 0 or below for noise.

    It is known up to one factor for all features, so compare shares. On the training rows, with their weights, these
    are the shares of ``native``.

    - Impurity and gain: the figure of each split, times the share of it that the evaluation rows show.
    - CatBoost's change of predictions: one of the two differences of leaf values is that of the values that the
      evaluation rows give.
    - Numbers of splits and covers have no counterpart on other rows.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``details["kind"]`` is the library's name for the importance.

    Raises
    ------
    CompositionError
        The model reports no importance, or one that cannot be computed on other rows; the message says why.
    """
    reported = reported_importance(rows.model)
    if reported is None:
        raise CompositionError(f"this {ensemble.source} reports no importance of its own")
    return figures_of(ensemble, reported)(rows), {"kind": reported.kind}


def figures_of(ensemble: TreeEnsemble, reported: ReportedImportance) -> Figures:
    """Return the function of rows that `native_unseen` is.

    What the trees alone decide is computed once, for all rows.

    Raises
    ------
    CompositionError
        As for `native_unseen`.
    """
    if reported.measure is None:
        raise CompositionError(f"debias cannot compute the importance {reported.kind!r} on other rows")
    return REPRODUCE[reported.measure](ensemble, reported)


@hookimpl
def debias_scorers() -> Sequence[Scorer]:
    """Return the scorer."""
    return [native_unseen]


@dataclass(frozen=True, eq=False)
class AveragedFigures:
    """Figures of averaged trees on evaluation rows: sums over the splits of each feature.

    Parameters
    ----------
    ensemble : TreeEnsemble
    per_covariance : array of shape (n_splits,)
        The figure of each split for a covariance of 1 of its step and the response, in a tree of weight 1.
    """

    ensemble: TreeEnsemble
    per_covariance: Array

    def __call__(self, rows: Any) -> Array:
        """Return the figure of each feature on all rows."""
        from debias.scorers.kernels import node as kernels

        ensemble, sums = self.ensemble, rows.node_sums
        if not sums.n_root.any():
            raise RowsError("no row is out of bag in any tree, so there is nothing to evaluate on")
        covariance = terms_of_splits(ensemble, kernels.centred_covariance, ensemble.value, sums.n, sums.s)
        return sum_by_feature(ensemble, self.per_covariance * covariance, _ratio(1.0, sums.n_root))

    def without_groups(self, rows: Rows, group: NDArray[np.int64], n_groups: int) -> Array:
        """Return the figures without each group of rows, shape (n_features, n_groups); group -1 is never used."""
        from debias.scorers.kernels import without_groups as kernels

        ensemble, response, value = self.ensemble, rows.response, self.ensemble.value
        if response.codes is not None:  # the last class is 1 less the others, so its column says nothing new
            responses, value = np.eye(ensemble.n_outputs)[response.codes, :-1], value[:, :-1] - value[:, -1:]
        else:
            assert response.values is not None
            responses = response.values
        of_node = np.zeros(ensemble.n_nodes)
        of_node[ensemble.splits] = self.per_covariance
        arrays = (ensemble.tree_start, ensemble.left, ensemble.right, ensemble.feature, ensemble.tree_output)
        of_rows = (np.ascontiguousarray(value), of_node, group, rows.weight, np.ascontiguousarray(responses))
        out, at_once = np.zeros((ensemble.n_features, n_groups)), max(1, LEAVES_KEPT // rows.n_rows)
        for first in range(0, ensemble.n_trees, at_once):
            trees = np.arange(ensemble.n_trees)[first : first + at_once]
            leaves = rows.leaves_in(slice(first, first + at_once))
            kernels.add_without_groups(trees, leaves, *arrays, *of_rows, out)
        return out


def _impurity(ensemble: TreeEnsemble, reported: ReportedImportance) -> Figures:
    return _of_splits(ensemble, reported, _decrease(ensemble))


def _impurity_by_tree(ensemble: TreeEnsemble, reported: ReportedImportance) -> Figures:
    decrease, tree = _decrease(ensemble), ensemble.tree_of_split
    total = np.bincount(tree, weights=decrease, minlength=ensemble.n_trees)
    return _averaged(ensemble, decrease * _ratio(1.0, total)[tree])


def _total_gain(ensemble: TreeEnsemble, reported: ReportedImportance) -> Figures:
    return _of_splits(ensemble, reported, _gain(ensemble))


def _mean_gain(ensemble: TreeEnsemble, reported: ReportedImportance) -> Figures:
    feature = ensemble.feature[ensemble.splits]
    n_splits = np.bincount(feature, minlength=ensemble.n_features)
    return _of_splits(ensemble, reported, _gain(ensemble), 1.0 / n_splits[feature])


def _splits(ensemble: TreeEnsemble, reported: ReportedImportance) -> Figures:
    raise CompositionError(
        "a number of splits counts all splits alike, whether or not they hold on unseen rows. Gains can be compared: "
        "an estimator of XGBoost or LightGBM reports them with importance_type='gain'. Of a Booster and of a file this "
        "is not judged"
    )


def _prediction_change(ensemble: TreeEnsemble, reported: ReportedImportance) -> Figures:
    """Return the sum over pairs (a, b) of leaves of ``n'_a n'_b / (n'_a + n'_b) (v_a - v_b) (u_a - u_b)``.

    The leaves of a pair differ in one split of a symmetric tree; v is the value of a leaf, and u the value that the
    evaluation rows give it, with the penalty for as many rows as the training rows. K Newton steps leave the part
    ``(penalty / (H + penalty))^K`` of the way to the best value if the loss is quadratic, with H at the value v.
    """
    _refuse_losses(ensemble)
    assert reported.leaf_sums is not None
    leaves, trained = reported.leaf_sums(ensemble), ensemble.averaging_weight
    assert trained is not None
    rate, value, several = leaves.learning_rate, ensemble.value[:, 0], leaves.n_steps > 1
    a, b, feature = _pairs_of_leaves(ensemble)

    def figures(rows: Any) -> Array:
        _refuse_unkept(rows)
        sums = running_sums(rows, ahead=1 / rate if several else 0.0)
        penalty = leaves.penalty * _ratio(sums.n, trained)
        left = _ratio(penalty, sums.hessian + penalty) ** leaves.n_steps
        shown = (1 - left) * (rate * _ratio(sums.gradient, sums.hessian) + several * value)
        change = _common(sums.n, a, b) * (value[a] - value[b]) * (shown[a] - shown[b])
        return np.bincount(feature, weights=change, minlength=ensemble.n_features).astype(np.float64)

    return figures


REPRODUCE: dict[Measure, Reproduce] = {
    Measure.IMPURITY: _impurity,
    Measure.IMPURITY_BY_TREE: _impurity_by_tree,
    Measure.TOTAL_GAIN: _total_gain,
    Measure.MEAN_GAIN: _mean_gain,
    Measure.SPLITS: _splits,
    Measure.PREDICTION_CHANGE: _prediction_change,
}
"""How each measure is computed on evaluation rows."""


def _decrease(ensemble: TreeEnsemble) -> Array:
    """Return the decrease of the impurity at each split, times the training weight of the node."""
    if ensemble.impurity is None or ensemble.weight is None:
        raise CompositionError(f"this {ensemble.source} stores no impurities of its nodes")
    from debias.scorers.kernels import node as kernels

    return terms_of_splits(ensemble, kernels.impurity_decrease, ensemble.weight, ensemble.impurity)


def _gain(ensemble: TreeEnsemble) -> Array:
    if ensemble.gain is None:
        raise CompositionError(f"this {ensemble.source} stores no gains of its splits")
    gain: Array = ensemble.gain[ensemble.splits]
    return gain


def _of_splits(
    ensemble: TreeEnsemble, reported: ReportedImportance, figure: Array, factor: Array | float = 1.0
) -> Figures:
    """Sum the figures of the splits, each times a factor."""
    if ensemble.averaged:
        return _averaged(ensemble, figure * factor)
    return _boosted(ensemble, reported, figure, factor)


def _averaged(ensemble: TreeEnsemble, figure: Array) -> AveragedFigures:
    from debias.scorers.kernels import node as kernels

    weight = ensemble.weight
    if not ensemble.mean_values or weight is None:
        raise CompositionError(
            f"the leaves of this {ensemble.source} are not means of the response, and its splits were not chosen by "
            "means"
        )
    of_training = terms_of_splits(ensemble, kernels.between_variance, ensemble.value, weight)
    per_covariance = figure * _ratio(1.0, of_training)
    return AveragedFigures(ensemble, per_covariance * weight[ensemble.tree_start[:-1]][ensemble.tree_of_split])


def _boosted(ensemble: TreeEnsemble, reported: ReportedImportance, figure: Array, factor: Array | float) -> Figures:
    """Sum the figures of the splits of boosted trees on evaluation rows, each times a factor."""
    _refuse_losses(ensemble)
    by_weight = reported.leaf_sums is None
    if reported.leaf_sums is None:
        trained, weight = _from_variance(ensemble, figure), ensemble.weight
        assert weight is not None
    else:
        leaves = reported.leaf_sums(ensemble)
        weight = of_leaves(ensemble, leaves.hessian)
        trained = _from_leaves(ensemble, leaves, weight)
    root = ensemble.tree_start[:-1]
    per_gradient = figure * factor * _ratio(weight[root].sum(), trained)

    def figures(rows: Any) -> Array:
        _refuse_unkept(rows)
        sums = running_sums(rows)
        evaluated = sums.n if by_weight else sums.hessian
        shown = _difference(ensemble, sums.gradient, evaluated) * _ratio(1.0, evaluated[root].sum())
        return _by_feature(ensemble, per_gradient * shown)

    return figures


def _refuse_unkept(rows: Any) -> None:
    """Refuse rows for which the margins before each tree are not known."""
    if not isinstance(rows, (Rows, SummedRows)):
        raise CompositionError("rows in batches are not kept, and it takes their margins before each tree")
    if rows.in_bag is not None:
        raise CompositionError("out-of-bag rows of a boosted model have no margins before each tree")
    if isinstance(rows, Rows):
        refuse_other_frequencies(rows)


def refuse_other_frequencies(rows: Rows) -> None:
    """Refuse rows of a boosted classifier that have its classes in other frequencies than it expects.

    After training with class weights, late trees lower on such rows what the first ones have raised too far. Sums of
    gradients at their nodes are then those of the frequencies, and not of what the splits tell. Rows whose classes have
    different weights are believed to have those of training.

    Raises
    ------
    CompositionError
        Predicted frequencies are not those of the rows, beyond chance.
    """
    objective, target, margin = rows.ensemble.objective, rows.response.target, rows.margins
    if rows.ensemble.averaged or objective.name not in OF_CLASSES:
        return
    assert target is not None
    assert margin is not None
    weight = rows.weight[:, None]
    of_class, of_others = (_ratio((weight * part).sum(axis=0), part.sum(axis=0)) for part in (target, 1 - target))
    if (np.maximum(of_class, of_others) > LARGEST_EXCESS * np.minimum(of_class, of_others)).any():
        return
    gradient = weight * objective.response(target, margin)
    raised, lowered = (np.maximum(sign * gradient, 0.0).sum(axis=0) for sign in (1, -1))
    of_predicted = (weight**2 * objective.curvature(margin, target)).sum(axis=0)
    error = np.sqrt(np.maximum((gradient**2).sum(axis=0), of_predicted))
    is_large = np.maximum(raised, lowered) > LARGEST_EXCESS * np.minimum(raised, lowered)
    if (is_large & (np.abs(raised - lowered) > BEYOND_CHANCE * error)).any():
        raise CompositionError(
            "the model predicts other frequencies of the classes than these rows have, as models with class weights "
            "do, and gains on such rows tell of the frequencies more than of the splits. If there were class weights "
            "in training, pass these rows with the same weights"
        )


def _refuse_losses(ensemble: TreeEnsemble) -> None:
    """Refuse models for which the gradients of single rows at the margin before a tree are not known."""
    objective = ensemble.objective
    if objective.name not in WITH_GAINS or objective.smoothed or not objective.has_loss:
        raise CompositionError(
            f"the gains and leaf values for the loss {objective.name} are not those of its gradients"
        )
    if ensemble.has_lines:
        raise CompositionError(
            "leaves have lines, so the margins before each tree are not those of the values of leaves"
        )
    if ensemble.rescaled:
        raise CompositionError("trees were scaled after their growth, so the margins before each tree are not known")
    if ensemble.value.shape[1] > 1:
        raise CompositionError("trees with several outputs each choose their splits for all outputs together")


def _from_variance(ensemble: TreeEnsemble, decrease: Array) -> Array:
    """Return ``G_l - (n_l / n_t) G_t`` of the training rows, from the decrease of the variance at each split.

    The decrease is the square of this, divided by n_l n_r / n_t. Its sign is that of the step.
    """
    if ensemble.weight is None:
        raise CompositionError(f"this {ensemble.source} stores no weights of its nodes")
    left, right = ensemble.children.T
    size = np.sqrt(np.maximum(decrease, 0.0) * _common(ensemble.weight, left, right))
    signed: Array = size * np.sign(_steps(ensemble)[:, 0])
    return signed


def _from_leaves(ensemble: TreeEnsemble, leaves: LeafSums, hessian: Array) -> Array:
    """Return ``G_l - (H_l / H_t) G_t`` of the training rows, from the values of leaves.

    The gains that follow from these sums must be the stored ones, up to a factor for each tree: its learning rate.
    """
    penalty = np.broadcast_to(leaves.penalty, hessian.shape)
    gradient = of_leaves(ensemble, ensemble.value[:, 0] * (leaves.hessian + penalty))
    as_child, as_parent = (_ratio(gradient**2, hessian + each) for each in (penalty, penalty.min()))
    gain = as_child[ensemble.children].sum(axis=1) - as_parent[ensemble.splits]
    assert ensemble.gain is not None
    stored, tree = ensemble.gain[ensemble.splits], ensemble.tree_of_split
    of_tree, stored_of_tree = (np.bincount(tree, weights=each, minlength=ensemble.n_trees) for each in (gain, stored))
    factor = np.sqrt(np.maximum(_ratio(stored_of_tree, of_tree), 0.0))
    wrong = np.abs(gain * factor[tree] ** 2 - stored).sum()
    if not wrong <= REPRODUCED * stored.sum():
        raise CompositionError(
            f"the gains that this {ensemble.source} stores do not follow from its leaves: settings of its training may "
            "be missing, or limit the values of leaves"
        )
    return _difference(ensemble, gradient, hessian) * factor[tree]


def _difference(ensemble: TreeEnsemble, gradient: Array, weight: Array) -> Array:
    """Return, for each split, the sum of gradients on the left less the share of its weight in that of the node."""
    left, at = ensemble.children[:, 0], ensemble.splits
    difference: Array = gradient[left] - _ratio(weight[left], weight[at]) * gradient[at]
    return difference


def _pairs_of_leaves(ensemble: TreeEnsemble) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the two leaves of each pair of symmetric trees that differ in one split, and the feature of the split."""
    first, second, feature = [], [], []
    for tree in range(ensemble.n_trees):
        levels = _levels(ensemble, tree)
        leaf = levels.pop()
        for depth, nodes in enumerate(levels):
            pairs = leaf.reshape(2**depth, 2, -1)
            first.append(pairs[:, 0].ravel())
            second.append(pairs[:, 1].ravel())
            feature.append(np.full(first[-1].size, ensemble.feature[nodes[0]]))
    none = np.empty(0, dtype=np.int64)
    a, b, of_pair = (np.concatenate([none, *each]) for each in (first, second, feature))
    return a, b, of_pair


def _levels(ensemble: TreeEnsemble, tree: int) -> list[NDArray[np.int64]]:
    """Return the nodes of each level of a symmetric tree, from left to right; the last level has the leaves."""
    begin = int(ensemble.tree_start[tree])
    levels = [np.array([begin])]
    while (ensemble.left[levels[-1]] >= 0).all():
        nodes = levels[-1]
        if (ensemble.feature[nodes] != ensemble.feature[nodes[0]]).any():
            break
        children = np.stack([ensemble.left[nodes], ensemble.right[nodes]], axis=1).ravel()
        levels.append(children.astype(np.int64) + begin)
    if (ensemble.left[levels[-1]] >= 0).any():
        raise CompositionError("the change of predictions is known for symmetric trees only")
    return levels


def _steps(ensemble: TreeEnsemble) -> Array:
    """Return the value of the left child less that of the right child of each split, shape (n_splits, width)."""
    left, right = ensemble.children.T
    steps: Array = ensemble.value[left] - ensemble.value[right]
    return steps


def _common(weight: Array, left: NDArray[np.int64], right: NDArray[np.int64]) -> Array:
    """Return ``n_l n_r / (n_l + n_r)``."""
    common: Array = weight[left] * weight[right] * _ratio(1.0, weight[left] + weight[right])
    return common


def _by_feature(ensemble: TreeEnsemble, terms: Array) -> Array:
    return np.bincount(ensemble.feature[ensemble.splits], weights=terms, minlength=ensemble.n_features).astype(
        np.float64
    )


def _ratio(above: Any, below: Any) -> Array:
    """Return a quotient, 0 where the divisor is 0."""
    above, below = np.broadcast_arrays(np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64))
    return np.divide(above, below, out=np.zeros(below.shape), where=below != 0)
