"""Compiled loops over nodes of trees, and over rows that are routed through them."""
