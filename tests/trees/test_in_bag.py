"""What an InBag takes from its maker: weights of any real type, and no array of another shape."""

import numpy as np
import pytest

import debias

BAGS = [np.array([0, 0, 3, 8]), np.array([1, 2, 2, 9])]
N_ROWS = 10


def draw(tree):
    return np.bincount(BAGS[tree], minlength=N_ROWS)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float32, np.longdouble, ">f8", object])
def test_weights_of_any_real_type_are_taken(dtype):
    bags = debias.plugin.InBag(lambda tree: draw(tree).astype(dtype), N_ROWS, 2, samples=lambda tree: draw(tree) > 0)
    for part, at in ((bags, slice(None)), (bags.part(3, 9), slice(3, 9))):
        for of_tree in (part.draw, part.multiplicity):
            assert of_tree(1).dtype == np.float64
            np.testing.assert_array_equal(of_tree(1), draw(1)[at])
        np.testing.assert_array_equal(part.samples(0), draw(0)[at] > 0)
    assert bags.n_samples().tolist() == [3, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"draw": lambda tree: draw(tree)[:4]},
            r"draw of an InBag has shape \(4,\), not one entry for each of 10 rows",
        ),
        ({"draw": lambda tree: draw(tree)[:, None]}, r"draw of an InBag has shape \(10, 1\)"),
        ({"draw": lambda tree: ["a"] * 10}, "draw of an InBag cannot be an array of float64"),
        ({"excluded": np.zeros(3, dtype=bool)}, r"excluded of an InBag has shape \(3,\)"),
        ({"bits": np.zeros((2, 1), dtype=np.uint8)}, r"bits .* of shape \(2, 1\), not of uint8 of shape \(2, 2\)"),
        ({"bits": np.zeros((1, 2), dtype=np.uint8)}, r"bits .* of shape \(1, 2\)"),
        ({"bits": np.zeros((2, 2))}, "bits of an InBag are an array of float64"),
    ],
)
def test_arrays_of_another_shape_are_refused(changes, message):
    with pytest.raises(debias.RowsError, match=message):
        debias.plugin.InBag(**{"draw": draw, "n_rows": N_ROWS, "n_trees": 2} | changes)


def test_functions_that_return_another_number_of_rows_are_refused():
    bags = debias.plugin.InBag(draw, N_ROWS, 2, multiplicity=lambda tree: np.ones(3), samples=lambda tree: np.ones(4))
    with pytest.raises(debias.RowsError, match=r"multiplicity of an InBag has shape \(3,\)"):
        bags.multiplicity(0)
    with pytest.raises(debias.RowsError, match=r"samples of an InBag has shape \(4,\)"):
        bags.n_samples()
