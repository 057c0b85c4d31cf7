"""Features that the rows of an audit cannot test: empty, constant, or without rows at their splits."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias.errors import DebiasError, RowsError
from debias.results.untested import without

POLICY = {"must_not_matter": ["leak"], "max_unsupported_share": 0.3, "min_informative": 1}


@pytest.fixture(scope="module")
def made():
    """A model with a leak that has most of its importance, and held-out rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1000, 3)), columns=["a", "b", "leak"])
    y = X["a"] + 4 * X["leak"] + 0.1 * rng.normal(size=1000)
    model = XGBRegressor(n_estimators=20, max_depth=3, importance_type="total_gain", n_jobs=1, random_state=0)
    model.fit(X[:600], y[:600])
    return model, X, y


def audited(made, leak=None, rows=slice(600, None), **given):
    model, X, y = made
    X, y = X[rows], y[rows]
    return debias.audit(
        model, X if leak is None else X.assign(leak=leak), y, random_state=0, test=debias.Permutation(60), **given
    )


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
@pytest.mark.parametrize(
    ("leak", "reason"),
    [
        (np.nan, "all of its values are missing on these rows"),
        (0.0, "it has only one value on these rows"),
        (np.linspace(90.0, 99.0, 400), "none of its splits divides these rows"),
    ],
)
def test_a_leak_that_these_rows_do_not_show_is_untested_and_its_rules_are_not_judged(made, leak, reason):
    assert audited(made).check({"must_not_matter": ["leak"]}).status == "failed"
    audit = audited(made, leak)
    assert any(text.startswith("not tested: ") and f"leak ({reason})" in text for text in audit.warnings)
    verdict = dict(zip(audit.tested_scores.feature_names, audit.verdict, strict=True))
    assert (verdict["a"], verdict["leak"]) == (
        "informative",
        "untested",
    )  # splits on b may be where no row comes any more
    assert audit.untested_features["leak"] == reason
    assert audit.to_frame().loc["leak", "untested_because"] == reason
    figures = audit.to_frame().loc["leak", ["share", "mdi_oob", "standard_error", "z", "p_value", "p_adjusted"]]
    assert figures.isna().all()
    assert not any("Reported too high: leak" in line for line in audit.summary())
    *cells, verdict = next(line for line in repr(audit).splitlines() if line.startswith("leak")).split()[2:]
    assert (set(cells), verdict) == ({"-"}, "untested")
    assert audit.untested_share > 0.5
    assert audit.unsupported_share < 0.05
    assert any(line.startswith("Not tested: ") and f"leak ({reason})" in line for line in audit.summary())
    gate = audit.check(POLICY)
    assert (gate.status, gate.exit_code) == ("not judged", 4)
    status = {result.rule: result.status for result in gate.results}
    assert status["must_not_matter: leak"] == status["max_unsupported_share"] == "not judged"
    assert status["min_informative"] == "passed"
    assert audit.check({"must_be_informative": ["leak"]}).status == "not judged"
    assert audit.check({"min_informative": 2}).status == "not judged"
    assert audit.check({"min_informative": 4}).status == "failed"
    assert "z = 0.00" not in gate.to_json() + audit.to_html()


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_what_was_not_tested_is_neither_changed_nor_unchanged(made):
    before, now = audited(made), audited(made, np.nan)
    for rule, limit in (("max_verdict_changes", 0), ("max_rank_change", 0), ("max_share_change", 1.0)):
        for pair in ((now, before), (before, now), (now, now)):
            assert pair[0].check({rule: limit}, pair[1]).status == "not judged", rule
    assert before.check({"max_verdict_changes": 0}, before).status == "passed"
    gate = now.check({"max_share_change": 1.0}, before)
    change = next(change for change in gate.changes if change.feature == "leak")
    assert (change.rank[1], change.share[1], change.verdict[1]) == (None, None, "untested")
    assert change.in_words().endswith("informative -> untested")
    assert gate.results[-1].value == "none"


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_a_new_feature_that_was_not_tested_moves_the_shares_and_ranks_of_the_others(made):
    model, X, y = made
    old = clone(model).fit(X.loc[:599, ["a", "b"]], y[:600])
    before = debias.audit(old, X.loc[600:, ["a", "b"]], y[600:], random_state=0, test=debias.Permutation(60))
    now = audited(made, np.nan)
    for rule, status in (
        ("max_share_change", "not judged"),
        ("max_rank_change", "not judged"),
        ("max_verdict_changes", "passed"),
    ):
        result = next(
            each
            for each in now.check({rule: 2 if rule != "max_share_change" else 1.0}, before).results
            if each.rule == rule
        )
        assert result.status == status, rule


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_inflation_is_not_judged_where_a_feature_that_was_not_tested_may_change_it(made):
    def inflation(audit, limit):
        return next(each for each in audit.check({"max_inflation": limit}).results if each.rule == "max_inflation")

    audit = audited(made, np.nan)
    largest = max(audit.reported)
    # The shares of tested features, which are made without the leak, exceed the true ones.
    tested = next(name for name in audit.tested_scores.feature_names if name not in audit.untested_features)
    reported = np.where([name == tested for name in audit.tested_scores.feature_names], 0.9, 0.05)
    assert inflation(replace(audit, reported=reported), 0.5).status == "not judged"
    assert inflation(audit, largest).status == "passed"  # no share can exceed that on these rows by more
    model, X, y = made
    one_value = inflation(debias.audit(model, X[600:], 0 * y[600:], random_state=0, test=debias.Permutation(60)), 0.999)
    assert (one_value.status, one_value.value) == ("not judged", "none")
    assert "is not known on these rows (the response is the same in all of them)" in one_value.reason
    nothing = debias.audit(model, 0 * X[600:], y[600:], random_state=0, test=debias.Permutation(60))
    assert set(nothing.untested_features) == {"a", "b", "leak"}
    result = inflation(nothing, 0.0)
    assert (result.status, result.value) == ("not judged", "none")
    assert "debiased 0.0%" not in result.reason


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_it_is_stored_and_a_forged_file_is_refused(made):
    audit = audited(made, np.nan)
    again = debias.Audit.from_json(audit.to_json())
    assert (again.verdict, again.untested_features) == (audit.verdict, audit.untested_features)
    plain = json.loads(audit.to_json())
    plain["scores"]["mdi_oob"]["details"]["untested_features"] = {"a": "no reason"}
    with pytest.raises(DebiasError, match="no feature with a score of 0"):
        debias.Audit.from_json(json.dumps(plain))


