import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBRegressor

import debias
from debias.retraining.replicates import child_seed
from debias_bench.simulate import loh, loh_missing
from debias_plugins.meta_methods.permuted_columns import names_of_copies, with_copies
from support.versions import at_least

pytestmark = pytest.mark.filterwarnings("ignore:these are scores on training rows")


@pytest.fixture(scope="module")
def drawn():
    return loh("E1", 120, seed=0)


@pytest.fixture(scope="module")
def forest(drawn):
    return RandomForestRegressor(12, min_samples_leaf=3, random_state=0, n_jobs=1).fit(drawn.numeric, drawn.y)


def children(n, seed):
    return np.random.SeedSequence(seed).spawn(n)


@pytest.mark.parametrize("inner", ["mdi", "mdi_oob", "oob_split"])
@pytest.mark.quick
def test_the_null_is_what_the_public_functions_give_for_permuted_responses(inner, drawn, forest):
    found = debias.score(forest, drawn.numeric, drawn.y, f"response_permutation({inner}, replicates=3)", random_state=4)
    expected = []
    for child in children(3, 4):
        y = np.random.default_rng(child).permutation(drawn.y)
        again = debias.refit(forest, drawn.numeric, y, random_state=child_seed(child), n_jobs=1)
        expected.append(debias.score(again, drawn.numeric, y, inner).values)
    np.testing.assert_array_equal(found.null, expected)
    own = debias.score(forest, drawn.numeric, drawn.y, inner)
    np.testing.assert_array_equal(found.details["unadjusted"], own.values)
    z = (own.values - found.null.mean(axis=0)) / found.null.std(axis=0, ddof=1)
    np.testing.assert_allclose(found.values, z, rtol=1e-9)
    np.testing.assert_array_equal(found.p_value, (1 + (found.null >= own.values).sum(axis=0)) / 4)
    assert (found.rows, found.n_rows, found.provenance) == (own.rows, own.n_rows, own.provenance)


@pytest.mark.parametrize("kind", [LGBMRegressor, XGBRegressor])
def test_boosters_are_trained_on_permuted_training_rows_and_scored_on_permuted_held_out_rows(kind, drawn):
    quiet = {"verbose": -1} if kind is LGBMRegressor else {}
    X, y = drawn.numeric.drop(columns="B2"), drawn.y
    model = kind(n_estimators=6, max_depth=3, n_jobs=1, random_state=0, **quiet).fit(X[:70], y[:70])
    given = {"rows": "held-out", "train": (X[:70], y[:70])}
    found = debias.score(model, X[70:], y[70:], "response_permutation(mdi_oob, replicates=3)", random_state=1, **given)
    expected = []
    for child in children(3, 1):
        rng = np.random.default_rng(child)
        trained, held = rng.permutation(y[:70]), rng.permutation(y[70:])
        again = debias.refit(model, X[:70], trained, random_state=child_seed(child), n_jobs=1)
        expected.append(debias.score(again, X[70:], held, "mdi_oob", rows="held-out").values)
    np.testing.assert_array_equal(found.null, expected)
    with pytest.raises(debias.RowsError, match=r"held-out rows: pass the training rows as train="):
        debias.score(model, X[70:], y[70:], "response_permutation(mdi_oob)", rows="held-out")
    gain = debias.score(model, X[:70], y[:70], "response_permutation(gain, replicates=3)", random_state=1)
    assert gain.null.shape == (3, 10)
    # XGBoost's counts of rows may be changed by weights, so that other rows can only be warned of.
    with pytest.raises(
        (debias.ProvenanceError, debias.DebiasWarning),
        match="does not look like the training rows|y is not the response|y has other units",
    ):
        debias.score(model, X[70:], y[70:], "response_permutation(gain)")


