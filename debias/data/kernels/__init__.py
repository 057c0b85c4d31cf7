"""Compiled loops over columns of X."""
