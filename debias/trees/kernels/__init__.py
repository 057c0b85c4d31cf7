"""Compiled loops over nodes of trees, and over rows that are routed through them."""

from types import ModuleType

from debias.processor import suited


def __getattr__(name: str) -> ModuleType:
    return suited(__name__, name)
