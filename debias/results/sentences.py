"""Sentences about an audit, or one of folds: which features matter, which are reported too high, what cannot be told.

Every sentence must be true of the table. The tests recompute each sentence from the numbers. Over 500 lines, because
the summary is one text: its sentences must not repeat or contradict one another.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.early_stopping import NOTES_OF_STOPPING
from debias.lines_note import LINES
from debias.results import untested
from debias.results.performance import ROWS_DIFFER
from debias.results.vocabulary import (
    AS_ESTIMATED,
    BEFORE_CALIBRATION,
    DEPENDENCE,
    ERROR_RATE_OF_INFLATION,
    EXPLAINED_ALONE,
    GROUPS_OF_ROWS,
    LIKE_TRAINING,
    PAIRS,
    PROVEN_HELD_OUT,
    TWINS,
    UNPROVEN,
    Dependence,
    RowsKind,
    Verdict,
    error_rate_in_words,
)
from debias.text import (
    all_are,
    correlation_in_words,
    counted,
    escaped,
    listed,
    name_in_text,
    named_together,
    none_is,
    p_value_in_words,
    percent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.folds_audit import FoldsAudit
    from debias.results.scores import Scores

ROWS_TO_JUDGE = 30
"""With fewer rows than this, the summary names no inflated features."""
INFLATED = 2.0
"""A feature is inflated if its reported share is at least this many times the same figure on unseen rows,"""
NOTABLE = 0.01
"""and if its reported share is larger by more than this."""
NOTABLE_TOGETHER = 0.1
"""Smaller excesses are mentioned only if their sum is larger than this."""
MOST_NAMED = 3
"""The summary names at most this many inflated features, and features that folds disagree on."""
MOST_IN_HEADLINE = 5
"""The headline names at most this many informative features,"""
LONGEST_IN_HEADLINE = 90
"""and fewer if their names are longer than this together, but at least one."""
MANY_A_ROW = 0.5
"""With this many features a row or more, the summary of out-of-bag rows says that they cannot show a selection."""
LEAK = 0.95
"""A feature that explains at least this share of the variation of y by itself may be a leak of y (docs/report.md)."""
STABLE = 0.9
"""Folds with a mean rank correlation of at least this rank the features alike,"""
UNSTABLE = 0.5
"""and below this they rank them differently."""
NO_VERDICTS = "No feature was tested: this audit shows scores but no verdicts."
_EXCESS = "more than 1 percentage point above it"
_ALIKE = ("are alike: they have similar responses", " of the rows repeat the values of another row in ")
"""The warnings of dependent rows say one of these."""


def summary(audit: Audit) -> list[str]:
    """Return the sentences of ``Audit.summary``."""
    doubt, rows = doubts(audit), [*_performance(audit), scored_on(audit.tested_scores)]
    if untested.tell_nothing(audit.tested_scores):
        nothing = "The scores and shares of these rows say nothing about the features."
        return [*doubt, test_summary(audit), *rows, nothing]
    if audit.tested_scores.rows == RowsKind.TRAIN or not audit.tested:
        return [
            *doubt,
            *of_lines(audit.tested_scores),
            test_summary(audit),
            *of_stopping(audit),
            *rows,
            *_too_high(audit),
        ]
    what_matters = [
        *doubt,
        *of_lines(audit.tested_scores),
        *of_stopping(audit),
        headline(audit),
        *of_rest(audit),
        *of_unused(audit),
        *to_look_at(audit),
        *_losing(audit),
        *_work_together(audit),
        *_before_a_selection(audit),
    ]
    return [*what_matters, test_summary(audit), *_dependence(audit), *rows]


def to_look_at(audit: Audit) -> list[str]:
    """Return what a reader should look at: untested features, a leak, nearly the same columns, a bias."""
    alike = [*_near_duplicates(audit), *_twins(audit)]
    return [*of_untested(audit.untested_features), *_leak(audit), *alike, *_too_high(audit)]


def of_lines(scores: Scores) -> list[str]:
    """Return that leaves have lines, if so, of which scores and tests see nothing."""
    return [_sentence(text) for text in scores.warnings if text == LINES]


def of_stopping(audit: Audit) -> list[str]:
    """Return that rows which the model does not store chose its number of trees, if they may be the scored rows."""
    if audit.tested_scores.provenance.get("kind") != "held-out":
        return []
    return [_sentence(text) for text in audit.tested_scores.warnings if text in NOTES_OF_STOPPING]


def doubts(audit: Audit) -> list[str]:
    """Return what a reader must know before any score: that the model predicts no better than a constant, if so."""
    performance = audit.performance
    found = [] if performance is None else performance.doubts()
    known = performance is not None and performance.why_probabilities_fail
    if found and not known and any(text.startswith(ROWS_DIFFER) for text in audit.tested_scores.warnings):
        found.append(
            "These rows also differ from the training rows at the splits of the model, as a warning says. If the data "
            "have changed since training, this may be the cause: trees follow no trend beyond their training rows."
        )
    return found


def _performance(audit: Audit) -> list[str]:
    return [] if audit.performance is None or doubts(audit) else [audit.performance.sentence()]


def test_summary(audit: Audit) -> str:
    """Return the sentences of ``Audit.test_summary``."""
    if not audit.tested:
        return f"No feature was tested: {audit.untested_because}."
    n_noise, n_features, n_rows = (
        int(audit.which(Verdict.INDISTINGUISHABLE).sum()),
        audit.share.size,
        audit.tested_scores.n_rows,
    )
    rows = "this 1 row" if n_rows == 1 else f"these {n_rows:,} rows"
    sentences = [f"{verdict_count(audit)} on {rows}{condition_of_verdicts(audit, named=True)}."]
    if 0 < n_noise < n_features and audit.unsupported_share is not None and reports_anything(audit):
        they = "It has" if n_noise == 1 else "Together they have"
        sentences.append(f"{they} {percent(audit.unsupported_share)} of the reported importance.")
    sentences.append(f"Test: {test_description(audit)}.")
    alike = units_alike(audit.warnings)
    if alike:
        sentences.append(f"It takes {alike} as independent, but a warning says that some are alike.")
    return " ".join(sentences)


def units_alike(warnings: Sequence[str]) -> str | None:
    """Return "rows" or "blocks", of which a warning says that some are alike; None if there is no such warning."""
    alike = [text for text in warnings if any(words in text for words in _ALIKE)]
    if not alike:
        return None
    return "blocks" if alike[0].startswith("consecutive blocks") else "rows"


def verdict_count(audit: Audit | FoldsAudit, verdict: Verdict = Verdict.INDISTINGUISHABLE) -> str:
    """Return how many features have a verdict, as a sentence without its full stop.

    If all have one verdict, the sentence says that all features are informative, or none.
    """
    found = audit.which(verdict)
    for each, begin in ((Verdict.INDISTINGUISHABLE, none_is), (Verdict.INFORMATIVE, all_are)):
        if audit.which(each).all():
            return f"{begin(found.size, 'feature')} {Verdict.INFORMATIVE.phrase}"
    return f"{found.sum():,} of {found.size:,} features {_is(int(found.sum()))} {verdict.phrase}"


def condition(audit: Audit, *, named: bool) -> str:
    """Return the clause for rows that may be training rows, or are alike; `named` if the sentence has named the rows.

    Where it has, another sentence says that some are alike (:func:`test_summary`).
    """
    clause = _of_training_rows(audit, named=named)
    alike = None if named else units_alike(audit.warnings)
    if alike is None:
        return clause
    return f"{clause}, {'and' if clause.startswith(', but') else 'but'} a warning says that some {alike} are alike"


def condition_of_verdicts(audit: Audit, *, named: bool) -> str:
    """Return the clause of `condition`, and that rows must be independent, unless blocks or doubts say more.

    P-values of rows that depend on one another are too small, so where nothing is informative nothing changes.
    """
    clause = condition(audit, named=named)
    found = audit.which(Verdict.INFORMATIVE).any()
    return _with_independence(clause, [audit.tested_scores], audit.warnings) if found else clause


def _with_independence(clause: str, scores: Sequence[Scores], warnings: Sequence[str]) -> str:
    in_blocks = any(each.details.get("test", {}).get("blocks", True) for each in scores)
    if in_blocks or ", but" in clause or all(each.n_rows == 1 for each in scores) or units_alike(warnings):
        return clause
    return f"{clause} and rows are independent" if clause else ", if rows are independent"


def _of_training_rows(audit: Audit, *, named: bool) -> str:
    if audit.tested_scores.unproven_because is None:
        return ""
    provenance = audit.tested_scores.provenance
    like_training = provenance["status"] == LIKE_TRAINING
    if audit.tested_scores.n_rows == 1:
        row = "it" if named else "the row"
        return f", but {row} looks like a training row" if like_training else f", if {row} is not a training row"
    if like_training:
        return f", but {'they' if named else 'the rows'} look like training rows"
    them = "them" if named else "the rows"
    part = part_like_training(provenance, them)
    return f", if none of {them} is a training row" if part is None else f", but {part}"


def part_like_training(provenance: Mapping[str, Any], them: str = "the rows") -> str | None:
    """Return that a part of the rows looks like training rows, or may be some, as a clause; None if no part does."""
    share, detail = provenance.get("training_share"), str(provenance.get("detail"))
    if share is None or AS_ESTIMATED not in detail:
        return None
    at_least = "at least " * detail.startswith("at least")
    verb = "look like" if " are training rows" in detail else "may be"
    return f"{at_least}about {share:.0%} of {them} {verb} training rows"


def test_description(audit: Audit) -> str:
    """Return the method and error rate of the test, and the z above which every feature is informative."""
    test: dict[str, Any] = audit.tested_scores.details.get("test", {})
    parts = []
    if "n_permutations" in test:
        parts.append(_permutations(test))
    elif test.get("method") == "mirror":
        parts.append("null distribution of mirrored scores")
    elif "method" in test:
        parts.append(f"{test['method']} standard errors")
    if "alpha" in test:
        parts.append(error_rate_in_words(test.get("error"), test["alpha"]))
    else:
        parts.append(f"decision rule of {audit.tested_scores.scorer}")
    limit = sufficient_z(audit)
    if limit is None:
        return ", ".join(parts)
    above = math.ceil(100 * limit) / 100  # rounded up, so that it is true of every z above
    return f"{', '.join(parts)}; every feature with z above {above:.2f} is {Verdict.INFORMATIVE.phrase}"


def sufficient_z(audit: Audit) -> float | None:
    """Return the z above which every feature is informative; None if that depends on the z of other features.

    For the family-wise error rate it is the minimum detectable z. For a false discovery rate with permutations, one
    feature alone is not enough: it takes several features with high z, or more permutations.
    """
    test, threshold = audit.tested_scores.details.get("test", {}), audit.tested_scores.threshold
    alone = test.get("error") == "fwer" or (test.get("error") == "fdr" and "n_permutations" not in test)
    if not audit.tested_scores.values.any():  # the trees have no splits that count, so there is no z
        return None
    return threshold if alone and threshold is not None and threshold >= 0 else None


def rank_of(values: NDArray[np.float64], k: int) -> str:
    """Return the rank of entry `k`, 1 for the largest: "rank 3 of 12". Equal entries share the best of their ranks."""
    rank, tied = 1 + int((values > values[k]).sum()), int((values == values[k]).sum()) > 1
    return f"{'tied for rank' if tied else 'rank'} {rank:,} of {values.size:,}"


def reports_anything(audit: Audit) -> bool:
    """Return whether the library reports an importance above 0 for any feature."""
    return audit.reported is not None and bool(audit.reported.any())


def headline(audit: Audit) -> str:
    """Return which features are informative, the strongest first, and on which condition."""
    if audit.tested_scores.rows == RowsKind.TRAIN:
        return "Scored on training rows: this audit cannot show which features are more than noise."
    if untested.tell_nothing(audit.tested_scores):
        return "No feature was tested: these rows can tell nothing about the features."
    if not audit.tested:
        return NO_VERDICTS
    held_if, informative = condition_of_verdicts(audit, named=False), audit.which(Verdict.INFORMATIVE)
    strongest_first = [k for k in audit.strongest_first if informative[k]]
    if not strongest_first:
        return f"{verdict_count(audit)}{held_if}."
    names = [audit.tested_scores.feature_names[k] for k in strongest_first]
    lengths = np.cumsum([len(name) for name in names[:MOST_IN_HEADLINE]])
    named = enumerated(names, max(1, int((lengths <= LONGEST_IN_HEADLINE).sum())))
    return _naming_strongest(f"{verdict_count(audit, Verdict.INFORMATIVE)}{held_if}", len(names), named)


def _naming_strongest(found: str, n_found: int, named: str) -> str:
    return f"{found}{': ' if n_found == 1 else '. Strongest first: '}{named}."


def _permutations(test: Mapping[str, Any], where: str = "") -> str:
    """Return what a test drew, in words: "200 permutations", "95 random signs of residuals of 3 models together"."""
    pooled = " of all features together" if test.get("pooled") else ""
    drawn = "random sign" if test.get("draws") == "random signs" else "permutation"
    of_ranks = " of the ranks of the response" if "response" in test else ""
    of_residuals = " of residuals and of the response" if test.get("with_scores") else " of residuals"
    of_what = of_residuals if test.get("method") == "residuals" else of_ranks
    together = f" of {test['models']:,} models together" if "models" in test else ""
    return f"{counted(test['n_permutations'], drawn)}{of_what}{together}{where}{pooled}"


def of_rest(audit: Audit) -> list[str]:
    """Return whether the features that are not confirmed alone carry information together."""
    rest = audit.rest
    if rest is None or set(rest.features) <= set(audit.unused_features):
        return []
    others = "other " if audit.which(Verdict.INFORMATIVE).any() else ""
    n_unused = len(set(rest.features) & set(audit.unused_features))
    which = f" ({n_unused:,} of them without splits)" if n_unused else ""
    them = f"the {others}{len(rest.features):,} {'tested ' if audit.untested_features else ''}features{which}"
    if rest.p_value is None:
        return [f"{them.capitalize()} were not tested together: {rest.untested_because}."]
    p = p_value_in_words(rest.p_value)
    if rest.informative:
        return [
            f"Together {them} carry information about the response ({p}){condition(audit, named=False)}. None of them "
            "is confirmed alone. Dropping all of them may cost accuracy."
        ]
    return [
        f"Even together {them} are not confirmed in this model ({p}). This does not prove that they carry no "
        "information."
    ]


def of_unused(audit: Audit) -> list[str]:
    """Return which features no tree splits on."""
    return _no_splits(audit.unused_features, "this model")


def _no_splits(unused: Sequence[str], of: str) -> list[str]:
    if not unused:
        return []
    them = "it" if len(unused) == 1 else "them"
    named = enumerated(unused, MOST_IN_HEADLINE, "or")
    return [f"No tree of {of} splits on {named}. A model that is trained again may use {them}."]


def _work_together(audit: Audit) -> list[str]:
    """Return which features work together, if some of the rows confirm it."""
    found = audit.tested_scores.details.get(PAIRS)
    if found is None:
        return []
    pairs = found["pairs"]
    named = [
        named_together([*map(name_in_text, each["features"])])
        + (f" (for {escaped(each['about'])})" if each["about"] else "")
        for each in pairs[:MOST_NAMED]
    ]
    more = f", and {counted(len(pairs) - MOST_NAMED, 'more pair')}" if len(pairs) > MOST_NAMED else ""
    scale = "" if found["scale"] is None else f" to the {found['scale']}"
    return [
        f"Interactions, confirmed on {found['n_rows']:,} of these rows, drawn at random: {listed(named)}{more}. What "
        "the model does with both features of such a pair holds beyond functions of single columns that add up"
        f"{scale}. debias.interactions tests all pairs on more rows, and says how much they explain."
    ]


def _twins(audit: Audit) -> list[str]:
    """Return which features that are not confirmed alone are nearly the same, if they have a share together."""
    share = dict(zip(audit.tested_scores.feature_names, audit.share, strict=True))
    sets = [
        (each["features"], each["correlation"], float(sum(share[name] for name in each["features"])))
        for each in audit.tested_scores.details.get(TWINS, [])
    ]
    notable = sorted((each for each in sets if each[2] > NOTABLE), key=lambda each: -each[2])
    return [
        f"{enumerated(names, MOST_IN_HEADLINE)} are nearly the same column (absolute rank correlation "
        f"{correlation_in_words(correlation, least=len(names) > 2)}) and have {percent(together)} of the debiased "
        f"scores together. {'Neither' if len(names) == 2 else 'None of them'} is confirmed alone. "
        "debias.clusters tests such features together."
        for names, correlation, together in notable[:MOST_NAMED]
    ]


def of_untested(features: Mapping[str, str]) -> list[str]:
    """Return which features could not be tested on these rows, and why."""
    reasons = [f"{name_in_text(name)} ({escaped(reason)})" for name, reason in features.items()]
    if not reasons:
        return []
    told = f"Not tested: {enumerated_texts(reasons, MOST_IN_HEADLINE)}."
    return [f"{told} Audit more rows, or rows on which these columns vary more."]


def possible_leaks(audit: Audit) -> dict[str, float]:
    """Return the features that may leak the response, with the share of its variation that each explains by itself."""
    alone = audit.tested_scores.details.get(EXPLAINED_ALONE) or {}
    return leaks_among(alone, audit.tested_scores.n_rows or 0)


def leaks_among(alone: Mapping[str, float], n_rows: int) -> dict[str, float]:
    """Return the features that may leak the response, the most likely first; none if there are too few rows to tell."""
    if n_rows < ROWS_TO_JUDGE:
        return {}
    likely_first = sorted(alone.items(), key=lambda each: -each[1])
    return {name: share for name, share in likely_first if share >= LEAK}


def _leak(audit: Audit) -> list[str]:
    return told_of_leaks(possible_leaks(audit))


def told_of_leaks(leaks: Mapping[str, float]) -> list[str]:
    """Return the sentence on features that may leak the response, with the share that each explains by itself."""
    if not leaks:
        return []
    if len(leaks) == 1:
        [(name, share)] = leaks.items()
        explains = f"{name_in_text(name)} explains {percent(share)} of the variation of the response by itself"
        advice = "check that its values are known before the response is, and are not made from it"
        return [f"{explains}. This may be a leak: {advice}."]
    named = enumerated_texts([f"{name_in_text(name)} ({percent(share)})" for name, share in leaks.items()], MOST_NAMED)
    return [
        f"Some features each explain at least {percent(LEAK, 0)} of the variation of the response by themselves: "
        f"{named}. They may be leaks: check that their values are known before the response is, and are not made from "
        "it."
    ]


def _near_duplicates(audit: Audit) -> list[str]:
    """Return which informative columns are nearly the same."""
    sets = audit.near_duplicates or ()
    lines = [
        f"{enumerated(each.features, MOST_IN_HEADLINE)} are nearly the same column (absolute rank correlation "
        f"{correlation_in_words(each.correlation, least=len(each.features) > 2)}): they may share their score."
        for each in sets[:MOST_NAMED]
    ]
    n_left = len(sets) - MOST_NAMED
    if n_left > 0:
        sets_left = f"{counted(n_left, 'more set')} of {Verdict.INFORMATIVE.text} columns"
        lines.append(f"{sets_left} {_is(n_left)} nearly the same.")
    return lines


def scored_on(scores: Scores) -> str:
    """Return how many rows of which kind there are, and what is known about them."""
    return f"Scored on {rows_of(scores)}: {scores.provenance['detail']}."


def rows_of(scores: Scores) -> str:
    """Return the number and the kind of the rows: "442 out-of-bag rows"."""
    return counted(scores.n_rows or 0, f"{scores.rows_in_words} row")


def _before_a_selection(audit: Audit) -> list[str]:
    """Return what a selection of features needs, if there are so many that one is likely to follow or to precede."""
    n_features, n_rows = audit.share.size, audit.tested_scores.n_rows or 0
    if audit.tested_scores.rows != RowsKind.OOB or n_rows < ROWS_TO_JUDGE or n_features < MANY_A_ROW * n_rows:
        return []
    return [
        f"There are {n_features:,} features for {n_rows:,} rows. Out-of-bag rows cannot show a "
        "selection of columns by y: if columns were selected before the model was fitted, or will be for the next one, "
        "audit that model on rows that the selection has not seen."
    ]


def _too_high(audit: Audit) -> list[str]:
    """Return sentences about the features that the model reports too high, or why this was not judged."""
    if audit.reported is None:
        return []
    if not reports_anything(audit):
        return ["The model reports an importance of 0 for every feature."]
    if audit.tested_scores.rows == RowsKind.TRAIN:
        return [
            "On training rows the scores have the same bias as the reported importance, so they cannot show which "
            "features are reported too high."
        ]
    n_rows = audit.tested_scores.n_rows or 0
    if n_rows < ROWS_TO_JUDGE:
        too_few = "1 row is" if n_rows == 1 else f"{n_rows} rows are"
        return [f"{too_few} too few to say which features are reported too high."]
    if audit.reported_unseen is None:
        return [
            f"Whether features are reported too high was not judged: {audit.no_unseen_because}. The reported "
            f"importance (by {audit.reported_kind}) and the debiased share have different units, so a difference "
            "between the two is no bias."
        ]
    return _inflation(audit, audit.reported, audit.reported_unseen)


def enumerated(names: Sequence[str], most: int, last: str = "and") -> str:
    """Return the first names in a sentence, and how many more there are."""
    return enumerated_texts(list(map(name_in_text, names)), most, last)


def enumerated_texts(texts: Sequence[str], most: int, last: str = "and") -> str:
    """Return the first texts in a sentence, and how many more there are; they are escaped already."""
    first, n_left = list(texts[:most]), len(texts) - most
    end = f"{n_left:,} more" if n_left > 0 else first.pop()
    return f"{', '.join(first)} {last} {end}" if first else end


def in_a_row(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first texts in a row, without an "and" before the last, and how many more there are."""
    rest = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return between.join(texts[:most]) + rest


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _dependence(audit: Audit) -> list[str]:
    """Return what the combined test found, and the features that the model does not use although y depends on them."""
    dependence, names = audit.dependence, audit.tested_scores.feature_names
    if not audit.tested:
        return []
    if dependence is None:  # the audit left the test out and warned of it, or it was not asked for
        left_out = "dependence was not tested"
        return [_sentence(text) for text in audit.warnings if text.startswith(left_out)]
    if audit.scores[DEPENDENCE].selected is None:
        return [f"Dependence was not tested: {untested.reason_of(audit.scores[DEPENDENCE])}."]
    dependent = [name for name, found in zip(names, dependence, strict=True) if found is Dependence.DEPENDENT]
    in_trees = _lines_tested(audit.scores[DEPENDENCE].details.get("test", {}))
    if not dependent:
        return [f"The combined test found no feature that the response depends on{in_trees}."]
    count = "the only feature" if len(names) == 1 else f"{len(dependent):,} of {len(names):,} features"
    sentence = f"The response depends on {count} (combined test, the same error rate{in_trees})"
    verdict = dict(zip(names, audit.verdict, strict=True))
    not_found = [name for name in dependent if verdict[name] is Verdict.INDISTINGUISHABLE]
    unused = [name for name in not_found if name in audit.unused_features]
    unconfirmed = [name for name in not_found if name not in audit.unused_features]
    sentences = [sentence]
    for found, begin, end in (
        (unconfirmed, "What this model does with", "of them is not confirmed"),
        (unused, "No tree splits on", "of them"),
    ):
        if found:
            number = "one" if len(found) == 1 else f"{len(found):,}"
            named = in_a_row([name_in_text(name) for name in found], MOST_NAMED)
            sentences.append(f"{begin} {number} {end}: {named}")
    return [". ".join(sentences) + "."]


