"""Sentences about features that may be dropped together, all made from the table of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.early_stopping import PERHAPS_STOPPED_EARLY, STOPPED_EARLY
from debias.results.performance import three_digits
from debias.results.sentences import told_of_leaks, units_alike
from debias.results.vocabulary import DropStatus
from debias.text import counted, escaped, listed, rounded_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from debias.results.droppable import Droppable


OF_A_LEAK = "If so, take it out and train the model again, before you drop others."
OF_LEAKS = "If so, take them out and train the model again, before you drop others."


def headline(result: Droppable) -> str:
    """Return what may be dropped, in one sentence."""
    size, first = result.size, int(result.sizes[0])
    if size:
        of_all = f"of {counted(len(result.feature_names), 'feature')}"
        return f"{size:,} {of_all} may be dropped{_together(size)}: {_named(result.dropped(size))}."
    if result.status[0] is DropStatus.HARMFUL:
        return f"Do not drop {_named(result.dropped(first))}{_together(first)}."
    return "It is not shown that any features may be dropped."


def summary(result: Droppable) -> list[str]:
    """Return the sentences of :meth:`Droppable.summary`."""
    sentences = [headline(result), _of_refit(result), *of_stopping(result), *of_leaks(result)]
    sentences += [
        *_of_alike(result),
        _of_metric(result),
        *_of_undecided(result),
        *_of_harmful(result),
        _of_order(result),
    ]
    if result.at_a_time > 1:
        sentences.append(
            f"There are many features, so {result.at_a_time} were dropped at a time, and not one by one. Another order "
            "may allow more."
        )
    if result.size:
        unit = "block" if result.blocks else "query" if result.units == "held-out queries" else "row"
        several = "queries" if unit == "query" else f"{unit}s"
        sentences.append(
            f"A kind of {unit} that is rarer than 1 in {max(result.n_independent // RARE, 1):,} may not be among the "
            f"held-out ones. What features do for such {several} only is not tested."
        )
    return [*sentences, LIMITS]


def of_stopping(result: Droppable) -> list[str]:
    """Return that rows which the model does not store chose its number of trees, if they may be the held-out rows."""
    chosen = {STOPPED_EARLY: "was", PERHAPS_STOPPED_EARLY: "may have been"}
    return [
        f"The number of trees {chosen[text]} chosen by the loss on rows that the model does not store (early "
        "stopping). If these are such rows, they were used before, and nothing here is certified: pass others."
        for text in result.warnings
        if text in chosen
    ]


def warnings_of_leaks(leaks: Mapping[str, float]) -> list[str]:
    """Return what is told of features that may leak the response: a model with a leak seems to need nothing else."""
    return [f"{sentence} {OF_A_LEAK if len(leaks) == 1 else OF_LEAKS}" for sentence in told_of_leaks(leaks)]


def of_leaks(result: Droppable) -> list[str]:
    """Return the warnings of features that may leak the response."""
    return [text for text in result.warnings if text.endswith((OF_A_LEAK, OF_LEAKS))]


def _of_alike(result: Droppable) -> list[str]:
    """Return that units which the tests take as independent are alike, if a warning says so."""
    alike = units_alike(result.warnings)
    if alike is None:
        return []
    return [
        f"The tests take {alike} as independent, but a warning says that some are alike. If they depend on one "
        "another, the bounds are too narrow, and nothing here is certified: pass blocks."
    ]


def _of_refit(result: Droppable) -> str:
    """Return what the refit of the headline loses."""
    size, allowed = result.size, f"{100 * result.tolerance:g}% of the gain of this model over a constant"
    again = "The model that was trained again without"
    if size:
        dropped = set(result.features)
        kept = _named([name for name in result.feature_names if name not in dropped])
        return f"{again} {_them(size)} loses at most {allowed} {_bounds(result, size)}. It keeps {kept}."
    first = int(result.sizes[0])
    if result.status[0] is DropStatus.HARMFUL:
        return f"{again} {_them(first)} loses more than {allowed} {_bounds(result, first)}."
    tried = "The set that was asked for" if result.path == "given" else "The smallest set that was dropped"
    allowed = f"{100 * result.tolerance:g}%"
    return (
        f"{tried} is {_named(result.dropped(first))}. Whether the model without {_them(first)} loses less than "
        f"{allowed} of the gain of this model over a constant is not known {_bounds(result, first)}."
    )


MOST_NEEDED = 100
"""If more than this many times the rows are needed, their number is not told."""
MOST_DROPPED_NAMED = 12
"""A set of at most this many features that must not be dropped is named."""
RARE = 3
"""Of n rows, a kind of row with a share of 3 / n is missing altogether with a probability of 5 %."""
LIMITS = (
    "A certificate is about one refitted model: the one without exactly these features, trained on all training rows. "
    "It is not about a part of the set, another model or another tolerance. It holds if the tolerance was chosen "
    "beforehand, and if these rows were not used before to choose features or settings."
)


def _of_metric(result: Droppable) -> str:
    performance, size = result.performance, result.size
    assert performance.value is not None
    assert performance.constant is not None
    n = len(result.feature_names)
    values = [f"{three_digits(performance.value)} with all {counted(n, 'feature')}"]
    if size:
        values.append(
            f"{three_digits(float(result.metric_at(result.lost[result.place(size)])))} with the {n - size} kept"
        )
    values.append(f"{three_digits(performance.constant)} for {performance.reference}")
    found = f"The {performance.metric} on these rows is {', '.join(values[:-1])}, and {values[-1]}."
    if result.units != "held-out queries":
        return found
    return f"{found} The tests are by query, and of the held-out queries {result.n_independent:,} have rows to rank."


def _of_undecided(result: Droppable) -> list[str]:
    """Tell which sets are undecided, what to do, and how many rows would decide one of them.

    That is the set that could be certified with the fewest rows, or else the first. Smaller sets than the one that is
    certified do not matter any more.
    """
    first_larger = 0 if result.certified is None else result.certified + 1
    undecided = [k for k in range(first_larger, result.sizes.size) if result.status[k] is DropStatus.UNDECIDED]
    if not undecided:
        return []
    which = "the set that was asked for" if result.path == "given" else _sets(result, undecided)
    keep = "these features" if result.certified is None else "the features that no certified set has"
    sentences = [f"{DropStatus.UNDECIDED.text.capitalize()}: {which}. Keep {keep}, or pass more held-out rows."]
    allowed = f"{100 * result.tolerance:g}% of the gain"
    unknown = [k for k in undecided if result.low[k] <= result.tolerance]
    if unknown:
        below_it = [k for k in unknown if result.lost[k] < result.tolerance]
        nearest = min(below_it, key=lambda k: result.needed[k]) if below_it else unknown[0]
        needed = result.needed[nearest]
        side = "at most" if result.lost[nearest] < result.tolerance else "more than"
        if needed > MOST_NEEDED * result.n_independent:
            sentences.append(
                f"The estimate for {_sets(result, [nearest])} is so near to the tolerance that {MOST_NEEDED} times as "
                "many rows would probably not decide."
            )
        else:
            sentences.append(
                f"If the estimate for {_sets(result, [nearest])} is right, about {rounded_up(needed):,} {result.units} "
                f"in all are needed to show that its refit loses {side} {allowed}."
            )
    below = [k for k in undecided if result.high[k] < result.tolerance]
    if below:
        sentences.append(
            f"The upper bound of {_sets(result, below)} is below the tolerance. That would do for the only set, but "
            f"{result.sizes.size} sets were tried. To certify one, try it as the only set on other held-out rows."
        )
    above = [k for k in undecided if result.low[k] > result.tolerance]
    if above:
        sentences.append(
            f"The lower bound of {_sets(result, above)} is above the tolerance, but the tests ended before: they begin "
            "with the largest set and end at the first that they do not decide."
        )
    return [" ".join(sentences)]


def _sets(result: Droppable, which: list[int]) -> str:
    """Return "the set of 7 features", or "the sets of 7, 8 features"."""
    sizes = [f"{result.sizes[k]:,}" for k in which]
    noun = "feature" if sizes == ["1"] else "features"
    return f"the set{'s' if sizes[1:] else ''} of {listed(sizes)} {noun}"


def _of_harmful(result: Droppable) -> list[str]:
    harmful = [k for k, status in enumerate(result.status) if status is DropStatus.HARMFUL]
    if not harmful or harmful[0] == 0:
        return []
    size = int(result.sizes[harmful[0]])
    dropped = result.dropped(size)
    more = ", and the same holds for the larger sets" if len(harmful) > 1 else ""
    few = _named(dropped) if size <= MOST_DROPPED_NAMED else f"the first {size:,} features of the order"
    return [
        f"Do not drop {few} together: that loses more than {100 * result.tolerance:g}% of the gain "
        f"{_bounds(result, size)}{more}. This does not say what some of them alone cost."
    ]


def _of_order(result: Droppable) -> str:
    if result.path == "given":
        return "The set was given, so one model was refitted."
    how = "at each number of features" if result.path == "refitted" else "with all features"
    return (
        f"The order was found on the training rows alone: models of {result.folds} folds were trained {how}, and each "
        f"time the feature was dropped whose splits save the least loss on the rows left out. {result.n_fits} models "
        "were trained in all."
    )


def _bounds(result: Droppable, size: int) -> str:
    """Return the estimate and the bounds in brackets."""
    k = result.place(size)
    low, high = (f"{value:z.1%}" if np.isfinite(value) else "not bounded" for value in (result.low[k], result.high[k]))
    confidence = f"{100 * (1 - result.alpha):g}%"
    return f"(estimate {result.lost[k]:z.1%}, lower bound {low}, upper bound {high}, each with {confidence} confidence)"


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _together(number: int) -> str:
    return "" if number == 1 else " together"


def _named(names: Sequence[str]) -> str:
    return listed([escaped(name) for name in names])
