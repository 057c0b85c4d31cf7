"""Unwrapping of models that hold other models: pipelines, searches and voting models, down to the models of trees.

Scores are computed for the columns of the inner model. At the level of the user's columns ("source") they are summed
over the columns that come from one column of the user's X, or from the same several columns: each inner column is in
one such group, so the sum is a linear map of zeros and ones. It is taken before any null distribution or standard error
is computed. At the level of the model ("model") nothing is summed.

Over 500 lines: every kind of outer model ends in the same members, whose columns and notes are described here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from debias.data.chosen_rows import rows_of
from debias.data.groups import Grouping
from debias.data.table import OF_DICTIONARIES, OF_NAMES, names_of_columns, numbered_columns
from debias.data.user_columns import copied
from debias.errors import DebiasError, PluginError, ProvenanceError, RowsError, UnsupportedModelError, with_article
from debias.hooks.wrapping import Unwrapped
from debias.models.extraction import trees_of
from debias.results.vocabulary import RowsKind
from debias.text import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.hooks.wrapping import Inner, Labels, Predictions, Supervised
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

MOST_NAMED = 5
"""Largest number of members of a model that a message names, and of columns of X in the name of a group of them."""
MANY = 20
"""From this number of columns that come from one column of X, a note offers the level of the model."""


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
    layers : tuple of Layer
        The models around it that make its columns of others, the outermost first.
    sources : tuple of str
        Columns of the user's X, if there are layers.
    notes : tuple of str
        Warnings about the models around it.
    named : bool
        False if the names in `sources` were made up.
    resampled : str, or None
        Why the rows that the model was grown on are not rows of X.
    feature_names : tuple of str, or None
        Names of the columns of the model, for a model that stores none.
    training_order, tuned_on_unseen, predicts, reweights
        As in :class:`debias.hooks.wrapping.Inner`.
    positions : array of int64, or None
        Positions of the rows among those of the user, if they are only the training rows that the model has not seen.
    asked_for_y : tuple of callable
        What tells whether steps of the models around it have seen y, see `supervised`.
    whole : Predictions or None
        How the outermost model around it predicts.
    n_links : int
        Number of models around it whose weighted sums are margins, of which they compute their predictions.
    notes_of_margin : tuple of str
        Warnings about the models around it that hold if its output is a margin.
    """

    model: Any
    X: Any = None
    y: Any = None
    train: tuple[Any, ...] | None = None
    weight: float = 1.0
    path: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    named: bool = True
    resampled: str | None = None
    feature_names: tuple[str, ...] | None = None
    training_order: Callable[[Any], NDArray[np.int64]] | None = None
    tuned_on_unseen: str | None = None
    predicts: Callable[[Any], NDArray[np.float64]] | None = None
    reweights: bool = False
    positions: NDArray[np.int64] | None = None
    asked_for_y: tuple[Callable[[], Supervised | None], ...] = ()
    whole: Predictions | None = None
    n_links: int = 0
    notes_of_margin: tuple[str, ...] = ()

    @property
    def has_plain_columns(self) -> bool:
        """Whether each column of the trees is one column of X.

        A column that is made of several uses them all. What the steps of a pipeline make a column of may have been
        tried on these rows, and be otherwise on others.
        """
        if self.layers:
            return False
        known = set(self.ensemble.feature_names)
        parts = (name.split(" + ") for name in known if " + " in name)  # as the adapter of CatBoost names combinations
        return not any(known.issuperset(each) for each in parts)

    @property
    def told(self) -> tuple[str, ...]:
        """The warnings about the models around it, for readers of its scores."""
        ensemble = self.ensemble
        is_share = ensemble.averaged and ensemble.objective.name == "squared_error"
        return self.notes if is_share else (*self.notes, *self.notes_of_margin)

    @cached_property
    def supervised(self) -> tuple[Supervised, ...]:
        """What steps of the models around it have seen of y, the outermost first. Steps may be tried to find out."""
        return tuple(found for found in (ask() for ask in self.asked_for_y) if found is not None)

    @cached_property
    def ensemble(self) -> TreeEnsemble:
        """The trees of the model; raises an UnsupportedModelError if no adapter recognises it."""
        ensemble = trees_of(self.model)
        if self.layers:
            return ensemble
        if ensemble.named:
            return ensemble.named_as_in(names_of_columns(self.X) or ())
        return ensemble if self.feature_names is None else ensemble.renamed(self.feature_names)

    @cached_property
    def columns(self) -> Grouping | None:
        """The user's columns that each column of the model comes from; None if they are the same, or not asked for.

        A group of several columns of X, from which a transformer computes one, is named like "a + b".

        Raises
        ------
        UnsupportedModelError
            The columns of the model cannot be traced back to those of X.
        """
        return _grouping_by_source(self) if self.layers else None

    def with_sources(self, ensemble: TreeEnsemble) -> TreeEnsemble:
        """Return the trees with the user's columns that their features are made of, so that messages name these."""
        if self.columns is None or self.columns.index.size != ensemble.n_features:
            return ensemble
        return ensemble.with_sources(tuple(self.columns.names[group] for group in self.columns.index))

    def at(self, level: str, feature_names: tuple[str, ...] | None) -> Member:
        """Return the member with the columns that its scores are for.

        Parameters
        ----------
        level : {"source", "model"}
            The columns of the user's X, or those that the trees see.
        feature_names : tuple of str, or None
            Names of the columns of X, for an X and a model without names.

        Raises
        ------
        RowsError
            `feature_names` do not fit.
        """
        is_transformed = bool(self.layers)
        member = replace(self, layers=()) if level == "model" else self
        if feature_names is None:
            return member if is_transformed else replace(member, feature_names=None)
        if is_transformed and level == "model":
            raise RowsError(
                "feature_names are names of the columns of X, and with level='model' the scores are for the columns "
                "that the transformers make. Leave feature_names out, or pass level='source'"
            )
        known = self.sources if is_transformed else self.ensemble.feature_names
        if len(feature_names) != len(known):
            raise RowsError(f"feature_names has {len(feature_names)} names, but the model takes {len(known)} columns")
        if (self.named if is_transformed else self.ensemble.named) and feature_names != known:
            raise RowsError(
                f"the model was trained on columns with names ({known[0]}, ...), and feature_names has others "
                f"({feature_names[0]}, ...). Leave feature_names out"
            )
        if is_transformed:
            return replace(member, sources=feature_names)
        return replace(member, feature_names=feature_names)

    @property
    def summed_columns(self) -> str | None:
        """A note if the many columns that come from one column of X are one row of scores."""
        if self.columns is None:
            return None
        counts = np.bincount(self.columns.index, minlength=len(self.columns.names))
        most = int(counts.argmax())
        if counts[most] < MANY:
            return None
        return (
            f"the {counts[most]} columns that the transformers make of {self.columns.names[most]!r} are one row: their "
            "scores are summed. debias.audit(..., level='model') shows them one by one"
        )

    def grouping(self, groups: Any, ensemble: TreeEnsemble) -> Grouping:
        """Return which columns of the model are summed: those that come from one group of the user's columns."""
        groups = None if isinstance(groups, str) and groups == "auto" else groups  # the user's columns are the default
        if self.columns is None:
            return Grouping.of(groups, self.feature_names or ensemble.feature_names)
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
            f"{with_article(type(model).__name__)} holds several models, and their trees are not one ensemble. Extract "
            f"{', '.join(names_of(members))} one by one"
        )
    return members[0].ensemble


