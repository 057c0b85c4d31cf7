from typing import Any

import numpy as np
from numpy.typing import NDArray

def route(
    X: NDArray[np.floating[Any]],
    trees: NDArray[np.int64],
    nodes: tuple[NDArray[Any], ...],
    skip: NDArray[np.uint8],
    leaves: NDArray[np.int32],
) -> None: ...
def add_codes(
    X: NDArray[np.floating[Any]],
    trees: NDArray[np.int64],
    nodes: tuple[NDArray[Any], ...],
    skip: NDArray[np.uint8],
    codes: NDArray[np.int64],
    weight: NDArray[np.float64],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
    leaves: NDArray[np.int32],
) -> None: ...
def add_values(
    X: NDArray[np.floating[Any]],
    trees: NDArray[np.int64],
    nodes: tuple[NDArray[Any], ...],
    skip: NDArray[np.uint8],
    tree_output: NDArray[np.int32],
    values: NDArray[np.float64],
    weight: NDArray[np.float64],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
    q: NDArray[np.float64],
    leaves: NDArray[np.int32],
) -> None: ...
