"""The FrozenEstimator of scikit-learn 1.6 and later."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

from support.versions import at_least


def frozen(fitted: Any) -> Any:
    """Return a fitted estimator that no fit changes; skip the test before scikit-learn 1.6."""
    if not at_least("scikit-learn", "1.6"):
        pytest.skip(f"scikit-learn {version('scikit-learn')} has no FrozenEstimator")
    from sklearn.frozen import FrozenEstimator

    return FrozenEstimator(fitted)
