"""Text for people: feature names with every character visible, and numbers in sentences."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

UNKNOWN = "-"
"""Stands in tables for a number that is not known."""
CLOSE = 1e-9
"""A share this close to 1 is 1: shares are sums of rounded numbers."""
LONGEST = 26
"""A figure has room for this many characters of a name; tables of reports show the whole name."""


_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories without a visible character: control, format, surrogate, unassigned, line separators."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?%?", re.IGNORECASE | re.ASCII)
_HASH_COMMAND = re.compile(r"##(?=[\w.-]*\[)")
_LINE_COMMAND = re.compile(r"(^|\s):(?=:)")
_LINE_BEGIN = re.compile(r"(^\s*):(?=:)", re.MULTILINE)
_FORMULA = re.compile(r"(^|[;,|])(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")


def escaped(text: str, keep: str = "") -> str:
    r"""Return text with Python escapes for characters that are invisible or change how others are shown.

    Two names that differ only in such characters look equal, and a character that reverses the writing direction
    shows letters in another order. Lone surrogates cannot be written to a file.

    Parameters
    ----------
    text : str
    keep : str
        Characters that are not escaped.

    Returns
    -------
    str

    Examples
    --------
    >>> from debias.text import escaped
    >>> print(escaped("age\u202e\n"))
    age\u202e\n
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(c if c in keep or unicodedata.category(c) not in _UNSEEN else _escape_of(c) for c in text)
    return without_commands(text)


def name_in_text(name: str) -> str:
    """Return a name in a sentence: in quotation marks if it is empty, or could be read as several names or none.

    Examples
    --------
    >>> name_in_text("age"), name_in_text(""), name_in_text("bed and bath")
    ('age', '""', '"bed and bath"')
    """
    shown = escaped(name)
    could_be_several = any(word in f" {shown} " for word in (", ", " and ", " or "))
    return shown if shown and shown == shown.strip() and not could_be_several else f'"{shown}"'


def without_commands(text: str) -> str:
    r"""Return text in which nothing is a command of the CI service that reads the output of a job.

    ``##vso[``, ``##teamcity[`` and ``##[`` are commands anywhere in a line, ``::`` is one where a line begins. A line
    may begin at every word, because tables are wrapped. GitLab's marks of sections need control characters, which
    :func:`escaped` escapes.

    Examples
    --------
    >>> from debias.text import without_commands
    >>> print(without_commands("::error::a ##vso[task.complete] std::vector # 1"))
    \x3a:error::a \x23#vso[task.complete] std::vector # 1
    """
    return _LINE_COMMAND.sub(r"\1\\x3a", _HASH_COMMAND.sub(r"\\x23#", text))


def without_commands_in_lines(text: str) -> str:
    """Return whole lines, as they are written to a stream, without commands: JSON stays JSON, as it has none."""
    return _LINE_BEGIN.sub(r"\1\\x3a", _HASH_COMMAND.sub(r"\\x23#", text))


