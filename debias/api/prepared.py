"""One model of trees with its rows, ready to be scored and tested: with rows in memory, or with sums over batches.

What differs between the two stands in :class:`PreparedRows` and :class:`PreparedSums`. Callers do not ask which of them
they have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from debias._version import __version__
from debias.api.row_facts import FactsOfRows, FactsOfSums
from debias.data.groups import LOG_OF_MEAN
from debias.errors import CompositionError, DebiasError
from debias.hooks.contracts import DataScorer, TreeScorer
from debias.hooks.scorers import values_and_details
from debias.lines_note import LINES
from debias.results.scores import Scores
from debias.results.untested import FEATURES, unless_tested, with_reason
from debias.results.vocabulary import NO_INTERVAL, RANKS, RowsKind
from debias.rows.leaf_lines import refuse_scorer
from debias.rows.rows import SummedRows
from debias.rows.supervised_steps import why_untested
from debias.significance.contributions import contributions, is_constant
from debias.significance.evidence import CONSTANT, EvidenceInMemory
from debias.significance.procedure import significance
from debias.significance.ranks import ranks_of_sums
from debias.significance.streamed import EvidenceInBatches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from debias.api.row_facts import Facts
    from debias.data.dataset import Data
    from debias.data.groups import Grouping
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.rows.effects import LinearEffects
    from debias.rows.request import Request
    from debias.rows.rows import EvaluationRows
    from debias.significance.evidence import Evidence
    from debias.significance.procedure import Procedure
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog


MOST_ROUTED = 1e8
"""With more rows times trees, an audit leaves the test of dependence out unless it is asked for."""
MOST_FITTED = 2e8
"""With more rows times trees times features, an audit leaves that test out too: it would take more than a minute."""
BYTES_A_ROUTE = 16
"""Memory of linear effects for each row and tree."""


@dataclass(frozen=True, eq=False)
class Prepared(ABC):
    """One model of trees with its rows, ready to be scored.

    Parameters
    ----------
    request : Request
    member : Member
    ensemble : TreeEnsemble
        The trees, with the feature names of X if the model stores none.
    rows : Rows, SummedRows or None
    grouping : Grouping
        Columns of the model whose scores are summed.
    log : WarningLog
        The warnings.
    """

    request: Request
    member: Member
    ensemble: TreeEnsemble
    rows: Any
    grouping: Grouping
    log: WarningLog

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What is told of the rows beside their scores."""

    @abstractmethod
    def evidence(self, node_weight: NDArray[np.float64], effects: LinearEffects | None = None) -> Evidence:
        """Return the evidence of a test of a score with these node weights, or of linear effects."""

    @abstractmethod
    def can_test_dependence(self) -> bool:
        """Return whether there are training rows; warn if an audit leaves the test out because they are too many."""

    def score(self, scorer: Scorer) -> Scores:
        """Return the scores of one scorer."""
        if isinstance(scorer, DataScorer):
            data: Data = self.rows.data
            returned = values_and_details(scorer, scorer.score(data), data)
            return scores_of(scorer, returned, self.ensemble, self.grouping, self.log, self.request.seed, data=data)
        if not isinstance(scorer, TreeScorer):
            raise CompositionError(
                f"{scorer.name} cannot score a model: inherit from debias.plugin.TreeScorer or DataScorer"
            )
        refuse_scorer(scorer, self.ensemble)
        returned = values_and_details(scorer, scorer.score(self.ensemble, self.rows), self.ensemble)
        rows = self.rows if scorer.needs_rows else None
        scores = scores_of(scorer, returned, self.ensemble, self.grouping, self.log, self.request.seed, rows=rows)
        if scorer.lines == "used":  # the note is about those that leave lines out
            scores = replace(scores, warnings=tuple(text for text in scores.warnings if text != LINES))
        if scores.details.get("test", {}).get("method") == "rows" and is_constant(self.rows):
            scores = self._without_test_by_rows(scores)
        # The model has not seen these rows, and other models of the wrapper have: the user passed training rows.
        if rows is None or self.member.positions is None:
            return scores
        return replace(scores, rows=rows.provenance.kind)

    def _without_test_by_rows(self, scores: Scores) -> Scores:
        """Return the scores of rows that all have one response without their test, standard errors and ranks.

        The differences of losses of such rows tell nothing about rows with another response.
        """
        self.log.warn(f"{scores.scorer} was not tested: {CONSTANT}")
        details = {name: value for name, value in scores.details.items() if name not in ("test", RANKS)}
        bare = replace(scores, standard_error=None, z=None, details=details | {NO_INTERVAL: CONSTANT})
        return replace(with_reason(bare, CONSTANT, tell_nothing=True), warnings=tuple(self.log.texts))

    def test(
        self, scores: Scores, scorer: Scorer, procedure: Procedure, *, aside: bool = False, together: bool = False
    ) -> Scores:
        """Return scores with standard errors, z-values and p-values, or with the reason why there are none.

        `aside` and `together` are those of :func:`debias.significance.procedure.significance`.
        """
        if self.rows is None:
            raise CompositionError(f"{scorer.name} uses no rows, so it cannot be tested")
        untested = why_untested(self.member) if self.rows.kind == RowsKind.OOB else None
        if untested is not None:
            return with_reason(scores, untested)
        effects = scorer.effects(self.ensemble, self.rows) if isinstance(scorer, TreeScorer) else None
        node_weight = self.node_weight(scorer) if effects is None else np.ones(self.ensemble.n_nodes)
        evidence = self.evidence(node_weight, effects)
        n_before = len(self.log.texts)
        tested = significance(scores, evidence, procedure, self.log, aside=aside, together=together)
        return unless_tested(tested, self.log.texts[n_before:])

    def contributions(self, scorer: Scorer) -> NDArray[np.float64]:
        """Return the contribution of each row to the score of each group of columns, shape (n_rows, n_groups).

        Rows of weight 0 contribute 0.
        """
        refuse_scorer(scorer, self.ensemble)
        effects = scorer.effects(self.ensemble, self.rows) if isinstance(scorer, TreeScorer) else None
        if effects is not None:
            phi = effects.contributions(self.rows.n_rows)
        else:
            phi = contributions(self.rows.paths, self.rows, self.node_weight(scorer))
        return self.rows.as_passed(self.grouping.sum_columns(phi))

    def node_weight(self, scorer: Scorer) -> NDArray[np.float64]:
        """Return the node weights of a score, shape (n_nodes,); raise a CompositionError if it has none."""
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


