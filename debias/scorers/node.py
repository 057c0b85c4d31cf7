"""Scorers of node sums: MDI, MDI-oob, UFI, OOB-split and OOB-loss.

Each score is a sum over the splits on a feature. The docstring of each scorer has the term of a split t; the compiled
loops in :mod:`debias.scorers.kernels.node` compute these terms. docs/methods.md explains the notation: c are
the two children of t; mu are node values (means of the in-bag rows); w are shares of the in-bag rows; w' and mu' are
shares and means of the evaluation rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.hooks.scorers import scorer_plugin
from debias.hooks.specs import hookimpl
from debias.rows.running_loss import loss_of_rows
from debias.scorers.split_terms import sum_by_feature, terms_of_splits
from debias.significance.row_test import check_procedure, refuse_seen_rows, row_test

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]
    Result = tuple[Array, dict[str, Any]]


@scorer_plugin("mdi", unit="impurity decrease a tree", lines="left out", needs_rows=False)
def mdi(
    ensemble: TreeEnsemble,
    rows: Rows | None,
    *,
    criterion: str | None = None,
    normalize: str | None = None,
    min_node_size: float = 0,
) -> Array:
    """Return the mean decrease in impurity, in-bag (Li et al. 2019, eq. 4). It favours features with many values.

    The term of a split is ``w_t I_t - sum_c w_c I_c``, where I is the impurity.

    Parameters
    ----------
    criterion : {None, "variance"}
        None: the impurity that the model stores. "variance": the variance, or Gini impurity for classes, computed from
        node weights and means (eq. 13). For boosted models it is the variance of r_0 over the training rows, which must
        be passed.
    normalize : {None, "tree"}
        "tree" scales the scores of each tree to sum 1, averages them, and scales the mean to sum 1, as scikit-learn
        does.
    min_node_size : float
        Count only nodes with at least this in-bag weight. The paper suggests sqrt(n) (end of section 2.2).

    Returns
    -------
    array of shape (n_features,)
    """
    from debias.scorers.kernels import node as kernels

    _one_of("criterion", criterion, None, "variance")
    _one_of("normalize", normalize, None, "tree")
    _not_negative("min_node_size", min_node_size)
    if criterion is None and ensemble.impurity is not None and ensemble.weight is not None:
        weight = ensemble.weight
        decrease = terms_of_splits(ensemble, kernels.impurity_decrease, weight, ensemble.impurity)
    else:
        weight, mean = _in_bag(ensemble, rows)
        decrease = terms_of_splits(ensemble, kernels.between_variance, mean, weight)
    if min_node_size:
        decrease[weight[ensemble.splits] < min_node_size] = 0
    scale = _inverse(weight[ensemble.tree_start[:-1]])
    if normalize != "tree":
        return sum_by_feature(ensemble, decrease, scale / (ensemble.n_trees if ensemble.averaged else 1))
    total = np.bincount(ensemble.tree_of_split, weights=decrease, minlength=ensemble.n_trees) * scale
    score = sum_by_feature(ensemble, decrease, scale * _inverse(total))
    return score / score.sum() if score.sum() > 0 else score


def _mdi_oob_node_weight(
    ensemble: TreeEnsemble, rows: Rows, *, centre: str = "node", weights: str = "rows", shrinkage: float = 0.0
) -> Array | None:
    """Return the factor of each node's centred covariance in `mdi_oob`, or None if the score is not such a sum."""
    if centre != "node" or (weights == "in_bag" and ensemble.weight is None):
        return None
    factor = np.ones(ensemble.n_nodes)
    if weights == "in_bag":
        # sum_c w_c (mu_c - mu_t) . (mu'_c - mu'_t) = (w_l w_r / w_t) (mu_l - mu_r) . (mu'_l - mu'_r)
        (left, right), at, tree = ensemble.children.T, ensemble.splits, ensemble.tree_of_split
        w, n = rows.in_bag_weight, rows.node_sums.n
        per_row = n[left] * n[right] * w[at] * _inverse(n[at])
        root = rows.node_sums.n_root / w[ensemble.tree_start[:-1]]
        factor[at] = w[left] * w[right] * _inverse(per_row) * root[tree]
    return factor * rows.in_bag_weight / (rows.in_bag_weight + shrinkage) if shrinkage else factor