def test_a_thresholded_ratio_of_unadjusted_guide_is_guide():
    drawn = loh_missing("E1", 150, seed=0)
    text = "threshold(response_permutation(guide(adjusted=False), replicates=40, rule='ratio'), alpha=0.1)"
    built = debias.score(None, drawn.X, drawn.y, text, random_state=3)
    guide = debias.score(None, drawn.X, drawn.y, "guide", replicates=40, alpha=0.1, random_state=3)
    np.testing.assert_array_equal(built.values, guide.values)
    np.testing.assert_array_equal(built.selected, guide.selected)
    assert built.threshold == pytest.approx(guide.threshold, rel=1e-12)
    assert built.details["critical"] == guide.details["critical"]
    assert built.null.shape == (40, 11)
    assert built.rows == "data"
    again = debias.Scores.from_json(built.to_json())
    np.testing.assert_array_equal(again.null, built.null)


@pytest.mark.thorough
def test_feature_permutation_of_a_plain_merit_is_its_normalized_form_in_closed_form_and_by_drawing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 8, 60), "b": rng.choice(["u", "v", "w"], 60)})
    y = rng.integers(0, 3, 60)
    for merit in ("gini_merit", "entropy_merit", "chi_square"):
        closed = debias.score(None, X, y, f"feature_permutation({merit}(form='merit'))")
        np.testing.assert_allclose(closed.values, debias.score(None, X, y, merit).values, rtol=1e-12)
        assert closed.null is None
        text = f"feature_permutation({merit}(form='merit'), replicates=100, rule='z')"
        drawn = debias.score(None, X, y, text, random_state=1).null
        error = drawn.std(axis=0, ddof=1) / 10
        np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - closed.details["null_mean"]), 4 * error)


@pytest.mark.thorough
def test_feature_permutation_trains_a_model_for_each_feature(drawn, forest):
    found = debias.score(forest, drawn.numeric, drawn.y, "feature_permutation(mdi, replicates=2)", random_state=2)
    assert found.null.shape == (2, 11)
    child = children(1, 2)[0]
    X = drawn.numeric.copy()
    X["B1"] = X["B1"].to_numpy()[np.random.default_rng(child).permutation(120)]
    again = debias.refit(forest, X, drawn.y, random_state=child_seed(child), n_jobs=1)
    assert found.null[0, 0] == debias.score(again, None, scorer="mdi").values[0]
    np.testing.assert_allclose(found.values, found.details["unadjusted"] / found.null.mean(axis=0))


@pytest.mark.thorough
def test_shadows_and_partial_copies_are_scored_in_one_model_with_the_originals(drawn, forest):
    X, y = drawn.numeric, drawn.y
    copies = names_of_copies(tuple(X.columns))
    for text, share, jointly in (
        ("shadow(mdi_oob, replicates=3)", 1.0, True),
        ("shadow(mdi_oob, replicates=3, permute='column', rule='max')", 1.0, False),
        ("partial_permutation(mdi_oob, replicates=3)", 0.2, False),
    ):
        found = debias.score(forest, X, y, text, random_state=8)
        own, null = [], []
        for child in children(3, 8):
            both = with_copies(np.random.default_rng(child), copies, share, jointly)(X)
            again = debias.refit(forest, both, y, random_state=child_seed(child), n_jobs=1)
            values = debias.score(again, both, y, "mdi_oob").values
            own.append(values[:11])
            null.append(values[11:])
        own, null = np.array(own), np.array(null)
        np.testing.assert_array_equal(found.null, null)
        expected = (own - null).mean(axis=0)
        if share < 1:
            expected = (own > null).mean(axis=0)
        elif not jointly:
            expected = (own > null.max(axis=1, keepdims=True)).mean(axis=0)
        np.testing.assert_array_equal(found.values, expected)
    wins = found.values * 3
    tail = [1, 7 / 8, 1 / 2, 1 / 8]  # of a binomial with 3 trials at one half
    np.testing.assert_allclose(found.p_value, [tail[int(each + 0.5)] for each in wins], rtol=1e-12)


