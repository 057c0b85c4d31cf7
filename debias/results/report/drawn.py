"""Which features a picture shows: the informative ones and those reported highest, not rows and rows of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.scores import Scores

MOST_DRAWN = 30
"""A picture shows at most this many features unless the caller says otherwise."""
HIGHEST = 10
"""A picture shows this many of the features that the model reports highest."""
FEW = 2
"""A picture leaves out no features if there are at most this many, and there is room."""


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
        The features reported highest (10, but at most half of `most`), and then the informative ones with the
        largest debiased score while there is room; of an audit without a test, those with a share above 0. If no
        importance is reported, the highest scores take its place. Sorted by debiased share, the largest first.
    n_left : int
        Number of features left out. One or two are drawn if there is room.

    Raises
    ------
    ValueError
        `most` is less than 1.
    """
    score, share = audit.main.values, audit.share
    reported = score if audit.reported is None or not audit.reported.any() else audit.reported
    of_interest = share > 0 if audit.main.selected is None else audit.main.selected
    return _drawn(np.lexsort((-score, -share)), reported, of_interest, most)


def drawn_of_scores(scores: Scores, most: int = MOST_DRAWN) -> tuple[NDArray[np.int64], int]:
    """Return the features that a picture of one scorer shows, the largest score first, and how many it leaves out.

    As :func:`drawn_features`, with the highest scores in place of those reported highest.
    """
    by_score = np.argsort(-scores.values, kind="stable")
    return _drawn(by_score, scores.values, scores.values > 0 if scores.selected is None else scores.selected, most)


def refuse_most(most: int, name: str = "most") -> None:
    """Refuse a largest number that is not a whole number, 1 or more; `name` is the argument."""
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise ValueError(f"{name} must be a whole number and at least 1, not {most!r}")


def _drawn(
    order: NDArray[np.int64], reported: NDArray[np.float64], of_interest: NDArray[np.bool_], most: int
) -> tuple[NDArray[np.int64], int]:
    refuse_most(most)
    drawn = np.zeros(reported.size, dtype=bool)
    drawn[np.argsort(-reported, kind="stable")[: min(HIGHEST, -(-most // 2))]] = True
    room = most - int(drawn.sum())
    drawn[[k for k in order if of_interest[k] and not drawn[k]][:room]] = True
    if (~drawn).sum() <= min(FEW, most - drawn.sum()):
        drawn[:] = True
    return order[drawn[order]].astype(np.int64), int((~drawn).sum())
