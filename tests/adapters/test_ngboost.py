"""Tests of the adapter of NGBoost: trees and parameters are the library's, and gradients are those of its scores.

Over 500 lines: one file for each library, which is left out where the library is not installed.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import special, stats
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import debias
from debias.testing import check_adapter
from debias.trees.routing import raw_output, route
from support.versions import at_least

pytestmark = pytest.mark.integration
ngboost = pytest.importorskip("ngboost")
several_bases = pytest.mark.skipif(
    not hasattr(ngboost.NGBRegressor, "_base_learners"), reason="old versions of NGBoost have one base learner"
)
N, HELD = 300, slice(200, 300)
TRAIN = slice(0, 200)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    return X, X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=N)


def responses(z):
    """Return a response for each distribution."""
    rng, share = np.random.default_rng(1), special.expit(z)
    real = ("Normal", "NormalFixedVar", "NormalFixedMean", "Laplace", "TFixedDf", "Cauchy", "TFixedDfFixedVar")
    positive = ("LogNormal", "Exponential", "Gamma", "Weibull")
    every = {
        **dict.fromkeys(real, z),
        **dict.fromkeys(positive, np.exp(z / 2)),
        "HalfNormal": np.abs(z),
        "Poisson": rng.poisson(np.exp(z / 3)).astype(float),
        "Beta": share,
        "LogitNormal": share,
        "BetaBinomialEstN": rng.binomial(10, share),
    }
    return {name: y for name, y in every.items() if hasattr(ngboost.distns, name)}  # fewer in old versions


X, Y = rows()
OF = responses(Y)
WITH_CRPS = ("Normal", "NormalFixedVar", "NormalFixedMean", "Laplace", "LogNormal")
CASES = [*((name, "LogScore") for name in OF), *((name, "CRPScore") for name in WITH_CRPS)]


def model(kind="NGBRegressor", **settings):
    """Return a model whose trees do not depend on the global random state: the default ones break ties by it."""
    few = {
        "Base": DecisionTreeRegressor(max_depth=3, random_state=0),
        "n_estimators": 12,
        "learning_rate": 0.05,
        "verbose": False,
        "random_state": 0,
    }
    return getattr(ngboost, kind)(**{**few, **settings})


def fitted(name="Normal", score="LogScore", y=None, **settings):
    from ngboost import distns, scores

    chosen = {"Dist": getattr(distns, name), "Score": getattr(scores, score), **settings}
    np.random.seed(0)  # noqa: NPY002 - some distributions draw from the global state as they are fitted
    return model(**chosen).fit(X[TRAIN], (OF[name] if y is None else y)[TRAIN])


def fitted_to(y, kind="NGBRegressor", **settings):
    return model(kind, **settings).fit(X[TRAIN], y[TRAIN])


def parameters(ensemble, margin):
    return margin / np.asarray(ensemble.objective.parameter)


def informative(audit):
    frame = audit.to_frame()
    return set(frame.index[frame["verdict"] == "informative"])


# --- trees ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NGBoost's fits of few rows
@pytest.mark.parametrize(("name", "score"), CASES)
def test_the_contract_holds_and_parameters_are_the_librarys(name, score):
    given = fitted(name, score)
    check_adapter(given, X[HELD], OF[name][HELD])
    ensemble = debias.plugin.extract(given)
    ours = raw_output(ensemble, route(ensemble, X[HELD].astype(np.float32)))
    np.testing.assert_allclose(parameters(ensemble, ours), given.pred_param(X[HELD]), rtol=1e-12, atol=1e-12)
    if name != "LogitNormal":  # its means are those of random draws
        np.testing.assert_allclose(ensemble.objective.mean(ours)[:, 0], given.predict(X[HELD]), rtol=1e-10)


@pytest.mark.parametrize(
    "settings",
    [
        {"col_sample": 0.5},
        {"minibatch_frac": 0.5},
        {"natural_gradient": False},
        {"Base": DecisionTreeRegressor(max_leaf_nodes=5, max_features=2, random_state=0)},
        pytest.param(
            {"Base": [DecisionTreeRegressor(max_depth=2), DecisionTreeRegressor(max_depth=1)]}, marks=several_bases
        ),
        {"n_estimators": 40, "early_stopping_rounds": 2, "learning_rate": 0.5},
    ],
)
def test_settings_of_the_training(settings):
    given = fitted(**settings)
    check_adapter(given, X[HELD], Y[HELD])
    stopped = len(given.base_models) < given.n_estimators
    assert bool(debias.plugin.extract(given).notes) == stopped == ("early_stopping_rounds" in settings)


def test_classes_are_scored_with_their_log_loss():
    from ngboost.distns import k_categorical

    for n_classes in (2, 3):
        labels = np.digitize(Y, [0] if n_classes == 2 else [-0.5, 0.5])
        given = model("NGBClassifier", Dist=k_categorical(n_classes)).fit(X[TRAIN], labels[TRAIN])
        check_adapter(given, X[HELD], labels[HELD])
        performance = debias.audit(given, X[HELD], labels[HELD], random_state=0).performance
        p = given.predict_proba(X[HELD])[np.arange(100), labels[HELD]]
        assert performance.metric == "log loss"
        assert performance.value == pytest.approx(-np.log(p).mean(), rel=1e-9)
        loss = debias.score(given, X[HELD], labels[HELD], scorer="oob_loss", rows="held-out")
        share = np.bincount(labels[TRAIN], minlength=n_classes) / 200
        of_start = -np.log(share[labels[HELD]]).mean()
        assert loss.values.sum() + loss.details["base"] == pytest.approx(of_start + np.log(p).mean(), rel=1e-9)


@pytest.mark.skipif(not at_least("ngboost", "0.6"), reason="labels are 0, 1, ... before NGBoost 0.6")
def test_labels_are_those_of_the_model():
    labels = np.array(["low", "high", "middle"])[np.digitize(Y, [-0.5, 0.5])]
    given = fitted_to(labels, "NGBClassifier", Dist=ngboost.distns.k_categorical(3))
    check_adapter(given, X[HELD], labels[HELD])
    share = given.predict_proba(X[HELD])[np.arange(100), np.searchsorted(given.classes_, labels[HELD])]
    performance = debias.audit(given, X[HELD], labels[HELD], random_state=0).performance
    assert performance.value == pytest.approx(-np.log(share).mean(), rel=1e-12)
    assert list(debias.refit(given, X[TRAIN], labels[TRAIN], random_state=0).classes_) == ["high", "low", "middle"]


def test_survival_is_judged_by_concordance():
    time, event = np.exp(Y / 2), np.arange(N) % 3 > 0
    given = model("NGBSurvival").fit(X[TRAIN], time[TRAIN], event[TRAIN])
    fields = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
    check_adapter(given, X[HELD], fields[HELD])
    ensemble = debias.plugin.extract(given)
    y = np.column_stack([time, event])[HELD].astype(float)
    margin = raw_output(ensemble, route(ensemble, X[HELD].astype(np.float32)))
    assert ensemble.objective.loss(y, margin).mean() == pytest.approx(
        given.Manifold(given.pred_param(X[HELD]).T).score(ensemble.objective.as_y(y)).mean()
    )
    of_fields, of_columns = (debias.audit(given, X[HELD], each, random_state=0) for each in (fields[HELD], y))
    assert of_fields.performance.metric == "concordance"
    assert of_fields.to_frame().equals(of_columns.to_frame())
    with pytest.raises(debias.RowsError, match=r"1 for an event or 0"):
        debias.score(given, X[HELD], y * 2, rows="held-out")


def test_the_p_value_of_a_concordance_does_not_depend_on_the_order_of_parameters():
    """With the spread as the first parameter, the trees of both are the same; x is a rank as in the log-rank test."""
    from ngboost.distns import LogNormal

    class SpreadFirstScore(LogNormal.censored_scores[0], ngboost.scores.LogScore):
        def d_score(self, y):
            return super().d_score(y)[:, ::-1]

        def metric(self):
            return super().metric()[:, ::-1, ::-1]

    class SpreadFirst(LogNormal):
        censored_scores = (SpreadFirstScore,)

        def __init__(self, params):
            super().__init__(params[::-1])

        def fit(y):
            return LogNormal.fit(y)[::-1]

    time, event = np.exp(Y / 2), np.arange(N) % 3 > 0
    y = np.column_stack([time, event])[HELD]
    given, other = (
        model("NGBSurvival", Dist=each).fit(X[TRAIN], time[TRAIN], event[TRAIN]) for each in (LogNormal, SpreadFirst)
    )
    np.testing.assert_allclose(other.pred_param(X[HELD])[:, ::-1], given.pred_param(X[HELD]), rtol=1e-9)
    found, of_other = (debias.audit(each, X[HELD], y, random_state=0).performance for each in (given, other))
    assert of_other.value == found.value
    assert of_other.p_value == pytest.approx(found.p_value, rel=1e-9)
    later = y[:, None, 0] <= y[None, :, 0]  # row i, and those at risk at its time
    rank = stats.rankdata(-given.predict(X[HELD]))
    hazard = np.array([sum(y[i, 1] / later[i].sum() for i in range(100) if later[i, j]) for j in range(100)])
    product = (rank - rank.mean()) * (y[:, 1] - hazard)
    log_rank = sum(rank[i] - rank[later[i]].mean() for i in range(100) if y[i, 1])
    assert product.sum() == pytest.approx(log_rank, rel=1e-9)
    assert found.p_value == pytest.approx(stats.ttest_1samp(product, 0, alternative="greater").pvalue, rel=1e-6)


# --- the objective -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "score"), [(name, "LogScore") for name in OF] + [("Normal", "CRPScore")])
def test_the_gradient_is_the_derivative_of_the_loss(name, score):
    """Some other gradients of NGBoost are no derivatives of its scores, and trees are fitted to them all the same."""
    objective = debias.plugin.extract(fitted(name, score)).objective
    y, start = np.sort(OF[name][HELD])[20:80:7, None].astype(float), np.tile(objective.start, (9, 1))
    response = objective.response(y, start)
    for k in range(start.shape[1]):
        step = np.zeros(start.shape[1])
        step[k] = 1e-5
        numeric = (objective.loss(y, start - step) - objective.loss(y, start + step)) / 2e-5
        np.testing.assert_allclose(response[:, k], numeric, rtol=1e-4, atol=1e-5)


def test_scores_do_not_depend_on_the_unit_of_y():
    """Gradients of the mean and of the spread are added, so both must be in a unit of their own."""
    scaled = 1000 * Y
    for scorer in ("mdi_oob", "ufi", "oob_split"):
        train = {"train": (X[TRAIN], Y[TRAIN])} if scorer == "ufi" else {}
        of_scaled = {"train": (X[TRAIN], scaled[TRAIN])} if train else {}
        one = debias.score(fitted(), X[HELD], Y[HELD], scorer=scorer, rows="held-out", **train)
        other = debias.score(fitted(y=scaled), X[HELD], scaled[HELD], scorer=scorer, rows="held-out", **of_scaled)
        np.testing.assert_allclose(other.values, one.values, rtol=1e-8, atol=1e-12)


def test_mdi_oob_of_the_mean_alone_is_that_of_gradient_boosting():
    """With one fixed variance the trees are those of the squared error, and only the units differ."""
    given = fitted("NormalFixedVar", natural_gradient=False)
    ensemble = debias.plugin.extract(given)
    got = debias.score(given, X[HELD], Y[HELD], scorer="mdi_oob", rows="held-out").values
    mean = Y[HELD] - Y[TRAIN].mean()
    expected = np.zeros(4)
    for tree, scale in zip(given.base_models, given.scalings, strict=True):
        compiled = tree[0].tree_
        path = compiled.decision_path(X[HELD].astype(np.float32)).toarray().astype(bool)
        value = -given.learning_rate * scale * compiled.value[:, 0, 0]
        for node in np.flatnonzero(compiled.children_left >= 0):
            at = path[:, node]
            for child in (compiled.children_left[node], compiled.children_right[node]):
                if path[:, child].any():
                    covered = mean[path[:, child]].mean() - mean[at].mean()
                    expected[compiled.feature[node]] += path[:, child].mean() * value[child] * covered
    assert ensemble.objective.parameter == pytest.approx([(1 + 1e-5) ** 0.5])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_expected_gradients_are_those_of_draws_to_first_order():
    """Over draws of y at a margin near the start, the mean of r_0 is what is expected there."""
    objective = debias.plugin.extract(fitted("Gamma")).objective
    start = np.asarray(objective.start)
    near = start + np.array([0.03, -0.02])
    rng = np.random.default_rng(0)
    alpha, beta = np.exp(near / np.asarray(objective.parameter))
    y = rng.gamma(alpha, 1 / beta, size=(400_000, 1))
    r = objective.response(y, start)
    error = r.std(axis=0) / len(y) ** 0.5
    gap = r.mean(axis=0) - objective.expected_response(near[None], start)[0]
    assert (np.abs(gap) < 4 * error + 0.02 * np.abs(near - start).max()).all()


@pytest.mark.parametrize("name", ["Normal", "LogNormal", "Gamma", "Poisson"])
def test_the_best_constant_has_the_least_loss(name):
    objective, y = debias.plugin.extract(fitted(name)).objective, OF[name][HELD, None].astype(float)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    best = objective.best_constant(y, weight)

    def loss(margin):
        return np.average(objective.loss(y, np.tile(margin, (len(y), 1))), weights=weight)

    for step in np.eye(best.size):
        assert loss(best) < min(loss(best + 0.01 * step), loss(best - 0.01 * step))


@pytest.mark.parametrize("n_responses", [3, 5])
def test_the_best_constant_of_many_parameters_is_that_of_the_weighted_moments(n_responses):
    from ngboost.distns import MultivariateNormal

    y = np.column_stack([Y + k * X[:, 1] + np.roll(Y, 7 * k) for k in range(n_responses)])
    objective = debias.plugin.extract(fitted_to(y, Dist=MultivariateNormal(n_responses), n_estimators=2)).objective
    weight = np.random.default_rng(0).integers(1, 4, 100).astype(float)
    deviation = y[HELD] - np.average(y[HELD], axis=0, weights=weight)
    covariance = (weight[:, None] * deviation).T @ deviation / weight.sum()
    expected = 0.5 * (n_responses * (np.log(2 * np.pi) + 1) + np.linalg.slogdet(covariance)[1])
    best = objective.best_constant(y[HELD], weight)
    found = np.average(objective.loss(y[HELD], np.tile(best, (100, 1))), weights=weight)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_the_best_constant_is_found_from_a_start_with_an_infinite_loss(factor):
    """The log density of Laplace is -inf from 745 scales on, so that other units have no loss at the start."""
    objective, y = debias.plugin.extract(fitted("Laplace")).objective, factor * Y[HELD, None]
    scale = np.abs(y - np.median(y)).mean()
    best = objective.best_constant(y, np.ones(100))
    assert objective.loss(y, np.tile(best, (100, 1))).mean() == pytest.approx(np.log(2 * scale) + 1, rel=1e-9)


def test_a_rule_of_the_user_is_named_by_its_kind():
    """NGBoost takes the class of a rule, one made for a distribution, and those of the user without a metric."""

    class Normal(ngboost.scores.LogScore):
        def score(self, y):
            return -stats.norm.logpdf(y, self.loc)

        def d_score(self, y):
            return (self.loc - y)[:, None]

    class Absolute(ngboost.scores.CRPScore):
        def score(self, y):
            return np.abs(self.loc - y)

        def d_score(self, y):
            return np.sign(self.loc - y)[:, None]

    class Mean(ngboost.distns.RegressionDistn):
        n_params, scores = 1, (Normal, Absolute)

        def __init__(self, params):
            super().__init__(params)
            self.loc = params[0]

        def fit(y):
            return np.array([np.mean(y)])

        def mean(self):
            return self.loc

    for rule, metric in ((ngboost.scores.LogScore, "negative log likelihood"), (ngboost.scores.CRPScore, "CRPS")):
        given = fitted_to(Y, Dist=Mean, Score=rule, natural_gradient=False)
        check_adapter(given, X[HELD], Y[HELD])
        performance = debias.audit(given, X[HELD], Y[HELD], random_state=0).performance
        assert performance.metric == metric
        score = given.Manifold(given.pred_param(X[HELD]).T).total_score(Y[HELD])
        assert performance.value == pytest.approx(score, rel=1e-12)
    with pytest.warns(UserWarning, match="unnecessary"):
        given = fitted_to(Y, Score=ngboost.distns.Normal.scores[0])
    assert debias.plugin.extract(given).objective.metric == "negative log likelihood"


def test_the_columns_of_y_are_those_of_the_distribution():
    """Of three independent means with one variance there are three parameters, not nine as of NGBoost's own."""

    class Squared(ngboost.scores.LogScore):
        def score(self, y):
            return 0.5 * ((y - self._params.T) ** 2).sum(axis=1) + 1.5 * np.log(2 * np.pi)

        def d_score(self, y):
            return self._params.T - y

    class Means(ngboost.distns.RegressionDistn):
        n_params, scores, multi_output = 3, (Squared,), True

        def fit(y):
            return y.mean(axis=0)

        def mean(self):
            return self._params.T

    y = np.column_stack([Y, Y + X[:, 1], X[:, 2]])
    given = fitted_to(y, Dist=Means, natural_gradient=False)
    check_adapter(given, X[HELD], y[HELD])
    assert debias.plugin.extract(given).objective.n_columns == 3


