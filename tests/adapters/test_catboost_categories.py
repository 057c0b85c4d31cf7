"""Tests of CatBoost models with categories: splits on statistics of the response (CTR), on one category, and both.

The brute force reads splits from CatBoost's JSON and rows' paths from CatBoost's leaf indexes, and nothing from debias.
One file, because all tests share it.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import debias
from debias.errors import (
    CompositionError,
    DebiasWarning,
    ExtractionError,
    InBagUnavailableError,
    ProvenanceError,
    RowsError,
    UnsupportedModelError,
)
from debias.hooks.registry import plugin_manager
from debias.models.wrappers import unwrap
from debias.testing import check_adapter

catboost = pytest.importorskip("catboost")
metrics = pytest.importorskip("catboost.utils")
pytestmark = pytest.mark.integration
N = 400
CATEGORICAL = ["city", "job", "code"]
LOSSES = {"numbers": "RMSE", "two classes": "Logloss", "three classes": "MultiClass"}
QUIET = {"verbose": False, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}


def draw(task="numbers", seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "city": rng.choice([f"città {k}" for k in range(30)], n),
            "code": rng.integers(0, 9, n),
            "b": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "job": rng.choice(["cook", "nurse", "pilot", "clerk"], n),
        }
    )
    even = X.city.str[6:].astype(int) % 2
    latent = X.a + 2 * even * (X.job == "cook") + even + (X.code > 5) + 0.5 * rng.normal(size=n)
    if task == "numbers":
        return X, latent.to_numpy()
    return X, np.array(["low", "mid", "top"])[np.digitize(latent, [1.2] if task == "two classes" else [0.3, 1.8])]


def boosted(task="numbers", **settings):
    kind = catboost.CatBoostRegressor if task == "numbers" else catboost.CatBoostClassifier
    fixed = {"iterations": 12, "depth": 4, "loss_function": LOSSES[task], "cat_features": CATEGORICAL, **QUIET}
    return kind(**{**fixed, **settings})


def simple(task="numbers", **settings):
    """A model without combinations."""
    return boosted(task, **{"max_ctr_complexity": 1, **settings})


HOW = {
    "statistics": {"max_ctr_complexity": 1},
    "combinations": {"max_ctr_complexity": 3, "iterations": 40, "depth": 6},
    "some one-hot": {"one_hot_max_size": 9, "max_ctr_complexity": 3, "iterations": 25},
    "all one-hot": {"one_hot_max_size": 30},
    "other statistics": {
        "simple_ctr": ["Buckets", "Counter:Prior=0.3/1"],
        "combinations_ctr": ["Buckets"],
        "one_hot_max_size": 1,
        "max_ctr_complexity": 2,
    },
    "ordered": {"boosting_type": "Ordered", "max_ctr_complexity": 3, "iterations": 25},
}


# --- brute force -------------------------------------------------------------------------------------------


def document(model, tmp_path):
    model.save_model(str(tmp_path / "model.json"), format="json")
    return json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))


def columns_of_splits(stored):
    """The columns that a split is on, by its number: CatBoost numbers borders, then categories, then statistics."""
    features = stored["features_info"]
    flat = {
        kind: [feature["flat_feature_index"] for feature in features.get(f"{kind}_features", [])]
        for kind in ("float", "categorical")
    }
    found = []
    for feature in features["float_features"]:
        found += [(feature["flat_feature_index"],)] * len(feature["borders"])
    for feature in features["categorical_features"]:
        found += [(feature["flat_feature_index"],)] * len(feature.get("values", []))
    for statistic in features.get("ctrs", []):
        columns = [
            flat["float"][each["float_feature_index"]]
            if "float_feature_index" in each
            else flat["categorical"][each["cat_feature_index"]]
            for each in statistic["elements"]
        ]
        found += [tuple(columns)] * len(statistic["borders"])
    return found


def gradient_at_the_start(model, y, base):
    loss = model.get_all_params()["loss_function"]
    if loss == "RMSE":
        return (y - base[0])[:, None]
    codes = np.searchsorted(model.classes_, y)
    if loss == "Logloss":
        return (codes - 1 / (1 + np.exp(-base[0])))[:, None]
    share = np.exp(base) / np.exp(base).sum()
    return np.eye(len(share))[codes] - share


def brute_force(model, X, y, tmp_path):
    """mdi_oob by the definition, for symmetric trees: by columns that a split is on, in X's order."""
    stored = document(model, tmp_path)
    columns = columns_of_splits(stored)
    leaves = model.calc_leaf_indexes(X)
    scale, base = stored["scale_and_bias"]
    r = gradient_at_the_start(model, y, np.asarray(base))
    score = {}
    for number, tree in enumerate(stored["oblivious_trees"]):
        weight = np.array(tree["leaf_weights"])
        value = scale * np.reshape(tree["leaf_values"], (len(weight), -1))
        depth = len(tree["splits"])
        bits = (np.arange(2**depth)[:, None] >> np.arange(depth)) & 1

        def step(path, bits=bits, weight=weight, value=value, depth=depth):
            """Value of the node where the answers to the first splits are `path`."""
            below = (bits[:, : len(path)] == path).all(axis=1)
            if len(path) == depth:
                return value[below][0]
            if weight[below].sum() > 0:
                return weight[below] @ value[below] / weight[below].sum()
            return (step((*path, 0)) + step((*path, 1))) / 2

        for level, split in enumerate(tree["splits"]):
            name = " + ".join(X.columns[k] for k in sorted(set(columns[split["split_index"]])))
            score.setdefault(name, 0.0)
            answers = bits[leaves[:, number]][:, : level + 1]
            for path in {tuple(row[:level]) for row in answers.tolist()}:
                here = (answers[:, :level] == path).all(axis=1)
                for way in (0, 1):
                    child = here & (answers[:, level] == way)
                    centred = r[child].sum(axis=0) - child.sum() / here.sum() * r[here].sum(axis=0)
                    score[name] += step((*path, way)) @ centred / len(X)
    return score


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("task", LOSSES)
def test_scores_are_the_definition_with_catboosts_own_leaves(task, how, tmp_path):
    X, y = draw(task)
    model = boosted(task, **HOW[how]).fit(X, y)
    X_new, y_new = draw(task, seed=1)
    X_new.loc[:30, "city"] = "never seen"
    expected = brute_force(model, X_new, y_new, tmp_path)
    scores = debias.score(model, X_new, y_new, rows="held-out")
    found = dict(zip(scores.feature_names, scores.values, strict=True))
    assert list(found)[: X.shape[1]] == list(X.columns)
    assert set(expected) <= set(found)
    if how in ("combinations", "ordered"):
        assert any(" + " in name for name in found)
    for name, value in found.items():
        assert value == pytest.approx(expected.get(name, 0.0), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("task", LOSSES)
def test_the_loss_saved_is_that_of_catboosts_own_predictions(task, grow_policy):
    X, y = draw(task)
    model = boosted(task, grow_policy=grow_policy, one_hot_max_size=5, depth=5).fit(X, y)
    X_new, y_new = draw(task, seed=1)
    scores = debias.score(model, X_new, y_new, "oob_loss", rows="held-out")
    margin = np.reshape(model.predict(X_new, prediction_type="RawFormulaVal"), (N, -1))
    start = debias.plugin.extract(model).base[None, :]

    def loss(F):
        if task == "numbers":
            return np.mean((y_new - F[:, 0]) ** 2)
        codes = np.searchsorted(model.classes_, y_new)
        if task == "two classes":
            return np.mean(np.logaddexp(0, F[:, 0]) - codes * F[:, 0])
        F = np.broadcast_to(F, (N, 3))
        return np.mean(np.log(np.exp(F).sum(axis=1)) - F[np.arange(N), codes])

    assert scores.values.sum() + scores.details["base"] == pytest.approx(loss(start) - loss(margin))


# --- what the scores are worth -----------------------------------------------------------------------------


def test_noise_with_many_categories_scores_zero_where_catboost_reports_importance():
    scores, on_training_rows, reported = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        drawn = [
            pd.DataFrame({"a": rng.normal(size=300), "noise": rng.choice([f"z{k}" for k in range(100)], 300)})
            for _ in range(2)
        ]
        y = [X.a + rng.normal(size=300) for X in drawn]
        model = catboost.CatBoostRegressor(iterations=20, cat_features=["noise"], max_ctr_complexity=1, **QUIET)
        model.fit(drawn[0], y[0])
        scores.append(debias.score(model, drawn[1], y[1], rows="held-out").values[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            on_training_rows.append(debias.score(model, drawn[0], y[0], rows="train").values[1])
        reported.append(model.feature_importances_[1])
    assert abs(np.mean(scores)) < 3 * np.std(scores) / np.sqrt(30)
    assert np.mean(on_training_rows) > 10 * abs(np.mean(scores))
    assert np.mean(reported) > 3


def test_an_audit_tells_categories_that_matter():
    X, y = draw("two classes", n=1500)
    X["noise"] = np.random.default_rng(5).choice([f"z{k}" for k in range(60)], len(X))
    model = boosted("two classes", iterations=40, cat_features=[*CATEGORICAL, "noise"], max_ctr_complexity=1)
    model.fit(X[:1000], y[:1000])
    audit = debias.audit(model, X[1000:], y[1000:], rows="held-out")
    counts = dict(zip(audit.tested_scores.feature_names, audit.n_values, strict=True))
    assert counts["noise"] == X["noise"][1000:].nunique() == 60  # and not the number of codes
    verdict = dict(audit.to_frame()["verdict"])
    assert verdict["a"] == verdict["city"] == verdict["job"] == "informative"
    assert verdict["noise"] == verdict["b"] == "indistinguishable"


# --- other scorers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["numbers", "two classes"])
def test_permutation_is_that_of_the_users_columns(task):
    X, y = draw(task)
    model = simple(task, one_hot_max_size=5).fit(X, y)
    X_new, y_new = draw(task, seed=1)
    scoring = "accuracy" if task == "two classes" else "neg_mean_squared_error"
    found = debias.score(model, X_new, y_new, "permutation", rows="held-out", random_state=3)
    expected = permutation_importance(model, X_new, y_new, scoring=scoring, random_state=3, n_repeats=5)
    np.testing.assert_allclose(found.values, expected.importances_mean, rtol=1e-9, atol=1e-12)


def test_columns_permuted_together_with_their_combination_are_the_users_columns():
    names = ["city", "job"]
    X, y = draw()
    model = boosted(cat_features=names, max_ctr_complexity=2, iterations=60, depth=6).fit(X[names], y)
    X_new, y_new = draw(seed=1)
    assert debias.plugin.extract(model).feature_names == ("city", "job", "city + job")
    scorer = debias.plugin.scorer("permutation", together={"place": [*names, "city + job"]}, n_repeats=1)
    found = debias.score(model, X_new[names], y_new, scorer, rows="held-out", random_state=3).details["together"][
        "place"
    ]
    generator = np.random.RandomState(np.random.RandomState(3).randint(np.iinfo(np.int32).max + 1))
    order = np.arange(N)
    generator.shuffle(order)
    before, after = (np.mean((y_new - model.predict(X_new[names].iloc[rows])) ** 2) for rows in (np.arange(N), order))
    assert found == pytest.approx(after - before)


@pytest.mark.parametrize("scorer", ["shap", "shap_oob", "ablation", "native", "oob_split", "conditional_importance"])
def test_other_scorers_of_trees_score_a_model_without_combinations(scorer):
    X, y = draw()
    X_new, y_new = draw(seed=1)
    model = simple().fit(X, y)
    scores = debias.score(model, X_new, y_new, scorer, rows="held-out", random_state=0)
    assert scores.feature_names == tuple(X.columns)
    assert scores.values[1] > abs(scores.values[3])  # b is noise


def test_shap_values_sum_to_the_covariance_of_the_prediction():
    X, y = draw()
    model = boosted(**HOW["combinations"]).fit(X, y)
    X_new, y_new = draw(seed=1)
    scores = debias.score(model, X_new, y_new, "shap_oob", rows="held-out")
    assert scores.values.sum() == pytest.approx(np.cov(model.predict(X_new), y_new, bias=True)[0, 1])


@pytest.mark.parametrize("how", HOW)
def test_reported_importance_is_catboosts_with_a_row_for_each_combination(how):
    """CatBoost divides the importance of a combination among its columns."""
    X, y = draw("two classes")
    model = boosted("two classes", **HOW[how]).fit(X, y)
    (member,) = unwrap(model)
    reported = plugin_manager().hook.debias_reported_importance(model=member.model)
    assert reported.kind == "prediction values change"
    names, rows = member.columns.names, np.bincount(member.columns.index, reported.values)
    assert rows.sum() == pytest.approx(model.feature_importances_.sum())
    if not any(" + " in name for name in names):
        np.testing.assert_allclose(rows, model.feature_importances_, rtol=1e-6)
    for name, least, found in zip(X.columns, rows, model.feature_importances_, strict=False):
        of_combinations = sum(
            value for row, value in zip(names, rows, strict=True) if name in row.split(" + ") and row != name
        )
        assert least - 1e-6 <= found <= least + of_combinations + 1e-6


# --- rows --------------------------------------------------------------------------------------------------

CONTAINERS = {
    "pandas categories": lambda X: X.astype(dict.fromkeys(["city", "job"], "category")),
    "objects": lambda X: X.to_numpy(dtype=object),
    "polars": pl.from_pandas,
    "Arrow": lambda X: pa.Table.from_pandas(X, preserve_index=False),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_container_does_not_matter(container):
    X, y = draw()
    model = boosted().fit(X, y)
    X_new, y_new = draw(seed=1)
    expected = debias.score(model, X_new, y_new, rows="held-out").values
    found = debias.score(model, CONTAINERS[container](X_new), y_new, rows="held-out").values
    np.testing.assert_array_equal(found, expected)


def test_columns_are_matched_by_name():
    X, y = draw()
    model = boosted().fit(X, y)
    X_new, y_new = draw(seed=1)
    expected = debias.score(model, X_new, y_new, rows="held-out").values
    for frame in (X_new[X.columns[::-1]], pl.from_pandas(X_new[X.columns[::-1]])):
        with pytest.warns(DebiasWarning, match="another order"):
            found = debias.score(model, frame, y_new, rows="held-out").values
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(RowsError, match="missing: job"):
        debias.score(model, X_new.drop(columns="job"), y_new, rows="held-out")
    with pytest.warns(DebiasWarning, match="left out: more"):
        found = debias.score(model, X_new.assign(more=1), y_new, rows="held-out").values
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(RowsError, match="missing: job; unknown to the model: more"):
        debias.score(model, X_new.rename(columns={"job": "more"}), y_new, rows="held-out")
    with pytest.raises(RowsError, match="X has 4 features, but the model was trained on 5"):
        debias.score(model, X_new.to_numpy(dtype=object)[:, :4], y_new, rows="held-out")


def test_categories_that_catboost_refuses_are_refused():
    X, y = draw()
    model = boosted().fit(X, y)
    X_new, y_new = draw(seed=1)
    with pytest.raises(RowsError, match="CatBoostRegressor cannot transform X: Invalid type for cat_feature"):
        debias.score(model, X_new.assign(code=X_new.code.astype(float)), y_new, rows="held-out")
    for missing in (None, np.nan, pd.NA):
        X_new.loc[7, "city"] = missing
        with pytest.raises(RowsError, match=r"'city' of X has a missing value \(row 7\)"):
            debias.score(model, X_new, y_new, rows="held-out")


def test_training_rows_cannot_be_recognised_by_statistics_but_by_single_categories():
    X, y = draw()
    with pytest.raises(ProvenanceError, match="cannot check whether these rows contain training rows"):
        debias.score(simple().fit(X, y), X, y)
    one_hot = boosted(one_hot_max_size=30).fit(X, y)
    with pytest.raises(ProvenanceError, match="these are the training rows"):
        debias.score(one_hot, X, y)
    with pytest.raises(InBagUnavailableError):
        debias.score(one_hot, X, y, rows="oob")


def test_batches_are_the_rows_in_memory():
    X, y = draw()
    model = boosted(**HOW["combinations"]).fit(X, y)
    X_new, y_new = draw(seed=1)
    found = debias.score(model, [(X_new[:150], y_new[:150]), (X_new[150:], y_new[150:])], rows="held-out").values
    expected = debias.score(model, X_new, y_new, rows="held-out").values
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_are_encoded_in_parts(monkeypatch):
    X, y = draw()
    model = boosted(**HOW["combinations"]).fit(X, y)
    X_new, y_new = draw(seed=1)
    expected = debias.score(model, X_new, y_new, rows="held-out").values
    monkeypatch.setattr("debias_adapters.catboost.encoding.ROWS_AT_ONCE", 70)
    np.testing.assert_array_equal(debias.score(model, X_new, y_new, rows="held-out").values, expected)


def test_trees_that_predict_otherwise_are_noticed(monkeypatch):
    X, y = draw()
    model, other = simple().fit(X, y), simple().fit(X, -y)
    (member,) = unwrap(model)
    monkeypatch.setattr(member.model.encoding, "numeric", unwrap(other)[0].model.encoding.numeric)
    with pytest.raises(ExtractionError, match="predicts otherwise"):
        member.model.encoding.encode(model, X)


# --- models ------------------------------------------------------------------------------------------------


def test_a_model_from_a_file_and_one_of_a_pool_score_alike(tmp_path):
    X, y = draw("three classes")
    model = boosted("three classes", **HOW["combinations"]).fit(X, y)
    X_new, y_new = draw("three classes", seed=1)
    expected = debias.score(model, X_new, y_new, rows="held-out")
    model.save_model(str(tmp_path / "model.cbm"))
    loaded = debias.score(debias.load_model(tmp_path / "model.cbm"), X_new, y_new, rows="held-out")
    np.testing.assert_array_equal(loaded.values, expected.values)
    of_pool = catboost.CatBoost({key: value for key, value in model.get_params().items() if key != "cat_features"})
    of_pool.fit(catboost.Pool(X, y, cat_features=CATEGORICAL))
    np.testing.assert_array_equal(debias.score(of_pool, X_new, y_new, rows="held-out").values, expected.values)


@pytest.mark.parametrize("grow_policy", ["Depthwise", "Lossguide"])
def test_asymmetric_trees_that_come_from_json(grow_policy, tmp_path):
    """CatBoost numbers the leaves of a trained model otherwise."""
    X, y = draw()
    X, X_new = X[["a", "b"]], draw(seed=1)[0][["a", "b"]]
    model = boosted(grow_policy=grow_policy, depth=6, cat_features=None).fit(X, y)
    document(model, tmp_path)
    loaded = catboost.CatBoostRegressor().load_model(str(tmp_path / "model.json"), format="json")
    expected = debias.score(model, X_new, draw(seed=1)[1], rows="held-out").values
    found = debias.score(loaded, X_new, draw(seed=1)[1], rows="held-out").values
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_categories_that_no_split_is_on(tmp_path):
    X, y = draw()
    model = boosted(ignored_features=[1, 2, 4]).fit(X, y)
    X_new, y_new = draw(seed=1)
    expected = brute_force(model, X_new, y_new, tmp_path)
    assert set(expected) <= {"a", "b"}
    found = debias.score(model, X_new, y_new, rows="held-out")
    np.testing.assert_allclose(found.values, [expected.get(name, 0) for name in X.columns], rtol=1e-6, atol=1e-9)


def test_a_pipeline_around_a_model_with_combinations_scores_as_the_model():
    X, y = draw()
    model = boosted(**HOW["combinations"])
    pipeline = make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), model).fit(X, y)
    X_new, y_new = draw(seed=1)
    alone = debias.score(model, X_new, y_new, rows="held-out")
    found = debias.score(pipeline, X_new, y_new, rows="held-out")
    assert found.feature_names == alone.feature_names
    np.testing.assert_array_equal(found.values, alone.values)


def of_two_columns(**names):
    """A model of city and job, and of both together; and fresh rows."""
    (X, y), (X_new, y_new) = ((X[["city", "job", "b"]].rename(columns=names), y) for X, y in (draw(), draw(seed=1)))
    model = boosted(cat_features=["city", "job"], max_ctr_complexity=2, iterations=60, depth=6, ignored_features=[2])
    return model.fit(X, y), X_new, y_new


def test_groups_take_combinations():
    model, X_new, y_new = of_two_columns()
    alone = debias.score(model, X_new, y_new, rows="held-out")
    assert alone.feature_names == ("city", "job", "b", "city + job")
    found = debias.score(model, X_new, y_new, rows="held-out", groups={"place": ["city", "city + job"]})
    assert found.feature_names == ("place", "job", "b")
    np.testing.assert_allclose(found.values, [alone.values[[0, 3]].sum(), alone.values[1], 0])


def test_a_column_may_not_have_the_name_of_a_combination():
    model, X_new, y_new = of_two_columns(b="city + job")
    with pytest.raises(UnsupportedModelError, match="rename the column, or pass level='model'"):
        debias.score(model, X_new, y_new, rows="held-out")
    scores = debias.score(model, X_new, y_new, rows="held-out", level="model")
    assert scores.feature_names == ("city", "job", "city + job", "city + job #2")
    assert scores.values[2] == 0 < scores.values[3]


def test_the_level_of_the_model_has_a_row_for_each_combination():
    """With conditions on numbers, several combinations are made of the same columns."""
    X, y = draw()
    model = boosted(**{**HOW["combinations"], "iterations": 100}).fit(X, y)
    X_new, y_new = draw(seed=1)
    one, each = (debias.score(model, X_new, y_new, rows="held-out", level=level) for level in ("source", "model"))
    assert "a + city #2" in each.feature_names
    summed = dict.fromkeys(one.feature_names, 0.0)
    for name, value in zip(each.feature_names, each.values, strict=True):
        summed[name.split(" #")[0]] += value
    np.testing.assert_allclose(one.values, list(summed.values()), rtol=1e-9, atol=1e-12)
    with pytest.raises(CompositionError, match="ablation tests columns.*level='model'"):
        debias.score(model, X_new, y_new, "ablation", rows="held-out")
    tested = debias.score(model, X_new, y_new, "ablation", rows="held-out", level="model")
    assert tested.p_value[0] < 0.001


def test_only_models_without_combinations_are_refitted():
    X, y = draw()
    X_new, y_new = draw(seed=1)
    again = debias.refit(simple().fit(X, y), X, y)
    np.testing.assert_array_equal(again.predict(X_new), simple().fit(X, y).predict(X_new))
    rows = {"rows": "held-out", "train": (X, y), "random_state": 0}
    scores = debias.score(simple().fit(X, y), X_new, y_new, "response_permutation(mdi_oob, replicates=10)", **rows)
    assert scores.p_value[0] == scores.p_value[1] == pytest.approx(1 / 11)
    with pytest.raises(CompositionError, match="a refit does not make the same columns.*max_ctr_complexity=1"):
        debias.score(
            boosted(**HOW["combinations"]).fit(X, y),
            X_new,
            y_new,
            "response_permutation(mdi_oob, replicates=2)",
            **rows,
        )


def test_the_adapter_keeps_its_contract():
    X, y = draw("two classes", n=150)
    model = boosted("two classes", one_hot_max_size=5).fit(X, y)
    check_adapter(model, X, y)


@pytest.mark.parametrize("kind", ["text", "embedding"])
def test_text_and_embeddings_are_refused_by_name(kind):
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(["good", "bad", "fine", "poor"], 5)) for _ in range(100)]
    vectors = [rng.normal(size=3).tolist() for _ in range(100)]
    X = pd.DataFrame({"a": rng.normal(size=100), "notes": words if kind == "text" else vectors})
    y = (X.a > 0).astype(int)
    model = catboost.CatBoostClassifier(iterations=3, **{f"{kind}_features": ["notes"]}, **QUIET).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=rf"{kind} features \(notes\).*Make columns of numbers yourself"):
        debias.score(model, X, y, rows="held-out")


