"""Adapter of FLAML."""
