"""Adapter of PMML: trees in the files that sklearn2pmml, nyoka and packages of R write, read without Java."""