def test_the_skill_of_a_mean_is_its_r2():
    """The share of Cox and Snell is R2 where both distributions have the variance that fits them best."""
    from debias.rows.performance import _skill

    residual, deviation = Y[HELD] - X[HELD, 0], Y[HELD] - Y[HELD].mean()
    fits = (0.5 * np.log(2 * np.pi * np.mean(part**2)) + 0.5 for part in (residual, deviation))
    assert _skill(*fits, -np.inf) == pytest.approx(1 - np.mean(residual**2) / np.mean(deviation**2), rel=1e-12)


# --- audits --------------------------------------------------------------------------------------------


def test_an_audit_finds_what_moves_the_spread():
    rng = np.random.default_rng(3)
    columns = rng.normal(size=(3000, 3))
    y = np.exp(columns[:, 1]) * rng.normal(size=3000)
    given = model(n_estimators=60).fit(columns[:1500], y[:1500])
    found = debias.audit(given, columns[1500:], y[1500:], random_state=0)
    assert informative(found) == {"x1"}
    plain = DecisionTreeRegressor(max_depth=3, random_state=0).fit(columns[:1500], y[:1500])
    of_mean = debias.audit(plain, columns[1500:], y[1500:], random_state=0, rows="held-out")
    assert informative(of_mean) == set()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_noise_scores_0_and_is_seldom_confirmed():
    """The spread of y is that of a lognormal factor times Student's t; noise has 2, 40 or all different values."""
    scores, wrong = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        noise = np.column_stack([rng.normal(size=240), rng.integers(0, 40, 240), rng.integers(0, 2, 240)])
        cause = rng.normal(size=240)
        y = cause + np.exp(cause / 2) * rng.standard_t(5, size=240)
        columns = np.column_stack([noise, cause])
        given = model(n_estimators=20, random_state=seed).fit(columns[:120], y[:120])
        found = debias.audit(given, columns[120:], y[120:], random_state=seed, rows="held-out")
        wrong.append(bool({"x0", "x1", "x2"} & informative(found)))
        scores.append(debias.score(given, columns[120:], y[120:], rows="held-out").values[:3])
    z = np.mean(scores, axis=0) / np.std(scores, axis=0) * 200**0.5
    assert (np.abs(z) < 3.5).all()
    assert np.mean(wrong) < 0.05 + 3.5 * (0.05 * 0.95 / 200) ** 0.5


