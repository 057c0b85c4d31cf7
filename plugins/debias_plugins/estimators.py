"""What the estimators of debias share: their page in the documentation, and the checks of X and y of scikit-learn."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

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


def validate_data(
    estimator: Any, *data: Any, skip_check_array: bool = False, ensure_all_finite: bool | str = True, **settings: Any
) -> Any:
    """Check X, or X and y, as ``sklearn.utils.validation.validate_data`` does.

    In scikit-learn 1.5 that is a method with other names of arguments.
    """
    from sklearn.utils import validation

    if hasattr(validation, "validate_data"):
        settings |= {"skip_check_array": skip_check_array, "ensure_all_finite": ensure_all_finite}
        return validation.validate_data(estimator, *data, **settings)
    settings |= {"cast_to_ndarray": not skip_check_array, "force_all_finite": ensure_all_finite}
    return estimator._validate_data(*data, **settings)
