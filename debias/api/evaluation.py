"""The pipeline behind every public function: unwrap a model, prepare its rows, score, test, and combine the members."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from debias._version import __version__
from debias.api.batches import prepared_batches
from debias.data.groups import Grouping
from debias.errors import CompositionError, DebiasError, RowsError, UnsupportedModelError
from debias.hooks.contracts import DataScorer, TreeScorer, innermost
from debias.hooks.scorers import figures_of
from debias.models.wrappers import is_one, is_wrapper, members_in_words, names_of
from debias.parallel import Engine
from debias.results.policy import PROVENANCE
from debias.results.scores import DEPENDENCE, Scores
from debias.results.untested import unless_tested, with_reason
from debias.retraining.experiment import Experiment
from debias.rows.preparation import prepare, prepare_data
from debias.rows.rows import SummedRows
from debias.rows.supervised_steps import why_untested
from debias.significance.contributions import contributions
from debias.significance.evidence import EvidenceInMemory
from debias.significance.verdict import significance
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.hooks.contracts import RefitScorer, Scorer
    from debias.models.wrappers import Member
    from debias.rows.request import Request
    from debias.rows.rows import EvaluationRows
    from debias.significance.evidence import Evidence
    from debias.significance.procedure import Procedure
    from debias.trees.ensemble import TreeEnsemble


MOST_ROUTED = 1e8
"""With more rows times trees, an audit leaves the test of dependence out unless it is asked for."""
MOST_FITTED = 2e8
"""With more rows times trees times features, an audit leaves that test out too: it would take more than a minute."""
BYTES_A_ROUTE = 16
"""Memory of linear effects for each row and tree."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """One model of trees with its rows, ready to be scored.

    Parameters
    ----------
    member : Member
    ensemble : TreeEnsemble
        The trees, with the feature names of X if the model stores none.
    rows : Rows, SummedRows or None
    grouping : Grouping
        Columns of the model whose scores are summed.
    log : WarningLog
        The warnings.
    seed : int or None
    evidence : callable
        Returns the evidence of a test for the node weights of a scorer, the grouping and, for rows in memory, linear
        effects.
    """

    member: Member
    ensemble: TreeEnsemble
    rows: Any
    grouping: Grouping
    log: WarningLog
    seed: int | None
    evidence: Callable[..., Evidence]

    def score(self, scorer: Scorer) -> Scores:
        """Return the scores of one scorer."""
        if isinstance(scorer, DataScorer):
            data: Data = self.rows.data
            figures = figures_of(scorer, scorer.score(data), data)
            return _scores(scorer, figures, self.ensemble, self.grouping, self.log, self.seed, data=data)
        if not isinstance(scorer, TreeScorer):
            raise CompositionError(f"{scorer.name} cannot score a model: inherit from debias.TreeScorer or DataScorer")
        figures = figures_of(scorer, scorer.score(self.ensemble, self.rows), self.ensemble)
        rows = self.rows if scorer.needs_rows else None
        scores = _scores(scorer, figures, self.ensemble, self.grouping, self.log, self.seed, rows=rows)
        # The model has not seen these rows, and other models of the wrapper have: the user passed training rows.
        if rows is None or self.member.positions is None:
            return scores
        return replace(scores, rows=rows.provenance.kind)

    def test(self, scores: Scores, scorer: Scorer, procedure: Procedure, *, aside: bool = False) -> Scores:
        """Return scores with standard errors, z-values and p-values, or with the reason why there are none.

        `aside`: whether this test stands beside another one, so that a missing verdict is no warning.
        """
        if self.rows is None:
            raise CompositionError(f"{scorer.name} uses no rows, so it cannot be tested")
        untested = why_untested(self.member) if self.rows.kind == "oob" else None
        if untested is not None:
            return with_reason(scores, untested)
        effects = scorer.effects(self.ensemble, self.rows) if isinstance(scorer, TreeScorer) else None
        if effects is not None:
            evidence = self.evidence(np.ones(self.ensemble.n_nodes), self.grouping, effects)
        else:
            evidence = self.evidence(self._node_weight(scorer), self.grouping)
        n_before = len(self.log.texts)
        tested = significance(scores, evidence, procedure, self.log, aside=aside)
        return unless_tested(tested, self.log.texts[n_before:])

    def contributions(self, scorer: Scorer) -> NDArray[np.float64]:
        """Return the contribution of each row to the score of each group of columns, shape (n_rows, n_groups)."""
        effects = scorer.effects(self.ensemble, self.rows) if isinstance(scorer, TreeScorer) else None
        if effects is not None:
            return self.grouping.sum_columns(effects.contributions(self.rows.n_rows))
        phi = contributions(self.rows.paths, self.rows, self._node_weight(scorer))
        return self.grouping.sum_columns(phi)

    def _node_weight(self, scorer: Scorer) -> NDArray[np.float64]:
        weight = scorer.node_weight(self.ensemble, self.rows) if isinstance(scorer, TreeScorer) else None
        if weight is None:
            raise CompositionError(
                f"{scorer.name} has no contributions of rows and no standard errors, because it is not a weighted sum "
                "of centred covariances. mdi_oob is such a sum, also with shrinkage=, and with weights='in_bag' for a "
                "model that stores in-bag counts"
            )
        n_nodes = self.ensemble.n_nodes
        if np.shape(weight) != (n_nodes,) or not np.isfinite(weight[self.ensemble.splits]).all():
            raise DebiasError(f"node_weight of {scorer.name} must be {n_nodes} numbers, finite at the splits")
        return weight


def evaluate(
    request: Request,
    scorers: Sequence[Scorer],
    test: Callable[[Prepared, dict[str, Scores]], dict[str, Scores]] | None = None,
    *,
    beside: Callable[[Prepared], AbstractContextManager[Any]] | None = None,
    where_defined: frozenset[str] = frozenset(),
) -> dict[str, Scores]:
    """Score the rows of a request with scorers of trees or data, and combine the members of a wrapper.

    Parameters
    ----------
    request : Request
    scorers : sequence of Scorer
    test : callable, optional
        Called with each prepared member and its scores, by the name of the scorer. It returns the tested scores.
    beside : callable, optional
        Called with each prepared member. It returns a context manager in which the scorers run.
    where_defined : frozenset of str
        Names of scorers that are left out if they need a running loss or training rows, and there are none.

    Returns
    -------
    dict of str to Scores
        By the name of the scorer.
    """
    scores: dict[str, list[Scores]] = {}
    for prepared in prepared_members(request, scorers, tested=test is not None):
        with nullcontext() if beside is None else beside(prepared):
            defined = [each for each in scorers if each.name not in where_defined or _is_defined(each, prepared)]
            of_member = {each.name: prepared.score(each) for each in defined}
            if test is not None:
                of_member = test(prepared, of_member)
        for name, member_scores in of_member.items():
            scores.setdefault(name, []).append(member_scores)
    return {name: combined(request.members, of_members) for name, of_members in scores.items()}


def prepared_members(
    request: Request, scorers: Sequence[Scorer], tested: bool = False, known: bool = False
) -> Iterator[Prepared]:
    """Yield the models of trees inside the model of a request, each with its rows.

    Parameters
    ----------
    request : Request
    scorers : sequence of Scorer
        Scorers that will use the rows.
    tested : bool
        Whether scores will be tested, which needs another pass over rows that come in batches.
    known : bool
        Whether the kind of the rows is known, so that nothing has to be proven.
    """
    if request.in_batches:
        for member, summed, evidence, log in prepared_batches(request, scorers, tested):
            grouping = member.grouping(request.groups, summed.ensemble)
            yield Prepared(member, summed.ensemble, summed, grouping, log, request.seed, evidence)
        return
    for member in request.members:
        ensemble, rows, log = prepare(request, member, scorers, known)
        grouping = member.grouping(request.groups, ensemble)
        if request.level is None and member.summed_columns is not None:
            log.add(member.summed_columns)
        evidence_in_memory = partial(EvidenceInMemory, cast("Any", rows), kept={})  # without rows nothing is tested
        yield Prepared(member, ensemble, rows, grouping, log, request.seed, evidence_in_memory)


def score_data(request: Request, scorer: DataScorer, engine: Engine) -> Scores:
    """Score X and y without a model."""
    is_wrapped = is_wrapper(request.model)
    if is_wrapped and request.level_of_columns == "model":
        raise CompositionError(
            f"{scorer.name} scores data and uses no model, so it cannot score the columns that the trees see. Score "
            f"the transformed rows: debias.score(None, transformed, y, {scorer.name!r})"
        )
    model = None if is_wrapped else request.model  # the columns of a wrapper are those of X
    ensemble, data = prepare_data(request, model, scorer, engine)
    grouping = Grouping.of(request.groups, data.feature_names)
    figures = figures_of(scorer, scorer.score(data), data)
    return _scores(scorer, figures, ensemble, grouping, WarningLog(), request.seed, data=data)


def score_refits(request: Request, scorer: RefitScorer, engine: Engine) -> Scores:
    """Score with a meta-method, which refits the model."""
    if any(member.ensemble.objective.by_query for member in request.members):
        raise CompositionError(
            f"{scorer.name} refits the model, and a ranker cannot be refitted: its queries are not passed on. Use a "
            "scorer that does not refit, such as mdi_oob"
        )
    observed = score_trees(replace(request, params=None), innermost(scorer))
    experiment = Experiment.of(request, observed, engine)
    values, details = figures_of(scorer, scorer.score(experiment), experiment)
    details, fields, warnings = _fields_of_scores(details)
    log = WarningLog(observed.warnings)
    for text in warnings:
        log.warn(text)
    changed = {"values": values, "scorer": scorer.name, "unit": scorer.unit, "details": details, **fields}
    return replace(observed, **changed, warnings=tuple(log.texts))


def score_trees(request: Request, scorer: Scorer, procedure: Procedure | None = None) -> Scores:
    """Score a model with a scorer of trees, and test the scores if there is a procedure."""
    if request.model is None:
        raise UnsupportedModelError(
            f"{scorer.name} scores a fitted model, and model is None. Pass the model; only scorers of data need none"
        )
    needs_rows = not isinstance(scorer, TreeScorer) or scorer.needs_rows
    if not needs_rows and request.train is None and _needs_no_rows(scorer, request.without_rows()):
        request = request.without_rows()  # rows that are not used need not be proven
    if procedure is None:
        return evaluate(request, [scorer])[scorer.name]
    if not is_one(request.members):
        raise CompositionError(f"{members_in_words(request.members)}, or leave test out")

    def test(prepared: Prepared, scores: dict[str, Scores]) -> dict[str, Scores]:
        return {scorer.name: prepared.test(scores[scorer.name], scorer, procedure)}

    return evaluate(request, [scorer], test)[scorer.name]


def combined(members: list[Member], scores: list[Scores]) -> Scores:
    """Return the weighted sum of the scores of the members. For covariances it is the score of the weighted sum.

    Parameters
    ----------
    members : list of Member
    scores : list of Scores
        One for each member, all for the same columns.

    Returns
    -------
    Scores
    """
    first = scores[0]
    if len(scores) == 1:
        weight, error = members[0].weight, first.standard_error
        scaled = None if error is None else abs(weight) * error
        return replace(first, values=weight * first.values, standard_error=scaled) if weight != 1 else first
    names = first.feature_names
    numbered = all(map(_made_up, members, scores))
    if numbered and len({len(part.feature_names) for part in scores}) == 1:
        names = tuple(f"x{k}" for k in range(len(names)))  # each library numbers the columns of an array in its own way
    elif any(part.feature_names != names for part in scores):
        raise UnsupportedModelError(f"the members of this {members[0].path[0]} have different columns")
    if len({part.rows for part in scores}) > 1:
        raise CompositionError(
            f"the rows are out-of-bag rows for some members of this {members[0].path[0]} and not for others: "
            + ", ".join(f"{name}: {part.rows}" for name, part in zip(names_of(members), scores, strict=True))
            + ". Pass rows no member has seen, with rows='held-out'."
        )
    if any(part.p_value is not None for part in scores):
        raise CompositionError(f"{members_in_words(members)}, with {first.scorer}")
    weighted = [member.weight * part.values for member, part in zip(members, scores, strict=True)]
    return replace(
        first,
        values=np.sum(weighted, axis=0),
        feature_names=names,
        n_rows=_n_rows(members, scores),
        provenance=_weakest([part.provenance for part in scores]),
        details={
            "members": names_of(members),
            "weights": [member.weight for member in members],
            "scores": [part.values.tolist() for part in scores],
            **{name: first.details[name] for name in ("untested_because",) if name in first.details},
        },
        warnings=tuple(dict.fromkeys(text for part in scores for text in part.warnings)),
        settings={
            **first.settings,
            "model": f"{members[0].path[0]} of {len(members)} models",
            "n_trees": sum(part.settings["n_trees"] for part in scores),
        },
    )


def _n_rows(members: list[Member], scores: list[Scores]) -> int | None:
    """Return the number of rows of the user on which the members together are scored."""
    of_folds = [member.positions for member in members if member.positions is not None]
    if len(of_folds) == len(members):
        return int(np.unique(np.concatenate(of_folds)).size)
    return next(part.n_rows for member, part in zip(members, scores, strict=True) if member.positions is None)


def _scores(
    scorer: Scorer,
    figures: tuple[NDArray[np.float64], dict[str, Any]],
    ensemble: TreeEnsemble | None,
    grouping: Grouping,
    log: WarningLog,
    seed: int | None,
    *,
    rows: EvaluationRows | None = None,
    data: Data | None = None,
) -> Scores:
    """Return the result of a scorer as scores, with the model and the rows they belong to."""
    values, details = figures
    details, fields, warnings = _fields_of_scores(details)
    if "p_value" in fields and len(grouping.names) < values.size:
        raise CompositionError(
            f"{scorer.name} tests columns, so it cannot test sums over several columns. If they are those of groups=, "
            "pass the groups as its option together=. If transformers or the model make them of columns of X, pass "
            "level='model' to test them one by one"
        )
    for text in warnings:
        log.warn(text)
    return Scores(
        values=grouping.sum(values),
        feature_names=grouping.names,
        scorer=scorer.name,
        unit=scorer.unit,
        rows="data" if data is not None else None if rows is None else rows.kind,
        n_rows=data.n_rows if data is not None else None if rows is None else rows.n_evaluated,
        provenance={} if rows is None else rows.provenance.to_dict(),
        details=details,
        warnings=tuple(log.texts),
        settings={
            "model": None if ensemble is None else ensemble.source,
            "library_version": None if ensemble is None else ensemble.version,
            "n_trees": None if ensemble is None else ensemble.n_trees,
            "debias_version": __version__,
            "seed": seed,
        },
        **fields,
    )


def _fields_of_scores(reported: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Split the details of a scorer into details, fields of :class:`Scores`, and warnings."""
    details, fields = dict(reported), dict[str, Any]()
    warnings = details.pop("warnings", [])
    # A standard error without a p-value is of another kind (over trees, over repeats), and stays a detail.
    of_test = ("standard_error", "z") if "p_value" in details else ()
    for name in ("p_value", "p_adjusted", "null", *of_test):
        if name in details:
            fields[name] = np.asarray(details.pop(name), dtype=np.float64)
    if "selected" in details:
        fields["selected"] = np.asarray(details.pop("selected"), dtype=bool)
    if "threshold" in details:
        fields["threshold"] = details.pop("threshold")
    return details, fields, warnings


