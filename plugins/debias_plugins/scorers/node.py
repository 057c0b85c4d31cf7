"""The scores from node sums: MDI, MDI-oob, UFI, OOB-split and OOB-loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import CompositionError, RowsError
from debias.hooks.contracts import Scorer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    Result = tuple[NDArray[np.float64], dict[str, Any]]


@debias.scorer_plugin("mdi", unit="impurity decrease a tree", needs_rows=False)
def mdi(
    ensemble: TreeEnsemble,
    rows: Rows | None,
    *,
    criterion: str | None = None,
    normalize: str | None = None,
    min_node_size: float = 0,
) -> NDArray[np.float64]:
    """Mean decrease in impurity, in-bag: biased towards features with many values (Li et al. 2019, eq. 4).

    Parameters
    ----------
    criterion : {None, "variance"}
        None: the model's own stored impurity. "variance": variance, or Gini of classes, from node weights and means
        (for boosted models the variance of r_0 over training rows, which have to be given).
    normalize : {None, "tree"}
        "tree" scales each tree's scores to sum 1 before averaging, and the mean to sum 1: what scikit-learn reports.
    min_node_size : float
        Count only nodes with at least this in-bag weight; sqrt(n) is the paper's suggestion (end of section 2.2).

    Returns
    -------
    array of shape (n_features,)
    """
    from debias_plugins.scorers import node_scores

    _one_of("criterion", criterion, None, "variance")
    _one_of("normalize", normalize, None, "tree")
    _not_negative("min_node_size", min_node_size)
    if criterion is None and ensemble.impurity is not None and ensemble.weight is not None:
        weight, decrease = ensemble.weight, node_scores.impurity_decrease(ensemble)
    else:
        weight, mean = _in_bag(ensemble, rows)
        decrease = node_scores.between_variance(ensemble, mean, weight)
    if min_node_size:
        decrease[weight[ensemble.splits] < min_node_size] = 0
    scale = _inverse(weight[ensemble.tree_start[:-1]])
    if normalize != "tree":
        return node_scores.by_feature(ensemble, decrease, scale / (ensemble.n_trees if ensemble.averaged else 1))
    total = np.bincount(ensemble.tree_of_split, weights=decrease, minlength=ensemble.n_trees) * scale
    score = node_scores.by_feature(ensemble, decrease, scale * _inverse(total))
    return score / score.sum() if score.sum() > 0 else score


def _mdi_oob_node_weight(
    ensemble: TreeEnsemble, rows: Rows, *, centre: str = "node", weights: str = "rows", shrinkage: float = 0.0
) -> NDArray[np.float64] | None:
    """Return what `mdi_oob` multiplies each node's centred covariance with; None where it is no such sum."""
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


@debias.scorer_plugin("mdi_oob", unit="covariance of tree and response", node_weight=_mdi_oob_node_weight)
def mdi_oob(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    centre: str = "node",
    weights: str = "rows",
    shrinkage: float = 0.0,
) -> Result:
    """MDI evaluated on rows the tree has not seen, centred in the node: mean 0 for noise (Li et al. 2019, eq. 14).

    Parameters
    ----------
    centre : {"node", "none"}
        "node": responses less the mean of the node's evaluation rows; invariant to shifts of y, mean 0 for noise under
        any class balance. "none": eq. 14 to the letter, which is neither; for reproduction only.
    weights : {"rows", "in_bag"}
        Weights of the children: shares of the evaluation rows, or of the in-bag rows as in UFI.
    shrinkage : float
        Node terms are multiplied by n_t / (n_t + shrinkage), n_t the in-bag weight: less noise from deep nodes, and
        the mean of noise stays 0; pure interactions lose.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    from debias_plugins.scorers import node_scores

    _one_of("centre", centre, "node", "none")
    _one_of("weights", weights, "rows", "in_bag")
    if centre == "none" and weights == "in_bag":
        raise CompositionError("mdi_oob: centre='none' is eq. 14 to the letter and has no weights='in_bag'")
    _not_negative("shrinkage", shrinkage)
    sums = rows.node_sums
    mu = ensemble.centred_value
    scale, details = _tree_scale(ensemble, rows)
    if weights == "in_bag":
        weight = rows.in_bag_weight
        terms = node_scores.weighted_covariance(ensemble, mu, weight, sums.n, sums.s)
        scale *= sums.n_root * _inverse(weight[ensemble.tree_start[:-1]])
    elif centre == "none":
        offset = ensemble.centre if ensemble.averaged else np.zeros(mu.shape[1])
        terms = node_scores.raw_covariance(ensemble, mu, sums.n, sums.s, offset)
    else:
        terms = node_scores.centred_covariance(ensemble, mu, sums.n, sums.s)
    if shrinkage:
        weight = rows.in_bag_weight
        terms *= weight[ensemble.splits] / (weight[ensemble.splits] + shrinkage)
    return node_scores.by_feature(ensemble, terms, scale), details


@debias.scorer_plugin("ufi", unit="decrease of mixed in-bag and evaluation impurity")
def ufi(ensemble: TreeEnsemble, rows: Rows) -> Result:
    """Unbiased feature importance (Zhou and Hooker, arXiv 1903.05179): mean 0 for noise.

    Classification uses H = 1 - mu . mu' at each node, mu and mu' the class shares in bag and on evaluation rows;
    regression half of the mean squared error about the in-bag mean plus half of the in-bag variance. The two are one
    formula.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    from debias_plugins.scorers import node_scores

    sums = rows.node_sums
    weight, mean = rows.in_bag_weight, rows.in_bag_mean
    terms = node_scores.unbiased_decrease(ensemble, mean, weight, sums.n, sums.s, sums.q)
    scale, details = _tree_scale(ensemble, rows)
    return node_scores.by_feature(
        ensemble, terms, scale * sums.n_root * _inverse(weight[ensemble.tree_start[:-1]])
    ), details


