"""Compiled loops that grow trees."""