def json_text(value: Any, indent: int | None = None, **how: Any) -> str:
    """Return JSON of a value, in which no text is a command of a CI service. A reader gets the text unchanged.

    A list of numbers or texts has one line without spaces, whatever the indent is. Without an indent all has one line.
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, **how)
    on_one_line = _LIST.sub(lambda found: f"[{_NEXT.sub(',', found[1])}]", text)
    return _HASH_COMMAND.sub(r"\\u0023#", on_one_line)


_LIST = re.compile(r'\[\n *((?:"(?:[^"\\]|\\.)*"|[^\[\]{}"\s,]+)(?:,\n *(?:"(?:[^"\\]|\\.)*"|[^\[\]{}"\s,]+))*)\n *\]')
"""A list of numbers, truth values and texts over several lines; no text has a line feed in JSON."""
_NEXT = re.compile(r",\n *")


def shortened(name: str, longest: int = LONGEST) -> str:
    """Return a name that fits: without its middle if it is too long, and with invisible characters escaped.

    Examples
    --------
    >>> shortened("remainder__worst concave points", 16)
    'remainder_…oints'
    """
    drawn = escaped(name)
    if len(drawn) <= longest:
        return drawn
    return f"{drawn[: longest - longest // 3 - 1]}\N{HORIZONTAL ELLIPSIS}{drawn[-(longest // 3) :]}"


def shortened_apart(names: Sequence[str], longest: int = LONGEST) -> list[str]:
    """Return names that fit, as :func:`shortened`, so that names that are shown together stay different.

    Of names that would look the same, what they begin with in common is cut; if they still do, they get numbers.

    Examples
    --------
    >>> shortened_apart([f"mean_of_the_amounts_of_{days}_days_normalised" for days in (7, 30)], 16)
    ['mean…7_days_nor…', 'mean…30_days_no…']
    """
    shown = [shortened(name, longest) for name in names]
    for positions in _of_equal(shown):
        if len({names[k] for k in positions}) == 1:
            continue
        drawn = [escaped(names[k]) for k in positions]
        begin, first = len(commonprefix(drawn)), longest // 3 - 1
        while begin > first and drawn[0][begin - 1].isalnum():  # a number is shown whole
            begin -= 1
        for k, name in zip(positions, drawn, strict=True):
            shown[k] = f"{name[:first]}\N{HORIZONTAL ELLIPSIS}{_without_end(name[begin:], longest - first - 1)}"
    for positions in _of_equal(shown):
        if len({names[k] for k in positions}) > 1:
            for k in positions:
                number = f"#{k + 1}"
                shown[k] = f"{_without_end(shown[k], longest - len(number))}{number}"
    return shown


def _without_end(name: str, longest: int) -> str:
    """Return a name that fits, without its end if it is too long."""
    return name if len(name) <= longest else f"{name[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def _of_equal(texts: Sequence[str]) -> list[list[int]]:
    """Return the positions of equal texts, for each text that is there more than once."""
    positions: dict[str, list[int]] = {}
    for k, text in enumerate(texts):
        positions.setdefault(text, []).append(k)
    return [each for each in positions.values() if len(each) > 1]


def without_blanks(name: str) -> str:
    """Return a name with "_" for each blank, as LightGBM stores it; it keeps other white space.

    Examples
    --------
    >>> without_blanks("worst area")
    'worst_area'
    """
    return name.replace(" ", "_")


def spelled_alike(names: Sequence[str], others: Sequence[str]) -> bool:
    """Whether names are equal, or differ only in what LightGBM makes of blanks."""
    return list(map(without_blanks, names)) == list(map(without_blanks, others))


def feature_index(names: Sequence[str], name: str | None = "feature") -> pd.Index[Any]:
    """Return names as a pandas index: of strings, or of objects if a name has lone surrogates."""
    import pandas as pd

    try:
        return pd.Index(names, name=name)
    except UnicodeEncodeError:
        return pd.Index(list(names), name=name, dtype=object)


def named_together(members: Sequence[str]) -> str:
    """Return features that work together as text: "age with bmi", "age with bmi and sex"; the last one may be empty."""
    one, *others = members
    return f"{one} with {' and '.join(other for other in others if other)}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names in a line, and how many more there are.

    Parameters
    ----------
    names : sequence of str
    most : int
        Number of names in the line.

    Returns
    -------
    str

    Examples
    --------
    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    first = ", ".join(names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


def message(text: str) -> str:
    """Return a message for a terminal. Lines after the first are indented, so that no name can begin a line."""
    return escaped(text, keep="\n\t").replace("\n", "\n  ")


def to_csv(frame: pd.DataFrame, index: bool = True) -> str:
    """Return a data frame as CSV that is safe to open in a spreadsheet.

    In the index, the headings and text columns, text that looks like a formula gets an apostrophe in front, as OWASP
    recommends, and invisible characters are escaped. Numbers are unchanged.

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
    return _FORMULA.sub(r"\1'", escaped(value))


def _escape_of(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )


def percent(share: float, decimals: int = 1) -> str:
    """Return a share as a percentage. 0% and 100% are exact: no other share is rounded to them.

    Parameters
    ----------
    share : float
        From 0 to 1.
    decimals : int

    Returns
    -------
    str

    Examples
    --------
    >>> [percent(share) for share in (0.0, 0.0004, 0.217, 0.9996, 1.0)]
    ['0%', 'less than 0.1%', '21.7%', 'more than 99.9%', '100%']
    """
    return _percent(share, decimals, "0%", "less than ", "more than ", "100%")


def percent_in_table(share: float, decimals: int = 1) -> str:
    """Return a share as a percentage for a table: like `percent`, with < and > instead of words, and - for NaN.

    Examples
    --------
    >>> [percent_in_table(share) for share in (-0.02, -0.0002, 0.0, 0.0004, 0.217, 0.9996, 1.0, float("nan"))]
    ['-2.0%', '<0.1%', '0.0%', '<0.1%', '21.7%', '>99.9%', '100.0%', '-']
    """
    if math.isnan(share):
        return UNKNOWN
    return _percent(share, decimals, f"{0:.{decimals}%}", "<", ">", f"{1:.{decimals}%}")


