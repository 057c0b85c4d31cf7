"""The query of each row, for rankers: checked and numbered, and taken as blocks of dependent rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.blocks import encode_blocks
from debias.errors import CompositionError, RowsError
from debias.trees.objectives import UnscoredObjective

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

FROM_SIZES = "From the sizes of groups, it is np.repeat(np.arange(len(group)), group)"


def why_needed(loss: str) -> str:
    """Return why a ranker with a loss of this name needs queries, and what works without them."""
    return (
        f"this is a ranker, and its loss, {loss}, compares the rows of one query: pass qid=, the query of each row. "
        f"{FROM_SIZES}. Without it the scorers native, gain, cover, split_count and shap work, and permutation with "
        "metric="
    )


def encode_queries(qid: Any, ensemble: TreeEnsemble, n_rows: int, name: str = "qid") -> NDArray[np.int64] | None:
    """Return the query of each row as numbers from 0.

    Parameters
    ----------
    qid : array-like of shape (n_rows,), or None
        A label for each row; rows of a query need not be together.
    ensemble : TreeEnsemble
    n_rows : int
    name : str
        What the user calls the argument.

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
        if isinstance(ensemble.objective, UnscoredObjective):
            raise CompositionError(f"{ensemble.objective.no_loss}. Leave {name} out")
        raise RowsError(
            f"{name} is for rankers, and this {ensemble.source} compares no rows of a query: leave {name} out"
        )
    labels = np.asarray(qid)
    if labels.ndim == 1 and labels.dtype.kind in "iu" and labels.size != n_rows == labels.sum():
        raise RowsError(f"{name} has the sizes of {labels.size} groups: pass the query of each row. {FROM_SIZES}")
    return encode_blocks(labels, n_rows, name, "query")


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
