"""Causes of a change of the loss: against the parts of rows with broken values and mended responses, and by faults.

Over 500 lines: the search, its steps and the kinds are tested on the same periods, with the same oracles.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import t as student
from scipy.stats import ttest_ind
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from xgboost import XGBRegressor

from debias.data.groups import Grouping
from debias.data.response import encode
from debias.positions import evenly_spaced
from debias.results.vocabulary import LossKind
from debias.rows.loss_parts import Line, loss_parts
from debias.rows.period_sums import PeriodSums
from debias.significance.additive_functions import functions_of
from debias.significance.change import compare_windows, groups_of
from debias.significance.kept_windows import KeptWindow
from debias.significance.loss_causes import MOST_FUNCTIONS, Steps, _in_standard_units, with_causes
from debias.significance.other_rows import p_of_all_rows

NAMES = ("a", "twin", "b", "noise")
GROUPING = Grouping.of(None, NAMES)
LEVELS = {"level down": -1.5}
EFFECTS = {"effect": 0.0, "sign": -1.0, "sign while b moves": -1.0, "two effects": 0.0}
N_BEFORE, N_AFTER, N_ROWS = 14, 10, 80
LGBM_SETTINGS = {
    "absolute error": {"objective": "mae"},
    "quantile": {"objective": "quantile", "alpha": 0.8},
    "huber": {"objective": "huber"},
}


def drawn(rng, n, effect=1.0, level=0.0, *, apart=False, of_b=1.0):
    """Rows in which the twin goes with a, or goes apart, and a response that depends on both, and on b."""
    X = rng.normal(size=(n, 4))
    if not apart:
        X[:, 1] = 0.9 * X[:, 0] + 0.45 * X[:, 1]
    return X, level + effect * X[:, 0] + 0.5 * X[:, 1] + of_b * X[:, 2] + 0.5 * rng.normal(size=n)


@cache
def fitted(kind):
    X, y = drawn(np.random.default_rng(0), 1500)
    if kind == "classes":
        return GradientBoostingClassifier(n_estimators=40, random_state=0).fit(X, y > 0)
    if kind == "forest of classes":
        return RandomForestClassifier(30, max_depth=7, random_state=0).fit(X, y > 0)
    if kind in ("gamma", "tweedie", "poisson"):
        objective = {"poisson": "count:poisson"}.get(kind, f"reg:{kind}")
        settings = {"n_estimators": 40, "max_depth": 3, "n_jobs": 1, "random_state": 0, "objective": objective}
        return XGBRegressor(**settings).fit(X, np.exp(y / 2))
    if kind in LGBM_SETTINGS:
        settings = {"n_estimators": 60, "num_leaves": 8, "verbose": -1, "n_jobs": 1} | LGBM_SETTINGS[kind]
        return LGBMRegressor(**settings).fit(X, y)
    if kind == "forest":
        return RandomForestRegressor(20, max_depth=7, random_state=0).fit(X, y)
    return GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X, y)


def periods(kind, fault, seed=1, kept_rows=N_ROWS):
    """Sums of periods, with a fault in the last ones."""
    rng = np.random.default_rng(seed)
    empty, found = PeriodSums(fitted(kind), kept_rows=kept_rows), []
    for number in range(N_BEFORE + N_AFTER):
        recent = number >= N_BEFORE
        effect = EFFECTS.get(fault, 1.0) if recent else 1.0
        of_b = -1.0 if recent and fault in ("two effects", "stuck and effect") else 1.0
        level = LEVELS.get(fault, 1.5 * ("level" in (fault or ""))) if recent else 0.0
        X, y = drawn(rng, N_ROWS, effect, level, apart=recent and fault == "apart", of_b=of_b)
        if recent and fault and ("values" in fault or fault == "both"):
            X[:, 0] = rng.permutation(X[:, 0])
        if recent and fault == "mixed":
            some = rng.permutation(N_ROWS)[: N_ROWS // 2]
            X[some, 0] = X[rng.permutation(some), 0]
        if recent and fault and "offset" in fault:
            X[:, 0] += 1.5
        if recent and fault == "unit":
            X[:, 0] *= 100
        if recent and fault == "both":
            X[:, 2] = rng.permutation(X[:, 2])
        if recent and fault == "of other rows":
            X[:, [0, 2]] = rng.permutation(X[:, [0, 2]])
        if recent and fault == "sign while b moves":
            X[:, 2] += 0.5
            y = y + 0.5
        if recent and fault == "stuck and effect":
            X[:, 0] = 0.0
        if recent and fault == "two stuck":
            X[:, [0, 2]] = 0.0
        sums = empty.empty()
        y = y + rng.normal(size=N_ROWS) if recent and fault == "noise" else y
        y = np.exp(y / 2) if kind in ("gamma", "tweedie", "poisson") else y
        sums.update(X, y > 0 if kind.endswith("classes") else y)
        found.append(sums)
    return found


@cache
def broken():
    return periods("numbers", "values")


def windows(found):
    parts = found[:N_BEFORE], found[N_BEFORE:]
    return [KeptWindow.of([sums.kept for sums in part], groups_of(len(part))) for part in parts]


def change(found, grouping=GROUPING):
    return compare_windows(found[:N_BEFORE], found[N_BEFORE:], grouping).loss


def searched(kind, fault, **given):
    found = periods(kind, fault, **given)
    ensemble = found[0].ensemble
    return with_causes(change(found), ensemble, GROUPING, *windows(found))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["numbers", "classes", "forest"])
def test_neighbours_of_a_broken_feature_are_explained(kind):
    loss = searched(kind, "values")
    assert [cause.feature for cause in loss.causes] == ["a"]
    assert loss.causes[0].kind in ("values", "values or effect")
    assert loss.no_causes_because is None
    assert {"a", *loss.explained} == {NAMES[k] for k in loss.costs_more}


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_changed_effect_blames_its_neighbour_too_and_explains_it(kind):
    loss = searched(kind, "effect")
    (cause,) = loss.causes
    assert cause.feature == "a"
    assert cause.p_values <= loss.level
    # The classes are numbers above 0, so their log odds are not additive, and more than one response changes.
    assert cause.kind == ("effect" if cause.p_effect > loss.level else "neither alone")
    assert kind == "classes" or cause.kind == "effect"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["numbers", "classes", "forest", "forest of classes"])
def test_an_effect_with_the_other_sign_does_not_accuse_the_neighbour(kind):
    """What the neighbour saves differs too, and not in a straight line."""
    loss = searched(kind, "sign")
    assert "a" in {loss.feature_names[k] for k in loss.costs_more}
    assert [cause.feature for cause in loss.causes] == ["a"]


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_column_that_moves_the_predictions_is_no_level_that_moved(kind):
    """The mean response stays, and so the column is the cause of the mean residual."""
    loss = searched(kind, "offset")
    assert not loss.level_moved
    assert [(cause.feature, str(cause.kind)) for cause in loss.causes] == [("a", "values")]


def test_a_broken_column_is_found_beside_a_level_that_moved():
    """Its values moved too, so that the level is no reason why it costs more."""
    loss = searched("numbers", "values and level")
    assert loss.level_moved
    assert loss.causes[0].feature == "a"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["classes", "forest of classes", "gamma", "tweedie", "poisson"])
def test_a_response_with_a_link_is_that_of_the_rows_and_of_the_model(kind):
    """Up to a unit, and what the slope grows by is a quotient of differences of the loss parts."""
    found = periods(kind, "effect")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    y, offset, unit, link = steps._responses[0]
    X = np.vstack([window.rows.X for window in (before, after)])
    known = np.concatenate([window.rows.y[:, 0] for window in (before, after)])
    model = fitted(kind)
    expected = model.predict(X) if kind in ("gamma", "tweedie", "poisson") else model.predict_proba(X)
    if kind.endswith("classes"):
        expected = np.clip(expected[:, 0 if kind == "forest of classes" else 1], 0.001, 0.999)
        np.testing.assert_allclose(y, known, atol=1e-9)
        np.testing.assert_allclose(link.mean(offset), expected, atol=1e-5)
    else:
        scale = known.mean() / y.mean()
        np.testing.assert_allclose(scale * y, known, rtol=1e-6)
        np.testing.assert_allclose(scale * link.mean(offset), expected, rtol=1e-4)
        known = known / scale
    more = [replace(window.rows, y=1.01 * window.rows.y) for window in (before, after)]
    lines = [Line.of(found[0].ensemble, rows) for rows in more]
    grown = np.concatenate([(other.slope - own.slope)[:, 0] for own, other in zip(steps._lines, lines, strict=True)])
    np.testing.assert_allclose(unit * 0.01 * known, grown, atol=1e-9)


@pytest.mark.parametrize(("p_value", "asked"), [(0.2, True), (0.3, False)])
def test_a_feature_must_cost_more_than_a_level_that_may_have_moved(monkeypatch, p_value, asked):
    found = periods("classes", "sign")
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    assert not steps.level_moved
    freed, mended = [], steps.mended
    monkeypatch.setattr(
        steps, "mended", lambda features, beside: (freed.append(features[:]), mended(features, beside))[1]
    )
    monkeypatch.setattr(steps, "_p_of_level", p_value)
    steps.found()
    assert (freed[0] == []) == asked


@pytest.mark.parametrize(
    "kind",
    [
        *("numbers", "classes", "quantile"),
        *(
            pytest.param(kind, marks=pytest.mark.thorough)
            for kind in ("forest of classes", "gamma", "absolute error", "huber")
        ),
    ],
)
def test_no_feature_is_the_cause_of_a_level_that_moved(kind):
    loss = searched(kind, "level down" if kind == "quantile" else "level")
    assert loss.loss.p_value <= loss.level
    assert loss.level_moved
    assert loss.causes == ()
    assert set(loss.explained) == {loss.feature_names[k] for k in loss.costs_more}
    assert (
        kind == "numbers" or kind in LGBM_SETTINGS or loss.explained
    )  # log odds that move by the same cost more where classes are unsure
    assert not searched(kind, None).level_moved


def test_another_unit_is_told_as_values():
    """It keeps what goes together with the feature, so random values alone do not reproduce the parts."""
    loss = searched("numbers", "unit")
    assert loss.causes[0].feature == "a"
    assert loss.causes[0].kind in ("values", "values or effect")


@pytest.mark.thorough
def test_a_moved_reference_has_the_recent_quantiles_in_its_own_order():
    found = periods("numbers", "unit")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    X, own = before.rows.X.copy(), before.rows.X[:, 0]
    # All rows have equal weights here: the k-th smallest value becomes the recent value of the same quantile.
    quantile = (np.argsort(np.argsort(own)) + 0.5) / own.size
    recent = np.sort(after.rows.X[:, 0])
    X[:, 0] = recent[np.minimum((quantile * recent.size).astype(int), recent.size - 1)]
    parts = parts_of(found, type(before.rows)(X, before.rows.y, before.rows.start))
    np.testing.assert_allclose(saved(steps.moved(0)[0])[0], means(before, parts.saved), atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["numbers", "forest"])
def test_values_of_other_rows_in_half_of_the_rows_are_not_told_as_a_weaker_effect(kind):
    loss = searched(kind, "mixed")
    assert loss.causes[0].feature == "a"
    assert loss.causes[0].kind in ("values", "values or effect")


@pytest.mark.thorough
def test_a_partly_broken_reference_costs_as_much_as_the_recent_rows():
    found = periods("numbers", "mixed")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    broken = steps.broken([0])
    partly, recent = steps.partly_broken([0], broken)
    assert recent is steps.losses[1]

    def cost(losses):
        """What the feature costs: less than nothing if it saves. Periods have equal weights here."""
        return -saved(losses)[0][:, 0].mean()

    (intact, now), in_all = map(cost, steps.losses), cost(broken[0])
    part = (now - intact) / (in_all - intact)
    assert 0.3 < part < 0.7
    X, some = before.rows.X.copy(), steps.lots[0] < part
    X[some, 0] = after.rows.X[steps.drawn[0][some], 0]
    parts = parts_of(found, type(before.rows)(X, before.rows.y, before.rows.start))
    np.testing.assert_allclose(saved(partly)[0], means(before, parts.saved), atol=1e-12)
    # It costs as much, up to the draw of the rows: each differs with probability `part`.
    X[:, 0] = after.rows.X[steps.drawn[0], 0]
    of_rows = (parts_of(found, type(before.rows)(x, before.rows.y, before.rows.start)) for x in (before.rows.X, X))
    differs = np.subtract(*(each.saved[:, 0] for each in of_rows))
    assert abs(cost(partly) - now) < 4 * np.sqrt(part * (1 - part) * (differs**2).sum()) / len(X)


@pytest.mark.parametrize("fault", ["mixed", None])
@pytest.mark.parametrize("kind", ["numbers", "classes", "forest of classes"])
def test_rows_alone_explain_a_cost_if_nothing_differs_by_the_response(kind, fault):
    """Welch's test of the means of periods, all of whose rows are kept here, and of the sum over features."""
    found = periods(kind, fault)
    both = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *both)
    of_features, of_sum, of_loss = [], [], []
    for window in both:
        parts, ends = parts_of(found, window.rows), Line.of(found[0].ensemble, window.rows).ends
        of_features.append(means(window, parts.saved - parts.rows))
        of_sum.append(of_features[-1].sum(axis=1))
        of_loss.append(means(window, ends.unexpected_loss()))
    p = np.sort(ttest_ind(*of_features, equal_var=False).pvalue[steps._used])
    adjusted = min(1.0, float((p * np.arange(p.size, 0, -1))[0]))
    others = [float(ttest_ind(*each, equal_var=False).pvalue) for each in (of_sum, of_loss)]
    assert change(found).p_response == pytest.approx(min(adjusted, others[0]), rel=1e-6)
    assert steps.cause(0).p_rows == pytest.approx(min(adjusted, *others), rel=1e-6)


