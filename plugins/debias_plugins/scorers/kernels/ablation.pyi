from typing import Any

import numpy as np
from numpy.typing import NDArray

def child_shares(
    left: NDArray[np.int32], right: NDArray[np.int32], leaf_weight: NDArray[np.float64]
) -> NDArray[np.float64]: ...
def add_effects(
    X: NDArray[np.floating[Any]],
    nodes: tuple[Any, ...],
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    first: int,
    group: NDArray[np.int64],
    raw: NDArray[np.float64],
    effect: NDArray[np.float64],
) -> None: ...
def add_steps(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    parent: NDArray[np.int32],
    value: NDArray[np.float64],
    reached: NDArray[np.float64],
    member: NDArray[np.uint8],
    weight: NDArray[np.float64],
    residual: NDArray[np.float64],
    term: NDArray[np.float64],
) -> None: ...
