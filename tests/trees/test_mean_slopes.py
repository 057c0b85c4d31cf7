"""The mean slope of every loss: against numerical integration of the gradient, and as the loss that a step saves."""

import numpy as np
import pytest
from scipy.integrate import quad, quad_vec

import debias
from debias.trees.mean_slopes import _SLOPES, mean_slope, y_as_predicted
from debias.trees.objectives import LOSSES, CustomObjective, Objective

PARAMETERS = {"quantile": 0.3, "expectile": 0.7, "huber": 0.8, "fair": 0.6, "tweedie": 1.4, "logistic": 1.3}
KNOTS = {
    "huber": lambda y, a: (y - a, y + a),
    "hinge": lambda y, a: (-1, 1),
    "squared_log_error": lambda y, a: (-1 + 1e-6,),
}
ENDS = [(-2.0, 1.5), (0.3, 0.1), (0.7, 0.7), (-0.2, -0.2 + 1e-9), (-0.5, 6.0), (1.0, -0.9)]


def objective(name):
    return Objective(name, (PARAMETERS.get(name, 1.0),))


def responses(name):
    if name in ("logistic", "hinge", "exponential"):
        return [0.0, 1.0]
    return (
        [0.0, 0.4, 0.7, 3.0] if name in ("poisson", "gamma", "tweedie", "squared_log_error") else [-1.0, 0.1, 0.7, 9.0]
    )


def test_every_loss_has_a_mean_slope():
    assert _SLOPES.keys() == LOSSES.keys()


@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_slope_is_the_integral_of_the_gradient(name):
    chosen = objective(name)
    for y in responses(name):
        for first, last in ENDS:
            if name == "squared_log_error":
                first, last = first + 1.2, last + 1.2
            target = np.array([[y]])

            def slope(u, first=first, last=last, target=target):
                gradient = chosen.response(target, np.array([[first + u * (last - first)]])).item()
                return 2 * gradient if name == "squared_error" else gradient

            knots = KNOTS.get(name, lambda y, a: (y,))(y, PARAMETERS.get(name, 1.0))
            inside = [(k - first) / (last - first) for k in knots if min(first, last) < k < max(first, last)]
            expected = quad(slope, 0, 1, points=inside or None, epsabs=1e-12, epsrel=1e-12)[0]
            found = mean_slope(chosen, target, np.array([[first]]), np.array([[last]])).item()
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-10), (name, y, first, last)


@pytest.mark.parametrize("name", LOSSES)
def test_the_step_times_the_mean_slope_is_the_loss_that_it_saves(name):
    rng = np.random.default_rng(0)
    chosen = objective(name)
    first, last = rng.normal(size=(2, 500, 1)) * 2
    last[:100] = first[:100] + rng.normal(size=(100, 1)) * 1e-7
    y = rng.choice(responses(name), size=(500, 1))
    saved = ((last - first) * mean_slope(chosen, y, first, last)).sum(axis=1)
    losses = chosen.loss(y, first), chosen.loss(y, last)
    # Where the step is small, the difference of the losses has lost its digits, and not the product.
    np.testing.assert_allclose(saved, losses[0] - losses[1], rtol=1e-12, atol=1e-14 * max(map(np.max, losses)))


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1.0, 6.9, 30.0, 80.0])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_mean_of_softmax_has_an_error_below_1e_12(spread, n_classes):
    rng = np.random.default_rng(1)
    first = rng.normal(size=(6, n_classes)) * 3
    step = rng.uniform(size=(6, n_classes))
    step *= spread / np.ptp(step, axis=1, keepdims=True)
    y = np.eye(n_classes)[rng.integers(0, n_classes, 6)]
    chosen = Objective("softmax")
    found = mean_slope(chosen, y, first, first + step)
    for row in range(6):
        expected = quad_vec(
            lambda u, row=row: chosen.mean(first[row] + u * step[row]), 0, 1, epsabs=1e-14, epsrel=1e-14, limit=10_000
        )[0]
        np.testing.assert_allclose(found[row], y[row] - expected, atol=1e-12)
    saved = (step * found).sum(axis=1)
    np.testing.assert_allclose(saved, chosen.loss(y, first) - chosen.loss(y, first + step), atol=1e-12 * (1 + spread))


@pytest.mark.parametrize("parameter", [1.0, 0.4])
def test_two_classes_of_softmax_are_the_logistic_loss(parameter):
    first, last = np.random.default_rng(2).normal(size=(2, 50, 1)) * 4
    y = (np.arange(50) % 2)[:, None].astype(float)
    one = mean_slope(Objective("logistic", (parameter,)), y, first, last)
    zeros = np.zeros_like(first)
    two = mean_slope(
        Objective("softmax"),
        np.hstack([1 - y, y]),
        np.hstack([zeros, parameter * first]),
        np.hstack([zeros, parameter * last]),
    )
    np.testing.assert_allclose(one[:, 0], parameter * two[:, 1], atol=1e-13)


def test_long_steps_do_not_overflow():
    y, first, last = np.array([[1.0]]), np.array([[-2000.0]]), np.array([[1000.0]])
    # softplus(1000) - softplus(-2000) is 1000.
    assert mean_slope(Objective("logistic"), y, first, last).item() == pytest.approx(1 - 1000 / 3000, rel=1e-12)
    both = mean_slope(Objective("gamma"), y, np.array([[800.0]]), np.array([[0.0]])).item()
    assert both == pytest.approx(1 / 800 - 1, rel=1e-12)


@pytest.mark.parametrize("name", [*LOSSES, "softmax"])
def test_the_slope_at_the_margin_is_0_if_the_response_is_as_predicted(name):
    chosen = objective(name)
    margin = np.random.default_rng(3).normal(size=(40, 3)) / 3
    y = y_as_predicted(chosen, margin)
    chosen.check(y)
    if name == "quantile":  # its kink is there: the slopes on the two sides have different signs
        assert (y == margin).all()
    elif name == "hinge":  # the label that is predicted
        assert (y == (margin > 0)).all()
    elif name == "exponential":  # of labels 0 and 1: with the probability y of the label 1
        zero, one = (chosen.response(np.full_like(margin, label), margin) for label in (0, 1))
        np.testing.assert_allclose(y * one + (1 - y) * zero, 0, atol=1e-15)
    else:
        np.testing.assert_allclose(chosen.response(y, margin), 0, atol=1e-15)


def test_a_loss_that_is_not_known_is_refused():
    custom = CustomObjective("mine", gradient=lambda y, margin: margin - y)
    with pytest.raises(debias.plugin.CompositionError, match="custom objective gives only its gradient"):
        mean_slope(custom, np.ones((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))