def unwrap(
    model: Any, X: Any = None, y: Any = None, train: tuple[Any, ...] | None = None, rows: str = "held-out"
) -> list[Member]:
    """Return the models of trees inside a model; the model itself if it is not a wrapper.

    Parameters
    ----------
    model, X, y, train, rows
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
    ProvenanceError
        `rows` is "oob", each model inside has its own unseen rows, and these are not the training rows.
    """
    from debias.hooks.registry import plugin_manager

    unwrapped: Unwrapped | None = plugin_manager().hook.debias_unwrap(model=model)
    if unwrapped is None:
        return [Member(model, X, y, train, notes=_load_notes(model))]
    if not isinstance(unwrapped, Unwrapped):
        raise PluginError(
            f"debias_unwrap returned {with_article(type(unwrapped).__name__)} for {model!r}, not an Unwrapped"
        )
    members = []
    unseen = _unseen(unwrapped, X, y, rows)
    for inner, positions in zip(unwrapped.inner, unseen, strict=True):
        inner_X, inner_y = (X, y) if positions is None else (rows_of(X, positions), np.asarray(y)[positions])
        seen = _seen_by(inner, unwrapped, inner_X, inner_y, train, rows)
        for member in unwrap(inner.model, *seen, rows if positions is None else "held-out"):
            layers, sources, named = member.layers, member.sources, member.named
            if inner.columns is not None:
                layers, sources = (
                    (Layer(inner.columns, X, inner.labels), *layers),
                    unwrapped.feature_names or numbered_columns(X),
                )
                named = unwrapped.named and unwrapped.feature_names is not None
            of_wrapper = _load_notes(model) if unwrapped.note is None else (*_load_notes(model), unwrapped.note)
            notes = (*of_wrapper, *member.notes)
            path = (unwrapped.kind, inner.name, *member.path)
            weight = inner.weight * member.weight
            of_margin = () if inner.note_of_margin is None else (inner.note_of_margin,)
            if member.n_links:  # it is not the trees that say whether this model's output is a margin
                notes, of_margin = (*notes, *of_margin), ()
            # The columns of a member with layers are those that its innermost layer makes.
            names = inner.feature_names if member.feature_names is None and not member.layers else member.feature_names
            members.append(
                replace(
                    member,
                    weight=weight,
                    path=path,
                    layers=layers,
                    sources=sources,
                    notes=notes,
                    named=named,
                    resampled=inner.resampled or member.resampled,
                    feature_names=names,
                    training_order=inner.training_order or member.training_order,
                    tuned_on_unseen=inner.tuned_on_unseen or member.tuned_on_unseen,
                    predicts=member.predicts if member.path else inner.predicts,
                    reweights=inner.reweights or member.reweights,
                    positions=member.positions if positions is None else positions,
                    asked_for_y=(*_asks(inner, inner_X, inner_y), *member.asked_for_y),
                    whole=unwrapped.whole,
                    n_links=member.n_links + unwrapped.has_link,
                    notes_of_margin=(*of_margin, *member.notes_of_margin),
                )
            )
    return members


