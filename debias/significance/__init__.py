"""Tests of scores, with the trees as they are."""
