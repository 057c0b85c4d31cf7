"""Adapter of treelite, and of cuML by way of it."""