def test_tables_that_catboost_cannot_give_are_refused_by_name():
    X, y = draw("three classes")
    skipped = boosted("three classes", final_ctr_computation_mode="Skip").fit(X, y)
    with pytest.raises(UnsupportedModelError, match="final_ctr_computation_mode='Skip'"):
        debias.plugin.extract(skipped)
    broken = boosted("three classes", max_ctr_complexity=1, simple_ctr=["BinarizedTargetMeanValue"]).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="BinarizedTargetMeanValue.*Borders"):
        debias.plugin.extract(broken)


# --- losses ------------------------------------------------------------------------------------------------

POSITIVE = ("Poisson", "Tweedie:variance_power=1.5", "MAPE")
FACTORS = {"Expectile:alpha=0.3": 0.5}
"""debias takes half of CatBoost's loss."""


@pytest.mark.parametrize(
    "loss",
    [
        "MAE",
        "MAPE",
        "Quantile:alpha=0.8",
        "Quantile",
        "Expectile:alpha=0.3",
        "Huber:delta=0.7",
        "Poisson",
        "Tweedie:variance_power=1.5",
    ],
)
def test_the_loss_saved_is_that_of_catboosts_metric(loss):
    X, y = draw()
    X_new, y_new = draw(seed=1)
    if loss in POSITIVE:
        y, y_new = np.exp(y / 2), np.exp(y_new / 2)
    model = simple(loss_function=loss).fit(X, y)
    trees = debias.plugin.extract(model)
    scores = debias.score(model, X_new, y_new, "oob_loss", rows="held-out")
    margins = model.predict(X_new, prediction_type="RawFormulaVal"), np.full(N, trees.base[0])
    of_model, of_start = (metrics.eval_metric(y_new, margin, loss)[0] for margin in margins)
    saved = FACTORS.get(loss, 1.0) * (of_start - of_model)
    assert scores.values.sum() + scores.details["base"] == pytest.approx(saved, rel=1e-5)
    found = debias.score(model, X_new, y_new, rows="held-out")
    assert found.values[0] > 10 * abs(found.values[3])  # b is noise


