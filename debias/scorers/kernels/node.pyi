from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Index: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
Array: TypeAlias = NDArray[np.float64]

def sum_by_feature(
    splits: Index,
    tree_of_split: Index,
    feature: NDArray[np.int32],
    contributions: Array,
    scale: Array,
    total: Array,
) -> None: ...
def centred_covariance(splits: Index, children: Index, mu: Array, n: Array, s: Array, out: Array) -> None: ...
def raw_covariance(
    splits: Index, children: Index, mu: Array, n: Array, s: Array, centre: Array, out: Array
) -> None: ...
def weighted_covariance(
    splits: Index, children: Index, mu: Array, w: Array, n: Array, s: Array, out: Array
) -> None: ...
def unbiased_decrease(
    splits: Index, children: Index, mu: Array, w: Array, n: Array, s: Array, q: Array, out: Array
) -> None: ...
def evaluation_decrease(splits: Index, children: Index, n: Array, s: Array, out: Array) -> None: ...
def loss_decrease(splits: Index, children: Index, mu: Array, n: Array, s: Array, out: Array) -> None: ...
def between_variance(splits: Index, children: Index, mu: Array, w: Array, out: Array) -> None: ...
def impurity_decrease(splits: Index, children: Index, weight: Array, impurity: Array, out: Array) -> None: ...
