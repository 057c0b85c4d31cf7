"""Interactions over the folds of a cross-validation: each fold's test on its held-out rows, and one test of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.results.interactions import Interactions
from debias.results.sentences import about
from debias.results.vocabulary import LIKE_TRAINING, UNPROVEN
from debias.significance.fold_evidence import normal_scores, upper_tail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


OF_CAPPED = -1.271
"""The normal score of a p-value that was multiplied by the number of classes and is not below 1: the mean of normal
scores of p-values above .75, as if there were two comparisons. With more comparisons, more p-values are such, and their
mean is larger. The normal score of 1 itself would let one fold outvote all others."""


def combined_interactions(found: Mapping[str, Interactions], correlation: NDArray[np.float64]) -> Interactions:
    """Combine the interactions of the models of several folds.

    Parameters
    ----------
    found : mapping of str to Interactions
        The interactions of each fold, by its name. All were asked for by the same names, at the same error rate.
    correlation : array of shape (n_folds, n_folds)
        Of z between folds (:func:`debias.significance.fold_evidence.fold_correlation`).

    Returns
    -------
    Interactions
        The score of each pair is the mean over folds, weighted by their rows; 0 in a fold whose model does not use the
        pair together. z is the sum of the normal quantiles of the folds' p-values, weighted by the square roots of
        their rows, over its standard deviation. A fold that could not test a pair is left out of its mean and sum; one
        that could test none is not among the folds and rows that are counted.
    """
    folds = list(found.values())
    first = folds[0]
    told = [each for each in folds if each.tested.any() or not each.sets]  # a constant response tells nothing
    names = {members for each in folds for members in each.sets}
    position = {name: k for k, name in enumerate(first.feature_names)}
    places = sorted((tuple(position[name] for name in members) for members in names), key=lambda at: (len(at), at))
    columns = {
        name: np.array([[_of(each, name, at) for at in places] for each in folds]).reshape(len(folds), len(places))
        for name in ("score", "standard_error", "p_value", "p_apart", "total", "spread")
    }
    n_rows = np.array([each.n_rows for each in folds], dtype=np.float64)
    tested = ~np.isnan(columns["p_value"])
    rows = np.where(tested, n_rows[:, None], 0.0)
    share = np.divide(rows, rows.sum(axis=0), out=np.zeros_like(rows), where=tested)
    some = tested.any(axis=0)

    def mean(name: str) -> NDArray[np.float64]:
        """Return the mean over the folds that have this number, weighted by their rows."""
        known = np.where(np.isnan(columns[name]), 0.0, rows)
        total = known.sum(axis=0)
        of_folds = (known * np.nan_to_num(columns[name])).sum(axis=0)
        return np.divide(of_folds, total, out=np.full(len(places), np.nan), where=total > 0)

    weight, error = np.sqrt(rows), share * np.nan_to_num(columns["standard_error"])
    scale = np.sqrt(np.einsum("kp,kl,lp->p", weight, correlation, weight))

    def z_of(name: str) -> NDArray[np.float64]:
        """Return the sum of the normal quantiles of these p-values over its standard deviation."""
        p_value = np.where(tested, columns[name], 0.5)
        scores = np.where(p_value < 1, normal_scores(p_value), OF_CAPPED)
        scores = np.where(columns["score"] == 0, 0.0, scores)
        return np.divide((weight * scores).sum(axis=0), scale, out=np.full(len(places), np.nan), where=some)

    z, apart = z_of("p_value"), z_of("p_apart")
    some_apart = ~np.isnan(columns["p_apart"]).all(axis=0)  # a fold without one has no evidence, as with p = 1
    return Interactions(
        feature_names=first.feature_names,
        pairs=np.array([at for at in places if len(at) == 2], dtype=np.int64).reshape(-1, 2),
        triples=np.array([at for at in places if len(at) == 3], dtype=np.int64).reshape(-1, 3),
        score=mean("score"),
        standard_error=np.where(some, np.sqrt(np.einsum("kp,kl,lp->p", error, correlation, error)), np.nan),
        z=z,
        p_value=np.where(some, upper_tail(np.nan_to_num(z)), np.nan),
        p_apart=np.where(some & some_apart, upper_tail(np.nan_to_num(apart)), np.nan),
        similar=tuple(_similar(folds, at) for at in places),
        spread=mean("spread"),
        total=mean("total"),
        n_asked=first.n_asked,
        n_rows=sum(each.n_rows for each in told or folds),
        n_passed=sum(each.n_passed or each.n_rows for each in told or folds),
        n_functions=max(each.n_functions for each in folds),
        unfollowed=tuple(name for name in first.feature_names if any(name in each.unfollowed for each in folds)),
        n_blocks=_sum_of_blocks(told or folds),
        n_folds=len(told or folds),
        tested_folds=tested.sum(axis=0),
        confirmed_folds=np.array([_confirmed(folds, at) for at in places], dtype=np.int64),
        error=first.error,
        alpha=first.alpha,
        provenance={
            "kind": first.provenance["kind"],
            "status": _status(folds),
            "detail": f"the test rows of {len(folds)} folds",
        },
        settings=first.settings,
        warnings=_warnings(found),
    )


def _of(found: Interactions, name: str, at: tuple[int, ...]) -> float:
    """Return a number of one interaction; that of no interaction if the model does not use its features together."""
    sets = [tuple(members) for members in (*found.pairs.tolist(), *found.triples.tolist())]
    if at in sets:
        return float(getattr(found, name)[sets.index(at)])
    return {"p_value": 1.0, "p_apart": 1.0, "total": np.nan}.get(name, 0.0)


def _similar(folds: list[Interactions], at: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the pairs that are similar to one in the first fold that has any."""
    for each in folds:
        sets = [tuple(members) for members in (*each.pairs.tolist(), *each.triples.tolist())]
        if at in sets and each.similar[sets.index(at)]:
            return each.similar[sets.index(at)]
    return ()


def _confirmed(folds: list[Interactions], at: tuple[int, ...]) -> int:
    """Return the number of folds whose own test confirms an interaction, at the error rate over its tests."""
    names = folds[0].feature_names
    members = tuple(names[k] for k in at)
    return sum(members in (*each.confirmed, *each.confirmed_or_similar) for each in folds)


def _status(folds: list[Interactions]) -> str | None:
    """Return what is known of the rows of all folds: the worst of what is known of each."""
    known = [each.provenance.get("status") for each in folds]
    return next((status for status in (LIKE_TRAINING, *UNPROVEN) if status in known), known[0])


def _sum_of_blocks(folds: list[Interactions]) -> int | None:
    of_folds = [each.n_blocks for each in folds]
    return None if None in of_folds else sum(n for n in of_folds if n is not None)


def _warnings(found: Mapping[str, Interactions]) -> tuple[str, ...]:
    folds_of: dict[str, list[str]] = {}
    for name, each in found.items():
        for text in each.warnings:
            folds_of.setdefault(text, []).append(name)
    return tuple(about(folds, text, len(found)) for text, folds in folds_of.items())
