"""The gate of a history: checks of what changed against the rules of a policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.changes import FADED, NOT_COMPARED, UNDETECTED, WEAKER
from debias.results.feature_likeness import alike, like
from debias.results.gate_outcome import Gate, Result
from debias.results.policy import ALL, HistoryPolicy
from debias.text import counted, listed, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from debias.results.changes import Changes
    from debias.results.policy import Feature

NAMED = 5
"""A reason names at most this many features."""
NO_ROWS = "no split has enough rows to compare"
AHEAD = timedelta(days=1)
"""A period may begin this much after now, because the clocks of machines and the zones of dates differ."""


def check(changes: Changes, policy: Any, now: datetime | None = None) -> Gate:
    """Check what changed in a history against a policy.

    Parameters
    ----------
    changes : Changes
    policy : HistoryPolicy, mapping of rules, or path of a TOML file
    now : datetime, optional
        The time that the age of the last period is measured at, with a zone; by default the present.

    Returns
    -------
    Gate

    Raises
    ------
    PolicyError
        The policy is wrong, or has rules for an audit.
    """
    rules = HistoryPolicy.of(policy)
    enough = list(_enough(changes, rules))
    too_few = next((result.reason for result in enough if result.status == "failed"), None)
    others = [_unless_too_few(result, too_few) for result in _others(changes, rules)]
    of_age = [] if rules.max_age_days is None else [_age(changes, rules.max_age_days, now)]
    return Gate((*enough, *of_age, *others), (), tuple(_warnings(changes, rules)))


def _enough(changes: Changes, rules: HistoryPolicy) -> Iterator[Result]:
    """Check whether there are enough periods and rows."""
    recent, reference = changes.recent, changes.reference
    for rule, limit, number, noun, where in (
        ("min_periods", rules.min_periods, recent.n_periods, "period", "in the recent window"),
        ("min_reference_periods", rules.min_reference_periods, reference.n_periods, "period", "to compare with"),
        ("min_rows", rules.min_rows, recent.n_rows, "row", "in the recent window"),
    ):
        if limit is not None:
            required = f"{'and' if number >= limit else 'but'} the policy requires {limit:,}"
            reason = f"{counted(number, noun)} {where}, {required}"
            yield Result(rule, _status(number >= limit), f"{number:,}", f">= {limit:,}", reason)


def _age(changes: Changes, limit: float, now: datetime | None) -> Result:
    """Check how old the last period of the model is."""
    rule, allowed, last = "max_age_days", f"<= {limit:g}", changes.last_period
    if last is None:
        return Result(rule, "failed", "none", allowed, "the periods have no dates or times, so they have no age")
    now = datetime.now(UTC) if now is None else now
    if last.tzinfo is None:
        now = now.astimezone().replace(tzinfo=None)  # local time
    age, reason = now - last, f"the last period is {last.isoformat(' ', 'seconds')}"
    if age < -AHEAD:
        return Result(rule, "failed", "in the future", allowed, f"{reason}: correct its date")
    days = max(age / timedelta(days=1), 0.0)
    shown_days = f"{ceil(100 * days) / 100:g}"  # rounded up, so that an age above the limit is seen to be above it
    return Result(rule, _status(days <= limit), shown_days, allowed, reason)


def _others(changes: Changes, rules: HistoryPolicy) -> Iterator[Result]:
    if rules.must_not_fade is not None:
        yield from _named("must_not_fade", rules.must_not_fade, changes)
    if rules.must_not_shift is not None:
        yield from _named("must_not_shift", rules.must_not_shift, changes)
    if rules.max_shift is not None:
        yield _largest_shift(changes, rules.max_shift)


def _named(rule: str, features: str | tuple[Feature, ...], changes: Changes) -> Iterator[Result]:
    """Check a rule for each feature that it names, or for all at once."""
    of_one = _fades if rule == "must_not_fade" else _shifts
    wanted = "not weaker" if rule == "must_not_fade" else "not shifted"
    if not changes.compared:
        names = [rule] if isinstance(features, str) else [f"{rule}: {feature.name}" for feature in features]
        for name in names:
            yield Result(name, "failed", NOT_COMPARED, wanted, str(changes.not_compared_because))
        return
    if isinstance(features, str):
        yield _all(rule, wanted, changes)
        return
    for feature in features:
        if feature.name in changes.feature_names:
            status, value, reason = of_one(changes, changes.feature_names.index(feature.name))
            yield Result(f"{rule}: {feature.name}", status, value, wanted, reason)
            continue
        near = [repr(name) for name in like(feature.name, changes.feature_names)]
        reason = "the model has no such feature" + (f", but it has {listed(near, NAMED)}" if near else "")
        if not feature.optional:
            reason += "; to accept a model without it, write {name = ..., optional = true}"
        yield Result(f"{rule}: {feature.name}", _status(feature.optional), "not in the model", wanted, reason)


def _all(rule: str, wanted: str, changes: Changes) -> Result:
    """Check a rule for all features: those that can fade are the ones that were informative."""
    fades = rule == "must_not_fade"
    judged = np.flatnonzero(changes.figures["informative_before"] if fades else np.isfinite(changes.figures["shift"]))
    results = {int(k): (_fades if fades else _shifts)(changes, int(k)) for k in judged}
    by_status = {
        status: [k for k in results if results[k][0] == status] for status in ("failed", "not judged", "passed")
    }
    if not results:
        nothing = "no feature was distinguishable from noise in the reference window, so none can fade"
        return Result(rule, "failed", "none", wanted, nothing if fades else NO_ROWS)
    status = next(status for status in by_status if by_status[status])
    n_not = len(results) - len(by_status["passed"])
    if status == "passed":
        reason = f"compared {counted(len(results), 'informative feature' if fades else 'feature')}"
        reason += "" if fades else _not_told(changes)
    else:
        reason = listed([f"{shown(changes.feature_names[k])}: {results[k][2]}" for k in by_status[status]], NAMED)
    return Result(rule, status, f"{n_not:,} of {len(results):,}", f"0 ({wanted})", reason)


def _fades(changes: Changes, k: int) -> tuple[str, str, str]:
    """Return status, value and reason for whether a feature became weaker."""
    figures, verdict = changes.figures, changes.verdict[k]
    evidence = (
        f"score {figures['before'][k]:.3g} before, {figures['after'][k]:.3g} recently; change of the response "
        f"{figures['response_change'][k]:.3g}, adjusted p = {figures['p_adjusted'][k]:.3g}"
    )
    if verdict == NOT_COMPARED:
        return "failed", verdict, "its change could not be tested"
    if verdict in (FADED, WEAKER):
        return "failed", verdict, evidence
    if not figures["informative_before"][k]:
        return "failed", verdict, f"it was not distinguishable from noise before, so it cannot fade; {evidence}"
    if verdict == UNDETECTED:
        return "not judged", verdict, f"the recent window may have too few rows to show it; {evidence}"
    return "passed", verdict, evidence


def _shifts(changes: Changes, k: int) -> tuple[str, str, str]:
    """Return status, value and reason for whether the rows shifted at the splits on a feature."""
    size, p_adjusted = changes.figures["shift"][k], changes.figures["shift_p_adjusted"][k]
    if np.isnan(size) or np.isnan(p_adjusted):
        return "failed", "none", NO_ROWS
    reason = f"effect size {size:.2f}, adjusted p = {p_adjusted:.3g}"
    if changes.figures["shifted"][k]:
        split = f"; the split that differs most is {shown(changes.splits[k])}" if changes.splits[k] else ""
        return "failed", "shifted", reason + split
    return "passed", "no shift detected", reason


def _largest_shift(changes: Changes, limit: float) -> Result:
    rule, allowed = "max_shift", f"<= {limit:g}"
    if not changes.compared:
        return Result(rule, "failed", NOT_COMPARED, allowed, str(changes.not_compared_because))
    size, shifted = changes.figures["shift"], changes.figures["shifted"]
    if np.isnan(size).all():
        return Result(rule, "failed", "none", allowed, NO_ROWS)
    # As in an audit, a difference that may be chance is none.
    beyond_chance = np.where(shifted, size, 0.0)
    k = int(np.argmax(beyond_chance))
    reason = f"the splits divide the rows of both windows alike, within chance{_not_told(changes)}"
    if shifted.any():
        names = [shown(changes.feature_names[j]) for j in np.argsort(-beyond_chance) if shifted[j]]
        reason = f"splits on {listed(names, NAMED)} divide the recent rows differently (effect size w)"
    return Result(rule, _status(beyond_chance[k] <= limit), f"{beyond_chance[k]:.2f}", allowed, reason)


def _not_told(changes: Changes) -> str:
    """Return a clause about features that were not compared."""
    names = [shown(changes.feature_names[k]) for k in np.flatnonzero(np.isnan(changes.figures["shift"]))]
    return f"; too few rows at the splits on {listed(names, NAMED)} to compare" if names else ""


def _unless_too_few(result: Result, too_few: str | None) -> Result:
    """Return a result that passed as not judged if there are too few periods or rows."""
    if too_few is None or result.status != "passed" or result.value == "not in the model":
        return result
    return Result(result.rule, "not judged", result.value, result.limit, f"too few to judge: {too_few}")


def _warnings(changes: Changes, rules: HistoryPolicy) -> Iterator[str]:
    """Yield what fails no rule but a reader must know even if the gate passed."""
    if not changes.compared:
        yield f"nothing was compared: {changes.not_compared_because}"
    yield from changes.warnings
    for rule in ("must_not_fade", "must_not_shift"):
        features = getattr(rules, rule)
        for feature in () if features in (None, ALL) else features:
            if feature.optional and feature.name not in changes.feature_names:
                near = [repr(name) for name in alike(feature.name, changes.feature_names)]
                if near:
                    yield (
                        f"{rule}: the model has no feature {feature.name!r}, which is optional, but it has "
                        f"{listed(near, NAMED)}: is that the same feature?"
                    )
    if rules.max_shift is not None and rules.max_shift >= 2:
        yield f"max_shift = {rules.max_shift:g} sets no limit"


def _status(passed: bool) -> str:
    return "passed" if passed else "failed"
