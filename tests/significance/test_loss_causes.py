"""Causes of a change of the loss: against the parts of rows with broken values and mended responses, and by faults."""

from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor

from debias.data.groups import Grouping
from debias.data.response import encode
from debias.positions import evenly_spaced
from debias.rows.loss_parts import loss_parts
from debias.rows.period_sums import PeriodSums
from debias.significance.change import compare_windows, groups_of
from debias.significance.loss_causes import KeptWindow, Steps, with_causes

NAMES = ("a", "twin", "b", "noise")
GROUPING = Grouping.of(None, NAMES)
N_BEFORE, N_AFTER, N_ROWS = 14, 10, 80


def drawn(rng, n, effect=1.0):
    """Rows in which the twin goes with a, and a response that depends on both, and on b."""
    X = rng.normal(size=(n, 4))
    X[:, 1] = 0.9 * X[:, 0] + 0.45 * X[:, 1]
    return X, effect * X[:, 0] + 0.5 * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=n)


@cache
def fitted(kind):
    X, y = drawn(np.random.default_rng(0), 1500)
    if kind == "classes":
        return GradientBoostingClassifier(n_estimators=40, random_state=0).fit(X, y > 0)
    if kind == "forest":
        return RandomForestRegressor(20, max_depth=7, random_state=0).fit(X, y)
    return GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X, y)


def periods(kind, fault, seed=1, kept_rows=N_ROWS):
    """Sums of periods, with a fault in the last ones."""
    rng = np.random.default_rng(seed)
    empty, found = PeriodSums(fitted(kind), kept_rows=kept_rows), []
    for number in range(N_BEFORE + N_AFTER):
        recent = number >= N_BEFORE
        X, y = drawn(rng, N_ROWS, effect=0.0 if recent and fault == "effect" else 1.0)
        if recent and fault in ("values", "both"):
            X[:, 0] = rng.permutation(X[:, 0])
        if recent and fault == "unit":
            X[:, 0] *= 100
        if recent and fault == "both":
            X[:, 2] = rng.permutation(X[:, 2])
        sums = empty.empty()
        sums.update(X, y > 0 if kind == "classes" else y)
        found.append(sums)
    return found


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
    # Log odds are not linear in the Shapley values of a feature whose effect is gone, so the slope may not tell all.
    assert cause.kind == ("effect" if cause.p_effect > loss.level else "neither alone")
    assert kind == "classes" or cause.kind == "effect"


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
def test_two_broken_features_are_two_causes_and_neither_alone_is_enough():
    loss = searched("numbers", "both")
    assert {cause.feature for cause in loss.causes} == {"a", "b"}
    assert {str(cause.kind) for cause in loss.causes} == {"neither alone"}


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
    y = rows.y[:, 0] + ensemble.centre
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


@pytest.mark.thorough
def test_a_mended_window_is_that_of_responses_without_the_change_of_the_slope():
    """The squared error of y less the fitted change of its residuals has the same parts."""
    found = periods("numbers", "effect")
    before, after = windows(found)
    steps = Steps.of(change(found), found[0].ensemble, GROUPING, before, after)
    reference, mended = steps.mended([0])
    assert reference is steps.losses[0]
    slopes, centred = [], []
    for window in (before, after):
        parts = parts_of(found, window.rows)
        ensemble = found[0].ensemble
        from debias.trees.shapley import shapley_values

        phi = shapley_values(ensemble, window.rows.X.astype(ensemble.routing_dtype))[:, 0, 0]
        residual = window.rows.y[:, 0] + ensemble.centre - fitted("numbers").predict(window.rows.X)
        slopes.append(np.polyfit(phi, residual, 1, w=np.sqrt(window.weight))[0])
        centred.append(phi - np.average(phi, weights=window.weight))
    y = after.rows.y - ((slopes[1] - slopes[0]) * centred[1])[:, None]
    parts = parts_of(found, type(after.rows)(after.rows.X, y, after.rows.start))
    np.testing.assert_allclose(saved(mended)[0], means(after, parts.saved), atol=1e-9)
    np.testing.assert_allclose(saved(mended)[1], means(after, parts.rows), atol=1e-12)


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
    monkeypatch.setattr("debias.significance.loss_causes.MOST_ROWS", 14 * 30)
    few = windows(found)[0]
    assert few.weight.size == 14 * 30
    np.testing.assert_array_equal(np.bincount(few.period), np.full(14, 30))
    np.testing.assert_allclose(np.bincount(few.period, few.weight), np.bincount(whole.period, whole.weight))
    kept = np.flatnonzero(whole.period == 0)  # part after part
    np.testing.assert_array_equal(few.rows.X[:30], whole.rows.X[kept[evenly_spaced(kept.size, 30)]])


@pytest.mark.thorough
def test_the_same_rows_give_the_same_causes():
    found = periods("classes", "effect")
    ensemble, both = found[0].ensemble, windows(found)
    one, other = (with_causes(change(found), ensemble, GROUPING, *both) for _ in range(2))
    assert one.causes == other.causes
