"""An audit names the features that no tree of the model splits on, and no others."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import RandomForestRegressor, VotingRegressor
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from xgboost import XGBRegressor

import debias

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(600, 3)), columns=list("abc"))
X["twin"] = X["a"] + 0.1 * RNG.normal(size=600)
X["constant"] = 1.0
Y = 2 * X["a"] + X["b"] + RNG.normal(size=600)
TRAIN, TEST = slice(0, 300), slice(300, 600)


def audited(model, columns=("a", "b", "c", "constant"), **how):
    table = X[list(columns)]
    model.fit(table[TRAIN], Y[TRAIN])
    return debias.audit(model, table[TEST], Y[TEST], rows="held-out", random_state=0, **how)


def without_splits(model, names):
    """By the library: features whose number of splits is 0 in all trees."""
    used = {names[k] for tree in model.estimators_ for k in tree.tree_.feature if k >= 0}
    return [name for name in names if name not in used]


def test_a_constant_column_is_not_used_and_the_model_predicts_the_same_whatever_it_is():
    model = RandomForestRegressor(20, max_depth=2, random_state=0)
    audit = audited(model, X.columns)
    assert audit.unused_features == without_splits(model, list(X))
    assert "constant" in audit.unused_features
    other = X.assign(constant=RNG.normal(size=600))
    np.testing.assert_array_equal(model.predict(X), model.predict(other))
    finding = audit.to_frame()["finding"]
    assert (finding[audit.unused_features] == "no splits").all()
    assert (finding == "no splits").sum() == len(audit.unused_features)
    assert audit.explain("constant")[1].startswith("No tree of this model splits on it.")


def test_all_columns_of_a_group_must_be_unused():
    model = XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1)
    assert audited(model, groups={"both": ["a", "constant"]}).unused_features == []
    assert audited(model).unused_features == ["constant"]


def test_a_vote_uses_what_any_of_its_models_uses():
    stump = {"max_depth": 1, "random_state": 0}
    vote = VotingRegressor([("one", RandomForestRegressor(2, **stump)), ("two", RandomForestRegressor(30, **stump))])
    audit = audited(vote, X.columns)
    names, (one, two) = list(X), vote.estimators_
    alone = [without_splits(model, names) for model in (one, two)]
    assert audit.unused_features == [name for name in names if name in alone[0] and name in alone[1]]
    assert len(alone[0]) > len(audit.unused_features) > 0


@pytest.mark.parametrize(
    "model",
    [
        XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1),
        LGBMRegressor(n_estimators=10, num_leaves=4, linear_tree=True, verbose=-1, n_jobs=1),
        RandomForestRegressor(5, max_depth=2, random_state=0),
    ],
    ids=["XGBoost", "lines in leaves", "forest"],
)
def test_values_of_unused_features_do_not_matter_and_those_of_others_do(model):
    audit = audited(model)
    assert "constant" in audit.unused_features
    table = X[["a", "b", "c", "constant"]]
    for name in table:
        other = table.assign(**{name: RNG.normal(size=len(table))})
        assert np.array_equal(model.predict(other), model.predict(table)) == (name in audit.unused_features)


@pytest.mark.parametrize(
    "step", [StandardScaler(), PolynomialFeatures(2, include_bias=False)], ids=["scaled", "products"]
)
@pytest.mark.parametrize("groups", [None, {"first": ["a"]}], ids=["columns", "groups"])
def test_nothing_is_said_behind_steps_whose_columns_may_be_otherwise_on_other_rows(step, groups):
    booster = XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1)
    assert audited(make_pipeline(step, booster), groups=groups).unused_features == []


def test_nothing_is_said_where_a_column_is_a_combination_of_others_as_those_of_catboost():
    table = X[["a", "b", "constant"]].assign(**{"a + b": X["a"] + X["b"]})
    model = XGBRegressor(n_estimators=3, max_depth=1, n_jobs=1).fit(table[TRAIN], Y[TRAIN])
    assert model.get_booster().get_score().keys() <= {"a", "a + b"}
    assert debias.audit(model, table[TEST], Y[TEST], rows="held-out").unused_features == []


def test_a_name_with_a_plus_is_no_combination():
    table = X[["a", "b", "constant"]].set_axis(["A + B", "b", "constant"], axis=1)
    model = XGBRegressor(n_estimators=3, max_depth=1, n_jobs=1).fit(table[TRAIN], Y[TRAIN])
    assert debias.audit(model, table[TEST], Y[TEST], rows="held-out").unused_features == ["b", "constant"]


def test_a_related_feature_that_no_tree_splits_on_is_told_as_such():
    model = RandomForestRegressor(30, max_depth=1, max_features=None, random_state=0).fit(X[TRAIN], Y[TRAIN])
    audit = debias.audit(model, X[TRAIN], Y[TRAIN], random_state=0)
    table = audit.to_frame()
    related = table.index[(table["dependence"] == "dependent") & table.index.isin(audit.unused_features)]
    assert {"b", "twin"} & set(related)
    assert (table.loc[related, "finding"] == "related, no splits").all()
    [told] = [line for line in audit.summary() if line.startswith("The response depends on ")]
    number = "one" if len(related) == 1 else len(related)
    assert told.endswith(f"No tree splits on {number} of them: {', '.join(related)}.")
    assert audit.explain(related[0])[2].startswith("The response depends on it in the nodes of the trees (adjusted p ")


def test_unused_features_are_not_said_to_be_tested_together():
    audit = audited(XGBRegressor(n_estimators=3, max_depth=1, n_jobs=1))
    summary = audit.summary()
    assert audit.unused_features == ["b", "c", "constant"]
    assert not any("ogether the other" in line for line in summary)
    assert sum(line.startswith("No tree of this model splits on b, c or constant.") for line in summary) == 1


def test_without_a_test_nothing_is_said():
    audit = audited(XGBRegressor(n_estimators=5, n_jobs=1), test=None)
    assert audit.unused_features == []


def test_a_file_keeps_them_and_a_wrong_one_is_refused(tmp_path):
    audit = audited(XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1))
    audit.to_json(tmp_path / "audit.json")
    assert debias.Audit.from_json(tmp_path / "audit.json").unused_features == ["constant"]
    stored = (tmp_path / "audit.json").read_text()
    for wrong in ('["other"]', '["constant", "constant"]', '"constant"', "[1]"):
        changed = stored.replace('"unused_features": ["constant"]', f'"unused_features": {wrong}')
        assert changed != stored
        (tmp_path / "wrong.json").write_text(changed)
        with pytest.raises(debias.DebiasError, match="unused_features is not a list of features"):
            debias.Audit.from_json(tmp_path / "wrong.json")


def test_a_feature_is_unused_over_folds_if_no_fold_splits_on_it():
    folds, names = list(KFold(3).split(X)), list(X)
    models = [
        RandomForestRegressor(2, max_depth=2, max_features=1, random_state=seed).fit(X.iloc[train], Y.iloc[train])
        for seed, (train, _) in enumerate(folds)
    ]
    of_each = [without_splits(model, names) for model in models]
    found = debias.audit_folds(models, X, Y, cv=folds, random_state=0)
    assert found.unused_features == [name for name in names if all(name in unused for unused in of_each)]
    assert any(set(unused) != set(found.unused_features) for unused in of_each)
    assert found.unused_features == ["constant"]
    assert "No tree of any fold splits on constant. A model that is trained again may use it." in found.summary()


def with_constants(n_constants):
    table = X[["a", "b", "c", "twin"]].round(1)  # an even number of rows a value, so that bins do not move
    return pd.concat([table, pd.DataFrame(dict.fromkeys([f"k{k}" for k in range(n_constants)], [1.0] * 600))], axis=1)


def boosted(rows, n_constants):
    booster = LGBMRegressor(n_estimators=20, num_leaves=5, verbose=-1, n_jobs=1, random_state=0)
    return booster.fit(with_constants(n_constants).iloc[rows], Y.iloc[rows])


@pytest.mark.parametrize("test", ["auto", "naive", "permutation"])
@pytest.mark.parametrize("error", ["fwer", "fdr", "fdr_by"])
def test_columns_without_a_split_are_no_tests(test, error):
    # 60 more than the limit from which draws of all features are pooled: they must not be counted there either.
    few, many = (
        debias.audit(
            boosted(TRAIN, number),
            with_constants(number)[TEST],
            Y[TEST],
            rows="held-out",
            test=test,
            error_rate=(error, 0.1),
            dependence=False,
        ).to_frame()
        for number in (0, 60)
    )
    compared = ["p_value", "p_adjusted", "verdict"]
    pd.testing.assert_frame_equal(few[compared], many.loc[few.index, compared])
    assert few["p_adjusted"].between(0.001, 0.999).any() or test == "naive"
    constant = many.drop(index=few.index)
    assert (constant[["p_value", "p_adjusted"]] == 1).all(axis=None)


@pytest.mark.thorough
@pytest.mark.parametrize("combine", ["sum", "harmonic"])
@pytest.mark.parametrize(("test", "error"), [("auto", "fdr"), ("naive", "fwer"), ("auto", "fdr_by")])
def test_columns_without_a_split_in_any_fold_are_no_tests(combine, test, error):
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))

    def p_values(n_constants):
        models = [boosted(train, n_constants) for train, _ in folds]
        table = with_constants(n_constants)
        settings = {"test": test, "error_rate": (error, 0.1), "combine": combine}
        return debias.audit_folds(models, table, Y, cv=folds, **settings).to_frame()["p_adjusted"]

    few, many = p_values(0), p_values(60)
    pd.testing.assert_series_equal(few, many[few.index])
    assert (many.drop(few.index) == 1).all()


@pytest.mark.thorough
def test_sets_to_drop_are_shares_of_the_features_with_splits_beside_all_others():
    def sizes(n_constants):
        table, model = with_constants(n_constants), boosted(TRAIN, n_constants)
        result = debias.droppable(
            model, table[TEST], Y[TEST], train=(table[TRAIN], Y[TRAIN]), tolerance=0.2, random_state=0
        )
        assert {f"k{k}" for k in range(n_constants)} == set(result.order[:n_constants])
        assert result.sizes[0] == (model.feature_importances_ == 0).sum() > 0
        return result.sizes

    np.testing.assert_array_equal(sizes(40), sizes(0) + 40)


def test_a_model_that_splits_on_one_feature_may_lose_all_others():
    rows = X[["a", "constant"]]
    model = LGBMRegressor(n_estimators=20, num_leaves=2, verbose=-1, n_jobs=1).fit(rows[TRAIN], Y[TRAIN])
    result = debias.droppable(model, rows[TEST], Y[TEST], train=(rows[TRAIN], Y[TRAIN]), random_state=0)
    assert result.columns == ["constant"]
