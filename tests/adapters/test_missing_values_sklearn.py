"""Trees that scikit-learn trained with missing values: refused before 1.8, and right since.

The oracle is the rows themselves: at every node, the rows of the bag that reach it are those that it stores.
"""

import numpy as np
import pytest
import sklearn
from sklearn.ensemble import BaggingRegressor, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import debias
from debias_adapters.sklearn.missing_values import saw_missing
from support.missing_values import IN_FORESTS, needs_them_in_forests
from support.versions import at_least, before

MODELS = {
    "forest": RandomForestRegressor(10, random_state=0),
    "forest of classes": RandomForestClassifier(10, random_state=0, max_depth=5),
    "tree": DecisionTreeRegressor(random_state=0),
    "tree of classes": DecisionTreeClassifier(random_state=0, max_leaf_nodes=30),
    "bagging": BaggingRegressor(DecisionTreeRegressor(max_features=2), 10, random_state=0),
}
if at_least("scikit-learn", "1.6"):
    MODELS["extra trees of classes"] = ExtraTreesClassifier(10, random_state=0, bootstrap=True)


def rows_of(name, missing, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + X[:, 1] + rng.normal(size=300)
    X[rng.random(X.shape) < missing] = np.nan
    return X, (y > 0).astype(int) if "classes" in name else y


def fits(model, X, y):
    """Whether, at every node of every tree, the rows of the bag that reach the node are those that it stores."""
    members = getattr(model, "estimators_", [model])
    samples = getattr(model, "estimators_samples_", [np.arange(len(y))])
    for member, sample in zip(members, samples, strict=True):
        reach = member.tree_.decision_path(X[sample].astype(np.float32)).toarray()
        count = member.tree_.n_node_samples if not hasattr(model, "estimators_samples_") else None
        weight = member.tree_.weighted_n_node_samples
        if (reach.sum(axis=0) != (weight if count is None else count)).any():
            return False
        mean = (reach * y[sample][:, None]).sum(axis=0) / reach.sum(axis=0)
        stored = member.tree_.value[:, 0]
        if np.abs(mean - (stored[:, 1] if stored.shape[1] == 2 else stored[:, 0])).max() > 1e-9:
            return False
    return True


@needs_them_in_forests
@pytest.mark.parametrize("name", MODELS)
def test_rows_with_missing_values_reach_the_nodes_that_store_them(name):
    X, y = rows_of(name, 0.2)
    model = MODELS[name].fit(X, y)
    assert fits(model, X, y)
    assert saw_missing(debias.plugin.extract(model))
    if hasattr(model, "estimators_"):
        assert debias.score(model, X, y).provenance["status"] == "proven"
    fresh, fresh_y = rows_of(name, 0.2, seed=1)
    assert debias.score(model, fresh, fresh_y, rows="held-out").values.any()


@before("scikit-learn", "1.8", "grows trees on the rows that their splits say")
@pytest.mark.parametrize("name", MODELS)
def test_older_versions_grow_trees_on_other_rows_and_are_refused(name):
    X, y = rows_of(name, 0.2)
    model = MODELS[name].fit(X, y)
    assert not fits(model, X, y)
    for given in ((), (X, y), rows_of(name, 0, seed=1)):
        with pytest.raises(
            debias.UnsupportedModelError, match=rf"scikit-learn {sklearn.__version__} grows trees.*1\.8"
        ):
            debias.score(model, *given, scorer="mdi")


@before("scikit-learn", "1.8", "grows trees on the rows that their splits say")
def test_older_versions_score_no_rows_with_missing_values():
    """A tree of one split may not show that it was grown with missing values, so the rows are looked at too."""
    X, y = rows_of("tree", 0.3)
    stump = DecisionTreeRegressor(max_depth=1, random_state=0).fit(X, y)
    assert not saw_missing(debias.plugin.extract(stump))
    with pytest.raises(debias.RowsError, match=r"'x\d' of X has a missing value \(row \d+\); scikit-learn .* 1\.8"):
        debias.score(stump, X, y, rows="held-out")


@pytest.mark.parametrize("name", MODELS)
def test_trees_without_missing_values_are_not_taken_for_others(name):
    for seed in range(5):
        X, y = rows_of(name, 0, seed)
        model = MODELS[name].fit(X, y)
        assert fits(model, X, y)
        assert not saw_missing(debias.plugin.extract(model))
    if hasattr(model, "estimators_"):
        assert debias.score(model, X, y).provenance["status"] == "proven"


def test_a_forest_of_before_1_9_with_missing_values_has_a_note_since_1_9():
    if not at_least("scikit-learn", "1.9"):
        pytest.skip(f"scikit-learn {sklearn.__version__}: forests do not keep the attribute that tells versions apart")
    X, y = rows_of("forest", 0.2)
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    assert not debias.plugin.extract(forest).notes
    del forest._sample_weight  # as if an older version had saved it
    assert "a scikit-learn before 1.9 trained this forest" in debias.plugin.extract(forest).notes[0]
    assert IN_FORESTS