def _lines_tested(test: Mapping[str, Any]) -> str:
    """Return the clause that lines were fitted in a part of the trees, or got few standard errors; "" if neither."""
    used, n_trees, screened = test.get("trees_of_lines"), test.get("trees"), test.get("screened_lines", False)
    if used is None or n_trees is None:  # a result that is older
        return ""
    most, done, more = test.get("most_trees_of_lines", used), [], []
    if used < n_trees:
        done.append(f"lines in {used:,} of {n_trees:,} trees")
        more += [f"{most:,}"] if most > used else []
    if screened:
        done.append("standard errors only where lines score high")
        more.append("all standard errors")
    takes = f"; dependence=True takes {' and '.join(more)}" if more else ""
    return f", with {' and '.join(done)}{takes}" if done else ""


def _inflation(audit: Audit, reported: NDArray[np.float64], unseen: NDArray[np.float64]) -> list[str]:
    """Return sentences about the features whose reported share is much larger than the same figure on these rows."""
    where = on_unseen_rows(audit)
    if not unseen.any():  # then there are no shares that could be smaller
        return [
            f"By {audit.reported_kind}, no feature has an importance above 0 {where}, so there are no shares to "
            "compare with the reported ones."
        ]
    doubled = (reported >= INFLATED * audit.where_tested(unseen)) & (reported > 0)
    notable, shown, error = doubled & (reported - unseen > NOTABLE), audit.inflation_shown, audit.reported_unseen_error
    inflated = notable if shown is None else notable & shown
    largest_first = [k for k in np.argsort(unseen - reported, kind="stable") if inflated[k]]
    names = audit.tested_scores.feature_names
    lines = [
        f"Reported too high: {name_in_text(names[k])} has {percent(reported[k])} of the reported importance "
        f"({rank_of(reported, k)} by {audit.reported_kind}), but "
        f"{_unseen_share(unseen[k], None if error is None else error[k])} if the same importance is computed {where}."
        for k in largest_first[:MOST_NAMED]
    ]
    n_unnamed = len(largest_first) - MOST_NAMED
    beyond = "" if error is None else ", beyond the error of these rows"
    if n_unnamed > 0:
        have = "feature has" if n_unnamed == 1 else "features have"
        twice = f"a reported share that is at least twice the share {where}"
        lines.append(f"{n_unnamed:,} more {have} {twice} and {_EXCESS}{beyond}.")
    lines += _slightly_inflated(audit, reported, unseen, doubled & ~notable)
    if lines and error is None:
        lines.append("The shares on these rows have no standard error here, so the differences may be chance.")
    if lines:
        lines.append("A reported share that is too high is no reason to drop a feature.")
    which = "feature that was tested" if audit.untested_features else "feature"
    return lines or [f"No {which} has a reported share that is at least twice its share {where} and {_EXCESS}{beyond}."]


