"""Permutation importance: the decrease of a metric when a column is permuted (Breiman 2001, section 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.data.groups import Grouping
from debias.parallel import allowed
from debias.plugin import CompositionError, check_procedure, refuse_seen_rows, row_test
from debias.progress import task
from debias_plugins.scorers.metrics import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import Rows, TreeEnsemble

OUTPUTS_AT_ONCE = 2**24
"""At most about this many outputs are held in memory."""

NO_INTERVAL = (
    "a row also gives its value to other rows, and the standard error, which is right for a feature that saves no "
    "loss, is too small for one that does. ablation(measure='loss') has intervals for the loss that a feature saves"
)


@debias.plugin.scorer_plugin("permutation", unit="decrease of the metric", compared=True, lines="used")
def permutation(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    metric: str | Callable[..., float] | None = None,
    n_repeats: int = 5,
    together: Mapping[str, Sequence[str]] | None = None,
    conditional: float | None = None,
    stratum_size: int = 30,
    p_values: bool = False,
    alpha: float = 0.05,
    error: str = "fwer",
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the mean decrease of a metric when a column is permuted.

    The mean is 0 if the column is independent of the response and the other columns. It can be above 0 for a column
    that is independent of the response only: if trees use several correlated columns of noise, they score above 0
    together (docs/scorers/permutation.md).

    Out-of-bag rows: tree by tree, as in Breiman (2001). A tree predicts its out-of-bag rows, then predicts them again
    with one column permuted among them. The decreases are averaged over the trees; for a tree that does not use the
    column the decrease is 0. Other rows: the whole model at once, as ``sklearn.inspection.permutation_importance``.

    Parameters
    ----------
    metric : str, callable or None
        Any scikit-learn scorer. None: "accuracy" for classifiers, "neg_mean_squared_error" for regressors,
        "concordance" (Harrell's index) for models of survival. A callable gets an estimator with the predictions of the
        model or the tree, an X without columns, and y.
    n_repeats : int
        Number of permutations of each column.
    together : mapping of str to sequence of str, optional
        Groups of columns to permute together. The columns of a group share its score equally, so their sum is the score
        of the group, which is in ``details["together"]``. (``groups=`` of :func:`debias.score` is different: it sums
        the scores of columns that were permuted one at a time.)
    conditional : float, optional
        Permute within strata of rows with similar values of the features whose absolute rank correlation with the
        column is at least this (Strobl et al. 2008 use 0.2). The strata are the leaves of a regression tree of the
        column on those features (Molnar et al., arXiv 2006.04628). A column without such features is permuted among all
        rows.
    stratum_size : int
        Minimum number of rows in a stratum.
    p_values : bool
        Whether to test by rows, on held-out rows, that the column saves loss: the loss of every row with the column
        permuted minus its loss without, as a mean over the repeats, has a standard error by rows (by blocks, if there
        are `blocks`), and is tested with Student's t. The metric must be a mean over rows: "accuracy",
        "neg_log_loss" or "neg_brier_score", "neg_mean_squared_error" or "neg_mean_absolute_error". Columns of one
        group in `together` have the same p-values.
    alpha : float
        Error rate of the test.
    error : {"fwer", "fdr", "fdr_by"}
        Adjust the p-values for this error rate: family-wise (Holm), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).

    Returns
    -------
    (array of shape (n_features,), dict)
        With `p_values`, the scores get standard errors by rows, z-values, p-values and decisions; they are conditional
        on the permutations. Without, ``details["standard_error"]`` is the standard deviation over trees (out-of-bag
        rows) or over repeats (other rows), divided by the square root of their number. It does not include the
        variation due to the sample of rows. ``details["baseline"]`` is the metric before any permutation;
        ``details["seed"]`` is the seed, drawn at random if none was passed.

    Raises
    ------
    CompositionError
        The metric does not exist, or an option is out of range; or `p_values` with out-of-bag rows or with a metric
        that is not a mean over rows.
    RowsError
        No row is out of bag, the metric is not finite on the rows, or groups overlap or name an unknown column.

    Notes
    -----
    You can draw the same permutations again. For tree ``t``, ``default_rng(SeedSequence(seed, spawn_key=(t,)))`` calls
    ``permutation(n)`` once per repeat, where n is the number of its out-of-bag rows. For other rows they are
    scikit-learn's with ``random_state=seed``. All columns use the same permutations.
    """
    _whole("n_repeats", n_repeats)
    _whole("stratum_size", stratum_size)
    if conditional is not None and not (
        isinstance(conditional, (int, float)) and not isinstance(conditional, bool) and 0 <= conditional <= 1
    ):
        raise CompositionError(f"conditional must be a correlation between 0 and 1, not {conditional!r}")
    grouping = Grouping.of(together, ensemble.feature_names)
    group, size = grouping.index, np.bincount(grouping.index)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rows.seed is None else int(rows.seed)
    X = rows.table.matrix(ensemble)
    strata = None if conditional is None else _strata(X, group, conditional, stratum_size)
    score = Metric(metric, ensemble, rows)
    if not isinstance(p_values, (bool, np.bool_)):
        raise CompositionError(f"p_values must be True or False, not {p_values!r}")
    if p_values:
        check_procedure(error, alpha)
        refuse_seen_rows(rows, "a test of permutation importance", ". On out-of-bag rows, debias.audit tests mdi_oob")
        score.require_row_losses()
    saved = np.zeros((rows.n_rows, len(size))) if p_values else None
    if rows.in_bag is not None:
        drop, baseline, trees_without = _out_of_bag(ensemble, rows, X, group, strata, score, n_repeats, seed)
    else:
        drop, baseline, trees_without = _together(ensemble, rows, X, group, strata, score, n_repeats, seed, saved)
    details: dict[str, Any] = {"metric": score.name, "n_repeats": n_repeats, "seed": seed, "baseline": baseline}
    if rows.in_bag is not None:
        details["trees_without_rows"] = trees_without
    if len(drop) > 1 and saved is None:
        details["standard_error"] = (drop.std(axis=0, ddof=1) / np.sqrt(len(drop)) / size)[group].tolist()
    mean = drop.mean(axis=0)
    if together:
        details["together"] = {name: float(mean[grouping.names.index(name)]) for name in together}
    if strata is not None:
        details["strata"] = (strata.max(axis=1) + 1)[group].tolist()
    if saved is not None:
        tested = row_test(saved, rows.weight, rows.blocks, error=error).of_members(group, size)
        details |= tested.details(alpha, rows.blocks is not None) | {"no_interval_because": NO_INTERVAL}
    return (mean / size)[group], details


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return permutation importance."""
    return [permutation]


Drops = tuple["NDArray[np.float64]", float, int]


def _out_of_bag(
    ensemble: TreeEnsemble,
    rows: Rows,
    X: NDArray[np.floating[Any]],
    group: NDArray[np.int64],
    strata: NDArray[np.int32] | None,
    score: Metric,
    n_repeats: int,
    seed: int,
) -> Drops:
    """Return the decrease for each tree and group, the mean metric, and the number of trees without rows."""
    assert rows.in_bag is not None
    if not ensemble.averaged:
        raise CompositionError(
            f"a single tree of this {ensemble.source} does not predict the response; pass held-out rows"
        )
    in_bag = rows.in_bag

    def of_tree(tree: int) -> tuple[NDArray[np.float64], float] | None:
        at = in_bag.out_of_bag(tree)
        if not rows.weight[at].sum() > 0:
            return None
        begin, end = ensemble.tree_start[tree : tree + 2]
        split_on = ensemble.feature[begin:end]
        used = np.unique(group[split_on[split_on >= 0]])
        drop = np.zeros(int(group.max()) + 1)
        before = float(score(_outputs(ensemble, [tree], X, at, at[None, :], group, used[:0]), at)[0])
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(tree,)))
        for _ in range(n_repeats):
            shuffled = generator.permutation(at.size)
            donors = _donors(at, shuffled, None if strata is None else strata[used])
            if used.size:
                drop[used] += before - score(_outputs(ensemble, [tree], X, at, donors, group, used), at)
        return drop / n_repeats, before

    with allowed(rows.n_jobs) as threads:
        of_trees = threads.map(of_tree, range(ensemble.n_trees), "trees")
    scored = [scores for scores in of_trees if scores is not None]
    if not scored:
        raise RowsError(
            "no row is out of bag in any tree, so there is nothing to evaluate on. Pass rows the model has not seen, "
            "with rows='held-out'"
        )
    drops, before = zip(*scored, strict=True)
    return np.stack(drops), float(np.mean(before)), ensemble.n_trees - len(scored)


def _together(
    ensemble: TreeEnsemble,
    rows: Rows,
    X: NDArray[np.floating[Any]],
    group: NDArray[np.int64],
    strata: NDArray[np.int32] | None,
    score: Metric,
    n_repeats: int,
    seed: int,
    saved: NDArray[np.float64] | None,
) -> Drops:
    """Return the decrease for each repeat and group, and the metric of the model, with scikit-learn's permutations.

    To `saved` (n_rows, n_groups), if it is not None, the increase of the loss of each row is added, as a mean over the
    repeats.
    """
    at = np.arange(rows.n_rows)
    trees = range(ensemble.n_trees)
    used = np.unique(group[_features_used(ensemble)])
    drop = np.zeros((n_repeats, int(group.max()) + 1))
    unchanged = _outputs(ensemble, trees, X, at, at[None, :], group, used[:0])
    before = float(score(unchanged, at)[0])
    loss_before = None if saved is None else score.row_losses(unchanged, at)[0]
    if seed >= 2**32:
        raise CompositionError(
            f"the permutations are those of scikit-learn, which needs a seed below 2**32, not {seed}"
        )
    generator = np.random.RandomState(np.random.RandomState(seed).randint(np.iinfo(np.int32).max + 1))
    shuffling, shuffled = at.copy(), at
    step = max(1, OUTPUTS_AT_ONCE // (rows.n_rows * ensemble.n_outputs))
    parts = [used[begin : begin + step] for begin in range(0, used.size, step)]
    with allowed(rows.n_jobs) as threads, task("features permuted", n_repeats * used.size) as advance:
        for repeat in range(n_repeats):
            generator.shuffle(shuffling)
            shuffled = shuffled[shuffling]  # scikit-learn shuffles the shuffled column again

            def part(some: NDArray[np.int64], shuffled: NDArray[np.int64] = shuffled) -> NDArray[np.float64]:
                donors = _donors(at, shuffled, None if strata is None else strata[some])
                outputs = _outputs(ensemble, trees, X, at, donors, group, some)
                if saved is not None and loss_before is not None:
                    saved[:, some] += ((score.row_losses(outputs, at) - loss_before) / n_repeats).T
                dropped = before - score(outputs, at)
                advance(some.size)
                return dropped

            drops = threads.map(part, parts)
            drop[repeat, used] = np.concatenate(drops) if drops else 0.0
    return drop, before, 0


def _outputs(
    ensemble: TreeEnsemble,
    trees: Sequence[int],
    X: NDArray[np.floating[Any]],
    at: NDArray[np.int64],
    donors: NDArray[np.int64],
    group: NDArray[np.int64],
    which: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the output of some trees, without the constant, with each of the groups `which` permuted in turn.

    The shape is (len(which), len(at), n_outputs). If `which` is empty, there is one output with nothing permuted.
    """
    from debias.trees.leaf_lines import add_lines
    from debias.trees.routing import route, tree_nodes
    from debias_plugins.scorers.kernels import permutation as kernels

    number = np.full(int(group.max()) + 1, -1)
    number[which] = np.arange(which.size)
    raw = np.zeros((at.size, max(1, which.size), ensemble.n_outputs))
    for tree in trees:
        value = ensemble.value[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]
        nodes = tree_nodes(ensemble, tree)
        kernels.add_permuted_outputs(X, at, donors, nodes, value, int(ensemble.tree_output[tree]), number[group], raw)
    if ensemble.has_lines:
        for k in range(raw.shape[1]):
            changed = np.array(X[at])
            if which.size:
                columns = group == which[k]
                changed[:, columns] = X[donors[k if len(donors) > 1 else 0]][:, columns]
            add_lines(ensemble, changed, route(ensemble, changed), raw[:, k])
    if ensemble.averaged:
        raw /= len(trees)
    return raw.transpose(1, 0, 2)