def test_the_loss_of_numbers_is_that_of_all_rows():
    """Of classes it is the loss of the rows that were kept, beyond what the predictions let expect."""
    for kind, of_all in (("numbers", True), ("classes", False)):
        found = periods(kind, None, kept_rows=20)
        loss = replace(change(found), p_response=0.9)
        steps = Steps.of(loss, found[0].ensemble, GROUPING, *windows(found))
        p = 2 * min(loss.loss.p_value, loss.loss.p_fall)
        assert p_of_all_rows(loss, steps._lines[1].ends) == pytest.approx(p if of_all else 0.9)
        unknown = Steps.of(replace(loss, p_response=None), found[0].ensemble, GROUPING, *windows(found))
        assert unknown.cause(0).kind not in ("rows", "rows or values", "rows, values or effect")


@pytest.mark.parametrize(
    ("fill", "filled"),
    [
        (lambda x, half: np.where(half, 0.0, x), True),
        (lambda x, half: np.where(half, np.nan, x), True),
        (lambda x, half: np.sign(x), True),
        (lambda x, half: x + 1, False),
        (lambda x, half: 0.5 * x, False),
    ],
)
def test_a_value_that_became_frequent_may_be_filled_in(fill, filled):
    """In a column of numbers, for all features; in one of few values, for itself alone."""
    found = periods("numbers", None)
    before, after = windows(found)
    X = after.rows.X.copy()
    X[:, 2] = fill(X[:, 2], np.arange(len(X)) % 2 == 0)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, replace(after, rows=replace(after.rows, X=X)))
    assert [_suspected(steps, k) for k in range(4)] == [filled] * 4
    pair = []
    for window, share in ((before, 0.5), (after, 0.8 if filled else 0.52)):
        few = window.rows.X.copy()
        few[:, 2] = np.arange(len(few)) >= share * len(few)
        pair.append(replace(window, rows=replace(window.rows, X=few)))
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *pair)
    assert [_suspected(steps, k) for k in range(4)] == [False, False, filled, False]


