"""The adapter of LightGBM."""
