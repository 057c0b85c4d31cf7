"""Adapter of imbalanced-learn."""
