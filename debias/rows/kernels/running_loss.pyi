import numpy as np
from numpy.typing import NDArray

def add_log_loss(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    parent: NDArray[np.int32],
    value: NDArray[np.float64],
    y: NDArray[np.float64],
    base: float,
    drop: NDArray[np.float64],
) -> None: ...
def add_squared_error(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    parent: NDArray[np.int32],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
    residual: NDArray[np.float64],
    drop: NDArray[np.float64],
) -> None: ...
def add_weighted_log_loss(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    feature: NDArray[np.int32],
    parent: NDArray[np.int32],
    value: NDArray[np.float64],
    values: NDArray[np.float64],
    weight: NDArray[np.float64],
    base: float,
    drop: NDArray[np.float64],
) -> None: ...
def add_running_loss(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    feature: NDArray[np.int32],
    parent: NDArray[np.int32],
    value: NDArray[np.float64],
    objective: int,
    parameter: NDArray[np.float64],
    codes: NDArray[np.int64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    margin: NDArray[np.float64],
    drop: NDArray[np.float64],
) -> None: ...
def _loss_of_one(objective: int, a: float, y: float, f: float) -> float: ...
