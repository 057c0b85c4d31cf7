from typing import Any

import numpy as np
from numpy.typing import NDArray

class Trees:
    def __init__(
        self,
        start: NDArray[np.int64],
        nodes: tuple[Any, ...],
        threshold: NDArray[np.float64],
        weight: NDArray[np.float64],
        value: NDArray[np.float64],
        outputs: NDArray[np.int64],
        t: NDArray[np.float64],
        quadrature_weight: NDArray[np.float64],
    ) -> None: ...

def add_sums(
    trees: Trees,
    numbers: NDArray[np.int64],
    column: NDArray[np.floating[Any]],
    factor: NDArray[np.float64],
    first_output: NDArray[np.int32],
    of_a_leaf: float,
    sums: NDArray[np.float64],
) -> NDArray[np.bool_]: ...
