import numpy as np
from numpy.typing import NDArray

def read_numbers(
    data: NDArray[np.uint8],
    high: NDArray[np.float64],
    low: NDArray[np.float64],
    values: NDArray[np.float64],
    begin: NDArray[np.int64],
    in_line: NDArray[np.int64],
) -> None: ...
