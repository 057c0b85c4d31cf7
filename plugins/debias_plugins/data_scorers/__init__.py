"""Scorers that need only data."""
