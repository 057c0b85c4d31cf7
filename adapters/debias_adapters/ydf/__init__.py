"""Adapter of YDF (Yggdrasil Decision Forests)."""
