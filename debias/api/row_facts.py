"""What an audit tells of rows beside their scores: digests, numbers of values, performance, columns that are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from blake3 import blake3

from debias.data.blocks import warn_of_repeats
from debias.data.dataset import as_frame
from debias.data.similar_columns import MOST_ROWS, near_duplicates
from debias.data.table import distinct_values
from debias.positions import evenly_spaced
from debias.results.performance import Performance
from debias.results.vocabulary import EXPLAINED_ALONE, REPEATED, RESPONSE_VARIANCE, TWINS, UNCOUNTED, UNSEEN, RowsKind
from debias.rows.performance import performance_of
from debias.rows.unordered_digest import hashes_of
from debias.significance.censoring import features_of_censoring, warn_of_censoring
from debias.significance.contributions import coded_response
from debias.significance.subjects_and_places import (
    columns_of,
    is_identifier,
    near_in_columns,
    near_places,
    same_subject,
    warn_of_places,
    warn_of_subjects,
)
from debias.trees.fingerprint import feed, feed_trees
from debias.trees.survival_objectives import CoxObjective

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.models.wrappers import Member
    from debias.results.performance import NearDuplicates
    from debias.results.scores import Scores
    from debias.rows.request import Request
    from debias.rows.rows import Rows, SummedRows
    from debias.significance.subjects_and_places import Column
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog

MOST_ALONE = 50
"""What a feature explains by itself is computed for the features with the largest scores, at most so many (and so many
of those that are not confirmed are compared with each other),"""
LEAST_ALONE = 0.5
"""and told of those that explain at least this share of the variation of y."""
MOST_OF_CENSORING = 20_000
"""Censoring is examined on at most so many rows."""
IN_BATCHES = "the rows came in batches, or as sums over them, and only rows in memory are predicted"


class Fingerprints:
    """BLAKE3 digests of the trees of a model, and of the rows it was audited on.

    The fingerprint of trees does not depend on the object or file that holds them, and that of rows does not depend on
    their container. For a wrapper around several models, each is added in turn.
    """

    def __init__(self) -> None:
        self._model = blake3()
        self._data = blake3()

    def add(self, ensemble: TreeEnsemble, rows: Rows, X: NDArray[np.floating[Any]]) -> None:
        """Add a model and its rows: X as the library of the model compares it, y as it was encoded, and the weights."""
        self._add_model(ensemble)
        for array in (X, rows.response.codes, rows.response.values, rows.response.target, rows.weight):
            feed(self._data, array)

    def add_digest(self, ensemble: TreeEnsemble, digest: str) -> None:
        """Add a model, and the digest of rows that came in batches. It depends on how they came."""
        self._add_model(ensemble)
        self._data.update(digest.encode())

    def _add_model(self, ensemble: TreeEnsemble) -> None:
        self._model.update("\0".join(ensemble.feature_names).encode("utf-8", "surrogatepass"))
        feed_trees(self._model, ensemble)

    def to_dict(self) -> dict[str, str]:
        """Return both as hexadecimal text."""
        return {"model_blake3": self._model.hexdigest(), "data_blake3": self._data.hexdigest()}


class Facts(Protocol):
    """What is told of rows beside their scores."""

    def digested_and_counted(self, fingerprints: Fingerprints) -> NDArray[np.int64] | None:
        """Add trees and rows to fingerprints; return the number of distinct values of each group."""

    def warn_of_dependent_rows(self) -> None:
        """Warn if rows repeat others, or if those of one subject or place are alike: tests take them as independent."""

    def warn_of_censoring(self, found: NDArray[np.bool_], log: WarningLog) -> None:
        """Warn if censoring depends on features that a test found; only of models of censored times that compare rows.

        Parameters
        ----------
        found : array of bool of shape (n_features,)
        log : WarningLog
        """

    def performance(self) -> Performance:
        """Return how well the model predicts the rows."""

    def near_duplicates(self, scores: Scores) -> tuple[NearDuplicates, ...] | None:
        """Return the informative features whose columns are nearly the same; None if scores are untested or rows gone.

        A group of several columns is not compared.
        """

    def details(self, scores: Scores) -> dict[str, Any]:
        """Return details of scores: the shares of rows with unseen categories and of rows that repeat others.

        If the scores are tested, also how much of y single features explain by themselves, if that is much, and which
        features that are not confirmed are nearly the same.
        """


@dataclass(frozen=True, eq=False)
class FactsOfRows:
    """What is told of rows in memory; see :class:`Facts`.

    Parameters
    ----------
    request : Request
    member : Member
    rows : Rows
    grouping : Grouping
    log : WarningLog
    """

    request: Request
    member: Member
    rows: Rows
    grouping: Grouping
    log: WarningLog

    def digested_and_counted(self, fingerprints: Fingerprints) -> NDArray[np.int64] | None:
        """See :class:`Facts`; one matrix serves both, since making it may take long."""
        matrix = self.rows.table.matrix(self.rows.ensemble)
        fingerprints.add(self.rows.ensemble, self.rows, matrix)
        n_values = distinct_values(matrix, self.grouping)
        if self.member.columns is not None:
            _count_in_X(self.request, self.grouping.names, n_values, self.rows.is_kept)
        return n_values

    def warn_of_dependent_rows(self) -> None:
        """See :class:`Facts`; not with blocks or queries, nor on training rows, which are not tested.

        The user's columns are examined, also those that the model does not know. Repeated rows are told of instead of
        columns that may not be identifiers.
        """
        rows, log, X = self.rows, self.log, self.request.X
        if rows.blocks is not None or rows.kind == RowsKind.TRAIN:
            return
        columns, used = self._columns_of_user(), np.flatnonzero(rows.weight > 0)
        y = coded_response(rows)[used]
        found = same_subject(columns, y)
        told = False
        if self.member.X is X and (found is None or not is_identifier(found.by[0])):  # transformers make rows alike
            told = warn_of_repeats(rows.table, log)
        if found is not None and not told:
            warn_of_subjects(X, columns, found, log)
        places = near_places(columns, y)
        if found is None and not told and not places:
            unnamed = near_in_columns(columns, y)
            places = [] if unnamed is None else [unnamed]
        for near in places:
            warn_of_places(X, columns, near, y, log)

    def warn_of_censoring(self, found: NDArray[np.bool_], log: WarningLog) -> None:
        """See :class:`Facts`."""
        rows, objective = self.rows, self.rows.ensemble.objective
        if not isinstance(objective, CoxObjective) or not found.any():
            return
        assert rows.response.target is not None
        looked_at = evenly_spaced(rows.n_rows, MOST_OF_CENSORING)
        looked_at = looked_at[rows.weight[looked_at] > 0]
        time, event = objective.times_and_events(rows.response.target[looked_at])
        X = rows.table.matrix(rows.ensemble, looked_at)
        of_censoring = features_of_censoring(X, self.grouping.index, time, event, rows.weight[looked_at])
        names = [self.grouping.names[k] for k in of_censoring if found[k]]
        if names:
            warn_of_censoring(names, log)

    def _columns_of_user(self) -> list[Column]:
        """Return the columns of the user, of the rows that count; none of a sparse matrix or of texts."""
        request = self.request
        shape = getattr(request.X, "shape", None) or np.asarray(request.X).shape  # arrays of others may refuse np.shape
        if len(shape) != 2 or hasattr(request.X, "tocsr"):
            return []
        frame = as_frame(request.X)
        if request.feature_names is not None:
            frame = frame.set_axis(list(request.feature_names), axis=1)
        used = np.flatnonzero(self.rows.weight > 0 if self.rows.is_kept is None else self.rows.is_kept)
        of_user = used if self.member.positions is None else self.member.positions[used]
        return columns_of(frame.iloc[of_user], self._splits_by_column([str(name) for name in frame.columns]))

    def _splits_by_column(self, names: list[str]) -> list[int]:
        """Return the number of splits on each column of the user, or on what transformers made of it."""
        ensemble = self.rows.ensemble
        grouping = self.member.grouping(None, ensemble)
        of_group = np.bincount(grouping.index[ensemble.feature[ensemble.splits]], minlength=len(grouping.names))
        if not set(grouping.names) & set(names) and len(grouping.names) == len(names):  # the names were made up
            return of_group.tolist()
        by_name = dict(zip(grouping.names, of_group.tolist(), strict=True))
        return [by_name.get(name, 0) for name in names]

    def performance(self) -> Performance:
        """See :class:`Facts`."""
        return performance_of(self.rows)

    def near_duplicates(self, scores: Scores) -> tuple[NearDuplicates, ...] | None:
        """See :class:`Facts`."""
        return None if scores.selected is None else self._alike(scores, scores.selected)

    def _alike(self, scores: Scores, among: NDArray[np.bool_]) -> tuple[NearDuplicates, ...]:
        """Return which of some features have nearly the same column, those with the largest scores first."""
        ensemble, grouping, table = self.rows.ensemble, self.grouping, self.rows.table
        single = among & (np.bincount(grouping.index, minlength=len(grouping.names)) == 1)
        features = np.flatnonzero(single)[np.argsort(-scores.values[single], kind="stable")]
        if features.size < 2:
            return ()
        column_of = np.zeros(len(grouping.names), dtype=np.int64)
        column_of[grouping.index] = np.arange(grouping.index.size)
        columns = column_of[features]
        X = table.matrix(ensemble, evenly_spaced(table.n_rows, MOST_ROWS))[:, columns]
        return near_duplicates(X, [grouping.names[k] for k in features], np.isin(columns, category_columns(ensemble)))

    def details(self, scores: Scores) -> dict[str, Any]:
        """See :class:`Facts`."""
        rows, names = self.rows, self.rows.ensemble.feature_names
        if self.member.columns is not None:
            names = tuple(self.member.columns.names[group] for group in self.member.columns.index)
        unseen = {names[k]: number / rows.n_rows for k, number in sorted(rows.table.unseen.items()) if number}
        counted: dict[str, Any] = {UNSEEN: unseen, UNCOUNTED: list(rows.table.uncounted)}
        if self.member.columns is None and self.member.X is not self.request.X and self.member.positions is None:
            counted = {}  # of the columns that the transformers make
        repeated = 1 - np.unique(hashes_of(rows)).size / rows.n_rows
        return {**self._alone(scores), **self._twins(scores), **self._variance(), **counted, REPEATED: repeated}

    def _twins(self, scores: Scores) -> dict[str, list[dict[str, Any]]]:
        """Return which features that are not confirmed alone are nearly the same; nothing if there are none."""
        if scores.selected is None:
            return {}
        largest = np.argsort(-scores.values, kind="stable")
        among = np.zeros(largest.size, dtype=bool)
        among[largest[(~scores.selected & (scores.values > 0))[largest]][:MOST_ALONE]] = True
        found = [each.to_dict() for each in self._alike(scores, among)]
        return {TWINS: found} if found else {}

    def _variance(self) -> dict[str, float]:
        """Return the variance of y that scores are shares of; nothing if their unit is another one.

        Classes are one-hot, and the variances of columns are summed. The gradient of the log loss is a difference of
        probabilities, and divided by its own variance it is a margin: for small effects, scores are shares as they are.
        """
        objective, response, weight = self.rows.ensemble.objective, self.rows.response, self.rows.weight
        if objective.compares_rows:
            return {}
        if not self.rows.ensemble.averaged and objective.name in ("logistic", "softmax"):
            return {RESPONSE_VARIANCE: 1.0}
        if response.codes is not None:
            share = np.bincount(response.codes, weights=weight) / weight.sum()
            return {RESPONSE_VARIANCE: float(1 - share @ share)}
        numbers = response.values if self.rows.ensemble.averaged else response.target
        if numbers is None or (not self.rows.ensemble.averaged and objective.name != "squared_error"):
            return {}
        deviation = numbers - np.average(numbers, axis=0, weights=weight)
        return {RESPONSE_VARIANCE: float(np.average((deviation**2).sum(axis=1), weights=weight))}

    def _alone(self, scores: Scores) -> dict[str, dict[str, float]]:
        """Return how much of y features explain by themselves, the most first; nothing if the scores are untested."""
        if scores.selected is None:
            return {}
        largest = np.argsort(-scores.values, kind="stable")[:MOST_ALONE]
        found = shares_alone(self.rows, self.grouping.index, largest)
        alone = {self.grouping.names[k]: share for k, share in found.items() if share >= LEAST_ALONE}
        return {EXPLAINED_ALONE: dict(sorted(alone.items(), key=lambda each: -each[1]))}


@dataclass(frozen=True, eq=False)
class FactsOfSums:
    """What is told of rows that came in batches and are gone, see :class:`Facts`: little.

    Parameters
    ----------
    rows : SummedRows
    """

    rows: SummedRows

    def digested_and_counted(self, fingerprints: Fingerprints) -> None:
        """See :class:`Facts`; values are not counted."""
        fingerprints.add_digest(self.rows.ensemble, self.rows.digest)

    def warn_of_dependent_rows(self) -> None:
        """See :class:`Facts`; rows are not compared."""

    def warn_of_censoring(self, found: NDArray[np.bool_], log: WarningLog) -> None:
        """See :class:`Facts`; models that compare rows need all of them."""

    def performance(self) -> Performance:
        """See :class:`Facts`; nothing is predicted."""
        return Performance(untold_because=IN_BATCHES)

    def near_duplicates(self, scores: Scores) -> None:
        """See :class:`Facts`; columns are not compared."""

    def details(self, scores: Scores) -> dict[str, Any]:
        """See :class:`Facts`; there are none."""
        return {}


def category_columns(ensemble: TreeEnsemble) -> list[int]:
    """Return the columns that hold codes of categories."""
    labelled = set(ensemble.category_labels or {})
    if ensemble.category_set is None:
        return sorted(labelled)
    return sorted(labelled | set(ensemble.feature[ensemble.category_set >= 0].tolist()))


def _count_in_X(
    request: Request, names: tuple[str, ...], n_values: NDArray[np.int64], is_kept: NDArray[np.bool_] | None
) -> None:
    """Write the numbers of distinct values of the user's columns: transformers may give several values one code."""
    if not hasattr(request.X, "columns"):
        return
    frame = as_frame(request.X)
    if is_kept is not None and is_kept.size == len(frame):
        frame = frame.iloc[np.flatnonzero(is_kept)]
    position = {str(name): k for k, name in enumerate(frame.columns)}
    groups = request.groups if isinstance(request.groups, Mapping) else {}
    for k, name in enumerate(names):
        if name in position and name not in groups:
            n_values[k] = frame.iloc[:, position[name]].nunique()