def test_training_rows_are_recognised():
    for settings in ({}, {"minibatch_frac": 0.5, "n_estimators": 100}, {"early_stopping_rounds": 50}):
        with pytest.raises(debias.ProvenanceError, match="training rows"):
            debias.audit(fitted(**settings), X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize(("settings", "factor"), [({"n_estimators": 150, "learning_rate": 0.2}, 1), ({}, 100)])
def test_an_overfitted_spread_and_another_scale_of_y_are_told(settings, factor):
    summary = " ".join(debias.audit(fitted(**settings), X[HELD], factor * Y[HELD], random_state=0).summary())
    assert "negative log likelihood" in summary
    assert "The means of the predicted distributions follow y" in summary
    assert "Either y is on another scale than in training, or the model predicts too little spread" in summary


@pytest.mark.parametrize("natural_gradient", [True, False])
def test_labels_of_training_rows_are_proven(natural_gradient):
    """The natural gradient of a class mixes the gradients of all classes, the more so if classes are rare."""
    settings = {"Dist": ngboost.distns.k_categorical(5), "natural_gradient": natural_gradient}
    labels = np.digitize(Y, [-2.5, -0.5, 0.5, 2.5])
    given = fitted_to(labels, "NGBClassifier", **settings)
    scorer = {"scorer": "ufi", "rows": "held-out"}
    debias.score(given, X[HELD], labels[HELD], train=(X[TRAIN], labels[TRAIN]), **scorer)
    with pytest.raises(debias.ProvenanceError, match="not the response the model was trained on"):
        debias.score(given, X[HELD], labels[HELD], train=(X[TRAIN], np.roll(labels[TRAIN], 7)), **scorer)


@pytest.mark.parametrize("kind", ["NGBRegressor", "NGBClassifier", "NGBSurvival"])
def test_models_of_each_kind_are_trained_again(kind):
    survival = np.column_stack([np.exp(Y), X[:, 1] < Y])
    y = {"NGBRegressor": Y, "NGBClassifier": (Y > 0) * 1, "NGBSurvival": survival}[kind]
    rows = (X[TRAIN], y[TRAIN, 0], y[TRAIN, 1]) if kind == "NGBSurvival" else (X[TRAIN], y[TRAIN])
    given = model(kind, minibatch_frac=0.7).fit(*rows)
    again = debias.refit(given, X[TRAIN], y[TRAIN], random_state=3)
    assert type(again) is type(given)
    assert len(again.base_models) == len(given.base_models)
    other = debias.refit(given, X[TRAIN], y[TRAIN], random_state=3)
    assert np.array_equal(again.pred_param(X[HELD]), other.pred_param(X[HELD]))


def test_wrappers_pickles_and_frames_give_the_same():
    import pandas as pd

    given = fitted()
    one = debias.score(given, X[HELD], Y[HELD], rows="held-out").values
    other = pickle.loads(pickle.dumps(given))
    assert np.array_equal(debias.score(other, X[HELD], Y[HELD], rows="held-out").values, one)
    if not hasattr(given, "__sklearn_is_fitted__"):
        return  # before NGBoost 0.6 a pipeline does not predict: scikit-learn takes it for one that is not fitted
    frame = pd.DataFrame(X, columns=list("abcd"))
    piped = make_pipeline(StandardScaler(), model()).fit(frame[TRAIN], Y[TRAIN])
    scores = debias.score(piped, frame[HELD], Y[HELD], rows="held-out")
    assert list(scores.feature_names) == list("abcd")


def test_the_global_random_state_is_left_alone():
    name = "LogitNormal" if "LogitNormal" in OF else "Normal"  # old versions do not have the first
    given = fitted(name)
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    debias.score(given, X[HELD], OF[name][HELD], rows="held-out")
    debias.refit(given, X[TRAIN], OF[name][TRAIN], random_state=1)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_several_responses():
    from ngboost.distns import MultivariateNormal

    both = np.column_stack([Y, Y + X[:, 1]])
    given = model(Dist=MultivariateNormal(2)).fit(X[TRAIN], both[TRAIN])
    check_adapter(given, X[HELD], both[HELD])
    assert debias.audit(given, X[HELD], both[HELD], random_state=0).performance.metric == "negative log likelihood"


@pytest.mark.parametrize("n_responses", [1, 2])
def test_partial_dependence_is_of_the_means(n_responses):
    from ngboost.distns import MultivariateNormal, Normal

    y = np.column_stack([Y, Y + X[:, 1]])[:, :n_responses].squeeze()
    given = fitted_to(y, Dist=Normal if n_responses == 1 else MultivariateNormal(2))
    curve = debias.partial_dependence(given, X[HELD], "x0").to_frame()
    names = ["prediction"] if n_responses == 1 else ["output 0", "output 1"]
    for value, found in zip(curve["value"].astype(float), curve[names].to_numpy(dtype=float), strict=True):
        changed = X[HELD].copy()
        changed[:, 0] = value
        np.testing.assert_allclose(found, given.predict(changed).reshape(100, -1).mean(axis=0), rtol=1e-9)


# --- wrong use -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (model, "is not fitted"),
        (lambda: fitted(Base=Ridge()), r"has a Ridge as base learner"),
        pytest.param(
            lambda: fitted(Base=[DecisionTreeRegressor(max_depth=2), Ridge()]),
            r"has a Ridge as base learner",
            marks=several_bases,
        ),
    ],
)
def test_models_that_cannot_be_scored(make, message):
    with pytest.raises(debias.UnsupportedModelError, match=message):
        debias.score(make(), X[HELD], Y[HELD], rows="held-out")


