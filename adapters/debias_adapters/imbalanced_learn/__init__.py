"""The adapter of imbalanced-learn."""
