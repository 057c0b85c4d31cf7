"""Ablation: what the splits on a feature add to a model, tested by rows that the model has not seen.

The output without a feature is the path-dependent expectation of Lundberg, Erion and Lee (2018). AICO (Giesecke, Horel
and Jirachotkulthorn 2025) tests masked features row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.data.groups import Grouping
from debias.parallel import allowed
from debias.plugin import CompositionError, check_procedure, refuse_seen_rows, row_test
from debias.rows.dependent_columns import dependent_features
from debias.rows.without import child_shares, effects, outputs_without

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import Rows, TreeEnsemble

    Array = NDArray[np.float64]

MEASURES = ("both", "effect", "splits", "loss")
VALUES_AT_ONCE = 2**24
"""At most about this many effects are held in memory, but at least those of one group."""


@debias.plugin.scorer_plugin("ablation", unit="covariance of effect and response")
def ablation(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    measure: str = "both",
    together: Mapping[str, Sequence[str]] | None = None,
    least_correlation: float = 0.2,
    alpha: float = 0.05,
    error: str = "fwer",
) -> tuple[Array, dict[str, Any]]:
    """Return what the splits on each feature add to the model on rows it has not seen, with p-values by rows.

    The output without a feature is that of the same trees where a row goes both ways at the splits on the feature, in
    the shares of the evaluation rows (the path-dependent expectation of TreeSHAP). The *effect* of a feature on a row
    is the output minus the output without the feature. Nothing is refitted or permuted.

    The score is the covariance, over rows, of the effect and a residual: the response minus the output without the
    feature and without all features that depend on it. For boosted models the residual is the negative gradient of the
    loss at that margin. The mean of the score is 0 for a feature that is independent of the response and of all
    features that the response depends on, also if it depends on other such features.

    Parameters
    ----------
    measure : {"both", "effect", "splits", "loss"}
        What is tested. "effect": the score. "splits": the covariance of the residual with the steps at the splits on
        the feature, centred in each node as in ``mdi_oob``. It has more power for a feature that others can replace,
        and less for a pure interaction. "both": the larger of the two, given their correlation; the score is that of
        "effect". "loss": the loss of the model without the feature minus the loss of the model. Its mean is below 0
        for a useless feature, so it has less power. It answers another question: does the model predict better with
        these splits?
    together : mapping of str to sequence of str, optional
        Groups of columns whose splits are left out together. The columns of a group share its score equally, and have
        its p-values.
    least_correlation : float
        Features with at least this absolute correlation with the feature depend on it (ranks, folded ranks, categories
        and missing values are compared). They are left out of the model from which the residual is taken.
    alpha : float
        Error rate of the test.
    error : {"fwer", "fdr", "fdr_by"}
        Adjust the p-values for this error rate: family-wise (Holm), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores have standard errors by rows (by blocks, if there are `blocks`), z-values, p-values and decisions.
        ``details["loss_saved"]`` is the mean of the loss without the feature minus the loss with it; it is left out if
        the loss is not known (custom objectives). ``details["left_out_together"]`` is the number of other columns that
        depend on each column; ``details["p_value_of"]`` has the p-values of "effect" and "splits", for "both".

    Raises
    ------
    CompositionError
        An option is out of range, the rows are out-of-bag rows, or the loss is not known.
    RowsError
        The rows are training rows, or fewer than two.

    Notes
    -----
    The residual does not use the feature or what depends on it, so the effect of a feature of noise is uncorrelated
    with it. Its variance is that of the response which the rest of the model leaves over, and not all of the variance
    of the response. This is the gain over ``mdi_oob``, most of all for boosted models that predict well.
    """
    if measure not in MEASURES:
        raise CompositionError(f"measure={measure!r} is not one of {', '.join(map(repr, MEASURES))}")
    real = isinstance(least_correlation, (int, float)) and not isinstance(least_correlation, bool)
    if not real or not 0 < least_correlation <= 1:
        raise CompositionError(f"least_correlation must be above 0 and at most 1, not {least_correlation!r}")
    check_procedure(error, alpha)
    X = rows.table.matrix(ensemble)
    refuse_seen_rows(rows, "ablation", ". On out-of-bag rows, use mdi_oob")
    objective = ensemble.objective
    if objective.compares_rows:
        raise CompositionError(f"ablation needs the gradient of each row at any margin, and {objective.no_loss}")
    if measure == "loss" and not objective.has_loss:
        raise CompositionError(f"ablation(measure='loss') needs the loss, and {objective.no_loss}: leave measure out")
    grouping = Grouping.of(together, ensemble.feature_names)
    group, size = grouping.index, np.bincount(grouping.index)
    row_values, saved, n_dependent = _row_values(ensemble, rows, X, group, measure, least_correlation)
    tests = {name: row_test(of_rows, rows.weight, rows.blocks, error=error) for name, of_rows in row_values.items()}
    tested = tests[measure] if measure != "both" else tests["effect"].or_other(tests["splits"])
    of_columns = tested.of_members(group, size)
    details = of_columns.details(alpha, rows.blocks is not None) | of_columns.ranks(alpha)
    if measure == "both":
        details["p_value_of"] = {name: test.p_value[group].tolist() for name, test in tests.items()}
    if saved is not None:
        details["loss_saved"] = (saved / size)[group].tolist()
    if measure != "loss":
        details["left_out_together"] = n_dependent[group].tolist()
    return (tested.mean / size)[group], details


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return ablation."""
    return [ablation]


