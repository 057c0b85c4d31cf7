"""One pass over the rows of a boosted model: the same sums and margins as a pass of each question of its own."""

import numpy as np
import pytest
from xgboost import XGBClassifier

import debias
from debias.data.response import encode
from debias.data.table import Table
from debias.rows.leaf_counts import count_leaves
from debias.rows.node_totals import NodeTotals
from debias.rows.shared_pass import SharedPass
from debias.trees.routing import FEW_ROWS, raw_output, route
from debias.warning_log import WarningLog


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_rows", [300, FEW_ROWS + 100])
def test_sums_and_outputs_are_those_of_all_trees_at_once(n_classes, n_rows):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(n_rows, 4)).astype(np.float32), rng.random(n_rows)
    y = (X[:, 0] + rng.normal(size=n_rows) > 0).astype(int) + (n_classes == 3) * (X[:, 1] > 0)
    model = XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1).fit(X[:200], y[:200])
    ensemble, log = debias.plugin.extract(model), WarningLog()
    table = Table(X).aligned_to(ensemble, log)
    response = encode(y, ensemble, n_rows, log)
    leaves = route(ensemble, X)

    shared = SharedPass(ensemble, table, response, weight, needs_sums=True)
    counted = count_leaves(ensemble, table, response, shared)  # stops before some of the trees
    alone = count_leaves(ensemble, table, response)
    assert counted
    for one, other in zip(counted, alone, strict=True):
        np.testing.assert_array_equal(one.reached, other.reached)
        np.testing.assert_array_equal(one.at, other.at)
    first = 5
    halfway = SharedPass(ensemble, table, response, weight, needs_sums=False)
    expected = sum(
        np.eye(ensemble.n_outputs)[ensemble.tree_output[t]] * ensemble.value[ensemble.tree_start[t] + leaves[:, [t]], 0]
        for t in range(first)
    )
    np.testing.assert_allclose(halfway.first_outputs(first), expected, rtol=1e-12)

    totals, raw = shared.finished()
    np.testing.assert_allclose(raw + ensemble.base, raw_output(ensemble, leaves), rtol=1e-12)
    expected_totals = NodeTotals(ensemble)
    expected_totals.add(leaves, response, weight)
    assert totals is not None
    np.testing.assert_allclose(totals.n, expected_totals.n, rtol=1e-12)
    np.testing.assert_allclose(totals.s, expected_totals.s, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(totals.q, expected_totals.q, rtol=1e-12)
