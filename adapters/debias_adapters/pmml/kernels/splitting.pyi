import numpy as np
from numpy.typing import NDArray

def make(
    child_start: NDArray[np.int32],
    children: NDArray[np.int32],
    default_child: NDArray[np.int32],
    asked: NDArray[np.int32],
    predicts: NDArray[np.uint8],
    keeps_last: bool,
    on_unknown: int,
    kind: NDArray[np.uint8],
    column: NDArray[np.int32],
    limit: NDArray[np.float64],
    sense: NDArray[np.uint8],
    set_of: NDArray[np.int32],
    sets: NDArray[np.uint64],
    part_start: NDArray[np.int32],
    parts: NDArray[np.int32],
    is_label: NDArray[np.uint8],
    codes: NDArray[np.uint64],
    scratch: NDArray[np.uint64],
    with_missing: bool,
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    missing_left: NDArray[np.uint8],
    of_set: NDArray[np.int32],
    node: NDArray[np.int32],
) -> int: ...
def without_dead_ends(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    node: NDArray[np.int32],
    place: NDArray[np.int32],
    stays: NDArray[np.uint8],
) -> None: ...
