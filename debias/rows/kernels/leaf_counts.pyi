import numpy as np
from numpy.typing import NDArray

def add_at_leaves(
    nodes: NDArray[np.int32],
    number: NDArray[np.int64],
    curvature: NDArray[np.float64],
    at: NDArray[np.int32],
    sums: NDArray[np.float64],
) -> None: ...
def overlap(
    a: NDArray[np.int32], b: NDArray[np.int32], classes_a: NDArray[np.int64], classes_b: NDArray[np.int64]
) -> float: ...
