import numpy as np
from numpy.typing import NDArray

def permuted_moments(
    begin: int,
    end: int,
    use: NDArray[np.float64],
    residual: NDArray[np.float64],
    order: NDArray[np.int32],
    block_size: int,
    sums: NDArray[np.float64],
) -> None: ...
def signed_sums(
    begin: int,
    end: int,
    figure: NDArray[np.float64],
    sign: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None: ...
