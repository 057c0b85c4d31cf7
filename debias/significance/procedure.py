"""The procedure of a test: its method, error rate and limits; and the table of all methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from debias.errors import CompositionError
from debias.significance.combined import COMBINED
from debias.significance.permutation import PERMUTATION
from debias.significance.student import CONSERVATIVE, NAIVE

if TYPE_CHECKING:
    from debias.significance.evidence import Evidence
    from debias.significance.method import Method

Test = Literal["auto", "permutation", "conservative", "naive", "combined", "none"]
ErrorRate = Literal["fwer", "fdr", "fdr_by"]
ERRORS: tuple[str, ...] = get_args(ErrorRate)
METHODS: dict[str, Method] = {method.name: method for method in (PERMUTATION, CONSERVATIVE, NAIVE, COMBINED)}
"""All methods of testing, by the name that users pass as ``test=``; "auto" chooses among them."""


def asked_for(test: str | None) -> str | None:
    """Return the test that a user asked for; None for "none", the word of the command line."""
    return None if test == "none" else test


@dataclass(frozen=True)
class Procedure:
    """The procedure of a test.

    Parameters
    ----------
    test : {"auto", "permutation", "conservative", "naive", "combined"}
        "permutation": the response is permuted, the trees are frozen. "conservative": a t-test with sqrt(2) times the
        naive standard error, for out-of-bag rows. "naive": a t-test, for held-out rows. "auto": permutation for
        out-of-bag rows (conservative if fewer than 5 whole blocks per tree are out of bag), and for held-out rows if
        their effective number is at most 2,000 (:mod:`debias.significance.effective_rows`); naive for other held-out
        rows. "combined", which "auto" chooses for linear effects: :mod:`debias.significance.combined`.
    alpha : float
        Error rate.
    error : {"fwer", "fdr", "fdr_by"}
        Family-wise error rate (step-down max-z; Holm for t-tests), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).
    n_permutations : int
        Largest number of permutations.
    budget : float or None
        Time in seconds after which no new batch of permutations starts.
    adaptive : bool
        Whether to stop before `n_permutations` when every decision is settled.
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
            raise CompositionError(f"test={self.test!r} is not one of {names}, or None for no test")
        if self.error not in ERRORS:
            raise CompositionError(f"error={self.error!r} is not one of {', '.join(map(repr, ERRORS))}")
        if not _is_real(self.alpha) or not 0 < self.alpha < 1:
            raise CompositionError(f"alpha must be between 0 and 1, not {self.alpha!r}")
        if not isinstance(self.adaptive, (bool, np.bool_)):
            raise CompositionError(f"adaptive must be True or False, not {self.adaptive!r}")
        whole = isinstance(self.n_permutations, (int, np.integer)) and not isinstance(self.n_permutations, bool)
        if not whole or self.n_permutations < 1:
            raise CompositionError(f"n_permutations must be a whole number, 1 or more, not {self.n_permutations!r}")
        if self.budget is not None and not (_is_real(self.budget) and self.budget > 0):
            raise CompositionError(f"budget must be a number of seconds above 0, not {self.budget!r}")

    def method(self, evidence: Evidence) -> Method:
        """Return the method for these rows; raise a CompositionError if it cannot test them."""
        if self.test != "auto":
            chosen = METHODS[self.test]
        elif evidence.effects is not None:
            chosen = COMBINED
        elif evidence.should_permute:
            chosen = PERMUTATION
        else:
            chosen = CONSERVATIVE if evidence.rows.kind == "oob" else NAIVE
        chosen.require(evidence)
        return chosen


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
