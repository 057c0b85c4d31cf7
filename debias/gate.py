"""The gate: an audit against a policy, rule by rule, with value, limit and reason."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError, PolicyError, RowsError, nearest
from debias.gate_outcome import Change, Gate, Result
from debias.policy import PROVENANCE, Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from debias.audits import Audit

MISSPELT = 0.85
"""Likeness from which a name the model does not know is taken for a slip, and not for a feature that is gone."""


def check(audit: Audit, policy: Any, baseline: Audit | None = None) -> Gate:
    """Check an audit against a policy.

    Parameters
    ----------
    audit : Audit
    policy : Policy, mapping of rules, or path of a TOML file
    baseline : Audit, optional
        Of the model before, for rules that compare.

    Returns
    -------
    Gate

    Raises
    ------
    PolicyError
        The policy is wrong, or compares and there is no baseline.
    RowsError
        The audit is of training rows, on which noise looks important.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> gate = debias.audit(forest, X, y, seed=0).check({"must_be_informative": ["bmi"], "min_rows": 1000})
    >>> [result.status for result in gate.results]
    ['failed', 'passed']
    >>> gate.failures[0].reason
    '442 evaluation rows, fewer than the 1000 asked for'
    """
    rules = Policy.of(policy)
    for each in (audit,) if baseline is None else (audit, baseline):
        if each.main.rows == "train":
            raise RowsError("an audit of training rows passes no gate: on them noise looks important")
    if rules.needs_baseline and baseline is None:
        raise PolicyError(
            f"{' and '.join(rules.needs_baseline)} compare with a baseline: pass the audit of the old model"
        )
    if rules.needs_baseline and baseline is not None and not (audit.tested and baseline.tested):
        raise PolicyError(f"{rules.needs_baseline[0]} compares verdicts, and one of the two audits was not tested")
    changes = _changes(audit, baseline) if baseline is not None else ()
    return Gate(tuple(_results(audit, rules, baseline)), changes)


def _results(audit: Audit, rules: Policy, baseline: Audit | None) -> Iterator[Result]:
    n_rows = audit.main.n_rows or 0
    enough = rules.min_rows is None or n_rows >= rules.min_rows
    if rules.min_rows is not None:
        words = f"{rules.min_rows} are asked for" if enough else f"fewer than the {rules.min_rows} asked for"
        reason = f"{n_rows} evaluation rows, {words}"
        yield _result("min_rows", enough, str(n_rows), f">= {rules.min_rows}", reason)
    if rules.min_provenance is not None:
        yield _provenance(audit, rules.min_provenance)
    if rules.max_unsupported_share is not None:
        yield _unsupported(audit, rules.max_unsupported_share, rules.min_rows if not enough else None)
    if rules.min_informative is not None:
        count, limit = audit.verdict.count("informative"), rules.min_informative
        reason = f"{count} of {audit.share.size} features are informative" if audit.tested else _NOT_TESTED
        yield _result("min_informative", count >= limit, str(count), f">= {limit}", reason)
    for name in rules.must_be_informative or ():
        yield _informative(audit, name)
    for name in rules.must_not_matter or ():
        yield _no_matter(audit, name)
    if rules.max_inflation is not None:
        yield _inflation(audit, rules.max_inflation)
    if baseline is not None and rules.max_verdict_changes is not None:
        yield _verdict_changes(audit, baseline, rules.max_verdict_changes)
    if baseline is not None and rules.max_rank_change is not None:
        yield _rank_change(audit, baseline, rules.max_rank_change)
    if baseline is not None and rules.max_share_change is not None:
        yield _share_change(audit, baseline, rules.max_share_change)


_NOT_TESTED = "the audit was made without a test (se=None, or a model whose scores have none)"


def _result(rule: str, passed: bool, value: str, limit: str, reason: str) -> Result:
    return Result(rule, "passed" if passed else "failed", value, limit, reason)


def _provenance(audit: Audit, wanted: str) -> Result:
    levels, status = list(PROVENANCE), audit.main.provenance["status"]
    found = next(level for level in levels if status in PROVENANCE[level])
    passed = levels.index(found) >= levels.index(wanted)
    return _result("min_provenance", passed, found, f">= {wanted}", str(audit.main.provenance["detail"]))


def _unsupported(audit: Audit, limit: float, rows_missing: int | None) -> Result:
    rule, share = "max_unsupported_share", audit.unsupported_share
    if share is None:
        reason = _NOT_TESTED if not audit.tested else "the library reports no importance for this model"
        return _result(rule, False, "none", f"<= {limit:.1%}", reason)
    if rows_missing is not None:
        reason = f"the share falls as rows are added, and there are fewer than {rows_missing}"
        return Result(rule, "not judged", f"{share:.1%}", f"<= {limit:.1%}", reason)
    noise = [k for k, verdict in enumerate(audit.verdict) if verdict == "indistinguishable"]
    assert audit.reported is not None
    largest = sorted(noise, key=lambda k: -audit.reported[k])[:3]  # type: ignore[index]
    names = ", ".join(f"{audit.main.feature_names[k]} ({audit.reported[k]:.1%})" for k in largest)
    reason = f"{len(noise)} of {audit.share.size} features are indistinguishable from noise" + (
        f", the largest {names}" if names else ""
    )
    return _result(rule, share <= limit, f"{share:.1%}", f"<= {limit:.1%}", reason)


def _informative(audit: Audit, name: str) -> Result:
    rule, limit, names = f"must_be_informative: {name}", "informative", audit.main.feature_names
    if name not in names:
        return _result(rule, False, "not in the model", limit, f"the model has no such feature.{nearest(name, names)}")
    k = names.index(name)
    return _result(rule, audit.verdict[k] == "informative", audit.verdict[k], limit, _evidence(audit, k))


def _no_matter(audit: Audit, name: str) -> Result:
    rule, limit, names = f"must_not_matter: {name}", "indistinguishable", audit.main.feature_names
    if name in names:
        k = names.index(name)
        return _result(rule, audit.verdict[k] == "indistinguishable", audit.verdict[k], limit, _evidence(audit, k))
    slip = difflib.get_close_matches(name, names, n=1, cutoff=MISSPELT)
    reason = f"the model has no such feature, but it has {slip[0]!r}" if slip else "the model has no such feature"
    return _result(rule, not slip, "not in the model", limit, reason)


def _evidence(audit: Audit, k: int) -> str:
    main = audit.main
    if main.z is None or main.p_adjusted is None:
        return _NOT_TESTED
    reported = "" if audit.reported is None else f", reported {audit.reported[k]:.1%}"
    return f"z = {main.z[k]:.2f}, adjusted p = {main.p_adjusted[k]:.3g}, debiased share {audit.share[k]:.1%}{reported}"


def _inflation(audit: Audit, limit: float) -> Result:
    if audit.reported is None:
        return _result("max_inflation", False, "none", f"<= {limit:.1%}", "the library reports no importance")
    excess = audit.reported - audit.share
    k = int(np.argmax(excess))
    reason = f"{audit.main.feature_names[k]}: reported {audit.reported[k]:.1%}, debiased {audit.share[k]:.1%}"
    return _result("max_inflation", bool(excess[k] <= limit), f"{max(excess[k], 0.0):.1%}", f"<= {limit:.1%}", reason)


def _standing(audit: Audit) -> dict[str, tuple[int, float, str]]:
    """Return rank, share and verdict by feature; all noise shares the rank after the last informative feature."""
    shares = sorted((-s for s, v in zip(audit.share, audit.verdict, strict=True) if v == "informative"))
    return {
        name: (1 + shares.index(-share) if verdict == "informative" else len(shares) + 1, float(share), verdict)
        for name, share, verdict in zip(audit.main.feature_names, audit.share, audit.verdict, strict=True)
    }


def _moved(before: tuple[int, float, str], after: tuple[int, float, str]) -> int:
    """Return by how many places a feature moved; noise that stays noise does not move, whatever is found above it."""
    return 0 if before[2] == after[2] == "indistinguishable" else abs(after[0] - before[0])


def _changes(audit: Audit, baseline: Audit) -> tuple[Change, ...]:
    before, after = _standing(baseline), _standing(audit)
    nothing = (None, None, None)
    changed = [
        Change(name, *zip(before.get(name, nothing), after.get(name, nothing), strict=True))  # type: ignore[arg-type]
        for name in dict.fromkeys([*before, *after])
        if (name in before) != (name in after) or _moved(before[name], after[name]) or before[name][2] != after[name][2]
    ]
    return tuple(sorted(changed, key=lambda change: -abs((change.share[1] or 0.0) - (change.share[0] or 0.0))))


def _rank_change(audit: Audit, baseline: Audit, limit: int) -> Result:
    before, after = _standing(baseline), _standing(audit)
    moved = {name: _moved(before[name], after[name]) for name in after if name in before}
    over = sorted((name for name in moved if moved[name] > limit), key=lambda name: -moved[name])
    told = [f"{name} from {before[name][0]} to {after[name][0]}" for name in over[:5]]
    rest = f" and {len(over) - 5} more" if len(over) > 5 else ""
    reason = "ranks changed: " + ", ".join(told) + rest if over else f"of {len(moved)} features in both models"
    largest = max(moved.values(), default=0)
    passed = bool(moved) and largest <= limit
    return _result(
        "max_rank_change", passed, str(largest), f"<= {limit}", reason if moved else "the models share no feature"
    )


def _verdict_changes(audit: Audit, baseline: Audit, limit: int) -> Result:
    before, after = _standing(baseline), _standing(audit)
    both = [name for name in after if name in before]
    turned = [name for name in both if before[name][2] != after[name][2]]
    told = [f"{name} from {before[name][2]} to {after[name][2]}" for name in turned[:5]]
    rest = f" and {len(turned) - 5} more" if len(turned) > 5 else ""
    reason = "verdicts changed: " + ", ".join(told) + rest if turned else f"of {len(both)} features in both models"
    passed = bool(both) and len(turned) <= limit
    return _result(
        "max_verdict_changes",
        passed,
        str(len(turned)),
        f"<= {limit}",
        reason if both else "the models share no feature",
    )


def _share_change(audit: Audit, baseline: Audit, limit: float) -> Result:
    before, after = _standing(baseline), _standing(audit)
    shares = {name: (before.get(name, (0, 0.0))[1], after.get(name, (0, 0.0))[1]) for name in {**before, **after}}
    name = max(shares, key=lambda each: abs(shares[each][1] - shares[each][0]))
    change = abs(shares[name][1] - shares[name][0])
    reason = f"{name}: from {shares[name][0]:.1%} to {shares[name][1]:.1%}"
    return _result("max_share_change", change <= limit, f"{change:.1%}", f"<= {limit:.1%}", reason)


def read_audit(path: Any) -> Audit:
    """Read an audit that ``Audit.to_json`` wrote.

    Raises
    ------
    DebiasError
        The file is none, or of another schema version.
    """
    from debias.audits import Audit

    try:
        with open(path, encoding="utf-8") as file:
            return Audit.from_json(file.read())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DebiasError):
            raise
        raise DebiasError(
            f"{path} is no audit written by debias (Audit.to_json, debias audit --json): {error}"
        ) from None
