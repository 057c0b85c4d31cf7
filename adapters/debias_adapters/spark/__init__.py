"""Adapter of Spark ML, and of the boosters of other libraries that run on Spark."""

from __future__ import annotations

from debias.hooks.library import Library

LIBRARY = Library(
    "Spark",
    "pyspark",
    "training a model of Spark needs Java and a session",
    tested=("3.5", "4.3"),
    extra="spark",
    page="libraries/spark",
)
