"""Threshold: select features by GUIDE's rule, the family-wise error rate or the false discovery rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.hooks.contracts import innermost
from debias.p_values import adjusted, step_down_max
from debias_plugins.data_scorers.guide_threshold import check_alpha, critical_value, decide
from debias_plugins.meta_methods.null_adjustment import RULES, check_error_rate, check_known, normalise

if TYPE_CHECKING:
    from numpy.typing import NDArray

OWN_RULES = ("guide", "fwer", "fdr", "fdr_by")


def _check(inner: debias.plugin.Scorer, options: Mapping[str, Any]) -> None:
    rule, alpha = options["rule"], options["alpha"]
    check_known("threshold", "rule", rule, OWN_RULES)
    check_error_rate("threshold", alpha)
    if inner.inner is not None and inner.options.get("adaptive"):
        raise debias.plugin.CompositionError(
            f"{inner.name} stops when each p-value by itself is settled, but a threshold decides about all features "
            "together: leave adaptive out inside a threshold"
        )
    if rule == "guide" and debias.plugin.Gives.NULL not in inner.gives:
        raise debias.plugin.CompositionError(
            f"threshold(rule='guide') compares scores with those of permuted responses, and {inner.name} has none: "
            f"write threshold(response_permutation({innermost(inner).name}))"
        )
    if not inner.gives & (debias.plugin.Gives.NULL | debias.plugin.Gives.P_VALUE):
        raise debias.plugin.CompositionError(
            f"threshold(rule={rule!r}) needs p-values, and {inner.name} has none. response_permutation, "
            "partial_permutation, shadow(rule='max') and feature_permutation(rule='pvalue') have p-values"
        )


@debias.plugin.meta_method_plugin("threshold", unit="{unit}", gives=debias.plugin.Gives.DECISION, check=_check)
def threshold(
    inner: debias.plugin.Scorer, problem: debias.plugin.Problem, *, alpha: float = 0.05, rule: str = "guide"
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Select features; the scores do not change.

    Parameters
    ----------
    alpha : float
        Error rate.
    rule : {"guide", "fwer", "fdr", "fdr_by"}
        "guide": the m features with the largest scores, where m is the number of unadjusted scores above the level that
        the largest unadjusted score of a permuted response exceeds with probability alpha (Loh and Zhou 2020, section
        6). If no feature matters, one or more features are selected with probability at most alpha. "fwer": step-down
        max of the scores, each standardised over its draws and itself (Westfall and Young 1993), or Holm if there are
        only p-values. "fdr": Benjamini and Hochberg (1995). "fdr_by": Benjamini and Yekutieli (2001), under any
        dependence.

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores of the scorer inside, and ``selected``. "guide": ``threshold``, half-way between the m-th and the
        next largest score; ``critical``; and ``normalized``, the scores divided by the threshold if it is above 0.
        Other rules: ``p_adjusted``.

    Raises
    ------
    CompositionError
        There are too few replicates for alpha.
    """
    values, details = problem.score(inner)
    details = dict(details)
    null = details.get("null") if debias.plugin.Gives.NULL in inner.gives else None
    if null is not None:
        check_alpha("threshold", alpha, len(null))
    if rule == "guide":
        assert null is not None
        unadjusted, inner_rule = np.asarray(details["unadjusted"]), details.get("rule")

        def at_level(k: int) -> float:
            if inner_rule not in RULES:
                return float(values[k])
            return float(normalise(np.array([critical]), null[:, [k]], inner_rule)[0])

        critical = critical_value(null, alpha)
        selected, level = decide(values, unadjusted, critical, at_level)
        normalized = {"normalized": (values / level).tolist()} if level > 0 else {}
        return values, {**details, **normalized, "critical": critical, "threshold": level, "selected": selected}
    p = np.asarray(details["p_value"])
    # A feature without splits, such as a constant column, has the same score with every response: it is no test.
    drawn = None if null is None else np.vstack([details["unadjusted"], null])
    testable: NDArray[np.bool_] = (values != 0) | (p < 1) if drawn is None else (drawn != 0).any(axis=0)
    if rule == "fwer" and drawn is not None:
        p_adjusted = np.ones_like(p)
        p_adjusted[testable] = _step_down(drawn[:, testable])
    else:
        p_adjusted = adjusted(p, rule, testable)
        n_tests = int(testable.sum())
        if null is not None and n_tests / (len(null) + 1) > alpha:
            few = f"with {len(null)} replicates no single feature of {n_tests} can be selected at alpha={alpha}: "
            details["warnings"] = [*details.get("warnings", []), f"{few}raise replicates to {int(n_tests / alpha)}"]
    return values, {**details, "p_adjusted": p_adjusted, "selected": p_adjusted <= alpha}


def _step_down(every: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return adjusted p-values of the first row; it counts as one more draw: under the null all are exchangeable."""
    spread = every.std(axis=0)
    z = np.divide(every - every.mean(axis=0), spread, out=np.zeros_like(every), where=spread > 0)
    return step_down_max(z[0], z[1:])


@debias.plugin.hookimpl
def debias_meta_methods() -> Sequence[debias.plugin.MetaMethod]:
    """Return the threshold."""
    return [threshold]
