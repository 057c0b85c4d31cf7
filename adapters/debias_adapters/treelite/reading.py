"""Reader of treelite's models: nodes of all trees, and the outputs that trees add to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL = 2, 3, 4, 5
"""Operators of numerical tests in the field ``cmp``; a row for which the test holds goes to the left child."""
CATEGORICAL_TEST = 2
"""Value of the field ``node_type``."""


@dataclass(frozen=True)
class Header:
    """What a model says about itself.

    Parameters
    ----------
    task, postprocessor : str
        As treelite calls them.
    averaged : bool
        Whether the output is the mean over trees, and not their sum.
    n_targets, n_classes : int
        Outputs are ``target * n_classes + class``. There is 1 class in regression, and in a sum for a binary response.
    tree_output : array of int32 of shape (n_trees,)
        First output that each tree adds to.
    width : int
        Number of outputs that a tree adds to.
    base : array of float64 of shape (n_targets * n_classes,)
    sigmoid_alpha : float
    """

    task: str
    postprocessor: str
    averaged: bool
    n_targets: int
    n_classes: int
    tree_output: NDArray[np.int32]
    width: int
    base: NDArray[np.float64]
    sigmoid_alpha: float

    @classmethod
    def of(cls, model: Any) -> Header:
        """Read the header of a model."""
        field = model.get_header_accessor().get_field
        n_classes = int(field("num_class").max())
        # -1 stands for trees whose leaves have a value for each target or class.
        target, of_class = (np.maximum(field(name), 0).astype(np.int32) for name in ("target_id", "class_id"))
        return cls(
            task=TASKS[int(field("task_type")[0])],
            postprocessor=field("postprocessor"),
            averaged=bool(field("average_tree_output")[0]),
            n_targets=int(field("num_target")[0]),
            n_classes=n_classes,
            tree_output=target * n_classes + of_class,
            width=int(np.prod(field("leaf_vector_shape"))),
            base=field("base_scores").astype(np.float64),
            sigmoid_alpha=float(field("sigmoid_alpha")[0]),
        )


TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank", "kIsolationForest")


def nodes_of(model: Any, width: int, source: str) -> dict[str, Any]:
    """Return the node arrays of a TreeEnsemble.

    Parameters
    ----------
    model : treelite.Model
    width : int
        Number of values of a leaf.
    source : str
        The kind of the model, for errors.

    Raises
    ------
    UnsupportedModelError
        A test has an operator that no library's trees use.
    """
    fields = [model.get_tree_accessor(tree).get_field for tree in range(model.num_tree)]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([field(name) for field in fields])

    left, right = joined("cleft"), joined("cright")
    is_leaf = left == -1
    operator, by_category = joined("cmp"), (joined("node_type") == CATEGORICAL_TEST) & ~is_leaf
    known = (operator >= LESS) & (operator <= GREATER_OR_EQUAL)
    if not (known | is_leaf | by_category).all():
        raise UnsupportedModelError(f"this {source} has tests other than <, <=, > and >= on numbers")
    threshold = joined("threshold")
    # x < t is x <= the next number below t; and where x > t goes left, x <= t goes right.
    below = np.nextafter(threshold, threshold.dtype.type(-np.inf))
    threshold = np.where((operator == LESS) | (operator == GREATER_OR_EQUAL), below, threshold)
    swapped = (operator >= GREATER) & ~is_leaf & ~by_category
    return {
        "tree_start": np.cumsum([0] + [field("cleft").size for field in fields]),
        "feature": np.where(is_leaf, -1, joined("split_index")),
        "threshold": np.where(is_leaf | by_category, 0.0, threshold),
        "left": np.where(swapped, right, left),
        "right": np.where(is_leaf, -1, np.where(swapped, left, right)),
        "missing_left": joined("default_left").astype(bool) != swapped,
        "value": _values(fields, width, is_leaf),
        "gain": _stated(joined, "gain", ~is_leaf),
        **_category_sets(fields, by_category),
        **_counts(joined, np.ones_like(is_leaf)),
    }


def _values(fields: list[Any], width: int, is_leaf: NDArray[np.bool_]) -> NDArray[np.float64]:
    if width == 1:
        return np.concatenate([field("leaf_value") for field in fields]).astype(np.float64)[:, None]
    value = np.zeros((is_leaf.size, width))
    value[is_leaf] = np.concatenate([_vectors(field, width) for field in fields])
    return value


def _vectors(field: Any, width: int) -> NDArray[np.float64]:
    """Return the vectors of the leaves of one tree, in the order of the leaves."""
    begin = field("leaf_vector_begin")[field("cleft") == -1].astype(np.int64)
    vectors: NDArray[np.float64] = field("leaf_vector").astype(np.float64)[begin[:, None] + np.arange(width)]
    return vectors


def _category_sets(fields: list[Any], by_category: NDArray[np.bool_]) -> dict[str, Any]:
    if not by_category.any():
        return {}
    sets = []
    for field in fields:
        is_test = (field("node_type") == CATEGORICAL_TEST) & (field("cleft") != -1)
        begin, end = (field(f"category_list_{edge}")[is_test].astype(int).tolist() for edge in ("begin", "end"))
        sets += [np.sort(field("category_list")[one:other]) for one, other in zip(begin, end, strict=True)]
    listed_right = np.concatenate([field("category_list_right_child") for field in fields])
    return {
        "category_set": np.where(by_category, np.cumsum(by_category) - 1, -1),
        "category_start": np.cumsum([0] + [codes.size for codes in sets]),
        "category_codes": np.concatenate(sets).astype(np.int64),
        "listed_left": listed_right[by_category] == 0,
    }


def _counts(joined: Any, everywhere: NDArray[np.bool_]) -> dict[str, Any]:
    """Return numbers of training rows and weights of leaves, as far as the model states them at all nodes.

    The sum of hessians of a forest, and of the squared error, is the weight of the rows. Without weights it is their
    number.
    """
    count, hessian = (_stated(joined, name, everywhere) for name in ("data_count", "sum_hess"))
    weight = hessian if hessian is not None else count
    if count is None and hessian is not None and np.array_equal(hessian, np.round(hessian)):
        count = hessian
    return {"count": count, "averaging_weight": weight}


def _stated(joined: Any, name: str, of: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return a statistic of all nodes, if the model states it at some of them, `of`; it may keep no array at all."""
    present = joined(f"{name}_present")
    if present.size < of.size or not present[of].all():
        return None
    values: NDArray[np.float64] = joined(name).astype(np.float64)
    return values
