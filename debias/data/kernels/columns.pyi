import numpy as np
from numpy.typing import NDArray

def count_distinct(values: NDArray[np.float32] | NDArray[np.float64]) -> int: ...
