"""Where the documentation of this version is, for the links that scikit-learn shows in notebooks."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata

import debias


def page(path: str) -> str:
    """Return the address of a page; ``{estimator_name}`` and the like may stand in `path`. Empty without metadata."""
    try:
        entries = metadata("debias-trees").get_all("Project-URL") or ()
    except PackageNotFoundError:  # scikit-learn shows no link then
        return ""
    addresses = dict(entry.split(", ", 1) for entry in entries)
    version = "dev" if "dev" in debias.__version__ else debias.__version__  # the folders of the site
    return f"{addresses['Documentation']}/{version}/{path}"
