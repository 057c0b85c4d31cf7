"""Sentences about an audit: which features are informative, and which the model ranks too high.

Every sentence must be true of the table. The tests recompute each sentence from the figures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results import untested
from debias.results.scores import DEPENDENCE, LIKE_TRAINING
from debias.text import all_are, capital, counted, percent, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit

ROWS_TO_JUDGE = 30
"""With fewer rows than this, the summary names no inflated features."""
INFLATED = 2.0
"""A feature is inflated if its reported share is at least this many times its debiased share,"""
NOTABLE = 0.01
"""and if its reported share is larger by more than this."""
NOTABLE_TOGETHER = 0.1
"""Smaller excesses are mentioned only if their sum is larger than this."""
MOST_NAMED = 3
"""The summary names at most this many inflated features."""
_EXCESS = "more than 1 percentage point above it"


def summary(audit: Audit) -> list[str]:
    """Return the sentences of ``Audit.summary``."""
    n_rows = audit.main.n_rows or 0
    rows = counted(n_rows, f"{audit.rows_in_words} row")
    lines = [f"Scored on {rows}: {audit.main.provenance['detail']}.", test_summary(audit)]
    if untested.tell_nothing(audit.main):
        return [*reversed(lines), "The scores and shares of these rows say nothing about the features."]
    lines += _dependence(audit)
    if audit.reported is None:
        return lines
    if audit.main.rows == "train":
        return [
            *lines,
            "On training rows the scores have the same bias as the reported importance, so they cannot show which "
            "features are ranked too high.",
        ]
    if n_rows < ROWS_TO_JUDGE:
        too_few = "1 row is" if n_rows == 1 else f"{n_rows} rows are"
        return [*lines, f"{too_few} too few to say which features are ranked too high."]
    return lines + _inflation(audit, audit.reported)


def test_summary(audit: Audit) -> str:
    """Return the sentences of ``Audit.test_summary``."""
    if not audit.tested:
        return f"No feature was tested: {audit.untested_because}."
    n_noise, n_features, n_rows = audit.verdict.count("indistinguishable"), audit.share.size, audit.main.n_rows
    rows = "this 1 row" if n_rows == 1 else f"these {n_rows:,} rows"
    sentences = [f"{verdict_count(audit)} on {rows}{condition(audit, named=True)}."]
    if 0 < n_noise < n_features and audit.unsupported_share is not None and reports_anything(audit):
        they = "It has" if n_noise == 1 else "Together they have"
        sentences.append(f"{they} {percent(audit.unsupported_share)} of the reported importance.")
    sentences.append(f"Test: {test_description(audit)}.")
    return " ".join(sentences)


def verdict_count(audit: Audit) -> str:
    """Return how many features are indistinguishable from noise, as a sentence without its full stop."""
    n_noise, n_features = audit.verdict.count("indistinguishable"), audit.share.size
    if n_noise == 0:
        return f"{all_are(n_features, 'feature')} informative"
    some = f"{n_noise:,} of {n_features:,} features {'is' if n_noise == 1 else 'are'}"
    return f"{all_are(n_features, 'feature') if n_noise == n_features else some} indistinguishable from noise"


def condition(audit: Audit, *, named: bool) -> str:
    """Return the clause for held-out rows that may be training rows; `named` if the sentence has named the rows."""
    if audit.main.unproven_because is None:
        return ""
    like_training = audit.main.provenance["status"] == LIKE_TRAINING
    if audit.main.n_rows == 1:
        row = "it" if named else "the row"
        return f", but {row} looks like a training row" if like_training else f", if {row} is not a training row"
    if like_training:
        return f", but {'they' if named else 'the rows'} look like training rows"
    return f", if none of {'them' if named else 'the rows'} is a training row"


def test_description(audit: Audit) -> str:
    """Return the method and error rate of the test, and the z above which every feature is informative."""
    test: dict[str, Any] = audit.main.details.get("test", {})
    error_rate = {
        "fwer": "family-wise error rate {}",
        "fdr": "false discovery rate {}",
        "fdr_by": "false discovery rate {} under any dependence",
        None: "error rate {} per feature, not adjusted for multiple testing",
    }[test.get("error")]
    parts = []
    if "n_permutations" in test:
        pooled = " of all features together" if test.get("pooled") else ""
        parts.append(counted(test["n_permutations"], "permutation") + pooled)
    elif test.get("method") == "mirror":
        parts.append("null distribution of mirrored scores")
    elif "method" in test:
        parts.append(f"{test['method']} standard errors")
    if "alpha" in test:
        parts.append(error_rate.format(f"{100 * test['alpha']:g}%"))
    else:
        parts.append(f"decision rule of {audit.main.scorer}")
    limit = sufficient_z(audit)
    if limit is None:
        return ", ".join(parts)
    above = math.ceil(100 * limit) / 100  # rounded up, so that it is true of every z above
    return f"{', '.join(parts)}; every feature with z above {above:.2f} is informative"


def sufficient_z(audit: Audit) -> float | None:
    """Return the z above which every feature is informative; None if that depends on the z of other features.

    For the family-wise error rate it is the minimum detectable z. For a false discovery rate with permutations, one
    feature alone is not enough: it takes several features with high z, or more permutations.
    """
    test, threshold = audit.main.details.get("test", {}), audit.main.threshold
    alone = test.get("error") == "fwer" or (test.get("error") == "fdr" and "n_permutations" not in test)
    return threshold if alone and threshold is not None and threshold >= 0 else None


def rank_of(values: NDArray[np.float64], k: int) -> str:
    """Return the rank of entry `k`, 1 for the largest: "rank 3 of 12". Equal entries share the best of their ranks."""
    rank, tied = 1 + int((values > values[k]).sum()), int((values == values[k]).sum()) > 1
    return f"{'tied for rank' if tied else 'rank'} {rank:,} of {values.size:,}"


def reports_anything(audit: Audit) -> bool:
    """Return whether the library reports an importance above 0 for any feature."""
    return audit.reported is not None and bool(audit.reported.any())


def headline(audit: Audit) -> str:
    """Return in one sentence which share of the reported importance is indistinguishable from noise."""
    if audit.main.rows == "train":
        return "Scored on training rows: this audit cannot show which features are more than noise."
    if untested.tell_nothing(audit.main):
        return "No feature was tested: these rows can tell nothing about the features."
    if not audit.tested:
        return "No feature was tested: this audit shows scores but no verdicts."
    held_if = condition(audit, named=False)
    if audit.unsupported_share is None or not reports_anything(audit):
        return f"{verdict_count(audit)}{held_if}."
    if "indistinguishable" not in audit.verdict:
        return f"All of the reported importance belongs to informative features{held_if}."
    part = percent(audit.unsupported_share)
    part = {"0%": "None", "100%": "All"}.get(part, capital(part))
    return f"{part} of the reported importance belongs to features that are indistinguishable from noise{held_if}."


def _dependence(audit: Audit) -> list[str]:
    """Return what the combined test found, and the features that the model does not use although y depends on them."""
    dependence, names = audit.dependence, audit.main.feature_names
    if dependence is None or not audit.tested:
        return []
    if "untested" in dependence:
        return [f"Dependence was not tested: {untested.reason_of(audit.scores[DEPENDENCE])}."]
    dependent = [name for name, found in zip(names, dependence, strict=True) if found == "dependent"]
    if not dependent:
        return ["The combined test found no feature that the response depends on."]
    count = "the only feature" if len(names) == 1 else f"{len(dependent):,} of {len(names):,} features"
    sentence = f"The response depends on {count} (combined test, the same error rate)"
    verdict = dict(zip(names, audit.verdict, strict=True))
    unused = [name for name in dependent if verdict[name] == "indistinguishable"]
    if not unused:
        return [f"{sentence}."]
    named = ", ".join(shown(name) for name in unused[:MOST_NAMED])
    more = f" and {len(unused) - MOST_NAMED:,} more" if len(unused) > MOST_NAMED else ""
    them = "One of them is" if len(unused) == 1 else f"{len(unused):,} of them are"
    return [f"{sentence}. {them} indistinguishable from noise in this model, which makes little use of {named}{more}."]


def _inflation(audit: Audit, reported: NDArray[np.float64]) -> list[str]:
    """Return sentences about the features whose reported share is much larger than their debiased share."""
    if not reports_anything(audit):
        return ["The model reports an importance of 0 for every feature."]
    if not audit.share.any():  # then there are no debiased shares that could be smaller
        return ["No feature has a debiased score above 0, so there are no debiased shares to compare with."]
    share, names = audit.share, audit.main.feature_names
    doubled = (reported >= INFLATED * share) & (reported > 0)
    inflated = doubled & (reported - share > NOTABLE)
    largest_first = [k for k in np.argsort(share - reported, kind="stable") if inflated[k]]
    lines = [
        f"{shown(names[k])} has {percent(reported[k])} of the reported importance ({rank_of(reported, k)} by "
        f"{audit.reported_kind}), but {percent(share[k])} after debiasing."
        for k in largest_first[:MOST_NAMED]
    ]
    n_unnamed = len(largest_first) - MOST_NAMED
    if n_unnamed > 0:
        have = "feature has" if n_unnamed == 1 else "features have"
        lines.append(
            f"{n_unnamed:,} more {have} a reported share that is at least twice the debiased share and {_EXCESS}."
        )
    if not largest_first:
        lines.append(f"No feature has a reported share that is at least twice its debiased share and {_EXCESS}.")
    return lines + _slightly_inflated(audit, reported, doubled & ~inflated)


def _slightly_inflated(audit: Audit, reported: NDArray[np.float64], slight: NDArray[np.bool_]) -> list[str]:
    """Return a sentence about many small excesses if their sum is notable."""
    total, debiased = float(reported[slight].sum()), float(audit.share[slight].sum())
    if total - debiased <= NOTABLE_TOGETHER:
        return []
    return [
        f"{slight.sum():,} of {slight.size:,} features have a reported share that is at least twice their debiased "
        f"share, but at most 1 percentage point above it. Together they have {percent(total)} of the reported "
        f"importance, but {percent(debiased)} after debiasing."
    ]
