"""The performance of a model on its rows against scikit-learn's metrics, brute force, and the library's own number.

Over 500 lines, because what is said of a performance is tested beside its numbers.
"""

import itertools
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRanker, LGBMRegressor
from scipy.special import softmax
from sklearn import metrics
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.results.performance import Performance
from debias.results.policy import Policy
from debias.rows.order_of_predictions import concordance, ndcg, roc_area
from debias.rows.performance import best_constant, performance_of_predictions
from debias.rows.recalibration import PredictedClasses, recalibrated
from debias.trees.objectives import Objective

N = 160
SMALL = {"n_estimators": 12, "random_state": 0}
FORESTS = [("a", RandomForestClassifier(**SMALL)), ("b", RandomForestClassifier(12, random_state=1))]


def drawn(seed, n_classes=0, low=-np.inf):
    """Return X and y of N rows: numbers, whole numbers of at least `low`, or classes."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(N, 4)), 2)
    y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=N)
    if n_classes:
        return X, np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    return X, y if low == -np.inf else np.floor(np.exp(y / 2)) + low


def audited(model, X, y, rows="held-out", qid=None, **given):
    X, y = debias.Dataset(X, y, qid=qid), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        return debias.audit(model, X, y, [], rows=rows, random_state=0, test=None, **given)


def performance(*given, **named):
    return audited(*given, **named).performance


WEIGHT = np.random.default_rng(5).uniform(0.2, 3, N)


@pytest.mark.parametrize(
    "model",
    [RandomForestRegressor(**SMALL), HistGradientBoostingRegressor(max_iter=9), LGBMRegressor(verbose=-1, **SMALL)],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_r2_and_the_correlation_are_those_of_the_librarys_predictions(model, weight):
    model.fit(*drawn(0))
    X, y = drawn(1)
    found, predicted = performance(model, X, y, sample_weight=weight), model.predict(X)
    assert found.metric == "R2"
    assert found.value == found.skill == pytest.approx(metrics.r2_score(y, predicted, sample_weight=weight), abs=1e-6)
    share = np.ones(N) if weight is None else weight
    cov = np.cov(predicted, y, aweights=share)
    assert found.correlation == pytest.approx(cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]), abs=1e-6)
    assert (found.constant, found.n_rows, found.auc) == (0, N, None)


@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (RandomForestClassifier(**SMALL), 2),
        (ExtraTreesClassifier(**SMALL), 3),
        (GradientBoostingClassifier(**SMALL), 2),
        (HistGradientBoostingClassifier(max_iter=6), 3),
        (XGBClassifier(n_jobs=1, **SMALL), 2),
        (LGBMClassifier(verbose=-1, n_jobs=1, **SMALL), 3),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_numbers_of_classes_are_those_of_the_librarys_probabilities(model, n_classes):
    model.fit(*drawn(0, n_classes))
    X, y = drawn(1, n_classes)
    found, share = performance(model, X, y, sample_weight=WEIGHT), model.predict_proba(X)
    one_hot = np.eye(n_classes)[y]
    mean = np.average(one_hot, axis=0, weights=WEIGHT)
    if found.metric == "Brier score":
        half = 0.5 if n_classes == 2 else 1.0
        expected = [half * np.average(((one_hot - p) ** 2).sum(axis=1), weights=WEIGHT) for p in (share, mean)]
    else:
        assert found.metric == "log loss"
        expected = [metrics.log_loss(y, p, sample_weight=WEIGHT) for p in (share, np.tile(mean, (N, 1)))]
    assert isinstance(model, (RandomForestClassifier, ExtraTreesClassifier)) == (found.metric == "Brier score")
    assert [found.value, found.constant] == pytest.approx(expected, abs=1e-6)
    assert found.skill == pytest.approx(1 - expected[0] / expected[1], abs=1e-6)
    areas = [metrics.roc_auc_score(y == k, share[:, k], sample_weight=WEIGHT) for k in range(n_classes)]
    assert found.auc == pytest.approx(np.mean(areas[1:] if n_classes == 2 else areas), abs=1e-6)


@pytest.mark.parametrize("model", [RandomForestRegressor, RandomForestClassifier])
def test_out_of_bag_numbers_are_those_of_the_librarys_out_of_bag_predictions(model):
    X, y = drawn(0, 0 if model is RandomForestRegressor else 2)
    forest = model(40, oob_score=True, random_state=0).fit(X, y)
    found = performance(forest, X, y, rows="oob")
    if found.metric == "R2":
        assert found.value == pytest.approx(forest.oob_score_)
    else:
        share = forest.oob_decision_function_[:, 1]
        assert found.value == pytest.approx(np.mean((share - y) ** 2))
        assert found.auc == pytest.approx(metrics.roc_auc_score(y, share))


def test_rows_in_every_bag_have_no_prediction():
    X, y = drawn(0)
    forest = RandomForestRegressor(3, random_state=0).fit(X, y)
    drawn_rows = [set(rows) for rows in forest.estimators_samples_]
    fresh = np.array([[row not in bag for bag in drawn_rows] for row in range(N)])
    assert performance(forest, X, y, rows="oob").n_rows == fresh.any(axis=1).sum() < N


@pytest.mark.parametrize(
    ("settings", "metric", "deviance"),
    [
        ({"objective": "count:poisson"}, "Poisson deviance", metrics.mean_poisson_deviance),
        ({"objective": "reg:gamma"}, "gamma deviance", metrics.mean_gamma_deviance),
        (
            {"objective": "reg:tweedie", "tweedie_variance_power": 1.3},
            "Tweedie deviance",
            lambda y, p, sample_weight: metrics.mean_tweedie_deviance(y, p, power=1.3, sample_weight=sample_weight),
        ),
        ({"objective": "reg:absoluteerror"}, "mean absolute error", metrics.mean_absolute_error),
        (
            {"objective": "reg:quantileerror", "quantile_alpha": 0.8},
            "pinball loss",
            lambda y, p, sample_weight: metrics.mean_pinball_loss(y, p, alpha=0.8, sample_weight=sample_weight),
        ),
        (
            {"objective": "reg:squaredlogerror"},
            "halved mean squared log error",
            lambda y, p, sample_weight: metrics.mean_squared_log_error(y, p, sample_weight=sample_weight) / 2,
        ),
    ],
    ids=["poisson", "gamma", "tweedie", "absolute", "quantile", "squared log"],
)
def test_other_losses_are_scikit_learns_and_no_constant_is_better(settings, metric, deviance):
    model = XGBRegressor(n_jobs=1, **SMALL, **settings).fit(*drawn(0, low=1))
    X, y = drawn(1, low=1)
    found = performance(model, X, y, sample_weight=WEIGHT)
    assert found.metric == metric
    assert found.value == pytest.approx(deviance(y, model.predict(X), sample_weight=WEIGHT), rel=1e-5)
    constants = [deviance(y, np.full(N, c), sample_weight=WEIGHT) for c in np.unique([*y, *np.linspace(1, 6, 301)])]
    assert found.constant <= min(constants) + 1e-9
    assert found.constant == pytest.approx(min(constants), rel=1e-3)
    assert found.skill == pytest.approx(1 - found.value / found.constant)


@pytest.mark.parametrize(
    "name", ["huber", "fair", "pseudo_huber", "expectile", "squared_log_error", "hinge", "exponential"]
)
def test_the_best_constant_has_the_least_loss(name):
    y = np.random.default_rng(1).exponential(size=(60, 1)) if name not in ("hinge", "exponential") else None
    y = (np.arange(60)[:, None] % 3 == 0).astype(float) if y is None else y
    objective, weight = Objective(name, (0.7,)), np.linspace(1, 2, 60)
    best = weight @ objective.loss(y, best_constant(objective, y, weight)[None, :])
    assert all(best <= weight @ objective.loss(y, np.full((1, 1), f)) + 1e-9 for f in np.linspace(-3, 8, 2201))


def test_concordance_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = 25
        lower = rng.integers(1, 12, n).astype(float)
        upper = np.where(rng.random(n) < 0.5, lower, np.where(rng.random(n) < 0.7, np.inf, lower + 2))
        risk, weight = rng.integers(0, 6, n).astype(float), rng.uniform(0.5, 2, n)
        pairs = right = 0.0
        for i, j in itertools.permutations(range(n), 2):
            if upper[i] < lower[j] or (upper[i] == lower[j] < upper[j]):
                pairs += weight[i] * weight[j]
                right += weight[i] * weight[j] * (0.5 * (risk[i] == risk[j]) + (risk[i] > risk[j]))
        assert concordance(risk, lower, upper, weight) == pytest.approx(right / pairs)
    assert concordance(np.ones(3), np.ones(3), np.full(3, np.inf), np.ones(3)) is None


@pytest.mark.thorough
def test_ndcg_is_scikit_learns_and_the_mean_over_all_orders():
    rng = np.random.default_rng(0)
    sizes = [4, 6, 1, 5, 3]
    query = np.repeat(np.arange(5), sizes)
    gain, predicted = rng.integers(0, 4, query.size).astype(float), rng.integers(0, 3, query.size).astype(float)
    gain[query == 4] = 2.0
    to_rank, reached, by_chance = ndcg(predicted, gain, query)
    assert to_rank.tolist() == [0, 1, 3]  # one row, or rows that are all the same, cannot be ranked
    for at, k in enumerate(to_rank):
        g, p = gain[query == k], predicted[query == k]
        assert reached[at] == pytest.approx(metrics.ndcg_score([g], [p]))
        every = [metrics.ndcg_score([g], [order]) for order in itertools.permutations(range(g.size))]
        assert by_chance[at] == pytest.approx(np.mean(every))
    order = rng.permutation(query.size)  # rows of a query need not be together
    mixed = ndcg(predicted[order], gain[order], query[order])
    for found, expected in zip(mixed, (to_rank, reached, by_chance), strict=True):
        np.testing.assert_allclose(found, expected)


def test_the_area_under_the_curve_is_half_for_ties_and_none_for_one_class():
    assert roc_area(np.ones(4), np.array([1, 0, 1, 0], dtype=bool), np.ones(4)) == 0.5
    assert roc_area(np.arange(4.0), np.ones(4, dtype=bool), np.ones(4)) is None


def test_survival_by_xgboost_has_the_concordance_and_inverted_events_are_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    time = np.exp(-X[:, 0] + 0.3 * rng.normal(size=400))
    y = np.where(rng.random(400) < 0.6, time, -time)
    model = XGBRegressor(objective="survival:cox", n_estimators=20, max_depth=3, n_jobs=1).fit(X[:250], y[:250])
    found = performance(model, X[250:], y[250:])
    t, event, risk = np.abs(y[250:]), y[250:] > 0, model.predict(X[250:])
    first = event[:, None] & (t[:, None] < t[None, :])
    expected = (first * ((risk[:, None] > risk) + 0.5 * (risk[:, None] == risk))).sum() / first.sum()
    assert (found.metric, found.constant) == ("concordance", 0.5)
    assert found.value == pytest.approx(expected)
    assert found.better_than_constant
    shuffled = performance(model, X[250:], rng.permutation(y[250:]))
    assert not shuffled.better_than_constant
    assert abs(shuffled.value - 0.5) < 0.1


def test_rankers_with_a_rolled_qid_are_no_better_than_chance():
    rng = np.random.default_rng(0)
    X, query = rng.normal(size=(900, 3)), np.repeat(np.arange(90), 10)
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=900) + 1), 0, 3)
    train = query < 50
    model = LGBMRanker(n_estimators=15, min_child_samples=5, n_jobs=1, verbose=-1)
    model.fit(X[train], y[train], group=np.bincount(query[train]))
    X, y, qid = X[~train], y[~train], query[~train]
    right = performance(model, X, y, qid=qid)
    assert right.metric == "NDCG"
    expected = [metrics.ndcg_score([2 ** y[qid == q] - 1], [model.predict(X[qid == q])]) for q in np.unique(qid)]
    assert right.value == pytest.approx(np.mean(expected))
    assert right.better_than_constant
    shuffled = performance(model, X, rng.permutation(y), qid=qid)
    assert not shuffled.better_than_constant
    assert abs(shuffled.skill) < 0.2 < right.skill


@pytest.mark.parametrize(
    "change",
    [
        lambda y: np.random.default_rng(0).permutation(y),
        lambda y: y / 24,
        np.log1p,
        lambda y: 1000 * y,
        lambda y: -y,
    ],
    ids=["permuted", "divided by 24", "log1p", "times 1,000", "inverted"],
)
def test_the_summary_begins_with_a_model_that_is_no_better_than_a_constant(change):
    X, y = drawn(0)
    y = y + 10  # the mean tells units
    model = GradientBoostingRegressor(**SMALL, learning_rate=0.3).fit(X, y)
    X, y = drawn(1)
    right, wrong = (audited(model, X, value) for value in (y + 10, change(y + 10)))
    assert right.performance.better_than_constant
    assert right.performance.doubts() == []
    assert not any("no better than a constant" in sentence for sentence in right.summary())
    sentence = " ".join(wrong.summary()[:2])
    assert wrong.performance.doubts() == wrong.summary()[:2]
    assert sentence.startswith(
        f"On these rows the model predicts no better than a constant: {wrong.performance.in_words()}."
    )
    assert ("on another scale" in sentence) == (wrong.performance.correlation >= 0.5)
    assert sentence.split(". ")[0] in repr(wrong).replace("\n", " ")
    assert right.check({"must_predict": True}).passed
    gate = wrong.check({"must_predict": True})
    assert gate.failures[0].reason == sentence.removesuffix(".")
    assert sentence in wrong.check({"min_rows": 1}).warnings


def test_a_skill_that_may_be_chance_is_called_so():
    performance = Performance(metric="R2", value=0.03, constant=0.0, skill=0.03, n_rows=40, p_value=0.21)
    assert performance.better_than_constant is None
    assert performance.doubts() == []
    assert performance.sentence() == (
        "The model predicts these rows with R2 0.0300; a constant may be as good, because chance alone gives this with "
        "probability 0.21."
    )


@pytest.mark.parametrize("wanted", [0.3, 0.999])
def test_a_minimum_of_skill_fails_below_it(wanted):
    model = RandomForestRegressor(**SMALL).fit(*drawn(0))
    found = audited(model, *drawn(1))
    (result,) = [each for each in found.check({"must_predict": wanted}).results if each.rule == "must_predict"]
    assert result.status == ("passed" if found.performance.skill >= wanted else "failed")
    assert result.limit == f"skill >= {wanted:g}"


@pytest.mark.parametrize("value", [False, 0, 1, 1.5, "yes"])
def test_other_limits_of_skill_are_refused(value):
    with pytest.raises(debias.errors.PolicyError, match="must_predict must be true, or the smallest skill"):
        Policy(must_predict=value)


def test_what_was_not_computed_is_said_and_not_judged():
    X, y = drawn(0)
    boosted = XGBRegressor(n_estimators=3, objective="reg:absoluteerror")
    several = audited(VotingRegressor([("a", boosted), ("b", boosted)]).fit(X, y), *drawn(1))
    out_of_bag = audited(VotingClassifier(FORESTS, voting="soft").fit(*drawn(0, 3)), *drawn(0, 3), rows="oob")
    model = RandomForestRegressor(**SMALL).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        X, y = drawn(1)
        in_batches = debias.audit(model, [(X[:80], y[:80]), (X[80:], y[80:])], None, [], rows="held-out", test=None)
    one_value = audited(model, X, np.ones(N))
    for audit, reason in (
        (several, "2 models are combined, and they were not trained for the squared error of y"),
        (out_of_bag, "2 models are combined, and their predictions are of rows that they have seen"),
        (in_batches, "in batches"),
        (one_value, "the same value"),
    ):
        assert audit.performance.metric is None
        assert reason in audit.performance.untold_because
        assert audit.performance.sentence() in audit.summary()
        assert audit.check({"must_predict": True}).results[-1].status == "not judged"


@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (RandomForestRegressor(**SMALL), 0),
        (XGBRegressor(n_jobs=1, **SMALL), 0),
        (RandomForestClassifier(min_samples_leaf=9, **SMALL), 2),
        (XGBClassifier(n_jobs=1, max_depth=2, **SMALL), 3),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_predictions_in_the_place_of_y_are_told(model, n_classes):
    model.fit(*drawn(0, n_classes))
    X, y = drawn(1, n_classes)
    own = model.predict(X)
    for values in (own, np.round(own, 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            debias.score(model, X, values, rows="held-out")
        told = [str(each.message) for each in caught if "equal to the predictions" in str(each.message)]
        assert len(told) == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        debias.score(model, X, y, rows="held-out")
    assert not any("equal to the predictions" in str(each.message) for each in caught)


def test_y_in_larger_units_with_mean_0_is_told():
    """The errors have mean 0 then, and R2 is above 0."""
    model = RandomForestRegressor(**SMALL).fit(*drawn(0))
    X, y = drawn(1)
    with pytest.warns(debias.DebiasWarning, match=r"y varies 1,\d{3} times as much as the predictions"):
        debias.score(model, X, 1000 * (y - model.predict(X).mean()), rows="held-out")


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(subsample=0.5, n_estimators=60, random_state=0),
        HistGradientBoostingRegressor(max_iter=9),
        XGBRegressor(n_estimators=60, n_jobs=1, max_depth=2, reg_lambda=20, random_state=0),
        LGBMRegressor(verbose=-1, n_jobs=1, **SMALL),
        RandomForestRegressor(criterion="absolute_error", **SMALL),
    ],
    ids=lambda model: type(model).__name__,
)
def test_train_with_y_in_other_units_is_refused(model):
    X, y = drawn(0)
    model.fit(X, y)
    given = {"rows": "held-out", "scorer": "mdi_oob"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        debias.score(model, *drawn(1), train=(X, y), **given)
        for factor in (1000, 1 / 24, 4):
            with pytest.raises(debias.ProvenanceError, match="train: y has other units") as told:
                debias.score(model, *drawn(1), train=(X, factor * y), **given)
            told_factor = str(told.value).split("it is ")[1].split(" times")[0].replace(",", "")
            assert float(told_factor) == pytest.approx(factor, rel=0.35)


@pytest.mark.parametrize("n_trees", [1, 2, 3, 5])
@pytest.mark.parametrize("settings", [{"max_depth": 1}, {"max_depth": 2, "subsample": 0.5}])
def test_few_trees_accept_the_y_they_were_trained_on(n_trees, settings):
    """Four leaves gave any factor: two of five models of two stumps were refused with their own y."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(150, 20)), rng.normal(size=150)
        model = XGBRegressor(n_estimators=n_trees, learning_rate=0.3, n_jobs=1, random_state=0, **settings).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)
            scores = debias.score(model, X + 1, y, "mdi_oob", train=(X, y), rows="held-out")
        assert np.isfinite(scores.values).all()