def _row_values(
    ensemble: TreeEnsemble,
    rows: Rows,
    X: NDArray[np.floating[Any]],
    group: NDArray[np.int64],
    measure: str,
    least_correlation: float,
) -> tuple[dict[str, Array], Array | None, NDArray[np.int64]]:
    """Return the values of each row and group, the mean loss each group saves, and the number of dependent columns."""
    n_groups, reached = int(group.max()) + 1, rows.node_sums.n
    share, weight = child_shares(ensemble, reached), rows.weight / rows.weight.sum()
    used = np.unique(group[ensemble.feature[ensemble.splits]])
    names = ("effect", "splits") if measure == "both" else (measure,)
    row_values, saved = {name: np.zeros((rows.n_rows, n_groups)) for name in names}, np.zeros(n_groups)
    left_out = {} if measure == "loss" else dependent_features(rows, group, used, least_correlation)
    leaves = rows.leaves_in(slice(None)).T if "splits" in names else None
    raw = effects(ensemble, X, share, np.full(group.size, -1), 0)[0]
    loss = _loss(ensemble, rows, raw) if ensemble.objective.has_loss else None

    def residual_without(columns: NDArray[np.bool_]) -> Array:
        return _residual(ensemble, rows, outputs_without(ensemble, X, share, columns[None])[0])

    n_dependent = np.zeros(n_groups, dtype=np.int64)
    clusters: dict[bytes, NDArray[np.bool_]] = {}  # features that depend on one another often leave out the same
    for g, columns in left_out.items():
        n_dependent[g] = columns.sum() - (group == g).sum()
        if n_dependent[g]:
            clusters.setdefault(columns.tobytes(), columns)
    with allowed(rows.n_jobs) as threads:
        residuals = dict(zip(clusters, threads.map(residual_without, clusters.values()), strict=True))

    def add(some: NDArray[np.int64]) -> None:
        number = np.full(n_groups, -1)
        number[some] = np.arange(some.size)
        effect = effects(ensemble, X, share, number[group], some.size)[1]
        for place, g in enumerate(some.tolist()):
            own = np.ascontiguousarray(effect[place])  # sums over it do not depend on how many are held at once
            if loss is not None:
                loss_saved = _loss(ensemble, rows, raw - own) - loss
                saved[g] = weight @ loss_saved
                if measure == "loss":
                    row_values["loss"][:, g] = loss_saved
                    continue
            residual = residuals.get(left_out[g].tobytes())
            if residual is None:
                residual = _residual(ensemble, rows, raw - own)
            if "effect" in row_values:
                row_values["effect"][:, g] = ((own - weight @ own) * (residual - weight @ residual)).sum(axis=1)
            if leaves is not None:
                row_values["splits"][:, g] = _steps(ensemble, leaves, reached, group == g, rows.weight, residual)

    step = max(1, min(VALUES_AT_ONCE // (rows.n_rows * ensemble.n_outputs), -(-used.size // max(1, rows.n_jobs))))
    with allowed(rows.n_jobs) as threads:
        threads.map(add, [used[begin : begin + step] for begin in range(0, used.size, step)], "groups of features")
    return row_values, None if loss is None else saved, n_dependent


def _steps(
    ensemble: TreeEnsemble,
    leaves: NDArray[np.int32],
    reached: Array,
    member: NDArray[np.bool_],
    weight: Array,
    residual: Array,
) -> Array:
    """Return the value of each row at the splits on the columns of a group, shape (n_rows,)."""
    from debias_plugins.scorers.kernels import ablation as kernels

    row_value = np.zeros(leaves.shape[1])
    nodes = (ensemble.feature, ensemble.left, ensemble.right, ensemble.parent, ensemble.centred_value, reached)
    arrays = (leaves, ensemble.tree_start, ensemble.tree_output, *nodes, member.view(np.uint8), weight)
    kernels.add_steps(*arrays, np.ascontiguousarray(residual), row_value)
    return row_value / ensemble.n_trees if ensemble.averaged else row_value


def _residual(ensemble: TreeEnsemble, rows: Rows, raw: Array) -> Array:
    """Return the response minus an output, or the negative gradient at a margin, shape (n_rows, n_outputs)."""
    if ensemble.averaged:
        return _response(ensemble, rows) - raw
    assert rows.response.target is not None
    return ensemble.objective.response(rows.response.target, raw + _start(ensemble, rows))


def _loss(ensemble: TreeEnsemble, rows: Rows, raw: Array) -> Array:
    """Return the loss of each row: the squared error (Brier score) of forests, the model's own loss of boosters."""
    if ensemble.averaged:
        return ((_response(ensemble, rows) - raw) ** 2).sum(axis=1)
    assert rows.response.target is not None
    return ensemble.objective.loss(rows.response.target, raw + _start(ensemble, rows))


def _response(ensemble: TreeEnsemble, rows: Rows) -> Array:
    """Return the response of an averaged model, less its centre; classes are one-hot."""
    if rows.response.values is not None:
        return rows.response.values
    assert rows.response.codes is not None
    return np.eye(ensemble.n_outputs)[rows.response.codes]


def _start(ensemble: TreeEnsemble, rows: Rows) -> Array:
    return ensemble.base if rows.response.margin is None else rows.response.margin
