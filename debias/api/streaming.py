"""Scores of rows that are not all in memory at once: batches are summed at the nodes, and forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.api.evaluation import combined, node_weight_of, require_one_scale, scored
from debias.api.streamed_passes import AGAIN, Stream
from debias.data.sources import source_of
from debias.errors import CompositionError, RowsError
from debias.models.extraction import extract
from debias.models.wrappers import is_one, is_wrapper, members_in_words, unwrap
from debias.results.untested import unless_tested
from debias.rows.provenance import check_kind
from debias.rows.streamed_sums import NodeSums
from debias.significance.streamed import streamed_significance
from debias.trees.fingerprint import trees_sha256
from debias.warning_log import NotesOnce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.results.scores import Scores
    from debias.significance.verdict import Procedure
    from debias.trees.ensemble import TreeEnsemble


def streamed_scores(
    model: Any,
    X: Any,
    y: Any,
    scorer: Scorer,
    *,
    rows: str,
    train: tuple[Any, ...] | None,
    sample_weight: Any,
    groups: Mapping[str, Any] | None,
    test: Procedure | None,
    seed: int | None,
    n_jobs: int,
) -> Scores:
    """Score rows that come in batches, or node sums.

    Parameters
    ----------
    model, rows, train, groups, seed
        As for :func:`debias.score`.
    X : source or NodeSums
        See :mod:`debias.data.sources`.
    y, sample_weight : str or None
        Columns of a file or dataset.
    scorer : Scorer
        That looks at a model and is no meta-method.
    test : Procedure or None
    n_jobs : int

    Raises
    ------
    CompositionError
        The scorer or the test needs all rows at once.
    DebiasError
        As for :func:`debias.score`.
    """
    check_kind(rows)
    members = unwrap(model, train=train)
    ensembles = [extract(member.model) for member in members]
    if len(members) > 1:
        require_one_scale(members, ensembles)
    if test is not None and not is_one(members):
        raise CompositionError(f"{members_in_words(members)}, or leave se out")
    streams = []
    for number, (member, ensemble) in enumerate(zip(members, ensembles, strict=True)):
        notes, source = NotesOnce((*member.notes, *ensemble.notes)), None
        if isinstance(X, NodeSums):
            _refuse_other_sums(X, y, sample_weight, members, ensemble, rows)
        else:
            wanted = ensemble.feature_names if ensemble.named and not is_wrapper(model) else None
            source = source_of(X, y, sample_weight, wanted, notes)
        sums = X if isinstance(X, NodeSums) else None
        streams.append(Stream(source, sums, member, number, model, notes, n_jobs, seed))
    if streams[0].once and len(members) > 1:
        raise RowsError(
            f"a {members[0].path[0]} of {len(members)} models takes a pass over the rows for each of them: {AGAIN}"
        )
    if streams[0].once and test is not None:
        raise CompositionError(f"standard errors take a second pass over the rows: leave se out. Else, {AGAIN}")
    scores = []
    for stream, ensemble in zip(streams, ensembles, strict=True):
        given = stream.rows(ensemble, scorer, rows, stream.member.train)
        grouping = stream.member.grouping(groups, given.ensemble)
        found = scored(scorer, given.ensemble, given, grouping, stream.notes, seed)
        if test is not None:
            weight = node_weight_of(scorer, given.ensemble, given)
            fold, n, known = stream.fold(given), stream.n_independent(given), len(stream.notes.texts)
            found = streamed_significance(found, given, n, weight, grouping, test, stream.notes, fold)
            found = unless_tested(found, stream.notes.texts[known:])
        scores.append(found)
    return combined(members, scores)


def _refuse_other_sums(
    sums: NodeSums, y: Any, sample_weight: Any, members: list[Member], ensemble: TreeEnsemble, rows: str
) -> None:
    """Raise a RowsError if node sums are not those of a model, or if more is asked of them than they hold."""
    if y is not None or sample_weight is not None:
        raise RowsError("node sums hold the responses and weights of their rows: leave y and sample_weight out")
    if rows == "oob":
        raise RowsError("node sums are over rows the model has not seen: rows='oob' needs the rows themselves")
    if len(members) > 1:
        raise RowsError(f"this {members[0].path[0]} holds several models: make and score node sums of each")
    if sums.trees_sha256 != trees_sha256(ensemble):  # also of a model that was trained again since
        raise RowsError("these node sums are those of another model, or of this one before it was trained again")
