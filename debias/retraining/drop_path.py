"""The order in which features are dropped, found from training rows alone.

Models are trained on folds of the training rows. Features are dropped one after the other: each time the one whose
splits add the least to the loss of these models, on the rows left out of each (:mod:`debias.rows.frozen_loss`).

Frozen trees charge a feature for what a twin, a column that says nearly the same, would take over in a refit. So the
charge of feature j, once the features S are dropped, is the smallest, over the twins t of j that stay, of::

    rise(S + j) - rise(S)    and    (1 - rho^2) (rise(S + j + t) - rise(S))

with the rank correlation rho of j and t: the second is what both together add, times what t does not say of j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.user_columns import chosen_columns
from debias.errors import CompositionError, RowsError, UnsupportedModelError
from debias.models.refitting import refit
from debias.models.wrappers import is_wrapper, unwrap
from debias.parallel import current
from debias.positions import evenly_spaced
from debias.results.vocabulary import RowsKind
from debias.retraining.experiment import Part
from debias.rows.frozen_loss import FrozenLoss, mean_rises
from debias.rows.preparation import prepare
from debias.rows.request import Request
from debias.text import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.models.wrappers import Member
    from debias.rows.rows import Rows

    Array = NDArray[np.float64]

ONE_BY_ONE = 30
"""Up to this many features are dropped one by one, and of more several at a time."""
RECOMPUTED = 6
"""Charges are recomputed for this many of the features that were the cheapest before."""
TWINS = 0.7
"""Columns with at least this absolute rank correlation are twins."""
MOST_ROWS = 2000
"""Losses of fold models are computed on at most this many left out rows of each, and rank correlations on as many."""
SETTINGS_OF_COLUMNS = (
    *("monotonic_cst", "interaction_cst", "categorical_features"),  # scikit-learn
    *("monotone_constraints", "interaction_constraints", "feature_weights", "feature_types"),  # XGBoost, and others
    *("categorical_feature", "feature_contri", "max_bin_by_feature", "text_features", "embedding_features"),
)
"""Settings of models that name their columns, or have an entry for each."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FewerFeatures:
    """A fitted model and its training rows, from which it is trained again without some features.

    Parameters
    ----------
    model : object
        It is never changed.
    training : Part
        The training rows, with their weights and, for a ranker, their queries.
    grouping : Grouping
        The features, and the feature of each column that the model knows.
    at : array of int64 of shape (n_columns,)
        Position of each of these columns in the X of the training rows.
    params : mapping or None
        Hyper-parameters that replace those that the model stores.
    seed : int
    """

    model: Any
    training: Part
    grouping: Grouping
    at: NDArray[np.int64]
    params: Mapping[str, Any] | None
    seed: int

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.grouping.names)

    def kept(self, dropped: Sequence[int]) -> NDArray[np.int64]:
        """Return the columns that stay if some features are dropped."""
        return np.flatnonzero(~np.isin(self.grouping.index, np.asarray(dropped, dtype=np.int64)))

    def fit(self, dropped: Sequence[int], number: int, rows: NDArray[np.int64] | None = None) -> Any:
        """Train the model without some features, on some of the training rows or on all.

        Parameters
        ----------
        dropped : sequence of int
        number : int
            Number of the fit, for its seed.
        rows : array of int64, optional
            Positions of training rows.

        Raises
        ------
        RowsError
            The model cannot be trained without these columns.
        """
        part = self.training if rows is None else self.training.rows(rows)
        X = chosen_columns(part.X, self.at[self.kept(dropped)])
        weight = None if part.weight is None else np.asarray(part.weight, dtype=np.float64)
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0] >> 1)
        try:
            return refit(self.model, X, part.y, weight, qid=part.qid, random_state=seed, n_jobs=1, params=self.params)
        except RowsError as error:
            if not dropped:
                raise
            names = listed([self.grouping.names[k] for k in dropped])
            fewer = (
                ". Smaller sets may work: pass columns=, or train the model with settings that suit fewer columns, "
                "such as max_features as a share"
            )
            hint = (
                ". If a step names its columns, choose them by type (sklearn.compose.make_column_selector), or pass "
                "the model inside, with the rows as the steps transform them"
            )
            raise RowsError(
                f"the model cannot be trained without {names}: {error}{hint if is_wrapper(self.model) else fewer}"
            ) from error

    def loss(self, fitted: Any, dropped: Sequence[int], rows: NDArray[np.int64]) -> FrozenLoss:
        """Return the loss of a model of :meth:`fit` on training rows that it has not seen."""
        part = self.training.rows(rows)
        evaluated, member = unseen_rows(fitted, part, self.at[self.kept(dropped)])
        place = columns_in_X(member, self.kept(dropped).size)
        return FrozenLoss(evaluated, self.grouping.index[self.kept(dropped)][place], self.n_features)


