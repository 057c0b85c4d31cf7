"""Compiled loops that read the nodes of a file, and make splits of them."""
