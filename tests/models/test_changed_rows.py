"""Output of trees for rows with changed columns, against routing each changed matrix as a whole."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestRegressor

import debias
from debias.models import changed_rows
from debias.models.changed_rows import ChangedRows
from debias.trees.routing import raw_output, route
from support import simulated

MODELS = {
    "forest": RandomForestRegressor(7, random_state=0),
    "classes": ExtraTreesClassifier(5, max_depth=4, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=6, random_state=0),
}


def fitted(kind, n=80):
    cuts = None if kind == "forest" else [-0.5, 1.0]
    X, y = simulated.rows(n, 4, (1, 1), cuts=cuts, seed=0)
    ensemble = debias.plugin.extract(MODELS[kind].fit(X, y))
    return ensemble, np.ascontiguousarray(X, dtype=ensemble.routing_dtype)


@pytest.mark.parametrize("at_once", [None, 1, 200])
@pytest.mark.parametrize("columns", [[0], [3], [1, 2]])
@pytest.mark.parametrize("kind", MODELS)
def test_outputs_are_those_of_the_changed_matrix(kind, columns, at_once, monkeypatch):
    ensemble, X = fitted(kind)
    if at_once is not None:
        monkeypatch.setattr(changed_rows, "VALUES_AT_ONCE", at_once * X.size // 10)
    values = X[:7, columns]
    outputs = ChangedRows(ensemble, X).outputs(np.array(columns), values)
    assert outputs.shape == (len(X), 7, ensemble.n_outputs)
    for k, value in enumerate(values):
        changed = X.copy()
        changed[:, columns] = value
        np.testing.assert_allclose(outputs[:, k], raw_output(ensemble, route(ensemble, changed)), rtol=0, atol=1e-12)


def test_a_feature_that_no_tree_splits_on_changes_nothing():
    X, y = simulated.rows(80, 4, (1, 1), seed=0)
    X = np.column_stack([X, np.zeros(len(X))])
    ensemble = debias.plugin.extract(RandomForestRegressor(3, random_state=0).fit(X, y))
    X = np.ascontiguousarray(X, dtype=ensemble.routing_dtype)
    outputs = ChangedRows(ensemble, X).outputs(np.array([4]), np.array([[1.0], [9.0]], dtype=np.float32))
    expected = raw_output(ensemble, route(ensemble, X))
    np.testing.assert_array_equal(outputs, np.stack([expected, expected], axis=1))