@pytest.mark.parametrize("text", ["shadow(oob_loss, replicates=3)", "partial_permutation(mdi_oob, replicates=3)"])
def test_copies_are_of_the_columns_they_are_named_after_whatever_the_order_of_the_rows_columns(text, drawn):
    X, y = drawn.numeric[["B1", "S1", "N1", "C1"]], drawn.y
    model = XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X[:70], y[:70])

    def score(table, **groups):
        given = {"rows": "held-out", "train": (X[:70], y[:70]), "random_state": 0}
        return debias.score(model, table[70:], y[70:], text, **given, **groups)

    own = score(X)
    for other in (X[["C1", "B1", "N1", "S1"]], X.assign(new=1.0)[["new", "S1", "B1", "C1", "N1"]]):
        with pytest.warns(debias.DebiasWarning, match="in another order|left out: new"):
            found = score(other)
        np.testing.assert_array_equal(found.values, own.values)
        np.testing.assert_array_equal(found.null, own.null)
    grouped = score(X, groups={"first": ["B1", "C1"], "second": ["N1", "S1"]})
    assert grouped.feature_names == ("first", "second")
    copies = names_of_copies(("B1", "C1", "S1", "N1"))
    both = with_copies(np.random.default_rng(0), copies)(X)
    for copy, name in copies.items():
        assert sorted(both[copy]) == sorted(X[name])


@pytest.mark.parametrize("text", ["response_permutation(mdi_oob, replicates=2)", "shadow(mdi, replicates=2)"])
def test_columns_that_the_model_does_not_know_are_no_part_of_refits(text, drawn, forest):
    X, y = drawn.numeric, drawn.y
    with pytest.warns(debias.DebiasWarning, match="left out: id"):
        found = debias.score(forest, X.assign(id=range(120)), y, text, random_state=0)
    np.testing.assert_array_equal(found.null, debias.score(forest, X, y, text, random_state=0).null)


def test_names_are_compared_as_lightgbm_stores_them(drawn):
    X, y = drawn.numeric[["B1", "C1", "N1"]].set_axis(["b 1", "c 1", "n 1"], axis=1), drawn.y
    model = LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y)
    with pytest.warns(debias.DebiasWarning, match="left out: id"):
        found = debias.score(model, X.assign(id=1), y, "response_permutation(gain, replicates=2)", random_state=0)
    own = debias.score(model, X, y, "response_permutation(gain, replicates=2)", random_state=0)
    np.testing.assert_array_equal(found.null, own.null)


def test_shadows_of_data_keep_categories_and_missing_values():
    drawn = loh_missing("E1", 100, seed=0)
    found = debias.score(
        None, drawn.X, drawn.y, "shadow(guide(adjusted=False), replicates=4, permute='column')", random_state=0
    )
    assert found.null.shape == (4, 11)
    numbers = drawn.numeric
    assert not np.array_equal(
        found.null,
        debias.score(None, numbers, drawn.y, found.scorer, random_state=0).null,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["response_permutation(shadow(mdi_oob, replicates=2), replicates=3)"])
def test_threads_and_processes_give_the_numbers_of_a_serial_run(text, drawn, forest):
    serial = debias.score(forest, drawn.numeric, drawn.y, text, random_state=1)
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend=backend):
            found = debias.score(forest, drawn.numeric, drawn.y, text, random_state=1, n_jobs=2)
        assert found.null.tobytes() == serial.null.tobytes()
        assert found.values.tobytes() == serial.values.tobytes()


@pytest.mark.thorough
def test_the_model_the_data_and_the_global_random_state_stay_as_they_are(drawn, forest):
    X, y = drawn.numeric, drawn.y.copy()
    before = pickle.dumps((forest, X, y)), np.random.get_state()[1].copy()  # noqa: NPY002 - it is what must not move
    first = debias.score(forest, X, y, "threshold(response_permutation(mdi, replicates=19))", random_state=1)
    assert pickle.dumps((forest, X, y)) == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    np.testing.assert_array_equal(debias.score(forest, X, y, first.scorer, random_state=1).values, first.values)
    assert (debias.score(forest, X, y, first.scorer, random_state=2).null != first.null).any()


