"""The gate of a history: checks of what changed against the rules of a policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import PolicyError
from debias.results.any_look import NOT_AT_ANY_LOOK
from debias.results.change_sentences import that_moved, windows_in_words
from debias.results.gate_of_loss import RULE as RULE_OF_LOSS
from debias.results.gate_of_loss import result_of_loss
from debias.results.gate_outcome import (
    NAMED,
    Gate,
    Result,
    but_it_has,
    result_of_absent,
    result_of_repeated,
    result_of_unseen,
    warnings_of_absent,
)
from debias.results.policy import ALL, HistoryPolicy
from debias.results.vocabulary import ChangeVerdict, GateStatus, Verdict
from debias.results.windows import why_not_judged
from debias.text import counted, escaped, few_digits, listed, named_together, percent, told_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from debias.results.changes import Changes
    from debias.results.policy import Feature

RULE_OF_PAIRS = "pairs_must_not_fade"
NO_ROWS = "no split has enough rows to compare"
NO_SPLITS = "no tree splits on it"
WITHOUT_SPLITS = "the model has no splits"
Judged = tuple[GateStatus, str, str]
"""Status, value and reason of a rule for one feature."""
LONGER_WINDOW = "judged in the last"
NOT_COUNTED = "were not counted in all periods: an earlier version of debias added some of them"
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
    if rules.reference is not None and str(rules.reference) != changes.reference_given:
        raise PolicyError(
            f"the policy compares with reference = {rules.reference!r}, and these changes with "
            f"{changes.reference_given or 'another one'}: pass reference= to History.changes, or use History.check"
        )
    enough = list(_enough(changes, rules))
    too_few = next((result.reason for result in enough if result.status is GateStatus.FAILED), None)
    others = [_unless_too_few(_unless_predicted(result, changes), too_few) for result in _others(changes, rules)]
    last, waits = changes.last_waiting or changes.last_period, changes.last_waiting is not None
    of_age = [] if rules.max_age_days is None else [result_of_age(last, rules.max_age_days, now, waits)]
    return Gate(
        (*enough, *of_age, *others),
        (),
        tuple(_warnings(changes, rules)),
        checked=" ".join(windows_in_words(changes)),
        command="debias monitor check",
    )


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
            yield Result.of(rule, number >= limit, f"{number:,}", f">= {limit:,}", reason)


def result_of_age(last: datetime | None, limit: float, now: datetime | None = None, waits: bool = False) -> Result:
    """Check how old the last period of a model is, which may wait for its responses; it has no age if it is None."""
    rule, allowed = "max_age_days", f"<= {limit:g}"
    if last is None:
        return Result(
            rule, GateStatus.FAILED, "none", allowed, "the periods have no dates or times, so they have no age"
        )
    now = datetime.now(UTC) if now is None else now
    if last.tzinfo is None:
        now = now.astimezone().replace(tzinfo=None)  # local time
    waiting = " (it waits for its responses)" if waits else ""
    age, reason = now - last, f"the last period is {last.isoformat(' ', 'seconds')}{waiting}"
    if age < -AHEAD:
        return Result(rule, GateStatus.FAILED, "in the future", allowed, f"{reason}: correct its date")
    days = max(age / timedelta(days=1), 0.0)
    shown_days = f"{ceil(100 * days) / 100:g}"  # rounded up, so that an age above the limit is seen to be above it
    return Result.of(rule, days <= limit, shown_days, allowed, reason)


def _others(changes: Changes, rules: HistoryPolicy) -> Iterator[Result]:
    for rule, limit, of in (("max_unseen", rules.max_unseen, _unseen), ("max_repeated", rules.max_repeated, _repeated)):
        if limit is not None:
            yield of(changes, limit) if changes.compared else _not_compared(rule, changes, f"<= {limit:g}")
    if rules.must_not_be_biased:
        yield _biased(changes)
    if rules.max_loss_increase is not None:
        yield _loss(changes, rules.max_loss_increase)
    if rules.max_shift is not None:
        yield _largest_shift(changes, rules.max_shift)
    if rules.must_not_shift is not None:
        yield from _named("must_not_shift", rules.must_not_shift, changes)
    if rules.must_not_fade is not None:
        yield from _named("must_not_fade", rules.must_not_fade, changes)
    if rules.pairs_must_not_fade is not None:
        yield from _named_pairs(rules.pairs_must_not_fade, changes)


def _unseen(changes: Changes, limit: float) -> Result:
    share = changes.statistics["unseen_after"]
    shares = None if np.isnan(share).any() else dict(zip(changes.feature_names, map(float, share), strict=True))
    return result_of_unseen(shares, limit, "recent rows", NOT_COUNTED)


def _repeated(changes: Changes, limit: float) -> Result:
    before, recent = changes.repeated
    known = "" if np.isnan(before) else f"; before, {percent(before)}"
    which = "the recent rows repeat another row of the same period"
    return result_of_repeated(None if np.isnan(recent) else recent, limit, which, NOT_COUNTED, known)


def _biased(changes: Changes) -> Result:
    """Check whether the mean residual of the recent periods is that of the reference."""
    rule, wanted = "must_not_be_biased", "same mean residual"
    if not changes.compared:
        return _not_compared(rule, changes, wanted)
    mean = next((each for each in changes.means if each.of == "residual"), None)
    if mean is None or np.isnan(mean.p_value):
        reason = why_not_judged("residual", changes.reference.n_periods, changes.warnings)
        return Result(rule, GateStatus.NOT_JUDGED, "none", wanted, reason)
    since = "" if mean.since is None else f", of all periods since {escaped(mean.since)}"
    reason = f"{mean.name} {mean.in_words} (p = {mean.p_value:.3g}{since})"
    if mean.changed:
        return Result(rule, GateStatus.FAILED, "changed", wanted, f"{reason}{mean.at_most}")
    return Result(rule, GateStatus.PASSED, ChangeVerdict.UNCHANGED, wanted, reason)


def _loss(changes: Changes, limit: float) -> Result:
    """Check whether the loss rose by more than a limit, beyond chance, and name the features that cost more."""
    allowed, found = f"<= {limit:g}", changes.loss
    if not changes.compared:
        return _not_compared(RULE_OF_LOSS, changes, allowed)
    if found is None:
        return Result(RULE_OF_LOSS, GateStatus.NOT_JUDGED, "none", allowed, str(changes.no_loss_because))
    named = [f"{escaped(found.feature_names[k])}{found.cost_in_words(int(k))}" for k in found.costs_more]
    by = f"; more than before cost {listed(named, NAMED)}" if named else "; no single feature by more than chance"
    causes = [f"{escaped(cause.feature)} ({cause.kind.text})" for cause in found.causes]
    by += f"; causes: {listed(causes, NAMED)}" if causes else ""
    by += "; explained by a mean response that moved" if found.level_moved and found.explained and not causes else ""
    return result_of_loss(
        found.metric,
        found.loss,
        limit,
        found.level,
        ends=("before", "recently"),
        few="too few periods to tell what is chance",
        causes=f"{by}; the base {found.loss.part_in_words(found.base.change)}",
        lacking=changes.no_loss_because,
    )


def _named(rule: str, features: str | tuple[Feature, ...], changes: Changes) -> Iterator[Result]:
    """Check a rule for each feature that it names, or for all at once."""
    of_one = _fades if rule == "must_not_fade" else _shifts
    wanted = "not weaker" if rule == "must_not_fade" else "not shifted"
    if not changes.compared:
        names = [rule] if isinstance(features, str) else [f"{rule}: {feature.name}" for feature in features]
        for name in names:
            yield _not_compared(name, changes, wanted)
        return
    if isinstance(features, str):
        yield _all(rule, wanted, changes)
        return
    for feature in features:
        if feature.name in changes.feature_names:
            status, value, reason = of_one(changes, changes.feature_names.index(feature.name))
            yield Result(f"{rule}: {feature.name}", status, value, wanted, reason)
            continue
        yield result_of_absent(f"{rule}: {feature.name}", feature, changes.feature_names, wanted)


def _all(rule: str, wanted: str, changes: Changes) -> Result:
    """Check a rule for all features: those that were informative can fade, and rows can shift where trees split."""
    fades = rule == "must_not_fade"
    number = np.flatnonzero(changes.statistics["informative_before" if fades else "used"])
    results = {int(k): (_fades if fades else _shifts)(changes, int(k)) for k in number}
    if not results:
        nothing = "no feature was distinguishable from noise in the reference window, so none can fade"
        because = nothing if changes.statistics["used"].any() else WITHOUT_SPLITS
        return Result(rule, GateStatus.NOT_JUDGED, "none", wanted, because)
    status = _worst(results)
    n_not = sum(result[0] is not GateStatus.PASSED for result in results.values())
    reason = _reasons(changes, results, status)
    if status is GateStatus.PASSED:
        reason = (
            f"compared {counted(len(results), f'{Verdict.INFORMATIVE.text} feature' if fades else 'feature')}{reason}"
        )
    return Result(rule, status, f"{n_not:,} of {len(results):,}", f"0 ({wanted})", reason)


def _named_pairs(asked: str | tuple[tuple[str, str], ...], changes: Changes) -> Iterator[Result]:
    """Check whether the response to what the model does with two features together became weaker."""
    wanted, found = "not weaker", changes.pairs
    if not changes.compared:
        rules = [RULE_OF_PAIRS] if isinstance(asked, str) else [_rule_of(pair) for pair in asked]
        yield from (_not_compared(rule, changes, wanted) for rule in rules)
        return
    pairs = asked if not isinstance(asked, str) else () if found is None else found.informative_before
    if not pairs:
        if changes.any_look is not None:
            reason = f"not judged at any look: {NOT_AT_ANY_LOOK}"
        elif found is None:
            reason = "no period of these windows has sums for pairs: name them when rows are added"
        else:
            reason = found.not_tested_because or (
                "no pair was distinguishable from noise in the reference window, so none can fade"
            )
        yield Result(RULE_OF_PAIRS, GateStatus.NOT_JUDGED, "none", wanted, reason)
    observed = [changes, *(each for each in changes.longer if each.response_predicted is None)]
    for number, pair in enumerate(pairs):
        absent = next((name for name in pair if name not in changes.feature_names), None)
        if absent is not None:
            reason = f"the model has no feature {escaped(absent)}{but_it_has(absent, changes.feature_names)}"
            yield Result(_rule_of(pair), GateStatus.FAILED, "not in the model", wanted, reason)
            continue
        status, value, reason = _from_shortest(observed, number, lambda each, k: _pair_fades_here(each, pairs[k]))
        yield Result(_rule_of(pair), status, value, wanted, reason)


def _rule_of(pair: tuple[str, str]) -> str:
    return f"{RULE_OF_PAIRS}: {named_together(pair)}"


def _pair_fades_here(changes: Changes, pair: tuple[str, str]) -> Judged:
    found, verdict = changes.pairs, ChangeVerdict.NOT_COMPARED
    k = -1 if found is None else next((k for k, each in enumerate(found.pairs) if {*each} == {*pair}), -1)
    if changes.any_look is not None:
        return GateStatus.NOT_JUDGED, verdict, f"not judged at any look: {NOT_AT_ANY_LOOK}"
    if found is None or k < 0:
        return GateStatus.NOT_JUDGED, verdict, "the last periods have no sums for this pair: name it when adding rows"
    verdict = found.verdict[k]
    if verdict is ChangeVerdict.NOT_COMPARED:
        return GateStatus.NOT_JUDGED, verdict, str(found.untested_because[k])
    if verdict in (ChangeVerdict.FADED, ChangeVerdict.WEAKER):
        moved = that_moved(changes, pair)
        reason = f"; rows shifted at the splits on {listed([*map(escaped, moved)])}, which may be the reason"
        return GateStatus.FAILED, verdict, found.in_words(k) + reason * bool(moved)
    if verdict is ChangeVerdict.STRONGER or found.kept[k]:
        passed = verdict if verdict is ChangeVerdict.STRONGER else ChangeVerdict.UNCHANGED
        return GateStatus.PASSED, passed, found.in_words(k)
    reason = "too few rows to exclude that the response became weaker"
    if pair not in found.informative_before and pair[::-1] not in found.informative_before:
        reason = "it was not distinguishable from noise before, so it cannot fade"
    return GateStatus.NOT_JUDGED, verdict, f"{reason}; {found.in_words(k)}"


def _largest_shift(changes: Changes, limit: float) -> Result:
    rule, allowed = "max_shift", f"<= {limit:g}"
    if not changes.compared:
        return _not_compared(rule, changes, allowed)
    results = {int(k): _shifts(changes, int(k), limit) for k in np.flatnonzero(changes.statistics["used"])}
    if not results:
        return Result(rule, GateStatus.NOT_JUDGED, "none", allowed, WITHOUT_SPLITS)
    status = _worst(results)
    reason, size = (
        _reasons(changes, results, status),
        np.where(changes.statistics["shifted"], changes.statistics["shift"], 0),
    )
    if status is GateStatus.NOT_JUDGED:
        return Result(rule, status, "none", allowed, reason)
    if status is GateStatus.PASSED:
        shifted = [escaped(changes.feature_names[k]) for k in np.argsort(-size, kind="stable") if size[k] > 0]
        alike = "the splits divide the rows of both windows alike, within chance"
        reason = (f"the largest shift is that of {listed(shifted, NAMED)}" if shifted else alike) + reason
    value = max(
        [float(size.max()), *(float(result[1]) for result in results.values() if result[0] is GateStatus.FAILED)]
    )
    return Result(rule, status, f"{value:.2f}", allowed, reason)


def _fades(changes: Changes, k: int) -> Judged:
    """Return status, value and reason for whether a feature became weaker, from the shortest window that can tell."""
    observed = [each for each in changes.longer if each.response_predicted is None]
    return _from_shortest([changes, *observed], k, _fades_here)


def _shifts(changes: Changes, k: int, limit: float | None = None) -> Judged:
    """Return the same for whether the rows shifted at the splits on a feature, by more than a limit."""
    return _from_shortest([changes, *changes.longer], k, lambda each, k: _shifts_here(each, k, limit))


def _from_shortest(windows: list[Changes], k: int, judge: Callable[[Changes, int], Judged]) -> Judged:
    """Return what the shortest window tells in which a feature can be judged, and which window that is."""
    first = judge(windows[0], k)
    if first[0] is not GateStatus.NOT_JUDGED:
        return first
    for each in windows[1:]:
        status, value, reason = judge(each, k)
        if status is not GateStatus.NOT_JUDGED:
            window = f"{counted(each.recent.n_periods, 'period')} from {escaped(str(each.recent.first))}"
            return status, value, f"{reason} ({LONGER_WINDOW} {window}: fewer do not tell)"
    return first


def _fades_here(changes: Changes, k: int) -> Judged:
    statistics, verdict = changes.statistics, changes.verdict[k]
    before, after = told_apart(statistics["before"][k], statistics["after"][k])
    change = few_digits(statistics["response_change"][k])
    evidence = (
        f"score {before} before, {after} recently; change of the response {change}, adjusted "
        f"p = {statistics['p_adjusted'][k]:.3g}"
    )
    if not statistics["comparable"][k] and statistics["informative_before"][k]:
        reason = "hardly any of the recent rows at its splits can be compared with those before"
        return GateStatus.FAILED, verdict, f"{reason}: the column may be stuck, empty, or in another unit"
    if changes.any_look is not None:
        return GateStatus.NOT_JUDGED, verdict, f"not judged at any look: {NOT_AT_ANY_LOOK}"
    if verdict is ChangeVerdict.UNUSED:
        return GateStatus.NOT_JUDGED, verdict, f"{NO_SPLITS}, so whether the response to it changed is not known"
    if verdict is ChangeVerdict.NOT_COMPARED:
        return GateStatus.NOT_JUDGED, verdict, "its change could not be tested"
    if verdict in (ChangeVerdict.FADED, ChangeVerdict.WEAKER):
        return GateStatus.FAILED, verdict, evidence
    if verdict is ChangeVerdict.STRONGER:
        return GateStatus.PASSED, verdict, evidence
    if statistics["kept"][k]:
        # That the score alone is not distinguishable, at a stricter level, is no verdict on a feature that kept it.
        return GateStatus.PASSED, ChangeVerdict.UNCHANGED, evidence
    if not statistics["informative_before"][k]:
        reason = "it was not distinguishable from noise before, so it cannot fade"
        return GateStatus.NOT_JUDGED, verdict, f"{reason}; {evidence}"
    return GateStatus.NOT_JUDGED, verdict, f"too few rows to exclude that it became weaker; {evidence}"


def _shifts_here(changes: Changes, k: int, limit: float | None) -> Judged:
    size, p_adjusted = changes.statistics["shift"][k], changes.statistics["shift_p_adjusted"][k]
    if changes.any_look is not None:
        return GateStatus.NOT_JUDGED, "none", f"not judged at any look: {NOT_AT_ANY_LOOK}"
    if not changes.statistics["used"][k]:
        return GateStatus.NOT_JUDGED, ChangeVerdict.UNUSED, NO_SPLITS
    if np.isnan(size) or np.isnan(p_adjusted):
        return GateStatus.NOT_JUDGED, "none", NO_ROWS
    reason = f"effect size {size:.2f}, adjusted p = {p_adjusted:.3g}"
    if changes.statistics["shifted"][k] and (limit is None or size > limit):
        split = f"; the split that differs most is {escaped(changes.splits[k])}" if changes.splits[k] else ""
        return GateStatus.FAILED, "shifted" if limit is None else f"{size:.2f}", reason + split
    if limit is not None and size > limit:
        return GateStatus.NOT_JUDGED, "none", f"{reason}, so it may be chance"
    return GateStatus.PASSED, "no shift detected", reason


def _worst(results: dict[int, Judged]) -> GateStatus:
    """Return the status of a rule that is checked for several features."""
    found = {status for status, _, _ in results.values()}
    return next((status for status in (GateStatus.FAILED, GateStatus.NOT_JUDGED) if status in found), GateStatus.PASSED)


def _reasons(changes: Changes, results: dict[int, Judged], status: GateStatus) -> str:
    """Return why features have the status of the rule; if it passed, which of them a longer window judged."""
    names = {k: escaped(changes.feature_names[k]) for k in results}
    if status is GateStatus.PASSED:
        longer = [names[k] for k in results if LONGER_WINDOW in results[k][2]]
        return f"; {listed(longer, NAMED)} in a longer window" if longer else ""
    return listed([f"{names[k]}: {results[k][2]}" for k in results if results[k][0] == status], NAMED)


def _not_compared(rule: str, changes: Changes, wanted: str) -> Result:
    return Result(rule, GateStatus.NOT_JUDGED, ChangeVerdict.NOT_COMPARED, wanted, str(changes.not_compared_because))


def _unless_predicted(result: Result, changes: Changes) -> Result:
    """Return a result about the response that passed as not judged if the response seems to be predicted."""
    about_response = result.rule.partition(":")[0] in (
        "must_not_be_biased",
        "must_not_fade",
        RULE_OF_PAIRS,
        "max_loss_increase",
    )
    if not about_response or result.status is not GateStatus.PASSED or result.value == "not in the model":
        return result
    said = changes.response_predicted
    return result if said is None else result.unjudged(said)


def _unless_too_few(result: Result, too_few: str | None) -> Result:
    """Return a result that passed as not judged if there are too few periods or rows."""
    if too_few is None or result.status is not GateStatus.PASSED or result.value == "not in the model":
        return result
    return result.unjudged(f"too few to judge: {too_few}")


def _warnings(changes: Changes, rules: HistoryPolicy) -> Iterator[str]:
    """Yield what fails no rule but a reader must know even if the gate passed."""
    if not changes.compared:
        yield f"nothing was compared: {changes.not_compared_because}"
    if changes.provisional is not None:
        waiting = counted(changes.provisional.waiting.n_periods, "period")
        yield f"{waiting} without responses: what their rows tell is provisional, and no rule judges it"
    yield from changes.warnings
    for rule in ("must_not_fade", "must_not_shift"):
        features = getattr(rules, rule)
        yield from warnings_of_absent(rule, () if features in (None, ALL) else features, changes.feature_names)
    if rules.max_shift is not None and rules.max_shift >= 2:
        yield f"max_shift = {rules.max_shift:g} sets no limit"
