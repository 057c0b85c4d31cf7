"""Adapter of XGBoost."""