@pytest.mark.thorough
def test_a_checkpoint_is_for_one_scorer_data_and_seed_and_gives_the_same_bytes(tmp_path, drawn, forest):
    X, y, file = drawn.numeric, drawn.y, tmp_path / "run.sqlite"
    told = []
    given = {"random_state": 1, "refits": debias.Refits(checkpoint=file)}
    part = debias.score(forest, X, y, "response_permutation(mdi, replicates=2)", **given)
    whole = debias.score(forest, X, y, "response_permutation(mdi, replicates=4, rule='ratio')", **given)
    plain = debias.score(forest, X, y, "response_permutation(mdi, replicates=4, rule='ratio')", random_state=1)
    assert whole.null.tobytes() == plain.null.tobytes()
    assert whole.null[:2].tobytes() == part.null.tobytes()
    other = debias.score(forest, X, y, "response_permutation(mdi_oob, replicates=4)", **given)
    assert (other.null != whole.null).any()
    from debias.retraining.checkpoint import Checkpoint

    with debias.show_progress(lambda *at: told.append(at)):
        scored = debias.score(forest, X, y, "response_permutation(mdi, replicates=2)")
    assert told == [(1, 2), (2, 2)]
    assert scored.details["stopped"] == "all drawn"
    with Checkpoint(file, "another") as opened:
        assert opened.read() == {}
    with pytest.raises(debias.plugin.CompositionError, match="mdi refits no model"):
        debias.score(forest, None, scorer="mdi", refits=debias.Refits(checkpoint=file))


@pytest.mark.thorough
def test_rules_of_thresholds_on_one_run(drawn, forest):
    def score(rule, replicates=19):
        text = f"threshold(response_permutation(mdi, replicates={replicates}), rule={rule!r})"
        return debias.score(forest, drawn.numeric, drawn.y, text, random_state=1)

    guide, fwer = score("guide"), score("fwer")
    assert guide.details["critical"] == np.sort(guide.null.max(axis=1))[18]
    assert guide.selected.sum() == (np.array(guide.details["unadjusted"]) > guide.details["critical"]).sum()
    every = np.vstack([fwer.details["unadjusted"], fwer.null])
    z = (every - every.mean(axis=0)) / every.std(axis=0)
    best = np.argmax(z[0])
    assert fwer.p_adjusted[best] == (1 + (z[1:].max(axis=1) >= z[0, best]).sum()) / 20
    np.testing.assert_array_equal(fwer.selected, fwer.p_adjusted <= 0.05)
    with pytest.warns(debias.DebiasWarning, match="raise replicates to 220"):
        fdr = score("fdr")
    order = np.argsort(fdr.p_value)
    by_hand = np.minimum.accumulate((fdr.p_value[order] * 11 / np.arange(1, 12))[::-1])[::-1]
    np.testing.assert_allclose(fdr.p_adjusted[order], np.minimum(by_hand, 1))
    with pytest.raises(debias.plugin.CompositionError, match="with 9 permuted responses alpha=0.05 must be from 0.1"):
        score("guide", replicates=9)
    holm = debias.score(
        forest, drawn.numeric, drawn.y, "threshold(partial_permutation(mdi, replicates=4), rule='fwer')"
    )
    assert holm.p_adjusted.min() >= 11 / 16


@pytest.mark.thorough
def test_constant_columns_are_no_tests_of_a_threshold():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(100, 2)), np.ones((100, 38))])
    y = X[:, 0] + rng.normal(size=100)
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, y)
    for rule in ("fwer", "fdr", "fdr_by"):
        text = f"threshold(response_permutation(mdi_oob, replicates=59), rule={rule!r})"
        found = debias.score(forest, X, y, text, random_state=0)  # 40 tests would need more replicates: no warning
        assert found.selected.tolist() == [True] + [False] * 39
        assert (found.p_adjusted[2:] == 1).all()
    # Benjamini and Yekutieli with two tests, by hand.
    smaller, larger = sorted(found.p_value[:2])
    expected = min(1.5 * 2 * smaller, 1.5 * larger)
    np.testing.assert_allclose(found.p_adjusted[:2].min(), expected)


