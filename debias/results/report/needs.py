"""What pictures need."""

from __future__ import annotations


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install if matplotlib is missing."""
    try:
        import matplotlib.pyplot  # noqa: F401
    except ImportError as error:
        raise ImportError(f"a picture needs matplotlib: pip install matplotlib ({error})") from error
