"""Names of features that may mean the same: other letters, other punctuation, beginnings, abbreviations, slips."""

from __future__ import annotations

import difflib
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MISSPELT = 0.85
"""Likeness of the letters of two names from which one is taken for a slip of the other."""


def alike(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that may mean what `name` means, the likeliest first.

    Examples
    --------
    >>> alike("CUSTOMER_ID", ["customer id", "customerId", "age"])
    ['customer id', 'customerId']
    >>> alike("temp", ["temperature", "pressure"])
    ['temperature']
    >>> alike("city", ["city_Paris", "city=Rome", "velocity"])
    ['city=Rome', 'city_Paris']
    """
    words, matcher = _words(name), difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2("".join(words))
    found = {}
    for other in names:
        others = _words(other)
        matcher.set_seq1("".join(others))
        if _near(matcher) or _shortened(words, others) or _shortened(others, words):
            found[other] = matcher.ratio() if words else float(name.strip() == other.strip())
    return sorted((other for other in found if found[other] > 0), key=lambda other: (-found[other], other))


def _near(matcher: difflib.SequenceMatcher[str]) -> bool:
    """Whether letters are as good as the same; bounds that are quick to find come first."""
    return min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= MISSPELT and matcher.ratio() >= MISSPELT


def _shortened(short: list[str], full: list[str]) -> bool:
    """Whether one name may be a shorter form of the other."""
    if not short:
        return False
    letters = "".join(short)
    return _begin_words_of(short, full) or _initials_of(letters, full) or _without_vowels_of(letters, "".join(full))


def _words(name: str) -> list[str]:
    """Return runs of letters and runs of digits, whatever their case and what stands between them."""
    text = unicodedata.normalize("NFKC", name)
    text = re.sub(r"(?<=[^\W\d_A-Z])(?=[A-Z])", " ", text)  # customerId
    return re.findall(r"[^\W\d_]+|\d+", text.casefold())


def _begin_words_of(few: list[str], many: list[str]) -> bool:
    """Whether each word begins one of the others, in order: temp of temperature, cust id of customer id."""
    left = iter(many)
    return all(any(word == other or _begins(word, other) for other in left) for word in few)


def _begins(word: str, other: str) -> bool:
    return len(word) > 1 and not word.isdigit() and other.startswith(word)


def _initials_of(short: str, words: list[str]) -> bool:
    """Whether a name is made of the first letters of two words or more: dob of date of birth."""
    letters = [word for word in words if not word.isdigit()]
    return len(letters) > 1 and short == "".join(word[0] for word in letters)


def _without_vowels_of(short: str, full: str) -> bool:
    """Whether a name of three letters or more is another's with letters left out: tmp of temperature."""
    if len(short) < 3 or short[:1] != full[:1] or set(short[1:]) & set("aeiou"):
        return False
    left = iter(full)
    return all(letter in left for letter in short)
