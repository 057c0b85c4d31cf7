"""Warnings about scores: issued at once to the user who runs the code, and kept with the result for later readers."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from debias.errors import DebiasWarning
from debias.text import without_commands

_PACKAGE = str(Path(__file__).parent) + os.sep
"""The folder of the package `debias`: a warning points at the line outside it that called debias."""
LOGGER = logging.getLogger("debias")
"""Gets every warning, for services that collect logs. Without a handler of the user it is silent, because the user sees
the Python warning."""
LOGGER.addHandler(logging.NullHandler())


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
        """Keep a text that the result says anyway, or the user stated, without a warning."""
        self.texts.append(text)

    def warn(self, text: str) -> None:
        """Keep a text once, issue it as a warning that points at the user's line that called debias, and log it."""
        if text in self.texts:
            return
        self.texts.append(text)
        if self._quiet:
            return
        LOGGER.warning("%s", without_commands(text))
        warnings.warn(without_commands(text), DebiasWarning, stacklevel=_level_of_user())


def _level_of_user() -> int:
    """Return how many calls above ``warn`` the user's line is that called debias.

    Between calls of debias there may be others, of the standard library or of a plugin. So it is the line that made the
    outermost call.
    """
    level, found = 0, 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        level += 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            found = level
        frame = frame.f_back
    return found + 1


class WarningLogOnce(WarningLog):
    """A log for rows that come in batches: a warning about one batch is not repeated for the next."""

    def warn(self, text: str) -> None:
        """Keep a text and issue a warning, unless an earlier text is the same up to the examples in parentheses."""
        if text.partition(" (")[0] not in {earlier.partition(" (")[0] for earlier in self.texts}:
            super().warn(text)
