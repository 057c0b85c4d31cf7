"""Compiled loops over nodes."""
