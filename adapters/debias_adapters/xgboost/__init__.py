"""The adapter of XGBoost."""
