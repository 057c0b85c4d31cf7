"""Permutation importance: what a metric loses when a column is shuffled (Breiman 2001, section 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import CompositionError, RowsError
from debias.data.groups import Grouping
from debias_plugins.scorers.metrics import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias import Rows, TreeEnsemble

OUTPUTS_AT_ONCE = 2**24


@debias.scorer_plugin("permutation", unit="decrease of the metric")
def permutation(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    metric: str | Callable[..., float] | None = None,
    n_repeats: int = 5,
    together: Mapping[str, Sequence[str]] | None = None,
    conditional: float | None = None,
    stratum_size: int = 30,
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Mean decrease of a metric when a column is permuted: mean 0 if it is independent of response and other columns.

    Out-of-bag rows: as Breiman (2001), tree by tree. A tree predicts its out-of-bag rows, then predicts them again with
    one column permuted among them; the decreases are averaged over trees (a tree that does not use the column loses
    nothing). Other rows: the whole model at once, what ``sklearn.inspection.permutation_importance`` gives.

    Parameters
    ----------
    metric : str, callable or None
        Any scikit-learn scorer; None for "accuracy" of classifiers and "neg_mean_squared_error" of others. A callable
        gets an estimator that predicts what the model, or the tree, does, an X without columns, and y.
    n_repeats : int
        Permutations of each column.
    together : mapping of str to sequence of str, optional
        Groups of columns to permute together. The columns of a group share its score equally, so that they sum to it;
        ``details["together"]`` has it whole. (``groups=`` of :func:`debias.score` sums scores of columns that were
        permuted one at a time, which is another figure.)
    conditional : float, optional
        Permute within strata: rows alike in the features whose rank correlation with the column is at least this, in
        absolute value (Strobl et al. 2008 take 0.2). Strata are the leaves of a regression tree of the column on those
        features (Molnar et al., arXiv 2006.04628). A column without such features is permuted among all rows.
    stratum_size : int
        Least number of rows in a stratum.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``details["standard_error"]`` is the standard deviation over trees (out of bag), or over repeats (other rows),
        over the square root of their number; it knows nothing of the draw of the rows. ``details["baseline"]`` is the
        metric before any permutation, ``details["seed"]`` the seed, drawn afresh where none was given.

    Raises
    ------
    CompositionError
        No such metric, or an option out of range.
    RowsError
        No row is out of bag, the metric is not a number on the rows, or groups overlap or name no column.

    Notes
    -----
    Permutations can be redrawn. Tree ``t``: ``default_rng(SeedSequence(seed, spawn_key=(t,)))`` calls
    ``permutation(n)``, n the number of its out-of-bag rows, once a repeat. Other rows: as scikit-learn does with
    ``random_state=seed``. All columns share them.
    """
    _whole("n_repeats", n_repeats)
    _whole("stratum_size", stratum_size)
    if conditional is not None and not (
        isinstance(conditional, (int, float)) and not isinstance(conditional, bool) and 0 <= conditional <= 1
    ):
        raise CompositionError(f"conditional must be a correlation from 0 to 1, not {conditional!r}")
    grouping = Grouping.of(together, ensemble.feature_names)
    group, size = grouping.index, np.bincount(grouping.index)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rows.seed is None else int(rows.seed)
    X = rows.table.matrix(ensemble)
    strata = None if conditional is None else _strata(X, group, conditional, stratum_size)
    score = Metric(metric, ensemble, rows)
    by_group = _out_of_bag if rows.in_bag is not None else _together
    drop, baseline, trees_without = by_group(ensemble, rows, X, group, strata, score, n_repeats, seed)
    details: dict[str, Any] = {"metric": score.name, "n_repeats": n_repeats, "seed": seed, "baseline": baseline}
    if rows.in_bag is not None:
        details["trees_without_rows"] = trees_without
    if len(drop) > 1:
        details["standard_error"] = (drop.std(axis=0, ddof=1) / np.sqrt(len(drop)) / size)[group].tolist()
    mean = drop.mean(axis=0)
    if together:
        details["together"] = {name: float(mean[grouping.names.index(name)]) for name in together}
    if strata is not None:
        details["strata"] = (strata.max(axis=1) + 1)[group].tolist()
    return (mean / size)[group], details


