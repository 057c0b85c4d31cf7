"""Informative features whose columns are nearly the same: they may share their score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NearDuplicates:
    """Features whose columns have nearly the same order of rows, so that trees can use one in place of another.

    Parameters
    ----------
    features : tuple of str
        Two or more features, the one with the largest score first.
    correlation : float
        The smallest absolute rank correlation (Spearman) of two of them; 1 for columns of categories that differ only
        in their labels.
    """

    features: tuple[str, ...]
    correlation: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {"features": list(self.features), "correlation": self.correlation}
