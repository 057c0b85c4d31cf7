from typing import Any

import numpy as np
from numpy.typing import NDArray

def on_left(
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    nodes: tuple[Any, ...],
    threshold: NDArray[np.float64],
    left_of: NDArray[np.uint8],
) -> None: ...
def of_leaf(
    leaf: int,
    nodes: tuple[Any, ...],
    share: NDArray[np.float64],
    left_of: NDArray[np.uint8],
    t: NDArray[np.float64],
    weight: NDArray[np.float64],
    features: NDArray[np.int32],
    found: NDArray[np.float64],
) -> int: ...
