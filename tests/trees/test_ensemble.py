import numpy as np
import pytest

import debias
from support.stumps import stump


def test_inner_values_are_rebuilt_from_the_leaves():
    ensemble = debias.plugin.TreeEnsemble(**stump())
    assert ensemble.value[:, 0].tolist() == [2.5, 1.0, 3.0]
    assert ensemble.parent.tolist() == [-1, 0, 0]


def test_arrays_are_read_only_and_views_are_copied():
    mine = np.arange(6, dtype=np.float64).reshape(3, 2)[:, :1]
    ensemble = debias.plugin.TreeEnsemble(**stump(value=mine))
    with pytest.raises(ValueError, match="read-only"):
        ensemble.value[0] = 0
    mine[1] = 7.0  # the caller's array stays the caller's
    assert ensemble.value[1, 0] == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": np.array([0, -1, -1])}, "a child that does not come after it"),
        ({"left": np.array([9, -1, -1])}, "a child that does not come after it"),
        ({"left": np.array([2, -1, -1])}, "not the child of exactly one node"),
        ({"left": np.array([-1, -1, -1])}, "one child only"),
        ({"feature": np.array([-1, -1, -1])}, "a split without a feature"),
        ({"feature": np.array([0, 1, -1])}, "a leaf that splits"),
        ({"feature": np.array([2, -1, -1])}, "a feature the model does not have"),
        ({"threshold": np.array([np.nan, 0, 0])}, "threshold that is not a number"),
        ({"value": np.array([[0.0], [np.inf], [0.0]])}, "value is not finite"),
        ({"averaging_weight": np.array([0.0, -1.0, 1.0])}, "weight is negative"),
        ({"threshold": np.zeros(2)}, "`threshold` has shape"),
        ({"tree_start": np.array([0, 2])}, "does not divide 3 nodes"),
        ({"tree_output": np.array([1])}, "output that `base` does not have"),
        ({"base": np.array([np.nan])}, "not a finite number"),
        ({"sampled_share": 0.0}, "`sampled_share` is 0.0, not a share"),
        ({"base": np.zeros((1, 1))}, r"`base` has shape \(1, 1\)"),
        ({"tree_start": np.array([[0, 3]])}, r"`tree_start` has shape \(1, 2\)"),
        ({"tree_start": np.array([0, 2**63 - 1, -2, 3])}, "does not divide 3 nodes"),
        ({"value": np.zeros((3, 0))}, "`value` has no column"),
        ({"value": np.array(["a", "b", "c"])}, "`value` cannot be an array of float64"),
        ({"feature": None}, "`feature` cannot be an array of int32"),
        ({"tree_output": np.array([2**31 - 1])}, "output that `base` does not have"),
        ({"tree_output": np.array([2**32])}, "`tree_output` has values that are no whole numbers of int32"),
        ({"left": np.array([2**32 + 1, -1, -1])}, "`left` has values that are no whole numbers of int32"),
        ({"left": [2**32 + 1, -1, -1]}, "`left` (has values|cannot be an array of int32)"),
        ({"feature": np.array([0.5, -1, -1])}, "`feature` has values that are no whole numbers of int32"),
        ({"routing_dtype": np.dtype(np.int32)}, "`routing_dtype` is int32"),
        ({"output_dtype": np.dtype(np.float16)}, "`output_dtype` is float16"),
        ({"classes": np.arange(2)}, "`classes` has 2 labels, `value` 1 columns and `base` 1 entries"),
        ({"classes": np.arange(2), "base": np.zeros(2)}, "`classes` has 2 labels, `value` 1 columns"),
        ({"classes": np.zeros((1, 1))}, "labels in `classes` must be arrays of one dimension"),
        ({"class_sets": (np.arange(1), np.arange(2))}, "`class_sets` has 3 labels"),
        ({"class_sets": (np.arange(1),), "classes": np.arange(1)}, "`classes` must be None"),
        ({"classes": np.arange(3), "base": np.zeros(2), "averaged": False}, "3 labels, but `base` only 2 entries"),
        ({"category_labels": {2: np.array(["a"])}}, "its entry of feature 2"),
        ({"category_labels": {0: np.array([["a"]])}}, "its entry of feature 0"),
        ({"listed_left": np.array([[True]])}, r"`listed_left` has shape \(1, 1\)"),
    ],
)
def test_broken_trees_are_refused(changes, message):
    with pytest.raises(debias.errors.ExtractionError, match=message):
        debias.plugin.TreeEnsemble(**stump(**changes))


def test_labels_that_fit_the_outputs_are_taken():
    two = {"value": np.zeros((3, 2)), "base": np.zeros(2)}
    assert debias.plugin.TreeEnsemble(**stump(classes=np.arange(2), **two)).n_outputs == 2
    assert debias.plugin.TreeEnsemble(**stump(class_sets=(np.arange(1), np.arange(1)), **two)).n_responses == 2
    assert (
        debias.plugin.TreeEnsemble(**stump(classes=np.arange(2), averaged=False)).n_outputs == 1
    )  # one margin, two classes


def test_a_cycle_is_refused():
    with pytest.raises(debias.errors.ExtractionError, match="node 2 of tree 0 has a child that does not come after it"):
        debias.plugin.TreeEnsemble(
            **stump(
                tree_start=np.array([0, 5]),
                feature=np.array([0, -1, 0, -1, -1]),
                threshold=np.zeros(5),
                left=np.array([1, -1, 0, -1, -1]),
                right=np.array([2, -1, 4, -1, -1]),
                missing_left=np.zeros(5, dtype=bool),
                value=np.zeros((5, 1)),
                averaging_weight=np.ones(5),
            )
        )


def test_tree_gives_a_view_of_one_tree():
    tree = debias.plugin.TreeEnsemble(**stump()).tree(0)
    assert tree.left.tolist() == [1, -1, -1]
    assert tree.weight is None
