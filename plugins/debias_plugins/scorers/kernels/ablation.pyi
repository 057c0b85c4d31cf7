import numpy as np
from numpy.typing import NDArray

def add_steps(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    parent: NDArray[np.int32],
    value: NDArray[np.float64],
    reached: NDArray[np.float64],
    member: NDArray[np.uint8],
    weight: NDArray[np.float64],
    residual: NDArray[np.float64],
    term: NDArray[np.float64],
) -> None: ...