def _unseen_share(share: float, error: float | None) -> str:
    """Return a share with its error; without one where a value below 0 is shown as 0, to which it does not belong."""
    if share == 0:
        return "0 or less"
    return percent(share) + ("" if error is None else f" (standard error {percent(min(float(error), 1.0))})")


def _losing(audit: Audit) -> list[str]:
    """Return what it means that informative features lose accuracy on these rows, if some do."""
    loss, informative = audit.scores.get("oob_loss"), audit.which(Verdict.INFORMATIVE)
    if loss is None or BEFORE_CALIBRATION in audit.warnings:  # the loss is not that of the model
        return []
    losing = informative & (loss.values < 0) & (audit.tested_scores.values > 0)
    names = [audit.tested_scores.feature_names[k] for k in np.argsort(loss.values, kind="stable") if losing[k]]
    if not names:
        return []
    one = len(names) == 1
    has, it = ("has", "it") if one else ("have", "them")
    advice = "Larger leaves or stronger regularisation may help"
    if audit.performance is not None and audit.performance.why_probabilities_fail:
        advice = "Probabilities that do not fit these rows have this effect"
    return [
        f"{enumerated(names, MOST_NAMED)} {has} an oob_loss below 0 and {_is(len(names))} {Verdict.INFORMATIVE.phrase}"
        f": the splits on {it} point the right way on these rows, but go too far, and so they raise the loss of the "
        f"trees. {advice}. This is no reason to drop {it}."
    ]


