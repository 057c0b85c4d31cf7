"""Adapters: each reads fitted models of one library into a TreeEnsemble. They are loaded as entry points."""
