"""Compiled loops of scorers."""

from types import ModuleType

from debias.processor import suited


def __getattr__(name: str) -> ModuleType:
    return suited(__name__, name)
