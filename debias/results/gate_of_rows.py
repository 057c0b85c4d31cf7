"""Rules about odd rows, of the gate of an audit and of that of a history: unseen categories and repeated rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debias.results.gate_outcome import Result
from debias.text import listed, percent, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMED = 5
"""A reason names at most this many columns."""


def unseen(shares: Mapping[str, float] | None, limit: float, which: str, not_counted: str) -> Result:
    """Return the result of ``max_unseen``.

    Parameters
    ----------
    shares : mapping of str to float, or None
        Share of the rows with a category that the model never saw, by column; None if they were not counted.
    limit : float
    which : str
        What the rows are called.
    not_counted : str
        The reason if they were not counted.
    """
    rule, allowed = "max_unseen", f"<= {limit:g}"
    if shares is None:
        return Result(rule, "not judged", "none", allowed, f"categories that the model never saw {not_counted}")
    found = sorted(((share, name) for name, share in shares.items() if share > 0), key=lambda each: -each[0])
    reason = "no category was found that the model never saw"
    if found:
        named = listed([f"{shown(name)} {percent(share)}" for share, name in found], NAMED)
        reason = f"{which} with a category that the model never saw: {named}"
    largest = found[0][0] if found else 0.0
    return Result(rule, "passed" if largest <= limit else "failed", f"{largest:.3g}", allowed, reason)


def repeated(share: float | None, limit: float, which: str, not_counted: str, known: str = "") -> Result:
    """Return the result of ``max_repeated``; `known` is what is known of earlier rows. The rest is as for `unseen`."""
    rule, allowed = "max_repeated", f"<= {limit:g}"
    if share is None:
        return Result(rule, "not judged", "none", allowed, f"rows that repeat another row {not_counted}")
    reason = f"{percent(share)} of {which}{known}"
    return Result(rule, "passed" if share <= limit else "failed", f"{share:.3g}", allowed, reason)
