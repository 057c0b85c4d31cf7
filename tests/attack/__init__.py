"""Attacks on the checks of debias: wrong rows, damaged and crafted model files, random data."""
