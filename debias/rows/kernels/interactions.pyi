from typing import Any

import numpy as np
from numpy.typing import NDArray

def add_interactions(
    X: NDArray[np.floating[Any]],
    nodes: tuple[Any, ...],
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    first: int,
    group: NDArray[np.int64],
    pair: NDArray[np.int32],
    interaction: NDArray[np.float64],
) -> None: ...
def add_main_effects(
    X: NDArray[np.floating[Any]],
    nodes: tuple[Any, ...],
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    first: int,
    group: NDArray[np.int64],
    effect: NDArray[np.float64],
) -> None: ...