def shares_alone(rows: Rows, feature: NDArray[np.int64], which: Iterable[int]) -> dict[int, float]:
    """Return the share of the variation of y that each of some features explains by itself, as far as it is known.

    Parameters
    ----------
    rows : Rows
        Of many, some are looked at.
    feature : array of int64 of shape (n_columns,)
        Feature of each column that the trees see.
    which : iterable of int
        The features.

    Returns
    -------
    dict of int to float
    """
    response, table = rows.response, rows.table
    looked_at = evenly_spaced(table.n_rows, MOST_ROWS)
    if response.codes is not None:
        y = np.eye(response.codes.max() + 1)[response.codes[looked_at]]
    else:
        numbers = response.values if response.target is None else response.target
        assert numbers is not None
        y = numbers[looked_at]
    if not np.isfinite(y).all():  # the upper bound of a censored time may be infinite
        return {}
    X = table.matrix(rows.ensemble, looked_at)
    found = {int(k): explained_alone(X[:, feature == k], y) for k in which}
    return {k: share for k, share in found.items() if share is not None}


def explained_alone(columns: NDArray[np.floating[Any]], y: NDArray[np.float64]) -> float | None:
    """Return the share of the variation of y that columns explain: 1 if rows with near values have the same y.

    The rows are sorted by the columns, and rows with equal values are put in random order. Half the mean squared
    difference of y between neighbours estimates the variance of y that is left if the columns are known.

    Parameters
    ----------
    columns : array of shape (n_rows, n_columns)
        One column, or the columns that are made of one, with the first as the most important one; or none.
    y : array of shape (n_rows, any)
        Numbers, or classes as one-hot columns. The variances of several columns are added up.

    Returns
    -------
    float or None
        At most 1, and about 0 for columns that have nothing to do with y. None if y is constant, or without a column.

    References
    ----------
    von Neumann, J. (1941). Distribution of the ratio of the mean square successive difference to the variance. Annals
    of Mathematical Statistics 12, 367-395.

    Examples
    --------
    >>> x = np.linspace(-3, 3, 1000)
    >>> round(explained_alone(x[:, None], x[:, None] ** 2), 3)
    1.0
    """
    variance = float(y.var(axis=0, ddof=1).sum()) if len(y) > 1 else 0.0
    if not variance > 0 or not columns.shape[1]:
        return None
    mixed = np.random.default_rng(0).permutation(len(y))
    codes = [
        np.unique(column[mixed], return_inverse=True)[1] for column in columns.T
    ]  # all missing values get one code
    order = mixed[np.lexsort(codes[::-1])]
    left = float((np.diff(y[order], axis=0) ** 2).sum(axis=1).mean()) / 2
    return 1 - left / variance