def is_wrapper(model: Any) -> bool:
    """Whether a model is a wrapper that an adapter can unwrap."""
    from debias.hooks.registry import plugin_manager

    return model is not None and plugin_manager().hook.debias_unwrap(model=model) is not None


def without_shells(model: Any) -> Any:
    """Return the model inside wrappers that change nothing: not X, not its columns, not y.

    It is what other processes need of a model. A fitted model of Spark, for example, holds objects of Java, which
    cannot be sent; the model inside has its trees as data.

    Parameters
    ----------
    model : object

    Returns
    -------
    object
        The model itself, if it is not such a wrapper.
    """
    from debias.hooks.registry import plugin_manager

    while True:
        unwrapped = plugin_manager().hook.debias_unwrap(model=model)
        if unwrapped is None or len(unwrapped.inner) != 1:
            return model
        (inner,) = unwrapped.inner
        if any(each is not None for each in (inner.transform, inner.response, inner.columns, inner.resampled)):
            return model
        model = inner.model


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
    """Whether the members are one model of trees with weight 1, and no model around it has a link."""
    return len(members) == 1 and members[0].weight == 1 and not members[0].n_links


def _unseen(unwrapped: Unwrapped, X: Any, y: Any, rows: str) -> Sequence[NDArray[np.int64] | None]:
    """Return for each inner model the positions of the rows that it has not seen; None for all rows."""
    if unwrapped.unseen is not None and X is not None and y is not None and rows in ("auto", "oob"):
        try:
            return unwrapped.unseen(X, y)
        except ProvenanceError:
            if rows == RowsKind.OOB:
                raise
    return [None] * len(unwrapped.inner)


def _asks(inner: Inner, X: Any, y: Any) -> tuple[Callable[[], Supervised | None], ...]:
    """Return what tells whether the outer model has seen y before it trained a model inside."""
    return () if inner.supervised is None else (partial(inner.supervised, X, y),)


