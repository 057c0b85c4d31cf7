"""Tests of pipelines of imbalanced-learn, whose samplers change the training rows, and of skrub's transformers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias

pytestmark = pytest.mark.integration
N = 400


def draw(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    return X, (X["a"] + rng.normal(size=N) / 2 > 1.2).astype(int).to_numpy()


def resampled(sampler, **settings):
    imblearn = pytest.importorskip("imblearn")
    kinds = {
        "SMOTE": imblearn.over_sampling.SMOTE,
        "RandomUnderSampler": imblearn.under_sampling.RandomUnderSampler,
    }
    forest = RandomForestClassifier(15, random_state=0)
    X, y = draw()
    return imblearn.pipeline.make_pipeline(StandardScaler(), kinds[sampler](random_state=0), forest).fit(X, y)


@pytest.mark.parametrize("sampler", ["SMOTE", "RandomUnderSampler"])
def test_samplers_are_skipped_at_prediction_and_training_rows_cannot_pass(sampler):
    model, (X, y) = resampled(sampler), draw()
    fresh, y_fresh = draw(1)
    scores = debias.score(model, fresh, y_fresh, rows="held-out")
    seen = model[0].transform(fresh)
    with pytest.warns(debias.DebiasWarning):  # the share of the classes differs from that in training
        inner = debias.score(model[-1], seen, y_fresh, rows="held-out")
    np.testing.assert_array_equal(scores.values, inner.values)
    assert scores.feature_names == ("a", "b", "c")
    assert scores.provenance["status"] == "cannot be told"
    assert f"resamples its training rows ({sampler})" in scores.unproven_because
    for rows in (X, fresh):
        with pytest.raises(
            debias.ProvenanceError, match=f"resamples its training rows \\({sampler}\\).*rows='held-out'"
        ):
            debias.score(model, rows, y)
    with pytest.raises(debias.InBagUnavailableError, match="no row can be proven to be out of bag.*rows='held-out'"):
        debias.score(model, X, y, rows="oob")
    with pytest.warns(debias.DebiasWarning, match="scores on training rows"):
        assert debias.score(model, X, y, rows="train").rows == "train"


def test_a_resampling_pipeline_is_audited_and_refitted():
    model, (X, y) = resampled("SMOTE"), draw()
    fresh, y_fresh = draw(1)
    audit = debias.audit(model, fresh, y_fresh, rows="held-out", random_state=0)
    assert audit.to_frame().loc["a", "verdict"] == "informative"
    assert "informative, if none of the rows is a training row" in audit.summary()[0]
    assert ", if none of the rows is a training row" in repr(audit)
    assert "look like training rows" not in " ".join(audit.summary())
    refitted = debias.refit(model, X, y)
    np.testing.assert_array_equal(refitted.predict_proba(fresh), model.predict_proba(fresh))
    null = debias.score(
        model,
        fresh,
        y_fresh,
        "response_permutation(mdi_oob, replicates=3)",
        rows="held-out",
        train=(X, y),
        random_state=0,
    )
    assert null.p_value is not None


def test_columns_of_a_table_vectorizer_are_traced_to_those_of_the_table():
    skrub = pytest.importorskip("skrub")
    rng = np.random.default_rng(0)
    X, _ = draw()
    X = X.assign(town=rng.choice(list("ABC"), N), day=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N), "D"))
    y = X["a"].to_numpy() + 2 * (X["town"] == "B").to_numpy() + rng.normal(size=N) / 2
    before = X.copy(deep=True)
    model = make_pipeline(skrub.TableVectorizer(), RandomForestRegressor(15, random_state=0)).fit(X, y)
    source = debias.score(model, X, y)
    assert set(source.feature_names) == set(X)
    inner = debias.score(model, X, y, level="model")
    assert inner.feature_names == tuple(model[0].get_feature_names_out())
    of = dict(zip(inner.feature_names, inner.values, strict=True))
    values = dict(zip(source.feature_names, source.values, strict=True))
    for column in X:
        mine = [value for name, value in of.items() if name == column or name.startswith(f"{column}_")]
        assert values[column] == pytest.approx(sum(mine), abs=1e-12)
    pd.testing.assert_frame_equal(X, before)
