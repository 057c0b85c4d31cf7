"""The adapter of quantile-forest."""
