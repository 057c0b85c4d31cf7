"""Models around models: pipelines, searches, votes are taken off until the trees are reached.

Scores are formed for the inner model's columns and summed in the user's before any null or standard error: each inner
column comes from one column of the user's, so the sum is a linear map of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.data.groups import Grouping
from debias.errors import CompositionError, DebiasError, RowsError, UnsupportedModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.scores import Scores
    from debias.trees.ensemble import TreeEnsemble


@dataclass(frozen=True, eq=False)
class Inner:
    """A model inside another.

    Parameters
    ----------
    model : object
    name : str
        Where it is, for messages: ``"step 'forest'"``.
    weight : float
        Its factor in the outer model's output.
    transform : callable, optional
        What the outer model does to X before this one sees it; nothing by default.
    response : callable, optional
        What it does to y.
    columns : array of int64, or None
        Which of the outer model's columns each of this one's comes from; None if they are the same.
    """

    model: Any
    name: str
    weight: float = 1.0
    transform: Callable[[Any], Any] | None = None
    response: Callable[[Any], Any] | None = None
    columns: NDArray[np.int64] | None = None


class Again(NamedTuple):
    """What a wrapper is trained again with.

    ``train(model, X, y, number)`` trains the models inside, each with a number of its own.
    """

    X: Any
    y: Any
    sample_weight: NDArray[np.float64] | None
    seed: int | None
    n_jobs: int | None
    train: Callable[[Any, Any, Any, int], Any]


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """What an adapter's ``debias_unwrap`` returns: the models inside, and what the outer one knows of its columns.

    Parameters
    ----------
    kind : str
        What the outer model is, for messages.
    inner : tuple of Inner
        One or several; the outer output is the sum of theirs times their weights.
    feature_names : tuple of str, or None
        The outer model's columns; needed where an `Inner` has `columns`.
    note : str, or None
        What a reader of the scores must know.
    rewrap : callable, or None
        Makes an outer model around inner ones that are trained again; None if that cannot be.
    """

    kind: str
    inner: tuple[Inner, ...]
    feature_names: tuple[str, ...] | None = None
    note: str | None = None
    rewrap: Callable[[Again], Any] | None = None


@dataclass(frozen=True, eq=False)
class Member:
    """A model of trees, with X, y and training rows as it sees them.

    Parameters
    ----------
    model, X, y, train
        As for :func:`debias.score`.
    weight : float
    path : tuple of str
        Names of the models it was found in, the outermost first.
    columns : Grouping, or None
        The user's column each of the model's comes from; None if they are the same.
    notes : tuple of str
    """

    model: Any
    X: Any = None
    y: Any = None
    train: tuple[Any, ...] | None = None
    weight: float = 1.0
    path: tuple[str, ...] = ()
    columns: Grouping | None = None
    notes: tuple[str, ...] = ()

    def grouping(self, groups: Any, ensemble: TreeEnsemble) -> Grouping:
        """Return which of the model's columns are summed: those of one group of the user's columns."""
        groups = None if isinstance(groups, str) and groups == "auto" else groups  # the user's columns are the default
        if self.columns is None:
            return Grouping.of(groups, ensemble.feature_names)
        if self.columns.index.size != ensemble.n_features:
            raise UnsupportedModelError(
                f"{' > '.join(self.path)}: {self.columns.index.size} columns come out of the transformers, but the "
                f"model was trained on {ensemble.n_features}"
            )
        return Grouping.of(groups, self.columns.names).after(self.columns)


def unwrap(model: Any, X: Any = None, y: Any = None, train: tuple[Any, ...] | None = None) -> list[Member]:
    """Return the models of trees inside a model; itself, if it is no wrapper.

    Parameters
    ----------
    model, X, y, train
        As for :func:`debias.score`; X, y and train may be None.

    Returns
    -------
    list of Member

    Raises
    ------
    UnsupportedModelError
        The wrapper is not fitted, or combines its models or columns in a way scores cannot follow.
    RowsError
        A transformer does not take X, or y.
    """
    from debias.hooks.registry import plugin_manager

    found: Unwrapped | None = plugin_manager().hook.debias_unwrap(model=model)
    if found is None:
        return [Member(model, X, y, train)]
    members = []
    for inner in found.inner:
        for member in unwrap(inner.model, *_seen_by(inner, found.kind, X, y, train)):
            columns = _traced(inner, found, member.columns)
            notes = member.notes if found.note is None else (found.note, *member.notes)
            path = (found.kind, inner.name, *member.path)
            members.append(
                replace(member, weight=inner.weight * member.weight, path=path, columns=columns, notes=notes)
            )
    return members


def is_wrapper(model: Any) -> bool:
    """Whether a model is a wrapper that can be taken off."""
    from debias.hooks.registry import plugin_manager

    return model is not None and plugin_manager().hook.debias_unwrap(model=model) is not None


def names_of(members: list[Member]) -> list[str]:
    """Return what tells the members of a model apart: the names from where their ways part, the innermost first."""
    ways = [member.path[1::2] for member in members]
    shared = next((k for k, names in enumerate(zip(*ways, strict=False)) if len(set(names)) > 1), 0)
    names = [way[shared] for way in ways]
    if len(set(names)) == len(names):
        return names
    return [" of ".join(reversed(way[shared:])) for way in ways]


def is_one(members: list[Member]) -> bool:
    """Whether scores are those of one model of trees, unscaled."""
    return len(members) == 1 and members[0].weight == 1


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


def combined(members: list[Member], scores: list[Scores]) -> Scores:
    """Return the weighted sum of the members' scores, which for covariances is the score of the weighted sum.

    Parameters
    ----------
    members : list of Member
    scores : list of Scores
        One a member, all for the same columns.

    Returns
    -------
    Scores
    """
    first = scores[0]
    if len(scores) == 1:
        return replace(first, values=members[0].weight * first.values) if members[0].weight != 1 else first
    names = first.feature_names
    if all(_made_up(each.feature_names) for each in scores) and len({len(each.feature_names) for each in scores}) == 1:
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


def _made_up(names: tuple[str, ...]) -> bool:
    """Whether names are those a library gives the columns of an array."""
    return any(all(name == f"{stem}{k}" for k, name in enumerate(names)) for stem in ("x", "f", "Column_"))


def _seen_by(inner: Inner, kind: str, X: Any, y: Any, train: tuple[Any, ...] | None) -> tuple[Any, Any, Any]:
    def apply(function: Callable[[Any], Any] | None, data: Any, what: str) -> Any:
        if function is None or data is None:
            return data
        try:
            return function(data)
        except DebiasError:
            raise
        except Exception as error:  # whatever a transformer raises is about these rows
            raise RowsError(f"the {kind} does not take {what}: {error}") from error

    seen = apply(inner.transform, X, "X"), apply(inner.response, y, "y")
    if isinstance(train, (tuple, list)) and len(train) in (2, 3):
        train = (apply(inner.transform, train[0], "train"), apply(inner.response, train[1], "train"), *train[2:])
    return *seen, train


def _traced(inner: Inner, outer: Unwrapped, deeper: Grouping | None) -> Grouping | None:
    """Return the outer column of each innermost one."""
    if inner.columns is None:
        return deeper
    assert outer.feature_names is not None
    index = inner.columns if deeper is None else inner.columns[deeper.index]
    return Grouping(outer.feature_names, index)
