"""Rows and weights of the problem of a meta-method: scores of chosen rows, copies of rows, refused changes."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias
from debias.api.evaluation import score_trees
from debias.parallel import Engine
from debias.retraining.experiment import Experiment
from debias.rows.request import Request
from debias.testing import distance_of_means

N = 150


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=["signal", "noise", "other"], index=np.arange(N) + 7)
    return X, pd.Series(X["signal"] + 0.5 * rng.normal(size=N), index=X.index)


@pytest.fixture(scope="module")
def forest(data):
    return RandomForestRegressor(20, random_state=0).fit(*data)


def experiment(model, X, y, **passed):
    request = Request.of(model, X, y, random_state=0, **passed)
    return Experiment.of(request, score_trees(request, debias.plugin.scorer("mdi_oob")), Engine())


def scored(problem, scorer="mdi_oob", seed=3):
    return problem.inside(seed).score(debias.plugin.scorer(scorer))[0]


DRAWN = np.random.default_rng(1).integers(0, N, N)
HALF = np.random.default_rng(2).permutation(N)[: N // 2]


@pytest.mark.parametrize("rows", [DRAWN, HALF], ids=["bootstrap", "half"])
def test_out_of_bag_scores_are_those_of_a_refit_with_copies_in_one_block(forest, data, rows):
    X, y = data
    chosen = X.iloc[rows].reset_index(drop=True), y.to_numpy()[rows]
    refitted = debias.refit(forest, *chosen, random_state=3)
    expected = debias.score(refitted, debias.Dataset(*chosen, blocks=rows), rows="oob").values
    np.testing.assert_allclose(scored(experiment(forest, X, y).rows(rows)), expected, rtol=1e-12)
    if rows is DRAWN:
        leaky = debias.score(refitted, *chosen, rows="oob").values
        assert leaky[1] > expected[1] + 0.02, "copies in the bag make noise look important, so the test can fail"


def test_no_out_of_bag_row_has_a_copy_in_the_bag(forest, data):
    X, y = data
    seen = []

    @debias.plugin.scorer_plugin("looks_at_bags", unit="nothing")
    def looks_at_bags(ensemble, rows):
        values = rows.table.matrix(ensemble)
        for tree in range(ensemble.n_trees):
            inside = {tuple(row) for row in values[rows.in_bag.draw(tree) > 0]}
            outside = {tuple(row) for row in values[rows.in_bag.out_of_bag(tree)]}
            seen.append((len(outside), len(inside & outside)))
        return np.zeros(ensemble.n_features)

    experiment(forest, X, y).rows(DRAWN).inside(0).score(looks_at_bags)
    assert len(seen) == 20
    assert all(n_outside > 0 and n_both == 0 for n_outside, n_both in seen)


@pytest.mark.thorough
def test_noise_scores_0_on_average_over_bootstrap_samples():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 4))
    y = rng.normal(size=80)
    problem = experiment(RandomForestRegressor(10, random_state=0).fit(X, y), X, y)
    drawn = np.array([scored(problem.permuted(rng).rows(rng.integers(0, 80, 80)), seed=k) for k in range(60)])
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    assert (abs(drawn.mean(axis=0)) < 4 * error).all()


def test_held_out_rows_stay(forest, data):
    X, y = data
    model = debias.refit(forest, X[:100], y[:100], random_state=0)
    rows = DRAWN[DRAWN < 100]
    problem = experiment(model, X[100:], y[100:], rows="held-out", train=(X[:100], y[:100]))
    assert (problem.n_rows, problem.rows(rows).n_rows) == (100, len(rows))
    refitted = debias.refit(model, X.iloc[rows].reset_index(drop=True), y.to_numpy()[rows], random_state=3)
    expected = debias.score(refitted, X[100:], y[100:], rows="held-out").values
    np.testing.assert_allclose(scored(problem.rows(rows)), expected, rtol=1e-12)


def test_weights_are_those_of_a_refit(forest, data):
    X, y = data
    first, second = (np.random.default_rng(seed).uniform(0.5, 2, N) for seed in (1, 2))
    refitted = debias.refit(forest, X, y, first * second, random_state=3)
    expected = debias.score(refitted, X, y, rows="oob", sample_weight=first * second).values
    problem = experiment(forest, X, y)
    np.testing.assert_allclose(scored(problem.weighted(first).weighted(second)), expected, rtol=1e-12)
    weighted = debias.refit(forest, X, y, first, random_state=0)
    with_weights = experiment(weighted, X, y, sample_weight=first)
    np.testing.assert_allclose(scored(with_weights.weighted(second)), expected, rtol=1e-12)


def test_weights_go_with_their_rows(forest, data):
    X, y = data
    weight = np.random.default_rng(1).uniform(0.5, 2, N)
    problem = experiment(forest, X, y)
    both = scored(problem.weighted(weight).rows(HALF)), scored(problem.rows(HALF).weighted(weight[HALF]))
    np.testing.assert_array_equal(*both)
    assert not np.array_equal(both[0], scored(problem.rows(HALF)))


@pytest.mark.parametrize(
    "container",
    [lambda X: X.to_numpy(), lambda X: X.to_numpy().tolist(), "polars"],
    ids=["array", "list", "polars"],
)
def test_rows_of_every_container_score_alike(data, container):
    X, y = data
    if container == "polars":
        container = pytest.importorskip("polars").DataFrame
    given, labels = container(X.reset_index(drop=True)), (y > 0).to_numpy()
    forest = RandomForestClassifier(10, random_state=0).fit(X.to_numpy(), labels)
    plain = experiment(forest, X.to_numpy(), labels).rows(DRAWN)
    np.testing.assert_allclose(scored(experiment(forest, given, labels).rows(DRAWN)), scored(plain), rtol=1e-12)


def test_rows_go_through_a_pipeline(data):
    X, y = data
    model = make_pipeline(StandardScaler(), RandomForestRegressor(10, random_state=0)).fit(X, y)
    assert scored(experiment(model, X, y).rows(DRAWN)).argmax() == 0


def test_copies_keep_one_response_and_can_be_chosen_again(data):
    X, y = data
    problem = debias.plugin.Data.of(X, y).rows(DRAWN)
    permuted = problem.permuted(np.random.default_rng(0))
    for original in np.unique(DRAWN):
        assert len(set(permuted.y[original == DRAWN])) == 1
    assert not np.array_equal(permuted.y, problem.y)
    assert set(permuted.y) <= set(y)
    np.testing.assert_array_equal(problem.rows(np.arange(9)[::-1]).X["signal"], X["signal"].iloc[DRAWN[:9][::-1]])
    alone = np.unique(DRAWN, return_index=True)[1]
    assert problem.rows(alone).copy_of is None
    again = problem.rows(np.r_[alone, alone[:1]])
    assert again.copy_of[0] == again.copy_of[-1] == DRAWN[alone[0]]


def test_data_without_a_model_are_scored_on_drawn_rows(data):
    X, y = data
    weight = np.random.default_rng(0).uniform(size=N)
    problem = debias.plugin.Data.of(X, y)
    scorer = distance_of_means
    expected = scorer.score(debias.plugin.Data.of(X.iloc[DRAWN].reset_index(drop=True), y.to_numpy()[DRAWN]))[0]
    np.testing.assert_array_equal(problem.rows(DRAWN).score(scorer)[0], expected)
    np.testing.assert_array_equal(problem.weighted(weight).rows(HALF).weight, weight[HALF])
    assert problem.rows(DRAWN).fingerprint() != problem.fingerprint()
    for name in ("oob_forest", "marginal_predictive_value"):
        with pytest.raises(
            debias.plugin.CompositionError, match="holds rows out, and copies of a row could be on both sides"
        ):
            problem.rows(DRAWN).score(debias.plugin.scorer(name))
    assert problem.rows(HALF).score(debias.plugin.scorer("oob_forest(n_estimators=5)"))[0].argmax() == 0


@pytest.mark.parametrize("kind", ["data", "experiment"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda problem: problem.rows([0, N]), f"position {N}, but the training rows are 0 to {N - 1}"),
        (lambda problem: problem.rows([-1]), "has the position -1"),
        (lambda problem: problem.rows(np.ones(N, dtype=bool)), r"np\.flatnonzero\(mask\)"),
        (lambda problem: problem.rows([0.5]), "whole numbers"),
        (lambda problem: problem.rows([]), "positions of rows"),
        (lambda problem: problem.weighted(np.ones(3)), rf"shape \(3,\) for {N} training rows"),
        (lambda problem: problem.weighted(-np.ones(N)), "negative or not finite, or all are zero"),
        (lambda problem: problem.weighted(np.full(N, np.nan)), "negative or not finite"),
        (lambda problem: problem.weighted(np.zeros(N)), "all are zero"),
        (lambda problem: problem.weighted(["x"] * N), "one number for each training row"),
        (lambda problem: problem.changed(lambda X: X.sample(frac=1, random_state=0)), "moved whole rows"),
        (lambda problem: problem.changed(lambda X: X[:50]), "made 50 rows"),
    ],
)
def test_wrong_use_is_refused(forest, data, kind, change, message):
    problem = debias.plugin.Data.of(*data) if kind == "data" else experiment(forest, *data)
    with pytest.raises(debias.RowsError, match=message):
        change(problem)


def test_a_bootstrap_meta_method_is_the_same_in_parallel(forest, data):
    @debias.plugin.meta_method_plugin("bootstrapped", unit="{unit}")
    def bootstrapped(inner, problem, *, replicates=4):
        from debias.retraining.replicates import child_seed, replicate

        def once(inner, problem, child):
            rows = np.random.default_rng(child).integers(0, problem.n_rows, problem.n_rows)
            return problem.rows(rows).inside(child_seed(child)).score(inner)[0]

        drawn = replicate(once, inner, problem, n=replicates, seed=problem.seed or 0, engine=problem.engine)
        return drawn.values.mean(axis=0), drawn.report()

    wrapped = bootstrapped(debias.plugin.scorer("mdi_oob"))
    with joblib.parallel_config(backend="threading"):
        one, two = (debias.score(forest, *data, wrapped, random_state=0, n_jobs=n).values for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert one.argmax() == 0


def test_the_data_and_the_model_are_not_changed(forest, data):
    X, y = (part.copy() for part in data)
    problem = experiment(forest, X, y)
    scored(problem.rows(DRAWN).weighted(np.full(N, 2.0)))

    def in_place(frame):
        frame["noise"] = 0.0
        return frame

    assert scored(problem.changed(in_place))[1] == 0
    assert debias.plugin.Data.of(X, y).changed(in_place).X["noise"].eq(0).all()
    pd.testing.assert_frame_equal(X, data[0])
    pd.testing.assert_series_equal(y, data[1])
    np.testing.assert_array_equal(scored(problem), debias.score(forest, X, y).values)