@pytest.mark.filterwarnings("ignore:the time budget ended")
def test_budgets_and_settled_verdicts_end_a_run(drawn, forest):
    X, y = drawn.numeric, drawn.y
    short = debias.score(forest, X, y, "response_permutation(mdi, replicates=50)", refits=debias.Refits(budget=1e-9))
    assert short.null.shape == (1, 11)
    assert "time budget ended after 1 of 50 replicates" in short.warnings[-1]
    constant = np.zeros((120, 1))
    model = RandomForestRegressor(3, random_state=0).fit(constant, y)
    text = "response_permutation(mdi, replicates=200, adaptive=True, alpha=0.3)"
    settled = debias.score(model, constant, y, text)
    assert settled.details["stopped"] == "settled"
    assert len(settled.null) < 50
    assert (settled.values[0], settled.p_value[0]) == (0, 1)


@pytest.mark.thorough
def test_pipelines_are_trained_again_whole_and_their_columns_summed(drawn):
    X, y = drawn.X, drawn.y
    encode = ColumnTransformer([("c", OneHotEncoder(), ["C1", "C2"])], remainder="passthrough")
    model = make_pipeline(encode, RandomForestRegressor(8, random_state=0)).fit(X, y)
    found = debias.score(model, X, y, "response_permutation(mdi_oob, replicates=2)", random_state=3)
    assert set(found.feature_names) == set(X.columns)
    for row, child in zip(found.null, children(2, 3), strict=True):
        permuted = np.random.default_rng(child).permutation(y)
        again = debias.refit(model, X, permuted, random_state=child_seed(child), n_jobs=1)
        np.testing.assert_allclose(row, debias.score(again, X, permuted, "mdi_oob").values, rtol=1e-12, atol=1e-15)
    with pytest.raises(debias.plugin.CompositionError, match="transforms columns by their names"):
        debias.score(model, X, y, "shadow(mdi_oob, replicates=2)")
    plain = make_pipeline(StandardScaler(), RandomForestRegressor(4, random_state=0)).fit(drawn.numeric, y)
    assert debias.score(plain, drawn.numeric, y, "feature_permutation(mdi, replicates=1)").null.shape == (1, 11)


