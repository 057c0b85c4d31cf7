"""The check of trees: rows must reach the leaves that the library names, and get its predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError
from debias.hooks.registry import plugin_manager
from debias.models.extraction import as_the_adapter_wants, gaps, native_output
from debias.models.odd_rows import odd_rows
from debias.spread import spread
from debias.testing.promises import require
from debias.trees.routing import raw_output, route

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble

SPLITS_TO_TRY, ROWS_TO_TRY = 64, 64
NEARLY_ZERO = 1e-30
"""LightGBM reads values within 1e-35 of 0 as 0. Data do not have such values, so thresholds there are not tried."""


def varied(ensemble: TreeEnsemble, table: Table) -> NDArray[np.floating[Any]]:
    """Return some rows, and copies with a value at, just below or just above a threshold, or with a missing value."""
    X = table.matrix(ensemble)[:ROWS_TO_TRY]
    numeric = ensemble.splits if ensemble.category_set is None else np.flatnonzero(ensemble.category_set < 0)
    numeric = numeric[(ensemble.left[numeric] >= 0) & (abs(ensemble.threshold[numeric]) > NEARLY_ZERO)]
    chosen = numeric[spread(len(numeric), SPLITS_TO_TRY)]
    at = ensemble.threshold[chosen].astype(X.dtype)
    added = []
    for values in (at, np.nextafter(at, X.dtype.type(-np.inf)), np.nextafter(at, X.dtype.type(np.inf))):
        rows = X[np.arange(len(chosen)) % len(X)].copy()
        rows[np.arange(len(chosen)), ensemble.feature[chosen]] = values
        added.append(rows)
    if ensemble.missing_refusal is None:
        rows = X[np.arange(ensemble.n_features) % len(X)].copy()
        np.fill_diagonal(rows, np.nan)
        added.append(rows)
    return np.ascontiguousarray(np.concatenate([X, *added]))


def check_outputs(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> None:
    """Compare the leaves and the raw output of some rows with those of the library."""
    hook, n = plugin_manager().hook, len(X)
    ours = route(ensemble, X)
    seen = as_the_adapter_wants(ensemble, X)
    theirs = hook.debias_leaves(model=model, ensemble=ensemble, X=seen)
    require(theirs is not None, "debias_leaves returns None for this model: without the library's own leaves debias "
            "cannot check the trees, and refuses to score them")  # fmt: skip
    theirs = np.asarray(theirs)
    require(
        theirs.shape == (n, ensemble.n_trees),
        f"debias_leaves returns shape {theirs.shape}, not ({n}, {ensemble.n_trees}): one leaf per row and tree",
    )
    off = np.argwhere(ours != theirs)
    if len(off):
        row, tree = off[0]
        leaf = ensemble.tree(int(tree)).left
        inner = theirs[row, tree] >= leaf.size or leaf[int(theirs[row, tree])] >= 0
        require(
            not inner,
            f"debias_leaves puts row {row} into node {theirs[row, tree]} of tree {tree}, which is not a leaf: return "
            "the index of the leaf within its tree, as the ensemble numbers nodes, not a running number of leaves",
        )
        at_threshold = (X[row, ensemble.feature[ensemble.splits]] == ensemble.threshold[ensemble.splits]).any()
        hint = (
            "a value of this row is missing: check missing_left"
            if np.isnan(X[row]).any()
            else "a value of this row equals a threshold: x <= threshold goes left, so a library that sends "
            "x < threshold left needs np.nextafter(threshold, -inf) in its own precision"
            if at_threshold
            else "check left and right, feature, and routing_dtype, the precision in which the library compares"
        )
        raise AssertionError(
            f"{len(np.unique(off[:, 0]))} of {n} rows do not reach the leaves that the library names: row {row} "
            f"reaches leaf {ours[row, tree]} of tree {tree} by the arrays of debias_extract, and leaf "
            f"{theirs[row, tree]} by debias_leaves; {hint}"
        )
    expected = hook.debias_predict_raw(model=model, X=seen)
    require(expected is not None, "debias_predict_raw returns None for this model: without the library's own output "
            "debias cannot check the trees, and refuses to score them")  # fmt: skip
    _check_raw(ensemble, raw_output(ensemble, ours), np.asarray(expected))


def check_native(model: Any, ensemble: TreeEnsemble, table: Table) -> bool:
    """Compare the library's predictions for the user's own rows with the trees; return whether an adapter has them."""
    rows = np.union1d(np.arange(min(table.n_rows, ROWS_TO_TRY)), odd_rows(table, ensemble))
    try:
        expected = native_output(model, ensemble, table, rows)
    except DebiasError as error:
        raise AssertionError(f"debias_predict_native fails for the training rows: {error}") from error
    if expected is None:
        return False
    ours = raw_output(ensemble, route(ensemble, table.matrix(ensemble, rows)))
    require(
        expected.shape == ours.shape,
        f"debias_predict_native returns shape {expected.shape}, not {ours.shape}: the output of debias_predict_raw, "
        "for the user's own rows",
    )
    off = np.flatnonzero(~(gaps(ensemble, ours, expected) <= 1))
    row = off[0] if len(off) else 0
    require(
        not len(off),
        f"debias_predict_native returns {expected[row]} for row {rows[row]} as it was passed, and the trees predict "
        f"{ours[row]} for the same row as numbers: check `category_labels`, and how the library reads missing values; "
        "link functions do not belong here",
    )
    return True


def _check_raw(ensemble: TreeEnsemble, ours: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    require(
        ours.shape == expected.shape,
        f"debias_predict_raw returns shape {expected.shape}, not {ours.shape}: one column per output, and `base` says "
        f"that there are {ensemble.n_outputs}",
    )
    if (gaps(ensemble, ours, expected) <= 1).all():
        return
    gap = expected - ours
    scale = np.abs(expected).max() + np.abs(ensemble.value).max() + np.abs(ensemble.base).max()
    row = int(np.abs(gap).max(axis=1).argmax())
    steps = ours - ensemble.base
    factor = (expected - ensemble.base)[np.abs(steps) > 1e-6 * scale] / steps[np.abs(steps) > 1e-6 * scale]
    in_float32 = replace(ensemble, output_dtype=np.dtype(np.float32))
    if (gaps(in_float32, ours, expected) <= 1).all():
        hint = (
            "the gap is of the size of float32 rounding errors: if the library adds up in float32, give the ensemble "
            "output_dtype=np.dtype(np.float32)"
        )
    elif np.ptp(gap, axis=0).max() <= 1e-6 * scale:
        hint = f"the gap is {gap[0]} in every row: `base` is the raw output before the first tree"
    elif factor.size and np.ptp(factor) < 1e-5 * np.abs(factor).max():
        hint = (
            f"the library's output is {factor.mean():.6g} times as large in every row: averaged={ensemble.averaged} "
            f"says whether the {ensemble.n_trees} trees are averaged or summed, and values of additive trees include "
            "the learning rate"
        )
    else:
        hint = "check the values of the leaves, and whether debias_predict_raw returns margins or transformed output"
    raise AssertionError(
        f"the extracted trees predict {ours[row]} for row {row}, and the library {expected[row]}; {hint}"
    )
