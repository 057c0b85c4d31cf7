"""Two scorers, an adapter and a meta-method of a third party."""
