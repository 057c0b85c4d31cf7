"""``debias.audit``: the importance that a model reports beside debiased scores, and the tests of these scores.

The file has more than 500 lines because `audit` has many arguments, which are described here, and because each
combination of scorers, rows and arguments that has no meaning is refused with what to do instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.api.evaluation import combined, refuse_features, refuse_what_is_no_list, score_refits
from debias.api.interactions_hint import pairs_in_details
from debias.api.members import joint_evidence, one_by_one, with_joint_test
from debias.api.prepared import Prepared, prepared_members
from debias.api.row_facts import Fingerprints
from debias.api.whole_performance import performance_of_model
from debias.errors import CompositionError, RowsError
from debias.hooks.contracts import DataScorer, RefitScorer, TreeScorer
from debias.hooks.expressions import scorer
from debias.hooks.registry import missing_scorer
from debias.hooks.registry import scorers as offered_scorers
from debias.models.wrappers import is_one
from debias.parallel import Refits, checked, current, in_threads
from debias.progress import with_progress
from debias.results.audit import Audit
from debias.results.sentences import enumerated_texts
from debias.results.untested import NOT_ASKED, TRAINING_ROWS, reason_of, with_reason, without
from debias.results.vocabulary import DEPENDENCE, RESPONSE_VARIANCE, UNUSED, RowsKind
from debias.rows.request import Request
from debias.rows.rows import Rows
from debias.scorers.native import reported_importance
from debias.scorers.native_unseen import figures_of
from debias.scorers.unseen_error import unseen_figures
from debias.significance.contributions import is_constant
from debias.significance.evidence import CONSTANT
from debias.significance.member_rows import by_response
from debias.significance.procedure import Tests
from debias.text import name_in_text
from debias.warning_log import WarningLog
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from debias.data.user_rows import Dataset
    from debias.hooks.contracts import Scorer
    from debias.hooks.reported import ReportedImportance
    from debias.random_state import RandomState
    from debias.results.performance import NearDuplicates, Performance
    from debias.results.scores import Scores
    from debias.rows.fold_proof import FoldProof
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level
    from debias.significance.procedure import Dependence, ErrorRate, Procedure, Test


LEAST_BUDGET = 1e-3
"""Seconds for the test of dependence if the first test has used up the budget: one batch of permutations."""
NOT_REPORTED = "not reported"
NOT_DIVIDED = "none of its splits divides these rows"
MOST_UNTESTED_NAMED = 5
"""The warning names at most this many features that were not tested."""
COLUMNS = {
    "feature",
    "reported",
    "reported_unseen",
    "share",
    "standard_error",
    "z",
    "p_value",
    "p_adjusted",
    "verdict",
    "untested_because",
    "dependence",
    "dependence_p_adjusted",
    "finding",
}
"""Columns of the table of an audit beside its scorers."""


@explains_wrong_arguments
@in_threads
@with_progress
def audit(
    model: Any,
    X: Any,
    y: Any = None,
    scorers: list[str | Scorer] | None = None,
    *,
    tested: str | Scorer = "mdi_oob",
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    groups: Mapping[str, Any] | None = None,
    level: Level | None = None,
    test: Test | None = "auto",
    dependence: Dependence = "auto",
    error_rate: ErrorRate = 0.05,
    refits: Refits | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Audit:
    """Compare the importance that a model reports with debiased scores, and test which features are informative.

    Parameters
    ----------
    model : estimator or Booster
        A fitted model of trees, or a pipeline, search or vote around one. It is never changed.
    X : array, sparse matrix or data frame of shape (n_rows, n_features), list of texts, source of rows, or Dataset
        Rows to audit the model on, as it takes them: all training rows in training order, for a forest with bags, or
        rows that the model has not seen. :func:`score` lists what rows may be that are not in memory.
    y : array-like of shape (n_rows,), or str
        Response of the rows, as the model was trained on, matched by position; of a file the name of its column.
    scorers : list of str or Scorer, optional
        Scorers to show beside the reported importance and `tested`. The default is ``oob_loss``, if it is defined.
    tested : str or Scorer
        The scorer that is tested, and whose scores the shares are computed from. It must be a scorer of trees that
        gives the contribution of each row (``node_weight``).
    rows : {"auto", "oob", "held-out", "train"}
        The kind of the rows: training rows that are used out of bag, rows that the model has not seen, or training
        rows as they are, whose scores are biased and not tested. "auto" uses "oob" if it can be proven, else
        "held-out", with an error if the rows look like training rows.
    train : (X, y) or Dataset, optional
        Training rows, passed in addition to held-out rows: for the test of dependence, and to have proven that the
        held-out rows are others.
    sample_weight : array-like of shape (n_rows,), or str, optional
        Weights of the rows, or the name of their column.
    groups : mapping of str to list of str, optional
        Groups of columns by name. Each is audited as one feature.
    level : {None, "source", "model"}
        The columns of X, or those that the trees see after the transformers of a pipeline. None: "model" if X is one
        column of texts, else "source".
    test : {"auto", "residuals", "permutation", "conservative", "naive", None} or Permutation
        Test of the scores of `tested`. Its verdicts answer: does the model use the feature in a way that holds on
        unseen rows?

        - "residuals", for held-out rows: what the model does with a feature on each row, times what other columns leave
          of the response. Whole rows of residuals are permuted (docs/significance.md).
        - "permutation": the response is permuted and the trees stay as they are. A :class:`Permutation` has limits of
          its own.
        - "conservative": a t-test with sqrt(2) times the naive standard error, for out-of-bag rows.
        - "naive": a t-test, for held-out rows.
        - "auto": "permutation" for out-of-bag rows, or "conservative" if fewer than 5 rows (whole blocks, if there are
          blocks) per tree are out of bag, or more than 68 % of the rows are in its bag. For held-out
          rows "residuals". Where these cannot be tested, ``details["test"]["scores_tested_because"]`` says why, and it
          is "permutation" if the effective number of rows (of blocks of one size) is at most 2,000, else "naive".
        - None or "none": no test. Every verdict is "untested", and ``audit.untested_because`` gives the reason.
    dependence : {"auto", True, False}
        Whether to test too: does the response depend on the feature, within the nodes of the trees? The column
        ``dependence`` comes from the combined test of ``honest_effects`` (docs/honest-effects.md), which finds features
        that the model hardly uses. It needs training rows: out-of-bag rows, or held-out rows with `train`. Without them
        "auto" leaves it out, and True raises an error. With many features "auto" fits lines in the first trees only,
        20 or more, and True in more of them, which finds a little more (docs/honest-effects.md). False is faster.
    error_rate : float, or ({"fwer", "fdr", "fdr_by"}, float)
        Error rate of the verdicts. A number is a family-wise error rate ("fwer"): the probability that any noise
        feature is called informative (step-down max-z, or Holm). ``("fdr", 0.1)`` bounds the expected share of noise
        features among those that are called informative (Benjamini-Hochberg; "fdr_by" under any dependence). For more
        than 50 features, the draws of all features are pooled if those of one are too few.
    refits : Refits, optional
        Hyper-parameters, time limit and checkpoint of the refits of a meta-method. A checkpoint is for one of them.
    random_state : int or numpy.random.Generator, optional
        Seed of permutations and refits. The same seed gives the same numbers, with any `n_jobs`. Without one,
        permutations use seed 0.
    n_jobs : int, optional
        Number of threads; 1 by default, -1 for one a core.

    Returns
    -------
    Audit
        ``audit.to_frame()`` has the numbers, ``audit.summary()`` the sentences. Of many held-out rows it also names
        pairs of features that work together, if a few of these rows confirm them (docs/interactions.md).

    Raises
    ------
    UnsupportedModelError
        No adapter can audit the model.
    RowsError
        X, y or weights do not fit the model or each other.
    ProvenanceError
        The rows are not what `rows` says, or look like training rows.
    CompositionError
        Scorers, tests and rows that do not go together.
    DebiasError
        Other reasons, as for :func:`score`. Every message says what to do.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> audit = debias.audit(forest, X, y, random_state=0)
    >>> list(audit.to_frame().columns)
    ['reported', 'reported_unseen', 'share', 'mdi_oob', 'oob_loss', 'honest_effects', 'standard_error', 'z', \
'p_value', 'p_adjusted', 'verdict', 'dependence_p_adjusted', 'dependence', 'finding']
    >>> audit.to_frame().loc["bmi", ["verdict", "dependence", "finding"]].tolist()
    ['informative', 'dependent', 'used and confirmed']
    """
    of_refits = checked(refits)
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        groups=groups,
        level=level,
        params=of_refits.params,
        random_state=random_state,
        n_jobs=n_jobs,
        takes_lines=True,
    )
    return _audited(request, scorers, tested, Tests.asked(test, dependence, error_rate), of_refits)


@in_threads
def audit_of_fold(
    proof: FoldProof,
    rows: Dataset,
    scorers: list[str | Scorer] | None = None,
    *,
    tested: str | Scorer = "mdi_oob",
    procedure: Procedure | None = None,
    refits: Refits = Refits(),  # noqa: B008, it is frozen
    **of_request: Any,
) -> Audit:
    """Audit the model of a fold on its test rows; what is proven about these is in ``audit.provenance``.

    Parameters
    ----------
    proof : FoldProof
        From :func:`debias.rows.fold_proof.prove_folds`.
    rows : Dataset
        The test rows of the fold.
    scorers, tested, refits
        As for :func:`audit`.
    procedure : Procedure or None
        The test of the scores; dependence is not tested.
    **of_request
        Other arguments of :func:`audit`, without `rows`.

    Raises
    ------
    ProvenanceError
        Nothing is proven about the test rows, and they look like training rows.
    DebiasError
        As for :func:`audit`.
    """
    request = Request.of(proof.fold.model, rows, rows="held-out", params=refits.params, **of_request)
    return _audited(replace(request, fold=proof), scorers, tested, Tests(procedure, False), refits)


def _audited(
    request: Request, scorers: list[str | Scorer] | None, tested: str | Scorer, tests: Tests, refits: Refits
) -> Audit:
    """Return the audit of a request."""
    plan = _Plan.of(request, scorers, tested, tests, refits)
    fingerprints, members, all_prepared = Fingerprints(), list[_AuditedMember](), list[Prepared]()
    for prepared in prepared_members(request, plan.of_rows, tested=plan.procedure is not None):
        members.append(_audited_member(prepared, plan, fingerprints, is_first=not members))
        if plan.together:
            all_prepared.append(prepared)
    scores = {
        name: combined(request.members, [member.scores[name] for member in members]) for name in members[0].scores
    }
    first, near_duplicates = members[0], members[0].near_duplicates
    n_values = _most_values([member.n_values for member in members])
    if plan.together:
        of_whole = _with_joint_test(all_prepared, scores[plan.tested.name], plan, n_values)
        scores[plan.tested.name] = of_whole
        near_duplicates = all_prepared[0].facts.near_duplicates(of_whole)
    engine = refits.engine(request.n_jobs)
    for refit_scorer in plan.refits:
        scores[refit_scorer.name] = score_refits(request, refit_scorer, engine)
    return Audit.of(
        first.reported,
        first.reported_kind,
        scores,
        n_values,
        fingerprints.to_dict(),
        plan.tested.name,
        near_duplicates,
        first.performance,
        first.unseen.values,
        first.unseen.none_because,
        first.unseen.error,
        first.unseen.inflation_p,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Plan:
    """What an audit computes: its scorers and its tests.

    Parameters
    ----------
    tested : Scorer
        The scorer that is tested.
    of_rows : list of Scorer
        Scorers of trees and of data, with `tested`.
    refits : list of RefitScorer
        Meta-methods.
    optional : frozenset of str
        Names of scorers that are left out where they are not defined.
    procedure : Procedure or None
        The test of `tested`; None for no test.
    together : bool
        Whether several models are tested as one, once all of them are scored.
    of_dependence : Scorer or None
        The scorer that tests dependence; None if that is not tested.
    within_fit : bool
        Whether that test takes the lines of fewer trees where features are many: unless the user asked for it.
    lacks_dependence : bool
        Whether dependence should be tested, and no plugin offers its scorer.
    started : float
        When the audit began, since a time limit is one of all tests.
    """

    tested: Scorer
    of_rows: list[Scorer]
    refits: list[RefitScorer]
    optional: frozenset[str]
    procedure: Procedure | None
    together: bool
    of_dependence: Scorer | None
    within_fit: bool
    lacks_dependence: bool
    started: float

    @classmethod
    def of(
        cls,
        request: Request,
        scorers: list[str | Scorer] | None,
        tested: str | Scorer,
        tests: Tests,
        asked_refits: Refits,
    ) -> _Plan:
        """Choose the scorers and tests; raise an error for a combination that has no meaning."""
        refuse_features(scorers, request.X)
        tested_scorer, chosen = chosen_scorers(tested, scorers)
        optional = {"oob_loss"} - {tested_scorer.name} if scorers is None else set[str]()
        several = not is_one(request.members)
        if several and tests.dependence is True:
            raise CompositionError(
                f"dependence=True fits lines in the trees of one model, and this {request.members[0].path[0]} is a sum "
                f"of {len(request.members)}: leave dependence out, or audit {one_by_one(request.members)}"
            )
        wants_dependence = tests.dependence is not False and not several
        lacks_dependence = wants_dependence and DEPENDENCE not in offered_scorers()
        if lacks_dependence and tests.dependence is True:
            raise CompositionError(f"dependence=True needs {missing_scorer(DEPENDENCE)}")
        of_dependence = scorer(DEPENDENCE) if wants_dependence and not lacks_dependence else None
        if of_dependence is not None and of_dependence not in chosen:
            chosen = [*chosen, of_dependence]
            _refuse_names(chosen)
            if tests.dependence is not True:
                optional.add(DEPENDENCE)
        refits = [each for each in chosen if isinstance(each, RefitScorer)]
        _refuse_combinations(request, chosen, refits, asked_refits)
        procedure = tests.of_scores
        return cls(
            tested=tested_scorer,
            of_rows=[each for each in chosen if each not in refits],
            refits=refits,
            optional=frozenset(optional),
            procedure=procedure,
            together=several and procedure is not None,
            of_dependence=of_dependence,
            within_fit=tests.dependence is not True,
            lacks_dependence=lacks_dependence,
            started=perf_counter(),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _AuditedMember:
    """One model of trees: its scores by name, with their tests, and what is told beside them.

    Parameters
    ----------
    scores : dict of str to Scores
    n_values, near_duplicates, performance, reported, reported_kind
        As for :class:`Audit`; `reported` is not scaled. The performance is that of the whole model, with the first
        member.
    unseen : _ReportedUnseen
    """

    scores: dict[str, Scores]
    n_values: NDArray[np.int64] | None
    near_duplicates: tuple[NearDuplicates, ...] | None
    performance: Performance | None
    reported: NDArray[np.float64] | None
    reported_kind: str
    unseen: _ReportedUnseen


def _audited_member(prepared: Prepared, plan: _Plan, fingerprints: Fingerprints, *, is_first: bool) -> _AuditedMember:
    """Score one model of trees, test its tested scores, then dependence, and find what is told beside them."""
    facts = prepared.facts
    # Digests and counts need only the rows: another thread, if one is allowed, makes them while scorers run.
    counted = current().begin(partial(facts.digested_and_counted, fingerprints))
    n_members = len(prepared.request.members)
    # First: the pass over the rows that finds predictions finds what scorers need too.
    performance = performance_of_model(prepared) if is_first else None
    if plan.procedure is not None and is_first:
        facts.warn_of_dependent_rows()
    scores = {
        each.name: prepared.score(each)
        for each in plan.of_rows
        if each.name not in plan.optional or _is_defined(each, prepared)
    }
    if plan.procedure is not None and plan.lacks_dependence and prepared.can_test_dependence():
        prepared.log.warn(f"dependence was not tested: it needs {missing_scorer(DEPENDENCE)}")

    of_tested, n_values = _with_test(prepared, scores[plan.tested.name], plan), counted()
    of_tested = _without_untestable([prepared], of_tested, n_values, prepared.log)
    if not plan.together:
        of_tested = replace(of_tested, details={**of_tested.details, **facts.details(of_tested)})
    if of_tested.selected is not None and plan.procedure is not None and prepared.request.fold is None:
        of_tested = replace(
            of_tested, details=of_tested.details | pairs_in_details(prepared, of_tested, plan.procedure)
        )
    scores[plan.tested.name] = of_tested

    if DEPENDENCE in scores:
        scores[DEPENDENCE] = _dependence_tested(prepared, scores[DEPENDENCE], plan, reason_of(of_tested))
    tests = [each.selected for each in (of_tested, scores.get(DEPENDENCE)) if each is not None]
    found = [selected for selected in tests if selected is not None]
    if found:
        log = WarningLog(of_tested.warnings)
        facts.warn_of_censoring(np.any(found, axis=0), log)
        scores[plan.tested.name] = replace(of_tested, warnings=tuple(log.texts))

    importance = reported_importance(prepared.member.model) if n_members == 1 else None
    of_library = None if importance is None else prepared.grouping.sum(np.asarray(importance.values, dtype=np.float64))
    return _AuditedMember(
        scores=scores,
        n_values=n_values,
        near_duplicates=facts.near_duplicates(of_tested),
        performance=performance,
        reported=of_library,
        reported_kind=NOT_REPORTED if importance is None else importance.kind,
        unseen=_reported_unseen(prepared, importance, of_library, of_tested),
    )


def _is_defined(scorer: Scorer, prepared: Prepared) -> bool:
    """Whether these rows have what a scorer needs: training rows, or a running loss."""
    if scorer.name == DEPENDENCE:  # it makes fits on training rows
        return prepared.can_test_dependence()
    needs_loss = isinstance(scorer, TreeScorer) and scorer.needs_running_loss
    ensemble = prepared.ensemble
    of_averaged = ensemble.averaged and not ensemble.objective.compares_rows
    return not needs_loss or of_averaged or prepared.rows.can_run_loss


class _ReportedUnseen(NamedTuple):
    """What the library reports, computed on the evaluation rows and not scaled, as for :class:`Audit`."""

    values: NDArray[np.float64] | None = None
    error: NDArray[np.float64] | None = None
    inflation_p: NDArray[np.float64] | None = None
    none_because: str | None = None


def _reported_unseen(
    prepared: Prepared, importance: ReportedImportance | None, reported: NDArray[np.float64] | None, tested: Scores
) -> _ReportedUnseen:
    """Compute what the library reports on these rows, by groups of columns, and its error; or say why not."""
    if importance is None or reported is None:
        return _ReportedUnseen(none_because="the library reports no importance")
    if tested.rows == RowsKind.TRAIN:
        return _ReportedUnseen(none_because="these are training rows")
    if prepared.member.positions is not None:
        return _ReportedUnseen(none_because="the model is one of several, and each has seen other rows")
    if reason_of(tested) == CONSTANT:
        return _ReportedUnseen(none_because="the response is the same in all of them")
    try:
        figures_on = figures_of(prepared.ensemble, importance)
        return _ReportedUnseen(*unseen_figures(figures_on, prepared.rows, prepared.grouping, reported))
    except CompositionError as error:
        return _ReportedUnseen(none_because=str(error))


def _with_test(prepared: Prepared, scores: Scores, plan: _Plan) -> Scores:
    """Return the scores of the tested scorer with their test, or with the reason why there is none."""
    if prepared.rows.kind == RowsKind.TRAIN:
        return with_reason(scores, TRAINING_ROWS)
    if plan.procedure is None:
        return with_reason(scores, NOT_ASKED)
    if plan.together:
        return scores
    return prepared.test(scores, plan.tested, plan.procedure, together=True)


def _most_values(n_values: list[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """Return the largest number of values of each feature: a member that does not see a feature counts none."""
    known = [each for each in n_values if each is not None]
    return np.max(known, axis=0) if known and len({each.size for each in known}) == 1 else None


def _with_joint_test(
    prepared: Sequence[Prepared], scores: Scores, plan: _Plan, n_values: NDArray[np.int64] | None
) -> Scores:
    """Return the scores of a sum of models with their test, and what is told of the rows; or why they have no test."""
    if scores.rows == RowsKind.TRAIN:
        return with_reason(scores, TRAINING_ROWS)
    assert plan.procedure is not None
    evidence = joint_evidence(prepared, scores, plan.tested)
    in_memory = [each.rows for each in prepared if isinstance(each.rows, Rows)]
    if in_memory and all(map(is_constant, in_memory)):
        tested = with_reason(scores, CONSTANT, tell_nothing=True)
    elif isinstance(evidence, str):
        tested = with_reason(scores, evidence)
    else:
        tested = with_joint_test(scores, evidence, plan.procedure, rest=True)
    counted = [each for each in prepared if each.member.weight != 0]
    tested = _without_untestable(counted, tested, n_values, WarningLog(tested.warnings))
    of_rows = prepared[0].facts.details(tested)
    if not isinstance(evidence, str) and len(by_response(evidence.members)) > 1:
        of_rows.pop(RESPONSE_VARIANCE, None)  # the scores are sums over several responses
    return replace(tested, details={**tested.details, **of_rows})


def _without_untestable(
    members: Sequence[Prepared], scores: Scores, n_values: NDArray[np.int64] | None, log: WarningLog
) -> Scores:
    """Return tested scores without a verdict on the features at whose splits all rows take the same side.

    Their scores are 0 with every response, so they say nothing about whether the feature matters. A feature without
    splits is tested: the model does not use it. The details name these.
    """
    if scores.selected is None:
        return scores
    names = scores.feature_names
    n_splits, n_dividing, n_lines = np.zeros((3, len(names)), dtype=np.int64)
    for prepared in members:
        ensemble = prepared.ensemble
        divides = (prepared.rows.node_sums.n[ensemble.children] > 0).all(axis=1)
        group = prepared.grouping.index[ensemble.feature[ensemble.splits]]
        n_splits += np.bincount(group, minlength=len(names))
        n_dividing += np.bincount(group[divides], minlength=len(names))
        if ensemble.line_feature is not None:
            n_lines += np.bincount(prepared.grouping.index[ensemble.line_feature], minlength=len(names))
    is_used = (n_splits > 0) | (n_lines > 0)
    unused = [names[k] for k in np.flatnonzero(~is_used)]
    if unused and all(prepared.member.has_plain_columns for prepared in members):
        scores = replace(scores, details={**scores.details, UNUSED: unused})
    reasons = {}
    for k in np.flatnonzero((n_splits > 0) & (n_dividing == 0) & (scores.values == 0)):
        number = None if n_values is None else int(n_values[k])
        known = {0: "all of its values are missing on these rows", 1: "it has only one value on these rows"}
        reasons[names[k]] = known.get(number, NOT_DIVIDED) if number is not None else NOT_DIVIDED
    if not reasons:
        return scores
    told = [f"{name_in_text(name)} ({reason})" for name, reason in reasons.items()]
    named = enumerated_texts(told, MOST_UNTESTED_NAMED)
    log.add(f"not tested: {named}")
    return replace(without(scores, reasons), warnings=tuple(dict.fromkeys([*scores.warnings, *log.texts])))


def _dependence_tested(prepared: Prepared, scores: Scores, plan: _Plan, why_untested: str | None) -> Scores:
    """Return the scores of dependence with their test, in the time that the test of the tested scorer has left."""
    if plan.procedure is None or plan.of_dependence is None:
        return scores
    if why_untested is not None:
        return with_reason(scores, why_untested)
    limits = plan.procedure.limits
    if limits.budget is not None:
        limits = replace(limits, budget=max(limits.budget - (perf_counter() - plan.started), LEAST_BUDGET))
    procedure = replace(plan.procedure, test="combined", limits=limits, within_fit=plan.within_fit)
    return prepared.test(scores, plan.of_dependence, procedure, aside=True)


def _refuse_combinations(
    request: Request, scorers: list[Scorer], refits: list[RefitScorer], asked_refits: Refits
) -> None:
    """Refuse scorers, rows and arguments that do not go together."""
    if refits and (request.blocks is not None or request.base_margin is not None):
        raise CompositionError(
            f"{refits[0].name} refits the model on rows of its own: leave blocks and base_margin out, or score it by "
            "itself"
        )
    if not refits and (request.params is not None or asked_refits.has_limits):
        raise CompositionError("refits are for meta-methods, and none of the scorers refits the model")
    if asked_refits.checkpoint is not None and len(refits) > 1:
        named = " and ".join(each.name for each in refits)
        raise CompositionError(f"a checkpoint is for one meta-method, and these are {named}: score each by itself")
    needing = [each.name for each in scorers if isinstance(each, DataScorer | RefitScorer)]
    if needing:
        request.passed.refuse_batches(needing[0])
    for member in request.members:
        unscored = member.ensemble.objective.why_unscored(has_queries=request.qid is not None)
        if unscored is not None:
            raise CompositionError(unscored)
    _refuse_transformed_data(request, scorers)


def chosen_scorers(tested: str | Scorer, scorers: list[str | Scorer] | None) -> tuple[Scorer, list[Scorer]]:
    """Return the tested scorer of an audit, and all scorers that were asked for, with the tested scorer.

    Parameters
    ----------
    tested, scorers
        As for :func:`audit`.

    Raises
    ------
    CompositionError
        A scorer does not exist or has no such option, or an audit cannot rest on the tested scorer.
    RowsError
        A scorer is asked for twice.
    """
    tested_scorer = scorer(tested)
    refuse_what_is_no_list(scorers, "[{!r}]")
    asked = [scorer(expression) for expression in (["oob_loss"] if scorers is None else scorers)]
    chosen = asked if tested_scorer in asked else [tested_scorer, *asked]
    _refuse_names(chosen)
    if not isinstance(tested_scorer, TreeScorer):
        raise CompositionError(
            f"tested={tested_scorer.name!r} is not a scorer of trees, and an audit needs one, such as mdi_oob. To show "
            f"{tested_scorer.name} as well, pass scorers=[{tested_scorer.name!r}]"
        )
    if tested_scorer.name == DEPENDENCE:
        raise CompositionError(
            f"tested={DEPENDENCE!r} has no shares: its values are logs of evidence. Leave tested out; the "
            "column 'dependence' has its test"
        )
    if not tested_scorer.needs_rows:
        raise CompositionError(
            f"tested={tested_scorer.name!r} uses no rows, so an audit cannot rest on it. To show it beside mdi_oob, "
            f"pass scorers=[{tested_scorer.name!r}]"
        )
    return tested_scorer, chosen


def _refuse_names(scorers: list[Scorer]) -> None:
    """Refuse two scorers of one name, and names of other columns of the table."""
    names = [named.name for named in scorers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RowsError(f"{', '.join(twice)} is asked for twice: pass each scorer once, with a name of its own")
    reserved = sorted(set(names) & COLUMNS)
    if reserved:
        raise CompositionError(f"a scorer cannot be called {reserved[0]!r} in an audit: its table has such a column")


def _refuse_transformed_data(request: Request, scorers: list[Scorer]) -> None:
    """Refuse scorers of data if the trees see other columns than those of X."""
    if all(member.columns is None for member in request.members):
        return
    for scorer_of_data in scorers:
        if isinstance(scorer_of_data, DataScorer):
            name = scorer_of_data.name
            raise CompositionError(
                f"{name} scores data, and the trees of this {request.members[0].path[0]} see other columns than those "
                f"of X. Score X alone: debias.score(None, X, y, {name!r})"
            )
