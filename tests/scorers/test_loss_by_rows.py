"""The test by rows of oob_loss, against losses of rows followed down the trees in Python."""

import numpy as np
import pytest
from scipy import stats
from xgboost import XGBRegressor

import debias
from debias.trees.routing import route


def drawn(task, n=180, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(1)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n)
    if task != "regression":
        y = np.digitize(y, np.quantile(y, [0.5] if task == "binary" else [0.3, 0.7]))
    return X, y


def saved_by_rows(ensemble, X, target, loss):
    """Return the loss that each row saves at the splits on each feature, node by node."""
    saved, leaves = np.zeros((len(X), ensemble.n_features)), route(ensemble, X.astype(ensemble.routing_dtype))
    for row in range(len(X)):
        margin = np.zeros(ensemble.n_outputs) if ensemble.averaged else ensemble.base.copy()
        for tree in range(ensemble.n_trees):
            begin, node, first = ensemble.tree_start[tree], leaves[row, tree], ensemble.tree_output[tree]
            leaf_step = None
            while node >= 0:
                step = np.zeros(ensemble.n_outputs)
                step[first : first + ensemble.value.shape[1]] = ensemble.value[begin + node]
                leaf_step = step if leaf_step is None else leaf_step
                above = ensemble.parent[begin + node]
                if above >= 0:
                    up = np.zeros(ensemble.n_outputs)
                    up[first : first + ensemble.value.shape[1]] = ensemble.value[begin + above]
                    before = margin if not ensemble.averaged else 0
                    difference = loss(target[row], before + up) - loss(target[row], before + step)
                    saved[row, ensemble.feature[begin + above]] += difference
                node = above
            if not ensemble.averaged:
                margin = margin + leaf_step
    return saved / (ensemble.n_trees if ensemble.averaged else 1)


def squared(y, f):
    return ((y - f) ** 2).sum()


def log_loss(y, f):
    if f.size == 1:
        return np.logaddexp(0, f[0]) - y[0] * f[0]
    return np.logaddexp.reduce(f) - y @ f


@pytest.mark.parametrize(
    ("library", "task"),
    [
        ("sklearn", "regression"),
        ("sklearn", "three classes"),
        ("xgboost", "regression"),
        ("xgboost", "binary"),
        ("lightgbm", "three classes"),
    ],
)
def test_the_numbers_are_those_of_the_losses_of_rows(models, library, task):
    X, y = drawn(task)
    kind = "regression" if task == "regression" else "classification"
    model = models(library, kind, n_estimators=4, max_depth=4).fit(X[:120], y[:120])
    ensemble, X_test, y_test = debias.plugin.extract(model), X[120:], y[120:]
    scores = debias.score(model, X_test, y_test, "oob_loss", rows="held-out", p_values=True, error="fdr_by")
    one_hot = y_test[:, None] if task == "regression" else np.eye(y.max() + 1)[y_test]
    target = one_hot[:, 1:] if ensemble.n_outputs == 1 and task == "binary" else one_hot
    saved = saved_by_rows(ensemble, X_test, target, squared if ensemble.averaged or kind == "regression" else log_loss)
    np.testing.assert_allclose(scores.values, saved.mean(axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scores.standard_error, stats.sem(saved), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scores.z * scores.standard_error, scores.values, rtol=1e-6, atol=1e-9)
    plain = debias.score(model, X_test, y_test, "oob_loss", rows="held-out")
    np.testing.assert_array_equal(plain.values, scores.values)
    assert plain.p_value is None
    assert scores.details["test"]["error"] == "fdr_by"


def test_rows_repeated_in_blocks_give_the_p_values_of_single_rows(models):
    X, y = drawn("regression")
    model = models("lightgbm", n_estimators=5).fit(X[:120], y[:120])
    twice, weight = np.repeat(np.arange(120, 180), 2), np.repeat(np.random.default_rng(1).integers(0, 3, 60), 2)
    options = {"rows": "held-out", "p_values": True}
    blocked = debias.score(
        model,
        debias.Dataset(X[twice], y[twice], blocks=np.repeat(np.arange(60), 2)),
        scorer="oob_loss",
        sample_weight=weight.astype(float),
        **options,
    )
    alone = debias.score(model, X[120:], y[120:], "oob_loss", sample_weight=weight[::2].astype(float), **options)
    np.testing.assert_allclose(blocked.p_value, alone.p_value, rtol=1e-9)
    np.testing.assert_allclose(blocked.values, alone.values, rtol=1e-9)


def test_rows_that_cannot_be_tested_are_refused(models):
    X, y = drawn("regression")
    forest = models("sklearn", n_estimators=5).fit(X, y)
    with pytest.raises(debias.plugin.CompositionError, match=r"out-of-bag rows: .*debias.audit tests mdi_oob"):
        debias.score(forest, X, y, "oob_loss", rows="oob", p_values=True)
    fresh = drawn("regression", seed=1)
    with pytest.raises(debias.plugin.CompositionError, match="needs the rows themselves"):
        debias.score(forest, iter([fresh]), None, "oob_loss", rows="held-out", p_values=True)
    with pytest.raises(debias.plugin.CompositionError, match="p_values must be True or False"):
        debias.score(forest, *fresh, "oob_loss", rows="held-out", p_values=1)
    custom = XGBRegressor(n_estimators=2, objective=lambda y, f: (f - y, np.ones_like(y)), n_jobs=1).fit(X, y)
    with pytest.raises(debias.plugin.CompositionError, match="custom objective"):
        debias.score(custom, *fresh, "oob_loss", rows="held-out", p_values=True)
    with pytest.raises(debias.plugin.CompositionError, match="error='none' is not one of"):
        debias.score(forest, *fresh, "oob_loss", rows="held-out", p_values=True, error="none")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:about .* training rows:debias.DebiasWarning")  # a chance of .05 in each set
def test_noise_is_below_the_level():
    n_sets, rates = 100, []
    for number in range(n_sets):
        rng = np.random.default_rng([13, number])
        X, y = rng.normal(size=(400, 6)), rng.normal(size=400)
        model = XGBRegressor(n_estimators=30, max_depth=3, learning_rate=0.1, n_jobs=1).fit(X[:200], y[:200])
        scores = debias.score(model, X[200:], y[200:], "oob_loss", rows="held-out", p_values=True)
        rates.append((scores.p_value <= 0.05).mean())
    assert np.mean(rates) < 0.05 + 3 * np.std(rates, ddof=1) / np.sqrt(n_sets)
