"""The planner of rows: its equation, its words, what it refuses, and the power at the number that it plans."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias import DebiasError
from debias.plugin import CompositionError
from support.audits import made

N, VARIANCE, NOISE, SLOPE = 500, 4.0, 0.002, 0.8


def audited(effects=(0.3, 0.1, 0.0005, -0.0005), threshold=2.4, blocks=False, **changed):
    """Return an audit of scores whose z follow z^2 = n s^2 / (a + b s) exactly."""
    effect = np.array(effects)
    informative = effect > 0.05
    audit = made("abcdefgh"[: effect.size], informative=informative)
    scores, variance = audit.tested_scores, NOISE + SLOPE * np.maximum(effect, 0) * informative
    details = {
        "test": {**scores.details["test"], "n_independent": N, "blocks": blocks},
        "response_variance": VARIANCE,
    }
    fields = {
        "values": VARIANCE * effect,
        "z": effect * np.sqrt(N / variance),
        "standard_error": VARIANCE * np.sqrt(variance / N),
        "selected": informative,
        "threshold": threshold,
        "details": details,
    }
    return replace(audit, scores={"mdi_oob": replace(scores, **(fields | changed))})


def z_of(effect, n):
    return effect * np.sqrt(n / (NOISE + SLOPE * effect))


@pytest.mark.quick
def test_the_plan_solves_the_equation():
    plan = audited().rows_needed(0.02)
    assert plan.power == 0.8
    # Two of four features are smaller than 2 %, and two were not found: with this one, both steps have three left.
    critical = 2.4 * ndtri(0.05 / 3) / ndtri(0.05 / 4)
    assert plan.critical == pytest.approx(critical)
    assert z_of(0.02, plan.rows - 1) < critical + ndtri(0.8) <= z_of(0.02, plan.rows)
    assert z_of(plan.least_effect, N) == pytest.approx(critical + ndtri(0.8))
    assert audited().rows_needed(plan.least_effect).rows in (N, N + 1)
    assert audited().rows_needed(0.02, power=0.95).rows > plan.rows


def test_features_with_larger_effects_leave_the_test_first():
    assert audited().rows_needed(0.9).critical == pytest.approx(2.4)
    assert audited().rows_needed(0.0001).critical < audited().rows_needed(0.02).critical


def test_the_plan_is_a_sentence():
    assert str(audited().rows_needed(0.01)) == (
        "With these 500 rows an effect of 1.8% of the variance is found with probability 0.8; for 1.0% you need about "
        "980 rows."
    )
    assert str(audited(blocks=True).rows_needed(0.0001, power=0.9)).endswith("0.010% you need about 2,400,000 blocks.")


def test_a_plan_of_fewer_out_of_bag_rows_says_that_the_forest_learns_less():
    fewer = " A forest of fewer rows than these learns less, so that it needs more for a strong effect."
    for rows, effect, told in (("oob", 0.1, True), ("oob", 0.01, False), ("held-out", 0.1, False)):
        plan = audited(rows=rows).rows_needed(effect)
        assert (plan.rows < N) == (effect == 0.1)
        assert str(plan).endswith(fewer if told else " rows.")


def test_a_strong_effect_has_the_slope_of_the_features_beside_it():
    """Slopes of .8, and of 3.2 for the strongest: above the median, slopes are interpolated."""
    audit = audited()
    scores = audit.tested_scores
    z = scores.z.copy()
    z[0] = 0.3 * np.sqrt(N / (NOISE + 3.2 * 0.3))
    audit = replace(audit, scores={"mdi_oob": replace(scores, z=z)})
    between = 2.0 + 1.2 * np.log(0.25 / 0.2) / np.log(0.3 / 0.2)
    for effect, slope in ((0.9, 3.2), (0.3, 3.2), (0.25, between), (0.2, 2.0), (0.1, 2.0), (0.02, 2.0)):
        plan = audit.rows_needed(effect)
        needed = (plan.critical + ndtri(0.8)) ** 2 * (NOISE + slope * effect) / effect**2
        assert plan.rows == int(np.ceil(needed - 1e-9))


@pytest.mark.parametrize("seed", range(20))
def test_the_least_effect_needs_the_rows_that_there_are(seed):
    """Whatever the slopes of the found features are: so does every larger one, and a smaller one does not."""
    rng = np.random.default_rng(seed)
    effects = tuple(np.sort(rng.uniform(0.001, 0.3, 6))[::-1])
    audit = audited(effects=effects)
    scores = audit.tested_scores
    z = scores.z / rng.uniform(0.5, 2.0, 6)
    audit = replace(audit, scores={"mdi_oob": replace(scores, z=z)})
    least = audit.rows_needed(0.02).least_effect
    assert 0 < least < 1
    for larger in (1.0000001, 1.01, 1.1, 1.5, 2.0):
        assert larger * least >= 1 or audit.rows_needed(larger * least).rows <= N
    assert audit.rows_needed(0.9999 * least).rows > N


def test_without_a_found_feature_y_has_all_its_variance():
    plan = audited(effects=(0.001, -0.001, 0.002)).rows_needed(0.05)
    least = plan.critical + ndtri(0.8)
    assert plan.rows == int(np.ceil(least**2 * (NOISE + 0.05) / 0.05**2))


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 1.5, True, "much", None, np.nan])
def test_effects_and_powers_are_shares(wrong):
    with pytest.raises(CompositionError, match="effect must be between 0 and 1"):
        audited().rows_needed(wrong)
    with pytest.raises(CompositionError, match="power must be between 0 and 1"):
        audited().rows_needed(0.1, power=wrong)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"standard_error": None}, "no standard errors"),
        ({"threshold": None}, "family-wise error rate"),
        ({"standard_error": np.zeros(4)}, "splits on no feature that varies"),
        ({"rows": "train"}, "training rows"),
        ({"selected": None}, "without a test"),
    ],
)
def test_what_cannot_be_told_is_refused(changed, said):
    with pytest.raises(DebiasError, match=f"rows cannot be planned.*{said}"):
        audited(**changed).rows_needed(0.1)


def fitted(model, seed=0, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + rng.normal(size=n)
    if model.__class__.__name__.endswith("Classifier"):
        y = (y > 0).astype(int)
    elif model.__class__.__name__ == "XGBRegressor" and model.objective == "count:poisson":
        y = rng.poisson(np.exp(X[:, 0] / 2))
    return model.fit(X[: n // 2], y[: n // 2]), X[n // 2 :], y[n // 2 :]


@pytest.mark.parametrize(
    ("model", "variance"),
    [
        (RandomForestRegressor(20, random_state=0), lambda y: y.var()),
        (RandomForestClassifier(20, random_state=0), lambda y: 2 * y.mean() * (1 - y.mean())),
        (XGBRegressor(n_estimators=20, max_depth=2), lambda y: y.var()),
        (XGBClassifier(n_estimators=20, max_depth=2), lambda y: 1),
    ],
)
def test_scores_are_shares_of_the_variance_of_y(model, variance):
    model, X, y = fitted(model)
    audit = debias.audit(model, X, y, rows="held-out", dependence=False)
    assert audit.tested_scores.details["response_variance"] == pytest.approx(variance(y), rel=1e-5)
    plan = audit.rows_needed(0.01)
    assert plan.n_rows == 200
    assert plan.least_effect < audit.tested_scores.values[0] / variance(y)  # which was found
    assert debias.Audit.from_json(audit.to_json()).rows_needed(0.01) == plan


def test_other_units_and_batches_and_discovery_rates_are_refused():
    model, X, y = fitted(XGBRegressor(n_estimators=20, max_depth=2, objective="count:poisson"))
    with pytest.raises(DebiasError, match="not shares of a variance"):
        debias.audit(model, X, y, rows="held-out").rows_needed(0.01)
    model, X, y = fitted(XGBRegressor(n_estimators=20, max_depth=2))
    with pytest.raises(DebiasError, match="family-wise error rate"):
        debias.audit(model, X, y, rows="held-out", error_rate=("fdr", 0.1)).rows_needed(0.01)
    with pytest.raises(DebiasError, match="not shares of a variance"):
        debias.audit(model, [(X[:100], y[:100]), (X[100:], y[100:])], rows="held-out").rows_needed(0.01)


@pytest.mark.thorough
def test_a_margin_of_the_log_loss_has_the_share_of_variance_as_its_score():
    """For small effects: E(margin (y - p)) = p (1 - p) Var(margin) = Var(P(y = 1 | x)) / Var(y)."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 200_000)
    probability = 0.3 + 0.06 * x
    y = (rng.random(x.size) < probability).astype(int)
    model = XGBClassifier(n_estimators=1, max_depth=1, learning_rate=1.0, reg_lambda=0)
    model.fit(x[:100_000, None], y[:100_000])
    scores = debias.score(model, x[100_000:, None], y[100_000:], rows="held-out", test="naive")
    assert scores.values[0] == pytest.approx(probability.var() / y.var(), abs=3 * scores.standard_error[0])


