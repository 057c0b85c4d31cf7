"""Warnings that travel with the scores: shown at once to who runs the code, and kept for who reads the result."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from debias.errors import DebiasWarning

_PACKAGE = str(Path(__file__).parent)


class WarningLog:
    """What a reader of scores must know, collected while they are prepared.

    Parameters
    ----------
    texts : iterable of str
        What is known of the model from the start, and no cause for a warning.
    quiet : bool
        Keep texts, and warn of none: those of a refit were warned of with the model itself.
    """

    def __init__(self, texts: Iterable[str] = (), quiet: bool = False) -> None:
        self.texts, self._quiet = list(texts), quiet

    def add(self, text: str) -> None:
        """Keep a text, and warn of nothing: it says what the user has stated."""
        self.texts.append(text)

    def warn(self, text: str) -> None:
        """Keep a text, and warn of it at the line of the user's that called debias."""
        self.texts.append(text)
        if self._quiet:
            return
        level, frame = 2, sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            level, frame = level + 1, frame.f_back
        warnings.warn(text, DebiasWarning, stacklevel=level)


class WarningLogOnce(WarningLog):
    """Notes on rows that come in parts: what was said of one part is not said again of the next."""

    def warn(self, text: str) -> None:
        """Keep a text and warn of it, unless one that begins alike is there; examples stand in brackets."""
        if text.partition(" (")[0] not in {each.partition(" (")[0] for each in self.texts}:
            super().warn(text)