@dataclass(frozen=True, eq=False)
class PreparedRows(Prepared):
    """One model of trees with rows in memory; `rows` is None if there are none.

    Parameters
    ----------
    request, member, ensemble, rows, grouping, log
        As for :class:`Prepared`.
    drawn : dict
        What tests of these rows have drawn and found, so that a second test does not repeat it.
    """

    drawn: dict[tuple[str, int], Any] = field(default_factory=dict)

    @property
    def facts(self) -> FactsOfRows:
        """See :class:`Prepared`."""
        return FactsOfRows(self.request, self.member, self.rows, self.grouping, self.log)

    def evidence(self, node_weight: NDArray[np.float64], effects: LinearEffects | None = None) -> Evidence:
        """See :class:`Prepared`."""
        return EvidenceInMemory(self.rows, node_weight, self.grouping, effects, self.drawn)

    def test(
        self, scores: Scores, scorer: Scorer, procedure: Procedure, *, aside: bool = False, together: bool = False
    ) -> Scores:
        """See :class:`Prepared`; on held-out rows the details of tested scores have the ranks of the features."""
        tested = super().test(scores, scorer, procedure, aside=aside, together=together)
        if aside or tested.selected is None or self.rows.kind != RowsKind.HELD_OUT:
            return tested
        assert isinstance(scorer, TreeScorer)
        if scorer.effects(self.ensemble, self.rows) is not None:  # its score combines several sums over rows
            return tested
        weight = self.node_weight(scorer)
        ranks = ranks_of_sums(self.rows, weight, self.grouping, tested.values, procedure.alpha)
        return replace(tested, details={**tested.details, **ranks})

    def can_test_dependence(self) -> bool:
        """See :class:`Prepared`."""
        rows = self.rows
        if rows.kind != RowsKind.OOB and (rows.kind != RowsKind.HELD_OUT or rows.train is None):
            return False
        n_routed = self.ensemble.n_trees * (
            rows.n_rows if rows.kind == RowsKind.OOB else rows.n_rows + rows.train.n_rows
        )
        n_fitted = n_routed * self.ensemble.n_features
        if n_routed <= MOST_ROUTED and n_fitted > MOST_FITTED:
            self.log.warn(
                f"dependence was not tested: rows times trees times features are {n_fitted:.2g}, more than "
                f"{MOST_FITTED:.0e}, and the test may take minutes. Pass dependence=True to test it"
            )
            return False
        if n_routed <= MOST_ROUTED:
            return True
        self.log.warn(
            f"dependence was not tested: rows times trees are {n_routed:.2g}, more than {MOST_ROUTED:.0e}, and the "
            f"test would take about {BYTES_A_ROUTE * n_routed / 2**30:.0f} GB of memory. Pass dependence=True to "
            "test it, or a sample of the rows"
        )
        return False


