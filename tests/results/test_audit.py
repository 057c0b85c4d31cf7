import json

import numpy as np
import pytest

import debias


@pytest.fixture(scope="module")
def audit(diabetes, models):
    X, y = diabetes
    return debias.audit(models("xgboost").fit(X[:300], y[:300]), X[300:], y[300:])


def test_scores_survive_json(audit):
    scores = audit.scores["oob_loss"]
    again = debias.Scores.from_json(scores.to_json())
    assert again.to_dict() == scores.to_dict()
    np.testing.assert_array_equal(again.values, scores.values)
    assert isinstance(again.details["base"], float)


def test_an_audit_survives_json(audit, tmp_path):
    text = audit.to_json(tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_text()) == json.loads(text)
    assert debias.Audit.from_json(text).to_json() == text


def test_json_of_another_schema_is_refused(audit):
    for kind, text in ((debias.Audit, audit.to_json()), (debias.Scores, audit.tested_scores.to_json())):
        with pytest.raises(debias.DebiasError, match="schema version 99"):
            kind.from_json(json.dumps(json.loads(text) | {"schema_version": 99}))


def test_the_table_has_shares_that_sum_to_1_and_is_sorted(audit):
    table = audit.to_frame()
    assert table.index.name == "feature"
    tested = ["standard_error", "z", "p_value", "p_adjusted", "verdict"]
    assert list(table.columns) == ["reported", "reported_unseen", "share", "mdi_oob", "oob_loss", *tested, "finding"]
    assert table[["reported", "reported_unseen", "share"]].sum().tolist() == pytest.approx([1, 1, 1])
    assert table["share"].is_monotonic_decreasing
    assert (table["share"] >= 0).all()


@pytest.mark.thorough
def test_reported_is_what_the_library_reports(diabetes, models):
    import lightgbm
    import xgboost

    X, y = diabetes
    train, fresh = (X[:300], y[:300]), (X[300:], y[300:])
    for library in ("sklearn", "xgboost", "lightgbm"):
        model = models(library).fit(*train)
        expected = np.asarray(model.feature_importances_, dtype=float)
        found = debias.audit(model, *fresh)
        np.testing.assert_allclose(found.reported, expected / expected.sum(), rtol=1e-6)
    booster = xgboost.train({}, xgboost.DMatrix(*train), 10)
    found = debias.audit(booster, *fresh)
    weights = booster.get_score(importance_type="weight")
    np.testing.assert_allclose(found.reported, [weights[name] / sum(weights.values()) for name in X.columns])
    assert found.provenance["reported"] == "weight"
    booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(*train), 10)
    found = debias.audit(booster, *fresh)
    np.testing.assert_allclose(found.reported, booster.feature_importance() / booster.feature_importance().sum())


@pytest.mark.thorough
def test_the_summary_names_what_is_inflated(diabetes, models):
    X, y = diabetes
    X = X.assign(noise=np.random.default_rng(1).permutation(len(X)))
    lines = debias.audit(models("sklearn", n_estimators=200).fit(X, y), X, y).summary()
    assert lines[0].endswith(
        "features are informative, if rows are independent. Strongest first: s5, bmi, bp, s6, s3 and 1 more."
    )
    assert any(line.startswith("Reported too high: noise has ") for line in lines[1:])
    assert lines[-1].startswith("Scored on 442 out-of-bag rows: the training rows in training order")


def test_a_feature_the_model_was_not_told_the_name_of_takes_that_of_the_column(diabetes, models):
    X, y = diabetes
    model = models("sklearn").fit(X.to_numpy(), y)
    assert debias.score(model, X.to_numpy(), y).feature_names[0] == "x0"
    assert debias.score(model, X, y).feature_names == tuple(X.columns)


def test_the_two_ways_to_run_the_log_loss_agree(cancer, models, monkeypatch):
    """Products of ratios serve moderate margins, logarithms node by node all others."""
    X, y = cancer
    model = models("xgboost", "classification").fit(X[:400], y[:400])
    weight = np.linspace(0, 2, len(y) - 400)
    given = {"rows": "held-out", "sample_weight": weight}
    fast = debias.score(model, X[400:], y[400:], "oob_loss", **given)
    monkeypatch.setattr("debias.rows.running_loss._moderate", lambda ensemble: False)
    slow = debias.score(model, X[400:], y[400:], "oob_loss", **given)
    np.testing.assert_allclose(fast.values, slow.values, rtol=1e-9, atol=1e-13)
    assert fast.details["base"] == pytest.approx(slow.details["base"], rel=1e-9, abs=1e-13)
    assert not np.array_equal(fast.values, slow.values)  # two ways indeed


def test_bags_made_of_row_lists_are_those_rows():
    bags = debias.plugin.InBag.from_rows([np.array([0, 0, 2]), np.array([9])], n_rows=10)
    assert bags.block(0, 10).tolist() == [[i in (0, 2) for i in range(10)], [i == 9 for i in range(10)]]
    assert bags.draw(0)[:3].tolist() == [2, 0, 1]
    assert bags.n_distinct().tolist() == [2, 1]
    with pytest.raises(debias.RowsError, match="tree 1 names rows that do not exist: there are 10"):
        debias.plugin.InBag.from_rows([np.array([0]), np.array([10])], n_rows=10)