def test_dependence_on_a_feature_that_these_rows_cannot_test_is_untested(made):
    _, X, y = made
    forest = RandomForestRegressor(20, max_depth=3, n_jobs=1, random_state=0).fit(X, y)
    audit = debias.audit(forest, X, y, random_state=0, test=debias.Permutation(60))
    main = without(audit.tested_scores, {"a": "a reason", "b": "a reason"})
    audit = replace(audit, scores={**audit.scores, audit.tested_scorer: main})
    assert audit.to_frame().loc["leak", "dependence"] == "dependent"
    assert audit.to_frame().loc["b", ["verdict", "dependence"]].tolist() == ["untested", "untested"]
    assert np.isnan(audit.to_frame().loc["b", "dependence_p_adjusted"])
    assert not any(line.startswith("Dependence was not tested") for line in audit.summary())


def test_a_feature_without_splits_is_tested_and_does_not_matter(made):
    _, X, y = made
    X = X.assign(unused=0.0)
    model = XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1, random_state=0).fit(X[:600], y[:600])
    audit = debias.audit(model, X[600:], y[600:], random_state=0, test=debias.Permutation(60))
    assert audit.untested_features == {}
    assert audit.check({"must_not_matter": ["unused"]}).passed


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_rows_in_batches_tell_the_same(made):
    model, X, y = made
    batches = [(X[start : start + 100].assign(leak=np.nan), y[start : start + 100]) for start in range(600, 1000, 100)]
    audit = debias.audit(model, batches, None, random_state=0)
    assert audit.untested_features == {"leak": "none of its splits divides these rows"}


@pytest.mark.thorough
@pytest.mark.parametrize("empty_in", ["every fold", "one fold"])
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_over_folds_a_feature_is_tested_if_one_fold_could_test_it(made, empty_in):
    _, X, y = made
    parts = [(np.arange(350), np.arange(700, 850)), (np.arange(350, 700), np.arange(850, 1000))]
    model = XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1, random_state=0)
    X = X.copy()
    X.loc[700 if empty_in == "every fold" else 850 :, "leak"] = np.nan
    models = [clone(model).fit(X.iloc[train], y.iloc[train]) for train, _ in parts]
    folds = debias.audit_folds(models, X, y, parts, random_state=0, test=debias.Permutation(40))
    if empty_in == "one fold":
        assert folds.untested_features == {}
        assert folds.to_frame().loc["leak", "verdict"] == "informative"
        return
    reason = "all of its values are missing on these rows"
    assert folds.untested_features == {"leak": reason}
    assert folds.to_frame().loc["leak", ["share", "mean", "p_adjusted"]].isna().all()
    assert folds.to_frame().loc["leak", ["verdict", "untested_because"]].tolist() == ["untested", reason]
    assert any(line.startswith(f"Not tested: leak ({reason})") for line in folds.summary())
    again = type(folds).from_json(folds.to_json())
    assert again.verdict == folds.verdict
    assert "0.0%" not in next(line for line in repr(folds).splitlines() if line.startswith("leak"))
    folds.to_html()


def test_a_group_with_the_name_of_a_column_outside_of_it_is_refused(made):
    with pytest.raises(RowsError, match="group 'leak' has the name of a column that is not in it"):
        audited(made, groups={"leak": ["b"], "others": ["leak", "a"]})
    assert audited(made, groups={"leak": ["leak", "b"]}).tested_scores.feature_names == ("a", "leak")


def test_a_response_that_the_model_does_not_predict_gives_no_feature_a_pass(made):
    model, X, y = made
    shuffled = np.random.default_rng(1).permutation(y[600:])
    audit = debias.audit(model, X[600:], shuffled, random_state=0, test=debias.Permutation(60))
    gate = audit.check({"must_not_matter": ["leak"], "must_predict": True})
    assert [(result.rule, result.status) for result in gate.results if result.rule != "min_provenance"] == [
        ("must_predict", "failed"),
        ("must_not_matter: leak", "not judged"),
    ]
    assert audit.check({"must_not_matter": ["leak"]}).exit_code == 4
