"""Helpers that several test files share: oracles, models, drawn data, stored audits, damaged files."""
