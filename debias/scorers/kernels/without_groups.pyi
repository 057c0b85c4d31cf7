import numpy as np
from numpy.typing import NDArray

def add_without_groups(
    trees: NDArray[np.int64],
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    tree_output: NDArray[np.int32],
    value: NDArray[np.float64],
    per_covariance: NDArray[np.float64],
    group: NDArray[np.int64],
    weight: NDArray[np.float64],
    response: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
