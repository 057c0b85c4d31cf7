"""Models around models: pipelines, searches, votes are taken off until the trees are reached.

Scores are formed for the inner model's columns and summed in the user's before any null or standard error: each inner
column comes from one column of the user's, so the sum is a linear map of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from debias.data.groups import Grouping
from debias.errors import DebiasError, RowsError, UnsupportedModelError
from debias.models.extraction import trees_of

if TYPE_CHECKING:
    from debias.hooks.wrapping import Inner, Unwrapped
    from debias.trees.ensemble import TreeEnsemble

MOST_NAMED = 5
"""At most so many members of a model are named."""


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
    named : bool
        False if the names of `columns` were made up.
    """

    model: Any
    X: Any = None
    y: Any = None
    train: tuple[Any, ...] | None = None
    weight: float = 1.0
    path: tuple[str, ...] = ()
    columns: Grouping | None = None
    notes: tuple[str, ...] = ()
    named: bool = True

    @cached_property
    def ensemble(self) -> TreeEnsemble:
        """The trees of the model; raises an UnsupportedModelError if no adapter recognises it."""
        return trees_of(self.model)

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


def extract(model: Any) -> TreeEnsemble:
    """Return the trees of a fitted model in the common form, those inside a wrapper if it holds one model.

    Parameters
    ----------
    model : estimator or Booster

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        No adapter recognises the model, or it cannot be audited.
    """
    members = unwrap(model)
    if len(members) > 1:
        raise UnsupportedModelError(
            f"a {type(model).__name__} holds several models, whose trees are not one ensemble: extract "
            f"{', '.join(names_of(members))} one by one"
        )
    return members[0].ensemble


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
            named = member.named if inner.columns is None else found.named
            weight = inner.weight * member.weight
            members.append(replace(member, weight=weight, path=path, columns=columns, notes=notes, named=named))
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


def members_in_words(members: list[Member]) -> str:
    """Return why scores of a model made of others are not tested, and what to do."""
    kind, names = members[0].path[0], names_of(members)
    if len(members) == 1:
        return (
            f"the scores of this {kind} are those of the one model inside, times a weight. Audit that model "
            f"({names[0]}) by itself"
        )
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"the scores of this {kind} combine those of {len(members)} models, whose common standard error is not known. "
        f"Audit these models one by one ({', '.join(names[:MOST_NAMED])}{rest})"
    )


def require_one_scale(members: list[Member]) -> None:
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
        for each in (member.ensemble for member in members)
    }
    if len(scales) > 1:
        raise UnsupportedModelError(
            f"the members of this {members[0].path[0]} give outputs on different scales (probabilities and margins): "
            f"their scores do not add. Score them one by one: {', '.join(names_of(members))}."
        )