@debias.hookimpl
def debias_scorers() -> Sequence[debias.Scorer]:
    """Offer permutation importance."""
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
    """Return the decrease for each tree and group, the mean metric of the trees, and how many have no rows."""
    from joblib import Parallel, delayed

    assert rows.in_bag is not None
    if not ensemble.averaged:
        raise CompositionError(
            f"the trees of a {ensemble.source} do not predict the response one by one; pass held-out rows"
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

    trees = range(ensemble.n_trees)
    found = Parallel(n_jobs=rows.n_jobs, require="sharedmem")(delayed(of_tree)(tree) for tree in trees)
    scored = [each for each in found if each is not None]
    if not scored:
        raise RowsError(
            "no row is out of bag in any tree: there is nothing to evaluate on. Pass rows the model has not seen, with "
            "rows='held-out'."
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
) -> Drops:
    """Return the decrease for each repeat and group, and the metric of the model; draws as scikit-learn does."""
    from joblib import Parallel, delayed

    at = np.arange(rows.n_rows)
    trees = range(ensemble.n_trees)
    used = np.unique(group[ensemble.feature[ensemble.splits]])
    drop = np.zeros((n_repeats, int(group.max()) + 1))
    before = float(score(_outputs(ensemble, trees, X, at, at[None, :], group, used[:0]), at)[0])
    if seed >= 2**32:
        raise CompositionError(
            f"the permutations are those of scikit-learn, which takes no seed of 2**32 or more: {seed}"
        )
    generator = np.random.RandomState(np.random.RandomState(seed).randint(np.iinfo(np.int32).max + 1))
    shuffling, shuffled = at.copy(), at
    step = max(1, OUTPUTS_AT_ONCE // (rows.n_rows * ensemble.n_outputs))
    for repeat in range(n_repeats):
        generator.shuffle(shuffling)
        shuffled = shuffled[shuffling]  # scikit-learn shuffles what it shuffled before

        def part(some: NDArray[np.int64], shuffled: NDArray[np.int64] = shuffled) -> NDArray[np.float64]:
            donors = _donors(at, shuffled, None if strata is None else strata[some])
            return before - score(_outputs(ensemble, trees, X, at, donors, group, some), at)

        parts = [used[begin : begin + step] for begin in range(0, used.size, step)]
        found = Parallel(n_jobs=rows.n_jobs, require="sharedmem")(delayed(part)(some) for some in parts)
        drop[repeat, used] = np.concatenate(found) if found else 0.0
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
    """Return the output of some trees, without any constant, with each of the groups `which` permuted.

    Shape (len(which), len(at), n_outputs); if `which` is empty, one outcome with nothing permuted.
    """
    from debias.trees.routing import tree_nodes
    from debias_plugins.scorers.kernels import permutation as kernels

    number = np.full(int(group.max()) + 1, -1)
    number[which] = np.arange(which.size)
    raw = np.zeros((at.size, max(1, which.size), ensemble.n_outputs))
    for tree in trees:
        value = ensemble.value[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]
        nodes = tree_nodes(ensemble, tree)
        kernels.add_permuted_outputs(X, at, donors, nodes, value, int(ensemble.tree_output[tree]), number[group], raw)
    if ensemble.averaged:
        raw /= len(trees)
    return raw.transpose(1, 0, 2)


def _donors(at: NDArray[np.int64], shuffled: NDArray[np.int64], strata: NDArray[np.int32] | None) -> NDArray[np.int64]:
    """Return the row each of `at` takes its values from: any (shape (1, n)), or one of its stratum (n_groups, n)."""
    if strata is None:
        return at[shuffled][None, :]
    donors = np.empty((len(strata), at.size), dtype=np.int64)
    for row, stratum in zip(donors, strata[:, at], strict=True):
        # Rows in the order of their strata face the same rows in shuffled order within them.
        row[np.argsort(stratum, kind="stable")] = at[shuffled[np.argsort(stratum[shuffled], kind="stable")]]
    return donors


def _strata(X: NDArray[np.floating[Any]], group: NDArray[np.int64], correlation: float, size: int) -> NDArray[np.int32]:
    """Return the stratum of every row for every group, numbered from 0, shape (n_groups, n_rows)."""
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