def unseen_rows(fitted: Any, part: Part, at: NDArray[np.int64]) -> tuple[Rows, Member]:
    """Return rows with some columns, prepared for a model that debias has just trained on others.

    Parameters
    ----------
    fitted : object
    part : Part
    at : array of int64
        Positions of the columns of X that the model was trained on, in their order.
    """
    X = chosen_columns(part.X, at)
    held_out = RowsKind.HELD_OUT
    request = Request(model=fitted, X=X, y=part.y, rows=held_out, sample_weight=part.weight, qid=part.qid)
    (member,) = unwrap(fitted, X, part.y, None, held_out)
    rows, _ = prepare(request, member, [], known=True)
    assert rows is not None
    return rows, member


def columns_in_X(member: Member, n_columns: int) -> NDArray[np.int64]:
    """Return for each column of a model of trees the column of X that it is made of.

    Parameters
    ----------
    member : Member
        Unwrapped with X, whose columns are those that the outermost model was trained on, in their order.
    n_columns : int
        Number of columns of X.

    Raises
    ------
    CompositionError
        A column of the model is made of several columns of X.
    """
    if member.columns is None:
        if member.ensemble.n_features != n_columns:
            raise CompositionError(
                f"this {member.ensemble.source} has {member.ensemble.n_features} columns and was trained on "
                f"{n_columns}: it combines columns, so that it cannot be said which of them a drop costs. CatBoost: "
                "train the model without combinations of columns, max_ctr_complexity=1"
            )
        return np.arange(n_columns)
    place = {name: k for k, name in enumerate(member.sources)}
    shared = [name for name in member.columns.names if name not in place]
    if shared:
        raise CompositionError(
            f"the {member.path[0]} makes columns of several columns of X ({listed(shared)}), so these cannot be "
            "dropped one by one. Pass the model inside, with the rows as its steps transform them"
        )
    of_group = np.array([place[name] for name in member.columns.names])
    return of_group[member.columns.index]


def refuse_settings_of_columns(model: Any) -> None:
    """Refuse models whose settings name columns, which would be others once a column is dropped.

    Raises
    ------
    UnsupportedModelError
        The message names the setting.
    """
    for member in unwrap(model):
        inner = member.model
        is_estimator = hasattr(inner, "get_params")
        settings = inner.get_params() if is_estimator else getattr(inner, "params", None) or {}
        for name in SETTINGS_OF_COLUMNS:
            if name == "categorical_feature" and not is_estimator:
                continue  # a Booster of LightGBM from a file has positions there, which its refits follow by name
            value = settings.get(name)
            if value is not None and not isinstance(value, str):
                raise UnsupportedModelError(
                    f"this {type(inner).__name__} has the setting {name}, which names its columns or has an entry for "
                    "each, and would not fit fewer columns: train the model without it (categories by the dtype of "
                    "their columns), or compare refits of your own with debias.audit"
                )


