"""``debias.audit``: the importance that a model reports beside debiased scores, and the tests of these scores."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from debias.api.evaluation import can_test_dependence, evaluate, score_refits
from debias.data.blocks import warn_of_repeats
from debias.data.dataset import as_frame
from debias.data.explained import explained_alone
from debias.data.queries import why_needed
from debias.data.similar_columns import MOST_ROWS, near_duplicates
from debias.data.sources import in_memory
from debias.data.table import distinct_values
from debias.errors import CompositionError, RowsError
from debias.hooks.contracts import DataScorer, RefitScorer, TreeScorer
from debias.hooks.expressions import scorer
from debias.hooks.registry import missing_scorer, plugin_manager
from debias.hooks.registry import scorers as offered_scorers
from debias.models.wrappers import is_one, members_in_words
from debias.parallel import Engine, in_threads, meanwhile
from debias.progress import with_progress
from debias.results.audit import Audit
from debias.results.performance import Performance
from debias.results.scores import DEPENDENCE, EXPLAINED_ALONE, REPEATED, UNSEEN
from debias.results.sentences import enumerated
from debias.results.untested import NOT_ASKED, TRAINING_ROWS, reason_of, with_reason, without
from debias.rows.performance import performance_of
from debias.rows.request import Request
from debias.rows.rows import SummedRows
from debias.rows.unordered_digest import hashes_of
from debias.significance.procedure import Procedure, asked_for
from debias.spread import spread
from debias.trees.fingerprint import feed, feed_trees
from debias.trees.objectives import UnscoredObjective

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from debias.api.evaluation import Prepared
    from debias.hooks.contracts import Scorer
    from debias.progress import Progress
    from debias.results.near_duplicates import NearDuplicates
    from debias.results.scores import Scores
    from debias.rows.fold_proof import FoldProof
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level
    from debias.rows.rows import Rows
    from debias.significance.procedure import ErrorRate, Test
    from debias.trees.ensemble import TreeEnsemble


LEAST_BUDGET = 1e-3
"""Seconds for the test of dependence if the first test has used up the budget: one batch of permutations."""
IN_BATCHES = "the rows came in batches, or as sums over them, and only rows in memory are predicted"
NOT_DIVIDED = "none of its splits divides these rows"
MOST_UNTESTED_NAMED = 5
"""The warning names at most this many features that were not tested."""
COLUMNS = {
    "feature",
    "reported",
    "share",
    "standard_error",
    "z",
    "p_value",
    "p_adjusted",
    "verdict",
    "untested_because",
    "dependence",
    "dependence_p_adjusted",
}
"""Columns of the table of an audit beside its scorers."""


@in_threads
@with_progress
def audit(
    model: Any,
    X: Any,
    y: Any,
    scorers: list[str | Scorer] | None = None,
    *,
    main: str | Scorer = "mdi_oob",
    rows: RowsOption = "auto",
    train: tuple[Any, ...] | None = None,
    sample_weight: Any = None,
    base_margin: Any = None,
    groups: Mapping[str, Any] | None = None,
    level: Level | None = None,
    feature_names: Sequence[str] | None = None,
    blocks: Any = None,
    qid: Any = None,
    test: Test | None = "auto",
    alpha: float = 0.05,
    error: ErrorRate = "fwer",
    n_permutations: int = 200,
    budget: float | None = None,
    adaptive: bool = True,
    params: Any = None,
    seed: int | None = None,
    n_jobs: int | None = None,
    progress: Progress = "auto",
) -> Audit:
    """Compare the importance that a model reports with debiased scores, and test which features are informative.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, base_margin, groups, level, feature_names, blocks, qid
        As for :func:`score`.
    params, seed, n_jobs, progress
        As for :func:`score`.
    scorers : list of str or Scorer, optional
        Scorers to show beside the reported importance and `main`. The default is ``oob_loss``, if it is defined.
    main : str or Scorer
        The scorer that is tested, and whose scores the shares are computed from. It must be a scorer of trees that
        gives the contribution of each row (``node_weight``).
    test : {"auto", "combined", "permutation", "conservative", "naive", None}
        Tests of the audit. The verdicts answer: does the model use the feature in a way that holds on unseen rows? They
        come from the scores of `main`:

        - "permutation": the response is permuted and the trees stay as they are.
        - "conservative": a t-test with sqrt(2) times the naive standard error, for out-of-bag rows.
        - "naive": a t-test, for held-out rows.
        - "auto": "permutation" for out-of-bag rows, or "conservative" if fewer than 5 rows (whole blocks, if there are
          blocks) per tree are out of bag. For held-out rows "permutation" if the effective number of rows (of blocks of
          one size) is at most 2,000, as with a rare class (docs/significance.md), else "naive".
        - None or "none": no test. Every verdict is "untested", and ``audit.untested_because`` gives the reason.

        With "auto" and "combined" the audit also answers: does the response depend on the feature, within the nodes of
        the trees? The column ``dependence`` comes from the combined test of ``honest_effects``
        (docs/honest-effects.md), which finds features that the model hardly uses. It needs training rows: out-of-bag
        rows, or held-out rows with `train`. Without them "auto" leaves it out, and "combined" raises an error.
        "permutation" leaves it out and is faster.
    alpha : float
        Error rate of the verdicts.
    error : {"fwer", "fdr", "fdr_by"}
        "fwer": the probability that any noise feature is called informative (step-down max-z, or Holm). "fdr": the
        expected share of noise features among those that are called informative (Benjamini-Hochberg; "fdr_by" under any
        dependence). For more than 50 features, the draws of all features are pooled if those of one are too few.
    n_permutations : int
        Largest number of permutations. On out-of-bag rows, 200 took a fifth of the time of fitting the forest, and with
        the test of dependence about as long as the fit (docs/honest-effects.md).
    budget : float, optional
        Time limit of the permutations in seconds; no limit by default. The permutations drawn until then are used.
    adaptive : bool
        Whether to stop drawing permutations when every verdict is settled. The risk that more draws would have changed
        the verdict of a feature is at most 1e-3. P-values are computed from the permutations drawn until then.

    Returns
    -------
    Audit
        ``audit.table`` has the numbers, ``audit.summary()`` the sentences.

    Raises
    ------
    DebiasError
        As for :func:`score`.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> audit = debias.audit(forest, X, y, seed=0)
    >>> list(audit.table.columns)
    ['reported', 'share', 'mdi_oob', 'oob_loss', 'honest_effects', 'standard_error', 'z', 'p_value', 'p_adjusted', \
'verdict', 'dependence_p_adjusted', 'dependence']
    >>> audit.table.loc["bmi", ["verdict", "dependence"]].tolist()
    ['informative', 'dependent']
    """
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        base_margin=base_margin,
        groups=groups,
        level=level,
        feature_names=feature_names,
        blocks=blocks,
        qid=qid,
        params=params,
        seed=seed,
        n_jobs=n_jobs,
    )
    procedure = _procedure(asked_for(test), alpha, error, n_permutations, budget, adaptive)
    return _audited(request, scorers, main, asked_for(test), procedure)


@in_threads
def audit_of_fold(
    proof: FoldProof,
    X: Any,
    y: Any,
    scorers: list[str | Scorer] | None = None,
    *,
    main: str | Scorer = "mdi_oob",
    test: Test | None = "auto",
    alpha: float = 0.05,
    error: ErrorRate = "fwer",
    n_permutations: int = 200,
    budget: float | None = None,
    adaptive: bool = True,
    **of_request: Any,
) -> Audit:
    """Audit the model of a fold on its test rows; what is proven about these is in ``audit.provenance``.

    Parameters
    ----------
    proof : FoldProof
        From :func:`debias.rows.fold_proof.prove_folds`.
    X, y
        The test rows of the fold.
    scorers, main, test, alpha, error, n_permutations, budget, adaptive
        As for :func:`audit`.
    **of_request
        Other arguments of :func:`audit`, without `rows`; those with one value a row are for the test rows.

    Raises
    ------
    ProvenanceError
        Nothing is proven about the test rows, and they look like training rows.
    DebiasError
        As for :func:`audit`.
    """
    request = replace(Request.of(proof.fold.model, X, y, rows="held-out", **of_request), fold=proof)
    procedure = _procedure(test, alpha, error, n_permutations, budget, adaptive)
    return _audited(request, scorers, main, test, procedure)


def _procedure(
    test: str | None, alpha: float, error: str, n_permutations: int, budget: float | None, adaptive: bool
) -> Procedure | None:
    """Return the test of the main scorer; None if none is asked for."""
    method = "auto" if test == "combined" else test
    return None if method is None else Procedure(method, alpha, error, n_permutations, budget, adaptive)


def _audited(
    request: Request,
    scorers: list[str | Scorer] | None,
    main: str | Scorer,
    test: str | None,
    procedure: Procedure | None,
) -> Audit:
    """Return the audit of a request."""
    main_scorer, chosen = chosen_scorers(main, scorers)
    where_defined = frozenset({"oob_loss"} - {main_scorer.name}) if scorers is None else frozenset[str]()
    asks_for_dependence = test in ("auto", "combined") and is_one(request.members)
    lacks_dependence = asks_for_dependence and DEPENDENCE not in offered_scorers()
    if lacks_dependence and test == "combined":
        raise CompositionError(f"test='combined' tests dependence, which needs {missing_scorer(DEPENDENCE)}")
    of_dependence = scorer(DEPENDENCE) if asks_for_dependence and not lacks_dependence else None
    if of_dependence is not None and of_dependence not in chosen:
        chosen = [*chosen, of_dependence]
        _refuse_names(chosen)
        if test == "auto":
            where_defined |= {DEPENDENCE}
    refit_scorers = [chosen_scorer for chosen_scorer in chosen if isinstance(chosen_scorer, RefitScorer)]
    if refit_scorers and any(argument is not None for argument in (request.blocks, request.qid, request.base_margin)):
        is_ranker = any(member.ensemble.objective.by_query for member in request.members)
        how = (
            "a ranker cannot be refitted, so leave this scorer out"
            if is_ranker
            else "leave blocks, qid and base_margin out, or score it by itself"
        )
        raise CompositionError(f"{refit_scorers[0].name} refits the model on rows of its own: {how}")
    if request.params is not None and not refit_scorers:
        raise CompositionError("params are hyper-parameters for meta-methods, and none of the scorers refits the model")
    if request.in_batches:
        _refuse_in_batches(request, chosen)
    for member in request.members:
        objective = member.ensemble.objective
        if isinstance(objective, UnscoredObjective):
            raise CompositionError(objective.no_loss)
        if objective.by_query and request.qid is None:
            raise CompositionError(why_needed(objective.name))
    _refuse_transformed_data(request, chosen)
    reason = NOT_ASKED
    if procedure is not None and not is_one(request.members):
        if test not in ("auto", "combined"):
            raise CompositionError(f"{members_in_words(request.members)}, or leave test out")
        procedure, reason = None, members_in_words(request.members)
    kept = _Kept(request, warn=procedure is not None)

    started = perf_counter()

    def tested(prepared: Prepared, scores: dict[str, Scores]) -> dict[str, Scores]:
        if procedure is not None and lacks_dependence and can_test_dependence(prepared):
            prepared.log.warn(f"dependence was not tested: it needs {missing_scorer(DEPENDENCE)}")
        of_main = _main_tested(prepared, scores[main_scorer.name], main_scorer, procedure, reason)
        of_main = _without_untestable(prepared, of_main, kept.n_values)
        kept.near_duplicates = _near_duplicates(prepared, of_main)
        after_tests = {**scores, main_scorer.name: _with_odd_rows(prepared, _with_strongest_alone(prepared, of_main))}
        if procedure is not None and of_dependence is not None and DEPENDENCE in scores:
            after_tests[DEPENDENCE] = _dependence_tested(
                prepared, scores[DEPENDENCE], of_dependence, procedure, reason_of(of_main), started
            )
        return after_tests

    other_scorers = [chosen_scorer for chosen_scorer in chosen if chosen_scorer not in refit_scorers]
    scores = evaluate(request, other_scorers, tested, beside=kept.beside, where_defined=where_defined)
    engine = Engine(n_jobs=request.n_jobs)
    for refit_scorer in refit_scorers:
        scores[refit_scorer.name] = score_refits(request, refit_scorer, engine)
    fingerprints = kept.fingerprints.to_dict()
    return Audit.of(
        kept.reported,
        kept.kind,
        scores,
        kept.n_values,
        fingerprints,
        main_scorer.name,
        kept.near_duplicates,
        kept.performance,
    )


def _main_tested(
    prepared: Prepared, scores: Scores, main_scorer: Scorer, procedure: Procedure | None, reason: str
) -> Scores:
    """Return the scores of the main scorer with their test, or with the reason why there is none."""
    if prepared.rows.kind == "train":
        return with_reason(scores, TRAINING_ROWS)
    return with_reason(scores, reason) if procedure is None else prepared.test(scores, main_scorer, procedure)


def _without_untestable(prepared: Prepared, scores: Scores, n_values: NDArray[np.int64] | None) -> Scores:
    """Return tested scores without a verdict on the features at whose splits all rows take the same side.

    Their scores are 0 with every response, so they say nothing about whether the feature matters. A feature without
    splits is tested: the model does not use it.
    """
    if scores.selected is None:
        return scores
    ensemble, grouping = prepared.ensemble, prepared.grouping
    divides = (prepared.rows.node_sums.n[ensemble.children] > 0).all(axis=1)
    group = grouping.index[ensemble.feature[ensemble.splits]]
    n_splits, n_dividing = (np.bincount(each, minlength=len(grouping.names)) for each in (group, group[divides]))
    reasons = {}
    for k in np.flatnonzero((n_splits > 0) & (n_dividing == 0) & (scores.values == 0)):
        number = None if n_values is None else int(n_values[k])
        known = {0: "all of its values are missing on these rows", 1: "it has only one value on these rows"}
        reasons[grouping.names[k]] = known.get(number, NOT_DIVIDED) if number is not None else NOT_DIVIDED
    if not reasons:
        return scores
    named = enumerated([f"{name} ({reason})" for name, reason in reasons.items()], MOST_UNTESTED_NAMED)
    prepared.log.add(f"not tested: {named}")
    return replace(without(scores, reasons), warnings=tuple(dict.fromkeys([*scores.warnings, *prepared.log.texts])))


def _dependence_tested(
    prepared: Prepared,
    scores: Scores,
    of_dependence: Scorer,
    procedure: Procedure,
    main_untested: str | None,
    started: float,
) -> Scores:
    """Return the scores of dependence with their test, in the time that the test of the main scorer has left."""
    if main_untested is not None:
        return with_reason(scores, main_untested)
    left = None if procedure.budget is None else max(procedure.budget - (perf_counter() - started), LEAST_BUDGET)
    return prepared.test(scores, of_dependence, replace(procedure, test="combined", budget=left), aside=True)


def _near_duplicates(prepared: Prepared, scores: Scores) -> tuple[NearDuplicates, ...] | None:
    """Return the informative features whose columns are nearly the same; None if scores are untested or rows gone.

    A group of several columns is not compared.
    """
    if scores.selected is None or isinstance(prepared.rows, SummedRows):
        return None
    ensemble, grouping, table = prepared.ensemble, prepared.grouping, prepared.rows.table
    single = scores.selected & (np.bincount(grouping.index, minlength=len(grouping.names)) == 1)
    features = np.flatnonzero(single)[np.argsort(-scores.values[single], kind="stable")]
    if features.size < 2:
        return ()
    column_of = np.zeros(len(grouping.names), dtype=np.int64)
    column_of[grouping.index] = np.arange(grouping.index.size)
    columns = column_of[features]
    X = table.matrix(ensemble, spread(table.n_rows, MOST_ROWS))[:, columns]
    return near_duplicates(X, [grouping.names[k] for k in features], np.isin(columns, _category_columns(ensemble)))


def _with_strongest_alone(prepared: Prepared, scores: Scores) -> Scores:
    """Return tested scores with how much of y the strongest feature explains by itself; unchanged if rows are gone."""
    if scores.selected is None or isinstance(prepared.rows, SummedRows):
        return scores
    response, table = prepared.rows.response, prepared.rows.table
    rows = spread(table.n_rows, MOST_ROWS)
    of_strongest = np.flatnonzero(prepared.grouping.index == int(np.argmax(scores.values)))
    if response.codes is not None:
        y = np.eye(response.codes.max() + 1)[response.codes[rows]]
    else:
        y = (response.values if response.target is None else response.target)[rows]
    if not of_strongest.size or not np.isfinite(y).all():  # the upper bound of a censored time may be infinite
        return scores
    explained = explained_alone(table.matrix(prepared.ensemble, rows)[:, of_strongest], y)
    return replace(scores, details={**scores.details, EXPLAINED_ALONE: explained})


def _with_odd_rows(prepared: Prepared, scores: Scores) -> Scores:
    """Return scores with the shares of rows with unseen categories and of repeated rows; unchanged if rows are gone."""
    rows = prepared.rows
    if isinstance(rows, SummedRows):
        return scores
    names = prepared.ensemble.feature_names
    unseen = {names[k]: number / rows.n_rows for k, number in sorted(rows.table.unseen.items()) if number}
    repeated = 1 - np.unique(hashes_of(rows)).size / rows.n_rows
    return replace(scores, details={**scores.details, UNSEEN: unseen, REPEATED: repeated})


def _refuse_in_batches(request: Request, scorers: list[Scorer]) -> None:
    """Refuse what needs all rows at once."""
    needing = [each.name for each in scorers if isinstance(each, DataScorer | RefitScorer)]
    if any(argument is not None for argument in (request.blocks, request.qid, request.base_margin)):
        needing = ["an audit with blocks, qid or base_margin"]
    if needing:
        raise CompositionError(f"{needing[0]} needs all rows at once: {in_memory(request.X)}, not as a source of rows")


def _category_columns(ensemble: TreeEnsemble) -> list[int]:
    """Return the columns that hold codes of categories."""
    labelled = set(ensemble.category_labels or {})
    if ensemble.category_set is None:
        return sorted(labelled)
    return sorted(labelled | set(ensemble.feature[ensemble.category_set >= 0].tolist()))


def chosen_scorers(main: str | Scorer, scorers: list[str | Scorer] | None) -> tuple[Scorer, list[Scorer]]:
    """Return the main scorer of an audit, and all scorers that were asked for, with the main scorer.

    Parameters
    ----------
    main, scorers
        As for :func:`audit`.

    Raises
    ------
    CompositionError
        A scorer does not exist or has no such option, or an audit cannot rest on the main scorer.
    RowsError
        A scorer is asked for twice.
    """
    main_scorer = scorer(main)
    if isinstance(scorers, str):
        raise CompositionError(f"scorers must be a list: pass [{scorers!r}]")
    asked = [scorer(expression) for expression in (["oob_loss"] if scorers is None else scorers)]
    chosen = asked if main_scorer in asked else [main_scorer, *asked]
    _refuse_names(chosen)
    if not isinstance(main_scorer, TreeScorer):
        raise CompositionError(
            f"main={main_scorer.name!r} is not a scorer of trees, and an audit needs one, such as mdi_oob. To show "
            f"{main_scorer.name} as well, pass scorers=[{main_scorer.name!r}]"
        )
    if main_scorer.name == DEPENDENCE:
        raise CompositionError(
            f"main={DEPENDENCE!r} has no shares: its values are evidence in standard errors. Leave main out; the "
            "column 'dependence' has its test"
        )
    if not main_scorer.needs_rows:
        raise CompositionError(
            f"main={main_scorer.name!r} uses no rows, so an audit cannot rest on it. To show it beside mdi_oob, pass "
            f"scorers=[{main_scorer.name!r}]"
        )
    return main_scorer, chosen


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


class _Kept:
    """What an audit keeps beside the scores: the reported importance, numbers of values, digests of model and rows."""

    def __init__(self, request: Request, warn: bool) -> None:
        self._request, self._warn = request, warn and request.blocks is None and request.qid is None
        self.fingerprints = Fingerprints()
        self.n_values: NDArray[np.int64] | None = None
        self.near_duplicates: tuple[NearDuplicates, ...] | None = None
        self.reported: NDArray[np.float64] | None = None
        self.kind = "not reported"
        n = len(request.members)
        several = f"{n} models are combined, and debias does not combine their predictions"
        self.performance = Performance(untold_because=IN_BATCHES if n == 1 else several)

    @contextmanager
    def beside(self, prepared: Prepared) -> Iterator[None]:
        """Collect what the audit needs from a prepared member while its scorers run."""
        member, grouping = prepared.member, prepared.grouping
        with self._beside_sums(prepared) if isinstance(prepared.rows, SummedRows) else self._beside_rows(prepared):
            yield
        if len(self._request.members) == 1:
            importance = plugin_manager().hook.debias_reported_importance(model=member.model)
            if importance is not None:
                self.reported, self.kind = grouping.sum(np.asarray(importance[0], dtype=np.float64)), importance[1]

    @contextmanager
    def _beside_rows(self, prepared: Prepared) -> Iterator[None]:
        member, ensemble, rows, grouping = prepared.member, prepared.ensemble, prepared.rows, prepared.grouping
        matrix = rows.table.matrix(ensemble)
        with meanwhile(partial(self.fingerprints.add, ensemble, rows, matrix)):
            if self.n_values is None:
                self.n_values = distinct_values(matrix, grouping)
                if len(self._request.members) == 1:
                    self.performance = performance_of(rows)
                if member.columns is not None:
                    _count_in_X(self._request, grouping.names, self.n_values)
            del matrix
            if self._warn and member.X is self._request.X:  # transformers may make repeated rows
                warn_of_repeats(rows.table, prepared.log)
            yield

    @contextmanager
    def _beside_sums(self, prepared: Prepared) -> Iterator[None]:
        """Collect what sums over the rows tell; the rows came in batches and are gone."""
        self.fingerprints.add_digest(prepared.ensemble, prepared.rows.digest)
        yield


def _count_in_X(request: Request, names: tuple[str, ...], n_values: NDArray[np.int64]) -> None:
    """Write the numbers of distinct values of the user's columns: transformers may give several values one code."""
    if not hasattr(request.X, "columns"):
        return
    frame = as_frame(request.X)
    position = {str(name): k for k, name in enumerate(frame.columns)}
    groups = request.groups if isinstance(request.groups, Mapping) else {}
    for k, name in enumerate(names):
        if name in position and name not in groups:
            n_values[k] = frame.iloc[:, position[name]].nunique()


