"""Rows that depend on one another: blocks and queries given by the user, and a warning about repeated rows.

The rows of one query of a ranker are compared with each other, so they are a block too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError
from debias.text import listed
from debias.trees.ranking_objectives import FROM_SIZES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

FINE = 20
"""The values of a column are fine if the distance of its quartiles is more than this times its smallest gap."""
REPEATED = 0.01
"""A column is examined if more than this share of the rows have a value that another row also has."""
BEYOND_CHANCE = 3
"""Repeated rows are not chance if there are more than this many times as many as expected by chance."""
ROWS_TO_JUDGE = 20
"""Fewer rows are not examined."""
MOST_NAMED = 3
"""Largest number of columns that the warning names."""
LARGEST_BLOCK, SHARE_OF_MASS = 10, 0.05
"""A value of more rows than both, ten and this share of all, is a point mass of its column, not a sign of a block."""


def encode_blocks(
    blocks: Any, n_rows: int, name: str = "blocks", unit: str = "block", *, several: bool = True
) -> NDArray[np.int64] | None:
    """Return the blocks as numbers from 0.

    Parameters
    ----------
    blocks : array-like of shape (n_rows,), or None
        A label for each row.
    n_rows : int
    name, unit : str
        What the argument and one block are called in errors.
    several : bool
        Whether there must be more than one.

    Returns
    -------
    array of int64 of shape (n_rows,), or None

    Raises
    ------
    RowsError
        There is not one label per row, a label is missing, or there is only one block.
    """
    if blocks is None:
        return None
    import pandas as pd

    try:
        labels = np.asarray(blocks)
    except ValueError:
        raise RowsError(f"{name} must have one label per row; its entries have different lengths") from None
    if labels.shape != (n_rows,):
        raise RowsError(f"{name} has shape {labels.shape} for {n_rows} rows: pass one label per row")
    codes = pd.factorize(labels)[0].astype(np.int64)
    if (codes < 0).any():
        raise RowsError(f"{name} has no label in row {int(np.argmax(codes < 0))}: every row must belong to a {unit}")
    if several and codes.max() < 1:
        raise RowsError(f"all rows are in one {unit}: standard errors and p-values need at least two")
    return codes


def encode_queries(
    qid: Any, ensemble: TreeEnsemble, n_rows: int, name: str = "qid", *, several: bool = True
) -> NDArray[np.int64] | None:
    """Return the query of each row as numbers from 0.

    Parameters
    ----------
    qid : array-like of shape (n_rows,), or None
        A label for each row; rows of a query need not be together.
    ensemble : TreeEnsemble
    n_rows : int
    name : str
        What the user calls the argument.
    several : bool
        Whether there must be more than one query.

    Returns
    -------
    array of int64 of shape (n_rows,), or None

    Raises
    ------
    RowsError
        The model is no ranker, there is not one label per row, a label is missing, or all rows are in one query.
    CompositionError
        No gradient of the loss is known, so that queries cannot be used.
    """
    if qid is None:
        return None
    if not ensemble.objective.by_query:
        unscored = ensemble.objective.why_unscored(has_queries=True)
        if unscored is not None:
            raise CompositionError(f"{unscored}. Leave {name} out")
        raise RowsError(
            f"{name} is for rankers, and this {ensemble.source} compares no rows of a query: leave {name} out"
        )
    labels = np.asarray(qid)
    if labels.ndim == 1 and labels.dtype.kind in "iu" and labels.size != n_rows == labels.sum():
        raise RowsError(f"{name} has the sizes of {labels.size} groups: pass the query of each row. {FROM_SIZES}")
    return encode_blocks(labels, n_rows, name, "query", several=several)


def blocks_of_queries(block: NDArray[np.int64] | None, query: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the blocks of rows that depend on one another: those of the user, or the queries.

    Parameters
    ----------
    block : array of int64 of shape (n_rows,), or None
    query : array of int64 of shape (n_rows,)

    Raises
    ------
    RowsError
        A query is in more than one block. The responses of its rows depend on one another.
    """
    if block is None:
        return query
    of_query = np.empty(int(query.max()) + 1, dtype=np.int64)
    of_query[query] = block
    if (of_query[query] != block).any():
        raise RowsError("blocks divide a query, whose rows depend on one another: put all rows of a query in one block")
    return block


def refuse_no_block_out(n_inside: NDArray[np.int64], block: NDArray[np.int64]) -> None:
    """Raise a RowsError if no tree has a whole block out of bag.

    Parameters
    ----------
    n_inside : array of int of shape (n_trees,)
        Number of rows that belong to a block with a row in the bag.
    block : array of int64 of shape (n_rows,)
        Block of each row, numbered from 0.
    """
    if (n_inside < block.size).any():
        return
    sizes = np.bincount(block)
    of_rows = f"{sizes[0]}" if np.ptp(sizes) == 0 else f"{sizes.min()} to {sizes.max()}"
    raise RowsError(
        f"no tree has a whole block out of bag, so there is nothing to evaluate on: blocks have {of_rows} rows. Train "
        "on some of the blocks, and pass the others with rows='held-out'"
    )


def warn_of_repeats(table: Table, log: WarningLog) -> bool:
    """Warn of rows that repeat other rows more often than by chance: p-values treat all rows as independent.

    Rows may be equal by chance if columns have few distinct values. Therefore only columns with fine values are
    compared, and the share of repeated rows is compared with the chance that such fine values coincide. Return whether
    it warned.
    """
    n_rows = table.n_rows
    if n_rows < ROWS_TO_JUDGE:
        return False
    joint, chance, names = np.zeros(n_rows, dtype=np.int64), 1.0, list[str]()
    for name, codes, coincidence in table.fine_columns(FINE, REPEATED):
        codes = _without_masses(codes)
        if (np.bincount(codes)[codes] > 1).mean() <= REPEATED:
            continue
        finer = np.unique(joint * (codes.max() + 1) + codes, return_inverse=True)[1].ravel()
        if finer.max() > joint.max():
            # A column that does not divide the rows further, such as one in another unit, is no further evidence.
            joint, chance = finer, chance * coincidence
            names.append(name)
    share = float((np.bincount(joint)[joint] > 1).mean()) if joint.any() else 0.0
    is_beyond_chance = share > max(REPEATED, BEYOND_CHANCE * n_rows * chance)
    if is_beyond_chance:
        where = f"column {names[0]}, which is" if len(names) == 1 else f"columns {listed(names, MOST_NAMED)}, which are"
        log.warn(
            f"{share:.0%} of the rows repeat the values of another row in {where} otherwise nearly unique. If rows "
            "with the same values there are measurements of the same thing, they depend on one another, and p-values "
            "are too small: pass debias.Dataset(X, y, blocks=...), with the same label for such rows, or hold out "
            "whole groups of rows"
        )
    return is_beyond_chance


def _without_masses(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give a code of its own to each row with a missing value (-1) or a value that very many rows share.

    Such a value (zero among amounts, a limit of detection) is a property of the column. Only a value that a few rows
    share suggests that these rows belong together.
    """
    count = np.bincount(codes + 1)[codes + 1]
    mass = (codes < 0) | (count > max(LARGEST_BLOCK, SHARE_OF_MASS * codes.size))
    return np.where(mass, codes.max() + 1 + np.arange(codes.size), codes)