def _features_used(ensemble: TreeEnsemble) -> NDArray[np.int32]:
    """Return the features of all splits, and of the lines in leaves, if there are any."""
    of_splits = ensemble.feature[ensemble.splits]
    return of_splits if ensemble.line_feature is None else np.concatenate([of_splits, ensemble.line_feature])


def _donors(at: NDArray[np.int64], shuffled: NDArray[np.int64], strata: NDArray[np.int32] | None) -> NDArray[np.int64]:
    """Return the row from which each of `at` takes its values: shape (1, n), or within strata (n_groups, n)."""
    if strata is None:
        return at[shuffled][None, :]
    donors = np.empty((len(strata), at.size), dtype=np.int64)
    for row, stratum in zip(donors, strata[:, at], strict=True):
        # Both sides are sorted by stratum: each row meets a random row of its own stratum.
        row[np.argsort(stratum, kind="stable")] = at[shuffled[np.argsort(stratum[shuffled], kind="stable")]]
    return donors


def _strata(X: NDArray[np.floating[Any]], group: NDArray[np.int64], correlation: float, size: int) -> NDArray[np.int32]:
    """Return the stratum of every row for every group, counted from 0, shape (n_groups, n_rows)."""
    import pandas as pd
    from sklearn.tree import DecisionTreeRegressor

    strata = np.zeros((int(group.max()) + 1, len(X)), dtype=np.int32)
    related = np.abs(pd.DataFrame(X).corr(method="spearman").to_numpy()) >= correlation
    for number in range(len(strata)):
        own = group == number
        others = related[own].any(axis=0) & ~own
        known = ~np.isnan(X[:, own]).any(axis=1)
        if not others.any() or not known.any():
            continue
        tree = DecisionTreeRegressor(min_samples_leaf=size, random_state=0)
        tree.fit(X[known][:, others], X[known][:, own])
        strata[number] = np.unique(tree.apply(X[:, others]), return_inverse=True)[1]
    return strata


def _whole(option: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CompositionError(f"{option} must be a whole number of 1 or more, not {value!r}")
