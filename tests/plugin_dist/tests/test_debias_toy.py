import numpy as np
import pytest
from debias_toy.model import ToyForest

import debias
from debias.testing import check_adapter, check_meta_method, check_scorer


@pytest.fixture
def rows():
    X = np.random.default_rng(0).normal(size=(150, 4))
    return X, X[:, 0] + np.random.default_rng(1).normal(size=150)


@pytest.mark.parametrize("name", ["inverse_depth", "large_nodes", "large_nodes(power=0.5)"])
def test_scorer(name):
    check_scorer(debias.plugin.scorer(name))


def test_adapter(rows):
    hooks = check_adapter(ToyForest().fit(*rows), *rows)
    about_rows = ("debias_leaves", "debias_predict_raw", "debias_predict_native")
    assert hooks == ("debias_extract", *about_rows, "debias_in_bag", "debias_refit")


def test_meta_method():
    check_meta_method(debias.plugin.meta_method("beats_chance", replicates=3))


def test_an_audit_rests_on_the_scorer(rows):
    audit = debias.audit(ToyForest().fit(*rows), *rows, tested="large_nodes", random_state=0)
    assert audit.to_frame().loc["x0", "verdict"] == "informative"


def test_all_together(rows):
    forest = ToyForest().fit(*rows)
    scores = debias.score(forest, *rows, "beats_chance(mdi_oob, replicates=19)", random_state=0)
    assert (scores.rows, scores.values.argmax()) == ("oob", 0)
    assert debias.score(forest, scorer="inverse_depth(power=2.0)").values.shape == (4,)
