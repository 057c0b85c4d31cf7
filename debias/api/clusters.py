"""``debias.clusters``: correlated features, clustered by rank correlation, each cluster tested as one feature.

Twins share their score, so each may be unconfirmed alone although together they are informative. Features and
clusters are one family of hypotheses. All are tested by the same permutations, and the step-down of the largest z
bounds the family-wise error rate over all of them (Westfall and Young 1993), whatever the overlap of the clusters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import p_values
from debias.api.prepared import PreparedRows, prepared_members
from debias.api.row_facts import category_columns
from debias.data.groups import Grouping
from debias.data.similar_columns import MOST_ROWS, rank_correlations
from debias.errors import CompositionError, DebiasError, RowsError
from debias.hooks.expressions import scorer
from debias.models.wrappers import is_one, members_in_words
from debias.parallel import in_threads
from debias.positions import evenly_spaced
from debias.progress import with_progress
from debias.results.clusters import Cluster, Clusters
from debias.results.untested import TRAINING_ROWS
from debias.results.vocabulary import RowsKind
from debias.rows.request import Request
from debias.significance.procedure import Permutation, Procedure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.user_rows import Dataset
    from debias.random_state import RandomState
    from debias.results.scores import Scores
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level

LEAST_CORRELATION = 0.5
"""Clusters of a lower mean absolute rank correlation are not tested, by default."""


@in_threads
@with_progress
def clusters(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    level: Level | None = None,
    least_correlation: float = LEAST_CORRELATION,
    error_rate: float = 0.05,
    n_permutations: int = 200,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Clusters:
    """Cluster correlated features, and test which clusters are informative although their features are not alone.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, level, random_state, n_jobs
        As for :func:`audit`.
    least_correlation : float
        Clusters whose mean absolute rank correlation is lower than this are not tested. Between 0 and 1.
    error_rate : float
        Family-wise error rate over all features and clusters.
    n_permutations : int
        Number of permutations.

    Returns
    -------
    Clusters
        ``.summary()`` has the sentences, ``.to_frame()`` the clusters, and ``.plot()`` draws bars and tree.

    Raises
    ------
    CompositionError
        Several models are combined, the rows come in batches, or they cannot be tested by permutations.
    DebiasError
        As for :func:`audit`.

    Notes
    -----
    The distance of two features is 1 minus their absolute rank correlation (Spearman), of at most 2,000 rows. Features
    that are missing in different rows, columns of categories of which neither tells the other, and features that a
    pipeline makes several columns of have the distance 1. Clusters are joined by average linkage.

    The score of a cluster is the sum of those of its features (``mdi_oob``). Its z is that of an audit in which the
    cluster is a group (``groups=``). The adjusted p-values are those of the step-down of the largest z over features
    and clusters together, in the same permutations.

    References
    ----------
    Westfall, P., Young, S. (1993). Resampling-Based Multiple Testing. Wiley, algorithm 2.8.
    Meinshausen, N. (2008). Hierarchical testing of variable importance. Biometrika 95, 265-278.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> found = debias.clusters(forest, X, y, random_state=0)
    >>> found.to_frame().loc["s3 + s4", "verdict"]
    'informative'
    """
    if not 0 < least_correlation < 1:
        raise CompositionError(f"least_correlation must be between 0 and 1, not {least_correlation!r}")
    procedure = Procedure.of(Permutation(n_permutations, adaptive=False), error_rate)
    assert procedure is not None
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        level=level,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    if not is_one(request.members):
        raise CompositionError(f"clusters are those of one model of trees, but {members_in_words(request.members)}")
    [prepared] = prepared_members(request, [scorer("mdi_oob")], tested=True)
    if not isinstance(prepared, PreparedRows):
        raise CompositionError("clusters need all rows at once: pass X and y in memory")
    if prepared.rows.kind == RowsKind.TRAIN:
        raise RowsError(f"clusters cannot be tested: {TRAINING_ROWS}")
    return _tested(prepared, procedure, least_correlation)


def _tested(prepared: PreparedRows, procedure: Procedure, least_correlation: float) -> Clusters:
    """Cluster the features, and test features and clusters together."""
    names, n = prepared.grouping.names, len(prepared.grouping.names)
    linkage = _linkage(_correlations(prepared))
    members: list[tuple[int, ...]] = [(k,) for k in range(n)]
    generation = [0] * n
    for left, right, *_ in linkage:
        one, other = int(left), int(right)
        members.append(members[one] + members[other])
        generation.append(1 + max(generation[one], generation[other]))
    nodes = [n + step for step, row in enumerate(linkage) if row[2] <= 1 - least_correlation]

    scores = _of_partition(prepared, [], procedure)
    z = np.full(n + len(nodes), np.nan)
    assert scores.z is not None
    assert scores.null is not None
    null = np.empty((len(scores.null), z.size))
    z[:n], null[:, :n] = scores.z, scores.null
    # Clusters of one generation share no feature, so one partition of the features tests them all.
    for each in sorted({generation[node] for node in nodes}):
        columns = [k for k, node in enumerate(nodes) if generation[node] == each]
        tested = _of_partition(prepared, [members[nodes[k]] for k in columns], procedure)
        assert tested.z is not None
        assert tested.null is not None
        at = [tested.feature_names.index(_name(c)) for c in range(len(columns))]
        z[[n + k for k in columns]], null[:, [n + k for k in columns]] = tested.z[at], tested.null[:, at]

    p_adjusted = p_values.step_down_max(z, null)
    selected = p_adjusted <= procedure.alpha
    total = float(np.maximum(scores.values, 0.0).sum()) or 1.0
    found = []
    for k, node in enumerate(nodes):
        score = float(scores.values[list(members[node])].sum())
        found.append(
            Cluster(
                features=tuple(names[j] for j in members[node]),
                correlation=float(1 - linkage[node - n, 2]),
                score=score,
                share=max(score, 0.0) / total,
                z=float(z[n + k]),
                p_adjusted=float(p_adjusted[n + k]),
                selected=bool(selected[n + k]),
            )
        )
    of_features = replace(scores, p_adjusted=p_adjusted[:n], selected=selected[:n], threshold=None)
    return Clusters(of_features, tuple(found), linkage, least_correlation)


def _of_partition(prepared: PreparedRows, sets: list[tuple[int, ...]], procedure: Procedure) -> Scores:
    """Return the tested scores of a partition of the features into these sets and single features."""
    names = prepared.grouping.names
    group_of = {k: _name(at) for at, features in enumerate(sets) for k in features}
    labels = [group_of.get(k, name) for k, name in enumerate(names)]
    ordered = tuple(dict.fromkeys(labels))
    position = {label: at for at, label in enumerate(ordered)}
    partition = Grouping(ordered, np.array([position[label] for label in labels], dtype=np.int64))
    # What a test has drawn for another partition is not that of this one.
    part = replace(prepared, grouping=partition.after(prepared.grouping), drawn={})
    mdi_oob = scorer("mdi_oob")
    scores = part.test(part.score(mdi_oob), mdi_oob, procedure)
    if scores.null is None:
        reason = scores.details.get("untested_because", "the test of these rows draws no permutations")
        raise DebiasError(f"clusters cannot be tested: {reason}")
    return scores


def _name(position: int) -> str:
    """Return the name of a set in its partition, which no feature has."""
    return f"\0{position}"


def _correlations(prepared: PreparedRows) -> NDArray[np.float64]:
    """Return the absolute rank correlation of every two features, 0 where they are not compared."""
    ensemble, grouping, table = prepared.rows.ensemble, prepared.grouping, prepared.rows.table
    related = np.zeros((len(grouping.names), len(grouping.names)))
    single = np.flatnonzero(np.bincount(grouping.index, minlength=len(grouping.names)) == 1)
    column_of = np.zeros(len(grouping.names), dtype=np.int64)
    column_of[grouping.index] = np.arange(grouping.index.size)
    columns = column_of[single]
    X = table.matrix(ensemble, evenly_spaced(table.n_rows, MOST_ROWS))[:, columns]
    related[np.ix_(single, single)] = rank_correlations(X, np.isin(columns, category_columns(ensemble)))
    return related


def _linkage(related: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    if len(related) < 2:
        return np.empty((0, 4))
    distance = 1 - related
    np.fill_diagonal(distance, 0.0)
    tree: NDArray[np.float64] = linkage(squareform(distance, checks=False), "average")
    return tree