def _suspected(steps, feature):
    return not replace(steps.other_rows, p_value=1.0).may_explain(feature)


@pytest.mark.parametrize("kind", ["numbers", "classes", "forest of classes", "poisson", "absolute error"])
def test_a_feature_is_followed_if_the_loss_is_larger_without_its_values(kind):
    """By the predictions of the library for rows among which the values are exchanged."""
    found = periods(kind, "two stuck" if kind.endswith("classes") else "values")
    recent, model = windows(found)[1].rows, fitted(kind)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    followed = [steps.other_rows.is_followed(k) for k in range(4)]
    assert followed == [False, True, not kind.endswith("classes"), False]
    y = recent.y[:, -1]

    def loss(X):
        if kind.endswith("classes"):
            shares = model.predict_proba(X)[:, 1]
            return (y - shares) ** 2 if "forest" in kind else -np.log(np.where(y == 1, shares, 1 - shares))
        predicted = model.predict(X).astype(float)
        if kind == "poisson":
            return 2 * (predicted - y * np.log(predicted))
        return np.abs(y - predicted) if kind == "absolute error" else (y - predicted) ** 2

    for k in range(4):
        X = recent.X.copy()
        X[:, k] = X[np.random.default_rng(0).permutation(len(X)), k]
        more = loss(X) - loss(recent.X)
        error = more.std() / np.sqrt(len(more))
        assert followed[k] == (error > 1e-9 and more.mean() / error > student.isf(0.001, len(more) - 1))


@pytest.mark.parametrize(
    ("values", "effect", "rows", "kind"),
    [
        (0.5, 0.5, 0.5, "rows, values or effect"),
        (0.5, 0.01, 0.5, "rows or values"),
        (0.01, 0.5, 0.5, "rows, values or effect"),
        (0.01, 0.01, 0.5, "rows"),
        (0.01, 0.01, 0.01, "neither alone"),
        (0.5, 0.01, 0.01, "values"),
        (0.01, 0.5, 0.01, "effect"),
        (0.5, 0.5, 0.01, "values or effect"),
        # Not followed.
        (0.5, 0.5, -0.5, "rows, values or effect"),
        (0.5, 0.01, -0.5, "rows or values"),
        (0.01, 0.01, -0.5, "neither alone"),
    ],
)
def test_a_kind_names_all_that_is_not_rejected(monkeypatch, values, effect, rows, kind):
    found = broken()
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    other = replace(steps.other_rows, p_value=abs(rows))
    object.__setattr__(other, "is_followed", lambda feature: rows > 0)
    monkeypatch.setattr(steps, "other_rows", other)
    smallest = iter([0.01, values, 0.01, effect])
    monkeypatch.setattr(steps, "_smallest_p", lambda pair, **nearly: next(smallest))
    cause = steps.cause(0)
    assert cause.kind == kind
    assert (cause.p_values, cause.p_effect, cause.p_rows) == pytest.approx((values, effect, abs(rows)))
    assert cause.followed == (rows > 0)
    assert steps._is_alone(cause) == (max(values, effect) > 0.05)


