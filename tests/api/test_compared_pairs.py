"""``debias.compare(of="pairs")``: the same test as ``debias.interactions``, and what it refuses."""

import numpy as np
import pytest

import debias
from debias.errors import CompositionError, ProvenanceError


@pytest.fixture(scope="module")
def product(models):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = X[:, 0] + 2 * X[:, 1] * X[:, 2] + rng.normal(size=900)
    return models("xgboost", n_estimators=40, max_depth=3).fit(X[:450], y[:450]), X, y


@pytest.mark.quick
def test_the_test_beside_shap_interactions_is_that_of_interactions(product):
    model, X, y = product
    pairs = debias.compare(model, X[450:], y[450:], of="pairs")
    alone = debias.interactions(model, X[450:], y[450:])
    assert pairs.tested.to_json() == alone.to_json()
    assert pairs.untested_because == ""
    frame = pairs.to_frame()
    assert frame.index[0] == ("f1", "f2") == alone.confirmed[0]
    assert frame["oob_rank"].idxmin() == ("f1", "f2")
    assert pairs.headline == "SHAP interactions put the confirmed pair first, of 6."
    assert pairs.n_rows == 450
    assert pairs.settings["model"] == alone.settings["model"]


def test_out_of_bag_and_dependent_rows_have_shap_interactions_and_a_reason(models):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=150)
    forest = models("sklearn", n_estimators=10).fit(X, y)
    of_bag = debias.compare(forest, X, y, of="pairs")
    assert of_bag.rows == "oob"
    assert np.isfinite(of_bag.shap_interactions_oob).all()
    blocks = debias.Dataset(X[:60], y[:60], blocks=np.repeat(np.arange(15), 4))
    booster = models("xgboost", n_estimators=5, max_depth=3).fit(X[60:], y[60:])
    in_blocks = debias.compare(booster, blocks, of="pairs", rows="held-out")
    assert in_blocks.tested is None
    assert "blocks" in in_blocks.untested_because
    assert in_blocks.headline.startswith("SHAP interactions alone, without a test: ")


@pytest.mark.filterwarnings("ignore:these are scores on training rows:debias.DebiasWarning")
def test_training_rows_are_not_tested(product):
    model, X, y = product
    pairs = debias.compare(model, X[:450], y[:450], of="pairs", rows="train")
    assert pairs.tested is None
    assert "memorised" in pairs.headline
    assert "These are training rows" in " ".join(pairs.summary())


def test_the_same_call_gives_the_same_numbers_with_threads(product):
    model, X, y = product
    one, two = (debias.compare(model, X[450:], y[450:], of="pairs", n_jobs=n) for n in (1, 2))
    assert one.to_json() == two.to_json()


def test_wrong_use_is_refused(product, models):
    model, X, y = product
    with pytest.raises(CompositionError, match="of='triples' is not one of"):
        debias.compare(model, X, y, of="triples")
    with pytest.raises(CompositionError, match="leave them out with of='pairs'"):
        debias.compare(model, X, y, ["mdi_oob", "shap"], of="pairs")
    with pytest.raises(ProvenanceError):
        debias.compare(model, X[:450], y[:450], of="pairs")
    with pytest.raises(CompositionError, match="compare needs all rows at once"):
        debias.compare(model, iter([(X, y)]), of="pairs")
    from sklearn.ensemble import VotingRegressor

    members = VotingRegressor([("a", models("sklearn", n_estimators=3)), ("b", models("sklearn", n_estimators=3))])
    with pytest.raises(CompositionError, match="of='pairs'"):
        debias.compare(members.fit(X[:450], y[:450]), X[450:], y[450:], of="pairs", rows="held-out")


def test_stumps_have_no_pairs(models, product):
    _, X, y = product
    stumps = models("xgboost", n_estimators=20, max_depth=1).fit(X[:450], y[:450])
    pairs = debias.compare(stumps, X[450:], y[450:], of="pairs")
    assert len(pairs.pairs) == 0
    assert pairs.headline.startswith("The model uses no two features together")
