from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Seats: TypeAlias = NDArray[np.int32]
Codes: TypeAlias = NDArray[np.uint16]

class Memory:
    def __init__(self, most: int, n_seats: int, width_in: int, width: int, lanes: int) -> None: ...

def find_seats(
    left: Seats,
    right: Seats,
    parent: Seats,
    inside: Array,
    outside: Array,
    least_inside: float,
    least_outside: float,
    seat_of_node: Seats,
    parent_of_seat: Seats,
) -> int: ...
def sum_seats(rows: Seats, seats: Seats, weight: Array, y: Array, parent: Seats, n: Array, s: Array) -> None: ...
def add_lines(
    begin: int,
    end: int,
    feature: Seats,
    place: Seats,
    x_of_code: Array,
    codes_in: Codes,
    codes_out: Codes,
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
    memory: Memory,
    phi: Array,
) -> None: ...
def add_levels(
    codes_in: Codes,
    codes_out: Codes,
    n_levels: int,
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
    memory: Memory,
    phi: Array,
) -> None: ...
