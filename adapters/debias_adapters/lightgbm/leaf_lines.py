"""Lines in the leaves of LightGBM's trees (``linear_tree``), as the arrays of a TreeEnsemble.

The text has for each leaf of a linear tree its value, which is what a constant leaf would add, and the constant, the
features and the slopes of its line. LightGBM predicts by the line, and by the value if one of the features is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias_adapters.lightgbm.reading import numbers

if TYPE_CHECKING:
    from debias_adapters.lightgbm.reading import Trees


def line_arrays(trees: Trees) -> dict[str, Any]:
    """Return the lines as arguments of TreeEnsemble; empty for constant leaves.

    Raises
    ------
    UnsupportedModelError
        A field does not have as many entries as there are leaves or terms.
    """
    blocks = trees.blocks
    is_linear = np.array([block.get("is_linear", "0") != "0" for block in blocks])
    if not is_linear.any():
        return {}
    n_leaves = np.where(is_linear, np.diff(trees.start) // 2 + 1, 0)
    n_terms = numbers(blocks, "num_features", n_leaves)
    if (n_terms < 0).any():
        raise UnsupportedModelError("the LightGBM model text has a negative entry of num_features")
    last_leaf = np.cumsum(n_leaves)
    of_tree = np.diff(np.concatenate(([0], np.cumsum(n_terms)))[np.concatenate(([0], last_leaf))])
    offset, terms_of_node = np.zeros(trees.left.size), np.zeros(trees.left.size, dtype=np.int64)
    has_line = (trees.left < 0) & np.repeat(is_linear, np.diff(trees.start))
    offset[has_line] = numbers(blocks, "leaf_const", n_leaves) - numbers(blocks, "leaf_value", n_leaves)
    terms_of_node[has_line] = n_terms
    return {
        "line_start": np.concatenate(([0], np.cumsum(terms_of_node))),
        "line_feature": numbers(blocks, "leaf_features", of_tree),
        "line_slope": numbers(blocks, "leaf_coeff", of_tree),
        "line_offset": offset,
    }
