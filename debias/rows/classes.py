"""Whether a response is of classes: also where a boosted model does not say so.

A Booster, and most files of boosted classifiers, know a loss and no classes. Its response may be shares between 0 and
1, so only the rows show whether it is of classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.trees.ensemble import TreeEnsemble

LOSSES_OF_LABELS = ("logistic", "hinge", "exponential")
"""Losses of boosted models for a response of 0 and 1, which stand for classes."""


def is_of_classes(ensemble: TreeEnsemble, response: Response) -> bool:
    """Return whether y is a class, or several, in each row."""
    if ensemble.is_classifier or ensemble.class_sets is not None:
        return True
    target = response.target
    return ensemble.objective.name in LOSSES_OF_LABELS and target is not None and bool(np.isin(target, (0, 1)).all())


def class_codes(ensemble: TreeEnsemble, response: Response) -> NDArray[np.int64] | None:
    """Return the class of each row; None if y is no class, or is several classes."""
    if response.codes is not None:
        return response.codes
    target = response.target
    if target is None or target.shape[1] != 1 or not is_of_classes(ensemble, response):
        return None
    return target[:, 0].astype(np.int64)
