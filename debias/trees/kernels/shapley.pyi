from typing import Any

import numpy as np
from numpy.typing import NDArray

def edge_shares(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    parent: NDArray[np.int32],
    feature: NDArray[np.int32],
    leaf_weight: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64], int]: ...

class Tree:
    depth: int
    n_quadrature: int
    most: int
    used: NDArray[np.int32]
    def __init__(
        self,
        nodes: tuple[Any, ...],
        threshold: NDArray[np.float64],
        up: NDArray[np.int32],
        share: NDArray[np.float64],
        value: NDArray[np.float64],
        t: NDArray[np.float64],
        weight: NDArray[np.float64],
        most: int,
    ) -> None: ...

class Room:
    def __init__(self, trees: list[Tree], n_rows: int, n_outputs: int) -> None: ...

def explain(
    X: NDArray[np.floating[Any]],
    begin: int,
    end: int,
    trees: list[Tree],
    first_output: NDArray[np.int32],
    outputs: NDArray[np.int64],
    room: Room,
    phi: NDArray[np.float64],
) -> None: ...
def explain_product(
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    tree: Tree,
    factor: NDArray[np.float64],
    outputs: NDArray[np.int64],
    room: Room,
    phi: NDArray[np.float64],
) -> None: ...
