"""``debias.droppable``: which features may be dropped together, with a certificate from held-out rows.

Over 500 lines: one function, whose arguments are described here, and what it refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias._version import __version__
from debias.api.prepared import PreparedRows, prepared_members
from debias.api.row_facts import MOST_ALONE, shares_alone
from debias.data.groups import Grouping
from debias.data.table import Table, column_order, is_one_column
from debias.errors import CompositionError, ProvenanceError, RowsError, UnsupportedModelError, nearest
from debias.models.wrappers import is_one, names_of
from debias.parallel import checked, current, in_threads
from debias.progress import with_progress
from debias.results.drop_sentences import warnings_of_leaks
from debias.results.droppable import Droppable
from debias.results.sentences import leaks_among
from debias.results.vocabulary import RowsKind
from debias.retraining.drop_path import (
    DropPath,
    FewerFeatures,
    columns_in_X,
    fold_of_rows,
    refuse_settings_of_columns,
    twins,
    unseen_rows,
)
from debias.retraining.experiment import Part, refuse_class_weights, refuse_forgotten_weights
from debias.rows.classes import class_codes
from debias.rows.compared_losses import ComparedLosses, compared_losses, queries_to_rank
from debias.rows.effects import refuse_shared
from debias.rows.performance import performance_of
from debias.rows.recognition import recognise
from debias.rows.request import Request
from debias.significance.dependent_rows import warn_of_neighbours
from debias.significance.lost_gain import lost_gain
from debias.significance.row_test import ROUNDING, check_procedure, row_test
from debias.text import listed
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from debias.data.user_rows import Dataset
    from debias.models.wrappers import Member
    from debias.parallel import Refits
    from debias.random_state import RandomState
    from debias.rows.provenance import RowsOption
    from debias.rows.rows import Rows
    from debias.trees.objectives import Objective
    from debias.warning_log import WarningLog

_TRAIN_OTHERWISE = "Train the model without class weights or resampling, or with stronger regularisation"
SHARES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
"""Shares of the features on which the model splits that are dropped in the sets that are tried, beside all others."""


@explains_wrong_arguments
@in_threads
@with_progress
def droppable(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    train: tuple[Any, Any] | Dataset,
    tolerance: float = 0.05,
    alpha: float = 0.05,
    columns: Iterable[str] | None = None,
    refit_path: bool = False,
    folds: int = 3,
    rows: RowsOption = "auto",
    sample_weight: Any = None,
    groups: Mapping[str, Any] | None = None,
    refits: Refits | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Droppable:
    """Tell which features may be dropped together, and hand over the model without them.

    The model is trained again without sets of features, and the losses of the refits are compared with those of the
    model on held-out rows. A set is certified if its refit loses less than a share of the *gain*: of what the model
    predicts better than the best constant.

    Parameters
    ----------
    model : estimator or Booster
        As for :func:`score`, with one model of trees inside. It is never changed.
    X, y, sample_weight
        Rows that the model has not seen, as for :func:`score`, in memory. Nothing may have been chosen on them before.
        Pass a :class:`Dataset` for rows in blocks, and for a ranker, which needs the query of each row.
    train : (X, y) or Dataset
        The training rows of the model, with their weights if it had any, and with their queries for a ranker.
    tolerance : float
        Largest share of the gain that a refit may lose. Choose it before you look at the result.
    alpha : float
        The probability that any set is certified, although its refit loses more, is at most this.
    columns : iterable of str, optional
        Names of features: try this one set instead of searching for sets. It must not be chosen on these rows.
    refit_path : bool
        Whether the models from which the order is found are trained again at each size, which takes about three times
        as many fits.
    folds : int
        Number of folds of the training rows, from which the order is found.
    rows : {"auto", "held-out"}
        As for :func:`score`.
    groups : mapping of str to list of str, optional
        Columns that are dropped as one, by the name of their group.
    refits : Refits, optional
        Hyper-parameters for a model whose file did not keep them.
    random_state : int or numpy.random.Generator, optional
        Seed of the folds and of the refits; 0 by default, so that the same call gives the same result.
    n_jobs : int, optional
        Number of models that are trained at the same time, each in one thread; 1 by default. The numbers stay the same.

    Returns
    -------
    Droppable
        ``result.columns`` may be dropped, ``result.model`` was trained without them, and ``result.to_frame()`` has all
        sets that were tried.

    Raises
    ------
    CompositionError
        An argument is out of range, the loss is not known (custom objectives), or the model combines several models or
        columns.
    RowsError
        There are no training rows, the rows do not fit the model, the model does not predict them better than a
        constant, or it cannot be trained again without some columns.
    ProvenanceError
        The rows are training rows.
    UnsupportedModelError
        The model cannot be audited or trained again.

    Notes
    -----
    Let d be the loss of a refit minus that of the model on a row, and g the loss of the best constant minus that of the
    model. A set is certified if a one-sided t-test by rows, corrected for skewness (Hall 1992), rejects ``mean(d) >=
    tolerance * mean(g)``. Kinds of rows that are not among the held-out rows count for nothing. The sets share
    `alpha` evenly, and what a certified set had passes on to the next larger one (the fallback procedure: Wiens and
    Dmitrienko 2005; Bretz et al. 2009). The order of the features and the sizes come from the training rows alone. For
    rankers, d and g are differences of the NDCG of a query, and a constant has the mean over all orders; Cox models and
    forests of survival times are compared by concordance.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X[:242], y[:242])
    >>> result = debias.droppable(forest, X[242:], y[242:], train=(X[:242], y[:242]), tolerance=0.2, random_state=0)
    >>> predictions = result.model.predict(X.drop(columns=result.columns)) if result.columns else None
    """
    of_refits = checked(refits)
    if of_refits.has_limits:
        raise CompositionError(
            "droppable has no time limit and no checkpoint: leave budget and checkpoint out of refits"
        )
    _refuse_out_of_range(tolerance, alpha, folds, rows, train)
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        params=of_refits.params,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    problem = _problem(request, groups)
    names = problem.fewer.grouping.names
    given = None if columns is None else _asked(columns, names)
    sizes = _sizes(len(names), problem.n_unused) if given is None else [len(given)]
    gain = problem.gain(alpha)
    n_sizes, n_fits, at_a_time = len(sizes), len(sizes), 1
    if given is None:
        path = _path(problem, folds, refit_path)
        order, at_a_time = path.order(sizes), path.at_a_time
        n_fits += folds * (n_sizes if refit_path else 1)
    else:
        order = [names.index(name) for name in given]
    problem.tell_leaks(order)
    refitted = current().map(lambda k: problem.refitted(order[: sizes[k]], k), range(n_sizes), "refits")
    rows_used = problem.rows
    lost = lost_gain(
        np.column_stack([loss for loss, _ in refitted]) - problem.loss[:, None],
        gain,
        problem.losses.weight,
        problem.losses.blocks,
        tolerance=tolerance,
        alpha=alpha,
    )
    result = Droppable(
        feature_names=names,
        members=problem.members,
        order=tuple(names[k] for k in order),
        sizes=np.array(sizes, dtype=np.int64),
        lost=lost.estimate,
        low=lost.low,
        high=lost.high,
        p_value=lost.p_value,
        needed=lost.needed,
        tolerance=float(tolerance),
        alpha=float(alpha),
        performance=performance_of(rows_used, of_loss=True),
        n_rows=rows_used.n_evaluated,
        n_independent=problem.losses.n_independent,
        blocks=request.blocks is not None,
        n_train=int(np.shape(problem.fewer.training.y)[0]),
        path="given" if given is not None else "refitted" if refit_path else "frozen",
        folds=folds,
        at_a_time=at_a_time,
        n_fits=n_fits,
        provenance=rows_used.provenance.to_dict(),
        settings={
            "model": problem.prepared.ensemble.source,
            "library_version": problem.prepared.ensemble.version,
            "n_trees": problem.prepared.ensemble.n_trees,
            "debias_version": __version__,
            "seed": problem.fewer.seed,
        },
        warnings=tuple(problem.prepared.log.texts),
    )
    return result if result.certified is None else replace(result, model=refitted[result.certified][1])


FEW_MORE = 0.97
"""Trees that were grown on less than this share of the rows of train= are warned of. With 200 of 2,000 rows, 7 of 8
sets were certified that lost 8 to 12 % of the gain when these 200 rows were passed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Problem:
    """A model with its rows, from which features are to be dropped.

    Parameters
    ----------
    prepared : PreparedRows
        The model with the held-out rows.
    fewer : FewerFeatures
        Trains it again.
    held_out : Part
        The held-out rows as the user passed them.
    at : array of int64 of shape (n_columns,)
        Positions of the columns that the model knows in X of these rows.
    columns : tuple of str
        Their names.
    feature : array of int64 of shape (n_columns_of_trees,)
        Feature of each column that the trees see.
    """

    prepared: PreparedRows
    fewer: FewerFeatures
    held_out: Part
    at: NDArray[np.int64]
    columns: tuple[str, ...]
    feature: NDArray[np.int64]

    @property
    def rows(self) -> Rows:
        """The held-out rows."""
        rows: Rows = self.prepared.rows
        return rows

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each feature."""
        index = self.fewer.grouping.index
        return tuple(
            tuple(self.columns[k] for k in np.flatnonzero(index == feature))
            for feature in range(len(self.fewer.grouping.names))
        )

    @property
    def n_unused(self) -> int:
        """Number of features on which the model does not split."""
        ensemble = self.rows.ensemble
        return len(self.fewer.grouping.names) - np.unique(self.feature[ensemble.feature[ensemble.splits]]).size

    @cached_property
    def losses(self) -> ComparedLosses:
        """The losses of models on the held-out rows."""
        return compared_losses(self.rows)

    @cached_property
    def loss(self) -> NDArray[np.float64]:
        """Loss of each held-out row, or query, by the model."""
        assert self.rows.margins is not None
        return self.losses.loss(self.rows.margins)

    def gain(self, alpha: float) -> NDArray[np.float64]:
        """Return what the model saves of the loss of the best constant, of each held-out row, or query.

        Raises
        ------
        RowsError
            It saves nothing, beyond chance.
        """
        from scipy.special import stdtr

        losses = self.losses
        if losses.n_independent < losses.n_least:
            raise RowsError(
                f"there are {losses.n_independent} {losses.unit}, and nothing is tested with fewer than "
                f"{losses.n_least}: pass more rows"
            )
        of_constant = losses.of_constant()
        gain = of_constant - self.loss
        gain[np.abs(gain) <= ROUNDING * np.abs(of_constant).max()] = 0.0
        tested = row_test(gain[:, None], losses.weight, losses.blocks)
        p_value = float(stdtr(tested.n_independent - 1, -tested.z[0]))
        if p_value > alpha:
            why = performance_of(self.rows).why_probabilities_fail
            raise RowsError(
                f"the model does not predict these rows better than a constant, beyond chance (p = {p_value:.2g}), so "
                "it has no gain of which a share could be lost. "
                + (f"{why} {_TRAIN_OTHERWISE}" if why else "Check that y belongs to these rows, or pass more rows")
            )
        return gain

    def tell_leaks(self, order: list[int]) -> None:
        """Keep the warning of features that may leak the response, looked for among those that are dropped last."""
        names, last_first = self.fewer.grouping.names, order[::-1]
        kept = [k for k in range(len(names)) if k not in set(order)]
        found = shares_alone(self.rows, self.feature, [*kept, *last_first][:MOST_ALONE])
        leaks = leaks_among({names[k]: share for k, share in found.items()}, self.rows.n_evaluated)
        for text in warnings_of_leaks(leaks):
            self.prepared.log.add(text)

    def refitted(self, dropped: list[int], number: int) -> tuple[NDArray[np.float64], Any]:
        """Train the model without some features; return the loss of each held-out row, or query, and the refit."""
        fitted = self.fewer.fit(dropped, number)
        rows, _ = unseen_rows(fitted, self.held_out, self.at[self.fewer.kept(dropped)])
        assert rows.margins is not None
        return compared_losses(rows).loss(rows.margins), fitted


def _problem(request: Request, groups: Mapping[str, Any] | None) -> _Problem:
    """Prove the rows, and find the columns of X that may be dropped."""
    if request.model is None or request.X is None:
        raise RowsError("droppable needs a fitted model and held-out rows: pass the model, X and y")
    if is_one_column(request.X):
        raise RowsError("X is one column of texts, so there is no column to drop: pass the rows as the model sees them")
    members = request.members
    if not is_one(members):
        raise CompositionError(
            f"this {members[0].path[0]} combines several models of trees, and debias does not combine their "
            f"losses. Pass one of them: {', '.join(names_of(members))}"
        )
    _refuse_untraced(members[0])
    objective = members[0].ensemble.objective
    _refuse_without_loss(objective)
    if objective.by_query and (request.qid is None or len(request.train or ()) < 4):
        raise RowsError(
            "this is a ranker, and droppable needs the query of each row: pass debias.Dataset(X, y, qid=...) and "
            "train=debias.Dataset(X_train, y_train, qid=...)"
        )
    (prepared,) = prepared_members(request, [])
    if not isinstance(prepared, PreparedRows):
        raise CompositionError("droppable trains the model again and compares losses by row: pass rows in memory")
    rows, member = prepared.rows, prepared.member
    _refuse_rows(rows)
    training = Part(*request.train) if request.train is not None else None
    assert training is not None
    if training.weight is None:
        refuse_forgotten_weights(request.model, training.y)
    else:
        refuse_class_weights(request.model, training)
    refuse_settings_of_columns(request.model)
    _warn_of_more_rows(rows.train, training, prepared.log)
    prepared.facts.warn_of_dependent_rows()
    if rows.query is None:  # rows of one query are alike, and the tests are by query
        warn_of_neighbours(rows, prepared.log, "bounds are too narrow, and sets are certified too often")
    at, columns = _columns(request.X, member, rows)
    grouping = Grouping.of(groups, columns)
    if len(grouping.names) < 2:
        raise CompositionError(f"there is one feature, {grouping.names[0]!r}, and a model needs one: nothing to drop")
    fewer = FewerFeatures(
        model=request.model,
        training=training,
        grouping=grouping,
        at=_columns(training.X, member, rows)[0],
        params=request.params,
        seed=request.seed or 0,
    )
    held_out = Part(request.X, request.y, request.sample_weight, request.qid)
    feature = grouping.index[columns_in_X(member, len(columns))]
    return _Problem(prepared=prepared, fewer=fewer, held_out=held_out, at=at, columns=columns, feature=feature)


def _warn_of_more_rows(train: Rows | None, training: Part, log: WarningLog) -> None:
    """Warn if the trees seem to have been grown on some of the training rows: refits are trained on all of them."""
    if train is None or train.ensemble.averaged or (train.ensemble.count is None and training.weight is not None):
        return
    found = recognise(train.ensemble, train.table, train.response)
    grown = found.n_grown / train.n_rows
    # Trees that each drew so few of the rows have seen nearly all of them together, and the estimate tells, nearly.
    if found.share is None or grown > FEW_MORE or found.share > (1 + grown) / 2:
        return
    log.warn(
        f"by the counts of the leaves, the trees were grown on about {found.n_grown:,.0f} of the {train.n_rows:,} rows "
        "of train=. Refits are trained on all of them, and more rows hide what the features cost: pass the rows that "
        "the model was trained on, each once. If each tree drew its own rows (subsample), this may be wrong"
    )


def _refuse_untraced(member: Member) -> None:
    """Refuse columns that cannot be told apart, and say what helps here: the `level` of other questions does not."""
    try:
        member.columns  # noqa: B018  # it is computed here
    except UnsupportedModelError as error:
        raise CompositionError(
            f"this {member.path[0]} makes its columns of several columns of X, or they cannot be traced back, so that "
            "none can be dropped alone. Pass the model inside, with the rows as its steps transform them"
        ) from error


def _path(problem: _Problem, n_folds: int, refitted: bool) -> DropPath:
    train = problem.rows.train
    assert train is not None
    fold, query = _folds(train, n_folds, problem.fewer.seed)
    return DropPath(of=problem.fewer, twins=twins(train, problem.feature), fold=fold, refitted=refitted, query=query)


def _folds(train: Rows, n_folds: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the fold of each training row, and its query if it has one with something to rank.

    Classes are divided evenly among the folds, and so are events and censored rows, and queries.
    """
    objective, response = train.ensemble.objective, train.response
    bounds = None if response.target is None else objective.time_bounds(response.target)
    if train.query is not None:
        to_rank = np.isin(np.arange(train.query.max() + 1), queries_to_rank(train))
        _refuse_few(int(to_rank.sum()), "queries with something to rank", n_folds)
        fold = fold_of_rows(to_rank.astype(np.int64), to_rank.size, n_folds, seed)
        return fold[train.query], np.where(to_rank[train.query], train.query, -1)
    codes, n_least, what = class_codes(train.ensemble, response), train.n_rows, "training rows"
    if codes is not None:
        n_least = int(np.bincount(codes).max())
    elif bounds is not None:
        codes = np.isfinite(bounds[1]).astype(np.int64)
        n_least, what = int(codes.sum()), "training rows with an event"
    _refuse_few(n_least, what, n_folds)
    return fold_of_rows(codes, train.n_rows, n_folds, seed), None


