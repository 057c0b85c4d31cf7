import numpy as np
from numpy.typing import NDArray

def unadjusted(
    codes: NDArray[np.int32],
    n_values: NDArray[np.int64],
    categorical: NDArray[np.bool_],
    sorted_rows: NDArray[np.int32],
    y: NDArray[np.float64],
    n_classes: int,
    levels: int,
    min_node_size: int,
) -> NDArray[np.float64]: ...
