"""Monitoring: the scores of a model over time, in a history of sums by period."""
