import numpy as np
from numpy.typing import NDArray

def write_bins(
    values: NDArray[np.float64], edges: NDArray[np.float64], start: NDArray[np.int64], bins: NDArray[np.uint16]
) -> None: ...
