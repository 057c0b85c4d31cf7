"""Compiled loops of scorers."""
