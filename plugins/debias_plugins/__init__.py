"""Scorers, one idea a file, loaded as entry points exactly as a third party's."""
