"""Adapter of LightGBM."""
