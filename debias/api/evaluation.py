"""One scorer applied to rows that are prepared: what it says becomes Scores, tested if asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.dataset import Data
from debias.errors import CompositionError, RowsError, UnsupportedModelError
from debias.models.wrappers import names_of
from debias.results.scores import Scores
from debias.results.untested import unless_tested
from debias.rows.rows import Rows
from debias.significance.verdict import significance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.retraining.experiment import Experiment
    from debias.significance.procedure import Procedure
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import Notes


def scored(
    scorer: Scorer,
    ensemble: TreeEnsemble | None,
    rows: Rows | Data | None,
    grouping: Grouping,
    notes: Notes,
    seed: int | None,
) -> Scores:
    """Score rows, or data, and say with what."""
    from debias._version import __version__

    data = rows.data if isinstance(rows, Rows) and "data-only" in scorer.needs else rows
    values, found = scorer.score(None if isinstance(data, Data) else ensemble, data)
    details, fields, warned = decided(found)
    for text in warned:
        notes.warn(text)
    proven = rows if isinstance(rows, Rows) and "rows" in scorer.needs else None
    return Scores(
        values=grouping.sum(values),
        feature_names=grouping.names,
        scorer=scorer.name,
        unit=scorer.unit,
        rows="data" if isinstance(data, Data) else None if proven is None else proven.kind,
        n_rows=data.n_rows if isinstance(data, Data) else None if proven is None else proven.n_evaluated,
        provenance={} if proven is None else proven.provenance.to_dict(),
        details=details,
        warnings=tuple(notes.texts),
        settings={
            "model": None if ensemble is None else ensemble.source,
            "library_version": None if ensemble is None else ensemble.version,
            "n_trees": None if ensemble is None else ensemble.n_trees,
            "debias_version": __version__,
            "seed": whole_seed(seed),
        },
        **fields,
    )


def tested(
    scores: Scores, scorer: Scorer, rows: Rows | None, grouping: Grouping, test: Procedure, notes: Notes
) -> Scores:
    """Return scores with standard errors, z and p-values, or with the reason why there are none."""
    if rows is None:
        raise CompositionError(f"{scorer.name} looks at no rows, so it cannot be tested")
    known = len(notes.texts)
    found = significance(scores, rows, node_weight_of(scorer, rows.ensemble, rows), grouping, test, notes)
    return unless_tested(found, notes.texts[known:])


def node_weight_of(scorer: Scorer, ensemble: TreeEnsemble, rows: Rows) -> NDArray[np.float64]:
    """Return what a scorer multiplies the covariance of each node with; raise if it is no sum over rows."""
    function = getattr(scorer, "node_weight", None)
    weight: NDArray[np.float64] | None = None if function is None else function(ensemble, rows)
    if weight is None:
        raise CompositionError(
            f"{scorer.name} has no contributions of rows, and so no standard errors: it is no weighted sum of centred "
            "covariances. mdi_oob is, also with shrinkage= or, of a model that stores in-bag counts, weights='in_bag'"
        )
    return weight


def whole_seed(seed: Any) -> int | None:
    """Return a seed as a number; raise a RowsError if it is none."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise RowsError(f"seed={seed!r} is no seed: pass a whole number, 0 or more")
    return int(seed)


