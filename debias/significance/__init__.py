"""Tests of scores for a fitted model; nothing is refitted.

- ``verdict``: the entry point. ``procedure`` chooses the method of a test.
- ``permutation`` and ``student``: where p-values are made. ``method`` is their contract, ``evidence`` what they get.
- ``contributions`` and ``effective_rows``: the contributions of rows to a score, and how many rows count.
- ``streamed``: evidence of rows in batches. ``feature_paths``: the layout of paths for many permutations.
"""
