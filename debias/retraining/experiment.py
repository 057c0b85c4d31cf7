"""A model with the rows it was trained on and is scored on: what meta-methods change, train again and score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from debias.data.dataset import as_frame
from debias.data.groups import Grouping
from debias.data.table import Table
from debias.errors import CompositionError, RowsError
from debias.hooks.contracts import RefitScorer, TreeScorer
from debias.hooks.registry import plugin_manager
from debias.hooks.training_weights import TrainingWeights
from debias.models.refitting import refit
from debias.models.wrappers import Member, unwrap
from debias.parallel import Engine
from debias.rows.preparation import prepare, training_rows
from debias.rows.request import Request
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.results.scores import Scores
    from debias.trees.ensemble import TreeEnsemble


@dataclass(frozen=True, eq=False)
class Part:
    """Rows, their response and their weights, all as the user gave them.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    weight : array of shape (n_rows,), or None
    """

    X: Any
    y: Any
    weight: Any = None

    def permuted(self, rng: np.random.Generator) -> Part:
        """Return the same rows, the response among them permuted; weights stay with their rows."""
        return replace(self, y=rng.permutation(np.asarray(self.y)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """A fitted model, and what it takes to train it again on changed rows. Immutable.

    Parameters
    ----------
    model : object
        The user's. Never changed.
    training : Part
        The rows it was trained on, with their weights in training.
    held_out : Part, or None
        The rows scores are evaluated on, where those are not the training rows.
    evaluation_weight : array of shape (n_rows,), or None
        Weights of the evaluation rows.
    kind : {"oob", "held-out", "train", None}
        What the evaluation rows are to the model; None if the scorer looks at no rows.
    feature_names : tuple of str
        Columns, or groups of them, in the order of their scores.
    members : tuple of tuples of str
        Columns of each.
    beside : bool
        Whether the training rows came as train=, and go beside the rows that are scored.
    params : mapping or None
        Settings that go before those the model kept.
    seed : int or None
    engine : Engine
    observed : Scores or None
        Scores of the model as it is; None of a changed experiment, whose model has to be trained.
    """

    model: Any
    training: Part
    held_out: Part | None
    evaluation_weight: Any
    kind: str | None
    feature_names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    beside: bool = False
    params: Mapping[str, Any] | None = None
    seed: int | None = None
    engine: Engine = Engine()
    observed: Scores | None = None

    @property
    def n_features(self) -> int:
        """Number of features, or groups."""
        return len(self.feature_names)

    @classmethod
    def of(cls, request: Request, observed: Scores, engine: Engine) -> Experiment:
        """Take what the user passed.

        Parameters
        ----------
        request : Request
        observed : Scores
            Of the model as it is, with what the rows were found to be.
        engine : Engine

        Raises
        ------
        RowsError
            There are no rows to train on.
        ProvenanceError
            Rows that have to be the training rows are not.
        """
        model, X, y, sample_weight = request.model, request.X, request.y, request.sample_weight
        given = None if request.train is None else Part(*request.train)
        held_out = None
        if observed.rows == "held-out":
            if given is None:
                raise RowsError(
                    "a meta-method trains the model again, and these rows are held out: pass the rows it was trained "
                    "on as train=(X_train, y_train)"
                )
            training, held_out = given, Part(X, y)
        elif observed.rows == "oob":
            training = Part(X, y, sample_weight)
        else:
            if given is None and X is None:
                raise RowsError("a meta-method trains the model again: pass the rows it was trained on as X and y")
            training = given or Part(X, y, sample_weight)
            if observed.rows is None:
                require_training(model, training)
        if training.weight is None:
            refuse_forgotten_weights(model, training.y)
        else:
            refuse_class_weights(model, given)
        names, members = _grouped(model, training.X, request.groups, observed)
        return cls(
            model=model,
            training=training,
            held_out=held_out,
            evaluation_weight=sample_weight,
            kind=observed.rows,
            feature_names=names,
            members=members,
            beside=given is not None and observed.rows != "oob",
            params=request.params,
            seed=request.seed,
            engine=engine,
            observed=observed,
        )

    def permuted(self, rng: np.random.Generator) -> Self:
        """Return the experiment with permuted responses: of training rows, and of held-out rows, among themselves."""
        held_out = self.held_out
        training = self.training.permuted(rng)
        return replace(
            self, training=training, held_out=None if held_out is None else held_out.permuted(rng), observed=None
        )

    def changed(self, change: Callable[[pd.DataFrame], pd.DataFrame], copies: Mapping[str, str] | None = None) -> Self:
        """Return the experiment with other columns, of training and of held-out rows."""
        if copies:
            refuse_more_columns(self.model, self.training.X)
        parts = [
            None if part is None else replace(part, X=change(as_frame(part.X)))
            for part in (self.training, self.held_out)
        ]
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

    def inside(self, seed: int) -> Self:
        """Return the experiment as it is within a replicate."""
        return replace(self, seed=seed, engine=self.engine.inner)

    def score(self, scorer: Scorer) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return the scores of the model, trained again if anything was changed."""
        if isinstance(scorer, RefitScorer):
            return scorer.score(self)
        assert isinstance(scorer, TreeScorer)
        if self.observed is not None:
            return self.observed.values, self.observed.details
        part = self.training
        again = refit(self.model, part.X, part.y, part.weight, seed=self.seed, n_jobs=1, params=self.params)
        seen = self.held_out or part
        train = (part.X, part.y, *(() if part.weight is None else (part.weight,))) if self.beside else None
        kind = self.kind or "train"  # a scorer that looks at no rows may still ask for the model that comes with them
        fitted = Request(
            model=again,
            X=seen.X,
            y=seen.y,
            rows=kind,
            train=train,
            sample_weight=self.evaluation_weight,
            seed=self.seed,
        )
        total = np.zeros(self.n_features)
        for member in unwrap(again, seen.X, seen.y, train):
            total += member.weight * self._member_scores(fitted, member, scorer)
        return total, {}

    def fingerprint(self) -> str:
        """Return a text that names data, model, settings and versions."""
        from debias._version import __version__
        from debias.digest import digest_of

        trees = [member.ensemble for member in unwrap(self.model)]
        parts = (self.training, self.held_out, self.evaluation_weight, self.members, self.kind)
        return digest_of(*parts, self.params, self.seed, self.model, trees, np.__version__, __version__)

    def _member_scores(self, fitted: Request, member: Member, scorer: TreeScorer) -> NDArray[np.float64]:
        """Return scores, by group, of trees that were just fitted: what their rows are is known."""
        ensemble, rows, _ = prepare(fitted, member, [scorer], known=True, train_weight=_weights(self.training.weight))
        values, _ = scorer.score(ensemble, rows)
        if member.columns is not None:
            values, names = member.columns.sum(values), member.columns.names
        elif ensemble.named:
            names = _names_in(self.training.X, ensemble)
        else:
            names = tuple(map(str, as_frame(self.training.X).columns))
        place = {name: k for k, name in enumerate(names)}
        return np.array([sum(values[place[column]] for column in columns) for columns in self.members])