@pytest.mark.thorough
def test_groups_are_summed_before_any_comparison(drawn, forest):
    X, y, groups = drawn.numeric, drawn.y, {"S": ["S1", "S2", "S3"]}
    one = debias.score(forest, X, y, "response_permutation(mdi, replicates=3)", random_state=1)
    summed = debias.score(forest, X, y, "response_permutation(mdi, replicates=3)", random_state=1, groups=groups)
    assert summed.feature_names == ("B1", "B2", "C1", "C2", "N1", "N2", "N3", "N4", "S")
    np.testing.assert_allclose(summed.null[:, 8], one.null[:, 8:].sum(axis=1), rtol=1e-12)
    apart = debias.score(forest, X, y, "shadow(mdi, replicates=3)", random_state=1)
    together = debias.score(forest, X, y, "shadow(mdi, replicates=3)", random_state=1, groups=groups)
    np.testing.assert_allclose(together.null[:, 8], apart.null[:, 8:].sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(together.values[8], apart.values[8:].sum(), rtol=1e-9)


def test_labels_and_weights_go_into_every_refit(cancer):
    X, y = cancer[0][:150, :5], np.array(["no", "yes"])[cancer[1][:150]]
    weight = np.random.default_rng(0).uniform(0.5, 2, 150)
    weighted = RandomForestClassifier(6, random_state=0).fit(X, y, sample_weight=weight)
    found = debias.score(
        weighted, X, y, "response_permutation(mdi_oob, replicates=2)", sample_weight=weight, random_state=0
    )
    child = children(1, 0)[0]
    permuted = np.random.default_rng(child).permutation(y)
    again = debias.refit(weighted, X, permuted, weight, random_state=child_seed(child), n_jobs=1)
    np.testing.assert_array_equal(
        found.null[0], debias.score(again, X, permuted, "mdi_oob", sample_weight=weight).values
    )


def test_a_model_that_lost_its_settings_is_refused_and_trained_with_params(tmp_path, drawn):
    X, y = drawn.numeric, drawn.y
    trained = XGBRegressor(n_estimators=4, max_depth=2, learning_rate=0.5, n_jobs=1, random_state=0).fit(X, y)
    trained.save_model(tmp_path / "model.json")
    model = debias.load_model(tmp_path / "model.json")
    text = "response_permutation(gain, replicates=2)"
    with pytest.raises(debias.UnsupportedModelError, match="pass them as"):
        debias.score(model, X, y, text)
    found = debias.score(
        model, X, y, text, refits=debias.Refits(params={"max_depth": 2, "learning_rate": 0.5}), random_state=0
    )
    np.testing.assert_allclose(found.null, debias.score(trained, X, y, text, random_state=0).null, rtol=1e-6)


def test_categories_by_number_are_not_copied_as_numbers(drawn):
    X, y = drawn.X.copy(), drawn.y + 3.0 * drawn.X["C1"].cat.codes.isin([1, 4, 8])
    settings = {"n_estimators": 3, "n_jobs": 1, "verbose": -1, "min_child_samples": 5, "min_data_per_group": 5}
    by_number = LGBMRegressor(**settings).fit(drawn.numeric.to_numpy(), y, categorical_feature=[2, 3])
    with pytest.raises(debias.plugin.CompositionError, match="by categories, but X has numbers there"):
        debias.score(by_number, drawn.numeric.to_numpy(), y, "shadow(gain, replicates=2)")
    typed = LGBMRegressor(**settings).fit(X, y)
    assert debias.score(typed, X, y, "shadow(gain, replicates=2)").null.shape == (2, 11)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"test": "auto"}, "cannot use test, blocks or base_margin"),
    ],
)
def test_what_refits_cannot_keep_is_refused(given, message, drawn, forest):
    with pytest.raises(debias.plugin.CompositionError, match=message):
        debias.score(forest, drawn.numeric, drawn.y, "response_permutation(mdi_oob)", **given)
    in_blocks = debias.Dataset(drawn.numeric, drawn.y, blocks=np.arange(len(drawn.y)) // 2)
    with pytest.raises(debias.plugin.CompositionError, match=message):
        debias.score(forest, in_blocks, scorer="response_permutation(mdi_oob)")


@pytest.mark.thorough
def test_a_scorer_and_a_meta_method_of_a_third_party_take_part(drawn, forest):
    @debias.plugin.scorer_plugin("splits_of_third_party", unit="splits", needs_rows=False)
    def splits(ensemble, rows):
        used = ensemble.feature[ensemble.feature >= 0]
        return np.bincount(used, minlength=ensemble.n_features).astype(float)

    @debias.plugin.meta_method_plugin("negated", unit="-{unit}")
    def negated(inner, problem):
        return -problem.score(inner)[0], {}

    wrapped = debias.plugin.meta_method("response_permutation", replicates=2)(negated(splits))
    assert wrapped.name == "response_permutation(negated(splits_of_third_party), replicates=2)"
    found = debias.score(forest, drawn.numeric, drawn.y, wrapped, n_jobs=2)
    assert (found.null < 0).all()


KEEPS_WEIGHTS = at_least("scikit-learn", "1.9")
"""Whether forests keep the weights of their training rows; otherwise the proof of the bags finds that they differ."""


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_weights_of_training_are_not_forgotten(kind):
    """Without them the model would be trained again without weights, and the null be that of another model."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(80, 3)), rng.uniform(0.2, 3, 80)
    y = X[:, 0] + rng.normal(size=80)
    weighted = kind(5, random_state=0).fit(X, y, sample_weight=weight)
    text = "response_permutation(mdi, replicates=3)"
    if kind is RandomForestRegressor and not KEEPS_WEIGHTS:
        with pytest.raises(debias.ProvenanceError, match="the weights are different"):
            debias.score(weighted, X, y, text)
    else:
        with pytest.raises(debias.ProvenanceError, match="was trained with (sample_weight|other weights)"):
            debias.score(weighted, X, y, text)
        assert not np.array_equal(
            debias.score(weighted, X, y, text, sample_weight=weight, random_state=0).null,
            debias.score(weighted, X, y, text, sample_weight=np.ones(80), random_state=0).null,
        )
    debias.score(kind(5, random_state=0).fit(X, y), X, y, text)
    debias.score(kind(5, random_state=0).fit(X, y, sample_weight=np.ones(80)), X, y, text)


@pytest.mark.parametrize(
    ("model", "weighted"),
    [
        (RandomForestClassifier(5, class_weight="balanced", random_state=0), False),
        (RandomForestClassifier(5, class_weight="balanced", random_state=0), True),
        (DecisionTreeClassifier(max_depth=3, random_state=0), False),
        (DecisionTreeClassifier(max_depth=3, random_state=0), True),
        (GradientBoostingClassifier(n_estimators=3, subsample=0.7, random_state=0), False),
        (GradientBoostingClassifier(n_estimators=3, random_state=0), True),
        (BaggingClassifier(max_samples=0.7, n_estimators=3, random_state=0), False),
    ],
)
def test_weights_of_rows_are_told_from_those_of_classes_and_from_bags(model, weighted):
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(2, 120, 3))
    y, weight = (X[:, 0] > 0.5).astype(int), np.where(X[:, 1] > 0, 5.0, 1.0)
    model.fit(X, y, **({"sample_weight": weight} if weighted else {}))
    given = {"rows": "held-out", "train": (X, y), "random_state": 0}
    text = "response_permutation(mdi, replicates=2)"
    if weighted:
        told = "the weights are different|was trained with (sample_weight|sample weights|other weights)"
        with pytest.raises((debias.ProvenanceError, debias.RowsError), match=told):
            debias.score(model, fresh, (fresh[:, 0] > 0.5).astype(int), text, **given)
    else:
        debias.score(model, fresh, (fresh[:, 0] > 0.5).astype(int), text, **given)


def test_random_bags_of_lightgbm_are_no_weights():
    X = np.random.default_rng(0).normal(size=(120, 3))
    forest = LGBMRegressor(
        n_estimators=3, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, verbose=-1, n_jobs=1
    ).fit(X, X[:, 0])
    debias.score(forest, X, X[:, 0], "response_permutation(mdi_oob, replicates=2)", random_state=0)


def test_columns_whose_names_are_no_text_are_permuted_like_others():
    x = np.random.default_rng(0).integers(0, 3, (150, 2))
    y = (x[:, 0] == 1).astype(int)
    text = "feature_permutation(gini_merit, replicates=19, rule='z')"
    by_number, by_text = (
        debias.score(None, pd.DataFrame(x, columns=names), y, text, random_state=0) for names in ([0, 1], ["0", "1"])
    )
    np.testing.assert_array_equal(by_number.null, by_text.null)
    assert by_number.values[0] > 10


def test_thresholds_need_all_draws():
    with pytest.raises(debias.plugin.CompositionError, match="leave adaptive out"):
        debias.plugin.scorer("threshold(response_permutation(mdi_oob, replicates=99, adaptive=True))")


@pytest.mark.thorough
def test_feature_permutation_stops_when_all_is_decided():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = 3 * X[:, 0] + 0.1 * rng.normal(size=100)
    forest = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, y)
    text = "feature_permutation(mdi, rule='pvalue', replicates=60, adaptive=True, alpha=0.3)"
    early = debias.score(forest, X, y, text, random_state=0)
    whole = debias.score(forest, X, y, text.replace("True", "False"), random_state=0)
    assert early.details["stopped"] == "settled"
    n = len(early.null)
    assert n < 60 == len(whole.null)
    np.testing.assert_array_equal(early.null, whole.null[:n])
    np.testing.assert_array_equal(early.p_value <= 0.3, whole.p_value <= 0.3)
