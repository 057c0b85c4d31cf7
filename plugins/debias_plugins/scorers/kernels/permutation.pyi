from typing import Any

import numpy as np
from numpy.typing import NDArray

def add_permuted_outputs(
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    donors: NDArray[np.int64],
    nodes: tuple[Any, ...],
    value: NDArray[np.float64],
    first: int,
    group: NDArray[np.int64],
    raw: NDArray[np.float64],
) -> None: ...
