"""Helpers that several test files share: simulated rows, models, oracles, audits, damaged files."""
