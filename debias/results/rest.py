"""The rest, together: what an audit says of the features that are not confirmed alone, as one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import DebiasError
from debias.results.vocabulary import Verdict

if TYPE_CHECKING:
    from debias.results.audit import Audit
    from debias.results.scores import Scores

REST, UNTESTED_BECAUSE = "rest", "untested_because"
"""In `details` of tested scores: the test of the rest together, and there the reason why there is none."""
NOT_MADE = "this audit was made without such a test. Audit the model again"
TOO_FEW_DRAWS = (
    "{} permutations give no p-value that is small enough. Pass debias.Permutation with more permutations, or a larger "
    "budget"
)


@dataclass(frozen=True)
class Rest:
    """The features that are not confirmed alone, and the test of all of them as one group.

    Parameters
    ----------
    features : tuple of str
        Their names, the strongest first: two or more.
    p_value : float or None
        Probability of such a large studentised score of the group if it carries no information; None if it was not
        tested.
    alpha : float
        The group carries information if its p-value is at most this.
    untested_because : str or None
        Why it was not tested and what to do.
    """

    features: tuple[str, ...]
    p_value: float | None
    alpha: float
    untested_because: str | None = None

    @property
    def informative(self) -> bool | None:
        """Whether the group carries information; None if it was not tested."""
        return None if self.p_value is None else self.p_value <= self.alpha


def rest_of(audit: Audit) -> Rest | None:
    """Return the rest of an audit; None if nothing was tested, or fewer than two features are not confirmed alone."""
    scores, in_rest = audit.tested_scores, audit.which(Verdict.INDISTINGUISHABLE)
    if in_rest.sum() < 2:
        return None
    names = tuple(scores.feature_names[k] for k in audit.strongest_first if in_rest[k])
    told = scores.details.get(REST, {UNTESTED_BECAUSE: NOT_MADE})
    alpha = float(scores.details.get("test", {}).get("alpha", np.nan))
    return Rest(names, told.get("p_value"), alpha, told.get(UNTESTED_BECAUSE))


def check_rest(scores: Scores, at: str) -> None:
    """Raise a DebiasError unless the details have a p-value of the rest, or the reason why there is none."""
    told = scores.details.get(REST)
    if told is None:
        return
    p_value, reason = (told.get("p_value"), told.get(UNTESTED_BECAUSE)) if isinstance(told, dict) else (None, None)
    is_p_value = type(p_value) in (int, float) and 0 < p_value <= 1  # type: ignore[operator]
    if is_p_value == isinstance(reason, str):
        raise DebiasError(f"{at}.details.{REST} has neither a p-value nor a reason why there is none, or both")