def _seen_by(
    inner: Inner, unwrapped: Unwrapped, X: Any, y: Any, train: tuple[Any, ...] | None, rows: str
) -> tuple[Any, Any, Any]:
    kind = unwrapped.kind

    def apply(function: Callable[[Any], Any] | None, data: Any, what: str) -> Any:
        if function is None or data is None:
            return data
        try:
            made = function(copied(data))  # a transformer with copy=False changes what it gets
        except DebiasError:
            raise
        except Exception as error:  # any error of a transformer is about these rows
            other_columns = _other_columns(unwrapped, data, what) if function is inner.transform else None
            raise RowsError(
                other_columns or f"the {kind} cannot transform {what}: {error}{_instead_of_a_list(data)}"
            ) from error
        if function is inner.transform and _n_rows(data) not in (None, _n_rows(made)):
            raise RowsError(
                f"the {kind} makes {_n_rows(made)} rows of the {_n_rows(data)} rows of {what}. A vectorizer takes a "
                "list or a Series of texts: pass X['text'] and not X[['text']]"
            )
        return made

    inner_X = apply(inner.transform, X, "X")
    if rows in ("oob", "train"):
        inner_X = _in_training(inner, X, y, inner_X)
    if isinstance(train, (tuple, list)) and len(train) in (2, 3, 4):
        train_X = _in_training(inner, train[0], train[1], apply(inner.transform, train[0], "train"))
        train = (train_X, apply(inner.response, train[1], "train"), *train[2:])
    return inner_X, apply(inner.response, y, "y"), train


def _instead_of_a_list(data: Any) -> str:
    """Return what to type instead of a list of names or of dictionaries, as the end of a message."""
    first = data[0] if isinstance(data, list) and data else None
    return OF_NAMES if isinstance(first, str) else OF_DICTIONARIES if isinstance(first, dict) else ""


def _other_columns(unwrapped: Unwrapped, data: Any, what: str) -> str | None:
    """Return what to type if a table has other columns than those of the wrapper, or these in another order."""
    names, known = names_of_columns(data), unwrapped.feature_names
    if not unwrapped.named or names is None or known is None or names == known:
        return None
    missing = [name for name in known if name not in names]
    unknown = [name for name in names if name not in known]
    twice = [name for name, number in Counter(names).items() if number > 1]
    kinds = (("missing", missing), ("unknown to it", unknown), ("more than once", twice))
    found = [f"{word}: {listed(of)}" for word, of in kinds if of]
    table = "X" if what == "X" else "X_train"
    if missing:
        how = "Pass the training columns with their training names"
    elif twice and not unknown:
        how = "Pass each column once"
    else:
        how = f"Pass {table}[model.feature_names_in_], the columns that it was trained on"
    return f"{what} has not the columns of this {unwrapped.kind} ({'; '.join(found) or 'another order'}). {how}"


def _in_training(inner: Inner, X: Any, y: Any, later: Any) -> Any:
    """Return training rows as a model inside was trained on them; `later` is what they are transformed to now."""
    if inner.supervised is None or X is None or y is None:
        return later
    found = inner.supervised(X, y)
    trained_on = None if found is None or found.in_training is None else found.in_training()
    return later if trained_on is None else trained_on


