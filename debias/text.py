"""Text that people read: feature names with every character visible, and numbers in sentences."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

ROWS = {"oob": "out-of-bag", "held-out": "held-out", "train": "training", "data": "data"}
"""What the kinds of evaluation rows are called in text."""
CLOSE = 1e-9
"""Shares are sums of rounded figures: what is so near to 1 is 1."""


_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode's categories of control and format characters, lone surrogates, and what has no glyph or ends a line."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?%?", re.IGNORECASE | re.ASCII)
_FORMULA = re.compile(r"(^|[;,|])(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")


def shown(text: str, keep: str = "") -> str:
    r"""Return text with characters that are not seen, or that change how others are, as Python's escapes of them.

    Two names that differ in such characters alone look alike, and one that turns the direction of writing shows
    another order of letters than it has. Lone surrogates cannot be written at all.

    Parameters
    ----------
    text : str
    keep : str
        Characters that stay as they are.

    Returns
    -------
    str

    Examples
    --------
    >>> from debias.text import shown
    >>> print(shown("age\u202e\n"))
    age\u202e\n
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in _UNSEEN else _escaped(c) for c in text)


def feature_index(names: Sequence[str], name: str | None = "feature") -> pd.Index[Any]:
    """Return names as an index of pandas, whose strings hold no lone surrogates; objects do."""
    import pandas as pd

    try:
        return pd.Index(names, name=name)
    except UnicodeEncodeError:
        return pd.Index(list(names), name=name, dtype=object)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names, and how many more there are."""
    first = ", ".join(names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


def message(text: str) -> str:
    """Return a message for a terminal: lines after the first are indented, so that a name cannot begin one."""
    return shown(text, keep="\n\t").replace("\n", "\n  ")


def to_csv(frame: pd.DataFrame, index: bool = True) -> str:
    """Return a data frame as CSV whose text a spreadsheet does not run: the index, the headings and columns of text.

    Text a spreadsheet would take for a formula gets an apostrophe before it, as the OWASP recommends; what is not seen
    is escaped. Numbers stay as they are.

    Parameters
    ----------
    frame : DataFrame
    index : bool
        Whether to write the index.

    Returns
    -------
    str
    """
    safe = frame.rename(columns=_cell)
    for k, dtype in enumerate(frame.dtypes):
        if dtype.kind not in "fiub":
            safe.isetitem(k, frame.iloc[:, k].map(_cell).to_numpy())
    if index:
        safe.index = frame.index.map(_cell)
    return safe.to_csv(index=index)


def _cell(value: object) -> object:
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return _FORMULA.sub(r"\1'", shown(value))


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )


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