def twins(rows: Rows, feature: NDArray[np.int64]) -> dict[int, list[tuple[int, float]]]:
    """Return for each feature those that say nearly the same, each with what it does not say: 1 - rho^2.

    Parameters
    ----------
    rows : Rows
        The training rows. Rank correlations are those of columns as the trees see them.
    feature : array of int64 of shape (n_columns,)
        Feature of each column of the model. Features of several columns have no twins.
    """
    from scipy.stats import rankdata

    single = np.flatnonzero(np.bincount(feature)[feature] == 1)
    matrix = rows.table.matrix(rows.ensemble, evenly_spaced(rows.n_rows, MOST_ROWS))[:, single]
    values = np.where(np.isnan(matrix), -np.inf, matrix).astype(np.float64)  # SciPy 1.18 gives ranks the type of values
    ranks = rankdata(values, axis=0)  # missing values are one value of their own
    deviation = ranks - ranks.mean(axis=0)
    length = np.sqrt((deviation**2).sum(axis=0))
    scaled = np.divide(deviation, length, out=np.zeros_like(deviation), where=length > 0)
    correlation = scaled.T @ scaled
    np.fill_diagonal(correlation, 0.0)
    of_feature = feature[single]
    return {
        int(of_feature[j]): [
            (int(of_feature[t]), float(max(0.0, 1 - correlation[j, t] ** 2)))
            for t in np.flatnonzero(np.abs(correlation[j]) >= TWINS)
        ]
        for j in range(single.size)
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class DropPath:
    """How the order is found.

    Parameters
    ----------
    of : FewerFeatures
    twins : dict
        From :func:`twins`.
    fold : array of int64 of shape (n_train,)
        From :func:`fold_of_rows`.
    query : array of int64 of shape (n_train,), or None
        Query of each training row, for rankers; -1 for a query with nothing to rank. Queries are left out as wholes.
    refitted : bool
        Whether fold models are trained again at each number of features, and not only with all features.
    """

    of: FewerFeatures
    twins: dict[int, list[tuple[int, float]]]
    fold: NDArray[np.int64]
    refitted: bool
    query: NDArray[np.int64] | None = None

    @property
    def at_a_time(self) -> int:
        """Number of features that are dropped at a time."""
        return -(-self.of.n_features // ONE_BY_ONE)

    def order(self, sizes: Sequence[int]) -> list[int]:
        """Return the features in the order in which they are dropped, as many as the largest of `sizes`."""
        order: list[int] = []
        for number, size in enumerate(sizes if self.refitted else sizes[-1:]):
            order = self._further(self._losses(order, number), order, size)
        return order

    def _losses(self, dropped: list[int], number: int) -> list[FrozenLoss]:
        """Return the losses of the models of all folds, trained without some features."""
        n_folds = int(self.fold.max()) + 1

        def of_fold(k: int) -> FrozenLoss:
            fitted = self.of.fit(dropped, 1000 + n_folds * number + k, np.flatnonzero(self.fold != k))
            return self.of.loss(fitted, dropped, self._some(np.flatnonzero(self.fold == k)))

        return current().map(of_fold, range(n_folds), "refits")

    def _some(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return about MOST_ROWS of some rows, or all; of queries, all rows of those that have something to rank."""
        if self.query is None:
            return rows[evenly_spaced(rows.size, MOST_ROWS)]
        rows = rows[self.query[rows] >= 0]
        queries = np.unique(self.query[rows])
        chosen = queries[evenly_spaced(queries.size, max(2, MOST_ROWS * queries.size // rows.size))]
        return rows[np.isin(self.query[rows], chosen)]

    def _further(self, losses: list[FrozenLoss], order: list[int], size: int) -> list[int]:
        """Drop the cheapest features, until there are as many as `size`. Those without a split cost nothing."""
        used = np.logical_or.reduce([each.used for each in losses])
        dropped = [*order, *(k for k in range(used.size) if not used[k] and k not in order)][: max(size, len(order))]
        rest = [k for k in range(used.size) if k not in dropped]
        if len(dropped) == size:
            return dropped
        charges = dict(zip(rest, self._charges(losses, dropped, rest), strict=True))
        while len(dropped) < size:
            rest.sort(key=charges.__getitem__)
            n_now = min(self.at_a_time, size - len(dropped))
            cheapest = rest[: n_now + RECOMPUTED - 1]
            charges.update(zip(cheapest, self._charges(losses, dropped, cheapest), strict=True))
            cheapest.sort(key=charges.__getitem__)
            dropped += cheapest[:n_now]
            rest = [k for k in rest if k not in cheapest[:n_now]]
        return dropped

    def _charges(self, losses: list[FrozenLoss], dropped: list[int], candidates: list[int]) -> list[float]:
        """Return what it costs to drop each of some features too, as far as no twin that stays replaces it."""
        gone = set(dropped)
        without: list[tuple[int, int | None, float]] = [(j, None, 1.0) for j in candidates]
        without += [(j, t, left) for j in candidates for t, left in self.twins.get(j, ()) if t not in gone]
        left_out = np.zeros((1 + len(without), self.of.n_features), dtype=bool)
        left_out[:, dropped] = True
        for row, (j, t, _) in zip(left_out[1:], without, strict=True):
            row[[j] if t is None else [j, t]] = True
        rises = mean_rises(losses, left_out)
        charge = dict.fromkeys(candidates, np.inf)
        for (j, _, left), rise in zip(without, rises[1:] - rises[0], strict=True):
            charge[j] = min(charge[j], left * float(rise))
        return [charge[j] for j in candidates]


def fold_of_rows(codes: NDArray[np.int64] | None, n_rows: int, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold in which each training row is left out, -1 for none.

    Parameters
    ----------
    codes : array of int64 of shape (n_rows,), or None
        Classes; each is divided evenly among the folds, which do not depend on the numbers of the classes. A row that
        is the only one of its class is never left out, because a model that has not seen its class cannot predict it.
    n_rows, n_folds, seed : int
    """
    order = np.random.default_rng(seed).permutation(n_rows)
    fold = np.empty(n_rows, dtype=np.int64)
    if codes is None:
        fold[order] = np.arange(n_rows) % n_folds
        return fold
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = order[np.argsort(first[codes[order]], kind="stable")]
    fold[order] = np.arange(n_rows) % n_folds
    fold[np.bincount(codes)[codes] == 1] = -1
    return fold
