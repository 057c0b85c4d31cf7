"""Adapter of Spark ML, and of the boosters of other libraries that run on Spark."""
