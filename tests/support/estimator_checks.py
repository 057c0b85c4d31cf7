"""scikit-learn's checks of estimators as parameters of a test, in every version of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from support.versions import at_least

if TYPE_CHECKING:
    from collections.abc import Callable


def with_checks(estimators: list[Any], failing: Callable[[Any], dict[str, str]] = lambda _: {}) -> pytest.MarkDecorator:
    """Return the mark of ``parametrize_with_checks``; `failing` gives the checks that fail for an estimator, and why.

    Older versions pass a generator to pytest, which pytest no longer takes, and 1.5 knows no checks that fail.
    """
    if at_least("scikit-learn", "1.6"):
        mark = parametrize_with_checks(estimators, expected_failed_checks=failing)
        return pytest.mark.parametrize(mark.args[0], list(mark.args[1]), **mark.kwargs)
    mark = parametrize_with_checks(estimators)
    return pytest.mark.parametrize(mark.args[0], [_marked(*pair, failing) for pair in mark.args[1]], **mark.kwargs)


def _marked(estimator: Any, check: Any, failing: Callable[[Any], dict[str, str]]) -> Any:
    reason = failing(estimator).get(check.func.__name__)
    return pytest.param(estimator, check, marks=() if reason is None else pytest.mark.xfail(reason=reason))
