"""Experiments: a model with its training rows and evaluation rows, which meta-methods change, refit and score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from debias.data.blocks import encode_blocks
from debias.data.chosen_rows import originals, permuted_response, row_positions, rows_of, times
from debias.data.dataset import as_frame
from debias.data.groups import Grouping
from debias.data.row_order import require_pairs
from debias.data.table import names_of_columns
from debias.data.user_columns import chosen_columns
from debias.errors import CompositionError, RowsError, with_article
from debias.hooks.contracts import RefitScorer, TreeScorer
from debias.hooks.scorers import values_and_details
from debias.models.refitting import refit
from debias.models.wrappers import Member, is_wrapper, unwrap
from debias.parallel import Engine
from debias.results.vocabulary import RowsKind
from debias.rows.preparation import prepare, training_rows
from debias.rows.provenance import stored_weights
from debias.rows.request import Request
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.results.scores import Scores


@dataclass(frozen=True, eq=False)
class Part:
    """Rows, their response, their weights and their queries, all as the user passed them.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    weight : array of shape (n_rows,), or None
    qid : array of shape (n_rows,), or None
        The query of each row, for rankers.
    """

    X: Any
    y: Any
    weight: Any = None
    qid: Any = None

    def named(self, names: tuple[str, ...] | None, stored: Callable[[str], str]) -> Part:
        """Return the same rows with the columns that a model knows, as refits and changes need them, which are by name.

        The columns of an array get names. A frame loses the columns of other names, which the model does not use;
        `stored` returns a name as the model stores it.
        """
        if names is None or np.ndim(self.X) != 2 or hasattr(self.X, "tocsr"):
            return self
        own = names_of_columns(self.X)
        if own is None:
            return replace(self, X=as_frame(self.X).set_axis(list(names), axis=1))
        known = [k for k, name in enumerate(own) if {name, stored(name)} & set(names)]
        if len(names) != len(known) or len(known) == len(own):
            return self
        return replace(self, X=chosen_columns(self.X, np.array(known, dtype=np.int64)))

    def permuted(self, rng: np.random.Generator, copy_of: NDArray[np.int64] | None = None) -> Part:
        """Return the same rows with a permuted response; weights stay with their rows, and values in their query."""
        return replace(self, y=permuted_response(rng, np.asarray(self.y), copy_of, self.query))

    @property
    def query(self) -> NDArray[np.int64] | None:
        """The query of each row as numbers from 0, in the order in which they appear; None if there are none."""
        return encode_blocks(self.qid, int(np.shape(self.y)[0]), "qid", "query", several=False)

    def as_passed(self) -> tuple[Any, ...]:
        """Return (X, y), (X, y, weight) or (X, y, weight, qid), as a request has training rows."""
        if self.qid is not None:
            return self.X, self.y, self.weight, self.qid
        return (self.X, self.y) if self.weight is None else (self.X, self.y, self.weight)

    def rows(self, chosen: NDArray[np.int64]) -> Part:
        """Return some of the rows, by position."""
        weight, qid = (None if each is None else np.asarray(each)[chosen] for each in (self.weight, self.qid))
        return Part(rows_of(self.X, chosen), np.asarray(self.y)[chosen], weight, qid)


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """A fitted model, and everything needed to refit it on changed rows. Immutable.

    Parameters
    ----------
    model : object
        The model of the user. It is never changed.
    training : Part
        The training rows, with their training weights.
    held_out : Part, or None
        The evaluation rows, if they are not the training rows.
    evaluation_weight : array of shape (n_rows,), or None
        Weights of the evaluation rows.
    kind : {"oob", "held-out", "train", None}
        Kind of the evaluation rows; None if the scorer uses no rows.
    feature_names : tuple of str
        Columns, or groups of columns, in the order of their scores.
    members : tuple of tuples of str
        Columns of each of `feature_names`.
    beside : bool
        Whether the training rows were passed as train=, in addition to the rows that are scored.
    level : {"source", "model"}
        The columns that are scored: those of X, or those that the trees see.
    names_of_X : tuple of str, or None
        Names of the columns of X that the user passed for an X without names.
    params : mapping or None
        Hyper-parameters that replace those the model stores.
    seed : int or None
    engine : Engine
    observed : Scores or None
        Scores of the fitted model; None for a changed experiment, whose model has to be refitted.
    copy_of : array of int64 of shape (n_rows,), or None
        If `rows` repeated training rows, the original row that each row is a copy of.
    """

    model: Any
    training: Part
    held_out: Part | None
    evaluation_weight: Any
    kind: str | None
    feature_names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    beside: bool = False
    level: str = "source"
    names_of_X: tuple[str, ...] | None = None
    params: Mapping[str, Any] | None = None
    seed: int | None = None
    engine: Engine = Engine()
    observed: Scores | None = None
    copy_of: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(np.shape(self.training.y)[0])

    @property
    def n_features(self) -> int:
        """Number of features, or of groups of features."""
        return len(self.feature_names)

    @classmethod
    def of(cls, request: Request, observed: Scores, engine: Engine) -> Experiment:
        """Make the experiment of a request.

        Parameters
        ----------
        request : Request
        observed : Scores
            Scores of the fitted model, with the kind of the rows.
        engine : Engine

        Raises
        ------
        RowsError
            There are no training rows.
        ProvenanceError
            Rows that must be the training rows are not.
        """
        model, X, y, sample_weight = request.model, request.X, request.y, request.sample_weight
        train = None if request.train is None else Part(*request.train)
        held_out = None
        if observed.rows == RowsKind.HELD_OUT:
            if train is None:
                raise RowsError(
                    "a meta-method refits the model, and these rows are held-out rows: pass the training rows as "
                    "train=(X_train, y_train)"
                )
            training, held_out = train, Part(X, y, qid=request.qid)
        elif observed.rows == RowsKind.OOB:
            training = Part(X, y, sample_weight, request.qid)
        else:
            if train is None and X is None:
                raise RowsError("a meta-method refits the model: pass its training rows as X and y")
            training = train or Part(X, y, sample_weight, request.qid)
            if observed.rows is None:
                require_training(model, training)
        column_names = request.feature_names or _known_names(model)
        stored = unwrap(model)[0].ensemble.stored_name
        training = training.named(column_names, stored)
        held_out = None if held_out is None else held_out.named(column_names, stored)
        if training.weight is None:
            refuse_forgotten_weights(model, training.y)
        else:
            refuse_class_weights(model, train)
        names, members = _grouped(request, training.X, observed)
        return cls(
            model=model,
            training=training,
            held_out=held_out,
            evaluation_weight=sample_weight,
            kind=observed.rows,
            feature_names=names,
            members=members,
            beside=train is not None and observed.rows != RowsKind.OOB,
            level=request.level_of_columns,
            names_of_X=None if names_of_columns(training.X) else request.feature_names,
            params=request.params,
            seed=request.seed,
            engine=engine,
            observed=observed,
        )

    def permuted(self, rng: np.random.Generator) -> Self:
        """Return the experiment with permuted responses; training rows and held-out rows are permuted separately."""
        held_out = self.held_out
        training = self.training.permuted(rng, self.copy_of)
        return replace(
            self, training=training, held_out=None if held_out is None else held_out.permuted(rng), observed=None
        )

    def changed(self, change: Callable[..., pd.DataFrame], copies: Mapping[str, str] | None = None) -> Self:
        """Return the experiment with other columns of the training rows and of the held-out rows."""
        if self.level == "model" and is_wrapper(self.model):
            raise CompositionError(
                "this meta-method changes columns of X, so it cannot score the columns that the trees see: pass "
                "level='source', or use response_permutation"
            )
        if copies:
            refuse_more_columns(self.model, self.training.X)
        parts = [None if part is None else self._changed(part, change) for part in (self.training, self.held_out)]
        copy_of = {original: copy for copy, original in (copies or {}).items()}
        added = [tuple(copy_of[column] for column in columns) for columns in self.members] if copies else []
        training, held_out = parts
        assert training is not None
        return replace(
            self,
            training=training,
            held_out=held_out,
            feature_names=(*self.feature_names, *(" + ".join(columns) for columns in added)),
            members=(*self.members, *added),
            observed=None,
        )

    def rows(self, indices: Any) -> Self:
        """Return the experiment with some of its training rows, by position; see :class:`debias.plugin.Problem`."""
        chosen = row_positions(indices, self.n_rows)
        weight = self.evaluation_weight
        if self.held_out is None and weight is not None:
            weight = np.asarray(weight)[chosen]
        return replace(
            self,
            training=self.training.rows(chosen),
            evaluation_weight=weight,
            copy_of=originals(self.copy_of, chosen),
            observed=None,
        )

    def weighted(self, weights: Any) -> Self:
        """Return the experiment with its training weights multiplied by others; see :class:`debias.plugin.Problem`."""
        evaluation_weight = self.evaluation_weight
        if self.held_out is None:
            evaluation_weight = times(evaluation_weight, weights, self.n_rows)
        training = replace(self.training, weight=times(self.training.weight, weights, self.n_rows))
        return replace(self, training=training, evaluation_weight=evaluation_weight, observed=None)

    def inside(self, seed: int) -> Self:
        """Return the experiment for use within a replicate."""
        return replace(self, seed=seed, engine=self.engine.inner)

    def score(self, scorer: Scorer) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return the scores of the model; it is refitted first if the experiment was changed."""
        if isinstance(scorer, RefitScorer):
            return values_and_details(scorer, scorer.score(self), self)
        assert isinstance(scorer, TreeScorer)
        if self.observed is not None:
            return self.observed.values, self.observed.details
        part = self.training
        settings: dict[str, Any] = {"random_state": self.seed, "n_jobs": 1, "params": self.params}
        refitted = refit(self.model, part.X, part.y, part.weight, qid=part.qid, **settings)
        evaluated = self.held_out or part
        train = part.as_passed() if self.beside else None
        kind = self.kind or "train"  # a scorer that uses no rows may still ask for the model that comes with them
        request = Request(
            model=refitted,
            X=evaluated.X,
            y=evaluated.y,
            rows=kind,
            train=train,
            sample_weight=self.evaluation_weight,
            # Copies of a row are in one query, and rows of a query are a block already.
            blocks=self.copy_of if kind == RowsKind.OOB and evaluated.qid is None else None,
            qid=evaluated.qid,
            seed=self.seed,
        )
        total = np.zeros(self.n_features)
        for member in unwrap(refitted, evaluated.X, evaluated.y, train, kind):
            member_at_level = member.at(self.level, self.names_of_X)
            total += member.weight * self._member_scores(request, member_at_level, scorer)
        return total, {}

    def fingerprint(self) -> str:
        """Return a text that identifies data, model, settings and versions."""
        from debias._version import __version__
        from debias.data.digest import digest_of

        trees = [member.ensemble for member in unwrap(self.model)]
        parts = (self.training, self.held_out, self.evaluation_weight, self.members, self.kind, self.copy_of)
        return digest_of(*parts, self.params, self.seed, self.model, trees, np.__version__, __version__)

    def _changed(self, part: Part, change: Callable[..., pd.DataFrame]) -> Part:
        before = as_frame(part.X)
        copied = before.copy(deep=False)  # columns that are assigned in place do not reach the user's frame
        query = part.query if _takes_queries(change) else None
        after = change(copied) if query is None else change(copied, query=query)
        require_pairs(before, after, self.members)
        return replace(part, X=after)

    def _member_scores(self, request: Request, member: Member, scorer: TreeScorer) -> NDArray[np.float64]:
        """Return the scores of each group for trees that were just fitted, so that the kind of their rows is known."""
        weight = self.training.weight
        train_weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        rows, _ = prepare(request, member, [scorer], known=True, train_weight=train_weight)
        ensemble = member.ensemble if rows is None else rows.ensemble
        values, _ = values_and_details(scorer, scorer.score(ensemble, rows), ensemble)
        if member.columns is not None:
            values, names = member.columns.sum(values), member.columns.names
        else:
            names = _columns_of(member, self.training.X)
        place = {name: k for k, name in enumerate(names)}
        known = {column for columns in self.members for column in columns}
        if known != place.keys():
            raise CompositionError(
                f"a refit does not make the same columns as this {member.path[0]} did (one has "
                f"{min(known ^ place.keys())!r} and the other has not), so that their scores cannot be compared. "
                "Transformers: pass level='source'. CatBoost: train the model without combinations of columns, "
                "max_ctr_complexity=1. Or use a scorer that does not refit, such as mdi_oob"
            )
        return np.array([sum(values[place[column]] for column in columns) for columns in self.members])


