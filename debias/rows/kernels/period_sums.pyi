import numpy as np
from numpy.typing import NDArray

def add_numbered_groups(
    numbers: NDArray[np.uint8],
    leaf: NDArray[np.int32],
    leaf_start: NDArray[np.int64],
    trees: NDArray[np.int64],
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    tree_output: NDArray[np.int32],
    mu: NDArray[np.float64],
    added: NDArray[np.float64],
    edges: NDArray[np.int64],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
    e: NDArray[np.float64],
    terms: NDArray[np.float64],
) -> None: ...
def add_groups(
    leaves: NDArray[np.int32],
    trees: NDArray[np.int64],
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    tree_output: NDArray[np.int32],
    mu: NDArray[np.float64],
    values: NDArray[np.float64],
    residual: NDArray[np.float64],
    weight: NDArray[np.float64],
    edges: NDArray[np.int64],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
    e: NDArray[np.float64],
    terms: NDArray[np.float64],
) -> None: ...
