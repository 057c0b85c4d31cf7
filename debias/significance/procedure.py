"""How to test: which method, error rate and limits; and the table of methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import CompositionError
from debias.significance.permutation import PERMUTATION
from debias.significance.student import CONSERVATIVE, NAIVE

if TYPE_CHECKING:
    from debias.significance.evidence import Evidence
    from debias.significance.method import Method

ERRORS = ("fwer", "fdr", "fdr_by")
METHODS: dict[str, Method] = {method.name: method for method in (PERMUTATION, CONSERVATIVE, NAIVE)}
"""Every way to test, by the name that users pass as ``test=``; "auto" chooses among them."""


@dataclass(frozen=True)
class Procedure:
    """How to test.

    Parameters
    ----------
    test : {"auto", "permutation", "conservative", "naive"}
        "permutation": permuted responses, trees frozen. "conservative": Student's law with sqrt(2) times the naive
        standard error (out-of-bag rows). "naive": Student's law, for held-out rows. "auto": permutation on out-of-bag
        rows (conservative where fewer than 5 whole blocks a tree are out of bag), and on held-out ones where 2,000 of
        them or fewer count (:mod:`debias.significance.effective_rows`); naive on other held-out rows.
    alpha : float
        Error rate.
    error : {"fwer", "fdr", "fdr_by"}
        Family-wise error (step-down max-z; Holm for Student's law), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).
    n_permutations : int
        At most so many are drawn.
    budget : float or None
        Seconds after which no further batch of permutations is begun.
    adaptive : bool
        Whether to stop before `n_permutations` once every decision is settled.
    """

    test: str = "auto"
    alpha: float = 0.05
    error: str = "fwer"
    n_permutations: int = 200
    budget: float | None = None
    adaptive: bool = True

    def __post_init__(self) -> None:
        if self.test not in ("auto", *METHODS):
            names = ", ".join(map(repr, ("auto", *METHODS)))
            raise CompositionError(f"test={self.test!r} is none of {names}")
        if self.error not in ERRORS:
            raise CompositionError(f"error={self.error!r} is none of {', '.join(map(repr, ERRORS))}")
        if not _is_real(self.alpha) or not 0 < self.alpha < 1:
            raise CompositionError(f"alpha must be between 0 and 1, not {self.alpha!r}")
        if not isinstance(self.adaptive, (bool, np.bool_)):
            raise CompositionError(f"adaptive must be True or False, not {self.adaptive!r}")
        whole = isinstance(self.n_permutations, (int, np.integer)) and not isinstance(self.n_permutations, bool)
        if not whole or self.n_permutations < 1:
            raise CompositionError(f"n_permutations must be a whole number from 1, not {self.n_permutations!r}")
        if self.budget is not None and not (_is_real(self.budget) and self.budget > 0):
            raise CompositionError(f"budget must be a number of seconds above 0, not {self.budget!r}")

    def method(self, evidence: Evidence) -> Method:
        """Return the method for these rows; raise a CompositionError if they cannot be tested as asked."""
        if self.test != "auto":
            chosen = METHODS[self.test]
        elif evidence.should_permute:
            chosen = PERMUTATION
        else:
            chosen = CONSERVATIVE if evidence.rows.kind == "oob" else NAIVE
        chosen.require(evidence)
        return chosen


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