def _takes_queries(change: Callable[..., pd.DataFrame]) -> bool:
    """Whether a change of columns takes the query of each row."""
    return "query" in signature(change).parameters


def _grouped(request: Request, X: Any, observed: Scores) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the names of the features that are scored, and the columns of each."""
    member = unwrap(request.model, X)[0].at(request.level_of_columns, request.feature_names)
    if member.columns is not None:
        columns = labels = member.columns.names
    else:
        columns = _columns_of(member, X)
        labels = columns if hasattr(X, "columns") else member.ensemble.feature_names
    grouping = Grouping.of(None if isinstance(request.groups, str) else request.groups, labels)
    return observed.feature_names, tuple(
        tuple(columns[k] for k in np.flatnonzero(grouping.index == number)) for number in range(len(grouping.names))
    )


def _known_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of the columns that a model was trained on; None if it knows none."""
    member = unwrap(model)[0]
    if member.layers:
        return member.sources if member.named else None
    return member.ensemble.feature_names if member.ensemble.named else None


def _columns_of(member: Member, X: Any) -> tuple[str, ...]:
    """Return names of the columns that a member is trained on: as X has them, where there are no others."""
    if member.feature_names is not None:
        return member.feature_names
    if member.ensemble.named:
        return member.ensemble.named_as_in(names_of_columns(X) or ()).feature_names
    return tuple(map(str, as_frame(X).columns))


