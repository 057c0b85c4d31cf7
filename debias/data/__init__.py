"""X, y, weights, groups and blocks, in any container, in memory or in batches."""
