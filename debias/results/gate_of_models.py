"""The gate of two models: checks of how the loss of a new model differs from that of an old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debias.results.gate_of_loss import RULE, result_of_loss
from debias.results.gate_outcome import NAMED, Gate, Result, result_of_absent, warnings_of_absent
from debias.results.policy import ALL, ModelsPolicy
from debias.results.vocabulary import OF_TREES, GateStatus, ModelVerdict
from debias.text import counted, escaped, listed, told_apart, with_sign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from debias.results.model_comparison import ModelComparison

WANTED = "saves no less"


def check(comparison: ModelComparison, policy: Any) -> Gate:
    """Check a comparison of two models against a policy.

    Parameters
    ----------
    comparison : ModelComparison
    policy : ModelsPolicy, mapping of rules, or path of a TOML file

    Returns
    -------
    Gate

    Raises
    ------
    PolicyError
        The policy is wrong, or has rules for an audit or a history only.
    """
    rules = ModelsPolicy.of(policy)
    named = rules.must_not_save_less
    features = () if named in (None, ALL) else named
    warnings = warnings_of_absent("must_not_save_less", features, comparison.feature_names)  # type: ignore[arg-type]
    results = tuple(_results(comparison, rules))
    return Gate(results, (), (*comparison.warnings, *warnings), command="debias compare")


def _results(comparison: ModelComparison, rules: ModelsPolicy) -> Iterator[Result]:
    least, few = rules.min_rows, None
    if least is not None:
        n_rows, enough = comparison.n_rows, comparison.n_rows >= least
        reason = f"{counted(n_rows, 'row')}, {'and' if enough else 'but'} the policy requires {least:,}"
        few = None if enough else f"too few to judge: {reason}"
        yield Result.of("min_rows", enough, f"{n_rows:,}", f">= {least:,}", reason)
    for result in _of_losses(comparison, rules):
        yield result if few is None or result.status is not GateStatus.PASSED else result.unjudged(few)


def _of_losses(comparison: ModelComparison, rules: ModelsPolicy) -> Iterator[Result]:
    if rules.max_loss_increase is not None:
        yield _loss(comparison, rules.max_loss_increase)
    named = rules.must_not_save_less
    if named == ALL:
        yield _all(comparison)
    elif named is not None:
        for feature in named:
            rule = f"must_not_save_less: {feature.name}"  # type: ignore[union-attr]
            if feature.name in comparison.feature_names:  # type: ignore[union-attr]
                yield _one(rule, comparison, comparison.feature_names.index(feature.name))  # type: ignore[union-attr]
            else:
                yield result_of_absent(rule, feature, comparison.feature_names, WANTED)  # type: ignore[arg-type]


def _loss(comparison: ModelComparison, limit: float) -> Result:
    """Check whether the model has a higher loss than the baseline, by more than a limit and beyond chance."""
    loss, cost = comparison.loss, comparison.statistics["cost"]
    if comparison.metric.endswith(OF_TREES):
        reason = "the loss of the calibrated model is not computed, only that of its trees before calibration"
        return Result(RULE, GateStatus.NOT_JUDGED, with_sign(loss.change), f"<= {limit:g}", reason)
    if comparison.alike:
        return Result(RULE, GateStatus.PASSED, "+0", f"<= {limit:g}", _alike(comparison))
    less = [f"{escaped(comparison.feature_names[k])} {with_sign(cost[k])}" for k in comparison.found(ModelVerdict.LESS)]
    causes = f"; higher by {listed(less, NAMED)}" if less else "; no single feature by more than chance"
    return result_of_loss(
        comparison.metric,
        loss,
        limit,
        comparison.alpha,
        ends=("of the baseline", "of the model"),
        few="there is no standard error, so it is not known what is chance",
        causes=f"{causes}; the base {loss.part_in_words(comparison.base.change)}",
    )


def _one(rule: str, comparison: ModelComparison, k: int) -> Result:
    """Check whether the model saves less by a feature than the baseline."""
    verdict, statistics = comparison.verdict[k], comparison.statistics
    if verdict is ModelVerdict.UNTESTED and _saves_the_same(comparison, k):
        return Result(
            rule, GateStatus.PASSED, "the same", WANTED, f"{_alike(comparison)}, and it saves the same in both"
        )
    if verdict is ModelVerdict.UNTESTED:
        return Result(rule, GateStatus.NOT_JUDGED, verdict, WANTED, "its difference could not be tested")
    before, after = told_apart(statistics["saved_baseline"][k], statistics["saved_model"][k])
    reason = f"saves {before} in the baseline, {after} in the model; adjusted p = {statistics['p_adjusted'][k]:.3g}"
    only = comparison.only_in[k]
    reason += f"; only in the {only}" if only else ""
    return Result.of(rule, verdict is not ModelVerdict.LESS, verdict, WANTED, reason)


def _saves_the_same(comparison: ModelComparison, k: int) -> bool:
    """Return whether the models have the same loss in every row, and a feature saves as much in both."""
    return comparison.alike and comparison.statistics["cost"][k] == 0


def _alike(comparison: ModelComparison) -> str:
    return f"both models have the same {escaped(comparison.metric)} in every row"


def _all(comparison: ModelComparison) -> Result:
    """Check the same for all features at once."""
    rule, less = "must_not_save_less", comparison.found(ModelVerdict.LESS)
    n_tested = sum(verdict is not ModelVerdict.UNTESTED for verdict in comparison.verdict)
    wanted = f"0 ({WANTED})"
    if not n_tested and all(_saves_the_same(comparison, k) for k in range(len(comparison.feature_names))):
        return Result(rule, GateStatus.PASSED, "0", wanted, f"{_alike(comparison)}, and each feature saves the same")
    if not n_tested:
        return Result(rule, GateStatus.NOT_JUDGED, "none", wanted, "no feature could be tested")
    cost = comparison.statistics["cost"]
    names = listed([f"{escaped(comparison.feature_names[k])} {with_sign(cost[k])}" for k in less], NAMED)
    reason = f"the loss is higher by {names}" if less else f"compared {counted(n_tested, 'feature')}"
    return Result.of(rule, not less, f"{len(less):,} of {n_tested:,}", wanted, reason)
