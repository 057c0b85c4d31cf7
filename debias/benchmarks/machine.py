"""The line that says where and with what numbers were made."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("numpy", "scipy", "scikit-learn", "xgboost", "lightgbm", "shap")


def versions() -> dict[str, str]:
    """Return the versions of Python, debias and the libraries that numbers depend on."""
    import debias

    found = {"Python": platform.python_version(), "debias": debias.__version__}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """Return system, processor architecture and number of cores, in words."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def machine_line() -> str:
    """Return machine and versions in one line."""
    return f"{machine()}; " + ", ".join(f"{name} {number}" for name, number in versions().items())
