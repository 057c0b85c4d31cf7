import numpy as np
from numpy.typing import NDArray

def count_distinct(
    X: NDArray[np.float32] | NDArray[np.float64], columns: NDArray[np.int64], counts: NDArray[np.int64]
) -> None: ...
def extremes(X: NDArray[np.float32] | NDArray[np.float64], rows: NDArray[np.int64]) -> None: ...
