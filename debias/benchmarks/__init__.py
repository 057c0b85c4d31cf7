"""Measurements that print ratios to a named rival in the same run."""
