"""The running loss: how much the splits of each feature reduce the loss while margins go from F_0 to F_M."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.parallel import allowed
from debias.trees.objectives import LOGISTIC, SQUARED_ERROR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.trees.ensemble import TreeEnsemble

ROWS_AT_ONCE = 4096
"""Largest number of rows in one partial sum, whatever the number of threads; their margins stay in the cache."""


def running_loss(
    ensemble: TreeEnsemble,
    response: Response,
    weight: NDArray[np.float64],
    leaves: NDArray[np.int32],
    n_jobs: int = 1,
) -> NDArray[np.float64]:
    """Return the weighted loss that rows save at the splits of each feature, and by root steps.

    Parameters
    ----------
    ensemble : TreeEnsemble
        An additive ensemble whose objective has a loss.
    response : Response
        Response of these rows.
    weight : array of shape (n_rows,)
    leaves : array of shape (n_rows, n_trees)
    n_jobs : int
        Number of threads; it does not change the result.

    Returns
    -------
    array of shape (n_features + 1,)
        The last entry is that of the root steps.
    """
    if response.margin is None and ensemble.objective == LOGISTIC and _moderate(ensemble):
        add = _add_log_loss
    elif ensemble.objective.name == "squared_error" and ensemble.value.shape[1] == 1:
        add = _add_squared_error
    else:
        add = _add_loss

    def partial_sum(part: slice) -> NDArray[np.float64]:
        drop = np.zeros(ensemble.n_features + 1)
        add(ensemble, response.part(part), weight[part], leaves[part], drop)
        return drop

    n_rows = len(leaves)
    n_parts = -(-n_rows // ROWS_AT_ONCE)
    parts = [slice(n_rows * k // n_parts, n_rows * (k + 1) // n_parts) for k in range(n_parts)]
    with allowed(n_jobs) as threads:
        drops = threads.map(partial_sum, parts)
    total: NDArray[np.float64] = np.sum([np.zeros(ensemble.n_features + 1), *drops], axis=0)
    return total


def loss_of_rows(ensemble: TreeEnsemble, response: Response, leaves: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the loss that each row saves at the splits of each feature; its weighted mean is the score ``oob_loss``.

    Parameters
    ----------
    ensemble : TreeEnsemble
        An additive ensemble whose objective has a loss; or an averaged one, for which the loss is the squared error
        (Brier score) of node values, as a mean over the trees.
    response : Response
        Response of these rows.
    leaves : array of shape (n_rows, n_trees)

    Returns
    -------
    array of shape (n_rows, n_features)
        Without the weights of the rows.
    """
    drop = np.zeros((len(leaves), ensemble.n_features + 1))
    if not ensemble.averaged:
        _add_loss(ensemble, response, np.ones(len(leaves)), leaves, drop)
        return drop[:, :-1]
    target = response.values
    if target is None:
        assert response.codes is not None
        target = np.eye(ensemble.n_outputs)[response.codes]
    for tree in range(ensemble.n_trees):
        _add_squared_error_of_tree(ensemble, tree, np.ascontiguousarray(target), leaves, drop)
    return drop[:, :-1] / ensemble.n_trees


def _add_squared_error_of_tree(
    ensemble: TreeEnsemble,
    tree: int,
    target: NDArray[np.float64],
    leaves: NDArray[np.int32],
    drop: NDArray[np.float64],
) -> None:
    """Add the squared error that each row saves in one tree, which predicts the target by itself."""
    from debias.rows.kernels import running_loss as kernels

    kernels.add_running_loss(
        leaves[:, tree : tree + 1],
        ensemble.tree_start[tree : tree + 2],
        ensemble.tree_output[tree : tree + 1],
        ensemble.feature,
        ensemble.parent,
        ensemble.centred_value,
        SQUARED_ERROR.code,
        np.ones(ensemble.n_outputs),
        np.zeros(len(leaves), dtype=np.int64),
        target,
        np.ones(len(leaves)),
        np.zeros(target.shape),
        drop,
    )


def _add_log_loss(
    ensemble: TreeEnsemble,
    response: Response,
    weight: NDArray[np.float64],
    leaves: NDArray[np.int32],
    drop: NDArray[np.float64],
) -> None:
    """Add the log-loss of models with one margin."""
    from debias.rows.kernels import running_loss as kernels

    assert response.target is not None
    y, base = response.target[:, 0], float(ensemble.base[0])
    start, feature, parent, value = ensemble.tree_start, ensemble.feature, ensemble.parent, ensemble.value
    if (weight == 1).all():
        kernels.add_log_loss(leaves, start, feature, ensemble.left, parent, value, y, base, drop)
    else:
        kernels.add_weighted_log_loss(leaves, start, feature, parent, value, y, weight, base, drop)


def _add_squared_error(
    ensemble: TreeEnsemble,
    response: Response,
    weight: NDArray[np.float64],
    leaves: NDArray[np.int32],
    drop: NDArray[np.float64],
) -> None:
    """Add the squared error of trees with one output."""
    from debias.rows.kernels import running_loss as kernels

    assert response.target is not None
    margin = ensemble.base if response.margin is None else response.margin
    kernels.add_squared_error(
        leaves,
        ensemble.tree_start,
        ensemble.tree_output,
        ensemble.feature,
        ensemble.left,
        ensemble.parent,
        ensemble.value,
        weight,
        np.ascontiguousarray((response.target - margin).T),
        drop,
    )


def _add_loss(
    ensemble: TreeEnsemble,
    response: Response,
    weight: NDArray[np.float64],
    leaves: NDArray[np.int32],
    drop: NDArray[np.float64],
) -> None:
    """Add the loss of any objective that has a loss; `drop` has one row for all rows, or one for each."""
    from debias.rows.kernels import running_loss as kernels

    target = response.target
    assert target is not None
    kernels.add_running_loss(
        leaves,
        ensemble.tree_start,
        ensemble.tree_output,
        ensemble.feature,
        ensemble.parent,
        ensemble.value,
        ensemble.objective.code,
        np.broadcast_to(np.asarray(ensemble.objective.parameter), ensemble.n_outputs).copy(),
        np.zeros(len(target), dtype=np.int64) if response.codes is None else response.codes,
        np.ascontiguousarray(target),
        weight,
        np.tile(ensemble.base, (len(target), 1)) if response.margin is None else response.margin.copy(),
        np.atleast_2d(drop),
    )


def _moderate(ensemble: TreeEnsemble) -> bool:
    """Whether there is one margin, and the exponentials of the margin and of each step do not overflow."""
    if ensemble.n_outputs > 1:
        return False
    # The odds stay far below exp(709), about the largest double, and a product takes some rows before it overflows.
    leaf = np.where(ensemble.left < 0, np.abs(ensemble.value[:, 0]), 0.0)
    largest = np.maximum.reduceat(leaf, ensemble.tree_start[:-1])
    return bool(largest.sum() + abs(float(ensemble.base[0])) < 600 and largest.max() < 50)
