"""Compiled loops over the rows and leaves of every tree."""