@scorer_plugin("mdi_oob", unit="covariance of tree and response", node_weight=_mdi_oob_node_weight, lines="left out")
def mdi_oob(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    centre: str = "node",
    weights: str = "rows",
    shrinkage: float = 0.0,
) -> Result:
    """Return MDI on rows the tree has not seen, centred in the node: mean 0 for noise (Li et al. 2019, eq. 14).

    The term of a split is ``sum_c w'_c mu_c . (mu'_c - mu'_t)``, the covariance between the value of the child and the
    response over the evaluation rows of the node.

    Parameters
    ----------
    centre : {"node", "none"}
        "node": subtract the mean response of the node's evaluation rows. The score does not change if a constant is
        added to y, and its mean for noise is 0 under any class balance. "none": ``sum_c w'_c (mu_c - mu_t) . mu'_c``,
        eq. 14 as printed. It has neither property; use it only to reproduce results.
    weights : {"rows", "in_bag"}
        Weights of the children: shares of the evaluation rows, or of the in-bag rows as in UFI
        (``sum_c w_c (mu_c - mu_t) . (mu'_c - mu'_t)``).
    shrinkage : float
        Node terms are multiplied by n_t / (n_t + shrinkage), where n_t is the in-bag weight. This reduces the noise
        from deep nodes, and the mean for noise stays 0. Pure interactions score less.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    from debias.scorers.kernels import node as kernels

    _one_of("centre", centre, "node", "none")
    _one_of("weights", weights, "rows", "in_bag")
    if centre == "none" and weights == "in_bag":
        raise CompositionError("mdi_oob: centre='none' is eq. 14 as printed and cannot have weights='in_bag'")
    _not_negative("shrinkage", shrinkage)
    sums = rows.node_sums
    mu = ensemble.centred_value
    scale, details = _tree_scale(ensemble, rows)
    if weights == "in_bag":
        weight = rows.in_bag_weight
        terms = terms_of_splits(ensemble, kernels.weighted_covariance, mu, weight, sums.n, sums.s)
        scale *= sums.n_root * _inverse(weight[ensemble.tree_start[:-1]])
    elif centre == "none":
        offset = ensemble.centre if ensemble.averaged else np.zeros(mu.shape[1])
        terms = terms_of_splits(ensemble, kernels.raw_covariance, mu, sums.n, sums.s, offset)
    else:
        terms = terms_of_splits(ensemble, kernels.centred_covariance, mu, sums.n, sums.s)
    if shrinkage:
        weight = rows.in_bag_weight
        terms *= weight[ensemble.splits] / (weight[ensemble.splits] + shrinkage)
    return sum_by_feature(ensemble, terms, scale), details


@scorer_plugin("ufi", unit="decrease of mixed in-bag and evaluation impurity", lines="left out")
def ufi(ensemble: TreeEnsemble, rows: Rows) -> Result:
    """Return the unbiased feature importance (Zhou and Hooker, arXiv 1903.05179): mean 0 for noise.

    The term of a split is ``w_t H_t - sum_c w_c H_c``. For classes H is 1 - mu . mu'; for numbers it is half of the
    mean squared error of the evaluation rows about mu plus half of the in-bag variance. With a one-hot response the two
    are the same formula.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    from debias.scorers.kernels import node as kernels

    sums = rows.node_sums
    weight, mean = rows.in_bag_weight, rows.in_bag_mean
    terms = terms_of_splits(ensemble, kernels.unbiased_decrease, mean, weight, sums.n, sums.s, sums.q)
    scale, details = _tree_scale(ensemble, rows)
    scale = scale * sums.n_root * _inverse(weight[ensemble.tree_start[:-1]])
    return sum_by_feature(ensemble, terms, scale), details


