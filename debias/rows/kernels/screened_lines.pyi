from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Single: TypeAlias = NDArray[np.float32]
Double: TypeAlias = NDArray[np.float64]
Seats: TypeAlias = NDArray[np.int32]
Starts: TypeAlias = NDArray[np.int64]

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
def score_tiles(
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
    depth: Seats,
    column: Seats,
    fixed: bool,
    x: Single,
    y: Single,
    factors: Single,
    s_in: Single,
    s_out: Single,
    mean_out: Single,
    variance_out: Single,
    groups: Seats,
    n_lanes: int,
    n_rough: int,
    spread_of_rough: float,
    high: float,
    weight: Single,
    starts: Starts,
    rough: Single,
    moments: Double,
) -> None: ...
