"""skore: a check of how much reported importance falls on features that are not confirmed alone."""

from __future__ import annotations

from typing import Any

try:
    from skore import Check, CheckNotApplicable
except ImportError as error:
    raise ImportError("the check needs skore: pip install skore") from error
import debias
from debias import InBagUnavailableError, UnsupportedModelError


class DebiasCheck(Check):  # type: ignore[misc]  # skore's protocol is not typed for us
    """Warn if importance falls on features that are not confirmed alone.

    Add it to the report of one estimator: ``report.checks.add([DebiasCheck()])``. A forest is scored on its out-of-bag
    rows, another model on the test rows of the report.

    Parameters
    ----------
    max_unsupported_share : float
        The check reports an issue if a larger share of the reported importance falls on features that are not
        confirmed alone.
    **options
        Further arguments of :func:`debias.audit`: ``error_rate``, ``test``, ``random_state``, ...
    """

    code = "DEB001"
    title = "Importance of features that are not confirmed alone"
    report_types = ["estimator"]
    docs_url = None
    severity = "tip"
    slow = True

    def __init__(self, max_unsupported_share: float = 0.1, **options: Any) -> None:
        self.max_unsupported_share, self.options = max_unsupported_share, options

    def check_function(self, report: Any) -> str | None:
        """Audit the estimator of a report; return None if there is no issue."""
        try:
            audit = self._audit(report)
        except UnsupportedModelError as error:
            raise CheckNotApplicable(str(error)) from None
        if audit.unsupported_share is None:
            raise CheckNotApplicable(audit.untested_because or "the model reports no importance")
        if audit.unsupported_share <= self.max_unsupported_share:
            return None
        return " ".join(audit.summary())

    def _audit(self, report: Any) -> debias.Audit:
        model, options = report.estimator_, {"scorers": [], **self.options}
        if report.X_train is not None and report.y_train is not None:
            try:
                return debias.audit(model, report.X_train, report.y_train, rows="oob", **options)
            except InBagUnavailableError:
                pass
        return debias.audit(model, report.X_test, report.y_test, rows="held-out", **options)