@pytest.mark.parametrize("n_parallel", [5, 40])
def test_trees_that_are_grown_side_by_side_have_the_units_of_y(n_parallel):
    """They were taken for trees that follow one another, and forests of XGBoost were refused with their own y."""
    (X, y), settings = drawn(0), {"n_jobs": 1, "max_depth": 2, "subsample": 0.7, "random_state": 0}
    forest = XGBRegressor(num_parallel_tree=n_parallel, n_estimators=1, learning_rate=1, **settings).fit(X, y)
    boosted = XGBRegressor(num_parallel_tree=n_parallel, reg_lambda=20, **{**SMALL, **settings}).fit(X, y)
    for model in (forest, boosted):
        assert np.isfinite(debias.score(model, *drawn(1), train=(X, y), rows="held-out").values).all()
    if n_parallel == 5:  # of 40 trees a round, too few rounds are looked at
        with pytest.raises(debias.ProvenanceError, match="train: y has other units"):
            debias.score(boosted, *drawn(1), train=(X, 1000 * y), rows="held-out")


def test_performance_is_stored_and_checked():
    audit = audited(RandomForestClassifier(**SMALL).fit(*drawn(0, 2)), *drawn(1, 2))
    plain = json.loads(audit.to_json())
    assert debias.Audit.from_json(json.dumps(plain)).performance == audit.performance
    for name, value, message in (
        ("better_than_constant", None, "better_than_constant does not follow"),
        ("auc", 1.5, "outside 0 to 1"),
        ("metric", None, "either a metric or the reason"),
        ("p_value", "small", "performance.p_value is not"),
        ("spare", 1, "performance.spare is not a field"),
    ):
        changed = {**plain, "performance": {**plain["performance"], name: value}}
        with pytest.raises(debias.DebiasError, match=message):
            debias.Audit.from_json(json.dumps(changed))
    older = {**plain, "performance": None}
    assert debias.Audit.from_json(json.dumps(older)).performance is None
    assert "performance" not in " ".join(debias.Audit.from_json(json.dumps(older)).summary())


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(**SMALL),
        LGBMRegressor(verbose=-1, **SMALL),
        LGBMClassifier(verbose=-1, **SMALL),
        XGBClassifier(**SMALL),
        HistGradientBoostingClassifier(max_iter=9),
    ],
    ids=lambda model: type(model).__name__,
)
def test_one_value_of_y_has_no_best_constant_to_compare_with(model):
    """Its loss is 0 but for rounding, so R2 and other shares of it would be meaningless."""
    is_classifier = hasattr(model, "predict_proba")
    X, y = drawn(0, n_classes=2 if is_classifier else 0)
    found = performance(model.fit(X, y), X, np.zeros(N, dtype=int) if is_classifier else np.full(N, 0.1))
    assert found.untold_because == "y has the same value in all these rows"


