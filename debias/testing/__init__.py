"""Checks, for authors of plugins, that scorers, adapters and meta-methods keep their contracts.

Each check raises an AssertionError that says what was expected, what was found, and what to do.
"""

from debias.testing.adapters import check_adapter
from debias.testing.scorers import check_meta_method, check_scorer, distance_of_means

__all__ = ["check_adapter", "check_meta_method", "check_scorer", "distance_of_means"]
