"""Ablation against its definition, leaf by leaf, and against Shapley values; its level on correlated noise."""

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingRegressor
from xgboost import XGBRegressor

import debias
from debias.rows.without import child_shares, effects
from debias.trees.routing import raw_output, route
from debias.trees.shapley import shapley_values
from support.without import CASES, drawn, evaluation_weight, fitted, output_without


def figures_at_splits(ensemble, X, residual, weight, reached, column):
    """Return the sum over the splits on a column of a row's step times its residual, both centred in the node."""
    figures, leaves = np.zeros(len(X)), route(ensemble, X)
    for tree in range(ensemble.n_trees):
        begin, end = ensemble.tree_start[tree : tree + 2]
        outputs = slice(ensemble.tree_output[tree], ensemble.tree_output[tree] + ensemble.value.shape[1])
        child_of = np.full((end - begin, len(X)), -1)
        for row, leaf in enumerate(leaves[:, tree]):
            node = leaf
            while node > 0:
                child_of[ensemble.parent[begin + node], row] = node
                node = ensemble.parent[begin + node]
        for split in np.flatnonzero(ensemble.feature[begin:end] == column):
            inside = np.flatnonzero(child_of[split] >= 0)
            if not weight[inside].sum() > 0:
                continue
            value = ensemble.value[begin + child_of[split, inside]]
            step = value - np.average(value, axis=0, weights=weight[inside])
            rest = residual[inside, outputs]
            figures[inside] += (step * (rest - np.average(rest, axis=0, weights=weight[inside]))).sum(axis=1)
    return figures / (ensemble.n_trees if ensemble.averaged else 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("library", "kind"), CASES)
