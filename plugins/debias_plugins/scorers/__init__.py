"""Scorers of trees."""
