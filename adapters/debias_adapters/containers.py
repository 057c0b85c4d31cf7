"""Containers that every library takes, and none gives up on."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_plain(X: Any) -> bool:
    """Whether X is a numpy array, a scipy sparse matrix or a pandas frame."""
    return isinstance(X, np.ndarray) or hasattr(X, "tocsr") or hasattr(X, "iloc")
