import numpy as np
from numpy.typing import NDArray

def find_slots(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    parent: NDArray[np.int32],
    evaluated: NDArray[np.float64],
    trained: NDArray[np.float64],
    leaves: NDArray[np.int32],
    slots: NDArray[np.int32],
    splits: NDArray[np.int32],
    slot_of_split: NDArray[np.int32],
) -> int: ...
def add_at_leaves(
    leaves: NDArray[np.int32], weight: NDArray[np.uint8] | NDArray[np.float64], total: NDArray[np.float64]
) -> None: ...
def look_up(
    leaves: NDArray[np.int32],
    start: NDArray[np.int64],
    slot_of_node: NDArray[np.int32],
    slots: NDArray[np.int32],
) -> None: ...
def sum_trees(
    begin: int,
    end: int,
    slots: NDArray[np.uint16] | NDArray[np.int32],
    share: NDArray[np.uint8] | NDArray[np.float64],
    weight: NDArray[np.float64],
    y: NDArray[np.float64],
    tree_output: NDArray[np.int32],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    sums: NDArray[np.float64],
) -> None: ...
def sum_squares_of_blocks(
    begin: int,
    end: int,
    slots: NDArray[np.uint16] | NDArray[np.int32],
    evaluated: NDArray[np.bool_],
    weight: NDArray[np.float64],
    block: NDArray[np.int64],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    unit: NDArray[np.float64],
    squares: NDArray[np.float64],
) -> None: ...
def contributions(
    begin: int,
    end: int,
    slots: NDArray[np.uint16] | NDArray[np.int32],
    evaluated: NDArray[np.bool_],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    column: NDArray[np.int32],
    factor: NDArray[np.float64],
    step: NDArray[np.float64],
    tree_output: NDArray[np.int32],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    phi: NDArray[np.float64],
) -> None: ...
def moments(
    begin: int,
    end: int,
    block: NDArray[np.int64],
    slots: NDArray[np.uint16] | NDArray[np.int32],
    evaluated: NDArray[np.bool_],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    column: NDArray[np.int32],
    factor: NDArray[np.float64],
    step: NDArray[np.float64],
    tree_output: NDArray[np.int32],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None: ...
def influences(
    begin: int,
    end: int,
    slots: NDArray[np.uint16] | NDArray[np.int32],
    evaluated: NDArray[np.bool_],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    column: NDArray[np.int32],
    factor: NDArray[np.float64],
    step: NDArray[np.float64],
    tree_output: NDArray[np.int32],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    in_bag: NDArray[np.uint8] | NDArray[np.float64],
    pull: NDArray[np.float64],
    mean: NDArray[np.float64],
    phi: NDArray[np.float64],
) -> None: ...
