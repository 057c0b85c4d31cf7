"""The warning that consecutive evaluation rows (blocks) are alike, and which blocks to pass instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.data.neighbours import alike_neighbours, block_means, reach_of, stretches
from debias.significance.contributions import coded_response
from debias.text import counted, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.warning_log import WarningLog

BLOCK_OF_REACHES = 2
"""Advised blocks have this many times the number of rows over which neighbours stay similar. For AR(1) .8 that number
is about 10. On held-out rows in blocks of 10, noise was informative in .071 (SE .008), of 20 in .055 (.007) instead of
.05 (docs/significance.md)."""


def warn_of_neighbours(rows: Rows, log: WarningLog) -> None:
    """Warn if consecutive rows (blocks) have similar responses and similar features."""
    ensemble = rows.ensemble
    used = _examined(rows)
    y, X = coded_response(rows)[used], rows.table.matrix(ensemble, used).astype(np.float64)
    n_splits = np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features)
    block = None if rows.blocks is None else rows.blocks[used]
    units = (y, X) if block is None else (block_means(y, block), block_means(X, block))
    alike = alike_neighbours(*units, n_splits)
    if alike is None:
        return
    reach = reach_of(units[0], units[1][:, alike])
    if block is not None:
        reach *= int(np.median(np.bincount(block)[np.unique(block)]))
        if _consecutive(block):  # rows show better than few blocks how far they stay similar
            reach = max(reach, reach_of(y, X[:, alike]))
    unit, name = "rows" if block is None else "blocks", shown(ensemble.feature_names[alike[0]])
    others = f" and {counted(alike.size - 1, 'more feature')}" if alike.size > 1 else ""
    unseen = (
        ", on rows that the model has not seen (rows='held-out'), since hardly any block of this length is out of bag"
        if rows.kind == "oob"
        else ""
    )
    log.warn(
        f"consecutive {unit} are alike: they have similar responses and similar values of {name}{others}, as in a time "
        f"series, or if several rows are of one subject or place. P-values treat {unit} as independent. If they are "
        "not, noise is called informative too often. Similarity reaches over about "
        f"{counted(reach, 'row')}: pass blocks= of {BLOCK_OF_REACHES * reach:,} consecutive rows or more{unseen}. If "
        "independent rows were sorted by a column, they may be alike for this reason only"
    )


def _examined(rows: Rows) -> NDArray[np.int64]:
    """Return the rows to examine, in their order; of very many, stretches of consecutive rows or blocks."""
    used = np.sort(rows.paths.order[rows.paths.weight > 0])
    if rows.blocks is None:
        return used[stretches(used.size, rows.ensemble.n_features)]
    _, first, of_row = np.unique(rows.blocks[used], return_index=True, return_inverse=True)
    in_order = np.argsort(first, kind="stable")
    chosen = np.zeros(first.size, dtype=bool)
    chosen[in_order[stretches(first.size, rows.ensemble.n_features)]] = True
    examined: NDArray[np.int64] = used[chosen[of_row.ravel()]]
    return examined


def _consecutive(block: NDArray[np.int64]) -> bool:
    """Return whether the rows of every block follow one another."""
    return int((np.diff(block) != 0).sum()) + 1 == np.unique(block).size
