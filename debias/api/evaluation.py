"""The pipeline behind every public function: unwrap a model, prepare its rows, score, test, and combine the members."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.members import joint_evidence, with_joint_test
from debias.api.prepared import Prepared, fields_of_scores, prepared_members, scores_of
from debias.data.groups import Grouping
from debias.data.table import names_of_columns
from debias.errors import CompositionError, RowsError, UnsupportedModelError, with_article
from debias.hooks.contracts import DataScorer, TreeScorer, innermost
from debias.hooks.registry import scorers as offered_scorers
from debias.hooks.scorers import values_and_details
from debias.models.wrappers import is_one, is_wrapper, members_in_words, names_of
from debias.results.policy import PROVENANCE
from debias.results.scores import Scores
from debias.results.vocabulary import NO_INTERVAL
from debias.retraining.experiment import Experiment
from debias.rows.leaf_lines import refuse_scorer
from debias.rows.preparation import prepare_data
from debias.text import spelled_alike
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from debias.hooks.contracts import RefitScorer, Scorer
    from debias.models.wrappers import Member
    from debias.parallel import Engine
    from debias.rows.request import Request
    from debias.significance.procedure import Procedure


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
    returned = values_and_details(scorer, scorer.score(data), data)
    return scores_of(scorer, returned, ensemble, grouping, WarningLog(), request.seed, data=data)


def score_refits(request: Request, scorer: RefitScorer, engine: Engine) -> Scores:
    """Score with a meta-method, which refits the model."""
    for member in request.members:
        refuse_scorer(scorer, member.ensemble)
    observed = score_trees(replace(request, params=None), innermost(scorer))
    experiment = Experiment.of(request, observed, engine)
    values, details = values_and_details(scorer, scorer.score(experiment), experiment)
    details, fields, warnings = fields_of_scores(details)
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
    together = None if is_one(request.members) else procedure
    scores, all_prepared = list[Scores](), list[Prepared]()
    for prepared in prepared_members(request, [scorer], tested=procedure is not None):
        of_member = prepared.score(scorer)
        if together is not None:
            all_prepared.append(prepared)
        elif procedure is not None:
            of_member = prepared.test(of_member, scorer, procedure)
        scores.append(of_member)
    found = combined(request.members, scores)
    if together is None:
        return found
    evidence = joint_evidence(all_prepared, found, scorer)
    if isinstance(evidence, str):
        raise CompositionError(f"{evidence}, or leave test out")
    return with_joint_test(found, evidence, together, rest=False)


OF_ALL_MEMBERS = ("untested_because", "rows_tell_nothing")
"""Details that say why scores have no test: the members have the same rows, so these hold for their sum."""


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
        return _scaled(members, first)
    names = shared_names(members, [part.feature_names for part in scores])
    if len({part.rows for part in scores}) > 1:
        raise CompositionError(
            f"the rows are out-of-bag rows for some members of this {members[0].path[0]} and not for others: "
            + ", ".join(f"{name}: {part.rows}" for name, part in zip(names_of(members), scores, strict=True))
            + ". Pass rows no member has seen, with rows='held-out'."
        )
    # Scores with a test by rows are means of the losses of one model, also where the rows cannot be tested.
    if any(part.p_value is not None or NO_INTERVAL in part.details for part in scores):
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
            **{name: first.details[name] for name in OF_ALL_MEMBERS if name in first.details},
        },
        warnings=tuple(dict.fromkeys(text for part in scores for text in part.warnings)),
        settings={
            **first.settings,
            "model": f"{members[0].path[0]} of {len(members)} models",
            "n_trees": sum(part.settings["n_trees"] for part in scores),
        },
    )


def _scaled(members: list[Member], scores: Scores) -> Scores:
    """Return the scores of the only member times its weight, with their standard errors, which may be a detail."""
    weight = members[0].weight
    if weight == 1:
        return scores
    if weight < 0 and scores.p_value is not None:  # they are one-sided, and the scores change their sign
        raise CompositionError(f"{members_in_words(members)}, with {scores.scorer}")
    error, detail = scores.standard_error, scores.details.get("standard_error")
    details = scores.details
    if detail is not None:
        details = {**details, "standard_error": [None if each is None else abs(weight) * each for each in detail]}
    scaled = None if error is None else abs(weight) * error
    return replace(scores, values=weight * scores.values, standard_error=scaled, details=details)


def shared_names(members: list[Member], found: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names of the features that all members of a model have.

    Parameters
    ----------
    members : list of Member
    found : list of tuple of str
        Names of the features of each member.

    Raises
    ------
    UnsupportedModelError
        The members have different features, so that numbers of one cannot be added to those of another.
    """
    # Of rows without names, LightGBM has its own spelling.
    names = next(
        (each for each, member in zip(found, members, strict=True) if member.ensemble.spaces_in_names), found[0]
    )
    if len(members) > 1 and all(map(_made_up, members, found)) and len(set(map(len, found))) == 1:
        return tuple(f"x{k}" for k in range(len(names)))  # each library numbers the columns of an array in its own way
    if not all(spelled_alike(names, others) for others in found):
        raise UnsupportedModelError(f"the members of this {members[0].path[0]} have different columns")
    return names


def _made_up(member: Member, names: tuple[str, ...]) -> bool:
    """Whether names are those that a library gave to the columns of an array, one a column, in their order.

    Sums over several columns, such as "x0 + x1", are behind the other features, and those have other positions then.
    """
    if member.columns is not None:
        return not member.named and names == member.columns.names == member.sources
    return member.feature_names is None and not member.ensemble.named and names == member.ensemble.feature_names


def _n_rows(members: list[Member], scores: list[Scores]) -> int | None:
    """Return the number of rows of the user on which the members together are scored."""
    of_folds = [member.positions for member in members if member.positions is not None]
    if len(of_folds) == len(members):
        return int(np.unique(np.concatenate(of_folds)).size)
    # Out of bag each member has rows of its own: at least as many as the most of a member are scored together.
    known = [part.n_rows for member, part in zip(members, scores, strict=True) if member.positions is None]
    return None if None in known else max(n for n in known if n is not None)


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


def refuse_what_is_no_list(scorers: Any, example: str) -> None:
    """Refuse scorers that are not a list, such as a text, or a response that was passed in their place.

    Parameters
    ----------
    scorers : object
    example : str
        How to write a list with one name, with "{!r}" in place of the name.
    """
    if scorers is None or isinstance(scorers, (list, tuple)):
        return
    if isinstance(scorers, str):
        raise CompositionError(f"scorers must be a list: pass {example.format(scorers)}")
    raise CompositionError(
        f"scorers must be a list of names, and this is {with_article(type(scorers).__name__)}: what follows y must "
        "have a name, such as train=(X_train, y_train) or random_state=0"
    )


def refuse_features(scorers: Any, X: Any) -> None:
    """Refuse names of columns of X where names of scorers belong."""
    columns = names_of_columns(X) or ()
    for name in scorers if isinstance(scorers, (list, tuple)) else ():
        if isinstance(name, str) and name in columns and name not in offered_scorers():
            raise CompositionError(
                f"{name!r} is a column of X, not a scorer. Leave it out: all features are scored, and "
                f"to_frame().loc[[{name!r}]] is the row of this one"
            )
