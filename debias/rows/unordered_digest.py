"""Hashes of rows. Their sum does not depend on the order, so workers that read rows twice see whether they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.trees.routing import row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows

SEED = 20_261_123


def unordered_digest(rows: Rows) -> NDArray[np.uint64]:
    """Return the number of rows and the sum of a hash of each row: two numbers that add up over parts of the rows.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    array of uint64 of shape (2,)
        The sum of the hashes is modulo 2^64. The hash of a row is that of its features as the trees see them, its
        response and its weight.
    """
    total = np.sum(hashes_of(rows), dtype=np.uint64)
    return np.array([rows.n_rows, total], dtype=np.uint64)


def hashes_of(rows: Rows) -> NDArray[np.uint64]:
    """Return a hash of each row: of its features as the trees see them, its response and its weight."""
    response, ensemble = rows.response, rows.ensemble
    arrays = [response.codes, response.values, response.target, rows.weight]
    about_rows = np.column_stack([array.astype(np.float64) for array in arrays if array is not None]).view(np.uint64)
    n_columns = ensemble.n_features + about_rows.shape[1]
    # An odd factor loses no bit modulo 2^64.
    factors = np.random.default_rng(SEED).integers(0, 2**64, n_columns, dtype=np.uint64) | np.uint64(1)
    hashes = np.zeros(rows.n_rows, dtype=np.uint64)
    for part in row_blocks(rows.n_rows, ensemble.n_features):
        matrix = rows.table.matrix(ensemble, part)
        bits = matrix.view(f"u{matrix.itemsize}").astype(np.uint64)
        hashes[part] = bits @ factors[: ensemble.n_features] + about_rows[part] @ factors[ensemble.n_features :]
    return mixed(hashes)


def mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of which every bit depends on all bits, so that values swapped between rows change their sum.

    The steps are those of splitmix64.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return hashes ^ (hashes >> np.uint64(31))
