"""The rule about a higher loss, of the gates of a history and of two models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.results.gate_outcome import Result
from debias.results.vocabulary import GateStatus
from debias.text import escaped, few_digits, told_apart, with_sign

if TYPE_CHECKING:
    from debias.results.loss_change import PartOfLoss

RULE = "max_loss_increase"


def result_of_loss(
    metric: str,
    loss: PartOfLoss,
    limit: float,
    level: float,
    *,
    ends: tuple[str, str],
    few: str,
    causes: str,
    lacking: str | None = None,
) -> Result:
    """Return whether a loss rose by more than a limit, beyond chance.

    Parameters
    ----------
    metric : str
        Name of the loss.
    loss : PartOfLoss
    limit : float
    level : float
        Largest one-sided p-value of a rise by more than the limit.
    ends : (str, str)
        What the two losses are called.
    few : str
        What there is too little of, if the standard error is not known.
    causes : str
        What is said of a rise.
    lacking : str, optional
        Why a loss that did not rise is not judged.
    """
    allowed, value = f"<= {limit:g}", with_sign(loss.change)
    before, after = told_apart(loss.before, loss.after)
    reason = f"{escaped(metric)} {before} {ends[0]}, {after} {ends[1]}"
    if np.isnan(loss.error):
        return Result(RULE, GateStatus.NOT_JUDGED, "none", allowed, f"{reason}; {few}")
    reason += f" (standard error of the difference {few_digits(loss.error, 2)})"
    rose_by_ranks = False
    if loss.starts is not None:
        p, at = loss.starts.above(limit)
        rise, since = loss.starts.difference_at(at), escaped(loss.starts.since[at])
        told = "at any look, by ranks" if loss.by_ranks else "at any look"
        size = "" if loss.by_ranks and not rise else f"{with_sign(rise)} "
        reason += f"; {told}: {size}since {since}, p of more than the limit = {p:.3g}"
        rose_by_ranks = loss.by_ranks and loss.starts.difference_at(0) > limit
    # At any look, the loss may have risen by more in the last days of a longer recent window.
    if (loss.change > limit or loss.starts is not None) and loss.p_above(limit) <= level:
        return Result(RULE, GateStatus.FAILED, value, allowed, f"{reason}{causes}")
    # Few far periods of the reference may hide that all periods since then are higher.
    if loss.change <= limit and not rose_by_ranks:
        if lacking is not None:
            return Result(RULE, GateStatus.NOT_JUDGED, value, allowed, f"{reason}; {lacking}")
        return Result(RULE, GateStatus.PASSED, value, allowed, reason)
    return Result(RULE, GateStatus.NOT_JUDGED, value, allowed, f"{reason}; more than the limit, but it may be chance")
