"""Adapter of CatBoost."""
