"""Compiled loops of scorers of data."""
