"""What an audit says, in sentences: which features the library ranks too high, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.audits import Audit

ROWS_TO_JUDGE = 30
"""With fewer rows the summary names no features."""
INFLATED = 2.0
"""A feature is called inflated if its reported share is at least this many times its debiased share,"""
NOTABLE = 0.01
"""and exceeds it by more than this."""


def summary(audit: Audit) -> list[str]:
    """Return the lines of ``Audit.summary``."""
    lines = [f"Scored on {audit.main.n_rows} {audit.rows_in_words} rows: {audit.main.provenance['detail']}."]
    if audit.tested:
        lines.append(chance_in_words(audit))
    if audit.reported is None:
        return lines
    if audit.main.n_rows is not None and audit.main.n_rows < ROWS_TO_JUDGE:
        return [*lines, f"{audit.main.n_rows} rows are too few to say which features are ranked too high."]
    rank = _ranks(audit.reported)
    excess = audit.reported - audit.share
    names = audit.main.feature_names
    inflated = (audit.reported >= INFLATED * audit.share) & (excess > NOTABLE)
    notable = [k for k in np.argsort(-excess, kind="stable") if inflated[k]][:3]
    lines += [
        f"{names[k]} is ranked {rank[k]} of {len(names)} by {audit.reported_kind} "
        f"({audit.reported[k]:.1%} of the reported importance); debiased it has {in_words(audit.share[k])}."
        for k in notable
    ]
    if not notable:
        lines.append(f"No feature's share of {audit.reported_kind} is twice its debiased share.")
    return lines


def chance_in_words(audit: Audit) -> str:
    """Return the sentence of ``Audit.chance_in_words``."""
    if not audit.tested:
        return "Nothing was tested."
    test, n_noise = audit.main.details["test"], audit.verdict.count("indistinguishable")
    error = "family-wise error" if test["error"] == "fwer" else "false discovery rate"
    how = f"{test['n_permutations']} permutations" if "n_permutations" in test else f"{test['se']} standard errors"
    reach = (
        "" if audit.main.threshold is None else f"; a single feature is found from z = {audit.main.threshold:.1f} on"
    )
    share = "" if audit.unsupported_share is None else f" with {audit.unsupported_share:.1%} of the reported importance"
    return (
        f"These {audit.main.n_rows} rows cannot tell {n_noise} of {audit.share.size} features{share} from noise "
        f"({error} {100 * test['alpha']:g}%, {how}{reach})."
    )


def in_words(share: float) -> str:
    """Return a share in words: none, next to none, or its figure."""
    if share <= 0:
        return "no share at all"
    return "a share of less than 0.1%" if share < 0.001 else f"a share of {share:.1%}"


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return ranks from 1, the largest first; ties by position."""
    rank = np.empty(values.size, dtype=np.int64)
    rank[np.argsort(-values, kind="stable")] = np.arange(1, values.size + 1)
    return rank
