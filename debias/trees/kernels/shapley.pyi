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
def edge_tables(
    up: NDArray[np.int32], share: NDArray[np.float64], t: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
def explain(
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    nodes: tuple[Any, ...],
    edges: tuple[Any, ...],
    value: NDArray[np.float64],
    first: int,
    outputs: NDArray[np.int64],
    phi: NDArray[np.float64],
) -> None: ...
def explain_product(
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    nodes: tuple[Any, ...],
    edges: tuple[Any, ...],
    value: NDArray[np.float64],
    factor: NDArray[np.float64],
    phi: NDArray[np.float64],
) -> None: ...
