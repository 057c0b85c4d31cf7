"""Checks that the figures of scores and audits are consistent. Readers, reports and gates rely on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError
from debias.results.untested import FEATURES

if TYPE_CHECKING:
    from debias.results.audit import Audit
    from debias.results.scores import Scores

ROUNDING = 1e-6
"""Tolerance for shares: they sum to 1 and lie between 0 and 1."""
OF_A_TEST = ("z", "p_value", "p_adjusted", "selected")


def check_scores(scores: Scores) -> None:
    """Raise a DebiasError unless every array has one finite figure per feature, and names are unique."""
    names = scores.feature_names
    if not names:
        raise DebiasError("there is no feature")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DebiasError(f"feature_names has {twice!r} twice")
    for name in ("values", "standard_error", *OF_A_TEST):
        _check_figures(name, getattr(scores, name), len(names))
    if scores.standard_error is not None and (scores.standard_error < 0).any():
        raise DebiasError("standard_error has numbers below 0")
    for name in ("p_value", "p_adjusted"):
        figures = getattr(scores, name)
        if figures is not None and ((figures < 0) | (figures > 1)).any():
            raise DebiasError(f"{name} has numbers outside 0 to 1")
    if scores.null is not None and (scores.null.ndim != 2 or not np.isfinite(scores.null).all()):
        raise DebiasError("null is not a table of finite numbers")
    if scores.threshold is not None and not np.isfinite(scores.threshold):
        raise DebiasError(f"threshold is {scores.threshold}")


def check_audit(audit: Audit) -> None:
    """Raise a DebiasError unless all scores of an audit have the same features and the verdicts follow from them."""
    if audit.main_scorer not in audit.scores:
        raise DebiasError(f"scores has no {audit.main_scorer!r}, from which the shares are computed")
    main, at = audit.main, f"scores.{audit.main_scorer}"
    for name, scores in audit.scores.items():
        try:
            check_scores(scores)
        except DebiasError as error:
            raise DebiasError(f"scores.{name}: {error}") from None
        if scores.feature_names != main.feature_names:
            raise DebiasError(f"scores.{name} has other features than {at}")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.abs(main.values).sum()):
            raise DebiasError(f"{at}.values are too large to add, and shares need their sum")
    _check_figures("reported", audit.reported, len(main.feature_names))
    _check_figures("n_values", audit.n_values, len(main.feature_names))
    if audit.reported is not None:
        _check_shares(audit.reported)
    if main.rows not in ("oob", "held-out", "train") or not main.n_rows or main.n_rows < 1:
        raise DebiasError(f"{at} has {main.n_rows!r} rows of kind {main.rows!r}: there is no such audit")
    if not all(isinstance(main.provenance.get(name), str) for name in ("status", "detail")):
        raise DebiasError(f"{at}.provenance does not say what is known about the rows: no status, or no detail")
    _check_test(main, at)
    _check_near_duplicates(audit)
    if audit.performance is not None:
        audit.performance.check()


def _check_figures(name: str, figures: Any, n_features: int) -> None:
    if figures is None:
        return
    if np.shape(figures) != (n_features,):
        raise DebiasError(f"{name} has shape {np.shape(figures)} for {n_features} features")
    if not np.isfinite(figures).all():
        raise DebiasError(f"{name} has numbers that are not finite")


def _check_shares(reported: Any) -> None:
    if (reported < 0).any() or (reported > 1 + ROUNDING).any():
        raise DebiasError("reported has shares outside 0 to 1")
    if reported.any() and abs(reported.sum() - 1) > ROUNDING:
        raise DebiasError(f"reported has shares that sum to {reported.sum():g}, not to 1")


def _check_test(main: Scores, at: str) -> None:
    """Raise unless the selected features follow from the figures of the test. Untested scores have no verdicts."""
    if main.selected is None:
        return
    test = main.details.get("test")
    missing = [name for name in OF_A_TEST if getattr(main, name) is None]
    if missing or not isinstance(test, dict):
        missing = missing or ["details.test"]
        raise DebiasError(f"{at} is tested, but has no {', '.join(missing)}")
    n_drawn = test.get("n_permutations", 1)
    if isinstance(n_drawn, bool) or not isinstance(n_drawn, int) or n_drawn < 1:
        raise DebiasError(f"{at}.details.test.n_permutations is not a number of permutations: {n_drawn!r}")
    alpha = test.get("alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise DebiasError(f"{at}.details.test.alpha is not an error rate: {alpha!r}")
    if test.get("error") not in (None, "fwer", "fdr", "fdr_by"):
        raise DebiasError(f"{at}.details.test.error is not a kind of error rate: {test['error']!r}")
    _check_untested(main, at)
    if not np.array_equal(main.selected, main.p_adjusted <= alpha):  # type: ignore[operator]
        raise DebiasError(f"{at}.selected contradicts p_adjusted at alpha={alpha:g}")


def _check_untested(main: Scores, at: str) -> None:
    """Raise unless the features that were not tested exist, have a reason, and have scores of 0."""
    reasons = main.details.get(FEATURES, {})
    if not isinstance(reasons, dict) or not all(isinstance(reason, str) for reason in reasons.values()):
        raise DebiasError(f"{at}.details.{FEATURES} does not give a reason for each feature")
    position = {name: k for k, name in enumerate(main.feature_names)}
    for name in reasons:
        if name not in position or main.values[position[name]] != 0:
            raise DebiasError(f"{at}.details.{FEATURES} has {name!r}, which is no feature with a score of 0")


def _check_near_duplicates(audit: Audit) -> None:
    """Raise unless the sets are of two or more informative features, and no feature is in two of them."""
    names = [name for each in audit.near_duplicates or () for name in each.features]
    informative = {
        name for name, found in zip(audit.main.feature_names, audit.verdict, strict=True) if found == "informative"
    }
    if not informative.issuperset(names):
        stray = next(name for name in names if name not in informative)
        raise DebiasError(f"near_duplicates has {stray!r}, which is no informative feature")
    if len(set(names)) < len(names) or any(len(each.features) < 2 for each in audit.near_duplicates or ()):
        raise DebiasError("near_duplicates must have two or more features in each set, and each feature in one set")
    if any(not 0 <= each.correlation <= 1 for each in audit.near_duplicates or ()):
        raise DebiasError("near_duplicates has a correlation outside 0 to 1")