@pytest.mark.parametrize(("of_two", "kind"), [(0.3, "values or effect"), (0.02, "values")])
def test_values_that_are_broken_in_a_part_of_the_rows_are_told_from_two_weaker_effects(monkeypatch, of_two, kind):
    found = periods("numbers", "both")
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    others = [k for k in change(found).costs_more if k]
    assert others
    mended = []
    monkeypatch.setattr(steps, "mended", lambda features, beside: mended.append((features, beside)))
    smallest = iter([0.01, 0.01, 0.5, 0.01, *[of_two] * len(others)])
    monkeypatch.setattr(steps, "_smallest_p", lambda pair, **nearly: next(smallest))
    cause = steps.cause(0)
    assert (str(cause.kind), cause.p_values, cause.p_effect) == (kind, 0.5, of_two)
    tried = others[:1] if of_two > 0.05 else others
    assert mended == [([0], []), *(([0, other], []) for other in tried)]
    smallest = iter([0.01, 0.01, 0.5, 0.01, *[of_two] * len(others)])
    nearly = steps.cause(0, nearly=True)
    assert (str(nearly.kind), nearly.p_values, nearly.p_effect) == ("values or effect", 0.5, 0.5)


@pytest.mark.parametrize(
    ("nearly", "p_moved", "p_response", "kind"),
    [
        (True, 0.01, 0.3, "values or effect"),
        (True, 0.2, 0.3, "values"),
        (True, 0.01, 0.02, "values"),
        (False, 0.01, 0.3, "values"),
    ],
)
def test_a_changed_response_to_a_column_that_moved_is_told_by_the_response(
    monkeypatch, nearly, p_moved, p_response, kind
):
    found = broken()
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    monkeypatch.setattr(steps, "moved_columns", lambda: np.array([p_moved, 1.0, 1.0, 1.0]))
    mended = steps.mended([0], [])
    monkeypatch.setattr(steps, "mended", lambda features, beside: mended)

    def smallest(pair, *, by_response=False, **given):
        return p_response if by_response and pair is mended else 0.01 if pair is mended else 0.5

    monkeypatch.setattr(steps, "_smallest_p", smallest)
    cause = steps.cause(0, nearly=nearly)
    assert (str(cause.kind), cause.p_values) == (kind, 0.5)
    assert cause.p_effect == (max(0.01, p_response) if nearly and p_moved <= 0.05 else 0.01)


def test_the_next_cause_has_the_largest_cost_that_is_left_beyond_a_part_of_what_the_causes_cost(monkeypatch):
    """Welch's test of the means of periods, all of whose rows are kept here."""
    found = periods("numbers", "both")
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    cost = steps._change.statistics["cost"]
    first, second = np.argsort(-cost)[:2].tolist()
    margins, more = [], steps._more

    def noted(pair, margin):
        margins.append(margin)
        (p, of_any), costs = more(pair, margin)
        np.testing.assert_array_equal(of_any, more(pair, 0.0)[0][0])
        periods_of = [(each.sums[:, 4:8] / each.sums[:, :1]) for each in pair]
        expected = ttest_ind(-periods_of[1] - margin, -periods_of[0], equal_var=False, alternative="greater")
        np.testing.assert_allclose(p[steps._used], expected.pvalue[steps._used], rtol=1e-6)
        np.testing.assert_allclose(costs, periods_of[0].mean(axis=0) - periods_of[1].mean(axis=0), atol=1e-12)
        return (p, of_any), costs

    monkeypatch.setattr(steps, "_more", noted)
    assert steps.found()[0][:2] == [first, second]
    assert margins[:2] == [0.03 * cost[first]] * 2


def test_of_several_that_may_be_next_it_is_the_one_with_the_largest_cost_that_is_left(monkeypatch):
    found = periods("numbers", "two effects")
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    cost = steps._change.statistics["cost"]
    ranked = np.argsort(-cost).tolist()
    assert ranked[:3] == [2, 0, 1]
    left = {2: (0.0, 0.3, 0.2, 0.0), 0: (0.0, 0.1, 0.4, 0.0)}  # of the two steps after b: a has less left than its twin
    p = np.array([[0.0, 0.0, 1.0, 1.0]] * 2)
    monkeypatch.setattr(steps, "_more", lambda pair, margin: (p, np.array(left[pair])))
    monkeypatch.setattr(steps, "broken", lambda features: 2)
    monkeypatch.setattr(steps, "mended", lambda features, beside: 0)
    monkeypatch.setattr(steps, "_is_alone", lambda cause: True)
    monkeypatch.setattr(steps, "cause", lambda feature, *, nearly: None)
    monkeypatch.setattr(Steps, "_p_of_level", 1.0)
    assert steps.found() == ([2, 1, 0], [])
    p = np.array([[0.001, 0.4, 1.0, 1.0], [0.001, 0.001, 1.0, 1.0]])  # beside b and a, the twin costs more by little
    assert steps.found() == ([2, 0], [1])
    p[1, 1] = 0.04
    assert steps.found() == ([2, 0], [])


@pytest.mark.thorough
def test_other_rows_are_told_from_a_broken_feature():
    """The twin no longer goes with a, and the response follows both as before."""
    loss = searched("poisson", "apart", seed=2)
    assert loss.causes
    assert {str(cause.kind) for cause in loss.causes} == {"rows"}
    assert searched("poisson", "values", seed=2).causes[0].kind == "values"


@pytest.mark.thorough
def test_many_looks_do_not_acquit_a_broken_feature():
    found = periods("numbers", "values")
    loss = replace(change(found), level=1e-5)
    steps = Steps.of(loss, found[0].ensemble, GROUPING, *windows(found))
    steps.other_rows = replace(steps.other_rows, p_value=0.01)
    assert steps.other_rows.is_followed(1)
    assert steps.cause(0).kind == "values"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["classes", "forest of classes"])
