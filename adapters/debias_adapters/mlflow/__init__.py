"""Adapter of MLflow."""
