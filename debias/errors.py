"""Every error debias raises on purpose.

    DebiasError
     +- UnsupportedModelError   (TypeError)     no adapter can audit this model
     +- UntrustedModelError     (TypeError)     a model file that could run code, or holds types nobody has trusted
     +- ExtractionError         (RuntimeError)  the common form of a model is broken or does not predict alike
     +- ProvenanceError         (ValueError)    the rows are not what they must be (training rows, fresh rows)
     +- RowsError               (ValueError)    X, y or weights do not fit the model or each other
     +- InBagUnavailableError   (ValueError)    out-of-bag rows asked of a model that has none
     +- RefitError              (RuntimeError)  no replicate of a meta-method could be run
     +- CompositionError        (ValueError)    a scorer that does not exist, options it does not have, no meaning
     +- PolicyError             (ValueError)    a policy with a rule that does not exist, or a wrong limit
     +- PluginError             (RuntimeError)  a plugin that cannot be loaded, or two under one name

Each is also the builtin it resembles, so code that knows nothing of debias can catch it. A message says what
was wrong, where, and what to do.
"""

import difflib
from collections.abc import Iterable


class DebiasError(Exception):
    """The root of all errors debias raises on purpose."""


class UnsupportedModelError(DebiasError, TypeError):
    """No adapter can audit this model, and the message says why."""


class UntrustedModelError(DebiasError, TypeError):
    """A model file could run code when loaded, or holds types that are not trusted; the message says how to go on."""


class ExtractionError(DebiasError, RuntimeError):
    """An adapter returned trees that are broken, or that do not predict what the model predicts."""


class ProvenanceError(DebiasError, ValueError):
    """The rows are not what they were said, or have, to be."""


class RowsError(DebiasError, ValueError):
    """X, y or sample weights do not fit the model or each other."""


class InBagUnavailableError(DebiasError, ValueError):
    """Out-of-bag rows were asked of a model whose bags do not exist or cannot be recovered."""

    @classmethod
    def of_boosted(cls, model: str) -> "InBagUnavailableError":
        """Make the error for a boosted model, whose every training row has been seen."""
        return cls(
            f"{model} has no out-of-bag rows: each tree is fitted to the errors of the others, so every training "
            "row has been seen. Pass rows the model has not seen, with rows='held-out'."
        )


class RefitError(DebiasError, RuntimeError):
    """No replicate of a meta-method could be run; the message has the error of the first."""


class CompositionError(DebiasError, ValueError):
    """A scorer expression that names no scorer, has options the scorer does not have, or has no meaning."""


class PolicyError(DebiasError, ValueError):
    """A policy has a rule that does not exist, a limit that cannot be, or nothing to compare with."""


class PluginError(DebiasError, RuntimeError):
    """A plugin could not be loaded, or clashes with another."""


class DebiasWarning(UserWarning):
    """Something a reader of the scores must know, though the scores are right."""


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
    match = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {match[0]!r}?" if match else ""
