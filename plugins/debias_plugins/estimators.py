"""``validate_data`` of scikit-learn, which in version 1.5 is a method with other names of arguments."""

from __future__ import annotations

from typing import Any


def validate_data(
    estimator: Any, *data: Any, skip_check_array: bool = False, ensure_all_finite: bool | str = True, **settings: Any
) -> Any:
    """Check X, or X and y, as ``sklearn.utils.validation.validate_data`` does."""
    from sklearn.utils import validation

    if hasattr(validation, "validate_data"):
        settings |= {"skip_check_array": skip_check_array, "ensure_all_finite": ensure_all_finite}
        return validation.validate_data(estimator, *data, **settings)
    settings |= {"cast_to_ndarray": not skip_check_array, "force_all_finite": ensure_all_finite}
    return estimator._validate_data(*data, **settings)
