from typing import Any

import numpy as np
from numpy.typing import NDArray

def copy_nodes(
    nodes: NDArray[np.uint8],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    impurity: NDArray[np.float64],
    count: NDArray[np.int64],
    weight: NDArray[np.float64],
    missing_left: NDArray[Any],
) -> None: ...
