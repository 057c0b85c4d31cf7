"""Models that are trained again: experiments, replicates and their checkpoints."""
