"""How many rows an audit needs to find an effect: :meth:`debias.Audit.rows_needed`.

The statistic z of a feature grows with the square root of the number of rows, whichever test made it, and the feature
is found if z is above the critical z of the audit. So the audit itself shows how z depends on the effect s, the score
as a share of the variance of y, and on the number n of rows::

    z^2 = n s^2 / (a + b s)

a / n is the squared standard error of the score of a feature of no use, and b s / n what the effect itself adds, since
the contributions of rows grow with it. Both are estimated from the features of the audit. The critical z is that of the
step of the step-down at which the feature comes: features with larger effects have been found, and leave the test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from debias.errors import CompositionError, DebiasError
from debias.results import sentences, untested
from debias.results.vocabulary import RESPONSE_VARIANCE, RowsKind, Verdict
from debias.text import percent, rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from debias.results.audit import Audit

STEP, CLOSE = 0.98, 1e-9
"""The least effect is looked for in steps of this ratio, and then to this precision."""
DIGITS = 2
"""A plan is no more precise than this many digits."""


@dataclass(frozen=True, kw_only=True)
class RowsNeeded:
    """How many rows find an effect. As text it is a sentence.

    Parameters
    ----------
    effect : float
        Score of a feature, as a share of the variance of y.
    power : float
        Probability with which it is found.
    rows : int
        Number of rows (of blocks, if the rows were in blocks) that find `effect`.
    least_effect : float
        The least effect that the rows of the audit find with this probability.
    n_rows : int
        Number of rows (of blocks) of the audit.
    blocks : bool
        Whether rows were in blocks.
    critical : float
        The z above which a feature with `effect` is found.
    out_of_bag : bool
        Whether the rows of the audit are out-of-bag rows: others then make another model.
    """

    effect: float
    power: float
    rows: int
    least_effect: float
    n_rows: int
    blocks: bool
    critical: float
    out_of_bag: bool = False

    def __str__(self) -> str:
        unit = "blocks" if self.blocks else "rows"
        least = (
            f"an effect of {_percent(self.least_effect)} of the variance is"
            if self.least_effect < 1
            else "no effect is"
        )
        fewer = (
            " A forest of fewer rows than these learns less, so that it needs more for a strong effect."
            if self.out_of_bag and self.rows < self.n_rows
            else ""
        )
        return (
            f"With these {self.n_rows:,} {unit} {least} found with probability {self.power:g}; for "
            f"{_percent(self.effect)} you need about {rounded_up(self.rows, DIGITS):,} {unit}.{fewer}"
        )


def rows_needed(audit: Audit, effect: float, power: float) -> RowsNeeded:
    """Return how many rows find an effect.

    Parameters
    ----------
    audit, effect, power
        As for :meth:`debias.Audit.rows_needed`.

    Raises
    ------
    CompositionError, DebiasError
        As for :meth:`debias.Audit.rows_needed`.
    """
    from scipy.special import ndtri

    for name, value in (("effect", effect), ("power", power)):
        real = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not real or not 0 < value < 1:
            raise CompositionError(f"{name} must be between 0 and 1, not {value!r}")
    variance, threshold = _required(audit)
    scores, test = audit.tested_scores, audit.tested_scores.details["test"]
    n, quantile = int(test["n_independent"]), float(ndtri(power))
    a, slope = _of_noise_and_effect(audit, n, variance)

    def needed_z(effect: float) -> float:
        """Return the z that finds an effect: it is tested together with the features that have smaller scores."""
        alpha, n_features = float(test["alpha"]), scores.values.size
        n_left = min(1 + int((scores.values < effect * variance).sum()), n_features)
        return threshold * float(ndtri(alpha / n_left) / ndtri(alpha / n_features)) + quantile

    def needed_rows(effect: float) -> float:
        return needed_z(effect) ** 2 * (a + slope(effect) * effect) / effect**2

    if needed_z(0.0) <= 0:
        raise CompositionError(f"power={power!r} is no more than what chance finds at the error rate of this audit")
    rows = math.ceil(needed_rows(effect))
    return RowsNeeded(
        effect=float(effect),
        power=float(power),
        rows=rows,
        least_effect=_least_effect(needed_rows, n),
        n_rows=n,
        blocks=bool(test["blocks"]),
        critical=needed_z(effect) - quantile,
        out_of_bag=scores.rows == RowsKind.OOB,
    )


def _required(audit: Audit) -> tuple[float, float]:
    """Return the variance of y and the critical z; raise a DebiasError with the reason if one of them is not known."""
    if audit.untested_because is not None:
        raise DebiasError(f"rows cannot be planned: {audit.untested_because}")
    if audit.tested_scores.rows == RowsKind.TRAIN:
        raise DebiasError("rows cannot be planned from training rows: audit rows that the model has not seen")
    untested.refuse_powerless(audit.tested_scores.details.get("test", {}))
    critical = sentences.sufficient_z(audit)
    if critical is None:
        raise DebiasError(
            "rows cannot be planned: the z that a feature must exceed depends on the z of the others, or is not known. "
            "Audit with a family-wise error rate, such as error_rate=0.05, and with enough permutations"
        )
    if audit.tested_scores.standard_error is None:
        raise DebiasError(
            "rows cannot be planned: the scores have no standard errors, so the noise is not known. Audit rows that "
            "the model has not seen, in memory"
        )
    variance = audit.tested_scores.details.get(RESPONSE_VARIANCE)
    if not variance:
        raise DebiasError(
            "rows cannot be planned: these scores are not shares of a variance of y. They are for forests of numbers "
            "and classes, and for boosted models of the squared error and of the log loss, with rows in memory"
        )
    return float(variance), critical


def _least_effect(needed_rows: Callable[[float], float], n: int) -> float:
    """Return the least effect from which on all effects need at most n rows; 1 if there is none."""
    if needed_rows(1.0) > n:
        return 1.0
    found = 1.0
    while needed_rows(found * STEP) <= n:
        found *= STEP
    missed = found * STEP
    while found - missed > CLOSE * found:
        middle = (found + missed) / 2
        found, missed = (middle, missed) if needed_rows(middle) <= n else (found, middle)
    return found


def _of_noise_and_effect(audit: Audit, n: int, variance: float) -> tuple[float, Callable[[float], float]]:
    """Return a, and b of an effect, see above.

    a is the median over the used features that were not found, and 0 if there are none. b is the median, over the found
    ones, of what they have beyond a in ratio to their effects. Strong effects vary more: an effect above the median one
    has what those beside it have, if this is larger, interpolated on the scale of log effects. If none was found, b is
    1: the contributions of rows to a score are products of an effect and a deviation of y, whose variance is at most
    that of y.
    """
    scores = audit.tested_scores
    assert scores.standard_error is not None
    assert scores.z is not None
    effects, error = scores.values / variance, scores.standard_error / variance
    used, found = error > 0, audit.which(Verdict.INFORMATIVE) & (scores.values > 0)
    if not used.any():
        raise DebiasError("rows cannot be planned: the model splits on no feature that varies in these rows")
    noise = used & ~audit.which(Verdict.INFORMATIVE)
    a = float(np.median(n * error[noise] ** 2)) if noise.any() else 0.0
    if not found.any():
        return a, lambda _: 1.0
    of_found = effects[found]
    beyond = np.maximum(n * (of_found / scores.z[found]) ** 2 - a, 0.0) / of_found
    b = float(np.median(beyond))
    if a == b == 0:
        return 0.0, lambda _: 1.0
    middle, order = np.median(of_found), np.argsort(of_found, kind="stable")
    stronger = order[of_found[order] > middle]
    at, of = np.log([middle, *of_found[stronger]]), np.array([b, *np.maximum(beyond[stronger], b)])
    return a, lambda effect: float(np.interp(math.log(effect), at, of))


def _percent(share: float) -> str:
    return percent(share, max(1, -math.floor(math.log10(share)) - 2 + DIGITS - 1))
