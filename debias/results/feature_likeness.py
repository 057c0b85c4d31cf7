"""Similar feature names: other case, other punctuation, shortened words, abbreviations, typing errors."""

from __future__ import annotations

import difflib
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MISSPELT = 0.85
"""Two names whose letters are at least this similar may differ by a typing error."""


def alike(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that may mean the same as `name`, the most similar first.

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
    similarity = {}
    for other in names:
        other_words = _words(other)
        matcher.set_seq1("".join(other_words))
        if _near(matcher) or _shortened(words, other_words) or _shortened(other_words, words):
            similarity[other] = matcher.ratio() if words else float(name.strip() == other.strip())
    similar = [other for other in similarity if similarity[other] > 0]
    return sorted(similar, key=lambda other: (-similarity[other], other))


def like(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that may mean the same as `name`, or else the one with the most similar letters."""
    known = list(names)
    return alike(name, known) or difflib.get_close_matches(name, known, n=1)


def _near(matcher: difflib.SequenceMatcher[str]) -> bool:
    """Return whether the letters are nearly the same. Upper bounds that are quick to compute come first."""
    return min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= MISSPELT and matcher.ratio() >= MISSPELT


def _shortened(short: list[str], full: list[str]) -> bool:
    """Return whether one name may be a short form of the other."""
    if not short:
        return False
    letters = "".join(short)
    return _begin_words_of(short, full) or _initials_of(letters, full) or _without_vowels_of(letters, "".join(full))


def _words(name: str) -> list[str]:
    """Return the words and numbers of a name in lower case, without punctuation."""
    text = unicodedata.normalize("NFKC", name)
    text = re.sub(r"(?<=[^\W\d_A-Z])(?=[A-Z])", " ", text)  # customerId
    return re.findall(r"[^\W\d_]+|\d+", text.casefold())


def _begin_words_of(few: list[str], many: list[str]) -> bool:
    """Return whether each word begins one of the other words, in order: temp, temperature; cust id, customer id."""
    left = iter(many)
    return all(any(word == other or _begins(word, other) for other in left) for word in few)


def _begins(word: str, other: str) -> bool:
    return len(word) > 1 and not word.isdigit() and other.startswith(word)


def _initials_of(short: str, words: list[str]) -> bool:
    """Return whether a name consists of the first letters of two or more words: dob, date of birth."""
    letters = [word for word in words if not word.isdigit()]
    return len(letters) > 1 and short == "".join(word[0] for word in letters)


def _without_vowels_of(short: str, full: str) -> bool:
    """Return whether a name of at least three letters is another name without some letters: tmp, temperature."""
    if len(short) < 3 or short[:1] != full[:1] or set(short[1:]) & set("aeiou"):
        return False
    left = iter(full)
    return all(letter in left for letter in short)
