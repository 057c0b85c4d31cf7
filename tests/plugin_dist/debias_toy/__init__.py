"""Two scorers, an adapter, a meta-method and a command of a third party."""