def test_stuck_columns_are_not_other_rows(kind):
    """Though few rows show that the response is not as predicted."""
    found = periods(kind, "two stuck")
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    steps.other_rows = replace(steps.other_rows, p_value=0.5)
    assert {str(steps.cause(k).kind) for k in (0, 2)} <= {"values", "effect", "values or effect", "neither alone"}
    assert steps.other_rows.filled.tolist() == [True, False, True, False]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["absolute error", "quantile"])
def test_no_feature_is_the_cause_of_noise_that_grows(kind):
    loss = searched(kind, "noise", seed=3)
    assert loss.loss.p_value <= loss.level
    assert loss.costs_more.size
    assert loss.causes == ()
    assert [cause.feature for cause in searched(kind, "sign").causes] == ["a"]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "fault", "expected"), [
    ("numbers", "both", {"a": "values", "b": "values"}),
    ("numbers", "of other rows", {"a": "values", "b": "values"}),
    ("numbers", "two effects", {"a": "effect", "b": "effect"}),
    ("forest", "two effects", {"a": "effect", "b": "effect"}),
    ("forest of classes", "two effects", {"a": "effect", "b": "effect"}),
    ("numbers", "stuck and effect", {"a": "values", "b": "effect"}),
    ("forest of classes", "stuck and effect", {"a": "values", "b": "effect"}),
])  # fmt: skip
def test_of_two_features_that_explain_nothing_alone_it_is_said_what_they_explain_together(kind, fault, expected):
    found = periods(kind, fault)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    both, _ = steps.found()
    assert set(both) == {0, 2}
    assert {str(steps.cause(k).kind) for k in both} == {"neither alone"}
    said = {cause.feature: str(cause.kind) for cause in steps.causes(both, [])}
    assert all(right in said[feature] for feature, right in expected.items())
    assert list(said.values()) != ["values or effect"] * 2


def test_two_are_together_what_they_are_in_all_combinations_that_are_not_rejected(monkeypatch):
    found = broken()
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    cause = replace(steps.cause(0), kind=LossKind.NEITHER, p_values=0.03, p_effect=0.02, followed=False)
    other = replace(steps.other_rows)
    monkeypatch.setattr(steps, "other_rows", other)
    monkeypatch.setattr(
        steps, "_together", lambda broken, changed: ["".join("v" if k in broken else "e" for k in (0, 2))]
    )
    monkeypatch.setattr(steps, "_in_other_places", lambda features: ["places"])
    monkeypatch.setattr(steps, "_partly_together", lambda features: ["parts"])

    def said(followed=False, may_explain=False, **p):
        of_each = {0: cause, 2: replace(cause, feature="b", followed=followed)}
        monkeypatch.setattr(steps, "cause", lambda feature, **nearly: of_each[feature])
        object.__setattr__(other, "may_explain", lambda feature: may_explain)
        monkeypatch.setattr(steps, "_smallest_p", lambda combination, **nearly: p.get(combination, 0.01))
        return [(str(each.kind), each.p_values, each.p_effect) for each in steps.causes([0, 2], [])]

    assert said(vv=0.5) == [("values", 0.5, 0.02)] * 2
    assert said(ee=0.5) == [("effect", 0.03, 0.5)] * 2
    assert said(ve=0.5) == [("values", 0.5, 0.02), ("effect", 0.03, 0.5)]
    assert said(ve=0.5, vv=0.2) == [("values", 0.5, 0.02), ("values or effect", 0.2, 0.5)]
    assert said(ve=0.5, ev=0.2) == [("values or effect", 0.5, 0.2), ("values or effect", 0.2, 0.5)]
    assert said(vv=0.5, may_explain=True) == [("rows or values", 0.5, 0.02)] * 2
    assert said() == said(may_explain=True) == [("neither alone", 0.03, 0.02)] * 2
    assert said(vv=0.5, followed=True) == [("neither alone", 0.03, 0.02)] * 2
    assert said(vv=0.5, ve=0.4, followed=True) == [("values", 0.4, 0.02), ("values or effect", 0.4, 0.4)]
    assert said(ee=0.4, followed=True) == [("effect", 0.03, 0.4), ("values or effect", 0.4, 0.4)]
    assert said(ee=0.4, places=0.5) == [("values or effect", 0.5, 0.4)] * 2
    assert said(places=0.5, followed=True) == [("values", 0.5, 0.02)] * 2
    # Two weaker effects are like values of other rows in a part of the rows.
    assert said(parts=0.5, followed=True) == said(parts=0.5, ee=0.4) == [("values or effect", 0.5, 0.5)] * 2
    assert said(parts=0.5, ve=0.4) == [("values", 0.4, 0.02), ("values or effect", 0.5, 0.5)]
    assert said(parts=0.5, vv=0.4) == [("values", 0.4, 0.02)] * 2
    assert steps.causes([0], []) == (cause,)
    # If the changed response to one explains all alone, only that all are broken in a part of the rows is tried.
    of_a = replace(cause, kind=LossKind.EFFECT, p_effect=0.3)
    of_b = replace(cause, feature="b")
    monkeypatch.setattr(steps, "cause", lambda feature, **nearly: {0: of_a, 2: of_b}[feature])
    monkeypatch.setattr(steps, "_smallest_p", lambda of, **nearly: 0.5 if of in ("vv", "ee", "ve") else 0.01)
    assert steps.causes([0, 2], []) == (of_a, of_b)
    monkeypatch.setattr(steps, "_smallest_p", lambda of, **nearly: 0.5 if of == "parts" else 0.01)
    of_both = [(str(each.kind), each.p_values, each.p_effect) for each in steps.causes([0, 2], [])]
    assert of_both == [("values or effect", 0.5, 0.5)] * 2
    # What is said of one alone stays if nothing else explains it, also if other rows may explain what another costs.
    object.__setattr__(other, "may_explain", lambda feature: feature == 2)
    monkeypatch.setattr(steps, "_smallest_p", lambda of, **nearly: 0.01)
    assert steps.causes([0, 2], []) == (of_a, of_b)
    of_a = replace(cause, kind=LossKind.VALUES, p_values=0.3)
    monkeypatch.setattr(steps, "_smallest_p", lambda of, **nearly: 0.5)
    assert steps.causes([0, 2], []) == (of_a, of_b)


