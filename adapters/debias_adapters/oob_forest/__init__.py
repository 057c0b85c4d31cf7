"""Adapter of the OOBForest that debias provides."""
