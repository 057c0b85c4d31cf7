"""Adapters of scikit-learn's models."""