def test_numbers_predicted_nearly_without_an_error_are_rare():
    nearly = Performance(metric="R2", value=0.99995, constant=0.0, skill=0.99995, n_rows=30, p_value=1e-9)
    assert "nearly without an error, which is rare for rows that a model has not seen" in nearly.sentence()
    assert "nearly" not in replace(nearly, value=0.9998, skill=0.9998).sentence()
    assert "nearly" not in replace(nearly, n_rows=19).sentence()


def test_a_gate_does_not_judge_predictions_that_are_too_good():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X[:200], X[:200, 0] + rng.normal(size=200))
    with pytest.warns(debias.DebiasWarning, match="y is equal to the predictions of the model"):
        audit = debias.audit(model, X[200:], model.predict(X[200:]), ["mdi_oob"], test=None)
    (result,) = (each for each in audit.check({"must_predict": 0.5}).results if each.rule == "must_predict")
    assert result.status == "not judged"
    assert "check that y was observed and not predicted" in result.reason


def imbalanced(seed, n=600, n_classes=2):
    """Return X and classes of which the first is the most frequent, which one column tells."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.searchsorted(np.array([1.6, 2.4])[: n_classes - 1], X[:, 0] + rng.normal(size=n) * 0.7)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("of_trees", [False, True])
def test_recalibrated_probabilities_are_those_of_largest_likelihood(n_classes, of_trees):
    """Shifts give the observed frequencies; a power and shifts are an unpenalised logistic regression on log p."""
    rng = np.random.default_rng(0)
    X, codes = imbalanced(1, n_classes=n_classes)
    weight = rng.uniform(0.5, 2, len(codes))
    log_p = np.column_stack([X[:, 0] * k + 0.5 * rng.normal(size=len(codes)) for k in range(n_classes)])
    probability = softmax(log_p, axis=1)
    classes = PredictedClasses(probability, codes, tuple("abc"[:n_classes]), of_trees)
    found = recalibrated(classes, weight, np.ones(len(codes)), lambda _: None)
    share, one_hot = weight / weight.sum(), np.eye(n_classes)[codes]
    log_p = np.log(probability)
    assert probability.min() > 1e-4

    def of(power, shift):
        p = softmax(power * log_p + shift, axis=1)
        if of_trees:
            return share @ ((p - one_hot) ** 2).sum(axis=1) / (2 if n_classes == 2 else 1)
        return -share @ np.log(p[np.arange(len(codes)), codes])

    # The factors of classes, by iterations until the frequencies agree: an independent way to the same probabilities.
    shift = np.zeros(n_classes)
    for _ in range(2000):
        shift += np.log(share @ one_hot) - np.log(share @ softmax(log_p + shift, axis=1))
    assert found.shifted == pytest.approx(of(1.0, shift), rel=1e-5)
    powers = np.linspace(0, 2, 2001)
    likelihood = [-share @ np.log(softmax(power * log_p, axis=1)[np.arange(len(codes)), codes]) for power in powers]
    assert found.power == pytest.approx(powers[np.argmin(likelihood)], abs=1e-3)
    assert found.raised == pytest.approx(of(found.power, np.zeros(n_classes)), rel=1e-5)
    if n_classes == 2:
        log_odds = (log_p[:, 1] - log_p[:, 0])[:, None]
        regression = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(log_odds, codes, sample_weight=weight)
        assert found.power_of_both == pytest.approx(regression.coef_[0, 0], rel=1e-3)
        assert found.both == pytest.approx(of(regression.coef_[0, 0], [0, regression.intercept_[0]]), rel=1e-5)
    named = 1 if n_classes == 2 else np.abs(share @ (probability - one_hot)).argmax()
    assert found.label == "abc"[named]
    assert (found.predicted, found.observed) == pytest.approx(((share @ probability)[named], (share @ one_hot)[named]))


def of_classes(model, n_classes=2, n=900):
    """Return the audit of a model on rows whose classes have names."""
    names = np.array(["no", "rare", "rarest"])
    (X, y), (X_new, y_new) = imbalanced(2, 2000, n_classes), imbalanced(3, n, n_classes)
    return audited(model.fit(X, names[y]), X_new, names[y_new])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(30, min_samples_leaf=20, class_weight="balanced", random_state=0),
        LGBMClassifier(n_estimators=10, min_child_samples=100, class_weight="balanced", verbose=-1),
    ],
    ids=["forest", "LightGBM"],
)
def test_class_weights_are_named_where_probabilities_fail_by_the_frequencies(model, n_classes):
    audit = of_classes(model, n_classes)
    found, (first, second) = audit.performance, audit.summary()[:2]
    assert found.skill <= 0
    assert found.auc > 0.8
    assert first.startswith("The model puts these rows in a better order than chance, but its probabilities are no")
    assert "Class weights, resampling before training" in second
    assert f"gives class {found.recalibration.label} a mean probability" in second
    assert "Check that y belongs" not in " ".join(audit.summary())
    assert "too close" not in second
    assert found.recalibration.shifted < found.constant
    assert debias.Audit.from_json(audit.to_json()).performance == found
    older = json.loads(audit.to_json())
    del older["performance"]["recalibration"]
    assert debias.Audit.from_json(json.dumps(older)).performance == replace(found, recalibration=None)


def test_probabilities_that_are_too_close_to_0_and_1_are_called_so():
    audit = of_classes(LGBMClassifier(n_estimators=400, min_child_samples=2, verbose=-1))
    found, second = audit.performance, audit.summary()[1]
    assert found.skill <= 0
    assert "The probabilities are too close to 0 and 1" in second
    assert f"With {found.recalibration.power:.2f} times the log odds the log loss is" in second
    assert found.recalibration.power < 1
    assert "Class weights" not in second


@pytest.mark.parametrize("wrong", ["other order", "few rows", "other classes"])
def test_a_wrong_response_is_still_to_be_checked(wrong):
    X, y = imbalanced(2, 2000)
    model = RandomForestClassifier(30, min_samples_leaf=20, class_weight="balanced", random_state=0).fit(X, y)
    X, y = imbalanced(3, 8 if wrong == "few rows" else 900)
    y = {"other order": np.random.default_rng(0).permutation(y), "few rows": y, "other classes": 1 - y}[wrong]
    if wrong == "few rows":
        y[:2] = [0, 1]
    found = performance(model, X, y)
    assert found.skill <= 0
    assert found.why_probabilities_fail == ""
    assert "Check that y belongs to these rows" in found.doubts()[1]


def test_a_gate_judges_noise_where_only_the_probabilities_fail():
    X, y = imbalanced(2, 2000)
    model = RandomForestClassifier(30, min_samples_leaf=20, class_weight="balanced", random_state=0).fit(X, y)
    X, y = imbalanced(3, 900)
    right, wrong = (
        debias.audit(model, X, each, rows="held-out", random_state=0)
        for each in (y, np.random.default_rng(0).permutation(y))
    )
    policy = {"must_not_matter": ["x3"], "min_rows": 1}
    assert right.performance.skill <= 0
    (of_right,), (of_wrong,) = (
        [each for each in audit.check(policy).results if each.rule.startswith("must_not_matter")]
        for audit in (right, wrong)
    )
    assert of_right.status == "passed"
    assert of_wrong.status == "not judged"
    assert "Check that the response is right" in of_wrong.reason
    assert right.check({"must_predict": True}).failures


def test_the_trees_of_a_calibrated_model_are_not_taken_for_the_model():
    FrozenEstimator = pytest.importorskip("sklearn.frozen").FrozenEstimator
    X, y = imbalanced(2, 2000)
    forest = RandomForestClassifier(30, min_samples_leaf=20, class_weight="balanced", random_state=0).fit(X, y)
    model = CalibratedClassifierCV(FrozenEstimator(forest)).fit(*imbalanced(4, 900))
    new_X, new_y = imbalanced(3, 900)
    of_model, of_forest = performance(model, new_X, new_y), performance(forest, new_X, new_y)
    assert of_model.value == pytest.approx(metrics.brier_score_loss(new_y, model.predict_proba(new_X)[:, 1]))
    assert (of_model.better_than_constant, of_forest.better_than_constant) == (True, False)
    # Out of bag, the model itself has no predictions.
    X, y = imbalanced(2, 2000)
    audit, of_forest = audited(model, X, y, rows="oob"), performance(forest, X, y, rows="oob")
    found = audit.performance
    assert found == replace(of_forest, before_calibration=True)
    assert (found.better_than_constant, of_forest.better_than_constant) == (None, False)
    assert found.doubts() == []
    assert found.sentence() in audit.summary()
    assert found.sentence() == (
        f"The trees predict these rows with {of_forest.in_words()}, before calibration. The model calibrates these "
        "probabilities, and its own were not judged."
    )
    assert "no better than a constant" not in " ".join(audit.summary())
    (result,) = [each for each in audit.check({"must_predict": True}).results if each.rule == "must_predict"]
    assert result.status == "not judged"
    assert debias.Audit.from_json(audit.to_json()).performance == found


@pytest.mark.parametrize(("make", "n_classes"), [
    *((make, n_classes) for n_classes in (2, 3) for make in (
        lambda: VotingClassifier(FORESTS, voting="soft", weights=[1, 3]),
        lambda: CalibratedClassifierCV(XGBClassifier(n_estimators=5, n_jobs=1), cv=3, method="isotonic"),
        lambda: make_pipeline(StandardScaler(), OneVsRestClassifier(FORESTS[0][1])),
    )),
    (lambda: StackingClassifier(FORESTS, cv=2), 2),
    (lambda: StackingClassifier(FORESTS[:1], LogisticRegression(), cv=2), 2),
])  # fmt: skip
def test_several_classifiers_have_the_brier_score_of_their_own_probabilities(make, n_classes):
    model, (X, y) = make().fit(*drawn(0, n_classes)), drawn(1, n_classes)
    found, share = performance(model, X, y), model.predict_proba(X)
    brier = ((share - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean() / (2 if n_classes == 2 else 1)
    frequency = np.bincount(y) / N
    constant = (1 - frequency @ frequency) / (2 if n_classes == 2 else 1)
    area = metrics.roc_auc_score(y, share[:, 1] if n_classes == 2 else share, multi_class="ovr")
    assert found.metric == "Brier score"
    assert (found.value, found.constant, found.auc) == pytest.approx((brier, constant, area))
    assert found.skill == pytest.approx(1 - brier / constant)


def test_a_stack_of_one_classifier_with_coefficient_1_is_not_its_member():
    model, (X, y) = StackingClassifier(FORESTS[:1], LogisticRegression(), cv=2).fit(*drawn(0, 2)), drawn(1, 2)
    model.final_estimator_.coef_[:] = 1.0
    expected = np.mean((model.predict_proba(X)[:, 1] - y) ** 2)
    assert performance(model, X, y).value == pytest.approx(expected)
    assert expected != pytest.approx(performance(model.estimators_[0], X, y).value, rel=0.01)


def test_several_regressors_have_the_r2_of_their_own_predictions():
    train, (X, y) = drawn(0), drawn(1)
    boosted = XGBRegressor(n_estimators=5, n_jobs=1)
    members = [("a", RandomForestRegressor(**SMALL)), ("b", boosted)]
    weight = np.random.default_rng(0).integers(0, 3, N).astype(float)
    for model in (VotingRegressor(members, weights=[1, 2]), StackingRegressor(members, LinearRegression(), cv=2),
                  StackingRegressor(members[:1], LinearRegression(), cv=2)):  # fmt: skip
        model.fit(*train)
        for given in (None, weight):
            found = performance(model, X, y, sample_weight=given)
            assert found.value == pytest.approx(metrics.r2_score(y, model.predict(X), sample_weight=given))
    both = MultiOutputRegressor(boosted).fit(train[0], np.column_stack([train[1], -train[1] + train[0][:, 0]]))
    target = np.column_stack([y, X[:, 3]])
    expected = metrics.r2_score(target, both.predict(X), multioutput="variance_weighted")
    assert performance(both, X, target).value == pytest.approx(expected)


@pytest.mark.parametrize("blocks", [None, np.arange(N) // 4])
def test_predictions_of_a_forest_have_its_performance(blocks):
    for n_classes in (0, 2, 3):
        make = RandomForestClassifier if n_classes else RandomForestRegressor
        model, (X, y) = make(**SMALL).fit(*drawn(0, n_classes)), drawn(1, n_classes)
        dataset = debias.Dataset(X, y, blocks=blocks)
        of_trees = debias.audit(model, dataset, rows="held-out", test=None).performance
        predicted = model.predict_proba(X) if n_classes else model.predict(X)[:, None]
        target = np.eye(n_classes)[y] if n_classes else y[:, None]
        labels = tuple(map(str, range(n_classes))) if n_classes else None
        found = performance_of_predictions(predicted, target, np.ones(N), blocks, labels)
        assert found.metric == of_trees.metric
        for name in ("value", "constant", "skill", "auc", "correlation", "n_rows", "p_value"):
            assert getattr(found, name) == pytest.approx(getattr(of_trees, name)), name


def test_a_model_that_cannot_be_asked_says_so(monkeypatch):
    def fails(self, X):
        raise ValueError("not today")

    X, y = drawn(0)
    members = [("a", RandomForestRegressor(**SMALL)), ("b", RandomForestRegressor(**SMALL))]
    model = VotingRegressor(members).fit(X, y)
    monkeypatch.setattr(VotingRegressor, "predict", fails)
    found = performance(model, *drawn(1))
    assert found.untold_because == (
        "2 models are combined, and the model could not be asked for their predictions: not today"
    )
    infinite = performance_of_predictions(np.full((N, 1), np.inf), y[:, None], np.ones(N))
    assert infinite.untold_because == "predictions of the model are not finite"


@pytest.mark.parametrize("later", [False, True])
def test_rows_beyond_those_of_training_are_a_cause_to_look_at(later):
    """A forest cannot follow a trend; y that was permuted has nothing to do with the rows."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(600.0), rng.normal(size=600)])
    y = 0.02 * X[:, 0] + X[:, 1] + rng.normal(size=600) / 2
    model = RandomForestRegressor(**SMALL).fit(X[:400], y[:400])
    if not later:
        X[400:, 0] = rng.choice(400, 200)
    audit = audited(model, X[400:], y[400:] if later else rng.permutation(y[400:]))
    told = audit.summary()
    assert told[0].startswith("On these rows the model predicts no better than a constant")
    assert told[1].endswith("If it does, the model is no better than a constant here.")
    assert told[2].startswith("These rows also differ from the training rows at the splits of the model") == later