def test_a_broken_feature_and_a_changed_response_are_compared_in_the_reference_with_the_broken_feature():
    found = periods("numbers", "stuck and effect")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    X = before.rows.X.copy()
    X[:, 0] = after.rows.X[steps.drawn[0], 0]
    other = Steps.of(change(found), found[0].ensemble, GROUPING, replace(before, rows=replace(before.rows, X=X)), after)
    of_one_row = before.rows.X.copy()
    of_one_row[:, [0, 2]] = after.rows.X[steps.drawn[0]][:, [0, 2]]
    exchanged = before.rows.X[:, [2, 1, 0, 3]]
    for found_pairs, expected_pairs in (
        (steps._together([0], [2]), [other.mended([2], [])]),
        (steps._together([0, 2], []), [steps.broken([0, 2]), (steps._with_reference(of_one_row), steps.losses[1])]),
        (steps._together([], [0, 2]), [steps.mended([0, 2], [])]),
        (steps._in_other_places([0, 2]), [(steps._with_reference(exchanged), steps.losses[1])]),
    ):
        for pair, expected in zip(found_pairs, expected_pairs, strict=True):
            for window, expected_window in zip(pair, expected, strict=True):
                np.testing.assert_array_equal(window.sums, expected_window.sums)
    assert len(list(steps._in_other_places([0, 1, 2]))) == 2


def test_a_feature_is_broken_in_the_same_way_wherever_its_columns_are():
    found = periods("numbers", "mixed")
    steps, other = (
        Steps.of(change(found, grouping), found[0].ensemble, grouping, *windows(found))
        for grouping in (GROUPING, Grouping.of(None, NAMES[::-1]))
    )
    np.testing.assert_array_equal(steps.drawn, other.drawn[::-1])
    np.testing.assert_array_equal(steps.lots, other.lots[::-1])
    assert len({tuple(draw) for draw in steps.drawn}) == len(NAMES)


def test_features_are_broken_together_in_a_part_of_the_rows_each_with_other_rows_or_all_with_one():
    found = periods("numbers", "mixed")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    intact, recent = (-saved(losses)[0].mean(axis=0) for losses in steps.losses)

    def broken(parts, draws):
        X = before.rows.X.copy()
        for feature, part, draw in zip((0, 2), parts, draws, strict=True):
            some = steps.lots[draw] < part
            X[some, feature] = after.rows.X[steps.drawn[draw][some], feature]
        return X, steps._with_reference(X)

    for draws, (reference, now) in zip([(0, 2), (0, 0)], steps._partly_together([0, 2]), strict=True):
        in_all = -saved(broken((1, 1), draws)[1])[0].mean(axis=0)
        more, most = (recent - intact)[[0, 2]], (in_all - intact)[[0, 2]]
        parts = more / most if draws == (0, 2) else [more.sum() / most.sum()] * 2
        X, expected = broken(parts, draws)
        assert (X != before.rows.X)[:, 0].mean() == pytest.approx(parts[0], abs=4 * np.sqrt(0.25 / len(X)))
        np.testing.assert_array_equal(reference.sums, expected.sums)
        assert now is steps.losses[1]


def test_parts_that_differ_little_beside_the_cost_of_a_cause_count_as_alike():
    """By Welch's test of the means of periods, all of whose rows are kept here, that differ by more than a margin."""
    found = broken()
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    pair = steps.mended([0], [])
    of_periods = [each.sums[:, 4:] / each.sums[:, :1] for each in pair]  # what features save, in all and by the rows
    parts = [np.hstack([saved[:, 4:], saved[:, :4] - saved[:, 4:]]) for saved in of_periods]
    little = 0.03 * steps._change.statistics["cost"][0]

    def smallest(margin, but_for, of=range(8)):
        tested = [k for k in of if steps._used[k % 4] and k % 4 not in but_for]
        exact = ttest_ind(*(each[:, tested] for each in parts), equal_var=False)
        difference = np.abs(parts[1].mean(axis=0) - parts[0].mean(axis=0))[tested]
        standard_error = np.sqrt(sum(each[:, tested].var(axis=0, ddof=1) / len(each) for each in parts))
        p = 2 * student.sf(np.maximum(difference - margin, 0) / standard_error, exact.df)
        if not margin:
            np.testing.assert_allclose(p, exact.pvalue)
        return min(1.0, len(p) * p.min())

    for margin, but_for in ((0.0, ()), (little, ()), (2 * little, ()), (little, (1,)), (0.0, (2, 3))):
        found_p = steps._smallest_p(pair, margin=margin, but_for=but_for)
        assert found_p == pytest.approx(smallest(margin, but_for), rel=1e-6)
    assert smallest(0.0, ()) < smallest(little, ()) < smallest(2 * little, ())
    by_response = [smallest(0.01, (k,), range(4, 8)) for k in range(4)]
    assert len(set(by_response)) > 1
    assert by_response == pytest.approx(
        [steps._smallest_p(pair, margin=0.01, but_for=(k,), by_response=True) for k in range(4)], rel=1e-6
    )
    nearly = steps.cause(0, nearly=True, but_for=(1,))
    assert nearly.p_effect == pytest.approx(smallest(little, (1,)), rel=1e-6)


def test_what_reproduces_the_parts_nearly_is_told_only_if_nothing_reproduces_them(monkeypatch):
    found = periods("numbers", "sign while b moves", seed=5)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    assert steps.found() == ([0], [])
    assert steps.cause(0).kind == "neither alone"
    (cause,) = steps.causes([0], [])
    assert (str(cause.kind), cause.p_values) == ("effect", pytest.approx(steps.cause(0, nearly=True).p_values))
    assert cause.p_values <= 0.05 < cause.p_effect
    of_parts = steps.causes([0], [2])[0]  # the parts of b may differ
    assert of_parts == steps.cause(0, nearly=True, but_for=(2,))
    assert of_parts.p_effect > cause.p_effect
    exact = replace(cause, kind=LossKind.VALUES, p_values=0.2, p_effect=0.01)
    monkeypatch.setattr(steps, "cause", lambda feature, nearly, but_for: cause if nearly else exact)
    assert steps.causes([0], [2]) == (exact,)
    exact = replace(cause, kind=LossKind.NEITHER)
    assert steps.causes([0], [2]) == (cause,)
    cause = replace(cause, kind=LossKind.EITHER)
    assert steps.causes([0], [2]) == (exact,)


