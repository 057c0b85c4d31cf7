from typing import Any

import numpy as np
from numpy.typing import NDArray

class Subtrees:
    fits: bool
    n_entries: int
    n_lookups: int
    def __init__(
        self,
        nodes: tuple[Any, ...],
        threshold: NDArray[np.float64],
        up: NDArray[np.int32],
        merged: int,
        most: int,
    ) -> None: ...

def fill(
    tree: Subtrees,
    share: NDArray[np.float64],
    value: NDArray[np.float64],
    outputs: NDArray[np.int64],
    t: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]: ...
def explain(
    X: NDArray[np.floating[Any]],
    begin: int,
    end: int,
    trees: list[Subtrees],
    tables: list[NDArray[np.float64]],
    first_output: NDArray[np.int32],
    outputs: NDArray[np.int64],
    phi: NDArray[np.float64],
) -> None: ...