def _refuse_few(number: int, what: str, n_folds: int) -> None:
    if number < 2 * n_folds:
        raise RowsError(f"{number} {what} are too few for {n_folds} folds: pass fewer folds, 2 or more")


def _columns(X: Any, member: Member, rows: Rows) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the positions in X of the columns that the model knows, and their names as X or the model has them."""
    table = Table(X)
    if member.layers:
        names = member.sources
        by_name = table.names is not None and member.named
        known = {name: k for k, name in enumerate(table.names or ())}
        at = np.array([known[name] for name in names] if by_name else range(len(names)), dtype=np.int64)
        return at, names
    order = column_order(table.names, table.shape[1], rows.ensemble)
    at = np.arange(table.shape[1]) if order is None else np.array(order, dtype=np.int64)
    if table.names is None or member.feature_names is not None:
        return at, rows.ensemble.feature_names
    return at, tuple(table.names[k] for k in at)


def _sizes(n_features: int, n_unused: int) -> list[int]:
    """Return the numbers of features that are dropped in the sets that are tried; the first has all that are unused."""
    sizes = {n_unused} | {n_unused + int(np.ceil((n_features - n_unused) * share)) for share in SHARES}
    return sorted(size for size in sizes if 0 < size < n_features)


def _asked(columns: Iterable[str], names: tuple[str, ...]) -> list[str]:
    """Return the features of the one set to try, each once."""
    asked = list(dict.fromkeys([columns] if isinstance(columns, str) else map(str, columns)))
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise RowsError(
            f"columns has {unknown[0]!r}, which is no feature that can be dropped.{nearest(unknown[0], names)} "
            f"There are: {listed(names)}"
        )
    if not asked or len(asked) == len(names):
        raise RowsError("columns must be the names of features to drop together: one or more, and not all of them")
    return asked


def _refuse_out_of_range(tolerance: Any, alpha: Any, folds: Any, rows: Any, train: Any) -> None:
    """Refuse arguments without a meaning, before anything takes long."""
    check_procedure("fwer", alpha)
    is_number = isinstance(tolerance, (int, float, np.number)) and not isinstance(tolerance, bool)
    if not is_number or not 0 < tolerance < 1:
        raise CompositionError(
            f"tolerance={tolerance!r} must be between 0 and 1: the share of the gain that may be lost, such as 0.05"
        )
    if isinstance(folds, bool) or not isinstance(folds, (int, np.integer)) or folds < 2:
        raise CompositionError(f"folds={folds!r} must be a whole number, 2 or more")
    if rows not in ("auto", "held-out"):
        raise CompositionError(
            f"rows={rows!r} cannot be used: a certificate needs rows that the model has not seen ('auto' or 'held-out')"
        )
    if train is None:
        raise RowsError("droppable trains the model again: pass its training rows as train=(X_train, y_train)")


def _refuse_without_loss(objective: Objective) -> None:
    """Refuse objectives of which nothing has a loss that is known, before anything is asked about the rows."""
    if objective.compared_by is None:
        raise CompositionError(
            f"droppable compares losses, and {objective.no_loss}. Of such models debias tells which "
            "features matter (debias.audit), and not which may be dropped"
        )


def _refuse_rows(rows: Rows) -> None:
    """Refuse rows that the model has seen, and training rows of other trees."""
    if rows.kind != RowsKind.HELD_OUT:
        raise ProvenanceError(
            "these are training rows of the model, and a certificate needs rows that it has not seen. Split the rows "
            "before training; cross-validation does not replace this, because its losses depend on one another"
        )
    if rows.train is None:
        raise UnsupportedModelError(
            "the trees were grown on other rows than those of train= (resampled ones), so the refits cannot be compared"
        )
    refuse_shared(rows, rows.train)