def on_unseen_rows(audit: Audit) -> str:
    """Return where the reported importance was computed again: "on the held-out rows", "on the out-of-bag rows"."""
    return f"on the {audit.rows_in_words} rows"


def _slightly_inflated(
    audit: Audit, reported: NDArray[np.float64], unseen: NDArray[np.float64], slight: NDArray[np.bool_]
) -> list[str]:
    """Return a sentence about many small excesses if their sum is notable."""
    total, of_unseen = float(reported[slight].sum()), float(unseen[slight].sum())
    if total - of_unseen <= max(NOTABLE_TOGETHER, _error_of_sum(audit, slight)):
        return []
    where = on_unseen_rows(audit)
    return [
        f"Reported too high together: {slight.sum():,} of {slight.size:,} features have {percent(total)} of the "
        f"reported importance, but {percent(of_unseen)} if the same importance is computed {where}. Each has "
        f"at least twice its share {where}, but at most 1 percentage point more."
    ]


def _error_of_sum(audit: Audit, which: NDArray[np.bool_]) -> float:
    """Return what chance in the rows may explain of the sum of some excesses, which vary nearly independently."""
    from scipy.special import stdtrit

    if audit.reported_unseen_error is None:
        return 0.0
    error = float(np.sqrt((audit.reported_unseen_error[which] ** 2).sum()))
    return float(stdtrit(GROUPS_OF_ROWS - 1, 1 - ERROR_RATE_OF_INFLATION)) * error


