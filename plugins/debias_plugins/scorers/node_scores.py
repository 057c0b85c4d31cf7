"""The scores: one formula each on node sums. Notation and sources are in docs/methods.md, section 1.

Every function gives the contribution of each split, shape (n_splits,), unscaled by the evaluation rows of its tree. mu
are node values, w in-bag weights, n and s the sums over evaluation rows, q those of squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.parallel import over_parts
from debias_plugins.scorers.kernels import node_scores as kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]


def by_feature(ensemble: TreeEnsemble, contributions: Array, scale: Array) -> Array:
    """Add up the contributions of splits, each times its tree's scale, under the feature they split on.

    Parameters
    ----------
    ensemble : TreeEnsemble
    contributions : array of shape (n_splits,)
    scale : array of shape (n_trees,)

    Returns
    -------
    array of shape (n_features,)
    """
    total = np.zeros(ensemble.n_features)
    splits, _, tree_of_split = ensemble.links
    kernels.sum_by_feature(splits, tree_of_split, ensemble.feature, contributions, scale, total)
    return total


def centred_covariance(ensemble: TreeEnsemble, mu: Array, n: Array, s: Array) -> Array:
    """Sum mu_c . (s_c - (n_c / n_t) s_t): covariance of child value and response (002 eq. 14, centred in the node)."""
    return _of_splits(ensemble, kernels.centred_covariance, mu, n, s)


def raw_covariance(ensemble: TreeEnsemble, mu: Array, n: Array, s: Array, centre: Array) -> Array:
    """sum_c (mu_c - mu_t) . s_c with the centre added back to the response: 002 eq. 14 to the letter."""
    return _of_splits(ensemble, kernels.raw_covariance, mu, n, s, centre)


def weighted_covariance(ensemble: TreeEnsemble, mu: Array, w: Array, n: Array, s: Array) -> Array:
    """sum_c w_c (mu_c - mu_t) . (mu'_c - mu'_t); 0 where a child has no evaluation row."""
    return _of_splits(ensemble, kernels.weighted_covariance, mu, w, n, s)


def unbiased_decrease(ensemble: TreeEnsemble, mu: Array, w: Array, n: Array, s: Array, q: Array) -> Array:
    """UFI (Zhou and Hooker): decrease of H = (evaluation error about mu + in-bag variance) / 2, in-bag weights.

    With a one-hot response H is 1 - mu . mu'. The in-bag part is the between-children variance, so no stored
    impurity is needed; 0 where a child has no evaluation row.
    """
    return _of_splits(ensemble, kernels.unbiased_decrease, mu, w, n, s, q)


def evaluation_decrease(ensemble: TreeEnsemble, n: Array, s: Array) -> Array:
    """n'_t I'_t - n'_l I'_l - n'_r I'_r, impurity on evaluation rows alone ("naive-oob"); the squares cancel."""
    return _of_splits(ensemble, kernels.evaluation_decrease, n, s)


def loss_decrease(ensemble: TreeEnsemble, mu: Array, n: Array, s: Array) -> Array:
    """n'_t L_t - n'_l L_l - n'_r L_r, L the mean squared error (Brier score) of mu; the squares of y cancel."""
    return _of_splits(ensemble, kernels.loss_decrease, mu, n, s)


def between_variance(ensemble: TreeEnsemble, mu: Array, w: Array) -> Array:
    """w_t V_t - w_l V_l - w_r V_r = sum_c w_c |mu_c - mu_t|^2: variance or Gini decrease (002 eq. 4, 13)."""
    return _of_splits(ensemble, kernels.between_variance, mu, w)


def impurity_decrease(ensemble: TreeEnsemble) -> Array:
    """n_t I_t - n_l I_l - n_r I_r by the stored impurity and weights (002 eq. 4)."""
    assert ensemble.weight is not None
    assert ensemble.impurity is not None
    return _of_splits(ensemble, kernels.impurity_decrease, ensemble.weight, ensemble.impurity)


def _of_splits(ensemble: TreeEnsemble, kernel: Callable[..., None], *given: Any) -> Array:
    splits, children, _ = ensemble.links
    out = np.empty(splits.size)
    over_parts(splits.size, lambda of: kernel(splits[of], children[of], *given, out[of]), at_least=10_000)
    return out
