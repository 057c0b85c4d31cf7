"""The gate of features that may be dropped: the rule ``may_drop`` of a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import PolicyError
from debias.results.drop_sentences import of_stopping
from debias.results.gate_outcome import NAMED, Gate, Result
from debias.results.policy import RULES, Policy
from debias.results.sentences import units_alike
from debias.results.vocabulary import DropStatus, GateStatus
from debias.text import listed

if TYPE_CHECKING:
    from debias.results.droppable import Droppable

RULE = "may_drop"


def check(result: Droppable, policy: Any) -> Gate:
    """Check features to drop against a policy; see :meth:`debias.Droppable.check`."""
    rules = Policy.of(policy)
    if rules.may_drop is None:
        raise PolicyError(f"the policy has no rule {RULE}, which names the features that were dropped or are to be")
    others = [name for name in RULES if name != RULE and getattr(rules, name) is not None]
    unchecked = (f"not checked here, because they are rules for an audit: {', '.join(others)}",) if others else ()
    absent = {feature.name for feature in rules.may_drop if feature.optional} - set(result.feature_names)
    names = [feature.name for feature in rules.may_drop if feature.name not in absent]
    return Gate((_result(result, names),), (), (*unchecked, *result.warnings), command="debias drop")


def _result(result: Droppable, names: list[str]) -> Result:
    limit = DropStatus.CERTIFIED
    if not names:
        return Result.of(RULE, True, "not in the model", limit, "the model has none of these features, all optional")
    unknown = [repr(name) for name in names if name not in result.feature_names]
    if unknown:
        return Result.of(RULE, False, "not in the model", limit, f"the model has no feature {listed(unknown, NAMED)}")
    size = len(names)
    if size not in result.sizes or set(result.dropped(size)) != set(names):
        reason = f"no model was refitted without exactly {listed(names, NAMED)}: name them as columns= to try that set"
        return Result(RULE, GateStatus.NOT_JUDGED, "not tried", limit, reason)
    k = result.place(size)
    status = result.status[k]
    low, high = (f"{value:z.1%}" if np.isfinite(value) else "none" for value in (result.low[k], result.high[k]))
    reason = (
        f"the refit without {listed(names, NAMED)} loses {result.lost[k]:z.1%} of the gain (lower bound {low}, upper "
        f"bound {high}, tolerance {100 * result.tolerance:g}%)"
    )
    if status is DropStatus.UNDECIDED and result.high[k] < result.tolerance:
        reason += (
            f"; {result.sizes.size} sets were tried and share the error rate {result.alpha:g}, for which p = "
            f"{result.p_value[k]:.2g} is too large"
        )
    if status is DropStatus.CERTIFIED and (doubt := _doubt(result)) is not None:
        return Result(RULE, GateStatus.NOT_JUDGED, status, limit, f"{reason}; but {doubt}")
    outcome = {
        DropStatus.CERTIFIED: GateStatus.PASSED,
        DropStatus.UNDECIDED: GateStatus.NOT_JUDGED,
        DropStatus.HARMFUL: GateStatus.FAILED,
    }
    return Result(RULE, outcome[status], status, limit, reason)


def _doubt(result: Droppable) -> str | None:
    """Return why a certificate may not hold, if a warning says so; None otherwise."""
    alike = units_alike(result.warnings)
    if alike is not None:
        return f"some {alike} are alike, which the tests take as independent: pass blocks"
    if of_stopping(result):
        return "these rows may have chosen the number of trees (early stopping): pass others"
    return None