def decided(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Part what a scorer reports: details, fields of :class:`Scores`, and warnings."""
    details, fields = dict(found), dict[str, Any]()
    warned = details.pop("warnings", [])
    for name in ("p_value", "p_adjusted", "null"):
        if name in details:
            fields[name] = np.asarray(details.pop(name), dtype=np.float64)
    if "selected" in details:
        fields["selected"] = np.asarray(details.pop("selected"), dtype=bool)
    if "threshold" in details:
        fields["threshold"] = details.pop("threshold")
    return details, fields, warned


def refitted(scorer: Scorer, experiment: Experiment, observed: Scores) -> Scores:
    """Score an experiment; `observed` are the scores of the model as it is, with what is known of the rows."""
    from debias.warning_log import Notes

    values, found = scorer.score(None, experiment)
    details, fields, warned = decided(found)
    notes = Notes(observed.warnings)
    for text in warned:
        notes.warn(text)
    return replace(
        observed,
        **{"values": values, "scorer": scorer.name, "unit": scorer.unit, "details": details, **fields},
        warnings=tuple(notes.texts),
    )


def require_one_scale(members: list[Member], ensembles: list[TreeEnsemble]) -> None:
    """Refuse to add scores of members whose outputs are not on one scale.

    Raises
    ------
    UnsupportedModelError
        Some members give probabilities and others margins, say.
    """
    scales = {
        "the response"
        if not each.is_classifier and (each.averaged or each.objective.name == "squared_error")
        else (each.averaged, each.objective)
        for each in ensembles
    }
    if len(scales) > 1:
        raise UnsupportedModelError(
            f"the members of this {members[0].path[0]} give outputs on different scales (probabilities and margins): "
            f"their scores do not add. Score them one by one: {', '.join(names_of(members))}."
        )


def combined(members: list[Member], scores: list[Scores], ensembles: list[TreeEnsemble]) -> Scores:
    """Return the weighted sum of the members' scores, which for covariances is the score of the weighted sum.

    Parameters
    ----------
    members : list of Member
    scores : list of Scores
        One a member, all for the same columns.
    ensembles : list of TreeEnsemble
        One a member, as extracted. Not read of a single member.

    Returns
    -------
    Scores
    """
    first = scores[0]
    if len(scores) == 1:
        return replace(first, values=members[0].weight * first.values) if members[0].weight != 1 else first
    names = first.feature_names
    numbered = all(map(_made_up, members, scores, ensembles))
    if numbered and len({len(each.feature_names) for each in scores}) == 1:
        names = tuple(f"x{k}" for k in range(len(names)))  # each library numbers the columns of an array in its own way
    elif any(each.feature_names != names for each in scores):
        raise UnsupportedModelError(f"the members of this {members[0].path[0]} have different columns")
    if len({each.rows for each in scores}) > 1:
        raise CompositionError(
            f"the rows are out-of-bag rows to some members of this {members[0].path[0]} and not to others: "
            + ", ".join(f"{name}: {each.rows}" for name, each in zip(names_of(members), scores, strict=True))
            + ". Pass rows no member has seen, with rows='held-out'."
        )
    weighted = [member.weight * each.values for member, each in zip(members, scores, strict=True)]
    return replace(
        first,
        values=np.sum(weighted, axis=0),
        feature_names=names,
        provenance=_known_to_all([each.provenance for each in scores]),
        details={
            "members": names_of(members),
            "weights": [member.weight for member in members],
            "scores": [each.values.tolist() for each in scores],
            **{name: first.details[name] for name in ("untested_because",) if name in first.details},
        },
        warnings=tuple(dict.fromkeys(note for each in scores for note in each.warnings)),
        settings={
            **first.settings,
            "model": f"{members[0].path[0]} of {len(members)} models",
            "n_trees": sum(each.settings["n_trees"] for each in scores),
        },
    )


def _known_to_all(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the member says of the rows that knows least of them, and the largest shift."""
    from debias.results.policy import PROVENANCE

    order = [status for level in PROVENANCE.values() for status in level]
    weakest = min(found, key=lambda each: order.index(each["status"]) if each.get("status") in order else -1)
    if "shift" not in weakest:
        return weakest
    shifts = [each["shift"] for each in found]
    names = dict.fromkeys(name for each in found for name in each["shifted_features"])
    return {**weakest, "shift": None if None in shifts else max(shifts), "shifted_features": list(names)}


def _made_up(member: Member, scores: Scores, ensemble: TreeEnsemble) -> bool:
    """Whether scores have the names that a library gave to the columns of an array."""
    if member.columns is not None:
        return not member.named and scores.feature_names == member.columns.names
    return not ensemble.named and scores.feature_names == ensemble.feature_names