def summary_of_folds(audit: FoldsAudit) -> list[str]:
    """Return the sentences of ``FoldsAudit.summary``."""
    notes = [_sentence(note) for note in audit.notes]
    if not audit.tested:
        untested = f"No feature was tested: {audit.untested_because}."
        lines = [*notes, untested, *_ranks_of_folds(audit), *_error_of_folds(audit)]
        return [*lines, *_interactions_of_folds(audit), *_rows_of_folds(audit), *_loss_of_folds(audit)]
    lines = [*notes, *_untested_folds(audit), headline_of_folds(audit), *of_untested(audit.untested_features)]
    lines += [*_agreement(audit), *_ranks_of_folds(audit), *_no_splits(audit.unused_features, "any fold")]
    lines += [test_summary_of_folds(audit), *_error_of_folds(audit)]
    return [*lines, *_interactions_of_folds(audit), *_rows_of_folds(audit), *_loss_of_folds(audit)]


def _loss_of_folds(audit: FoldsAudit) -> list[str]:
    return [] if audit.loss is None else audit.loss.summary()


def headline_of_folds(audit: FoldsAudit) -> str:
    """Return which features are informative over all folds, the strongest first, and on which condition."""
    if not audit.tested:
        return NO_VERDICTS
    over, held_if = f"over {counted(_n_tested(audit), 'fold')}", condition_of_folds(audit)
    table = audit.to_frame()
    names = list(table.index[table["verdict"] == Verdict.INFORMATIVE])
    if not names:
        return f"{verdict_count(audit)} {over}{held_if}."
    found = f"{verdict_count(audit, Verdict.INFORMATIVE)} {over}{held_if}"
    return _naming_strongest(found, len(names), enumerated(names, MOST_IN_HEADLINE))