def require_training(model: Any, part: Part) -> None:
    """Refuse rows that are not the training rows, as far as this can be proven: refits would use other rows."""
    for member in unwrap(model, part.X, part.y, part.as_passed()):
        assert member.train is not None
        training_rows(member.ensemble, member.model, member.train, 1, WarningLog(), False, member.training_order)


def refuse_forgotten_weights(model: Any, y: Any) -> None:
    """Refuse to refit without weights a model that was trained with weights: the null would be of another model."""
    for member in unwrap(model):
        if _was_weighted(member, y):
            raise RowsError(
                f"the {type(member.model).__name__} was trained with sample weights, but its training rows were passed "
                "without weights, so refits would have none. Pass sample_weight= (with held-out rows: that of "
                "train=debias.Dataset(...)), or pass ones to refit without weights"
            )


def _was_weighted(member: Member, y: Any) -> bool:
    """Whether a model shows that its rows had sample weights. A model that stores no weights cannot show it.

    Weights that the model stores show it, apart from class weights. Otherwise, without weights, the weight at a root is
    the number of rows in the bag, and it is the same for all trees of a bootstrap.
    """
    weights = stored_weights(member.model)
    stored = weights.rows
    if stored is not None:
        labels = np.asarray(y) if weights.multiplied else np.zeros(len(stored))
        if labels.shape != np.shape(stored):
            return False
        return any(np.ptp(stored[labels == label]) > 1e-9 * np.max(stored) for label in np.unique(labels))
    ensemble = member.ensemble
    if ensemble.weight is None or ensemble.count is None or weights.classes:
        return False
    roots = ensemble.tree_start[:-1]
    weight, count = ensemble.weight[roots], ensemble.count[roots]
    near = 1e-6 * weight.max()
    all_rows = count == (ensemble.n_train or count.max())
    repeated = ~all_rows & (np.ptp(weight) <= near) & (np.abs(weight - np.round(weight)) <= near)
    return bool((~repeated & (np.abs(weight - count) > near)).any())


