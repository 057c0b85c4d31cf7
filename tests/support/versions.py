"""What the installed version of a library can do: marks for tests of what an older or a newer one does not have."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.version import Version


def at_least(package: str, minimum: str) -> bool:
    """Whether the installed version of a package is `minimum` or later; pre-releases of it count."""
    return Version(version(package)).release >= Version(minimum).release


def needs(package: str, minimum: str, why: str) -> pytest.MarkDecorator:
    """Skip a test before a version of a package; `why` says what the older ones lack."""
    return pytest.mark.skipif(not at_least(package, minimum), reason=f"{package} {version(package)}: {why}")


def before(package: str, limit: str, why: str) -> pytest.MarkDecorator:
    """Skip a test from a version of a package on; `why` says what changed."""
    return pytest.mark.skipif(at_least(package, limit), reason=f"{package} {version(package)}: {why}")


READ_EXACTLY = {} if at_least("pandas", "3.1") else {"float_precision": "round_trip"}
"""For ``pandas.read_csv``, which by default read the last digits of numbers wrong before pandas 3.1."""