def test_values_that_the_distribution_cannot_give_are_refused():
    with pytest.raises(debias.RowsError, match=r"LogNormal\) cannot give \d+ of the values of y, the first at"):
        debias.score(fitted("LogNormal"), X[HELD], Y[HELD], rows="held-out")


@pytest.mark.parametrize("kind", ["NGBRegressor", "NGBSurvival"])
def test_the_crps_of_the_exponential_distribution_is_right_or_refused(kind):
    """It is the integral of the squared gap of distribution functions, up to the time of a censored row."""
    settings = {"Dist": ngboost.distns.Exponential, "Score": ngboost.scores.CRPScore}
    time, event = np.exp(Y / 2), (np.arange(N) % 3 > 0) | (kind == "NGBRegressor")
    rows = (X[TRAIN], time[TRAIN], event[TRAIN]) if kind == "NGBSurvival" else (X[TRAIN], time[TRAIN])
    given = model(kind, **settings).fit(*rows)
    y = np.column_stack([time, event])[HELD][:5] if kind == "NGBSurvival" else time[HELD, None][:5]
    if not at_least("ngboost", "0.6"):
        with pytest.raises(debias.UnsupportedModelError, match="best for infinitely long times"):
            debias.score(given, X[HELD][:5], y)
        return
    objective = debias.plugin.extract(given).objective
    scale = float(np.exp(objective.start[0] / objective.parameter[0]))
    grid, step = np.linspace(0, 60 * scale, 600_001, retstep=True)
    share = 1 - np.exp(-grid / scale)
    for row, found, is_event in zip(y, objective.loss(y, np.tile(objective.start, (5, 1))), event[HELD], strict=False):
        gap = np.where(grid >= row[0], (1 - share) if is_event else 0, share)
        assert found == pytest.approx((gap**2).sum() * step, abs=3e-4 * scale)