class Fingerprints:
    """BLAKE3 digests of the trees of a model, and of the rows it was audited on.

    The fingerprint of trees does not depend on the object or file that holds them, and that of rows does not depend on
    their container. For a wrapper around several models, each is added in turn.
    """

    def __init__(self) -> None:
        self._model = blake3()
        self._data = blake3()

    def add(self, ensemble: TreeEnsemble, rows: Rows, X: NDArray[np.floating[Any]]) -> None:
        """Add a model and its rows: X as the library of the model compares it, y as it was encoded, and the weights."""
        self._add_model(ensemble)
        for array in (X, rows.response.codes, rows.response.values, rows.response.target, rows.weight):
            feed(self._data, array)

    def add_digest(self, ensemble: TreeEnsemble, digest: str) -> None:
        """Add a model, and the digest of rows that came in batches. It depends on how they came."""
        self._add_model(ensemble)
        self._data.update(digest.encode())

    def _add_model(self, ensemble: TreeEnsemble) -> None:
        self._model.update("\0".join(ensemble.feature_names).encode("utf-8", "surrogatepass"))
        feed_trees(self._model, ensemble)

    def to_dict(self) -> dict[str, str]:
        """Return both as hexadecimal text."""
        return {"model_blake3": self._model.hexdigest(), "data_blake3": self._data.hexdigest()}
