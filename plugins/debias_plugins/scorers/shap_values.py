"""Scorers of SHAP values: the mean absolute value, and the covariance of out-of-bag values with the response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.parallel import allowed
from debias.plugin import CompositionError, check_procedure, out_of_bag_effects, response_test
from debias.progress import task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import Rows, TreeEnsemble

    Result = tuple[NDArray[np.float64], dict[str, Any]]

GAME = "path-dependent"
ROWS_IN_BLOCK = 1024
"""`shapley_values` works on blocks of this many rows."""
VALUES_AT_ONCE = 2**22
"""At most about this many SHAP values are held in memory, but at least those of one block of rows."""


@debias.plugin.scorer_plugin("shap", unit="mean absolute SHAP value", compared=True)
def shap(ensemble: TreeEnsemble, rows: Rows) -> Result:
    """Return the mean absolute SHAP value over the rows: it favours features with many values.

    The values are those of path-dependent TreeSHAP (Lundberg, Erion and Lee 2018). They equal those of the shap
    package's TreeExplainer with ``feature_perturbation="tree_path_dependent"``, and those of ``pred_contrib`` in
    XGBoost and LightGBM. (For LightGBM's forests divide by the number of trees: LightGBM sums those values although the
    prediction is a mean.) They are computed from the trees, so none of these packages is needed. Every tree explains
    every row, also training rows. The values are class shares or means (forests), or margins (boosters). With two
    classes the second one is explained; with more, the absolute values are summed over the classes, as in shap's
    summary plot.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    from debias.trees.shapley import shapley_values

    total = np.zeros(ensemble.n_features)
    blocks = max(1, VALUES_AT_ONCE // (ROWS_IN_BLOCK * ensemble.n_features * ensemble.n_outputs))
    step = ROWS_IN_BLOCK * blocks
    # One block has a progress of its own.
    counted: AbstractContextManager[Callable[[int], None]]
    counted = task("rows", rows.n_rows) if rows.n_rows > step else nullcontext(lambda n: None)
    with counted as advance:
        for begin in range(0, rows.n_rows, step):
            block = slice(begin, min(begin + step, rows.n_rows))
            phi = shapley_values(ensemble, rows.table.matrix(ensemble, block), rows.n_jobs)
            explained = phi[:, :, 1:] if ensemble.is_classifier and ensemble.n_outputs == 2 else phi
            total += rows.weight[block] @ np.abs(explained).sum(axis=2)
            advance(len(phi))
    return total / rows.weight.sum(), {"game": GAME}


@debias.plugin.scorer_plugin("shap_oob", unit="covariance of SHAP value and response", compared=True)
def shap_oob(
    ensemble: TreeEnsemble, rows: Rows, *, p_values: bool = False, alpha: float = 0.05, error: str = "fwer"
) -> Result:
    """Return the covariance of SHAP values and response on rows a tree has not seen: mean 0 if no feature matters.

    Li et al. (2019), section 5, suggest it. For each tree of a bagged model it is the covariance between the SHAP
    values of the tree and the response over its out-of-bag rows, summed over classes; then the mean over trees. On
    held-out rows it is the covariance between the SHAP values of the model and the response. The response of a boosted
    model is r_0, the negative gradient at its constant start. The scores of all features sum to the covariance of
    output and response.

    Parameters
    ----------
    p_values : bool
        Whether to test the scores by permutations of the response, with frozen trees
        (:func:`debias.plugin.response_test`). The null hypothesis: the feature, together with the columns that depend
        on it, is independent of the response.
    alpha : float
        Error rate of the test.
    error : {"fwer", "fdr", "fdr_by"}
        Adjust the p-values for this error rate: family-wise (step-down max-z), or false discovery rate
        (Benjamini-Hochberg, Benjamini-Yekutieli).

    Returns
    -------
    (array of shape (n_features,), dict)

    Raises
    ------
    RowsError
        No row is out of bag; or, with `p_values`, these rows cannot be tested.
    CompositionError
        An option is out of range; or, with `p_values` out of bag, the values of the leaves are not means of the
        responses in the bag, or rows times rows times features are more than 134 million.
    """
    from debias.trees.shapley import shapley_products

    if not isinstance(p_values, (bool, np.bool_)):
        raise CompositionError(f"p_values must be True or False, not {p_values!r}")
    check_procedure(error, alpha)
    response = _response(ensemble, rows)
    X = rows.table.matrix(ensemble)
    every = np.flatnonzero(rows.weight > 0)

    def covariance(tree: int) -> NDArray[np.float64] | None:
        at = every if rows.in_bag is None else rows.in_bag.out_of_bag(tree)
        weight = rows.weight[at, None]
        if not weight.sum() > 0:
            return None
        first = ensemble.tree_output[tree]
        fed = response[:, first : first + ensemble.value.shape[1]]
        factor = np.zeros_like(fed)
        factor[at] = weight * (fed[at] - (weight * fed[at]).sum(axis=0) / weight.sum())
        return shapley_products(ensemble, tree, X, at, factor) / weight.sum()

    with allowed(rows.n_jobs) as threads:
        of_trees = threads.map(covariance, range(ensemble.n_trees), "trees")
    scored = [of_tree for of_tree in of_trees if of_tree is not None]
    if not scored:
        raise RowsError(
            "no row is out of bag in any tree, so there is nothing to evaluate on. Pass rows the model has not seen, "
            "with rows='held-out'"
        )
    total = np.sum(scored, axis=0)
    details: dict[str, Any] = {"game": GAME, "trees_without_rows": ensemble.n_trees - len(scored)}
    if p_values:
        effects = _out_of_bag(ensemble, rows, X) if rows.in_bag is not None else _held_out(ensemble, rows, X)
        details |= response_test(rows, effects, alpha=alpha, error=error)
    return total / len(scored) if ensemble.averaged else total, details


def _out_of_bag(ensemble: TreeEnsemble, rows: Rows, X: NDArray[np.floating[Any]]) -> Callable[..., Any]:
    from debias.trees.shapley import shapley_values_of_leaves

    return out_of_bag_effects(rows, lambda tree, at: shapley_values_of_leaves(ensemble, tree, X, at))


def _held_out(ensemble: TreeEnsemble, rows: Rows, X: NDArray[np.floating[Any]]) -> Callable[..., Any]:
    """Return the SHAP values, less their mean, times the weights of the rows: they do not depend on the response."""
    from debias.trees.shapley import shapley_values

    phi = shapley_values(ensemble, X, rows.n_jobs)
    if ensemble.is_classifier and ensemble.averaged and ensemble.n_outputs == 2:
        phi = np.sqrt(2.0) * phi[:, :, 1:]  # as the response of two classes
    share = rows.weight / rows.weight.sum()
    effects = (share[:, None, None] * (phi - np.tensordot(share, phi, axes=1))).transpose(1, 0, 2)[..., None]
    return lambda y: effects


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return the SHAP scorers."""
    return [shap, shap_oob]


def _response(ensemble: TreeEnsemble, rows: Rows) -> NDArray[np.float64]:
    """Return the response with one column per output, shape (n_rows, n_outputs); classes are one-hot."""
    if rows.response.values is not None:
        return rows.response.values
    assert rows.response.codes is not None
    return np.eye(ensemble.n_outputs)[rows.response.codes]
