"""A tree with one split, as the arguments of a TreeEnsemble."""

import numpy as np

from debias.trees.objectives import SQUARED_ERROR


def stump(**changes):
    """Return the arguments of one split of feature 0 at 0.5, with leaves 1 and 3, some of them changed."""
    arguments = {
        "tree_start": np.array([0, 3]),
        "feature": np.array([0, -1, -1]),
        "threshold": np.array([0.5, 0.0, 0.0]),
        "left": np.array([1, -1, -1]),
        "right": np.array([2, -1, -1]),
        "missing_left": np.zeros(3, dtype=bool),
        "value": np.array([[np.nan], [1.0], [3.0]]),
        "averaging_weight": np.array([0.0, 1.0, 3.0]),
        "tree_output": np.array([0]),
        "base": np.zeros(1),
        "averaged": True,
        "objective": SQUARED_ERROR,
        "feature_names": ("a", "b"),
        "named": True,
        "classes": None,
        "routing_dtype": np.dtype(np.float64),
        "source": "test stump",
        "version": "1",
    }
    return arguments | changes
