import numpy as np
from numpy.typing import NDArray

def add_merits(
    Z: NDArray[np.float64],
    permuted: NDArray[np.float64],
    start: NDArray[np.int64],
    begin: int,
    end: int,
    by_all: bool,
    neighbours: int,
    merit: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> None: ...