def power(test, n_pilot, n_sets, features=(1, 2, 3)):
    """Return the share of sets of new rows, of the number planned by a pilot audit, in which features are found.

    The share is that of features with known effects in one model; the number is planned from each pilot.
    """
    slope = np.array([0.8, 0.45, 0.3, 0.2, 0, 0, 0, 0])

    def drawn(n, *number):
        rng = np.random.default_rng(number)
        X = rng.normal(size=(n, slope.size))
        return X, X @ slope + rng.normal(size=n)

    model = XGBRegressor(n_estimators=40, max_depth=3, learning_rate=0.15).fit(*drawn(800, 0))
    many = debias.audit(model, *drawn(30_000, 1), [], rows="held-out", test="naive")
    effects = many.tested_scores.values / many.tested_scores.details["response_variance"]
    found = []
    for number in range(n_sets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)
            pilot = debias.audit(model, *drawn(n_pilot, 2, number), [], rows="held-out", test=test)
            for k in features:
                n = pilot.rows_needed(float(effects[k])).rows
                new = drawn(n, 3, number, k)
                found.append(debias.score(model, *new, rows="held-out", test=test, random_state=number).selected[k])
    return np.mean(found)


@pytest.mark.slow
@pytest.mark.parametrize("test", ["permutation", "naive"])
def test_the_planned_rows_have_the_planned_power(test):
    # No less than .8, but for 3 standard errors of 450 sets; a little more, since z varies by less than 1.
    assert 0.8 - 3 * np.sqrt(0.16 / 450) <= power(test, 1000, 150) <= 0.92


@pytest.mark.thorough
def test_the_power_of_a_plan_is_of_the_right_size():
    assert power("naive", 500, 10, features=(2,)) >= 0.4  # .8 - 3.2 standard errors
