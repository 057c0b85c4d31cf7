from typing import Any

import numpy as np
from numpy.typing import NDArray

class Subtrees:
    table_start: NDArray[np.int64]
    def __init__(
        self,
        nodes: tuple[Any, ...],
        threshold: NDArray[np.float64],
        up: NDArray[np.int32],
        share: NDArray[np.float64],
        merged: int,
    ) -> None: ...

class Part:
    def __init__(self, tree: Subtrees, first: int, end: int) -> None: ...

def fill(
    part: Part,
    value: NDArray[np.float64],
    outputs: NDArray[np.int64],
    t: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]: ...
def explain(
    X: NDArray[np.floating[Any]],
    begin: int,
    end: int,
    parts: list[Part],
    tables: list[NDArray[np.float64]],
    first_output: NDArray[np.int32],
    outputs: NDArray[np.int64],
    phi: NDArray[np.float64],
) -> None: ...
