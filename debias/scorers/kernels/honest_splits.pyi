from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]
RowsOfTree: TypeAlias = tuple[NDArray[np.uint16], Array, Array, Places, Places, Places]

def arrange(
    leaves: NDArray[np.int32], weight: Array, left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[Places, Places, Places]: ...
def score_tree(
    left: NDArray[np.int32],
    inside: RowsOfTree,
    outside: RowsOfTree,
    n_bins: Places,
    categorical: NDArray[np.bool_],
    min_node_size: float,
    shrinkage: float,
    score: Array,
) -> None: ...
