"""skore: a check that says how much of a model's importance cannot be told from noise."""

from __future__ import annotations

from typing import Any

try:
    from skore import Check, CheckNotApplicable
except ImportError as error:
    raise ImportError("the check needs skore: pip install debias-trees[skore]") from error
import debias
from debias import InBagUnavailableError, UnsupportedModelError


class DebiasCheck(Check):  # type: ignore[misc]  # skore's protocol is not typed for us
    """Warn of importance that falls on features indistinguishable from noise.

    Added to a report of one estimator by ``report.checks.add([DebiasCheck()])``. A forest is scored on its out-of-bag
    rows, another model on the report's test rows.

    Parameters
    ----------
    max_unsupported_share : float
        The check has a finding if more of the reported importance than this is indistinguishable from noise.
    **given
        Further arguments of :func:`debias.audit`: ``alpha``, ``n_permutations``, ``seed``, ...
    """

    code = "DEB001"
    title = "Importance that cannot be told from noise"
    report_types = ["estimator"]
    docs_url = None
    severity = "tip"
    slow = True

    def __init__(self, max_unsupported_share: float = 0.1, **given: Any) -> None:
        self.max_unsupported_share, self.given = max_unsupported_share, given

    def check_function(self, report: Any) -> str | None:
        """Audit the estimator of a report; None if there is nothing to say."""
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
        model, given = report.estimator_, {"scorers": ["mdi_oob"], **self.given}
        if report.X_train is not None and report.y_train is not None:
            try:
                return debias.audit(model, report.X_train, report.y_train, rows="oob", **given)
            except InBagUnavailableError:
                pass
        return debias.audit(model, report.X_test, report.y_test, rows="held-out", **given)