def _n_rows(X: Any) -> int | None:
    """Return the number of rows; None if X is an iterator, which has no length."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X) if hasattr(X, "__len__") else None


def members_in_words(members: list[Member], do: str = "Audit") -> str:
    """Return why the scores of a wrapper are not tested, and what to do with the models inside."""
    kind, names = members[0].path[0], names_of(members)
    if len(members) == 1:
        return (
            f"the scores of this {kind} are the scores of the one model inside, times a weight. {do} that model "
            f"({names[0]}) by itself"
        )
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"this {kind} combines {len(members)} models, and only one model is tested here. {do} these models one by one "
        f"({', '.join(names[:MOST_NAMED])}{more})"
    )


def require_one_scale(members: list[Member]) -> None:
    """Refuse to add scores of members whose outputs are not on one scale.

    Raises
    ------
    UnsupportedModelError
        The outputs are on different scales: probabilities and margins, for example.
    """
    scales = {
        ("the response", n_links)
        if not ensemble.is_classifier and (ensemble.averaged or ensemble.objective.name == "squared_error")
        else (ensemble.averaged, ensemble.objective, n_links)
        for ensemble, n_links in ((member.ensemble, member.n_links) for member in members)
    }
    if len(scales) > 1:
        raise UnsupportedModelError(
            f"the members of this {members[0].path[0]} have outputs on different scales (probabilities and margins), "
            f"so their scores cannot be added. Score them one by one: {', '.join(names_of(members))}."
        )


_notes_of_loaded: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def keep_load_notes(model: Any, texts: tuple[str, ...]) -> None:
    """Keep texts for the results of a model that was just loaded."""
    if texts:
        with suppress(TypeError):  # not every object can be a key
            _notes_of_loaded[model] = texts


def _load_notes(model: Any) -> tuple[str, ...]:
    """Return what was told when a model was loaded; nothing for models that were not."""
    try:
        return _notes_of_loaded.get(model, ())
    except TypeError:
        return ()


@dataclass(frozen=True, eq=False)
class Layer:
    """A model around another one, which makes the columns of the inner model of its own columns.

    Parameters
    ----------
    columns : array of int64, sequence of tuples of int, or callable
        As in :class:`debias.hooks.wrapping.Inner`.
    X : array or data frame of shape (n_rows, n_features), or None
        Rows as the outer model sees them.
    labels : callable, optional
        As in :class:`debias.hooks.wrapping.Inner`.
    """

    columns: Any
    X: Any
    labels: Callable[[Labels], Labels] | None = None

    def traced(self) -> list[tuple[int, ...]]:
        """Return for each column of the inner model the columns of the outer model that it is made of."""
        columns = self.columns(self.X) if callable(self.columns) else self.columns
        if isinstance(columns, np.ndarray):
            return [(k,) for k in columns.tolist()]
        return list(columns)


def _grouping_by_source(member: Member) -> Grouping:
    """Return the grouping of the columns of a member by the columns of X that they come from.

    A column of X that is only part of groups is no group of its own; one that nothing is made of is.

    Raises
    ------
    UnsupportedModelError
        All columns are made of the same columns of X, the source of one is unknown, or names would not be unique.
    """
    columns = member.layers[0].traced()
    for layer in member.layers[1:]:
        columns = [tuple(sorted({k for j in made_of for k in columns[j]})) for made_of in layer.traced()]
    made, known = names_of_columns(member.X), member.ensemble.feature_names
    if not member.named and member.ensemble.named and made is not None and set(known) <= set(made):
        columns = [columns[made.index(name)] for name in known]  # the trees take them by name
    kinds = dict.fromkeys(columns)
    kind = " > ".join(member.path)
    if len(kinds) == 1 and len(columns[0]) > 1:
        raise UnsupportedModelError(
            f"{kind}: the transformers compute every column of the model from the same {len(columns[0])} columns of X "
            f"({listed([member.sources[k] for k in columns[0]])}), so scores cannot be divided among them. Pass "
            "level='model' to score the columns that the trees see"
        )
    if () in kinds:
        _refuse_unknown_source(member, columns)
        columns = [made_of or (0,) for made_of in columns]  # no tree splits on it, so its score is 0
    single = {made_of[0] for made_of in columns if len(made_of) == 1}
    shared = {k for made_of in columns if len(made_of) > 1 for k in made_of}
    groups: list[tuple[int, ...]] = [(k,) for k in range(len(member.sources)) if k in single or k not in shared]
    groups += [made_of for made_of in dict.fromkeys(columns) if len(made_of) > 1]
    names = [_joined([member.sources[k] for k in group]) for group in groups]
    place = {group: k for k, group in enumerate(groups)}
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UnsupportedModelError(
            f"{kind}: {twice!r} would name a column and a group of columns; rename the column, or pass level='model'"
        )
    return Grouping(tuple(names), np.array([place[made_of] for made_of in columns], dtype=np.int64))


def _joined(names: list[str]) -> str:
    """Return the name of a group of columns of X."""
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return " + ".join([*names[:MOST_NAMED], *more])


def _refuse_unknown_source(member: Member, columns: list[tuple[int, ...]]) -> None:
    """Refuse a column of unknown source, unless no tree splits on it."""
    ensemble = member.ensemble
    used = np.unique(ensemble.feature[ensemble.splits])
    unknown = [int(k) for k in used if k < len(columns) and not columns[k]]
    if unknown:
        names = member.feature_names or ensemble.feature_names
        raise UnsupportedModelError(
            f"{' > '.join(member.path)}: no column of X could be found that changes "
            f"{listed([repr(names[k]) for k in unknown])}, which the trees split on. Pass more rows, or level='model' "
            "to score the columns that the trees see"
        )
