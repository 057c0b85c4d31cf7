from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Single: TypeAlias = NDArray[np.float32]
Double: TypeAlias = NDArray[np.float64]
Seats: TypeAlias = NDArray[np.int32]
Starts: TypeAlias = NDArray[np.int64]

LANES: int
LINES: int
PADDING: int

def order_seats(parent: Seats, position: Seats, parent_in_order: Seats, depth: Seats) -> None: ...
def sort_rows(
    rows: Seats,
    seats: Seats,
    weight: Double,
    position: Seats,
    parent_in_order: Seats,
    start: Seats,
    sorted_rows: Seats,
    sorted_weight: Single,
    n: Double,
) -> None: ...
def sum_lanes(
    begin: int,
    end: int,
    first_seat: Starts,
    first_row: Starts,
    start: Seats,
    rows: Seats,
    weight: Single,
    parent: Seats,
    column: Seats,
    y: Single,
    sums: Single,
) -> None: ...
def write_values(
    feature: Seats, x_of_code: Single, codes: NDArray[np.uint16], x: Single, missing: NDArray[np.uint8]
) -> None: ...
def fit_factors(
    first_seat: Starts,
    first_in: Starts,
    start_in: Seats,
    rows_in: Seats,
    weight_in: Single,
    first_out: Starts,
    start_out: Seats,
    rows_out: Seats,
    weight_out: Single,
    parent: Seats,
    column: Seats,
    scale: Double,
    least_inside: float,
    x_in: Single,
    x_out: Single,
    y_in: Single,
    factors: Single,
) -> None: ...
def add_tiles(
    first_seat: Starts,
    first_in: Starts,
    start_in: Seats,
    rows_in: Seats,
    weight_in: Single,
    first_out: Starts,
    start_out: Seats,
    rows_out: Seats,
    parent: Seats,
    depth: Seats,
    column: Seats,
    indicator: Seats,
    missing: NDArray[np.uint8],
    fixed: bool,
    x_in: Single,
    x_out: Single,
    y_in: Single,
    y_out: Single,
    factors: Single,
    s_in: Single,
    mean_out: Single,
    groups: Seats,
    weight: Single,
    starts: Starts,
    sums: Single,
    stack: Single,
    phi: Single,
    total: Single,
    moments: Double,
) -> None: ...