def correlation_in_words(value: float, least: bool = False) -> str:
    """Return an absolute correlation with two decimals; only 1 itself is shown as 1. `least`: as a lower limit.

    Examples
    --------
    >>> [correlation_in_words(value) for value in (0.5, 0.976, 0.996, 1.0)]
    ['0.50', '0.98', 'more than 0.99', '1.00']
    >>> correlation_in_words(0.976, least=True)
    '0.97 or more'
    """
    if value >= 1 - CLOSE:
        return "1.00"
    if least:
        return f"{math.floor(100 * value + CLOSE) / 100:.2f} or more"
    return "more than 0.99" if value > 0.99 else f"{value:.2f}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless the number is 1: "1 row", "1,200 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def six_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers that are rounded to six digits, which are short in JSON.

    Examples
    --------
    >>> import numpy as np
    >>> six_digits(np.array([2 / 3, 1234567.0, 0.0])).tolist()
    [0.666667, 1234570.0, 0.0]
    """
    import numpy as np

    return np.array([float(f"{value:.6g}") for value in values.ravel()], dtype=np.float64).reshape(values.shape)


ALL_DIGITS = 1e8
"""Numbers from this on have an exponent, in sentences and in tables: nobody compares more digits."""
MOST_DIGITS = 6


def few_digits(number: float, digits: int = 3) -> str:
    """Return a number in a sentence: with this many digits, or all digits before the point, as 3,256 and not 3.26e+03.

    Parameters
    ----------
    number : float
    digits : int
        Trailing zeros are left out. Numbers far below 1 have an exponent, and so have those from 1e8 on. There is no
        -0.

    Examples
    --------
    >>> [few_digits(number) for number in (3256.4, 99.96, 0.5, 0.01234, 18720639301)]
    ['3,256', '100', '0.5', '0.0123', '1.87e+10']
    """
    number = number + 0.0  # -0.0 becomes 0.0
    return f"{number:,.0f}" if 10 ** (digits - 1) <= abs(number) < ALL_DIGITS else f"{number:.{digits}g}"


def told_apart(one: float, other: float, digits: int = 3) -> tuple[str, str]:
    """Return two numbers in a sentence that compares them: with up to six digits if they look the same with fewer.

    Examples
    --------
    >>> told_apart(0.41212, 0.41238), told_apart(0.5, 0.5000000001), told_apart(120.2, 120.4)
    (('0.4121', '0.4124'), ('0.5', '0.5'), ('120.2', '120.4'))
    """
    for more in range(digits, MOST_DIGITS + 1):
        texts = few_digits(one, more), few_digits(other, more)
        if texts[0] != texts[1]:
            return texts
    return few_digits(one, digits), few_digits(other, digits)


def with_sign(number: float) -> str:
    """Return a change in a sentence, as :func:`few_digits`, with a plus sign above 0.

    Examples
    --------
    >>> with_sign(3256.4), with_sign(-0.5)
    ('+3,256', '-0.5')
    """
    return f"{'+' if number >= 0 else ''}{few_digits(number)}"


def rounded_up(number: float, digits: int = 2) -> int:
    """Return a number of rows as a plan, which is no more precise than this many digits.

    Examples
    --------
    >>> rounded_up(1234.5), rounded_up(7)
    (1300, 7)
    """
    whole = math.ceil(number)
    step: int = 10 ** max(0, len(str(whole)) - digits)
    return -(-whole // step) * step


def all_are(number: int, noun: str) -> str:
    """Return the beginning of a sentence about all items: "All 12 features are"."""
    return {1: f"The only {noun} is", 2: f"Both {noun}s are"}.get(number, f"All {number:,} {noun}s are")


def none_is(number: int, noun: str) -> str:
    """Return the beginning of a sentence that holds of no item: "None of the 12 features is"."""
    return {1: f"The only {noun} is not", 2: f"Neither {noun} is"}.get(number, f"None of the {number:,} {noun}s is")


def p_value_in_words(p_value: float) -> str:
    """Return a p-value in a sentence, with three decimals.

    Examples
    --------
    >>> [p_value_in_words(p_value) for p_value in (0.0104, 0.0004)]
    ['p = 0.010', 'p < 0.001']
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _percent(share: float, decimals: int, none: str, less: str, more: str, whole: str) -> str:
    step = 0.1**decimals / 100
    if share <= -step / 2:  # an estimate may be below 0
        return f"{share:.{decimals}%}"
    if share == 0:
        return none
    if share < step:
        return f"{less}{100 * step:g}%"
    if share >= 1 - CLOSE:
        return whole
    return f"{more}{100 * (1 - step):g}%" if share > 1 - step else f"{share:.{decimals}%}"
