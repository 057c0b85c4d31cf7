"""Training weights that were forgotten, permuted or replaced are refused wherever a model stores them or their sums."""

import re
import warnings

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBRegressor

import debias
from support.versions import at_least

KEEPS_WEIGHTS = at_least("scikit-learn", "1.9")
"""Whether forests draw bags by weight and keep the weights. Before, the sums of weights at the nodes prove them."""
SEEDED = {"n_estimators": 8, "random_state": 0}
BAGGED = [
    RandomForestRegressor(**SEEDED),
    RandomForestClassifier(**SEEDED),
    RandomForestClassifier(class_weight="balanced", **SEEDED),
    RandomForestClassifier(class_weight="balanced_subsample", **SEEDED),
    ExtraTreesRegressor(bootstrap=True, **SEEDED),
    BaggingRegressor(**SEEDED),
]
N = 200


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * N, 4))
    return X, X[:, 0] + rng.normal(size=2 * N), rng.exponential(size=N) + 0.1


def fitted(model, rows, weight):
    X, y, _ = rows
    y = (y > 0).astype(int) if isinstance(model, RandomForestClassifier) else y
    return model.fit(X[:N], y[:N], sample_weight=weight), X[:N], y[:N]


def score(model, X, y, weight=None, rows="auto"):
    return debias.score(model, X, y, rows=rows, sample_weight=weight)


@pytest.mark.parametrize("model", BAGGED, ids=str)
def test_weights_of_training_are_asked_for(model, rows):
    weight = rows[-1]
    model, X, y = fitted(model, rows, weight)
    right = score(model, X, y, weight)
    assert right.provenance["status"] == "proven"
    assert right.provenance["detail"].endswith(("weights are those of training", "sums of weights agree too"))
    for other in (None, weight[::-1], np.random.default_rng(1).random(N)):
        with pytest.raises(debias.ProvenanceError, match=r"weights? (of|are|in)|sample_weight"):
            score(model, X, y, other)
    if KEEPS_WEIGHTS:  # a unit of weights
        np.testing.assert_allclose(score(model, X, y, 2 * weight).values, right.values)


@pytest.mark.skipif(not KEEPS_WEIGHTS, reason="older forests do not keep their weights")
def test_each_difference_of_kept_weights_has_its_sentence(rows):
    weight = rows[-1]
    model, X, y = fitted(RandomForestRegressor(**SEEDED), rows, weight)
    with pytest.raises(
        debias.ProvenanceError, match=r"was trained with sample_weight, and .* passed without.*np\.ones"
    ):
        score(model, X, y)
    with pytest.raises(debias.ProvenanceError, match="weights of training in another order"):
        score(model, X, y, np.roll(weight, 1), rows="oob")
    others = np.random.default_rng(1).random(N)
    with pytest.raises(debias.ProvenanceError, match="trained with other weights than those of sample_weight="):
        score(model, X, y, others)
    with pytest.warns(debias.DebiasWarning, match="trained with other weights"):
        stated = score(model, X, y, others, rows="oob")
    assert stated.provenance["detail"].endswith("and the model was trained with others")
    alike = score(model, X, y, np.full(N, 3.0))
    assert alike.provenance["detail"].endswith("; rows count alike, and the model was trained with other weights")


@pytest.mark.parametrize("model", BAGGED, ids=str)
def test_rows_of_a_model_without_weights_may_be_weighted(model, rows):
    weight = rows[-1]
    model, X, y = fitted(model, rows, None)
    assert "weight" not in score(model, X, y).provenance["detail"]
    weighted = score(model, X, y, weight)
    assert weighted.provenance["status"] == "proven"
    assert "trained without weights, and rows count by those that were passed" in weighted.provenance["detail"]


@pytest.mark.skipif(not KEEPS_WEIGHTS, reason="older forests ask for the zeros")
def test_weights_of_zero_and_one_leave_rows_out_and_need_not_be_passed(rows):
    chosen = np.where(np.arange(N) < 150, 1.0, 0.0)
    model, X, y = fitted(RandomForestRegressor(**SEEDED), rows, chosen)
    np.testing.assert_allclose(score(model, X, y).values, score(model, X, y, chosen).values, rtol=1e-12)
    with pytest.raises(debias.ProvenanceError, match="in another order"):
        score(model, X, y, chosen[::-1])


@pytest.mark.skipif(not KEEPS_WEIGHTS, reason="older forests do not keep their weights")
@pytest.mark.filterwarnings("ignore:columns of .* are left out:debias.DebiasWarning")
def test_batches_compare_weights_too(rows, tmp_path):
    import pandas as pd

    weight = rows[-1]
    model, X, y = fitted(RandomForestRegressor(**SEEDED), rows, weight)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, w=weight, one=1.0, other=weight[::-1])
    model.fit(frame[list("abcd")], y, sample_weight=weight)
    frame.to_parquet(tmp_path / "rows.parquet")
    source = tmp_path / "rows.parquet"
    of_batches = debias.score(model, source, "y", sample_weight="w")
    expected = debias.score(model, frame[list("abcd")], y, sample_weight=weight)
    np.testing.assert_allclose(of_batches.values, expected.values, rtol=1e-9, atol=1e-12)
    assert "alike" in debias.score(model, source, "y", sample_weight="one").provenance["detail"]
    for wrong in (None, "other"):
        with pytest.raises(debias.ProvenanceError, match=r"passed without|another order"):
            debias.score(model, source, "y", sample_weight=wrong)


STORED = [
    ExtraTreesRegressor(min_samples_leaf=5, **SEEDED),
    DecisionTreeRegressor(max_depth=4, random_state=0),
    GradientBoostingRegressor(**SEEDED),
    XGBRegressor(max_depth=3, n_jobs=1, **SEEDED),
]
NOT_STORED = [
    GradientBoostingRegressor(subsample=0.5, **SEEDED),
    HistGradientBoostingRegressor(max_iter=8, random_state=0),
    LGBMRegressor(verbose=-1, n_jobs=1, **SEEDED),
]


def told(model, rows, weight):
    """Return what is told of the weights of training rows: an error, or the warnings."""
    X, y, _ = rows
    train = debias.Dataset(X[:N], y[:N], sample_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scores = debias.score(model, X[N:], y[N:], "honest_effects", rows="held-out", train=train)
        except debias.ProvenanceError as error:
            return str(error)
    return "; ".join(text for text in scores.warnings if text.startswith("train"))


@pytest.mark.parametrize("model", STORED, ids=str)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_weights_of_train_are_compared_with_sums_in_the_leaves(model, is_weighted, rows):
    weight = rows[-1]
    model, _, _ = fitted(model, rows, weight if is_weighted else None)
    assert told(model, rows, weight if is_weighted else None) == ""
    wrong = [weight[::-1], None] if is_weighted else [weight]
    for other in wrong:
        assert re.search("weights are not those of training|was trained with other weights", told(model, rows, other))
    if not is_weighted:
        assert told(model, rows, np.ones(N)) == ""


@pytest.mark.parametrize("model", NOT_STORED, ids=str)
def test_weights_of_train_that_no_sum_can_prove_are_said_to_be_unproven(model, rows):
    weight = rows[-1]
    model, _, _ = fitted(model, rows, weight)
    assert told(model, rows, weight).startswith("train: the weights are unproven")
