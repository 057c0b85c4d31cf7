import numpy as np
from numpy.typing import NDArray

def grow(
    X: NDArray[np.float64],
    codes: NDArray[np.int32],
    n_codes: NDArray[np.int64],
    response: NDArray[np.float64],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
    inside: NDArray[np.bool_],
    multiplicity: NDArray[np.float64],
    options: tuple[int, int, int],
    seed: int,
    importance: NDArray[np.float64],
) -> tuple[
    NDArray[np.int32],
    NDArray[np.float64],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.bool_],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int32],
]: ...
def add_values(
    X: NDArray[np.float64],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    value: NDArray[np.float64],
    total: NDArray[np.float64],
) -> None: ...
def leaves(
    X: NDArray[np.float64],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    leaf: NDArray[np.int32],
) -> None: ...