def test_summary_of_folds(audit: FoldsAudit) -> str:
    """Return how the folds were combined, and the error rate."""
    test, parts = audit.test, [str(audit.test["method"])]
    if "correlation" in test and _n_tested(audit) > 1:
        parts.append(f"a correlation of {test['correlation']:.2f} between folds allowed for")
    if "n_permutations" in test:
        parts.append(_permutations(test, " in each fold"))
    parts.append(error_rate_in_words(test["error"], test["alpha"]))
    return f"Test: {', '.join(parts)}."


def condition_of_folds(audit: FoldsAudit) -> str:
    """Return the clause for rows that may be training rows of the model of their fold, or depend on one another."""
    statuses = [each.tested_scores.provenance.get("status") for each in audit.audits.values()]
    if LIKE_TRAINING in statuses:
        return ", but rows of a fold look like training rows of its model"
    clause = ", if no row is a training row of the model of its fold" if set(statuses) & set(UNPROVEN) else ""
    if not audit.which(Verdict.INFORMATIVE).any():
        return clause
    tested = [each.tested_scores for each in audit.audits.values() if each.tested]
    return _with_independence(clause, tested, audit.warnings)


def about(folds: Sequence[str], text: str, n_folds: int) -> str:
    """Return a warning with the folds that it is about, unless it is about all of them."""
    return text if len(folds) == n_folds else f"{listed([escaped(name) for name in folds])}: {text}"


