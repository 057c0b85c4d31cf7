"""Compiled loops of scikit-learn's bootstrap."""