@scorer_plugin("oob_split", unit="impurity decrease on evaluation rows", lines="left out")
def oob_split(ensemble: TreeEnsemble, rows: Rows) -> Result:
    """Return the impurity decrease on evaluation rows alone: never negative, so biased (Li et al. 2019, section 3.2).

    The paper calls it "naive-oob". The term of a split is ``w'_t I'_t - sum_c w'_c I'_c``, where I' is the variance, or
    Gini impurity, of the evaluation rows.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    from debias.scorers.kernels import node as kernels

    sums = rows.node_sums
    terms = terms_of_splits(ensemble, kernels.evaluation_decrease, sums.n, sums.s)
    scale, details = _tree_scale(ensemble, rows)
    return sum_by_feature(ensemble, terms, scale), details


@scorer_plugin("oob_loss", unit="loss saved on evaluation rows", needs_running_loss=True)
def oob_loss(
    ensemble: TreeEnsemble, rows: Rows, *, p_values: bool = False, alpha: float = 0.05, error: str = "fwer"
) -> Result:
    """Return the loss that the splits on a feature save on evaluation rows: below 0 for noise, which overfits.

    Averaged trees: the term of a split is ``w'_t L_t - sum_c w'_c L_c``, where L is the squared error (Brier score) of
    the node value. The scores sum to the loss of the root minus the loss of the leaves, averaged over trees.

    Boosted trees: the model's own loss (squared error, log-loss) as its margin grows from F_0 to F_M.
    ``details["base"]`` is the part of the steps at the roots. The scores and this part sum to L(F_0) - L(F_M).

    Under class weights noise can score above 0: the weighted root is not the mean of the evaluation rows, and any split
    corrects that a little.

    Parameters
    ----------
    p_values : bool
        Whether to test by rows, on held-out rows, that the splits on a feature save loss on unseen rows. A score is a
        mean over rows, so it has a standard error by rows (by blocks, if there are `blocks`), and is tested with
        Student's t. The mean is below 0 for noise, so the level is kept, and the power is lower than that of
        ``mdi_oob`` and ``ablation``.
    alpha : float
        Error rate of the test.
    error : {"fwer", "fdr", "fdr_by"}
        Adjust the p-values for this error rate: family-wise (Holm), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).

    Returns
    -------
    (array of shape (n_features,), dict)
        With `p_values`, the scores get standard errors, z-values, p-values and decisions.
    """
    if not isinstance(p_values, (bool, np.bool_)):
        raise CompositionError(f"p_values must be True or False, not {p_values!r}")
    if ensemble.objective.compares_rows:
        rows.refuse_running_loss()
    tested = _loss_by_rows(ensemble, rows, alpha, error) if p_values else {}
    if not ensemble.averaged:
        saved = rows.running_loss
        return saved[:-1], {"base": float(saved[-1]), **tested}
    from debias.scorers.kernels import node as kernels

    sums = rows.node_sums
    terms = terms_of_splits(ensemble, kernels.loss_decrease, ensemble.centred_value, sums.n, sums.s)
    scale, details = _tree_scale(ensemble, rows)
    return sum_by_feature(ensemble, terms, scale), details | tested


def _loss_by_rows(ensemble: TreeEnsemble, rows: Rows, alpha: float, error: str) -> dict[str, Any]:
    """Return the test by rows of the loss that each row saves, as details of the score."""
    check_procedure(error, alpha)
    refuse_seen_rows(rows, "a test of oob_loss", ". On out-of-bag rows, debias.audit tests mdi_oob")
    weight = rows.weight
    if not ensemble.averaged and not rows.can_run_loss:
        rows.refuse_running_loss()
    saved = np.empty((rows.n_rows, ensemble.n_features))
    for part, leaves in rows.leaf_blocks():
        saved[part] = loss_of_rows(ensemble, rows.response.part(part), leaves)
    tested = row_test(saved, weight, rows.blocks, error=error)
    return tested.details(alpha, rows.blocks is not None) | tested.ranks(alpha)


@hookimpl
def debias_scorers() -> Sequence[Scorer]:
    """Return the scorers of node sums."""
    return [mdi, mdi_oob, ufi, oob_split, oob_loss]


def _tree_scale(ensemble: TreeEnsemble, rows: Rows) -> tuple[Array, dict[str, Any]]:
    """Return 1 / n'_root of each tree, over the number of trees if they are averaged; 0 for trees without rows."""
    n_root = rows.node_sums.n_root
    evaluated = int((n_root > 0).sum())
    if not evaluated:
        raise RowsError(
            "no row is out of bag in any tree, so there is nothing to evaluate on. Pass rows the model has not seen, "
            "with rows='held-out'"
        )
    scale = _inverse(n_root) / (evaluated if ensemble.averaged else 1)
    return scale, {"trees_without_rows": ensemble.n_trees - evaluated}


def _in_bag(ensemble: TreeEnsemble, rows: Rows | None) -> tuple[Array, Array]:
    """Return the in-bag weight and mean response of each node."""
    if rows is not None:
        return rows.in_bag_weight, rows.in_bag_mean
    if ensemble.weight is not None and ensemble.mean_values:
        return ensemble.weight, ensemble.centred_value
    raise RowsError(
        f"mdi of this {ensemble.source} must be recomputed from the training rows: pass X and y, and for "
        "boosted models train=(X_train, y_train) beside held-out rows"
    )


def _inverse(x: Array) -> Array:
    """Return 1 / x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


def _one_of(option: str, value: Any, *known: Any) -> None:
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in known):
        raise CompositionError(f"{option}={value!r} is not one of {', '.join(map(repr, known))}")


def _not_negative(option: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
        raise CompositionError(f"{option} must be 0 or more, and finite, not {value!r}")