def _is_defined(scorer: Scorer, prepared: Prepared) -> bool:
    if scorer.name == DEPENDENCE:  # it makes fits on training rows
        return can_test_dependence(prepared)
    needs_loss = isinstance(scorer, TreeScorer) and scorer.needs_running_loss
    ensemble = prepared.ensemble
    of_averaged = ensemble.averaged and not ensemble.objective.compares_rows
    return not needs_loss or of_averaged or prepared.rows.can_run_loss


def can_test_dependence(prepared: Prepared) -> bool:
    """Return whether there are training rows, and warn if an audit leaves the test out because they are too many."""
    rows = prepared.rows
    if isinstance(rows, SummedRows):
        return False
    if rows.kind != "oob" and (rows.kind != "held-out" or rows.train is None):
        return False
    n_routed = prepared.ensemble.n_trees * (rows.n_rows if rows.kind == "oob" else rows.n_rows + rows.train.n_rows)
    n_fitted = n_routed * prepared.ensemble.n_features
    if n_routed <= MOST_ROUTED and n_fitted > MOST_FITTED:
        prepared.log.warn(
            f"dependence was not tested: rows times trees times features are {n_fitted:.2g}, more than "
            f"{MOST_FITTED:.0e}, and the test may take minutes. Pass test='combined' to test it"
        )
        return False
    if n_routed <= MOST_ROUTED:
        return True
    prepared.log.warn(
        f"dependence was not tested: rows times trees are {n_routed:.2g}, more than {MOST_ROUTED:.0e}, and the test "
        f"would take about {BYTES_A_ROUTE * n_routed / 2**30:.0f} GB of memory. Pass test='combined' to test it, or a "
        "sample of the rows"
    )
    return False


def _needs_no_rows(scorer: Scorer, request: Request) -> bool:
    """Whether a scorer that does not always need rows can score this model without them."""
    assert isinstance(scorer, TreeScorer)
    try:
        for member in request.members:
            scorer.score(member.ensemble, None)
    except RowsError:
        return False
    return True


def _weakest(provenances: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the weakest provenance of the rows among the members, and the largest shift."""
    order = [status for level in PROVENANCE.values() for status in level]

    def strength(provenance: dict[str, Any]) -> int:
        status = provenance.get("status")
        return order.index(status) if status in order else -1

    weakest = min(provenances, key=strength)
    if "shift" not in weakest:
        return weakest
    shifts = [provenance["shift"] for provenance in provenances]
    names = dict.fromkeys(name for provenance in provenances for name in provenance["shifted_features"])
    return {**weakest, "shift": None if None in shifts else max(shifts), "shifted_features": list(names)}


def _made_up(member: Member, scores: Scores) -> bool:
    """Whether scores have the names that a library gave to the columns of an array."""
    if member.columns is not None:
        return not member.named and scores.feature_names == member.columns.names
    return (
        member.feature_names is None
        and not member.ensemble.named
        and scores.feature_names == member.ensemble.feature_names
    )
