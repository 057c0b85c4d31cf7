import numpy as np
from numpy.typing import NDArray

def add_codes(
    leaves: NDArray[np.int32],
    trees: NDArray[np.int64],
    start: NDArray[np.int64],
    codes: NDArray[np.int64],
    weight: NDArray[np.float64],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
) -> None: ...
def add_values(
    leaves: NDArray[np.int32],
    trees: NDArray[np.int64],
    start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    values: NDArray[np.float64],
    weight: NDArray[np.float64],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
    q: NDArray[np.float64],
) -> None: ...
def add_weights(
    leaves: NDArray[np.int32],
    trees: NDArray[np.int64],
    start: NDArray[np.int64],
    weight: NDArray[np.float64],
    total: NDArray[np.float64],
) -> None: ...
