"""Sentences about what changed between two windows of a history.

Every sentence must be true of the table. The tests recompute each sentence from the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.results.policy import SMALLEST_SHIFT
from debias.results.sentences import in_a_row
from debias.results.vocabulary import ChangeVerdict, LossKind, error_rate_in_words
from debias.results.windows import waiting_in_words
from debias.text import counted, escaped, few_digits, listed, named_together, percent, told_apart, with_sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from debias.results.changes import Changes
    from debias.results.loss_change import LossChange
    from debias.results.windows import WindowOfPeriods

REPEATED = 0.01
"""A share of repeated rows that is larger by less than this is not mentioned."""
MOST_NAMED = 5
"""A sentence names at most this many features."""
LARGE_SHIFT = 0.5
SHIFT_OF_PAIRS = 0.3
"""From this effect size on, rows that moved may be why a pair changed: means move by half a standard deviation, and the
margin covers no more."""
FAR_BELOW = 4
"""Standard errors by which the recent score is below 0 if the response is said to go the other way."""


def summary(changes: Changes) -> list[str]:
    """Return the sentences of ``Changes.summary``."""
    provisional = [] if changes.provisional is None else changes.provisional.summary()
    newer = [f"{waiting_in_words(changes.newer_waiting)}."] if changes.newer_waiting else []
    if not changes.compared:
        return [
            f"Nothing was compared: {changes.not_compared_because}.",
            *windows_in_words(changes),
            *newer,
            *provisional,
        ]
    # What is wrong with the rows comes first: it may be why the response to other features seems to have changed.
    return [
        *([] if changes.response_predicted is None else [f"{changes.response_predicted}."]),
        *_faults_of_rows(changes),
        *_means(changes),
        *_loss(changes),
        *(_by_feature(changes) if changes.any_look is None else []),
        *_pairs(changes),
        *_no_loss(changes),
        *windows_in_words(changes),
        *([_tests(changes)] if changes.any_look is None else changes.any_look.summary(changes.alpha)),
        *newer,
        *provisional,
    ]


def _by_feature(changes: Changes) -> list[str]:
    """Return sentences about the response to single features, and about shifts of the rows."""
    far = (changes.statistics["shifted"] & (changes.statistics["shift"] >= LARGE_SHIFT)).any()
    return [
        *_not_tested(changes),
        *([_shifted(changes)] if far else []),
        _changed(changes),
        *_faded(changes),
        *_reversed(changes),
        *_undetected(changes),
        *([] if far else [_shifted(changes)]),
    ]


def _faults_of_rows(changes: Changes) -> list[str]:
    """Return sentences about categories that the model never saw, and about repeated rows."""
    sentences = []
    before, after = changes.statistics["unseen_before"], changes.statistics["unseen_after"]
    found = sorted(_where(after > 0), key=lambda k: -after[k])
    if found:

        def in_words(k: int) -> str:
            known = "" if np.isnan(before[k]) else f"; before, {percent(before[k])}"
            return f"{_name(changes, k)} ({percent(after[k])} of the recent rows{known})"

        sentences.append(f"Categories that the model never saw: {_named(changes, found, in_words)}.")
    old, new = changes.repeated
    if new > REPEATED and not new <= old + REPEATED:
        known = "" if np.isnan(old) else f" (before, {percent(old)})"
        sentences.append(
            f"Repeated rows: {percent(new)} of the recent rows are equal to another row of the same period{known}. A "
            "join that finds several partners makes such rows."
        )
    return sentences


def _means(changes: Changes) -> list[str]:
    """Return a sentence about the mean residual, if it changed, and whether response or predictions moved too."""
    found = {mean.of: mean for mean in changes.means}
    if not found or not found["residual"].changed:
        return []
    residual = found["residual"]
    also = ""
    moved = [of for of in ("response", "prediction") if found[of].changed]
    if moved:
        rest = "".join(f", and the {found[of].name} {found[of].moved_by}" for of in moved[1:])
        also = f" The {found[moved[0]].name} moved too, {found[moved[0]].moved_by}{rest}."
    since = "" if residual.since is None else f", since {escaped(residual.since)}"
    return [f"The {residual.name} changed, for whatever reason{since}: {residual.in_words}{residual.at_most}.{also}"]


def _loss(changes: Changes) -> list[str]:
    """Return sentences about the change of the loss, and what made it."""
    found = changes.loss
    if found is None:
        return []
    loss, metric = found.loss, escaped(found.metric)
    (before, after), change = told_apart(loss.before, loss.after), with_sign(loss.change)
    ends = f"from {before} to {after} ({change}, standard error {few_digits(loss.error, 2)})"
    if np.isnan(loss.error):
        return [
            f"The {metric} went from {before} to {after} ({change}). There are too few periods to tell whether this is "
            "chance, and what single features cost was not tested."
        ]
    moved = f"went {ends}, which may be chance" if found.direction is None else f"{found.direction} {ends}"
    if found.direction is not None and loss.since is not None:
        size, since = few_digits(abs(loss.since[1])), escaped(loss.since[0])
        moved = f"{found.direction} by {size} since {since}; recently it went {ends}"
        if loss.by_ranks:
            by = f" by {size}" if loss.since[1] else ""
            moved = (
                f"{found.direction}{by} since {since}, by the ranks of periods. Its means, in which few far periods "
                f"count most, went {ends}"
            )
    named, cost = [int(k) for k in found.costs_more], found.statistics["cost"]
    n_others = len(found.feature_names) - len(named)
    others = counted(n_others, "other feature" if named else "feature")
    of_others = loss.part_in_words(cost.sum() - cost[named].sum())
    parts = [f"the base {loss.part_in_words(found.base.change)}"]
    parts += [f"{others} {'together ' * (n_others > 1)}{of_others}"] if n_others else []
    if not named:
        return [f"The {metric} {moved}: {', '.join(parts)}. No feature costs more than before by more than chance."]
    more = in_a_row([f"{_name(changes, k)}{found.cost_in_words(k)}" for k in named], MOST_NAMED)
    if found.since:
        return [
            f"The {metric} {moved}. More than before, beyond chance at any look, cost: {more}. The base changed by "
            f"{loss.part_in_words(found.base.change)}."
        ]
    return [
        f"The {metric} {moved}. More than before, beyond chance, cost: {more}. The rest: {', '.join(parts)}.",
        *_causes(found),
    ]


def _causes(loss: LossChange) -> list[str]:
    """Return a sentence about the features that cost more: what is wrong with them, and which they explain."""
    if loss.no_causes_because is not None:
        because = escaped(loss.no_causes_because)
        return [f"Which features are causes, and which only go together with one, is not known: {because}."]
    explained = in_a_row([escaped(name) for name in loss.explained], MOST_NAMED)
    if not loss.causes:
        if not explained:
            return ["No feature is found to be a cause by itself."]
        return [
            "The mean response moved against the predictions of the model. Beyond what this explains, no feature is "
            f"found to cost more, so none of these is called a cause: {explained}."
        ]
    kinds = "; ".join(f"{escaped(cause.feature)}: {cause.kind.text}" for cause in loss.causes)
    they = "It" if len(loss.causes) == 1 else "They"
    explain = "explains" if len(loss.causes) == 1 else "explain"
    if all(cause.kind is LossKind.ROWS for cause in loss.causes):
        they, explain = "Other rows", "explain"
    if loss.level_moved:
        they, explain = f"{they}, and a mean response that moved against the predictions,", "explain"
    rest = f". {they} {explain} what these cost: {explained}" if explained else ""
    if loss.partly_explained:
        partly = in_a_row([escaped(name) for name in loss.partly_explained], MOST_NAMED)
        rest += f". What these cost is not explained in full, so they may be weaker causes: {partly}"
    lead = "Causes" if loss.direction == "rose" else "The loss did not rise beyond chance. What costs more"
    return [f"{lead}, step by step: {kinds}{rest}."]


def _no_loss(changes: Changes) -> list[str]:
    because = changes.no_loss_because
    if because is None:
        return []
    lacks = (
        "The parts of the loss are not those of all periods" if changes.loss else "The change of the loss is not known"
    )
    return [f"{lacks}: {escaped(because)}."]


def _not_tested(changes: Changes) -> list[str]:
    n_features, used = len(changes.feature_names), changes.statistics["used"]
    unused = _where(~used)
    sentences = []
    if unused:
        sentences.append(
            f"No tree splits on {len(unused):,} of {counted(n_features, 'feature')}, so whether the response to "
            f"{'it' if len(unused) == 1 else 'them'} changed is not known: {_named(changes, unused)}."
        )
    missing = _where(used & ~changes.tested)
    if not missing:
        return sentences
    undetected = ChangeVerdict.UNDETECTED.phrase.capitalize()
    gone = [k for k in missing if changes.statistics["undetected"][k]]
    no_longer = "" if not gone else f" {undetected} among these: {_named(changes, gone)}."
    return [
        *sentences,
        f"The change of {len(missing):,} of {counted(n_features, 'feature')} could not be tested: "
        f"{_named(changes, missing)}.{no_longer}",
    ]


def _changed(changes: Changes) -> str:
    p_value = changes.statistics["p_value"]
    found = sorted(_where(changes.statistics["changed"]), key=lambda k: p_value[k])
    n_features, n_tested = len(changes.feature_names), int(changes.tested.sum())
    of = counted(n_features, "feature") if n_tested == n_features else f"the {counted(n_tested, 'tested feature')}"
    if not n_tested:
        return "No change of the response was tested."
    if not found:
        return f"No change of the response was detected for any of {of}."

    def in_words(k: int) -> str:
        before, after = changes.statistics["before"][k], changes.statistics["after"][k]
        weaker = changes.statistics["response_change"][k] < 0
        direction = "became weaker" if weaker else "became stronger"
        if _is_against(changes, "before", k):
            direction = f"goes {'further' if weaker else 'less'} against the splits of the model"
        against = (after - before) * changes.statistics["response_change"][k] < 0
        rows = "; other rows moved it the other way" if against else ""
        of_before, of_after = told_apart(before, after)
        return f"{_name(changes, k)} {direction} (score {of_before} before, {of_after} recently{rows})"

    return f"The response to {len(found):,} of {of} changed: {_named(changes, found, in_words)}."


def _faded(changes: Changes) -> list[str]:
    faded = _where(changes.statistics["faded"])
    if not faded:
        return []
    it_was, it_is = ("its score was", "it is") if len(faded) == 1 else ("their scores were", "they are")
    return [
        f"{ChangeVerdict.FADED.text.capitalize()}: {_named(changes, faded)}. Before, {it_was} above 0 by more than "
        f"chance; recently {it_is} not, and the change is more than chance."
    ]


def _is_against(changes: Changes, window: str, k: int) -> bool:
    """Whether the score in a window is far below 0: the response goes the other way than the model believes."""
    score, error = changes.statistics[window][k], changes.statistics[f"{window}_error"][k]
    return bool(error > 0 and score < -FAR_BELOW * error)


def _reversed(changes: Changes) -> list[str]:
    found = [k for k in _where(changes.statistics["changed"]) if _is_against(changes, "after", k)]
    if not found:
        return []
    after, error = changes.statistics["after"], changes.statistics["after_error"]

    def in_words(k: int) -> str:
        return f"{_name(changes, k)} (score {few_digits(after[k])}, standard error {few_digits(error[k], 2)})"

    return [
        f"Recently the response goes the other way than the splits of the model on {_named(changes, found, in_words)}."
    ]


def _undetected(changes: Changes) -> list[str]:
    found = _where(changes.statistics["undetected"] & ~changes.statistics["faded"] & changes.tested)
    if not found:
        return []
    shifted = [k for k in found if changes.statistics["shifted"][k]]
    reason = f" Shifted rows may be the reason for {_named(changes, shifted)}." if shifted else ""
    recent = f"{counted(changes.recent.n_periods, 'period')}, {counted(changes.recent.n_rows, 'row')}"
    return [
        f"{ChangeVerdict.UNDETECTED.phrase.capitalize()}, without a change downwards that is more than chance: "
        f"{_named(changes, found)}. The recent window ({recent}) may be too short to show "
        f"{'it' if len(found) == 1 else 'them'}.{reason}"
    ]


def _pairs(changes: Changes) -> list[str]:
    """Return what changed for pairs of features, and for which pairs rows that moved may be the reason."""
    found = changes.pairs
    if found is None:
        return []
    moved = [
        named_together([escaped(name) for name in pair])
        for pair, changed in zip(found.pairs, found.changed, strict=True)
        if changed and that_moved(changes, pair)
    ]
    sentences, windows = found.summary(), (changes.reference.n_periods, changes.recent.n_periods)
    if found.not_tested_because is None:
        sentences += found.in_fewer_periods(windows)
    if moved:
        sentences.append(
            f"Shifted rows may be the reason for {listed(moved)}, if the model has another shape than the response."
        )
    return sentences


def that_moved(changes: Changes, names: Iterable[str]) -> list[str]:
    """Return which of these features have splits at which the rows moved far enough to change a pair."""
    far = changes.statistics["shifted"] & (changes.statistics["shift"] >= SHIFT_OF_PAIRS)
    return [name for name in names if far[changes.feature_names.index(name)]]


def _shifted(changes: Changes) -> str:
    size = changes.statistics["shift"]
    used = changes.statistics["used"]
    if not used.any():
        return "No shift was tested: the model has no splits."
    unknown = _where(np.isnan(size) & used)
    too_few = f" Too few rows to tell at the splits on {_named(changes, unknown)}." if unknown else ""
    found = sorted(_where(changes.statistics["shifted"]), key=lambda k: -size[k])
    if len(unknown) == used.sum():
        return "No shift was tested: no split has enough rows."
    if not found:
        which = " with enough rows" if unknown else "" if used.all() else " that trees split on"
        least = f"(effect size {SMALLEST_SHIFT:g} or more)"
        return f"No shift of the rows was detected at the splits on any feature{which} {least}.{too_few}"

    def in_words(k: int) -> str:
        left = (changes.statistics["left_before"][k], changes.statistics["left_after"][k])
        if not changes.splits[k] or np.isnan(left).any():
            return f"{_name(changes, k)} (effect size {size[k]:.2f})"
        shares = f"{percent(left[0])} of the rows there went left before, {percent(left[1])} recently"
        return f"{_name(changes, k)} (effect size {size[k]:.2f}; at {escaped(changes.splits[k])}, {shares})"

    return f"Rows shifted at the splits on {_named(changes, found, in_words, '; ')}.{too_few}"


def windows_in_words(changes: Changes) -> list[str]:
    """Return which periods of which model are compared, in sentences."""
    sentences = []
    reference = f" Reference: {escaped(changes.reference_given)}." if changes.reference_given else ""
    if changes.reference.n_periods and changes.recent.n_periods:
        sentences.append(
            f"Compared: {_in_words(changes.recent)} with {_in_words(changes.reference)}, of {escaped(changes.series)} "
            f"({escaped(changes.model)}).{reference}"
        )
    if changes.n_other_series:
        others = "1 other model" if changes.n_other_series == 1 else f"{changes.n_other_series:,} other models"
        sentences.append(f"The periods of {others} in this history were not used: scores of two models differ.")
    return sentences


def _tests(changes: Changes) -> str:
    comparisons = "this comparison alone" if changes.looks == 1 else f"{changes.looks:,} comparisons together"
    return (
        f"Test: a change counts if the slope of the response changed by more than {changes.least:g}; standard errors "
        f"from differences {changes.method}; {error_rate_in_words('fwer', changes.alpha)} of {comparisons}."
    )


def _in_words(window: WindowOfPeriods) -> str:
    assert window.first is not None and window.last is not None  # noqa: PT018  # it has periods
    span = escaped(window.first) if window.n_periods == 1 else f"{escaped(window.first)} to {escaped(window.last)}"
    return f"{counted(window.n_periods, 'period')} ({span}, {counted(window.n_rows, 'row')})"


def _where(flags: Iterable[object]) -> list[int]:
    return [k for k, flag in enumerate(flags) if flag]


def _name(changes: Changes, k: int) -> str:
    return escaped(changes.feature_names[k])


def _named(
    changes: Changes, which: list[int], in_words: Callable[[int], str] | None = None, between: str = ", "
) -> str:
    """Return the first features as a list in one line, and how many more there are."""
    return in_a_row([_name(changes, k) if in_words is None else in_words(k) for k in which], MOST_NAMED, between)