def test_classes_whose_parameters_are_no_logits_are_refused():
    class Steep(ngboost.distns.k_categorical(2)):
        def class_probs(self):
            share = special.expit(2 * self._params[0])
            return np.column_stack([1 - share, share])

    labels = (Y > 0.3) * 1
    with pytest.raises(debias.UnsupportedModelError, match="none of NGBoost's distributions of classes"):
        debias.score(fitted_to(labels, "NGBClassifier", Dist=Steep), X[HELD], labels[HELD], rows="held-out")


@pytest.mark.skipif("BetaBinomialEstN" not in OF, reason="old versions of NGBoost do not have it")
def test_probabilities_that_do_not_sum_to_1_measure_no_model():
    y = OF["BetaBinomialEstN"]
    performance = debias.audit(fitted("BetaBinomialEstN"), X[HELD], y[HELD], random_state=0).performance
    assert performance.metric is None
    assert "do not sum to 1" in performance.untold_because


def test_events_that_are_no_events_are_not_trained_on():
    time, event = np.exp(Y / 2), np.arange(N) % 3 > 0
    given = model("NGBSurvival").fit(X[TRAIN], time[TRAIN], event[TRAIN])
    with pytest.raises(debias.RowsError, match=r"1 for an event or 0"):
        debias.refit(given, X[TRAIN], np.column_stack([event, time])[TRAIN])


@pytest.mark.skipif("Beta" not in OF, reason="old versions of NGBoost do not have it")
@pytest.mark.parametrize("value", [1.0, 1.5])
def test_values_are_refused_where_ngboost_has_a_large_number_for_an_infinite_score(value):
    y = OF["Beta"].copy()
    y[205] = value
    with pytest.raises(
        debias.RowsError, match=rf"Beta\) cannot give 1 of the values of y, the first at position 5: {value:g}"
    ):
        debias.score(fitted("Beta"), X[HELD], y[HELD], rows="held-out")


def test_scores_of_a_running_loss_are_refused():
    with pytest.raises(debias.errors.CompositionError, match="running loss of distributions"):
        debias.score(fitted(), X[HELD], Y[HELD], scorer="oob_loss", rows="held-out")
