"""The errors that debias raises on purpose.

    DebiasError
     +- UnsupportedModelError   (TypeError)     no adapter can audit this model
     +- UntrustedModelError     (TypeError)     a model file that could run code, or holds types that are not trusted
     +- ExtractionError         (RuntimeError)  extracted trees are broken, or predict otherwise than the model
     +- ProvenanceError         (ValueError)    the rows are not the rows they must be (training rows, fresh rows)
     |   +- TrainingRowsError                   they are the training rows, and it is not known what each tree saw
     +- RowsError               (ValueError)    X, y or weights do not fit the model or each other
     +- InBagUnavailableError   (ValueError)    out-of-bag rows were requested, but the model has none
     +- RefitError              (RuntimeError)  every replicate of a meta-method failed
     +- CompositionError        (ValueError)    an unknown scorer, unknown options, or an expression without a meaning
     +- PolicyError             (ValueError)    a policy with an unknown rule or a wrong limit
     +- HistoryError            (ValueError)    a history that cannot be read or written, or what it does not take
     +- PluginError             (RuntimeError)  a plugin cannot be loaded, or two plugins have one name

Each error is also the builtin error it resembles, so code that does not import debias can catch it. A message says what
was wrong, where, and what to do.
"""

import difflib
import re
from collections.abc import Iterable

from debias.text import without_commands


class DebiasError(Exception):
    """The base class of all errors that debias raises on purpose. No name in a message is a command of a CI service."""

    def __str__(self) -> str:
        return without_commands(super().__str__())


class UnsupportedModelError(DebiasError, TypeError):
    """No adapter can audit this model; the message says why."""


class UntrustedModelError(DebiasError, TypeError):
    """A model file could run code when loaded, or holds types that are not trusted; the message says what to do."""


class ExtractionError(DebiasError, RuntimeError):
    """An adapter returned trees that are broken, or that do not predict what the model predicts."""


class ProvenanceError(DebiasError, ValueError):
    """The rows are not what the user said they are, or not what the score needs."""


class TrainingRowsError(ProvenanceError):
    """The rows are the training rows, but in another order, or the bags of the trees are not known."""


class RowsError(DebiasError, ValueError):
    """X, y or sample weights do not fit the model or each other."""


class InBagUnavailableError(DebiasError, ValueError):
    """Out-of-bag rows were requested, but the model has no bags, or its bags cannot be recovered."""

    @classmethod
    def of_boosted(cls, model: str) -> "InBagUnavailableError":
        """Return the error for a boosted model, which has seen every training row."""
        return cls(
            f"{model} has no out-of-bag rows: each tree is fitted to the errors of the others, so every training "
            "row has been seen. Pass rows the model has not seen, with rows='held-out'."
        )


class RefitError(DebiasError, RuntimeError):
    """Every replicate of a meta-method failed; the message has the error of the first one."""


class CompositionError(DebiasError, ValueError):
    """A scorer expression names an unknown scorer, has options the scorer does not have, or has no meaning."""


class PolicyError(DebiasError, ValueError):
    """A policy has an unknown rule, an impossible limit, or nothing to compare with."""


class HistoryError(DebiasError, ValueError):
    """A history cannot be read or written, or does not take what was passed; the message says why and what to do."""


class HistoryArgumentError(HistoryError):
    """An argument names a period, a window, a model or a file that a history cannot have."""


class PluginError(DebiasError, RuntimeError):
    """A plugin cannot be loaded, or conflicts with another plugin."""


class DebiasWarning(UserWarning):
    """Something that a reader of the scores must know. The scores are computed all the same."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the known word nearest to `word`, or an empty string.

    Parameters
    ----------
    word : str
    known : iterable of str

    Returns
    -------
    str
        It begins with a space, so that an error message can end with it.
    """
    name = nearest_name(word, known)
    return "" if name is None else f" Did you mean {name!r}?"


def nearest_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known word nearest to `word`; None if none is near."""
    names = list(known)
    by_words = {_words(name): name for name in reversed(names)}
    same_words = by_words.get(_words(word)) if _words(word) else None
    if same_words is not None:
        return same_words
    by_lower = {name.lower(): name for name in reversed(names)}
    match = difflib.get_close_matches(word.lower(), list(by_lower), n=1)
    return by_lower[match[0]] if match else None


def _words(name: str) -> tuple[str, ...]:
    """Return the words of a name in alphabetical order, so that "OOB-mdi" and "mdi_oob" are equal."""
    return tuple(sorted(filter(None, re.split(r"[\W_]+", name.lower()))))


def with_article(name: str) -> str:
    """Return the name of a kind of thing with "a" or "an", as it is spoken.

    Examples
    --------
    >>> [with_article(name) for name in ("XGBoost XGBRegressor", "LightGBM LGBMRegressor", "ExtraTreesRegressor")]
    ['an XGBoost XGBRegressor', 'a LightGBM LGBMRegressor', 'an ExtraTreesRegressor']
    >>> [with_article(name) for name in ("LGBMRegressor", "YDF model", "ndarray")]
    ['an LGBMRegressor', 'a YDF model', 'an ndarray']
    """
    spelt = name[:1] in _SPOKEN_WITH_VOWEL and name[1:2].isupper()
    return f"an {name}" if spelt or name[:1] in "AEIOUaeiou" or name.startswith("ndarray") else f"a {name}"


_SPOKEN_WITH_VOWEL = set("AEFHILMNOX")
"""Letters whose names begin with a vowel; names with R and S in front, such as RUSBoost, are read as words."""