def test_the_scores_are_those_of_the_definition(models, library, kind):
    model, X, y = fitted(models, library, kind)
    ensemble, weight = debias.plugin.extract(model), np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    rows = X.astype(ensemble.routing_dtype)
    reached = evaluation_weight(ensemble, rows, weight)
    n_classes = len(getattr(model, "classes_", []))
    one_hot = np.eye(n_classes)[y] if n_classes else y[:, None]
    target = one_hot[:, 1:] if n_classes == 2 and ensemble.n_outputs == 1 else one_hot

    def loss(raw):
        if ensemble.averaged or not n_classes:
            return ((target - raw) ** 2).sum(axis=1)
        probability = model_probability(raw)
        return -np.log(np.where(one_hot == 1, probability, 1).prod(axis=1))

    def model_probability(raw):
        if raw.shape[1] == 1:
            share = 1 / (1 + np.exp(-raw))
            return np.concatenate([1 - share, share], axis=1)
        share = np.exp(raw)
        return share / share.sum(axis=1, keepdims=True)

    def residual(raw):
        if ensemble.averaged or not n_classes:
            return target - raw
        return target - model_probability(raw)[:, -target.shape[1] :]

    full = np.array([output_without(ensemble, x, (), reached) for x in rows])
    np.testing.assert_allclose(full, raw_output(ensemble, route(ensemble, rows)), atol=1e-9)
    shared = {"rows": "held-out", "sample_weight": weight, "least_correlation": 1.0}
    scores = debias.score(model, X, y, "ablation", **shared)
    by_split = debias.score(model, X, y, "ablation", measure="splits", **shared)
    by_loss = debias.score(model, X, y, "ablation", rows="held-out", sample_weight=weight, measure="loss")
    for k in range(X.shape[1]):
        without = np.array([output_without(ensemble, x, (k,), reached) for x in rows])
        effect, rest = full - without, residual(without)
        figures = (
            (effect - np.average(effect, axis=0, weights=weight)) * (rest - np.average(rest, axis=0, weights=weight))
        ).sum(axis=1)
        np.testing.assert_allclose(scores.values[k], np.average(figures, weights=weight), rtol=1e-7, atol=1e-10)
        steps = figures_at_splits(ensemble, rows, rest, weight, reached, k)
        np.testing.assert_allclose(by_split.values[k], np.average(steps, weights=weight), rtol=1e-7, atol=1e-10)
        saved = loss(without) - loss(full)
        np.testing.assert_allclose(by_loss.values[k], np.average(saved, weights=weight), rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(scores.details["loss_saved"][k], by_loss.values[k], rtol=1e-12)
        n, share = (weight > 0).sum(), weight / weight.sum()
        error = np.sqrt(((share * (saved - by_loss.values[k])) ** 2).sum() * n / (n - 1))
        np.testing.assert_allclose(by_loss.standard_error[k], error, rtol=1e-6, atol=1e-10)
    assert np.abs(scores.values).max() > 1e-3


@pytest.mark.thorough
def test_dependent_columns_and_categories_are_left_out_of_the_residual():
    rng = np.random.default_rng(4)
    code = rng.integers(0, 8, 300).astype(float)
    x = rng.normal(size=300)
    X = np.column_stack([code, np.isin(code, [2, 5]) + 0.1 * rng.normal(size=300), x, 0.5 * x + rng.normal(size=300)])
    y = np.isin(code, [1, 2, 6]) + X[:, 2] + rng.normal(size=300)
    settings = {"n_estimators": 4, "min_child_samples": 5, "min_data_per_group": 5, "cat_smooth": 1.0, "verbose": -1}
    model = LGBMRegressor(**settings, n_jobs=1).fit(X[:200], y[:200], categorical_feature=[0])
    ensemble, rows, y = debias.plugin.extract(model), X[200:], y[200:]
    assert ensemble.category_set is not None
    scores = debias.score(model, rows, y, "ablation", rows="held-out", least_correlation=0.3)
    assert scores.details["left_out_together"] == [1, 1, 1, 1]
    reached = evaluation_weight(ensemble, rows, np.ones(100))
    full = np.array([output_without(ensemble, row, (), reached)[0] for row in rows])
    for k, cluster in enumerate([(0, 1), (0, 1), (2, 3), (2, 3)]):
        effect = full - np.array([output_without(ensemble, row, (k,), reached)[0] for row in rows])
        rest = y - np.array([output_without(ensemble, row, cluster, reached)[0] for row in rows])
        np.testing.assert_allclose(scores.values[k], np.cov(effect, rest, ddof=0)[0, 1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_two_features_have_the_difference_of_their_shapley_values(models, library):
    X, y = drawn("regression", missing=0)
    X = X[:, :2]
    ensemble = debias.plugin.extract(models(library, n_estimators=6, max_depth=5).fit(X, y))
    rows = X.astype(ensemble.routing_dtype)
    weight = ensemble.averaging_weight.copy()
    for split, children in zip(ensemble.splits[::-1], ensemble.children[::-1], strict=True):
        weight[split] = weight[children].sum()  # inner entries are not stored
    effect = effects(ensemble, rows, child_shares(ensemble, weight), np.arange(2), 2)[1][:, :, 0].T
    phi = shapley_values(ensemble, rows)[:, :, 0]
    np.testing.assert_allclose(effect[:, 0] - effect[:, 1], phi[:, 0] - phi[:, 1], atol=1e-12)


def test_the_p_value_of_both_is_that_of_the_larger_statistic(models):
    X, y = drawn("regression", n=400, missing=0)
    model = models("xgboost", n_estimators=20, max_depth=4).fit(X[:200], y[:200])
    test = {"rows": "held-out", "error": "fdr_by"}
    both = debias.score(model, X[200:], y[200:], "ablation", **test)
    parts = {
        name: debias.score(model, X[200:], y[200:], "ablation", measure=name, **test) for name in ("effect", "splits")
    }
    for name, part in parts.items():
        np.testing.assert_array_equal(both.details["p_value_of"][name], part.p_value)
    smaller = np.minimum(parts["effect"].p_value, parts["splits"].p_value)
    assert ((smaller <= both.p_value) & (both.p_value <= 2 * smaller)).all()
    np.testing.assert_array_equal(both.values, parts["effect"].values)
    np.testing.assert_array_equal(
        both.z,
        np.where(parts["splits"].p_value < parts["effect"].p_value, *[parts[name].z for name in ("splits", "effect")]),
    )


@pytest.mark.thorough
def test_columns_left_out_together_share_their_loss(models):
    X, y = drawn("regression", missing=0)
    model = models("xgboost", n_estimators=5).fit(X[:100], y[:100])
    ensemble = debias.plugin.extract(model)
    rows, y_test = X[100:].astype(ensemble.routing_dtype), y[100:]
    scores = debias.score(
        model,
        X[100:],
        y_test,
        "ablation",
        rows="held-out",
        together={"both": ["f0", "f1"]} if ensemble.feature_names[0] == "f0" else {"both": ["x0", "x1"]},
        measure="loss",
    )
    reached = evaluation_weight(ensemble, rows, np.ones(60))
    full = np.array([output_without(ensemble, row, (), reached)[0] for row in rows])
    without = np.array([output_without(ensemble, row, (0, 1), reached)[0] for row in rows])
    saved = ((y_test - without) ** 2 - (y_test - full) ** 2).mean()
    np.testing.assert_allclose(scores.values[:2].sum(), saved, rtol=1e-6)
    assert scores.values[0] == scores.values[1]
    assert scores.p_value[0] == scores.p_value[1]


def test_the_numbers_do_not_depend_on_threads_or_memory(models, monkeypatch):
    X, y = drawn("three classes")
    model = models("xgboost", "classification", n_estimators=4).fit(X[:100], y[:100])
    one = debias.score(model, X[100:], y[100:], "ablation", rows="held-out", n_jobs=1)
    two = debias.score(model, X[100:], y[100:], "ablation", rows="held-out", n_jobs=2)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.p_value, two.p_value)
    monkeypatch.setattr("debias_plugins.scorers.ablation.VALUES_AT_ONCE", 1)
    small = debias.score(model, X[100:], y[100:], "ablation", rows="held-out", n_jobs=1)
    np.testing.assert_array_equal(one.values, small.values)


def test_a_column_that_the_model_does_not_use_has_p_1(models):
    X, y = drawn("regression", missing=0)
    X[:, 4] = 1.0
    model = models("xgboost", n_estimators=4).fit(X[:100], y[:100])
    scores = debias.score(model, X[100:], y[100:], "ablation", rows="held-out", error="fdr")
    assert (scores.values[4], scores.standard_error[4], scores.p_value[4], scores.selected[4]) == (0, 0, 1, False)
    assert scores.details["test"]["error"] == "fdr"
    assert debias.Scores.from_json(scores.to_json()).values.tolist() == scores.values.tolist()
    assert list(scores.interval().columns) == ["lower", "upper"]


def test_blocks_are_the_independent_units(models):
    X, y = drawn("regression", missing=0)
    model = models("lightgbm", n_estimators=5, min_child_samples=5).fit(X[:100], y[:100])
    twice = (np.repeat(X[100:], 2, axis=0), np.repeat(y[100:], 2))
    alone = debias.score(model, X[100:], y[100:], "ablation", rows="held-out")
    blocked = debias.score(
        model, debias.Dataset(*twice, blocks=np.repeat(np.arange(60), 2)), scorer="ablation", rows="held-out"
    )
    np.testing.assert_allclose(blocked.values, alone.values, atol=1e-12)
    np.testing.assert_allclose(blocked.p_value, alone.p_value, atol=1e-12)


def test_a_custom_objective_has_a_covariance_and_no_loss():
    X, y = drawn("regression", missing=0)
    model = XGBRegressor(n_estimators=4, objective=lambda y, f: (f - y, np.ones_like(y)), base_score=0.0, n_jobs=1)
    model.fit(X[:100], y[:100])
    scores = debias.score(model, X[100:], y[100:], "ablation", rows="held-out")
    plain = XGBRegressor(n_estimators=4, base_score=0.0, n_jobs=1).fit(X[:100], y[:100])
    expected = debias.score(plain, X[100:], y[100:], "ablation", rows="held-out")
    np.testing.assert_allclose(scores.p_value, expected.p_value, rtol=1e-4, atol=1e-8)
    assert "loss_saved" not in scores.details
    with pytest.raises(debias.plugin.CompositionError, match="needs the loss"):
        debias.score(model, X[100:], y[100:], "ablation", rows="held-out", measure="loss")


def test_what_would_be_wrong_is_refused():
    X, y = drawn("binary", missing=0)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.raises(debias.plugin.CompositionError, match=r"out-of-bag rows: .* use mdi_oob"):
        debias.score(forest, X, y, "ablation", rows="oob")
    with (
        pytest.warns(debias.DebiasWarning, match="training rows"),
        pytest.raises(debias.RowsError, match="were fitted to these"),
    ):
        debias.score(forest, X, y, "ablation", rows="train")
    new_X, new_y = drawn("binary", missing=0, seed=8)
    for options, message in (
        ({"measure": "gain"}, "not one of 'both', 'effect'"),
        ({"least_correlation": 0}, "above 0 and at most 1"),
        ({"alpha": 0}, "alpha must be between"),
        ({"error": "holm"}, "not one of 'fwer'"),
        ({"groups": {"both": ["x0", "x1"]}}, "together="),
    ):
        with pytest.raises(debias.plugin.CompositionError, match=message):
            debias.score(forest, new_X, new_y, "ablation", rows="held-out", **options)
    batches = [(new_X, new_y)]
    with pytest.raises(debias.plugin.CompositionError, match="needs the rows themselves"):
        debias.score(forest, iter(batches), None, "ablation", rows="held-out")


def test_wrappers_of_several_models_are_refused_and_those_of_one_are_not():
    X, y = drawn("regression", missing=0)
    members = [(f"m{k}", RandomForestRegressor(4, random_state=k)) for k in range(2)]
    vote = VotingRegressor(members).fit(X[:100], y[:100])
    with pytest.raises(
        debias.plugin.CompositionError, match=r"combines 2 models, and only one model is tested here.*ablation"
    ):
        debias.score(vote, X[100:], y[100:], "ablation", rows="held-out")
    one = VotingRegressor([members[0], ("line", "drop")]).fit(X[:100], y[:100])
    alone = debias.score(one.estimators_[0], X[100:], y[100:], "ablation", rows="held-out")
    scores = debias.score(one, X[100:], y[100:], "ablation", rows="held-out")
    np.testing.assert_allclose(scores.values, alone.values)
    np.testing.assert_allclose(scores.standard_error, alone.standard_error)


# --- what the test is for: its level where others have none, and its power -----------------------------


def correlated_noise(rng, n=200):
    """Draw five columns with correlation 0.95, and a response that depends on none."""
    shared = rng.normal(size=(n, 1))
    return np.sqrt(0.95) * shared + np.sqrt(0.05) * rng.normal(size=(n, 5)), rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:about .* training rows:debias.DebiasWarning")  # a chance of .05 in each set
def test_noise_that_is_correlated_keeps_the_level_and_permutation_does_not():
    n_sets, p_values = 300, {"ablation": [], "permutation": []}
    for number in range(n_sets):
        rng = np.random.default_rng([11, number])
        model = XGBRegressor(n_estimators=30, max_depth=4, learning_rate=0.2, n_jobs=1).fit(*correlated_noise(rng))
        X, y = correlated_noise(rng)
        for name, options in (("ablation", {}), ("permutation", {"p_values": True, "random_state": number})):
            p_values[name].append(debias.score(model, X, y, name, rows="held-out", **options).p_value)
    rates = {name: (np.array(p) <= 0.05).mean(axis=1) for name, p in p_values.items()}
    error = rates["ablation"].std(ddof=1) / np.sqrt(n_sets)
    assert rates["ablation"].mean() < 0.05 + 3 * error
    assert rates["permutation"].mean() > 0.15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:about .* training rows:debias.DebiasWarning")  # a chance of .05 in each set
def test_the_residual_has_more_power_than_the_response_for_a_booster():
    n_sets, found = 60, {"ablation": [], "mdi_oob": []}
    for number in range(n_sets):
        rng = np.random.default_rng([12, number])
        X = rng.normal(size=(400, 8))
        y = 3 * X[:, 0] + 2 * X[:, 1] + 0.3 * X[:, 2] + rng.normal(size=400)
        model = XGBRegressor(n_estimators=50, max_depth=3, learning_rate=0.1, n_jobs=1).fit(X[:200], y[:200])
        rest = (model, X[200:], y[200:])
        found["ablation"].append(debias.score(*rest, "ablation", rows="held-out").p_value[2] <= 0.05)
        found["mdi_oob"].append(debias.score(*rest, "mdi_oob", rows="held-out", test="naive").p_value[2] <= 0.05)
    gap = np.array(found["ablation"], dtype=float) - np.array(found["mdi_oob"], dtype=float)
    assert gap.mean() > 2 * gap.std(ddof=1) / np.sqrt(n_sets)