@dataclass(frozen=True, eq=False)
class PreparedSums(Prepared):
    """One model of trees with sums over rows that came in batches. The parameters are those of :class:`Prepared`."""

    @property
    def facts(self) -> FactsOfSums:
        """See :class:`Prepared`."""
        return FactsOfSums(self.rows)

    def evidence(self, node_weight: NDArray[np.float64], effects: LinearEffects | None = None) -> Evidence:
        """See :class:`Prepared`; a test makes another pass over the rows."""
        return EvidenceInBatches(self.rows, node_weight, self.grouping)

    def can_test_dependence(self) -> bool:
        """Return False: the test needs all rows at once."""
        return False


def prepared_members(
    request: Request, scorers: Sequence[Scorer], tested: bool = False, known: bool = False
) -> Iterator[Prepared]:
    """Yield the models of trees inside the model of a request, one after another, each with its rows.

    Parameters
    ----------
    request : Request
    scorers : sequence of Scorer
        Scorers that will use the rows.
    tested : bool
        Whether scores will be tested, which needs another pass over rows that come in batches.
    known : bool
        Whether the kind of the rows is known, so that nothing has to be proven.

    Raises
    ------
    CompositionError
        A test needs another pass, and the rows can be read only once.
    DebiasError
        As for :func:`debias.score`.
    """
    for member, rows, log in request.passed.of_members(request, scorers, tested=tested, known=known):
        ensemble = member.ensemble if rows is None else rows.ensemble
        yield _prepared(rows, request, member, ensemble, member.grouping(request.groups, ensemble), log)


@singledispatch
def _prepared(
    rows: Any, request: Request, member: Member, ensemble: TreeEnsemble, grouping: Grouping, log: WarningLog
) -> Prepared:
    """Return a model with its rows in memory, or with none; the function below is for other rows."""
    if request.level is None and member.summed_columns is not None:
        log.add(member.summed_columns)
    return PreparedRows(request, member, ensemble, rows, grouping, log)


@_prepared.register(SummedRows)
def _prepared_sums(
    rows: SummedRows, request: Request, member: Member, ensemble: TreeEnsemble, grouping: Grouping, log: WarningLog
) -> Prepared:
    return PreparedSums(request, member, ensemble, rows, grouping, log)


def scores_of(
    scorer: Scorer,
    returned: tuple[NDArray[np.float64], dict[str, Any]],
    ensemble: TreeEnsemble | None,
    grouping: Grouping,
    log: WarningLog,
    seed: int | None,
    *,
    rows: EvaluationRows | None = None,
    data: Data | None = None,
) -> Scores:
    """Return the result of a scorer as scores, with the model and the rows they belong to."""
    values, details = returned
    details, fields, warnings = fields_of_scores(details)
    column = grouping.column_of
    if "p_value" in fields and column is None:
        raise CompositionError(
            f"{scorer.name} tests columns, so it cannot test sums over several columns. If they are those of groups=, "
            "pass the groups as its option together=. If transformers or the model make them of columns of X, pass "
            "level='model' to test them one by one"
        )
    if column is None:
        details = _in_order(details, grouping.only_column, values.size)
    elif not np.array_equal(column, np.arange(values.size)):
        # Columns of the trees have another order than those of X, or some columns of X are in no tree.
        details = _in_order(details, column, values.size)
        reasons = details.get(FEATURES)
        if reasons is not None and ensemble is not None:
            name_of = {name: grouping.names[k] for name, k in zip(ensemble.feature_names, grouping.index, strict=True)}
            details[FEATURES] = {name_of.get(name, name): reason for name, reason in reasons.items()}
        # A feature without a column is like a column that no tree splits on: it has p-values of 1, and else 0.
        fields = {
            name: _taken(values, column, absent=name.startswith("p_")) if np.ndim(values) else values
            for name, values in fields.items()
        }
    for text in warnings:
        log.warn(text)
    return Scores(
        values=grouping.log_of_mean(values) if details.pop(LOG_OF_MEAN, False) else grouping.sum(values),
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


def _taken(values: NDArray[Any], column: NDArray[np.int64], absent: float) -> NDArray[Any]:
    """Return values of the columns of the trees in the order of the features; `absent` for one without a column."""
    found = values[..., np.maximum(column, 0)]
    found[..., column < 0] = absent
    return found


def _in_order(details: dict[str, Any], column: NDArray[np.int64], n_columns: int) -> dict[str, Any]:
    """Return details with their lists of one number a column in the order of the features.

    A feature without a column has None, and so has a sum over several: the number of the sum is not known.
    """
    found = dict(details)
    if (column < 0).any():
        found.pop(RANKS, None)  # those of a feature without a column, or of a sum, are not known
    for name, detail in found.items():
        if isinstance(detail, dict):
            found[name] = _in_order(detail, column, n_columns)
        elif (
            isinstance(detail, (list, np.ndarray)) and np.shape(detail) == (n_columns,) and all(map(_is_number, detail))
        ):
            found[name] = [None if at < 0 else detail[at] for at in column]
    return found


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, np.number))


def fields_of_scores(reported: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
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
