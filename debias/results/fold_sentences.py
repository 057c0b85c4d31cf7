"""Sentences about the audit of a cross-validation. Every sentence must be true of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.results.scores import LIKE_TRAINING, PROVEN_HELD_OUT, UNPROVEN
from debias.results.sentences import enumerated, of_untested
from debias.text import all_are, counted, listed, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from debias.results.folds_audit import FoldsAudit

MOST_NAMED = 3
"""Sentences about features that folds disagree on name at most this many,"""
MOST_IN_HEADLINE = 5
"""and the headline at most this many."""
STABLE = 0.9
"""Folds with a mean rank correlation of at least this rank the features alike,"""
UNSTABLE = 0.5
"""and below this they rank them differently."""
ERROR_RATE = {
    "fwer": "family-wise error rate {}",
    "fdr": "false discovery rate {}",
    "fdr_by": "false discovery rate {} under any dependence",
}


def summary(audit: FoldsAudit) -> list[str]:
    """Return the sentences of ``FoldsAudit.summary``."""
    notes = [_sentence(note) for note in audit.notes]
    if not audit.tested:
        untested = f"No feature was tested: {audit.untested_because}."
        return [*notes, untested, *_ranks(audit), *_error(audit), *_rows(audit)]
    lines = [*notes, *_untested(audit), headline(audit), *of_untested(audit.untested_features)]
    lines += [*_agreement(audit), *_ranks(audit)]
    return [*lines, test_summary(audit), *_error(audit), *_rows(audit)]


def headline(audit: FoldsAudit) -> str:
    """Return which features are informative over all folds, the strongest first, and on which condition."""
    if not audit.tested:
        return "No feature was tested: this audit shows scores but no verdicts."
    over, held_if = f"over {counted(_n_tested(audit), 'fold')}", condition(audit)
    table = audit.table
    names = list(table.index[table["verdict"] == "informative"])
    if not names and audit.untested_features:
        n_noise = len(table) - len(audit.untested_features)
        are = "is" if n_noise == 1 else "are"
        return f"{n_noise:,} of {len(table):,} features {are} indistinguishable from noise {over}{held_if}."
    if not names:
        return f"{all_are(len(table), 'feature')} indistinguishable from noise {over}{held_if}."
    count = (
        all_are(len(table), "feature")
        if len(names) == len(table)
        else f"{len(names):,} of {len(table):,} features {'is' if len(names) == 1 else 'are'}"
    )
    strongest = "" if len(names) == 1 else " Strongest first:"
    mark = ":" if len(names) == 1 else "."
    return f"{count} informative {over}{held_if}{mark}{strongest} {enumerated(names, MOST_IN_HEADLINE)}."


def test_summary(audit: FoldsAudit) -> str:
    """Return how the folds were combined, and the error rate."""
    test, parts = audit.test, [str(audit.test["method"])]
    if "correlation" in test and _n_tested(audit) > 1:
        parts.append(f"a correlation of {test['correlation']:.2f} between folds allowed for")
    if "n_permutations" in test:
        pooled = " of all features together" if test.get("pooled") else ""
        parts.append(f"{counted(test['n_permutations'], 'permutation')} in each fold{pooled}")
    parts.append(ERROR_RATE[test["error"]].format(f"{100 * test['alpha']:g}%"))
    return f"Test: {', '.join(parts)}."


def condition(audit: FoldsAudit) -> str:
    """Return the clause for rows that may be training rows of the model of their fold."""
    statuses = [each.main.provenance.get("status") for each in audit.audits.values()]
    if LIKE_TRAINING in statuses:
        return ", but rows of a fold look like training rows of its model"
    return ", if no row is a training row of the model of its fold" if set(statuses) & set(UNPROVEN) else ""


def about(folds: Sequence[str], text: str, n_folds: int) -> str:
    """Return a warning with the folds that it is about, unless it is about all of them."""
    return text if len(folds) == n_folds else f"{listed([shown(name) for name in folds])}: {text}"


def _n_tested(audit: FoldsAudit) -> int:
    return len(audit.audits) - len(audit.untested_folds)


def _untested(audit: FoldsAudit) -> list[str]:
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
    table, n_folds = audit.table, _n_tested(audit)
    if n_folds < 2:
        return []
    found, informative = table["informative_folds"], table["verdict"] == "informative"
    lines = []
    if informative.any():
        everywhere = int((found[informative] == n_folds).sum())
        if informative.sum() == 1:
            k = int(found[informative].iloc[0])
            where = f"It is informative in {'every fold' if k == n_folds else f'{k} of {n_folds} folds'}"
        else:
            how_many = "None" if everywhere == 0 else "All" if everywhere == informative.sum() else f"{everywhere:,}"
            where = f"{how_many} of them {'is' if everywhere <= 1 else 'are'} informative in every fold"
        lines.append(f"{where}, each tested by itself.")
    least = found[informative & (found < n_folds)].sort_values(kind="stable")
    if informative.sum() > 1 and len(least):
        parts = [f"{name} in {count} of {n_folds}" for name, count in least.iloc[:MOST_NAMED].items()]
        lines.append(f"In the fewest folds: {enumerated(parts, MOST_NAMED)}.")
    single = found[~informative & (found > 0)].sort_values(ascending=False, kind="stable")
    if len(single):
        parts = [f"{shown(str(name))} ({count} of {n_folds})" for name, count in single.iloc[:MOST_NAMED].items()]
        more = f" and {len(single) - MOST_NAMED:,} more" if len(single) > MOST_NAMED else ""
        lines.append(
            f"Informative in single folds, but not over all folds together: {', '.join(parts)}{more}. Each fold has "
            "an error rate of its own, so some of this is chance."
        )
    return lines


def _ranks(audit: FoldsAudit) -> list[str]:
    if audit.rank_stability is None:
        return []
    in_words = _correlation(audit.rank_stability)
    stability = float(in_words)  # what is shown as 0.50 is not below 0.5
    how = "alike" if stability >= STABLE else "differently" if stability < UNSTABLE else "partly alike"
    line = f"The folds rank the features {how}: the mean rank correlation of two folds is {in_words}."
    table = audit.table
    spread = table["lowest_rank"] - table["highest_rank"]
    widest = spread.index[int(np.argmax(spread.to_numpy()))]
    if stability >= STABLE or spread[widest] == 0:
        return [line]
    low, high = table.loc[widest, ["lowest_rank", "highest_rank"]]
    return [f"{line} {shown(str(widest))} has ranks from {high} to {low}."]


def _correlation(value: float) -> str:
    return "1" if value > 1 - 1e-12 else f"{min(value, 0.99):z.2f}"


def _error(audit: FoldsAudit) -> list[str]:
    if audit.standard_error is None:
        return [f"The mean scores have no standard error: {audit.no_error_because}."]
    known = [n for n in audit.n_train if n is not None]
    rows = f"{min(known):,}" if len(set(known)) == 1 else f"{min(known):,} to {max(known):,}" if known else ""
    trained = f"trained on {rows} rows" if known else "that are trained as these"
    return [
        f"Standard errors are about the mean score of models {trained}, over other data of this kind. They allow for "
        "the rows that folds share, and are approximate."
    ]


def _rows(audit: FoldsAudit) -> list[str]:
    sizes = [each.main.n_rows or 0 for each in audit.audits.values()]
    each = counted(sizes[0], "row") if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,} rows"
    lines = [f"Scored on {audit.rows_in_words} rows of {counted(len(sizes), 'fold')}, {each} in each."]
    known = [of_fold.main.provenance for of_fold in audit.audits.values()]
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
