"""`debias.droppable` for times until an event: by their loss or by concordance, against refits by hand."""

import numpy as np
import pandas as pd
import pytest
import xgboost

import debias
from adapters.test_survival_boosters import AFT, COX, aft_model, cox_model, intervals, survival
from debias import RowsError
from debias.api.droppable import _folds
from debias.api.prepared import prepared_members
from debias.plugin import CompositionError
from debias.rows.request import Request
from support.survival import concordance
from support.survival import rows as survival_rows

HELD_OUT = {"rows": "held-out"}


def with_noise(X, seed):
    return np.column_stack([X, np.random.default_rng([seed, 7]).normal(size=(len(X), 2))])


def nloglik(model, X, y):
    rows = xgboost.DMatrix(X, label_lower_bound=y[:, 0], label_upper_bound=y[:, 1])
    return float(model.eval(rows).split(":")[1])


@pytest.mark.thorough
def test_failure_times_are_compared_by_the_metric_of_xgboost():
    (X, y), (X_new, y_new) = intervals(400, 0), intervals(500, 1)
    X, X_new = with_noise(X, 0), with_noise(X_new, 1)
    model = aft_model(X, y)
    result = debias.droppable(model, X_new, y_new, train=(X, y), tolerance=0.15, **HELD_OUT)
    assert result.performance.metric == "negative log likelihood"
    before = nloglik(model, X_new, y_new)
    # The best constant, by XGBoost itself: no tree, and a start margin.
    empty = xgboost.train(AFT, xgboost.DMatrix(X[:2], label_lower_bound=[1, 1], label_upper_bound=[1, 1]), 0)
    rows = xgboost.DMatrix(X_new, label_lower_bound=y_new[:, 0], label_upper_bound=y_new[:, 1])
    at_constants = []
    for constant in np.linspace(-1, 1, 201):
        rows.set_base_margin(np.full(500, constant))
        at_constants.append(float(empty.eval(rows).split(":")[1]))
    assert result.performance.value == pytest.approx(before, rel=1e-5)
    assert result.performance.constant == pytest.approx(min(at_constants), abs=1e-3)
    for k, size in enumerate(result.sizes.tolist()):
        kept = [j for j in range(5) if f"f{j}" not in result.order[:size]]
        after = nloglik(aft_model(X[:, kept], y), X_new[:, kept], y_new)
        lost = (after - before) / (result.performance.constant - before)
        assert result.lost[k] == pytest.approx(lost, rel=1e-3, abs=1e-3)
    assert "f0" not in result.columns
    assert "The negative log likelihood on these rows is" in " ".join(result.summary())


@pytest.mark.thorough
def test_cox_models_are_compared_by_concordance():
    (X, y), (X_new, y_new) = survival(400, 0), survival(400, 1)
    X, X_new = with_noise(X, 0), with_noise(X_new, 1)
    model = cox_model(X, y)
    result = debias.droppable(model, X_new, y_new, train=(X, y), tolerance=0.15, **HELD_OUT)
    event, time = y_new > 0, np.abs(y_new)

    def of(model, columns):
        risk = model.predict(xgboost.DMatrix(X_new[:, columns]), output_margin=True)
        return concordance(event, time, risk, np.ones(400))

    before = of(model, np.arange(5))
    assert result.performance.metric == "concordance"
    assert result.performance.value == pytest.approx(before, abs=1e-6)
    for k, size in enumerate(result.sizes.tolist()):
        kept = [j for j in range(5) if f"f{j}" not in result.order[:size]]
        after = of(cox_model(X[:, kept], y), kept)
        assert result.lost[k] == pytest.approx((before - after) / (before - 0.5), abs=1e-5)
        assert result.to_frame()["concordance"].iloc[k] == pytest.approx(after, abs=1e-6)
    assert "f0" not in result.columns
    assert "0.500 for a constant" in " ".join(result.summary())
    again = debias.Droppable.from_json(result.to_json())
    assert again.summary() == result.summary()
    assert "higher is better" in result.plot().get_ylabel()


def test_the_events_are_divided_evenly_among_the_folds():
    X, y = survival(120, 0)
    y = np.where(np.arange(120) < 8, np.abs(y), -np.abs(y))  # 8 events, among the first rows
    request = Request.of(cox_model(X, y), *survival(200, 1), train=(X, y), **HELD_OUT)
    (prepared,) = prepared_members(request, [])
    fold, query = _folds(prepared.rows.train, 3, 0)
    assert query is None
    assert sorted(np.bincount(fold[:8])) == [2, 3, 3]
    assert np.ptp(np.bincount(fold)) <= 1


def test_few_events_and_few_rows_are_refused():
    model, train, (X, y) = cox_model(*survival(120, 0)), survival(120, 0), survival(200, 1)
    with pytest.raises(RowsError, match="training rows with an event are too few for 50 folds"):
        debias.droppable(model, X, y, train=train, folds=50, **HELD_OUT)
    with pytest.raises(RowsError, match="there are 8 rows, .* nothing is tested with fewer than 10"):
        debias.droppable(model, X[:8], y[:8], train=train, **HELD_OUT)
    with pytest.raises(RowsError, match="none of these rows has an event"):
        debias.droppable(model, X, -np.abs(y), train=train, **HELD_OUT)


