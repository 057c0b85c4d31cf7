from typing import Any

import numpy as np
from numpy.typing import NDArray

def add_effects(
    X: NDArray[np.floating[Any]],
    nodes: tuple[Any, ...],
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    first: int,
    group: NDArray[np.int64],
    step: NDArray[np.float64],
    raw: NDArray[np.float64],
    effect: NDArray[np.float64],
    steps: NDArray[np.float64],
) -> None: ...
def add_effects_at_once(
    columns: NDArray[np.floating[Any]],
    nodes: tuple[Any, ...],
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    first: int,
    left_out: NDArray[np.uint8],
    group: NDArray[np.int64],
    step: NDArray[np.float64],
    raw: NDArray[np.float64],
    effect: NDArray[np.float64],
    steps: NDArray[np.float64],
) -> None: ...
