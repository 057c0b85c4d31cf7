"""Adapter of AutoGluon."""