def refuse_class_weights(model: Any, train: Part | None) -> None:
    """Refuse weights of rows that already include class weights, which would count twice in a refit."""
    for member in unwrap(model):
        if train is not None and stored_weights(member.model).multiplied:
            raise RowsError(
                "the weights in train include class weights, and the model would apply class weights again in a refit. "
                "Leave sample_weight out of train if there are no sample weights"
            )


def refuse_more_columns(model: Any, X: Any) -> None:
    """Refuse to add columns that the model would not treat as it treats the originals."""
    import pandas as pd

    dtype = {str(name): dtype for name, dtype in as_frame(X).dtypes.items()}
    for member in unwrap(model):
        if member.columns is not None:
            raise CompositionError(
                f"this meta-method adds copies of columns, and {with_article(member.path[0])} transforms columns by "
                "their names. Score the model inside on the transformed rows, or use response_permutation"
            )
        ensemble = member.ensemble
        if ensemble.category_set is None:
            continue
        by_set = np.unique(ensemble.feature[ensemble.category_set >= 0])
        names = _columns_of(member, X)
        split = [names[k] for k in by_set]
        plain = [name for name in split if not isinstance(dtype[name], pd.CategoricalDtype)]
        if plain:
            raise CompositionError(
                f"the model splits {', '.join(plain)} by categories, but X has numbers there, or texts without the "
                "dtype category, so copies might be split as numbers. Train the model on a frame with columns of dtype "
                "category"
            )
