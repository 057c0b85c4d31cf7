"""Names of features as text that shows what is there: nothing unseen, nothing that turns a line or runs."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

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
    >>> from debias.names import shown
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
