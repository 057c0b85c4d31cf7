"""The plugins of debias: scorers, meta-methods and integrations, registered as those of third parties are."""