@pytest.mark.parametrize("number", ["predicted", "power", "both_p_value"])
def test_impossible_numbers_of_a_recalibration_are_refused(number):
    audit = of_classes(RandomForestClassifier(9, min_samples_leaf=20, class_weight="balanced", random_state=0))
    plain = json.loads(audit.to_json())
    plain["performance"]["recalibration"][number] = -0.5
    with pytest.raises(debias.DebiasError, match=number):
        debias.Audit.from_json(json.dumps(plain))


def test_a_forgotten_offset_of_counts_is_a_cause_to_look_at():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    exposure = rng.uniform(0.02, 1, size=900)
    y = rng.poisson(exposure * np.exp(X[:, 0] / 2))
    model = LGBMRegressor(objective="poisson", n_estimators=30, n_jobs=1, verbose=-1)
    model.fit(X[:500], y[:500], init_score=np.log(exposure[:500]))
    told = audited(model, X[500:], y[500:]).summary()
    assert told[0].startswith("On these rows the model predicts no better than a constant: Poisson deviance")
    assert told[1].endswith("such as the log of an exposure, these rows need theirs.")
    rows = debias.Dataset(X[500:], y[500:], base_margin=np.log(exposure[500:]))
    assert debias.audit(model, rows, rows="held-out", test=None).performance.better_than_constant


def test_the_skill_of_a_density_is_finite_however_wrong_it_is():
    """A distribution of nearly no spread has a log likelihood of minus thousands at rows that it misses."""
    from debias.rows.performance import _skill

    assert np.isfinite(_skill(5000.0, 1.5, -np.inf))
    assert _skill(5000.0, 1.5, -np.inf) < -1e100
    assert _skill(1.5, 1.5, -np.inf) == 0
