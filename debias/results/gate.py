"""The gate: checks of an audit against the rules of a policy.

Over 500 lines, because every rule of an audit is here, each a function of a few lines.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError, PolicyError, RowsError, with_article
from debias.results.gate_outcome import (
    NAMED,
    Change,
    Gate,
    Result,
    result_of_absent,
    result_of_repeated,
    result_of_unseen,
    warnings_of_absent,
)
from debias.results.policy import PROVENANCE, Feature, Policy
from debias.results.sentences import condition_of_verdicts, doubts, on_unseen_rows, reports_anything, scored_on
from debias.results.stored import check_audit
from debias.results.untested import FEATURES
from debias.results.vocabulary import (
    AS_ESTIMATED,
    GROUPS_OF_ROWS,
    REPEATED,
    UNCOUNTED,
    UNSEEN,
    DropStatus,
    GateStatus,
    RowsKind,
    Verdict,
)
from debias.text import counted, few_digits, listed, p_value_in_words, without_blanks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from debias.results.audit import Audit

_NO_BETTER = "the model predicts these rows no better than a constant"
NOT_COUNTED = (
    "were not counted: the rows came in batches, the model is a vote, or scores are for columns that transformers make"
)


def check(audit: Audit, policy: Any, baseline: Audit | None = None) -> Gate:
    """Check an audit against a policy.

    Parameters
    ----------
    audit : Audit
    policy : Policy, mapping of rules, or path of a TOML file
    baseline : Audit, optional
        Audit of the previous model, for rules that compare.

    Returns
    -------
    Gate

    Raises
    ------
    PolicyError
        The policy is wrong, or it compares and the baseline is missing, untested or tested at another error rate.
    RowsError
        The audit is of training rows, on which noise looks important.
    DebiasError
        The numbers of the audit or of the baseline contradict each other or are not finite.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> gate = debias.audit(forest, X, y, random_state=0).check({"must_be_informative": ["bmi"], "min_rows": 1000})
    >>> [result.status for result in gate.results]
    ['failed', 'passed']
    >>> gate.failures[0].reason
    '442 evaluation rows, but the policy requires 1000'
    """
    rules = Policy.of(policy)
    _require_usable("the audit", audit, type(audit))
    if baseline is not None:
        _require_usable("the baseline", baseline, type(audit))
        baseline = _spelled_as(audit.tested_scores.feature_names, baseline)
    if rules.needs_baseline:
        _require_comparable(rules.needs_baseline, audit, baseline)
    results = tuple(_results(audit, rules, baseline))
    changes = _changes(audit, baseline) if baseline is not None else ()
    return Gate(
        results, changes, tuple(_warnings(audit, rules, baseline, results)), checked=scored_on(audit.tested_scores)
    )


def _require_usable(what: str, audit: Any, kind: type[Audit]) -> None:
    """Raise unless this is an audit with consistent numbers, and not one of training rows."""
    if not isinstance(audit, kind):
        raise PolicyError(
            f"{what} is {with_article(type(audit).__name__)}, not an Audit; debias.Audit.from_json reads one from JSON"
        )
    try:
        check_audit(audit)
    except DebiasError as error:
        raise DebiasError(f"{what} cannot be checked: {error}") from None
    if audit.tested_scores.rows == RowsKind.TRAIN:
        raise RowsError(
            "an audit of training rows cannot pass a gate: on them noise looks important. "
            "Audit rows the model has not seen"
        )


def _spelled_as(names: tuple[str, ...], baseline: Audit) -> Audit:
    """Return the baseline with these names of its features, where they differ only in what LightGBM makes of blanks."""
    tested = baseline.tested_scores
    before, known = set(tested.feature_names), set(names)
    spelling = {without_blanks(name): name for name in names if name not in before}

    def spelled(name: str) -> str:
        return name if name in known else spelling.get(without_blanks(name), name)

    found = tuple(map(spelled, tested.feature_names))
    if found == tested.feature_names or len(set(found)) < len(found):
        return baseline
    untested = {spelled(name): reason for name, reason in baseline.untested_features.items()}
    of_untested = {FEATURES: untested} if untested else {}
    tested = replace(tested, feature_names=found, details={**tested.details, **of_untested})
    return replace(baseline, scores={**baseline.scores, baseline.tested_scorer: tested})


def _require_comparable(rules: tuple[str, ...], audit: Audit, baseline: Audit | None) -> None:
    if baseline is None:
        raise PolicyError(f"{' and '.join(rules)} need a baseline: pass the audit of the old model")
    for what, compared in (("the audit", audit), ("the baseline", baseline)):
        if (reason := _no_verdicts(compared)) is not None:
            raise PolicyError(f"{rules[0]} compares verdicts, but {what} has none: {reason}")
    if audit.tested_scorer != baseline.tested_scorer:
        raise PolicyError(
            f"{rules[0]} compares scores, but the tested scorers differ: {audit.tested_scorer} now, "
            f"{baseline.tested_scorer} in the baseline. Audit the old model again with the same tested="
        )
    tests = [compared.tested_scores.details["test"] for compared in (audit, baseline)]
    error_rates = [(test["alpha"], test.get("error")) for test in tests]
    if error_rates[0] != error_rates[1]:
        now, before = (f"({error!r}, {alpha:g})" for alpha, error in error_rates)
        raise PolicyError(
            f"{rules[0]} compares verdicts, but the error rates differ: {now} now, {before} in the baseline. "
            "Audit the old model again with the current error rate"
        )


def _results(audit: Audit, rules: Policy, baseline: Audit | None) -> Iterator[Result]:
    n_rows = audit.tested_scores.n_rows or 0
    enough = rules.min_rows is None or n_rows >= rules.min_rows
    if rules.min_rows is not None:
        required = f"the policy requires {rules.min_rows}"
        reason = f"{n_rows} evaluation rows, {'and' if enough else 'but'} {required}"
        yield Result.of("min_rows", enough, str(n_rows), f">= {rules.min_rows}", reason)
    yield from _provenance(audit, rules.min_provenance)
    details = audit.tested_scores.details
    if rules.max_unseen is not None:
        yield result_of_unseen(details.get(UNSEEN), rules.max_unseen, "rows", NOT_COUNTED, details.get(UNCOUNTED, ()))
    if rules.max_repeated is not None:
        which = "these rows repeat another row"
        yield result_of_repeated(details.get(REPEATED), rules.max_repeated, which, NOT_COUNTED)
    if rules.max_shift is not None:
        yield _shift(audit, rules.max_shift)
    if rules.must_predict is not None:
        yield _predicts(audit, rules.must_predict)
    if rules.may_drop is not None:
        reason = "an audit cannot tell: debias.droppable can, and Droppable.check (debias drop) checks this rule"
        yield Result("may_drop", GateStatus.NOT_JUDGED, Verdict.UNTESTED, DropStatus.CERTIFIED, reason)
    if rules.max_unsupported_share is not None:
        yield _unsupported(audit, rules.max_unsupported_share, rules.min_rows if not enough else None)
    no_verdicts = _no_verdicts(audit)
    if rules.min_informative is not None:
        count, limit = int(audit.which(Verdict.INFORMATIVE).sum()), rules.min_informative
        reason = (
            f"{count} of {audit.share.size} features are {Verdict.INFORMATIVE.phrase}"
            if no_verdicts is None
            else no_verdicts
        )
        met = no_verdicts is None and count >= limit
        result = Result.of("min_informative", met, str(count), f">= {limit}", reason)
        may_be_met = no_verdicts is None and count + len(audit.untested_features) >= limit
        yield _unjudged(result, audit) if not met and may_be_met else result
    for feature in rules.must_be_informative or ():
        yield _named("must_be_informative", feature, Verdict.INFORMATIVE, audit)
    for feature in rules.must_not_matter or ():
        result = _named("must_not_matter", feature, Verdict.INDISTINGUISHABLE, audit)
        passed_as_noise = result.status is GateStatus.PASSED and result.value is Verdict.INDISTINGUISHABLE
        if passed_as_noise and not enough:
            reason = f"with fewer than {rules.min_rows} rows the test may miss a feature that matters"
            result = result.unjudged(reason)
        elif passed_as_noise and _fails_to_predict(audit):
            result = result.unjudged(
                f"{_NO_BETTER}, so the test may miss a feature that matters. Check that the response is right"
            )
        yield result
    if rules.rest_must_not_matter is not None:
        yield _rest(audit, rules.min_rows if not enough else None)
    if rules.max_inflation is not None:
        yield _inflation(audit, rules.max_inflation)
    if baseline is not None and rules.max_verdict_changes is not None:
        yield _verdict_changes(audit, baseline, rules.max_verdict_changes)
    if baseline is not None and rules.max_rank_change is not None:
        yield _rank_change(audit, baseline, rules.max_rank_change)
    if baseline is not None and rules.max_share_change is not None:
        yield _share_change(audit, baseline, rules.max_share_change)


def _no_verdicts(audit: Audit) -> str | None:
    """Return why the audit has no verdicts that count, or None if it has."""
    if not audit.tested:
        return audit.untested_because
    if audit.tested_scores.threshold is None:
        return f"the test had too few permutations: at its error rate no feature could be {Verdict.INFORMATIVE.phrase}"
    return None


def _provenance(audit: Audit, wanted: str | None) -> Iterator[Result]:
    """Check what is known about the rows. Without a rule, rows that look like training rows fail, others pass."""
    levels, status = list(PROVENANCE), audit.tested_scores.provenance["status"]
    level = next((name for name in levels if status in PROVENANCE[name]), None)
    reason = str(audit.tested_scores.provenance["detail"])
    if wanted is None:
        accepting = "unknown" if level == "unknown" else "stated"
        are_training = " are training rows" in reason and AS_ESTIMATED in reason
        if level is None or level == "stated" or are_training:
            hint = f'{reason}; to accept such rows, set min_provenance = "{accepting}" in the policy'
            yield Result.of("min_provenance", False, level or status, ">= unknown", hint)
        elif level == "unknown":
            yield Result.of("min_provenance", True, level, ">= unknown", reason)
        return
    passed = level is not None and levels.index(level) >= levels.index(wanted)
    yield Result.of("min_provenance", passed, level or status, f">= {wanted}", reason)


def _shift(audit: Audit, limit: float) -> Result:
    rule, shift, allowed = "max_shift", audit.provenance.get("shift"), f"<= {limit:g}"
    if shift is None:
        at_training = audit.tested_scores.provenance["status"] in (*PROVENANCE["rows proven"], *PROVENANCE["proven"])
        if audit.tested_scores.rows == RowsKind.OOB and at_training:
            return Result.of(rule, True, "none", allowed, "these are the training rows, so there is no shift")
        return Result.of(rule, False, "none", allowed, "the rows could not be compared with the training rows")
    if isinstance(shift, bool) or not isinstance(shift, (int, float)) or not math.isfinite(shift):
        return Result.of(rule, False, str(shift), allowed, "the shift of the rows is not a number")
    names = [repr(name) for name in audit.provenance.get("shifted_features") or ()]
    reason = (
        f"splits on {listed(names, NAMED)} divide these rows differently from the training rows (effect size w)"
        if names
        else "the splits divide these rows as they divide the training rows, within chance"
    )
    return Result.of(rule, shift <= limit, f"{shift:.2f}", allowed, reason)


def _predicts(audit: Audit, wanted: bool | float) -> Result:
    """Check that the model predicts the rows better than a constant, and with the skill that is wanted, if any."""
    rule, performance = "must_predict", audit.performance
    limit = "better than a constant" if wanted is True else f"skill >= {wanted:g}"
    if performance is None or performance.skill is None:
        reason = "this audit was made without it" if performance is None else str(performance.untold_because)
        return Result(
            rule, GateStatus.NOT_JUDGED, "none", limit, f"how well the model predicts was not computed: {reason}"
        )
    value = performance.in_words()
    if performance.before_calibration:
        reason = "the model calibrates the probabilities of its trees, and its own were not judged"
        return Result(rule, GateStatus.NOT_JUDGED, value, limit, reason)
    if performance.too_good is not None and audit.tested_scores.rows == RowsKind.HELD_OUT:
        return Result(rule, GateStatus.NOT_JUDGED, value, limit, performance.too_good)
    if performance.better_than_constant is None:
        reason = (
            performance.chance().removeprefix("; ") or "there are too few rows to tell whether a constant is as good"
        )
        return Result(rule, GateStatus.NOT_JUDGED, value, limit, reason)
    if performance.better_than_constant is False:
        return Result.of(rule, False, value, limit, " ".join(performance.doubts()).removesuffix("."))
    of_rows = few_digits(performance.skill)
    skill = f"the skill on these rows is {of_rows}: 1 for perfect predictions, 0 for the best constant"
    return Result.of(rule, wanted is True or performance.skill >= wanted, value, limit, skill)


def _fails_to_predict(audit: Audit) -> bool:
    """Return whether the response may be wrong: it does not follow the order of the predictions either."""
    performance = audit.performance
    return (
        performance is not None and performance.better_than_constant is False and not performance.why_probabilities_fail
    )


def _unjudged(result: Result, *audits: Audit) -> Result:
    """Return the result of a rule that cannot be judged, because of features that were not tested."""
    reasons = {name: reason for audit in audits for name, reason in audit.untested_features.items()}
    named = listed([f"{name} ({reason})" for name, reason in reasons.items()], NAMED)
    return result.unjudged(f"not tested: {named}")


def _unsupported(audit: Audit, limit: float, rows_missing: int | None) -> Result:
    rule, share, no_verdicts = "max_unsupported_share", audit.unsupported_share, _no_verdicts(audit)
    if no_verdicts is not None:
        return Result.of(rule, False, "none", f"<= {limit:.1%}", no_verdicts)
    if share is None or not reports_anything(audit):
        return Result(rule, GateStatus.NOT_JUDGED, "none", f"<= {limit:.1%}", _NOT_REPORTED)
    if rows_missing is not None:
        reason = f"the share gets smaller with more rows, and there are fewer than {rows_missing}"
        return Result(rule, GateStatus.NOT_JUDGED, f"{share:.1%}", f"<= {limit:.1%}", reason)
    noise = np.flatnonzero(audit.which(Verdict.INDISTINGUISHABLE))
    assert audit.reported is not None
    largest = noise[np.argsort(-audit.reported[noise], kind="stable")][:3]
    names = ", ".join(f"{audit.tested_scores.feature_names[k]} ({audit.reported[k]:.1%})" for k in largest)
    reason = f"{len(noise)} of {audit.share.size} features are {Verdict.INDISTINGUISHABLE.phrase}" + (
        f"; the largest shares: {names}" if names else ""
    )
    result = Result.of(rule, share <= limit, f"{share:.1%}", f"<= {limit:.1%}", reason)
    return _unjudged(result, audit) if share <= limit < share + audit.untested_share else result


_NOT_REPORTED = "the library reports no importance for any feature of this model"


def _named(rule: str, feature: Feature, wanted: Verdict, audit: Audit) -> Result:
    """Check the verdict of one feature that a rule names."""
    name, names = feature.name, audit.tested_scores.feature_names
    rule = f"{rule}: {name}"
    if name in names:
        k = names.index(name)
        no_verdicts = _no_verdicts(audit)
        if name in audit.untested_features:
            return Result(rule, GateStatus.NOT_JUDGED, Verdict.UNTESTED, wanted, audit.untested_features[name])
        limits = condition_of_verdicts(audit, named=False) if audit.verdict[k] is Verdict.INFORMATIVE else ""
        evidence = f"{_evidence(audit, k)}{limits}" if no_verdicts is None else no_verdicts
        return Result.of(rule, no_verdicts is None and audit.verdict[k] is wanted, audit.verdict[k], wanted, evidence)
    return result_of_absent(rule, feature, names, wanted)


def _rest(audit: Audit, rows_missing: int | None) -> Result:
    """Check that the features that are not confirmed alone are not confirmed together either."""
    rule, rest, no_verdicts = "rest_must_not_matter", audit.rest, _no_verdicts(audit)
    limit = f"p > {audit.tested_scores.details.get('test', {}).get('alpha', 0.05):g}"
    if no_verdicts is not None:
        return Result.of(rule, False, "none", limit, no_verdicts)
    if rest is None:
        none_left = f"fewer than two features are {Verdict.INDISTINGUISHABLE.phrase}, so there is no such group"
        result = Result.of(rule, True, "none", limit, none_left)
    elif rest.p_value is None:
        reason = f"the features were not tested together: {rest.untested_because}"
        return Result(rule, GateStatus.NOT_JUDGED, "none", limit, reason)
    else:
        names = listed([repr(name) for name in rest.features], NAMED)
        are = f"{len(rest.features)} features are {Verdict.INDISTINGUISHABLE.phrase}"
        reason = f"{are}, and were tested as one group: {names}"
        result = Result.of(rule, not rest.informative, p_value_in_words(rest.p_value), limit, reason)
    if result.status is not GateStatus.PASSED:
        return result
    if rows_missing is not None:
        return result.unjudged(f"with fewer than {rows_missing} rows the test may miss a group that matters")
    if _fails_to_predict(audit):
        return result.unjudged(
            f"{_NO_BETTER}, so the test may miss a group that matters. Check that the response is right"
        )
    return _unjudged(result, audit) if audit.untested_features else result


def _evidence(audit: Audit, k: int) -> str:
    tested = audit.tested_scores
    assert tested.z is not None and tested.p_adjusted is not None  # noqa: PT018  # the audit is tested
    reported = "" if audit.reported is None else f", reported by {audit.reported_kind} {audit.reported[k]:.1%}"
    if audit.reported_unseen is not None:
        reported += f" ({audit.reported_unseen[k]:.1%} {on_unseen_rows(audit)})"
    return (
        f"z = {tested.z[k]:.2f}, adjusted p = {tested.p_adjusted[k]:.3g}, debiased share {audit.share[k]:.1%}{reported}"
    )


def _inflation(audit: Audit, limit: float) -> Result:
    rule, allowed = "max_inflation", f"<= {limit:.1%}"
    unjudged = Result(rule, GateStatus.NOT_JUDGED, "none", allowed, _NOT_REPORTED)
    if audit.reported is None or not reports_anything(audit):
        return unjudged
    if audit.reported_unseen is None:
        return unjudged.unjudged(
            f"the importance by {audit.reported_kind} is not known on these rows ({audit.no_unseen_because}), and the "
            "debiased share is in another unit"
        )
    excess = audit.inflation
    if excess is None:
        return unjudged.unjudged(f"no feature has an importance by {audit.reported_kind} above 0 on these rows")
    tested = ~np.isnan(excess)
    if not tested.any():
        return _unjudged(unjudged, audit)
    # Of the features above the limit, one whose inflation is more than chance counts first.
    shown = np.zeros(excess.size, dtype=bool) if audit.inflation_shown is None else audit.inflation_shown
    above = (excess > limit) & shown
    k = int(np.nanargmax(np.where(above, excess, np.nan) if above.any() else excess))
    error = audit.reported_unseen_error
    reason = (
        f"{audit.tested_scores.feature_names[k]}: reported {audit.reported[k]:.1%} by {audit.reported_kind}, "
        f"{audit.reported_unseen[k]:.1%} {on_unseen_rows(audit)}"
        f"{'' if error is None else f' (standard error {error[k]:.1%})'}"
    )
    if excess[k] > limit and not shown[k]:
        what = "this may be chance in the rows. Pass more rows, or allow more inflation"
        if error is None:
            what = (
                "the error of the second share is not known, so this may be chance. Audit rows that are in memory, at "
                f"least {GROUPS_OF_ROWS} of them, and in at least {GROUPS_OF_ROWS} blocks if they are in blocks"
            )
        return Result(rule, GateStatus.NOT_JUDGED, f"{excess[k]:.1%}", allowed, f"{reason}: {what}")
    result = Result.of(rule, bool(excess[k] <= limit), f"{max(excess[k], 0.0):.1%}", allowed, reason)
    # The shares of the others would be smaller on these rows if a feature that was not tested had one.
    unknown = result.status is GateStatus.PASSED and not tested.all() and bool((audit.reported > limit).any())
    return _unjudged(result, audit) if unknown else result


def _standing(audit: Audit) -> dict[str, tuple[int, float, Verdict]]:
    """Return rank, share and verdict by feature. All noise has the rank after the last informative feature."""
    informative = audit.which(Verdict.INFORMATIVE)
    shares = sorted(-audit.share[informative])
    return {
        name: (
            1 + bisect_left(shares, -share) if verdict is Verdict.INFORMATIVE else len(shares) + 1,
            float(share),
            verdict,
        )
        for name, share, verdict in zip(audit.tested_scores.feature_names, audit.share, audit.verdict, strict=True)
    }


def _moved(before: tuple[int, float, Verdict], after: tuple[int, float, Verdict]) -> int:
    """Return by how many ranks a feature moved. A feature that is noise in both audits did not move."""
    if Verdict.UNTESTED in (before[2], after[2]):  # not known
        return 0
    return 0 if before[2] is after[2] is Verdict.INDISTINGUISHABLE else abs(after[0] - before[0])


def _unless_untested(result: Result, audit: Audit, baseline: Audit) -> Result:
    """Return a comparison as not judged if one of the audits could not test a feature.

    Such a feature has no rank and no share, so those of the others move, also if only one model has it. Verdicts are
    compared of features that both models have, and those that changed count all the same.
    """
    untested = audit.untested_features.keys() | baseline.untested_features.keys()
    if result.rule == "max_verdict_changes":
        untested &= set(audit.tested_scores.feature_names) & set(baseline.tested_scores.feature_names)
        if result.status is GateStatus.FAILED:
            return result
    return _unjudged(replace(result, value="none"), audit, baseline) if untested else result


def _changes(audit: Audit, baseline: Audit) -> tuple[Change, ...]:
    before, after = _standing(baseline), _standing(audit)
    changed = [
        Change(name, *zip(_known_standing(before.get(name)), _known_standing(after.get(name)), strict=True))  # type: ignore[arg-type]
        for name in dict.fromkeys([*before, *after])
        if (name in before) != (name in after) or _moved(before[name], after[name]) or before[name][2] != after[name][2]
    ]
    return tuple(sorted(changed, key=lambda change: -abs((change.share[1] or 0.0) - (change.share[0] or 0.0))))


def _known_standing(standing: tuple[int, float, Verdict] | None) -> tuple[int | None, float | None, Verdict | None]:
    """Return what a change tells of a feature: no rank and no share if it was not tested."""
    if standing is None:
        return None, None, None
    return (None, None, Verdict.UNTESTED) if standing[2] is Verdict.UNTESTED else standing


def _rank_change(audit: Audit, baseline: Audit, limit: int) -> Result:
    before, after = _standing(baseline), _standing(audit)
    moved = {name: _moved(before[name], after[name]) for name in after if name in before}
    over = sorted((name for name in moved if moved[name] > limit), key=lambda name: -moved[name])
    changes = [f"{name} from {before[name][0]} to {after[name][0]}" for name in over]
    reason = f"ranks changed: {listed(changes, NAMED)}" if over else _compared(len(moved))
    problem = _not_comparable(before, after)
    passed, largest = problem is None and not over, max(moved.values(), default=0)
    result = Result.of("max_rank_change", passed, str(largest), f"<= {limit}", problem or reason)
    return _unless_untested(result, audit, baseline)


def _verdict_changes(audit: Audit, baseline: Audit, limit: int) -> Result:
    before, after = _standing(baseline), _standing(audit)
    both = [name for name in after if name in before]
    changed = [
        name
        for name in both
        if before[name][2] != after[name][2] and Verdict.UNTESTED not in (before[name][2], after[name][2])
    ]
    changes = [f"{name} from {before[name][2].text} to {after[name][2].text}" for name in changed]
    reason = f"verdicts changed: {listed(changes, NAMED)}" if changed else _compared(len(both))
    problem = _not_comparable(before, after)
    passed = problem is None and len(changed) <= limit
    result = Result.of("max_verdict_changes", passed, str(len(changed)), f"<= {limit}", problem or reason)
    return _unless_untested(result, audit, baseline)


def _compared(n_features: int) -> str:
    return f"compared {counted(n_features, 'feature')} that both models have"


def _not_comparable(before: dict[str, tuple[int, float, Verdict]], after: dict[str, Any]) -> str | None:
    """Return why two models have no features in common that could change, or None if they have."""
    if not any(name in after for name in before):
        return "the two models have no feature in common"
    informative = [name for name in before if before[name][2] is Verdict.INFORMATIVE]
    if informative and not any(name in after for name in informative):
        were = f"that were {Verdict.INFORMATIVE.phrase} before"
        return f"this model has none of the features {were}: {listed(informative, NAMED)}"
    return None


def _share_change(audit: Audit, baseline: Audit, limit: float) -> Result:
    before, after = _standing(baseline), _standing(audit)
    shares = {name: (before.get(name, (0, 0.0))[1], after.get(name, (0, 0.0))[1]) for name in {**before, **after}}
    name = max(shares, key=lambda feature: abs(shares[feature][1] - shares[feature][0]))
    change = abs(shares[name][1] - shares[name][0])
    reason = f"{name}: from {shares[name][0]:.1%} to {shares[name][1]:.1%}"
    result = Result.of("max_share_change", change <= limit, f"{change:.1%}", f"<= {limit:.1%}", reason)
    return _unless_untested(result, audit, baseline)


def _warnings(audit: Audit, rules: Policy, baseline: Audit | None, results: tuple[Result, ...]) -> Iterator[str]:
    """Yield what fails no rule but a reader must know even if the gate passed."""
    yield from audit.warnings
    doubt = " ".join(doubts(audit))
    if doubt and rules.must_predict is None:
        yield doubt
    names = audit.tested_scores.feature_names
    for rule in ("must_be_informative", "must_not_matter"):
        yield from warnings_of_absent(rule, getattr(rules, rule) or (), names)
    passed_as_noise = [
        result for result in results if result.status is GateStatus.PASSED and result.value is Verdict.INDISTINGUISHABLE
    ]
    if passed_as_noise and not audit.which(Verdict.INFORMATIVE).any():
        yield (
            f"no feature at all is {Verdict.INFORMATIVE.phrase}, so it means little that the named features are "
            f"{Verdict.INDISTINGUISHABLE.phrase}; require more with min_rows and min_informative"
        )
    yield from (f"{rule} = {limit:g} sets no limit" for rule, limit in _without_limit(audit, rules, baseline))
    if baseline is not None:
        yield from _warnings_of_baseline(audit, rules, baseline)


def _without_limit(audit: Audit, rules: Policy, baseline: Audit | None) -> list[tuple[str, float]]:
    """Return the rules with a limit that nothing can exceed."""
    bounds = {
        "max_unsupported_share": 1,
        "max_inflation": 1,
        "max_share_change": 1,
        "min_rows": 1,
        "min_informative": 0,
    }
    if baseline is not None:
        names, old = audit.tested_scores.feature_names, baseline.tested_scores.feature_names
        bounds |= {"max_verdict_changes": len(set(names) & set(old)), "max_rank_change": max(len(names), len(old))}
    limits = {rule: getattr(rules, rule) for rule in bounds if getattr(rules, rule) is not None}
    return [
        (rule, limit)
        for rule, limit in limits.items()
        if (limit >= bounds[rule] if rule.startswith("max") else limit <= bounds[rule])
    ]


def _warnings_of_baseline(audit: Audit, rules: Policy, baseline: Audit) -> Iterator[str]:
    if not rules.needs_baseline:
        yield "a baseline was passed, but no rule of the policy uses it"
    if audit.fingerprints and audit.fingerprints == baseline.fingerprints:
        yield "the baseline is of the same model on the same rows, so no rule that uses it can fail"
    if audit.tested_scores.rows != baseline.tested_scores.rows:
        yield f"the baseline was scored on {baseline.rows_in_words} rows, but this audit on {audit.rows_in_words} rows"
    names, old = audit.tested_scores.feature_names, baseline.tested_scores.feature_names
    for here, there, where in ((names, old, "new in this model"), (old, names, "only in the baseline")):
        known = set(there)
        if only := [repr(name) for name in here if name not in known]:
            named = listed(only, NAMED)
            yield f"features {where}, which max_verdict_changes and max_rank_change do not compare: {named}"
