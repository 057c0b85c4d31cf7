from typing import Any

import numpy as np
from numpy.typing import NDArray

class Tree:
    depth: int
    n_quadrature: int
    def __init__(
        self,
        nodes: tuple[Any, ...],
        threshold: NDArray[np.float64],
        up: NDArray[np.int32],
        share: NDArray[np.float64],
        value: NDArray[np.float64],
        t: NDArray[np.float64],
        weight: NDArray[np.float64],
    ) -> None: ...

class Room:
    def __init__(self, trees: list[Tree], n_rows: int, n_outputs: int, n_pairs: int, n_sums: int) -> None: ...

def explain(
    X: NDArray[np.floating[Any]],
    begin: int,
    end: int,
    trees: list[Tree],
    first_output: NDArray[np.int32],
    outputs: NDArray[np.int64],
    number: NDArray[np.int32],
    room: Room,
    interaction: NDArray[np.float64],
) -> None: ...
