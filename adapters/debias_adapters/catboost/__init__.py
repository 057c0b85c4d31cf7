"""The adapter of CatBoost."""
