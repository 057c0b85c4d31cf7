from typing import Final

import numpy as np
from numpy.typing import NDArray

VALUES: Final = 0
SHARES: Final = 1
WEIGHED: Final = 2

def put_in_order(
    orders: NDArray[np.int64],
    response: NDArray[np.uint8] | NDArray[np.float64],
    drawn: NDArray[np.uint8] | NDArray[np.float64],
) -> None: ...
def write_steps(
    begin: int,
    end: int,
    slots: NDArray[np.uint16] | NDArray[np.int32],
    in_bag: NDArray[np.uint8] | NDArray[np.float64],
    evaluated: NDArray[np.bool_],
    weight: NDArray[np.float64],
    y: NDArray[np.uint8] | NDArray[np.float64],
    lanes: int,
    kind: int,
    tree_output: NDArray[np.int32],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    n_in_bag: NDArray[np.float64],
    n_evaluated: NDArray[np.float64],
    class_weight: NDArray[np.float64],
    position: NDArray[np.int64],
    step: NDArray[np.float64],
) -> None: ...
