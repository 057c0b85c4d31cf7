from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP: int

def compile_trees(
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    code: NDArray[np.int64],
    missing_left: NDArray[np.bool_],
    n_features: int,
    steps: NDArray[np.int32],
    step_start: NDArray[np.int64],
    leaf: NDArray[np.int32],
    leaf_start: NDArray[np.int64],
) -> tuple[int, int]: ...
def encode(
    X: NDArray[np.floating[Any]],
    cuts: NDArray[np.floating[Any]],
    cut_start: NDArray[np.int64],
    columns: NDArray[np.int64],
    codes: NDArray[np.uint8],
) -> None: ...
def route(
    codes: NDArray[np.uint8],
    trees: NDArray[np.int64],
    steps: NDArray[np.int32],
    step_start: NDArray[np.int64],
    n_places: int,
    leaf: NDArray[np.int32],
    leaf_start: NDArray[np.int64],
    leaves: NDArray[np.int32],
) -> None: ...
def number(
    codes: NDArray[np.uint8],
    trees: NDArray[np.int64],
    steps: NDArray[np.int32],
    step_start: NDArray[np.int64],
    n_places: int,
    numbers: NDArray[np.uint8],
) -> None: ...
def add_values(
    codes: NDArray[np.uint8],
    trees: NDArray[np.int64],
    steps: NDArray[np.int32],
    step_start: NDArray[np.int64],
    n_places: int,
    leaf: NDArray[np.int32],
    leaf_start: NDArray[np.int64],
    tree_start: NDArray[np.int64],
    terms: NDArray[np.float64],
    n: NDArray[np.float64],
    s: NDArray[np.float64],
    q: NDArray[np.float64],
    value: NDArray[np.float64],
    raw: NDArray[np.float64],
) -> None: ...
def add_outputs(
    codes: NDArray[np.uint8],
    first: int,
    last: int,
    trees: NDArray[np.int64],
    steps: NDArray[np.int32],
    step_start: NDArray[np.int64],
    n_places: int,
    leaf: NDArray[np.int32],
    leaf_start: NDArray[np.int64],
    tree_start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    value: NDArray[np.float64],
    raw: NDArray[np.float64],
) -> None: ...
def add_numbered_outputs(
    numbers: NDArray[np.uint8],
    trees: NDArray[np.int64],
    leaf: NDArray[np.int32],
    leaf_start: NDArray[np.int64],
    tree_start: NDArray[np.int64],
    tree_output: NDArray[np.int32],
    value: NDArray[np.float64],
    raw: NDArray[np.float64],
) -> None: ...
