"""Unwrapping of models that hold other models: pipelines, searches and voting models, down to the models of trees.

Scores are computed for the columns of the inner model, and summed over the columns that come from one column of the
user's X. Each inner column comes from one such column, so the sum is a linear map of zeros and ones. It is taken before
any null distribution or standard error is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from debias.data.groups import Grouping
from debias.errors import DebiasError, RowsError, UnsupportedModelError
from debias.models.extraction import trees_of
from debias.models.loaded import told_of

if TYPE_CHECKING:
    from debias.hooks.wrapping import Inner, Unwrapped
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

MOST_NAMED = 5
"""Largest number of members of a model that a message names."""


@dataclass(frozen=True, eq=False)
class Member:
    """A model of trees, with X, y and training rows as it sees them.

    Parameters
    ----------
    model, X, y, train
        As for :func:`debias.score`.
    weight : float
    path : tuple of str
        Kind of each model around it and its name there, the outermost first.
    columns : Grouping, or None
        The column of the user's X that each column of the model comes from; None if they are the same.
    notes : tuple of str
        Warnings about the models around it.
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
        """Return which columns of the model are summed: those that come from one group of the user's columns."""
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
    """Return the trees of a fitted model in the common form; for a wrapper around one model, the trees of that model.

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
            f"a {type(model).__name__} holds several models, and their trees are not one ensemble. Extract "
            f"{', '.join(names_of(members))} one by one"
        )
    return members[0].ensemble


def unwrap(model: Any, X: Any = None, y: Any = None, train: tuple[Any, ...] | None = None) -> list[Member]:
    """Return the models of trees inside a model; the model itself if it is not a wrapper.

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
        The wrapper is not fitted, or it combines its models or columns in a way that scores cannot follow.
    RowsError
        A transformer raises an error for X or y.
    """
    from debias.hooks.registry import plugin_manager

    unwrapped: Unwrapped | None = plugin_manager().hook.debias_unwrap(model=model)
    if unwrapped is None:
        return [Member(model, X, y, train, notes=told_of(model))]
    members = []
    for inner in unwrapped.inner:
        for member in unwrap(inner.model, *_seen_by(inner, unwrapped.kind, X, y, train)):
            columns = _traced(inner, unwrapped, member.columns)
            of_wrapper = told_of(model) if unwrapped.note is None else (*told_of(model), unwrapped.note)
            notes = (*of_wrapper, *member.notes)
            path = (unwrapped.kind, inner.name, *member.path)
            named = member.named if inner.columns is None else unwrapped.named
            weight = inner.weight * member.weight
            members.append(replace(member, weight=weight, path=path, columns=columns, notes=notes, named=named))
    return members


def is_wrapper(model: Any) -> bool:
    """Whether a model is a wrapper that an adapter can unwrap."""
    from debias.hooks.registry import plugin_manager

    return model is not None and plugin_manager().hook.debias_unwrap(model=model) is not None


def names_of(members: list[Member]) -> list[str]:
    """Return a unique name for each member of a model: its names below the shared path, the innermost first."""
    paths = [member.path[1::2] for member in members]
    n_shared = next((k for k, names in enumerate(zip(*paths, strict=False)) if len(set(names)) > 1), 0)
    names = [path[n_shared] for path in paths]
    if len(set(names)) == len(names):
        return names
    return [" of ".join(reversed(path[n_shared:])) for path in paths]


def warn_of_version(member: Member, members: list[Member], log: WarningLog) -> None:
    """Warn of a library's version that debias was not tested with; one warning for all members of that library."""
    doubt = member.ensemble.version_doubt
    if doubt is None:
        return
    first = next(each for each in members if each.ensemble.version_doubt == doubt)
    (log.warn if member is first else log.add)(doubt)


def is_one(members: list[Member]) -> bool:
    """Whether the members are one model of trees with weight 1."""
    return len(members) == 1 and members[0].weight == 1


def _seen_by(inner: Inner, kind: str, X: Any, y: Any, train: tuple[Any, ...] | None) -> tuple[Any, Any, Any]:
    def apply(function: Callable[[Any], Any] | None, data: Any, what: str) -> Any:
        if function is None or data is None:
            return data
        try:
            return function(data)
        except DebiasError:
            raise
        except Exception as error:  # any error of a transformer is about these rows
            raise RowsError(f"the {kind} cannot transform {what}: {error}") from error

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
    """Return why the scores of a wrapper are not tested, and what to do."""
    kind, names = members[0].path[0], names_of(members)
    if len(members) == 1:
        return (
            f"the scores of this {kind} are the scores of the one model inside, times a weight. Audit that model "
            f"({names[0]}) by itself"
        )
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"the scores of this {kind} combine the scores of {len(members)} models, and the standard error of the "
        f"combination is not known. Audit these models one by one ({', '.join(names[:MOST_NAMED])}{more})"
    )


def require_one_scale(members: list[Member]) -> None:
    """Refuse to add scores of members whose outputs are not on one scale.

    Raises
    ------
    UnsupportedModelError
        The outputs are on different scales: probabilities and margins, for example.
    """
    scales = {
        "the response"
        if not ensemble.is_classifier and (ensemble.averaged or ensemble.objective.name == "squared_error")
        else (ensemble.averaged, ensemble.objective)
        for ensemble in (member.ensemble for member in members)
    }
    if len(scales) > 1:
        raise UnsupportedModelError(
            f"the members of this {members[0].path[0]} have outputs on different scales (probabilities and margins), "
            f"so their scores cannot be added. Score them one by one: {', '.join(names_of(members))}."
        )
