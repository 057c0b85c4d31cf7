"""What an audit says, in sentences: which features the library ranks too high, and how sure that is.

Every sentence is true of the table as it stands: tests recompute each from the figures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.text import all_are, capital, counted, percent, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit

ROWS_TO_JUDGE = 30
"""With fewer rows the summary names no features."""
INFLATED = 2.0
"""A feature is called inflated if its reported share is at least this many times its debiased share,"""
NOTABLE = 0.01
"""and exceeds it by more than this."""
NOTABLE_TOGETHER = 0.1
"""Features that exceed it by less are counted if they do so by more than this together."""
MOST_NAMED = 3
"""At most so many inflated features are named."""
_EXCESS = "more than 1 percentage point above it"


def summary(audit: Audit) -> list[str]:
    """Return the lines of ``Audit.summary``."""
    n_rows = audit.main.n_rows or 0
    rows = counted(n_rows, f"{audit.rows_in_words} row")
    lines = [f"Scored on {rows}: {audit.main.provenance['detail']}.", chance_in_words(audit)]
    if audit.reported is None:
        return lines
    if audit.main.rows == "train":
        return [
            *lines,
            "On training rows the scores are biased as the reported importance is, so they cannot say which features "
            "are ranked too high.",
        ]
    if n_rows < ROWS_TO_JUDGE:
        few = "1 row is" if n_rows == 1 else f"{n_rows} rows are"
        return [*lines, f"{few} too few to say which features are ranked too high."]
    return lines + _inflation(audit, audit.reported)


def chance_in_words(audit: Audit) -> str:
    """Return the sentence of ``Audit.chance_in_words``."""
    if not audit.tested:
        return f"No feature was tested: {audit.untested_because}."
    n_noise, n_features, n_rows = audit.verdict.count("indistinguishable"), audit.share.size, audit.main.n_rows
    rows = "with this 1 row" if n_rows == 1 else f"with these {n_rows:,} rows"
    share = ""
    if 0 < n_noise < n_features and audit.unsupported_share is not None and reports_anything(audit):
        they = "it has" if n_noise == 1 else "together they have"
        share = f"; {they} {percent(audit.unsupported_share)} of the reported importance"
    return f"{found_in_words(audit)} {rows}{share} ({procedure_in_words(audit)})."


def found_in_words(audit: Audit) -> str:
    """Return how many features are indistinguishable from noise, as a clause."""
    n_noise, n_features = audit.verdict.count("indistinguishable"), audit.share.size
    if n_noise == 0:
        return f"{all_are(n_features, 'feature')} informative"
    some = f"{n_noise:,} of {n_features:,} features {'is' if n_noise == 1 else 'are'}"
    return f"{all_are(n_features, 'feature') if n_noise == n_features else some} indistinguishable from noise"


def procedure_in_words(audit: Audit) -> str:
    """Return how it was tested, and from which z on a feature is found."""
    test: dict[str, Any] = audit.main.details.get("test", {})
    how = {
        "fwer": "family-wise error {}",
        "fdr": "false discovery rate {}",
        "fdr_by": "false discovery rate {} under any dependence",
        None: "error rate {} for each feature by itself",
    }[test.get("error")]
    told = [how.format(f"{100 * test['alpha']:g}%") if "alpha" in test else f"decided by {audit.main.scorer} itself"]
    if "n_permutations" in test:
        told.append(counted(test["n_permutations"], "permutation"))
    elif "method" in test:
        told.append(f"{test['method']} standard errors")
    limit = z_that_is_found(audit)
    if limit is None:
        return ", ".join(told)
    above = math.ceil(100 * limit) / 100  # rounded up, so that it is true of every z above
    return f"{', '.join(told)}; a feature with z above {above:.2f} is found"


def z_that_is_found(audit: Audit) -> float | None:
    """Return the z above which every feature is informative; None if that depends on the z of the others.

    Family-wise it is the minimum detectable z. By a false discovery rate of permutations a feature needs others with
    it, or more permutations.
    """
    test, threshold = audit.main.details.get("test", {}), audit.main.threshold
    alone = test.get("error") == "fwer" or (test.get("error") == "fdr" and test.get("method") != "permutation")
    return threshold if alone and threshold is not None and threshold >= 0 else None


def rank_in_words(values: NDArray[np.float64], k: int) -> str:
    """Return the rank of an entry, 1 the largest: "is ranked 3 of 12"; equal entries share the best rank of them."""
    rank, tied = 1 + int((values > values[k]).sum()), int((values == values[k]).sum()) > 1
    return f"{'shares rank' if tied else 'is ranked'} {rank:,} of {values.size:,}"


def in_words(share: float) -> str:
    """Return a share in words: none, next to none, or its figure."""
    return "no share at all" if share <= 0 else f"a share of {percent(share)}"


def reports_anything(audit: Audit) -> bool:
    """Whether the library reports an importance above 0 for any feature."""
    return audit.reported is not None and bool(audit.reported.any())


def headline(audit: Audit) -> str:
    """Return in a sentence how much of the reported importance is distinguishable from noise."""
    if audit.main.rows == "train":
        return "Scored on training rows: this audit cannot tell features from noise."
    if not audit.tested:
        return "Nothing was tested: this audit shows scores, and no verdicts."
    if audit.unsupported_share is None or not reports_anything(audit):
        return f"{found_in_words(audit)}."
    if "indistinguishable" not in audit.verdict:
        return "All of the reported importance falls on features that are distinguishable from noise."
    part = percent(audit.unsupported_share)
    part = {"0%": "None", "100%": "All"}.get(part, capital(part))
    return f"{part} of the reported importance falls on features that are indistinguishable from noise."


def _inflation(audit: Audit, reported: NDArray[np.float64]) -> list[str]:
    """Say which features have much more of the reported importance than of the debiased one."""
    if not reports_anything(audit):
        return ["The model reports an importance of 0 for every feature."]
    if not audit.share.any():  # of no importance at all there are no shares that could be smaller
        return ["No feature has a debiased score above 0, so there are no shares to compare the reported ones with."]
    share, names = audit.share, audit.main.feature_names
    doubled = (reported >= INFLATED * share) & (reported > 0)
    inflated = doubled & (reported - share > NOTABLE)
    largest = [k for k in np.argsort(share - reported, kind="stable") if inflated[k]]
    lines = [
        f"{shown(names[k])} {rank_in_words(reported, k)} by {audit.reported_kind} "
        f"({percent(reported[k])} of the reported importance); debiased it has {in_words(share[k])}."
        for k in largest[:MOST_NAMED]
    ]
    more = len(largest) - MOST_NAMED
    if more > 0:
        have = "feature has" if more == 1 else "features have"
        lines.append(f"{more:,} more {have} a reported share that is at least twice the debiased share and {_EXCESS}.")
    if not largest:
        lines.append(f"No feature has a reported share that is at least twice its debiased share and {_EXCESS}.")
    return lines + _slightly_inflated(audit, reported, doubled & ~inflated)


def _slightly_inflated(audit: Audit, reported: NDArray[np.float64], which: NDArray[np.bool_]) -> list[str]:
    """Say what many small excesses amount to, if they amount to anything."""
    total, debiased = float(reported[which].sum()), float(audit.share[which].sum())
    if total - debiased <= NOTABLE_TOGETHER:
        return []
    return [
        f"{which.sum():,} of {which.size:,} features have a reported share that is at least twice their debiased "
        f"share, but at most 1 percentage point above it; together they have {percent(total)} of the reported "
        f"importance, and debiased {in_words(debiased)}."
    ]
