import numpy as np
from numpy.typing import NDArray

def places_above(
    begin: int,
    end: int,
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    column: NDArray[np.int32],
    position: NDArray[np.int64],
    place: NDArray[np.int32],
    above: NDArray[np.int32],
) -> None: ...
def count_visits(
    begin: int,
    end: int,
    slots: NDArray[np.uint16] | NDArray[np.int32],
    evaluated: NDArray[np.bool_],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    column: NDArray[np.int32],
    n_visits: NDArray[np.int64],
    n_rows: NDArray[np.int64],
) -> None: ...
def list_visits(
    begin: int,
    end: int,
    slots: NDArray[np.uint16] | NDArray[np.int32],
    evaluated: NDArray[np.bool_],
    start: NDArray[np.int64],
    slot_of_split: NDArray[np.int32],
    column: NDArray[np.int32],
    place: NDArray[np.int32],
    visit: NDArray[np.int64],
    entry: NDArray[np.int64],
    visits: NDArray[np.uint16] | NDArray[np.int32],
    rows: NDArray[np.int32],
    sizes: NDArray[np.int32],
) -> None: ...
def moments(
    columns: NDArray[np.int64],
    begin: int,
    end: int,
    visits: NDArray[np.uint16] | NDArray[np.int32],
    rows: NDArray[np.int32],
    sizes: NDArray[np.int32],
    visit_start: NDArray[np.int64],
    entry_start: NDArray[np.int64],
    first_split: NDArray[np.int64],
    above: NDArray[np.int32],
    output: NDArray[np.int32],
    factor: NDArray[np.float64],
    step: NDArray[np.float64],
    y: NDArray[np.uint8] | NDArray[np.float64],
    weight: NDArray[np.float64],
    block: NDArray[np.int64],
    lanes: int,
    sums: NDArray[np.float64],
) -> None: ...
