import numpy as np
from numpy.typing import NDArray

def compare_tree(
    leaves: NDArray[np.int32],
    weight: NDArray[np.float64],
    samples: NDArray[np.float64],
    codes: NDArray[np.int64] | None,
    values: NDArray[np.float64] | None,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    count: NDArray[np.int64],
    value: NDArray[np.float64],
    tolerance: float,
    counts_agree: NDArray[np.bool_],
    values_agree: NDArray[np.bool_],
) -> None: ...
