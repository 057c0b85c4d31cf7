"""How numbers stand in sentences: percentages that rounding does not make false, singular and plural."""

from __future__ import annotations

ROWS = {"oob": "out-of-bag", "held-out": "held-out", "train": "training", "data": "data"}
"""What the kinds of evaluation rows are called in text."""
CLOSE = 1e-9
"""Shares are sums of rounded figures: what is so near to 1 is 1."""


def percent(share: float, decimals: int = 1) -> str:
    """Return a share as a percentage: 0% and 100% are what is nothing and all, and not what rounds to it.

    Examples
    --------
    >>> [percent(share) for share in (0.0, 0.0004, 0.217, 0.9996, 1.0)]
    ['0%', 'less than 0.1%', '21.7%', 'more than 99.9%', '100%']
    """
    return _percent(share, decimals, "0%", "less than ", "more than ", "100%")


def percent_in_table(share: float, decimals: int = 1) -> str:
    """Return a share as a percentage for a column: as `percent`, with signs for words.

    Examples
    --------
    >>> [percent_in_table(share) for share in (0.0, 0.0004, 0.217, 0.9996, 1.0)]
    ['0.0%', '<0.1%', '21.7%', '>99.9%', '100.0%']
    """
    return _percent(share, decimals, f"{0:.{decimals}%}", "<", ">", f"{1:.{decimals}%}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1: "1 row", "1,200 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def all_are(number: int, noun: str) -> str:
    """Return the beginning of a sentence about all of so many: "All 12 features are"."""
    return {1: f"The only {noun} is", 2: f"Both {noun}s are"}.get(number, f"All {number:,} {noun}s are")


def capital(text: str) -> str:
    """Return a text as it begins a sentence."""
    return text[:1].upper() + text[1:]


def _percent(share: float, decimals: int, none: str, less: str, more: str, whole: str) -> str:
    step = 0.1**decimals / 100
    if share < 0:  # no share of anything, so shown as it is
        return f"{share:.{decimals}%}"
    if share == 0:
        return none
    if share < step:
        return f"{less}{100 * step:g}%"
    if share >= 1 - CLOSE:
        return whole
    return f"{more}{100 * (1 - step):g}%" if share > 1 - step else f"{share:.{decimals}%}"
