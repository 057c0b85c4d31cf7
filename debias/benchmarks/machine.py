"""The line on result pages that names the machine and the versions behind the numbers."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("numpy", "scipy", "scikit-learn", "xgboost", "lightgbm", "shap")


def versions() -> dict[str, str]:
    """Return the versions of Python, debias and the libraries on which the numbers depend."""
    import debias

    numbers = {"Python": platform.python_version(), "debias": debias.__version__}
    for name in LIBRARIES:
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            continue
    return numbers


def machine() -> str:
    """Return operating system, processor architecture and number of cores as a text."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def machine_line() -> str:
    """Return machine and versions in one line of text."""
    return f"{machine()}; " + ", ".join(f"{name} {number}" for name, number in versions().items())