@pytest.mark.thorough
def test_nothing_is_a_cause_if_nothing_costs_more():
    loss = searched("numbers", None)
    assert loss.causes == ()
    assert loss.explained == ()


def means(window, values):
    """Means of the periods of a window, by definition."""
    of_period = [window.period == period for period in range(window.group.size)]
    return np.array([np.average(values[at], axis=0, weights=window.weight[at]) for at in of_period])


def parts_of(found, rows):
    ensemble = found[0].ensemble
    y = rows.y[:, -1] + ensemble.centre[-1]
    return loss_parts(ensemble, rows.X.astype(ensemble.routing_dtype), encode(y, ensemble, len(y)))


def saved(losses):
    mean = losses.sums / losses.sums[:, :1]
    return mean[:, 4:8], mean[:, 8:]


def test_the_rows_that_are_kept_have_the_parts_of_the_sums():
    found = periods("numbers", "values")
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, *windows(found))
    for own, part in zip(steps.losses, (found[:N_BEFORE], found[N_BEFORE:]), strict=True):
        expected = np.array([sums.loss_parts[4:] / sums.loss_parts[0] for sums in part])
        np.testing.assert_allclose(np.hstack(saved(own)), expected, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["numbers", "forest"])
def test_a_broken_reference_has_values_of_recent_rows(kind):
    found = periods(kind, "values")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    broken, recent = steps.broken([0, 2])
    assert recent is steps.losses[1]
    X = before.rows.X.copy()
    for feature in (0, 2):
        X[:, feature] = after.rows.X[steps.drawn[feature], feature]
    parts = parts_of(found, type(before.rows)(X, before.rows.y, before.rows.start))
    for own, values in zip(saved(broken), (parts.saved, parts.rows), strict=True):
        np.testing.assert_allclose(own, means(before, values), atol=1e-12)
    # The draws follow the weights of the recent rows, and do not depend on what else is broken.
    assert abs(X[:, 0].mean() - after.rows.X[:, 0].mean()) < 4 * X[:, 0].std() / np.sqrt(len(X))


def known_of(steps, feature, beside):
    """The columns by which responses of both windows are described, from the definition, and how many are the own."""
    X = [window.rows.X[:, feature] for window in steps._windows]
    both = np.clip(np.concatenate(X), max(x.min() for x in X), min(x.max() for x in X))
    phi = np.vstack([line.phi[:, :, 0] for line in steps._lines])
    functions = functions_of(both, False, MOST_FUNCTIONS)
    assert functions.shape[1] == MOST_FUNCTIONS
    return np.column_stack([phi[:, feature], functions, phi[:, beside]]), 1 + MOST_FUNCTIONS


def parts_without(steps, excess):
    """Means of periods of what features save if the mean responses were lower by this much."""
    before, after = steps._windows
    line = steps._lines[1]
    return means(after, line.phi[:, :, 0] * (line.slope - excess[:, None]))


