"""Compiled loops over the rows of every tree."""
