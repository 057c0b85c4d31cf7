"""Warnings about scores: issued at once to the user who runs the code, and kept with the result for later readers."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from debias.errors import DebiasWarning
from debias.text import without_commands

_PACKAGE = str(Path(__file__).parent)
"""The folder of the package `debias`: a warning points at the first caller outside it."""


class WarningLog:
    """What a reader of the scores must know, collected while the scores are computed.

    Parameters
    ----------
    texts : iterable of str
        What is known about the model from the start. It is kept without a warning.
    quiet : bool
        If True, texts are kept and no warning is issued. A refit uses this: its warnings were issued for the model
        itself.
    """

    def __init__(self, texts: Iterable[str] = (), quiet: bool = False) -> None:
        self.texts, self._quiet = list(texts), quiet

    def add(self, text: str) -> None:
        """Keep a text without a warning, because it repeats what the user stated."""
        self.texts.append(text)

    def warn(self, text: str) -> None:
        """Keep a text once, and issue it as a warning that points at the user's line that called debias."""
        if text in self.texts:
            return
        self.texts.append(text)
        if self._quiet:
            return
        level, frame = 2, sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            level, frame = level + 1, frame.f_back
        warnings.warn(without_commands(text), DebiasWarning, stacklevel=level)


class WarningLogOnce(WarningLog):
    """A log for rows that come in batches: a warning about one batch is not repeated for the next."""

    def warn(self, text: str) -> None:
        """Keep a text and issue a warning, unless an earlier text is the same up to the examples in parentheses."""
        if text.partition(" (")[0] not in {earlier.partition(" (")[0] for earlier in self.texts}:
            super().warn(text)
