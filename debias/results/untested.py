"""What was tested and what not: the verdicts, and reasons why scores were not tested.

A reason is stored with the scores and says what to do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from debias.errors import DebiasError
from debias.results.vocabulary import Verdict
from debias.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from debias.results.scores import Scores

NOT_ASKED = "no test was requested (test=None). Audit again with test='auto', the default"
TRAINING_ROWS = (
    "these are training rows. The trees were fitted to them, so the score of noise is above 0 too. Audit rows the "
    "model has not seen. Of a bagged forest you can audit the training rows with rows='oob'"
)
UNKNOWN = "the scores were computed without a test. Audit the model with debias.audit, or score it with test='auto'"
ROUNDING = 1e-9
NO_VERDICT = "the test gave no verdict on these rows. Audit other rows that the model has not seen"


FEATURES = "untested_features"
"""In `details` of tested scores: features that these rows could not test, with the reason."""


def with_reason(scores: Scores, reason: str, *, tell_nothing: bool = False) -> Scores:
    """Return the scores with the reason why they were not tested: a clause, then sentences that say what to do.

    A decision of the scorer itself is left out, since these scores have no verdict.

    Parameters
    ----------
    scores : Scores
    reason : str
    tell_nothing : bool
        Whether no test could reject on these rows, whatever the data. Then the scores themselves say nothing, and
        the reason comes before everything else.
    """
    details = {**scores.details, "untested_because": reason.rstrip(".")}
    if tell_nothing:
        details["rows_tell_nothing"] = True
    return replace(scores, selected=None, threshold=None, p_value=None, p_adjusted=None, details=details)


def unless_tested(scores: Scores, warnings: list[str]) -> Scores:
    """Return tested scores unchanged, others with the reason: the warnings of the test that gave no verdict."""
    if scores.selected is not None or "untested_because" in scores.details:
        return scores
    return with_reason(scores, "; ".join(warnings) or NO_VERDICT)


def without(scores: Scores, reasons: Mapping[str, str]) -> Scores:
    """Return tested scores in which some features were not tested, whose scores are 0 whatever the response is.

    Parameters
    ----------
    scores : Scores
    reasons : mapping of str to str
        A clause for each of these features.
    """
    return replace(scores, details={**scores.details, FEATURES: dict(reasons)})


def reason_of(scores: Scores) -> str | None:
    """Return why scores were not tested and what to do, or None if they were tested."""
    return None if scores.selected is not None else str(scores.details.get("untested_because", UNKNOWN))


def tell_nothing(scores: Scores) -> bool:
    """Return whether the rows could not show anything about any feature, so that the scores say nothing."""
    return scores.selected is None and bool(scores.details.get("rows_tell_nothing", False))


def refuse_powerless(test: Mapping[str, Any]) -> None:
    """Raise a DebiasError if a test had so few permutations that it could not select a feature at its error rate."""
    n_permutations, alpha = test.get("n_permutations"), test.get("alpha")
    if n_permutations is None or alpha is None or test.get("pooled"):
        return
    if alpha * (1 + n_permutations) < 1 - ROUNDING:
        raise DebiasError(
            f"the test had too few permutations: {counted(n_permutations, 'permutation')} can find no feature at the "
            f"error rate {alpha:g}, so that none was found is no reason to drop features. Test with more permutations"
        )


def verdicts_of(
    names: Sequence[str], found: Sequence[bool] | NDArray[np.bool_] | None, untested: Mapping[str, str]
) -> list[Verdict]:
    """Return the verdict on each feature.

    Parameters
    ----------
    names : sequence of str
    found : sequence of bool, or None
        Whether the test found the feature; None if nothing was tested.
    untested : mapping of str to str
        Features that could not be tested, with the reason.
    """
    if found is None:
        return [Verdict.UNTESTED] * len(names)
    by_test = [Verdict.INFORMATIVE if each else Verdict.INDISTINGUISHABLE for each in found]
    return [Verdict.UNTESTED if name in untested else each for name, each in zip(names, by_test, strict=True)]
