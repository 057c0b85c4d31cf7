"""Leaf values that were changed after the trees were grown, by ``Booster.refit`` or ``Booster.set_leaf_output``.

Such a model stores the row counts of the rows its trees were grown on. They say nothing about the rows of the refit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias_adapters.lightgbm.reading import numbers

if TYPE_CHECKING:
    from debias_adapters.lightgbm.reading import ModelText

NOTE = (
    "the leaf values were changed after the trees were grown, e.g. by Booster.refit. The numbers of rows in the model "
    "say nothing about the rows of that refit"
)
TREES_AT_MOST = 20
RENEWED = ("regression_l1", "quantile", "mape")
"""Objectives whose leaf values are medians or quantiles, unlike the values of inner nodes."""
ZERO = ("lambda_l1", "max_delta_step", "path_smooth")
MOST = 0.5
"""Leaves were changed if more than this share of the compared nodes does not agree with its leaves."""


def were_changed(model: ModelText) -> bool:
    """Return whether leaves do not agree with the nodes above them.

    For each inner node LightGBM stores the value that it would have as a leaf. Let the children have values u and v and
    sums of hessians g and h. Then the node has the value ``((g + l) u + (h + l) v) / (g + h + l)``, where l is
    ``lambda_l2``. Nodes with two leaves are compared. The answer is no if the settings make values of another kind, and
    if every tree with more than one split has been left out.

    Parameters
    ----------
    model : ModelText
        With its values as they are in the text, including the constant margin.
    """
    settings, trees = model.settings, model.trees
    other_values = (
        model.head.get("objective", "").split(" ")[0] in RENEWED
        or bool(settings.get("monotone_constraints"))
        or settings.get("quant_train_renew_leaf", "0") != "0"
        or any(float(settings.get(name, "1")) != 0 for name in ZERO)
    )
    smoothing = float(settings.get("lambda_l2", "0"))
    if other_values or (smoothing and model.is_forest):
        return False
    # The formula does not hold for a value that contains the constant margin, except without smoothing.
    chosen = slice(model.n_outputs if smoothing and model.folds_constant else 0, TREES_AT_MOST)
    blocks = trees.blocks[chosen]
    start = trees.start[chosen.start : chosen.start + len(blocks) + 1]
    if not blocks:
        return False
    size = np.diff(start)
    nodes = slice(int(start[0]), int(start[-1]))
    left, right, value = trees.left[nodes], trees.right[nodes], trees.value[nodes]
    is_leaf, root = left < 0, np.repeat(start[:-1] - start[0], size)
    hessian, stated = np.zeros(value.size), np.zeros(value.size)
    hessian[is_leaf] = trees.hessians(chosen)
    hessian[~is_leaf] = numbers(blocks, "internal_weight", size // 2)
    stated[~is_leaf] = numbers(blocks, "internal_value", size // 2)
    # Splits on categories smooth the values of both children with another constant (`cat_l2`).
    by_category = ~is_leaf & (trees.category_set[nodes] >= 0)
    parents = np.flatnonzero(by_category)
    smoothed = by_category.copy()
    smoothed[np.concatenate([root[parents] + left[parents], root[parents] + right[parents]])] = True
    # Before LightGBM 4.6 a root has neither a hessian nor a value.
    at = np.flatnonzero(~is_leaf & (hessian > 0) & ~smoothed)
    a, b = root[at] + left[at], root[at] + right[at]
    exist = (np.minimum(a, b) >= 0) & (np.maximum(a, b) < value.size)  # links are checked later
    at, a, b = at[exist], a[exist], b[exist]
    has_two_leaves = is_leaf[a] & is_leaf[b] & (hessian[a] > 0) & (hessian[b] > 0)
    at, a, b = at[has_two_leaves], a[has_two_leaves], b[has_two_leaves]
    with np.errstate(over="ignore", invalid="ignore"):  # values are checked later
        expected = (hessian[a] + smoothing) * value[a] + (hessian[b] + smoothing) * value[b]
        expected /= hessian[a] + hessian[b] + smoothing
        rounding = 1e-5 * np.abs(stated[at]) + 1e-3 * np.abs(value[a] - value[b])  # `stated` has six digits
        differs = np.abs(expected - stated[at]) > rounding
    return bool(at.size and differs.mean() > MOST)