@pytest.mark.integration
def test_forests_of_scikit_survival_are_compared_by_their_own_score():
    ensemble = pytest.importorskip("sksurv.ensemble")
    (X, y), (X_new, y_new) = survival_rows(300, 0), survival_rows(300, 1)
    names = ["signal", "number", "binary", "levels"]
    X, X_new = (pd.DataFrame(each, columns=names) for each in (X, X_new))
    settings = {"min_samples_leaf": 8, "random_state": 0}
    for forest in (
        ensemble.RandomSurvivalForest(20, **settings),
        ensemble.ExtraSurvivalTrees(20, **settings),
        ensemble.GradientBoostingSurvivalAnalysis(n_estimators=20, **settings),
    ):
        model = forest.fit(X, y)
        result = debias.droppable(model, X_new, y_new, train=(X, y), tolerance=0.3, columns=["number"], **HELD_OUT)
        refit = debias.refit(
            model,
            X.drop(columns="number"),
            y,
            random_state=int(np.random.SeedSequence([0, 0]).generate_state(1)[0] >> 1),
        )
        before, after = model.score(X_new, y_new), refit.score(X_new.drop(columns="number"), y_new)
        assert result.lost[0] == pytest.approx((before - after) / (before - 0.5), abs=1e-6)
        assert "signal" not in debias.droppable(model, X_new, y_new, train=(X, y), tolerance=0.3, **HELD_OUT).columns


@pytest.mark.integration
def test_cox_models_of_catboost_are_compared_by_concordance_and_failure_times_are_refused():
    catboost = pytest.importorskip("catboost")
    (X, y), (X_new, y_new) = survival(300, 0), survival(300, 1)
    settings = {"iterations": 20, "depth": 3, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoost({"loss_function": "Cox", **settings}).fit(X, y)
    result = debias.droppable(model, X_new, y_new, train=(X, y), columns=["1"], tolerance=0.3, **HELD_OUT)
    expected = concordance(y_new > 0, np.abs(y_new), model.predict(X_new), np.ones(300))
    assert result.performance.value == pytest.approx(expected, abs=1e-6)
    times = np.column_stack([np.abs(y), np.where(y > 0, y, -1)])
    aft = catboost.CatBoost({"loss_function": "SurvivalAft", **settings}).fit(X, times)
    with pytest.raises(CompositionError, match="droppable compares losses, and .*SurvivalAft"):
        debias.droppable(aft, X_new, times, train=(X, times), **HELD_OUT)


def weak(n, seed):
    """Eight features whose effects on the log of a time fall from strong to none, and rows that are censored early."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    time = np.exp(X @ 0.7 ** np.arange(8) + rng.normal(size=n))
    limit = rng.exponential(10.0, n)
    return X, np.minimum(time, limit), time <= limit


def mean_losses(kind, models, rows):
    """Return the mean loss of models, each with its columns, on many rows; the last is of the best constant."""
    X, time, event = rows
    if kind == "aft":
        y = np.column_stack([time, np.where(event, time, np.inf)])
        objective = debias.trees.survival_objectives.AftObjective()
        at = [model.predict(xgboost.DMatrix(X[:, kept]), output_margin=True)[:, None] for model, kept in models]
        at.append(np.tile(objective.best_constant(y, np.ones(len(y))), (len(y), 1)))
        return [objective.loss(y, margin).mean() for margin in at]
    found = []
    for model, kept in models:
        risk = model.predict(xgboost.DMatrix(X[:, kept]), output_margin=True).astype(float)
        upper = np.where(event, time, np.inf)
        found.append(1 - debias.rows.order_of_predictions.concordance(risk, time, upper, np.ones(len(time))))
    return [*found, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["aft", "cox"])
def test_certificates_of_survival_models_are_wrong_in_at_most_alpha_of_draws(kind):
    """Each draw has new training and held-out rows; the true loss of the refit is that on 8,000 rows."""
    wrong, certified, n_draws, tolerance = 0, 0, 120, 0.1
    new = weak(8000, 10_000)
    for seed in range(n_draws):
        train, held_out = weak(250, 2 * seed), weak(200, 2 * seed + 1)
        if kind == "aft":
            y, y_new = (np.column_stack([time, np.where(event, time, np.inf)]) for _, time, event in (train, held_out))
            model = aft_model(train[0], y, rounds=25)
        else:
            y, y_new = (np.where(event, time, -time) for _, time, event in (train, held_out))
            model = xgboost.train(COX, xgboost.DMatrix(train[0], y), 25)
        try:
            settings = {"tolerance": tolerance, "random_state": seed, **HELD_OUT}
            found = debias.droppable(model, held_out[0], y_new, train=(train[0], y), **settings)
        except RowsError:  # no gain beyond chance: nothing is certified
            continue
        if not found.columns:
            continue
        certified += 1
        kept = [k for k in range(8) if f"f{k}" not in found.columns]
        before, after, constant = mean_losses(kind, [(model, np.arange(8)), (found.model, kept)], new)
        wrong += (after - before) / (constant - before) > tolerance
    assert certified > 10
    assert wrong / n_draws < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_draws)