@pytest.mark.parametrize(
    "loss", ["MultiClassOneVsAll", "MultiLogloss", "MultiCrossEntropy", "MultiRMSE", "MultiQuantile"]
)
def test_losses_of_several_outputs_add_up(loss):
    """The loss is the sum of those of the outputs."""
    X, y = draw()
    X_new, y_new = draw(seed=1)
    several = loss not in ("MultiClassOneVsAll", "MultiQuantile")

    def response(latent):
        if loss == "MultiQuantile":
            return latent
        if loss == "MultiClassOneVsAll":
            return np.digitize(latent, [0.3, 1.8])
        two = np.column_stack([latent, -latent])
        return two if loss == "MultiRMSE" else (two > 0.5).astype(float)

    name = "MultiQuantile:alpha=0.2,0.8" if loss == "MultiQuantile" else loss
    settings = {**simple().get_params(), "loss_function": name}
    if several:
        with pytest.raises(UnsupportedModelError, match=f"{loss} with statistics.*one model for each response"):
            debias.plugin.extract(catboost.CatBoost(settings).fit(X, response(y)))
        settings["one_hot_max_size"] = 30
    model = catboost.CatBoost(settings).fit(X, response(y))
    target = response(y_new)
    scores = debias.score(model, X_new, target, "oob_loss", rows="held-out")
    margin, start = model.predict(X_new, prediction_type="RawFormulaVal"), debias.plugin.extract(model).base[None, :]
    t = np.eye(3)[target] if loss == "MultiClassOneVsAll" else target if several else target[:, None]

    def mean(F):
        if loss == "MultiRMSE":
            return ((t - F) ** 2).sum(axis=1).mean()
        if loss == "MultiQuantile":
            alpha = np.array([0.2, 0.8])
            return np.where(t > F, alpha * (t - F), (1 - alpha) * (F - t)).sum(axis=1).mean()
        return (np.logaddexp(0, F) - t * F).sum(axis=1).mean()

    assert scores.values.sum() + scores.details["base"] == pytest.approx(mean(start) - mean(margin))


