"""Benchmarks: the experiments of papers, simulated data, error rates, speed beside named rivals, and the demo."""