def _grouped(model: Any, X: Any, groups: Any, observed: Scores) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the names of what is scored, and the columns of each."""
    member = unwrap(model)[0]
    ensemble = member.ensemble
    if member.columns is not None:
        columns = labels = member.columns.names
    elif ensemble.named:
        columns, labels = _names_in(X, ensemble), ensemble.feature_names
    else:
        columns = tuple(map(str, as_frame(X).columns))
        labels = columns if hasattr(X, "columns") else ensemble.feature_names
    grouping = Grouping.of(None if isinstance(groups, str) else groups, labels)
    return observed.feature_names, tuple(
        tuple(columns[k] for k in np.flatnonzero(grouping.index == number)) for number in range(len(grouping.names))
    )


def _names_in(X: Any, ensemble: TreeEnsemble) -> tuple[str, ...]:
    """Return the names of the features as X has them, where the library stores others."""
    if ensemble.spaces_in_names:
        return ensemble.feature_names
    name_in_X = {ensemble.stored_name(name): name for name in Table(X).names or ()}
    return tuple(name_in_X.get(name, name) for name in ensemble.feature_names)


def _weights(weight: Any) -> NDArray[np.float64] | None:
    return None if weight is None else np.asarray(weight, dtype=np.float64)


def require_training(model: Any, part: Part) -> None:
    """Refuse rows that are not those of training, as far as that can be told: scores of refits would be of others."""
    weight = () if part.weight is None else (part.weight,)
    for member in unwrap(model, part.X, part.y, (part.X, part.y, *weight)):
        assert member.train is not None
        training_rows(member.ensemble, member.model, member.train, 1, WarningLog(), False)


def refuse_forgotten_weights(model: Any, y: Any) -> None:
    """Refuse to train without weights what was trained with them: the null would be that of another model."""
    for member in unwrap(model):
        if _was_weighted(member, y):
            raise RowsError(
                f"the {type(member.model).__name__} was trained with sample weights, and none came with its training "
                "rows: it would be trained again without them. Pass sample_weight= (beside held-out rows as the third "
                "entry of train=), or ones to leave them out"
            )


def _was_weighted(member: Member, y: Any) -> bool:
    """Whether a model shows that its rows had weights of their own. One that stores no weights cannot show it.

    Weights the model keeps show it, apart from those of classes. Else the weight at a root is the number of rows in the
    bag, and the same for all trees of a bootstrap.
    """
    known = _training_weights(member.model)
    kept = known.rows
    if kept is not None:
        labels = np.asarray(y) if known.multiplied else np.zeros(len(kept))
        if labels.shape != np.shape(kept):
            return False
        return any(np.ptp(kept[labels == label]) > 1e-9 * np.max(kept) for label in np.unique(labels))
    ensemble = member.ensemble
    if ensemble.weight is None or ensemble.count is None or known.classes:
        return False
    roots = ensemble.tree_start[:-1]
    weight, count = ensemble.weight[roots], ensemble.count[roots]
    near = 1e-6 * weight.max()
    all_rows = count == (ensemble.n_train or count.max())
    repeated = ~all_rows & (np.ptp(weight) <= near) & (np.abs(weight - np.round(weight)) <= near)
    return bool((~repeated & (np.abs(weight - count) > near)).any())


def refuse_class_weights(model: Any, train: Part | None) -> None:
    """Refuse weights of rows that have those of classes in them already: they would count twice."""
    for member in unwrap(model):
        if train is not None and _training_weights(member.model).multiplied:
            raise RowsError(
                "train has weights that include those of classes, and the model would weigh classes again when it is "
                "trained; leave the third entry of train out if rows have no weights of their own"
            )


def _training_weights(model: Any) -> TrainingWeights:
    shown: TrainingWeights | None = plugin_manager().hook.debias_training_weights(model=model)
    return TrainingWeights() if shown is None else shown


def refuse_more_columns(model: Any, X: Any) -> None:
    """Refuse to add columns that the model would not treat as it treats the originals."""
    import pandas as pd

    frame = as_frame(X)
    for member in unwrap(model):
        if member.columns is not None:
            raise CompositionError(
                f"this meta-method adds copies of columns, and a {member.path[0]} transforms columns by their names: "
                "score the model inside on the transformed rows, or use response_permutation"
            )
        ensemble = member.ensemble
        if ensemble.category_set is None:
            continue
        by_set = np.unique(ensemble.feature[ensemble.category_set >= 0])
        plain = [str(frame.columns[k]) for k in by_set if not isinstance(frame.iloc[:, k].dtype, pd.CategoricalDtype)]
        if plain:
            raise CompositionError(
                f"the model splits {', '.join(plain)} by categories, but X has numbers there, so that copies would be "
                "split as numbers: train it on a frame with columns of dtype category"
            )