@debias.scorer_plugin("oob_split", unit="impurity decrease on evaluation rows")
def oob_split(ensemble: TreeEnsemble, rows: Rows) -> Result:
    """Impurity decrease on evaluation rows alone ("naive-oob", Li et al. 2019, section 3.2): never negative, so biased.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    from debias_plugins.scorers import node_scores

    sums = rows.node_sums
    terms = node_scores.evaluation_decrease(ensemble, sums.n, sums.s)
    scale, details = _tree_scale(ensemble, rows)
    return node_scores.by_feature(ensemble, terms, scale), details


@debias.scorer_plugin("oob_loss", unit="loss saved on evaluation rows", needs_running_loss=True)
def oob_loss(ensemble: TreeEnsemble, rows: Rows) -> Result:
    """Loss that the splits on a feature save on evaluation rows: below 0 for noise, which overfits.

    Under class weights noise can come out above 0: the weighted root is off the evaluation mean, which any split mends.

    Averaged trees: squared error (Brier score) of node values; the scores add up to the loss of the root less that of
    the leaves, averaged over trees. Boosted trees: the model's own loss (squared error, log-loss) as its margin grows
    from F_0 to F_M; ``details["base"]`` is the part of the root steps, and the scores and it add up to L(F_0) - L(F_M).

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    if not ensemble.averaged:
        saved = rows.running_loss
        return saved[:-1], {"base": float(saved[-1])}
    from debias_plugins.scorers import node_scores

    sums = rows.node_sums
    mu = ensemble.centred_value
    terms = node_scores.loss_decrease(ensemble, mu, sums.n, sums.s)
    scale, details = _tree_scale(ensemble, rows)
    return node_scores.by_feature(ensemble, terms, scale), details


@debias.hookimpl
def debias_scorers() -> Sequence[Scorer]:
    """Offer the node scorers."""
    return [mdi, mdi_oob, ufi, oob_split, oob_loss]


def _tree_scale(ensemble: TreeEnsemble, rows: Rows) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return 1 / n'_root of each tree, over the number of trees if they are averaged; trees without rows get 0."""
    n_root = rows.node_sums.n_root
    evaluated = int((n_root > 0).sum())
    if not evaluated:
        raise RowsError(
            "no row is out of bag in any tree: there is nothing to evaluate on. Pass rows the model has not seen, with "
            "rows='held-out'."
        )
    scale = _inverse(n_root) / (evaluated if ensemble.averaged else 1)
    return scale, {"trees_without_rows": ensemble.n_trees - evaluated}


def _in_bag(ensemble: TreeEnsemble, rows: Rows | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if rows is not None:
        return rows.in_bag_weight, rows.in_bag_mean
    if ensemble.weight is not None and ensemble.mean_values:
        return ensemble.weight, ensemble.centred_value
    raise RowsError(
        f"mdi of a {ensemble.source} has to be recomputed from the training rows: pass X and y, and for boosted models "
        "train=(X_train, y_train) beside held-out rows"
    )


def _inverse(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


def _one_of(option: str, value: Any, *known: Any) -> None:
    if not any(value is each or (isinstance(value, str) and value == each) for each in known):
        raise CompositionError(f"{option}={value!r} is none of {', '.join(map(repr, known))}")


def _not_negative(option: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
        raise CompositionError(f"{option} must be 0 or more, and finite, not {value!r}")
