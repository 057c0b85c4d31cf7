"""``debias.clusters``: features that say the same, clustered by likeness, each cluster tested as one feature.

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
from debias.results.clusters import Cluster, Clusters, nodes
from debias.results.rest import REST
from debias.results.untested import TRAINING_ROWS
from debias.results.vocabulary import RowsKind
from debias.rows.request import Request
from debias.rows.surrogates import associations
from debias.significance.procedure import Permutation, Procedure
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.data.user_rows import Dataset
    from debias.random_state import RandomState
    from debias.results.scores import Scores
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level

LEAST_LIKENESS = 0.5
"""Clusters of a lower mean likeness are not tested, by default."""


@explains_wrong_arguments
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
    groups: Mapping[str, Any] | None = None,
    level: Level | None = None,
    least_likeness: float = LEAST_LIKENESS,
    error_rate: float = 0.05,
    n_permutations: int = 200,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Clusters:
    """Cluster features that say the same, and test which clusters are informative although no feature is alone.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, groups, level, random_state, n_jobs
        As for :func:`audit`.
    least_likeness : float
        Clusters whose mean likeness is lower than this are not tested. Between 0 and 1.
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
    The likeness of two features is the larger of two figures, of at most 2,000 rows. One is their absolute rank
    correlation (Spearman), 0 for features that are missing in different rows and for columns of categories, unless
    these correspond one to one. The other is how well one replaces the other in the trees: of the mistakes that remain
    if the splits on a feature are replaced by sending all rows to the larger side, the share that a split of the same
    rows on the other feature avoids (surrogate splits, Breiman et al. 1984). It is that of the direction in which it is
    larger. Groups of several columns, and features that a pipeline makes several columns of, have the likeness 0. The
    distance is 1 minus the likeness, and clusters are joined by average linkage. The responses of the rows are not used
    for this.

    The score of a cluster is the sum of those of its features (``mdi_oob``). Its z is that of an audit in which the
    cluster is a group (``groups=``). The adjusted p-values are those of the step-down of the largest z over features
    and clusters together, in the same permutations.

    References
    ----------
    Breiman, L., Friedman, J., Olshen, R., Stone, C. (1984). Classification and Regression Trees, 5.3. Wadsworth.
    Seifert, S., Gundlach, S., Szymczak, S. (2019). Surrogate minimal depth as an importance measure for variables in
    random forests. Bioinformatics 35, 3663-3671.
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
    is_number = isinstance(least_likeness, (int, float, np.number)) and not isinstance(least_likeness, bool)
    if not is_number or not 0 < least_likeness < 1:
        raise CompositionError(f"least_likeness must be between 0 and 1, not {least_likeness!r}")
    procedure = Procedure.of(Permutation(n_permutations, adaptive=False), error_rate)
    assert procedure is not None
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        groups=groups,
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
    return _tested(prepared, procedure, least_likeness)


def _tested(prepared: PreparedRows, procedure: Procedure, least_likeness: float) -> Clusters:
    """Cluster the features, and test features and clusters together."""
    names, n = prepared.grouping.names, len(prepared.grouping.names)
    linkage = _linkage(_likeness(prepared))
    members, generation = nodes(linkage, n), [0] * n
    for left, right, *_ in linkage:
        generation.append(1 + max(generation[int(left)], generation[int(right)]))
    tested = [n + step for step, row in enumerate(linkage) if row[2] <= 1 - least_likeness]

    scores = _of_partition(prepared, [], procedure)
    z = np.full(n + len(tested), np.nan)
    assert scores.z is not None
    assert scores.null is not None
    null = np.empty((len(scores.null), z.size))
    z[:n], null[:, :n] = scores.z, scores.null
    # Clusters of one generation share no feature, so one partition of the features tests them all.
    for each in sorted({generation[node] for node in tested}):
        columns = [k for k, node in enumerate(tested) if generation[node] == each]
        together = _of_partition(prepared, [members[tested[k]] for k in columns], procedure)
        assert together.z is not None
        assert together.null is not None
        at = [together.feature_names.index(_name(c)) for c in range(len(columns))]
        z[[n + k for k in columns]], null[:, [n + k for k in columns]] = together.z[at], together.null[:, at]

    p_adjusted = p_values.step_down_max(z, null)
    place = {node: k for k, node in enumerate([*range(n), *tested])}
    for node in tested:  # a part that carries information shows that the whole does; parts come before the whole
        parts = linkage[node - n, :2].astype(int).tolist()
        p_adjusted[place[node]] = min(p_adjusted[place[each]] for each in (node, *parts))
    selected = p_adjusted <= procedure.alpha
    total = float(np.maximum(scores.values, 0.0).sum()) or 1.0
    found = []
    for k, node in enumerate(tested):
        score = float(scores.values[list(members[node])].sum())
        found.append(
            Cluster(
                features=tuple(names[j] for j in members[node]),
                likeness=float(1 - linkage[node - n, 2]),
                score=score,
                share=max(score, 0.0) / total,
                z=float(z[n + k]),
                p_adjusted=float(p_adjusted[n + k]),
                selected=bool(selected[n + k]),
            )
        )
    of_features = replace(
        scores,
        p_adjusted=p_adjusted[:n],
        selected=selected[:n],
        threshold=None,
        details={name: value for name, value in scores.details.items() if name != REST},  # the rest is another one now
    )
    return Clusters(of_features, tuple(found), linkage, least_likeness)


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


def _likeness(prepared: PreparedRows) -> NDArray[np.float64]:
    """Return the likeness of every two features, 0 where they are not compared."""
    ensemble, grouping, table = prepared.rows.ensemble, prepared.grouping, prepared.rows.table
    likeness = np.zeros((len(grouping.names), len(grouping.names)))
    single = np.flatnonzero(np.bincount(grouping.index, minlength=len(grouping.names)) == 1)
    column_of = np.zeros(len(grouping.names), dtype=np.int64)
    column_of[grouping.index] = np.arange(grouping.index.size)
    columns, of_categories = column_of[single], category_columns(ensemble)
    X = table.matrix(ensemble, evenly_spaced(table.n_rows, MOST_ROWS))[:, columns]
    related = rank_correlations(X, np.isin(columns, of_categories))
    replaced = associations(prepared.rows, columns, of_categories)
    likeness[np.ix_(single, single)] = np.maximum(related, np.maximum(replaced, replaced.T))
    return likeness


def _linkage(likeness: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    if len(likeness) < 2:
        return np.empty((0, 4))
    distance = 1 - likeness
    np.fill_diagonal(distance, 0.0)
    tree: NDArray[np.float64] = linkage(squareform(distance, checks=False), "average")
    return tree
