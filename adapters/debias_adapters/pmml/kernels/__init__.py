"""Compiled loops that read decimal numbers."""