def _interactions_of_folds(audit: FoldsAudit) -> list[str]:
    return [] if audit.interactions is None else audit.interactions.summary()


def _n_tested(audit: FoldsAudit) -> int:
    return len(audit.audits) - len(audit.untested_folds)


def _untested_folds(audit: FoldsAudit) -> list[str]:
    """Return which folds were not tested, why, and what was done without them."""
    folds_of: dict[str, list[str]] = {}
    for name, reason in audit.untested_folds.items():
        folds_of.setdefault(reason, []).append(name)
    lines = [
        f"The audit could not test {enumerated(folds, MOST_IN_HEADLINE)}: {reason}."
        for reason, folds in folds_of.items()
    ]
    if not lines:
        return []
    n_told, n_tested = int(audit.scores.notna().all(axis=1).sum()), _n_tested(audit)
    others = f"from the other {'fold' if n_tested == 1 else f'{n_tested:,} folds'}"
    if n_told == n_tested:
        return [*lines, f"The verdicts and the mean scores are {others}."]
    means = "" if n_told == len(audit.audits) else f", and the mean scores from {counted(n_told, 'fold')}"
    return [*lines, f"The verdicts are {others}{means}."]


def _agreement(audit: FoldsAudit) -> list[str]:
    """Return how many folds find the informative features by themselves, and what only single folds find."""
    table, n_folds = audit.to_frame(), _n_tested(audit)
    if n_folds < 2:
        return []
    found, informative = table["informative_folds"], table["verdict"] == Verdict.INFORMATIVE
    lines = []
    every_fold = "every fold" if n_folds == len(audit.audits) else "every tested fold"
    if informative.any():
        everywhere = int((found[informative] == n_folds).sum())
        if informative.sum() == 1:
            k = int(found[informative].iloc[0])
            where = f"It is {Verdict.INFORMATIVE.phrase} in {every_fold if k == n_folds else f'{k} of {n_folds} folds'}"
        else:
            how_many = "None" if everywhere == 0 else "All" if everywhere == informative.sum() else f"{everywhere:,}"
            where = (
                f"{how_many} of them {'is' if everywhere <= 1 else 'are'} {Verdict.INFORMATIVE.phrase} in {every_fold}"
            )
        lines.append(f"{where}, each tested by itself.")
    least = found[informative & (found < n_folds)].sort_values(kind="stable")
    if informative.sum() > 1 and len(least):
        fewest = least.iloc[:MOST_NAMED]
        parts = [f"{name_in_text(str(name))} in {count:.0f} of {n_folds}" for name, count in fewest.items()]
        lines.append(f"In the fewest folds: {enumerated_texts(parts, MOST_NAMED)}.")
    single = found[~informative & (found > 0)].sort_values(ascending=False, kind="stable")
    if len(single):
        parts = [f"{name_in_text(str(name))} ({count:.0f} of {n_folds})" for name, count in single.items()]
        lines.append(
            f"{Verdict.INFORMATIVE.phrase.capitalize()} in single folds, but not over all folds together: "
            f"{in_a_row(parts, MOST_NAMED)}. Each fold has an error rate of its own, so some of this is chance."
        )
    return lines


