"""Which features a picture shows: the informative ones and those reported highest, not rows and rows of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit

MOST_DRAWN = 30
"""A picture shows at most this many features unless the caller says otherwise."""
HIGHEST = 10
"""A picture shows this many of the features that the model reports highest."""


def drawn_features(audit: Audit, most: int = MOST_DRAWN) -> tuple[NDArray[np.int64], int]:
    """Return the features that a picture shows, and how many it leaves out.

    Parameters
    ----------
    audit : Audit
    most : int
        Largest number of features.

    Returns
    -------
    features : array of int64 of shape (n_drawn,)
        The features reported highest (10, but at most a third of `most`), and then the informative ones with the
        largest debiased score while there is room; of an audit without a test, those with a share above 0. If no
        importance is reported, the highest scores take its place. Sorted by debiased share, the largest first.
    n_left : int
        Number of features left out. A single one is drawn if there is room: a line about it would be as long.

    Raises
    ------
    ValueError
        `most` is less than 1.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, not {most!r}")
    score, share = audit.main.values, audit.share
    reported = score if audit.reported is None or not audit.reported.any() else audit.reported
    by_score = np.lexsort((-score, -share))
    highest = np.argsort(-reported, kind="stable")[: min(HIGHEST, -(-most // 3))]
    candidate = share > 0 if audit.main.selected is None else audit.main.selected
    drawn = np.zeros(score.size, dtype=bool)
    drawn[highest] = True
    room = most - int(drawn.sum())
    drawn[[k for k in by_score if candidate[k] and not drawn[k]][:room]] = True
    if (~drawn).sum() == 1 and drawn.sum() < most:
        drawn[:] = True
    return by_score[drawn[by_score]].astype(np.int64), int((~drawn).sum())
