"""Adapters: a fitted model of one library becomes trees as data. One file a family, loaded as entry points."""
