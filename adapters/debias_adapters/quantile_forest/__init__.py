"""Adapter of quantile-forest."""
