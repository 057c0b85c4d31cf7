"""X, y, weights, groups and blocks, in any container."""
