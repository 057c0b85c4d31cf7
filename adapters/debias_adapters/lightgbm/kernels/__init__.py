"""Compiled loops that read decimals."""