@pytest.mark.thorough
@pytest.mark.parametrize("beside", [[], [1, 2]])
def test_a_mended_window_is_that_of_responses_without_the_change(beside):
    """By ridge regression of the residuals of each window on the Shapley values and functions of the column."""
    found = periods("numbers", "effect")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    reference, mended = steps.mended([0], beside)
    assert reference is steps.losses[0]
    known, n_own = known_of(steps, 0, beside)
    unit, n_before = known.std(axis=0), before.weight.size
    centre = found[0].ensemble.centre
    residual = np.concatenate([w.rows.y[:, 0] + centre - fitted("numbers").predict(w.rows.X) for w in (before, after)])
    change_of = []
    for window, at in ((before, slice(None, n_before)), (after, slice(n_before, None))):
        weight = window.weight / window.weight.mean()
        ridge = Ridge(alpha=1.0, tol=1e-12).fit(known[at] / unit, residual[at], sample_weight=weight)
        change_of.append(ridge.intercept_ + (known[n_before:] / unit)[:, :n_own] @ ridge.coef_[:n_own])
    excess = 2 * (change_of[1] - change_of[0])
    assert excess.std() > 1.0
    np.testing.assert_allclose(saved(mended)[0], parts_without(steps, excess), atol=1e-7)
    np.testing.assert_allclose(saved(mended)[1], saved(steps.losses[1])[1], atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", list(LGBM_SETTINGS))
def test_a_mended_window_of_slopes_that_are_not_linear_has_other_responses(kind):
    """The parts of the loss of rows with responses less their change, by ridge regression of the residuals."""
    found = periods(kind, "effect")
    before, after = windows(found)
    ensemble = found[0].ensemble
    steps = Steps.of(change(found), ensemble, GROUPING, before, after)
    _, mended = steps.mended([0], [1])
    known, n_own = known_of(steps, 0, [1])
    unit, n_before = known.std(axis=0), before.weight.size
    residual = np.concatenate([w.rows.y[:, 0] - fitted(kind).predict(w.rows.X) for w in (before, after)])
    change_of = []
    for window, at in ((before, slice(None, n_before)), (after, slice(n_before, None))):
        weight = window.weight / window.weight.mean()
        ridge = Ridge(alpha=1.0, tol=1e-12).fit(known[at] / unit, residual[at], sample_weight=weight)
        change_of.append(ridge.intercept_ + (known[n_before:] / unit)[:, :n_own] @ ridge.coef_[:n_own])
    excess = change_of[1] - change_of[0]
    assert excess.std() > 0.5
    predicted = fitted(kind).predict(after.rows.X)
    left = [residual[:n_before], residual[n_before:] - excess]
    spread = [np.abs(each - each.mean()).mean() for each in left]  # rows have equal weights here
    y = predicted + left[1].mean() + spread[0] / spread[1] * (left[1] - left[1].mean())
    parts = loss_parts(ensemble, after.rows.X.astype(ensemble.routing_dtype), encode(y, ensemble, y.size))
    np.testing.assert_allclose(saved(mended)[0], means(after, parts.saved), atol=1e-6)


@pytest.mark.thorough
def test_a_mended_window_of_classes_has_other_log_odds():
    """By the penalised likelihood beside the log odds of the model, with a general optimizer."""
    found = periods("classes", "effect")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    _, mended = steps.mended([0], [1])
    known, n_own = known_of(steps, 0, [1])
    design = np.column_stack([np.ones(len(known)), known / known.std(axis=0)])
    odds = np.concatenate([fitted("classes").decision_function(w.rows.X) for w in (before, after)])
    label = np.concatenate([w.rows.y[:, 0] for w in (before, after)])
    n_before, coefficients = before.weight.size, []
    for window, at in ((before, slice(None, n_before)), (after, slice(n_before, None))):

        def loss(b, at=at, window=window):
            weight, eta = window.weight / window.weight.mean(), odds[at] + design[at] @ b
            return weight @ (np.logaddexp(0, eta) - label[at] * eta) + (b[1:] ** 2).sum() / 2

        coefficients.append(minimize(loss, np.zeros(design.shape[1]), method="BFGS", options={"gtol": 1e-4}).x)
    now = odds[n_before:] + design[n_before:] @ coefficients[1]
    as_before = now - design[n_before:, : 1 + n_own] @ (coefficients[1] - coefficients[0])[: 1 + n_own]
    excess = expit(now) - expit(as_before)
    assert np.abs(excess).max() > 0.2
    np.testing.assert_allclose(saved(mended)[0], parts_without(steps, excess), atol=1e-4)


@pytest.mark.thorough
def test_columns_of_one_feature_are_broken_together():
    found = periods("numbers", "values")
    before, after = windows(found)
    grouping = Grouping(("pair", "b", "noise"), np.array([0, 0, 1, 2]))
    steps = Steps.of(change(found, grouping), found[0].ensemble, grouping, before, after)
    steps.broken([0])
    X = before.rows.X.copy()
    X[:, :2] = after.rows.X[steps.drawn[0]][:, :2]
    parts = parts_of(found, type(before.rows)(X, before.rows.y, before.rows.start))
    np.testing.assert_allclose(saved(steps.broken([0])[0])[0], means(before, parts.saved), atol=1e-12)


@pytest.mark.thorough
def test_large_windows_use_rows_of_all_parts_of_each_period(monkeypatch):
    found = periods("numbers", "values")
    whole = windows(found)[0]
    monkeypatch.setattr("debias.significance.kept_windows.MOST_ROWS", 14 * 30)
    few = windows(found)[0]
    assert few.weight.size == 14 * 30
    np.testing.assert_array_equal(np.bincount(few.period), np.full(14, 30))
    np.testing.assert_allclose(np.bincount(few.period, few.weight), np.bincount(whole.period, whole.weight))
    kept = np.flatnonzero(whole.period == 0)  # part after part
    np.testing.assert_array_equal(few.rows.X[:30], whole.rows.X[kept[evenly_spaced(kept.size, 30)]])


@pytest.mark.thorough
@pytest.mark.parametrize("value", [-0.7, -0.5])
def test_a_column_that_is_stuck_in_both_windows_is_no_cause_of_a_level_that_moved(value):
    """Its Shapley values are one number, up to rounding."""
    rng, blamed = np.random.default_rng(2), 0
    X, y = drawn(rng, 1500)
    model = GradientBoostingRegressor(n_estimators=60, max_depth=1, random_state=0).fit(X, y)
    for _ in range(6):
        found = [PeriodSums(model, kept_rows=N_ROWS) for _ in range(N_BEFORE + N_AFTER)]
        for number, sums in enumerate(found):
            X, y = drawn(rng, N_ROWS, level=1.5 * (number >= N_BEFORE))
            X[:, 2] = value
            sums.update(X, y)
        blamed += bool(with_causes(change(found), found[0].ensemble, GROUPING, *windows(found)).causes)
    assert blamed <= 2  # each with a probability of at most .05: .002


def test_parts_of_neighbours_keep_their_mean_unless_they_hardly_vary():
    """Else the level would take the change of the response to a column whose mean had moved before."""
    z = np.random.default_rng(0).normal(size=500)
    z = (z - z.mean()) / z.std()
    functions = np.column_stack([z, 1 + z, -2 + z / 2, 1e6 * (1 + z), 10 + z, np.full(500, 0.7), 0.7 + 1e-12 * z])
    found = _in_standard_units(functions)
    np.testing.assert_allclose(found.std(axis=0), 1)
    np.testing.assert_allclose(found, np.column_stack([z, 1 + z, z, 1 + z, z]), rtol=1e-6, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["sign", "both"])
def test_causes_are_the_same_in_every_unit_of_the_response(fault):
    """With a power of 2 as the unit, trees and rows are the same to the last bit."""
    of_units = []
    for unit in (1.0, 2.0**20):
        X, y = drawn(np.random.default_rng(0), 1500)
        model = GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X, unit * y)
        found = [PeriodSums(model, kept_rows=N_ROWS) for _ in range(N_BEFORE + N_AFTER)]
        for number, sums in enumerate(found):
            recent = number >= N_BEFORE
            X, y = drawn(np.random.default_rng([1, number]), N_ROWS, -1.0 if recent and fault == "sign" else 1.0)
            if recent and fault == "both":
                X[:, [0, 2]] = np.random.default_rng(number).permuted(X[:, [0, 2]], axis=0)
            sums.update(X, unit * y)
        of_units.append(with_causes(change(found), found[0].ensemble, GROUPING, *windows(found)).causes)
    one, other = of_units
    assert len(one) == (1 if fault == "sign" else 2)
    assert [(cause.feature, cause.kind) for cause in one] == [(cause.feature, cause.kind) for cause in other]
    p_values = [[(cause.p_values, cause.p_effect) for cause in causes] for causes in of_units]
    np.testing.assert_allclose(*p_values, rtol=1e-6)


@pytest.mark.thorough
def test_the_same_rows_give_the_same_causes():
    found = periods("classes", "effect")
    ensemble, both = found[0].ensemble, windows(found)
    one, other = (with_causes(change(found), ensemble, GROUPING, *both) for _ in range(2))
    assert one.causes == other.causes
