"""Compiled loops of the tests."""
