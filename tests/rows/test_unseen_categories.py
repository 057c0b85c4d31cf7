"""Categories that the steps before the trees never saw: counted by the columns of the user, or said not to be."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, TargetEncoder

import debias
from debias.models import wrappers
from debias.rows.period_sums import PeriodSums

ENCODERS = {
    "one-hot": OneHotEncoder(handle_unknown="ignore"),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "target": TargetEncoder(),
    "imputed": make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
}
RULE = {"max_unseen": 0.05}


def rows(number, seed, new=0):
    """Return rows of which the first have a shop that is not there in others."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"number": rng.normal(size=number), "shop": rng.choice(["a", "b", "c"], number)})
    y = 2 * X["number"] + 2 * (X["shop"] == "b") + 0.3 * rng.normal(size=number)
    X.loc[: new - 1, "shop"] = "new"
    return X, y.to_numpy()


def fitted(encoder):
    steps = ColumnTransformer([("shops", encoder, ["shop"])], remainder="passthrough")
    return make_pipeline(steps, GradientBoostingRegressor(n_estimators=20, random_state=0)).fit(*rows(200, 0))


def audited(model, X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        return debias.audit(model, X, y, rows="held-out", random_state=0, **settings)


def result(audit):
    return audit.check(RULE).results[-1]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_rows_with_a_new_category_are_counted_before_the_encoder(encoder):
    model = fitted(ENCODERS[encoder])
    X, y = rows(100, 1, new=30)
    for given in (X, X[["shop", "number"]].assign(spare="?")):
        audit = audited(model, given, y)
        assert audit.tested_scores.details["unseen_categories"] == {"shop": 0.3}
        assert (result(audit).status, "shop 30" in result(audit).reason) == ("failed", True)
        assert any(
            "column 'shop' has values that a step before the trees never saw ('new', in 30" in text
            for text in audit.warnings
        )
    known = audited(model, *rows(100, 1))
    assert known.tested_scores.details["unseen_categories"] == {}
    assert result(known).status == "passed"
    assert not any("never saw" in text for text in known.warnings)


def test_rows_of_weight_0_are_not_counted():
    X, y = rows(100, 1, new=30)
    audit = audited(fitted(ENCODERS["one-hot"]), X, y, sample_weight=np.repeat([0.0, 1.0], [20, 80]))
    assert audit.tested_scores.details["unseen_categories"] == {"shop": 10 / 80}


def test_missing_values_are_no_new_category():
    X, y = rows(100, 1)
    X.loc[:20, "shop"] = np.nan
    assert result(audited(fitted(ENCODERS["imputed"]), X, y)).status == "passed"


def test_what_a_step_does_not_tell_is_not_judged():
    lengths = FunctionTransformer(lambda texts: texts.map(len), feature_names_out="one-to-one")
    found = result(audited(fitted(lengths), *rows(100, 1, new=100)))
    assert found.status == "not judged"
    assert "steps before the trees do not tell which categories they know of shop" in found.reason
    found = result(audited(fitted(ENCODERS["one-hot"]), *rows(100, 1, new=100), level="model"))
    assert (found.status, "scores are for columns that transformers make" in found.reason) == ("not judged", True)


def test_rows_in_lists_and_arrays_are_counted():
    X, y = rows(100, 1, new=30)
    steps = ColumnTransformer([("shops", ENCODERS["one-hot"], [1])], remainder="passthrough")
    known, y_known = rows(200, 0)
    model = make_pipeline(steps, GradientBoostingRegressor(n_estimators=20, random_state=0))
    model.fit(known.to_numpy(), y_known)
    for given in (X.to_numpy(), X.to_numpy().tolist()):
        assert list(audited(model, given, y).tested_scores.details["unseen_categories"].values()) == [0.3]


def test_batches_warn():
    X, y = rows(100, 1, new=30)
    with pytest.warns(debias.DebiasWarning, match="never saw"):
        scores = debias.score(fitted(ENCODERS["one-hot"]), [(X[:50], y[:50]), (X[50:], y[50:])], rows="held-out")
    assert any("step before the trees never saw ('new', in 60" in text for text in scores.warnings)


@pytest.mark.thorough
def test_histories_count_them(tmp_path):
    history = debias.History(fitted(ENCODERS["ordinal"]), tmp_path / "x.history")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for day in range(16):
            history.add(*rows(50, 10 + day, new=20 * (day >= 8)), at=day, rows="held-out")
    changes = history.changes(8, 8)
    assert dict(zip(changes.feature_names, changes.statistics["unseen_after"], strict=True)) == {
        "number": 0,
        "shop": 0.4,
    }
    assert changes.check(RULE).results[0].status == "failed"


def test_the_trees_are_read_once_however_many_batches_follow(monkeypatch):
    read = []
    trees_of = wrappers.trees_of
    monkeypatch.setattr(wrappers, "trees_of", lambda model: read.append(model) or trees_of(model))
    sums = PeriodSums(fitted(ENCODERS["one-hot"])[-1])
    for seed in (1, 2):
        X = np.random.default_rng(seed).normal(size=(50, sums.ensemble.n_features))
        sums.update(X, X[:, 0])
    assert len(read) == 1
