"""Refits of models: experiments, replicates and their checkpoints."""
