"""The training weights of rows that are proven: weights that were forgotten or are in another order are refused.

:func:`compared_weights` is for rows that bags prove. These prove X and y, but not always the weights: a forest that
draws its bags by weight has none of them in its nodes. Such a forest keeps its weights, and they are compared row by
row. :func:`leaf_weights_agree` is for training rows of a model without bags: it compares sums of weights in the leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import route_table
from debias.errors import ProvenanceError
from debias.positions import evenly_spaced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

PRECISION = 1e-5
"""Largest relative difference of weights that are the same: some libraries round them to float32."""
TREES_TO_COMPARE = 4
_ONLY_HERE = "; the model was trained without weights, and rows count by those that were passed"


def compared_weights(
    kept: NDArray[Any] | None,
    proven: NDArray[np.float64] | None,
    passed: NDArray[np.float64] | None,
    labels: NDArray[Any] | None,
    rows: str,
    log: WarningLog,
    argument: str = "sample_weight=",
) -> str:
    """Compare the weights that the user passed with the training rows with those that the model was trained with.

    Parameters
    ----------
    kept : array of shape (n_rows,), or None
        Weights that the model keeps, in the order of the rows; None if it keeps none.
    proven : array of shape (n_rows,), or None
        Weights for which the sums of weights at the nodes agree; None if they agree without weights.
    passed : array of shape (n_rows,), or None
    labels : array of shape (n_rows,), or None
        The class of each row, if the model keeps products of the weights of rows and of classes.
    rows : {"auto", "oob"}
        With "oob" the user states the rows, and other weights are a warning instead of an error.
    log : WarningLog
        Receives the warning.
    argument : str
        Where the user passes the weights, for messages.

    Returns
    -------
    str
        What is known of the weights, as the end of a sentence; "" if there are none.

    Raises
    ------
    ProvenanceError
        The model was trained with weights, and none are passed, or they are passed in another order; with "auto" also
        if others are passed.
    """
    if kept is None and proven is None:
        return "" if passed is None else _ONLY_HERE
    if kept is None:
        return "; sums of weights agree too"
    trained = np.asarray(kept, dtype=np.float64)
    counted = trained > 0  # rows without weight are in no bag and are not evaluated
    of_class = np.zeros(trained.size) if labels is None else np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    count_alike = _proportional(np.ones(trained.size), trained, counted, of_class)
    if passed is None:
        if count_alike:
            return ""
        raise ProvenanceError(
            "the model was trained with sample_weight, and these training rows are passed without. Pass the weights of "
            f"training as {argument}, or np.ones(len(X)) to count all rows alike"
        )
    if _proportional(passed, trained, counted, of_class):
        return f"; {'the weights are' if labels is None else 'within each class the weights are'} those of training"
    if count_alike and counted.all():
        return _ONLY_HERE
    if counts_alike(passed[counted]):
        return "; rows count alike, and the model was trained with other weights"
    if labels is None and _proportional(np.sort(passed), np.sort(trained), np.sort(counted), of_class):
        raise ProvenanceError(
            f"{argument} has the weights of training in another order. Put them in the order of the rows of X"
        )
    others = f"the model was trained with other weights than those of {argument}"
    if rows == "auto":
        raise ProvenanceError(
            f"{others}. Pass the weights of training, in the order of the rows of X, or np.ones(len(X)) to count all "
            "rows alike. rows='oob' counts the rows by the weights that you pass"
        )
    log.warn(f"{others}: the rows count by the weights that were passed")
    return "; rows count by the weights that were passed, and the model was trained with others"


def leaf_weights_agree(
    ensemble: TreeEnsemble, table: Table, weight: NDArray[np.float64] | None, *, trained_without: bool
) -> bool | None:
    """Whether the weights of all training rows of a model without bags are those that it was trained with.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
        All training rows.
    weight : array of shape (n_rows,), or None
        The weights that the user passed; None for rows without weights.
    trained_without : bool
        Whether it is known that there were no weights in training.

    Returns
    -------
    bool or None
        None if the model does not store it: it has no sums of weights, or they are those of samples of the rows.
    """
    if trained_without:
        return weight is None or counts_alike(weight)
    if ensemble.weight is None or ensemble.count is None:
        return None
    trees = evenly_spaced(ensemble.n_trees, TREES_TO_COMPARE)
    # Trees of samples hold the weights of these only, and the samples are not known.
    if (ensemble.count[ensemble.tree_start[trees]] != table.n_rows).any():
        return None
    for tree, reached in zip(trees, route_table(ensemble, table, trees).T, strict=True):
        nodes = slice(int(ensemble.tree_start[tree]), int(ensemble.tree_start[tree + 1]))
        leaf = np.flatnonzero(ensemble.left[nodes] < 0)
        sums = np.bincount(reached, weight, minlength=nodes.stop - nodes.start)[leaf]
        if not np.allclose(sums, ensemble.weight[nodes][leaf], rtol=PRECISION, atol=PRECISION * sums.max()):
            return False
    return True


def counts_alike(weight: NDArray[np.float64]) -> bool:
    """Whether all rows have the same weight, above 0."""
    return bool(weight.max() > 0 and np.ptp(weight) <= PRECISION * weight.max())


def _proportional(
    passed: NDArray[np.float64], trained: NDArray[np.float64], counted: NDArray[np.bool_], of_class: NDArray[Any]
) -> bool:
    """Whether the weights of each class differ by a factor only."""
    for one_class in np.unique(of_class[counted], axis=0):
        rows = counted & (of_class == one_class)
        a, b = passed[rows] / max(passed[rows].max(), 1e-300), trained[rows] / trained[rows].max()
        if not np.allclose(a, b, rtol=PRECISION, atol=PRECISION**2 * b.max(initial=0.0)):  # tiny weights count as 0
            return False
    return True
