"""Adapter of scikit-learn.

Its five families are five plugins, with a module of hooks each: `forests`, `boosting`, `hist_boosting`, `bagging` and
`wrappers` (pipelines, searches, votes). They share the modules beside them. Adapters of libraries that are built on
scikit-learn may import `reading` and `refit`.
"""