def _ranks_of_folds(audit: FoldsAudit) -> list[str]:
    if audit.rank_stability is None:
        return []
    in_words = _correlation(audit.rank_stability)
    stability = float(in_words)  # what is shown as 0.50 is not below 0.5
    how = "alike" if stability >= STABLE else "differently" if stability < UNSTABLE else "partly alike"
    line = f"The folds rank the features {how}: the mean rank correlation of two folds is {in_words}."
    table = audit.to_frame()
    spread = table["lowest_rank"] - table["highest_rank"]
    widest = spread.index[int(np.argmax(spread.to_numpy()))]
    if stability >= STABLE or spread[widest] == 0:
        return [line]
    low, high = table.loc[widest, ["lowest_rank", "highest_rank"]]
    return [f"{line} {name_in_text(str(widest))} has ranks from {high} to {low}."]


def _correlation(value: float) -> str:
    return "1" if value > 1 - 1e-12 else f"{min(value, 0.99):z.2f}"


def _error_of_folds(audit: FoldsAudit) -> list[str]:
    if audit.standard_error is None:
        return [f"The mean scores have no standard error: {audit.no_error_because}."]
    known = [n for n in audit.n_train if n is not None]
    rows = f"{min(known):,}" if len(set(known)) == 1 else f"{min(known):,} to {max(known):,}" if known else ""
    trained = f"trained on {rows} rows" if known else "that are trained as these"
    return [
        f"Standard errors are about the mean score of models {trained}, over other data of this kind. They allow for "
        "the rows that folds share, and are approximate."
    ]


def _rows_of_folds(audit: FoldsAudit) -> list[str]:
    sizes = [each.tested_scores.n_rows or 0 for each in audit.audits.values()]
    each = counted(sizes[0], "row") if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,} rows"
    lines = [f"Scored on {audit.rows_in_words} rows of {counted(len(sizes), 'fold')}, {each} in each."]
    known = [of_fold.tested_scores.provenance for of_fold in audit.audits.values()]
    if {provenance.get("status") for provenance in known} == {PROVEN_HELD_OUT}:
        return [*lines, "It is proven for every fold that none of its rows is a training row of its model."]
    folds_of: dict[str, list[str]] = {}
    for name, provenance in zip(audit.audits, known, strict=True):
        folds_of.setdefault(provenance["detail"], []).append(name)
    first = [_sentence(about(folds, text, len(sizes))) for text, folds in list(folds_of.items())[:MOST_NAMED]]
    n_left = len(folds_of) - len(first)
    return [*lines, *first, *([f"The audits of {n_left:,} more folds say what their rows are."] if n_left > 0 else [])]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
