"""Whether something is left along a column: by matrices of all pairs of rows, its level, and what it finds."""

import numpy as np
import pytest
from scipy.stats import norm

import debias
from debias.significance.additive_functions import functions_of, orthonormal, standardised
from debias.significance.misfit import NEIGHBOURS, p_left


def fit(columns, y, most):
    """What least squares on functions of columns leave, and an orthonormal basis of what was fitted."""
    ones = np.ones(len(y))
    functions = np.column_stack([functions_of(x, False, k) for x, k in zip(columns, most, strict=True)])
    basis = orthonormal(standardised(functions, ones), ones)
    return y - basis @ (basis.T @ y), basis


def pairs_of(x, block):
    """Which pairs of rows are compared, from the definition: a matrix of 0 and 1."""
    same = x[:, None] == x[None, :]
    if (same.sum(axis=1) - 1).mean() >= 2:
        compared = same
    else:
        place = np.argsort(np.argsort(x))
        assert np.unique(x).size == x.size  # the order of equal values is random
        compared = np.abs(place[:, None] - place[None, :]) <= NEIGHBOURS
    apart = ~np.eye(x.size, dtype=bool) if block is None else block[:, None] != block[None, :]
    return (compared & apart).astype(float)


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("kind", ["codes", "numbers"])
@pytest.mark.parametrize("ridge", [0.0, 30.0])
def test_by_matrices_of_all_pairs(kind, blocks, ridge):
    rng = np.random.default_rng(1)
    n = 120
    x = rng.integers(0, 25, n).astype(float) if kind == "codes" else rng.normal(size=n)
    y = 0.7 * rng.normal(size=25)[x.astype(int)] + rng.normal(size=n) if kind == "codes" else np.sin(9 * x)
    block = rng.integers(0, 40, n) if blocks else None
    left, basis = fit([x], y + rng.standard_t(4, n), [6])
    hat = basis @ basis.T
    if ridge:
        basis = basis / np.sqrt(1 + ridge / n)
        hat = basis @ basis.T
        left = (np.eye(n) - hat) @ (y + rng.standard_t(4, n))
    W, leaves = pairs_of(x, block), np.eye(n) - hat
    variance = left @ left / np.trace(leaves @ leaves)
    mean = variance * np.trace(W @ leaves @ leaves)
    bound = 2 * variance**2 * np.trace(W @ leaves @ leaves @ W)
    bound *= max(1.0, left**2 @ W @ left**2 / (variance**2 * W.sum()))
    expected = norm.sf((left @ W @ left - mean) / np.sqrt(bound))
    assert p_left(x, left, basis, block) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["codes", "uneven codes", "numbers"])
def test_nothing_is_left_of_an_additive_model_that_holds(kind):
    rng, n, low = np.random.default_rng(2), 400, 0
    for _ in range(300):
        x = {
            "codes": lambda: rng.integers(0, 60, n),
            "uneven codes": lambda: (rng.pareto(1.5, n) * 20).astype(int),
            "numbers": lambda: rng.normal(size=n),
        }[kind]().astype(float)
        z = rng.normal(size=n)
        left, basis = fit([x, z], z + rng.normal(size=n), [20, 10])
        low += p_left(x, left, basis, None) <= 0.05
    # Three standard errors of a binomial share above the level.
    assert low / 300 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_missing_values_and_one_value_for_each_row_are_no_error():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=200), rng.normal(size=200)
    x[:50] = np.nan
    left, basis = fit([x], y, [8])
    assert 0 < p_left(x, left, basis, None) <= 1
    assert p_left(x, left, basis, np.zeros(200, dtype=np.int64)) == 1.0  # all rows are in one block


def coded(seed, n=2000, n_values=700):
    """A code with an effect of its own for each value, and a number that goes with it: the response is additive."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, n_values, n).astype(float)
    number = 0.9 * rng.normal(size=n_values)[code.astype(int)] + 0.45 * rng.normal(size=n)
    X = np.column_stack([code, number, rng.normal(size=(n, 2))])
    y = 2 * rng.normal(size=n_values)[code.astype(int)] + number + X[:, 2] + 0.5 * rng.normal(size=n)
    return X, y


def forest(X, y):
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(30, min_samples_leaf=3, random_state=0).fit(X, y)


@pytest.mark.thorough
def test_pairs_with_a_code_of_too_many_values_are_not_tested():
    """Without the check the pair of the code and the number that goes with it is confirmed."""
    X, y = coded(0)
    found = debias.interactions(forest(X[:1000], y[:1000]), X[1000:], y[1000:], rows="held-out")
    code = found.feature_names[0]
    assert found.unfollowed == (code,)
    tested = {members: known for members, known in zip(found.sets, found.tested.tolist(), strict=True)}
    assert all(known != (code in members) for members, known in tested.items())
    assert found.confirmed == []
    (told,) = [text for text in found.summary() if "do not follow" in text]
    assert told.startswith(f"3 interactions with {code} were not tested: the additive functions do not follow")
    assert not [text for text in found.summary() if "one is tested for every 20 rows" in text]
    again = type(found).from_json(found.to_json())
    assert again.unfollowed == found.unfollowed
    assert again.summary() == found.summary()


@pytest.mark.thorough
def test_without_the_check_a_false_pair_is_confirmed(monkeypatch):
    monkeypatch.setattr("debias.significance.interactions.LEVEL_OF_MISFIT", 0.0)
    X, y = coded(0)
    found = debias.interactions(forest(X[:1000], y[:1000]), X[1000:], y[1000:], rows="held-out")
    assert found.confirmed == [found.feature_names[:2]]


def test_a_code_with_four_rows_for_each_value_has_an_indicator_of_each():
    X, y = coded(1, n=2400, n_values=80)
    found = debias.interactions(forest(X[:800], y[:800]), X[800:], y[800:], rows="held-out")
    assert found.unfollowed == ()
    assert found.tested.all()
    assert found.confirmed == []
    assert found.n_functions > 80
