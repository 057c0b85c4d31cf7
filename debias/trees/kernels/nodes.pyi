from typing import Any

import numpy as np
from numpy.typing import NDArray

def check_trees(
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
    n_features: int,
) -> tuple[int, int]: ...
def list_parents(
    start: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32], parent: NDArray[np.int32]
) -> None: ...
def average_leaves(
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> None: ...
def list_splits(
    start: NDArray[np.int64],
    first: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    splits: NDArray[Any],
    children: NDArray[Any],
    tree_of_split: NDArray[Any],
) -> None: ...
def round_down(values: NDArray[np.float64], rounded: NDArray[np.floating[Any]]) -> None: ...
def sum_leaf_values(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    value: NDArray[np.float64],
    raw: NDArray[np.float64],
) -> None: ...
def sum_up(
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
    q: NDArray[np.float64],
) -> None: ...
