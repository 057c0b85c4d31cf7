from typing import Any

import numpy as np
from numpy.typing import NDArray

def add_parts(
    columns: NDArray[np.floating[Any]],
    nodes: tuple[Any, ...],
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    first: int,
    group: NDArray[np.int64],
    alone: NDArray[np.int32],
    pair: NDArray[np.int32],
    triple: NDArray[np.int64],
    part: NDArray[np.float64],
) -> None: ...