@pytest.mark.parametrize("loss", ["YetiRank", "QueryRMSE", "PairLogit", "LogCosh", "Lq:q=3"])
def test_losses_that_have_no_gradient_of_a_row_by_itself(loss):
    X, y = draw()
    X_new, y_new = draw(seed=1)
    groups = np.repeat(np.arange(40), N // 40)
    ranker = loss in ("YetiRank", "QueryRMSE", "PairLogit")
    y, y_new = (np.digitize(each, [0.3, 1.8]) if ranker else np.exp(each) for each in (y, y_new))
    model = catboost.CatBoost({**simple().get_params(), "loss_function": loss})
    model.fit(catboost.Pool(X, y, cat_features=CATEGORICAL, group_id=groups if ranker else None))
    native = debias.score(model, X_new, y_new, "native", rows="held-out")
    np.testing.assert_allclose(native.values, model.get_feature_importance(type="PredictionValuesChange"), rtol=1e-6)
    assert np.isfinite(debias.score(model, X_new, y_new, "shap", rows="held-out").values).all()
    metric = debias.plugin.scorer(
        "permutation", metric=lambda estimator, X, y: np.corrcoef(estimator.predict(X), y)[0, 1]
    )
    assert debias.score(model, X_new, y_new, metric, rows="held-out", random_state=0).values[0] != 0
    with pytest.raises(CompositionError, match=f"{loss.split(':')[0]}.*native"):
        debias.score(model, X_new, y_new, rows="held-out")
