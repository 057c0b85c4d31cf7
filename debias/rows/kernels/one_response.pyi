from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Seats: TypeAlias = NDArray[np.int32]
Places: TypeAlias = NDArray[np.int64]

LINES: int

def write_values(feature: Seats, x_of_code: Array, codes: NDArray[np.uint16], x: Array) -> None: ...
def add_lines(
    first_seat: Places,
    first_in: Places,
    first_out: Places,
    column: Places,
    x_in: Array,
    x_out: Array,
    rows_in: Seats,
    seats_in: Seats,
    weight_in: Array,
    rows_out: Seats,
    seats_out: Seats,
    weight_out: Array,
    y_in: Array,
    y_out: Array,
    parent: Seats,
    n_in: Array,
    s_in: Array,
    mean_out: Array,
    scale: Array,
    least_inside: float,
    sums: Array,
    en: Array,
    path: Array,
    phi: Array,
) -> None: ...
