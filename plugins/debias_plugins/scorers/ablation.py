"""Ablation: what the splits on a feature add to a model, as a test by rows on rows that the model has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import CompositionError
from debias.data.groups import Grouping
from debias.parallel import allowed
from debias_plugins.scorers.dependence import dependent
from debias_plugins.scorers.row_test import by_rows, check_procedure, refuse_seen_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias import Rows, TreeEnsemble

    Array = NDArray[np.float64]

VALUES_AT_ONCE = 2**24
"""At most about this many effects are held in memory, but at least those of one group."""


@debias.scorer_plugin("ablation", unit="covariance of effect and response")
def ablation(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    measure: str = "covariance",
    together: Mapping[str, Sequence[str]] | None = None,
    least_correlation: float = 0.2,
    alpha: float = 0.05,
    error: str = "fwer",
) -> tuple[Array, dict[str, Any]]:
    """Return what the splits on each feature add to the model on rows it has not seen, with p-values by rows.

    The output without a feature is that of the same trees where a row goes both ways at the splits on the feature, in
    the shares of the evaluation rows (the path-dependent expectation of TreeSHAP). The effect of a feature on a row is
    the output minus the output without the feature. Nothing is refitted or permuted.

    Parameters
    ----------
    measure : {"covariance", "loss"}
        "covariance": the covariance, over rows, of the effect and the residual of the response from the model without
        the feature and without all features that depend on it. For boosted models the residual is the negative gradient
        of the loss. The mean is 0 if the feature is independent of the response and of the other features, and if it
        depends on features that are independent of the response, too. "loss": the loss of the model without the
        feature minus the loss of the model. The mean is below 0 for a useless feature, which costs power: the question
        is whether the model predicts better *with* these splits.
    together : mapping of str to sequence of str, optional
        Groups of columns whose splits are left out together. The columns of a group share its score equally, and have
        its p-values.
    least_correlation : float
        For the covariance: features with at least this absolute correlation with the feature depend on it (ranks,
        folded ranks, categories and missing values are compared). They are left out of the model from which the
        residual is taken.
    alpha : float
        Error rate of the test.
    error : {"fwer", "fdr", "fdr_by"}
        Adjust the p-values for this error rate: family-wise (Holm), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores have standard errors by rows (by blocks, if there are `blocks`), z-values, p-values and decisions.
        ``details["loss_saved"]`` is the mean of the loss without the feature minus the loss with it; it is left out if
        the loss is not known (custom objectives). ``details["left_out_together"]`` has, for the covariance, the number
        of other columns that depend on each column.

    Raises
    ------
    CompositionError
        An option is out of range, the rows are out-of-bag rows, or the loss is not known.
    RowsError
        The rows are training rows, or fewer than two.

    Notes
    -----
    The residual does not use the feature or what depends on it, so a feature of noise has an effect that is
    uncorrelated with it. The residual has the noise of the response left over by the rest of the model, and not all of
    the variance of the response: this is the gain over ``mdi_oob``, most of all for boosted models.
    """
    if measure not in ("covariance", "loss"):
        raise CompositionError(f"measure={measure!r} is not one of 'covariance', 'loss'")
    real = isinstance(least_correlation, (int, float)) and not isinstance(least_correlation, bool)
    if not real or not 0 < least_correlation <= 1:
        raise CompositionError(f"least_correlation must be above 0 and at most 1, not {least_correlation!r}")
    check_procedure(error, alpha)
    X = rows.table.matrix(ensemble)
    refuse_seen_rows(rows, "ablation", ". On out-of-bag rows, use mdi_oob")
    if measure == "loss" and not ensemble.objective.has_loss:
        raise CompositionError(
            "ablation(measure='loss') needs the loss, and a custom objective gives only its gradient: use "
            "measure='covariance'"
        )
    grouping = Grouping.of(together, ensemble.feature_names)
    figures, saved, n_dependent = _figures(ensemble, rows, X, grouping.index, measure, least_correlation)
    size = np.bincount(grouping.index)
    tested = by_rows(figures, rows.weight, rows.blocks, error=error).of_members(grouping.index, size)
    details = tested.details(alpha, rows.blocks is not None)
    if saved is not None:
        details["loss_saved"] = (saved / size)[grouping.index].tolist()
    if measure == "covariance":
        details["left_out_together"] = n_dependent[grouping.index].tolist()
    return tested.mean, details


@debias.hookimpl
def debias_scorers() -> Sequence[debias.Scorer]:
    """Return ablation."""
    return [ablation]


def _figures(
    ensemble: TreeEnsemble,
    rows: Rows,
    X: NDArray[np.floating[Any]],
    group: NDArray[np.int64],
    measure: str,
    least_correlation: float,
) -> tuple[Array, Array | None, NDArray[np.int64]]:
    """Return the figure of each row and group, the mean loss each group saves, and the number of dependent columns."""
    n_groups, share = int(group.max()) + 1, _shares(ensemble, rows)
    weight = rows.weight / rows.weight.sum()
    used = np.unique(group[ensemble.feature[ensemble.splits]])
    figures, saved = np.zeros((rows.n_rows, n_groups)), np.zeros(n_groups)
    left_out = _left_out(ensemble, X, group, used, least_correlation) if measure == "covariance" else {}
    n_dependent = np.zeros(n_groups, dtype=np.int64)
    raw = _effects(ensemble, X, share, np.full(group.size, -1), 0)[0]
    loss = _loss(ensemble, rows, raw) if ensemble.objective.has_loss else None

    def effects_of(some: NDArray[np.int64]) -> Array:
        number = np.full(n_groups, -1)
        number[some] = np.arange(some.size)
        return _effects(ensemble, X, share, number[group], some.size)[1]

    def add(some: NDArray[np.int64]) -> None:
        effect = effects_of(some)
        for place, g in enumerate(some):
            own = np.ascontiguousarray(effect[:, place])  # sums over it do not depend on how many are held at once
            without = raw - own
            if loss is not None:
                difference = _loss(ensemble, rows, without) - loss
                saved[g] = weight @ difference
            if measure == "loss":
                figures[:, g] = difference
                continue
            columns = left_out[g]
            n_dependent[g] = columns.sum() - (group == g).sum()
            if n_dependent[g]:
                without = raw - _effects(ensemble, X, share, np.where(columns, 0, -1), 1)[1][:, 0]
            residual = _residual(ensemble, rows, without)
            figures[:, g] = ((own - weight @ own) * (residual - weight @ residual)).sum(axis=1)

    step = max(1, min(VALUES_AT_ONCE // (rows.n_rows * ensemble.n_outputs), -(-used.size // max(1, rows.n_jobs))))
    with allowed(rows.n_jobs) as threads:
        threads.map(add, [used[begin : begin + step] for begin in range(0, used.size, step)])
    return figures, None if loss is None else saved, n_dependent


def _left_out(
    ensemble: TreeEnsemble,
    X: NDArray[np.floating[Any]],
    group: NDArray[np.int64],
    used: NDArray[np.int64],
    least_correlation: float,
) -> dict[int, NDArray[np.bool_]]:
    """Return, for each used group, its columns and those that depend on one of them, as a mask of the columns."""
    columns = np.flatnonzero(np.isin(group, used))
    categorical = np.zeros(group.size, dtype=bool)
    if ensemble.category_set is not None:
        categorical[np.unique(ensemble.feature[ensemble.category_set >= 0])] = True
    pairs = np.eye(group.size, dtype=bool)
    pairs[np.ix_(columns, columns)] = dependent(X[:, columns], categorical[columns], least_correlation)
    return {int(g): pairs[group == g].any(axis=0) for g in used}


def _shares(ensemble: TreeEnsemble, rows: Rows) -> Array:
    """Return the share of each node in the evaluation rows of its parent, shape (n_nodes,)."""
    from debias_plugins.scorers.kernels import ablation as kernels

    n, start = rows.node_sums.n, ensemble.tree_start
    trees = [slice(int(begin), int(end)) for begin, end in zip(start[:-1], start[1:], strict=True)]
    return np.concatenate([kernels.child_shares(ensemble.left[at], ensemble.right[at], n[at]) for at in trees])


def _effects(
    ensemble: TreeEnsemble, X: NDArray[np.floating[Any]], share: Array, group: NDArray[np.int64], n_groups: int
) -> tuple[Array, Array]:
    """Return the output without the constant, and its difference from the output without the splits on each group.

    The shapes are (n_rows, n_outputs) and (n_rows, n_groups, n_outputs). `group` has -1 for columns whose splits stay.
    """
    from debias.trees.routing import tree_nodes
    from debias_plugins.scorers.kernels import ablation as kernels

    raw, effect = np.zeros((len(X), ensemble.n_outputs)), np.zeros((len(X), n_groups, ensemble.n_outputs))
    for tree in range(ensemble.n_trees):
        at = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
        first, nodes = int(ensemble.tree_output[tree]), tree_nodes(ensemble, tree)
        kernels.add_effects(X, nodes, share[at], ensemble.centred_value[at], first, group, raw, effect)
    if ensemble.averaged:
        raw /= ensemble.n_trees
        effect /= ensemble.n_trees
    return raw, effect


def _residual(ensemble: TreeEnsemble, rows: Rows, raw: Array) -> Array:
    """Return the response minus an output, or the negative gradient at a margin, shape (n_rows, n_outputs)."""
    if ensemble.averaged:
        return _response(ensemble, rows) - raw
    assert rows.response.target is not None
    return ensemble.objective.response(rows.response.target, raw + _start(ensemble, rows))


def _loss(ensemble: TreeEnsemble, rows: Rows, raw: Array) -> Array:
    """Return the loss of each row: the squared error (Brier score) of forests, the model's own loss of boosters."""
    if ensemble.averaged:
        return ((_response(ensemble, rows) - raw) ** 2).sum(axis=1)
    assert rows.response.target is not None
    return ensemble.objective.loss(rows.response.target, raw + _start(ensemble, rows))


def _response(ensemble: TreeEnsemble, rows: Rows) -> Array:
    """Return the response of an averaged model, less its centre; classes are one-hot."""
    if rows.response.values is not None:
        return rows.response.values
    assert rows.response.codes is not None
    return np.eye(ensemble.n_outputs)[rows.response.codes]


def _start(ensemble: TreeEnsemble, rows: Rows) -> Array:
    return ensemble.base if rows.response.margin is None else rows.response.margin
