"""``debias.audit_folds``: one audit of the models of a cross-validation, each on its held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias.api.audit import audit_of_fold
from debias.api.interactions import interactions_of
from debias.api.interactions_of_folds import combined_interactions
from debias.api.loss_of_folds import loss_of_fold, refuse_other_losses
from debias.data.blocks import encode_blocks
from debias.data.chosen_rows import taken
from debias.data.row_order import refuse_other_order
from debias.data.user_rows import Dataset, dataset
from debias.early_stopping import NOTES_OF_STOPPING
from debias.errors import CompositionError, RowsError
from debias.models.folds import about_fold, folds_of
from debias.parallel import checked
from debias.progress import task, with_progress
from debias.random_state import seed_of
from debias.results.folds_audit import FoldsAudit
from debias.results.sentences import about
from debias.results.untested import tell_nothing, with_reason
from debias.rows.fold_proof import prove_folds
from debias.rows.passed_rows import PassedRows
from debias.rows.request import VALUES_OF_ROWS, Request
from debias.significance import fold_evidence
from debias.significance.evidence import FEWEST
from debias.significance.fold_losses import losses_of_folds
from debias.significance.procedure import Permutation, Procedure
from debias.text import counted, listed
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.models.folds import Fold
    from debias.parallel import Refits
    from debias.random_state import RandomState
    from debias.results.audit import Audit
    from debias.results.interactions import Interactions
    from debias.rows.request import Level
    from debias.significance.fold_losses import LossOfFold
    from debias.significance.procedure import ErrorRate

FoldTestName = Literal["auto", "permutation", "naive", "none"]
FoldTest = FoldTestName | Permutation
TESTS = (*get_args(FoldTestName), None)
"""Tests of held-out rows."""
FEW_BLOCKS = (
    f"the rows held out are in too few blocks, and a test needs at least {FEWEST}. Train the models with fewer and "
    "larger folds, so that each holds out more blocks"
)
"""Why a fold is not tested. It has no number of blocks, since one sentence is about all such folds."""


@explains_wrong_arguments
@with_progress
def audit_folds(
    cv_results: Any,
    X: Any,
    y: Any = None,
    cv: Any = None,
    scorers: list[str | Scorer] | None = None,
    *,
    tested: str | Scorer = "mdi_oob",
    sample_weight: Any = None,
    groups: Mapping[str, Any] | None = None,
    level: Level | None = None,
    test: FoldTest | None = "auto",
    error_rate: ErrorRate = 0.05,
    combine: fold_evidence.Combination = "sum",
    interactions: Iterable[tuple[str, ...]] | None = None,
    loss: bool = False,
    refits: Refits | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> FoldsAudit:
    """Audit the models of a cross-validation, each on the rows that were held out from it, and combine the evidence.

    Parameters
    ----------
    cv_results : dict, list, tuple or mapping of models, or container of a library
        The dict of ``cross_validate(..., return_estimator=True, return_indices=True)``, fitted models in the order of
        the folds, or a container of a library (docs/folds.md lists them).
    X, y
        All rows of the cross-validation, in the order in which they were divided into folds. X may be a
        :class:`Dataset`, then without y.
    cv : int, splitter, iterable of (train, test), or array of shape (n_rows,); optional
        The folds, if `cv_results` does not keep them. An array has the fold in which each row was held out.
    scorers, tested, groups, level, refits, n_jobs
        As for :func:`audit`.
    sample_weight
        As for :func:`audit`, for all rows of X. Models that are trained again (those of a search) are trained with it.
    test : {"auto", "permutation", "naive", None} or Permutation
        Test of the scores of each fold: "auto" permutes the response, or takes Student's t distribution for many rows.
        Residuals and dependence are not tested. All permutations are drawn.
    error_rate : float, or ({"fwer", "fdr", "fdr_by"}, float)
        Error rate of the verdicts, as for :func:`audit`: of those over all folds, and of those of each fold by itself.
    combine : {"sum", "harmonic"}
        How the evidence of folds is combined:

        - "sum": the sum of the folds' z, with the variance that shared rows allow. It finds features that every fold
          finds a little.
        - "harmonic": the harmonic mean of the folds' p-values. It does not need to know how folds depend on one
          another, and finds less, except for features that matter in few folds only.
    interactions : iterable of tuples of str, optional
        Pairs and triples of features to test in each fold and over all of them, as `features` of
        :func:`interactions`; ``result.interactions`` has what all folds together tell. `error_rate` holds over these
        tests, beside that of the features. They are combined by the sum of z, whatever `combine` is. The test rows of
        each fold must be enough for :func:`interactions`.
    loss : bool
        Whether to divide the loss of each fold among the features; ``result.loss`` has the parts, and the folds that
        are worse than the others. `error_rate` (as a family-wise one) is also that of these. Each fold must have one
        model of trees whose loss is one of single rows.
    random_state : int or numpy.random.Generator, optional
        Seed of each fold's audit and of the combination; 0 by default.

    Returns
    -------
    FoldsAudit
        ``result.to_frame()`` has the numbers, ``result.summary()`` the sentences, and ``result.audits`` the audit of
        each fold.

    Raises
    ------
    DebiasError
        As for :func:`audit`, with the name of the fold; the folds are not known; test rows of a fold are training rows
        of its model; or the models of the folds have different features.

    Notes
    -----
    The verdict answers whether models of this kind use the feature in a way that holds on unseen rows, by the evidence
    of all folds. Folds are not independent, although their test rows are disjoint: each row is a training row of other
    folds. The test allows for this (:mod:`debias.significance.fold_evidence` has the formula and docs/folds.md measured
    error rates). The standard errors of the mean scores allow for shared rows too
    (:func:`debias.significance.fold_evidence.standard_error`). Those of Nadeau and Bengio [1]_ are too small here.

    References
    ----------
    .. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281,
       section 3.
    .. [2] Wilson, D. J. (2019). The harmonic mean p-value for combining dependent tests. PNAS 116, 1195-1200,
       equation 4.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.model_selection import cross_validate
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0)
    >>> results = cross_validate(forest, X, y, cv=5, return_estimator=True, return_indices=True)
    >>> folds = debias.audit_folds(results, X, y)
    >>> folds.to_frame().loc["bmi", ["informative_folds", "folds"]].astype(int).tolist()
    [5, 5]
    >>> folds.to_frame().loc["bmi", "verdict"]
    'informative'
    """
    if not isinstance(test, Permutation | str | None) or (isinstance(test, str) and test not in TESTS):
        raise CompositionError(
            f"test={test!r} is not a test of folds: their rows are held out, so pass one of "
            f"{', '.join(map(repr, TESTS))}, or a debias.Permutation"
        )
    if isinstance(test, Permutation) and test.of == "residuals":
        raise CompositionError(
            "residuals are not tested in folds: how their z depend on one another is known for permuted responses "
            "only. Leave of='residuals' out"
        )
    if combine not in fold_evidence.COMBINATIONS:
        raise CompositionError(f"combine={combine!r} is not one of {', '.join(map(repr, fold_evidence.COMBINATIONS))}")
    refits = checked(refits)
    if refits.checkpoint is not None:
        raise CompositionError("a checkpoint is for one model, and folds have several: leave the checkpoint out")
    procedure = Procedure.of(test, error_rate, adaptive=False)
    if procedure is not None:
        procedure = replace(procedure, residuals=False)  # folds depend on one another through their scores
    of_loss = procedure or Procedure.of("auto", error_rate)
    assert of_loss is not None
    if not isinstance(loss, bool):
        raise CompositionError(f"loss={loss!r} is neither True nor False")
    seed = seed_of(random_state)
    rows = dataset(X, y, sample_weight)
    if rows.y is None:
        raise RowsError("y is missing: pass the response of the rows, as the models were trained on")
    of_rows = {name: getattr(rows, name) for name in VALUES_OF_ROWS}
    PassedRows(rows.X, rows.y).check(**of_rows)
    refuse_other_order(rows.X, y=rows.y, **of_rows)
    n_rows = _n_rows(rows.y)
    _refuse_other_lengths(n_rows, of_rows)
    block = of_rows["blocks"] = encode_blocks(rows.blocks, n_rows)
    found = folds_of(cv_results, rows.X, rows.y, cv, rows.sample_weight)
    proven_by = {name: of_rows[name] for name in ("sample_weight", "base_margin", "qid")}
    proofs = prove_folds(found, rows.X, rows.y, **proven_by)
    folds = [proof.fold for proof in proofs]  # with the training rows that are proven
    _refuse_few_rows(max(fold.test.size for fold in folds))
    settings: dict[str, Any] = {"groups": groups, "level": level, "random_state": seed, "n_jobs": n_jobs}
    audits: dict[str, Audit] = {}
    named = None if interactions is None else _named(interactions)
    pairs: dict[str, Interactions] = {}
    losses: dict[str, LossOfFold] = {}
    with task("folds", len(folds)) as advance:
        for fold, proof in zip(folds, proofs, strict=True):
            of_test = {name: taken(values, fold.test) for name, values in of_rows.items()}
            y_test = taken(rows.y, fold.test)
            n_blocks = FEWEST if block is None else np.unique(block[fold.test]).size
            # A test says that a constant response tells nothing. Few blocks do not make it tell anything.
            has_few_blocks = n_blocks < FEWEST and not _is_constant(y_test)
            if n_blocks == 1:
                of_test["blocks"] = None
            test_rows = Dataset(taken(rows.X, fold.test), y_test, feature_names=rows.feature_names, **of_test)
            of_fold = None if has_few_blocks else procedure
            with about_fold(fold.name):
                audit = audit_of_fold(
                    proof, test_rows, scorers, tested=tested, procedure=of_fold, refits=refits, **settings
                )
                if named is not None or loss:
                    request = replace(Request.of(fold.model, test_rows, rows="held-out", **settings), fold=proof)
                if named is not None:
                    pairs[fold.name] = interactions_of(request, named, None, error_rate, told_apart=1.0)
                if loss:
                    losses[fold.name] = loss_of_fold(request)
            if has_few_blocks and procedure is not None:
                untested = with_reason(audit.tested_scores, FEW_BLOCKS)
                audit = replace(audit, scores={**audit.scores, audit.tested_scorer: untested})
            audits[fold.name] = audit if fold.tuned is None else _tuned(audit, fold.tuned)
            advance()
    _refuse_silence(audits)
    _refuse_other_features(audits)
    counted, n_counted = _that_count(folds, rows.sample_weight, n_rows)
    together = _together(counted, audits, n_counted, combine, procedure, seed or 0, _divided_blocks(folds, block))
    positions = [each.train for each in counted], [each.test for each in counted], n_counted
    if named is not None:
        correlation = fold_evidence.fold_correlation(*positions)
        together = replace(together, interactions=combined_interactions(pairs, correlation))
    if loss:
        refuse_other_losses(losses)
        together = replace(together, loss=losses_of_folds(losses, *positions, float(of_loss.alpha)))
    return together


def _that_count(folds: list[Fold], sample_weight: Any, n_rows: int) -> tuple[list[Fold], int]:
    """Return the folds without rows of weight 0, at the positions among the other rows, and the number of these."""
    if sample_weight is None:
        return folds, n_rows
    counts = np.asarray(sample_weight) > 0
    place = np.cumsum(counts) - 1

    def of(positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return place[positions[counts[positions]]]

    found = [replace(each, train=None if each.train is None else of(each.train), test=of(each.test)) for each in folds]
    return found, int(counts.sum())


def _named(interactions: Any) -> list[tuple[str, ...]]:
    """Return the interactions that are named."""
    named = [] if isinstance(interactions, str) else list(interactions)
    if not named or not all(isinstance(each, tuple | list) for each in named):
        raise CompositionError(
            f"interactions={interactions!r} does not name pairs: pass a list of tuples, such as [('age', 'income')]. "
            "Folds test only what is named; debias.interactions tests all pairs of one model"
        )
    return [tuple(each) for each in named]


def _together(
    folds: list[Fold],
    audits: dict[str, Audit],
    n_rows: int,
    how: str,
    procedure: Procedure | None,
    seed: int,
    notes: tuple[str, ...],
) -> FoldsAudit:
    """Combine the audits of folds."""
    error, no_error_because = _standard_error(folds, audits, n_rows)
    combined: dict[str, Any] = {}
    tested = [fold for fold in folds if audits[fold.name].tested]
    if procedure is not None and tested:
        correlation = fold_evidence.fold_correlation([f.train for f in tested], [f.test for f in tested], n_rows)
        weight = np.sqrt([fold.test.size for fold in tested])
        scores = [audits[fold.name].tested_scores for fold in tested]
        choice = fold_evidence.choice_of(
            _n_varying([audits[fold.name] for fold in tested]), [f.test for f in tested], n_rows, correlation, weight
        )
        evidence = fold_evidence.combine(scores, correlation, weight, how, procedure, seed, choice)
        rate = {"alpha": float(procedure.alpha), "error": procedure.error}
        combined = {
            "z": evidence.z,
            "p_value": evidence.p_value,
            "p_adjusted": evidence.p_adjusted,
            "test": rate | evidence.details,
        }
    return FoldsAudit(
        audits=audits,
        n_train=tuple(None if fold.train is None else int(np.unique(fold.train).size) for fold in folds),
        standard_error=error,
        no_error_because=no_error_because,
        notes=(*notes, *_notes(folds, audits)),
        **combined,
    )


def _n_varying(audits: list[Audit]) -> int:
    """Return the number of features that have more than one value in the rows of any fold; all if it is not known."""
    known = [audit.n_values for audit in audits if audit.n_values is not None]
    if not known:
        return len(audits[0].tested_scores.feature_names)
    return int(np.any([n_values != 1 for n_values in known], axis=0).sum())


def _standard_error(
    folds: list[Fold], audits: dict[str, Audit], n_rows: int
) -> tuple[NDArray[np.float64] | None, str | None]:
    """Return the standard error of the mean scores, or why there is none."""
    usable = [fold for fold in folds if not tell_nothing(audits[fold.name].tested_scores)]
    values = np.stack([audits[fold.name].tested_scores.values for fold in usable])
    error = fold_evidence.standard_error(
        values, [fold.train for fold in usable], [fold.test for fold in usable], n_rows
    )
    if error is not None:
        return error, None
    if len(usable) < fold_evidence.FEWEST_FOLDS:
        return None, (
            f"it comes from the differences between folds, which needs {fold_evidence.FEWEST_FOLDS} folds or more, and "
            f"{len(usable)} {'tells' if len(usable) == 1 else 'tell'} something about the features"
        )
    return None, (
        "about as many rows were held out as were trained on, so each row counts as much in one fold as in another, "
        "and their differences do not tell it. Smaller test folds do"
    )


def _notes(folds: list[Fold], audits: dict[str, Audit]) -> tuple[str, ...]:
    """Return what a reader must know about the folds."""
    notes = [note for fold in folds for note in fold.notes]
    for text in NOTES_OF_STOPPING:
        stopped = [name for name, audit in audits.items() if text in audit.warnings]
        if stopped:
            notes.append(about(stopped, text, len(folds)))
    folds_of: dict[str, list[str]] = {}
    for name, audit in audits.items():
        folds_of.setdefault(audit.tested_scores.settings["model"], []).append(name)
    if len(folds_of) > 1:
        kinds = [f"{kind} in {listed(names)}" for kind, names in folds_of.items()]
        notes.append(f"the models of the folds are of different kinds: {'; '.join(kinds)}")
    if any(fold.train is None for fold in folds):
        notes.append("the training rows of folds are not known: they are taken to be all rows that are not held out")
    return tuple(dict.fromkeys(notes))


def _is_constant(y: Any) -> bool:
    """Return whether all rows have the same response, in all columns of it."""
    import pandas as pd

    return bool(pd.DataFrame(np.asarray(y)).nunique(dropna=False).max() <= 1)


def _tuned(audit: Audit, by_test_rows: str) -> Audit:
    """Return the audit of a model whose trees the test rows chose: its library says so, and the model does not."""
    scores = {}
    for name, each in audit.scores.items():
        texts = [by_test_rows if text in NOTES_OF_STOPPING else text for text in each.warnings]
        scores[name] = replace(each, warnings=tuple(dict.fromkeys(texts)))
    return replace(audit, scores=scores)


def _divided_blocks(folds: list[Fold], block: NDArray[np.int64] | None) -> tuple[str, ...]:
    """Return what a reader must know if rows of a block are training rows and test rows of one fold."""
    if block is None:
        return ()
    divided = [f.name for f in folds if f.train is not None and np.intersect1d(block[f.train], block[f.test]).size]
    if not divided:
        return ()
    return (
        f"in {listed(divided)} some blocks have both training and test rows. Rows of a block belong together, so a "
        "model may recognise blocks, and features by which it does are informative by this alone. Divide whole blocks "
        "into folds, as GroupKFold does",
    )


def _refuse_few_rows(largest: int) -> None:
    """Refuse folds that are too small to tell anything about the features, such as those of LeaveOneOut."""
    if largest < FEWEST:
        raise RowsError(
            f"no fold has more than {counted(largest, 'test row')}, and fewer than {FEWEST} tell nothing "
            "about the features: train the models with fewer and larger folds, such as cv=5"
        )


def _refuse_silence(audits: dict[str, Audit]) -> None:
    """Refuse folds of which none tells anything about the features."""
    if all(tell_nothing(of_fold.tested_scores) for of_fold in audits.values()):
        name, of_fold = next(iter(audits.items()))
        _refuse_few_rows(max(each.tested_scores.n_rows or 0 for each in audits.values()))
        raise RowsError(f"none of the folds tells anything about the features; {name}: {of_fold.untested_because}")


def _refuse_other_features(audits: dict[str, Audit]) -> None:
    """Refuse folds whose models have other features than that of the first fold."""
    first, *others = audits
    names = audits[first].tested_scores.feature_names
    for fold in others:
        of_fold = audits[fold].tested_scores.feature_names
        if of_fold == names:
            continue
        missing, more = [n for n in names if n not in of_fold], [n for n in of_fold if n not in names]
        parts = [f"{fold} has no {listed(missing)}"] if missing else []
        parts += [f"{first} has no {listed(more)}"] if more else []
        why = (
            "Their transformers made other columns from other training rows. Pass level='source' to score the columns "
            "of X, or groups= that every fold has"
        )
        if len(of_fold) == len(names) == len(missing):  # such as f0 of XGBoost and x0 of scikit-learn
            why = "If these are the same columns, train the models on data frames, so that all know them by one name"
        raise RowsError(
            f"the models of the folds have different features: {' and '.join(parts) or 'they are in another order'}. "
            f"{why}"
        )


def _n_rows(values: Any) -> int:
    if not getattr(values, "shape", True) or not hasattr(values, "__len__") and not hasattr(values, "shape"):
        raise RowsError(f"{values!r} is one value: pass one for each row")
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def _refuse_other_lengths(n_rows: int, of_rows: Mapping[str, Any]) -> None:
    for name, values in of_rows.items():
        if values is not None and _n_rows(values) != n_rows:
            raise RowsError(f"{name} has {_n_rows(values)} entries for {n_rows} rows")
