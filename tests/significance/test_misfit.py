"""Whether something is left along a column: by matrices of all pairs of rows, its level, and what it finds."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import debias
from debias.errors import RowsError
from debias.significance.additive_functions import functions_of, orthonormal, standardised
from debias.significance.interactions import _Ridge, _Sample
from debias.significance.links import LOG
from debias.significance.misfit import NEIGHBOURS, Remains


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
@pytest.mark.parametrize("weighted", [False, True])
def test_by_matrices_of_all_pairs(kind, blocks, ridge, weighted):
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
    weight = rng.uniform(0.2, 3, n) if weighted else np.ones(n)
    pairs, leaves = pairs_of(x, block), np.eye(n) - hat
    W = np.sqrt(weight)[:, None] * pairs * np.sqrt(weight)
    variance = left @ left / np.trace(leaves @ leaves)
    mean = variance * np.trace(W @ leaves @ leaves)
    bound = 2 * variance**2 * np.trace(W @ leaves @ leaves @ W)
    large = weight * left**2
    bound *= max(1.0, large @ pairs @ large / (variance**2 * (W**2).sum()))
    expected = norm.sf((left @ W @ left - mean) / np.sqrt(bound))
    assert Remains(left, basis, weight, block).p_value(x) == pytest.approx(expected, rel=1e-9)


@pytest.mark.thorough
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
        low += Remains(left, basis, np.ones(len(x)), None).p_value(x) <= 0.05
    # Three standard errors of a binomial share above the level.
    assert low / 300 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.thorough
def test_an_interaction_leaves_nothing_along_its_columns():
    """Of counts too: what is left is 0 on average with the weights of the fit, and not without them."""
    rng, low, unweighted = np.random.default_rng(5), 0, 0
    for _ in range(60):
        x = np.sqrt(0.7) * rng.normal(size=(800, 3)) + np.sqrt(0.3) * rng.normal(size=(800, 1))
        y = rng.poisson(np.exp(np.minimum(0.9 * x[:, 0] * x[:, 1] + 0.5 * x[:, 2], 6))).astype(float)
        ones = np.ones(800)
        functions = np.column_stack([functions_of(column, False, 20) for column in x.T])
        sample = _Sample(y, ones, 0 * ones, LOG, None)
        remains = _Ridge(sample, standardised(functions, ones)).remains()
        low += remains.p_value(x[:, 0]) <= 0.01
        remains._weight = ones
        unweighted += remains.p_value(x[:, 0]) <= 0.01
    # Three standard errors of a binomial share above the level.
    assert low / 60 <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / 60) < unweighted / 60


def test_missing_values_and_one_value_for_each_row_are_no_error():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=200), rng.normal(size=200)
    x[:50] = np.nan
    left, basis = fit([x], y, [8])
    assert 0 < Remains(left, basis, np.ones(len(x)), None).p_value(x) <= 1
    one_block = np.zeros(200, dtype=np.int64)
    assert Remains(left, basis, np.ones(200), one_block).p_value(x) == 1.0


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
    tested = dict(zip(found.sets, found.tested.tolist(), strict=True))
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


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # few rows look like others than those of the training
def test_the_number_of_rows_in_the_error_is_enough():
    """Of columns as in these rows; with groups and missing values, whose functions grow too."""
    from xgboost import XGBRegressor

    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(1200, 20))).rename(columns=lambda k: f"c{k}")
    y = X.c0 * X.c1 + X.c2 + rng.normal(size=1200)
    model = XGBRegressor(n_estimators=60, max_depth=4, n_jobs=1).fit(X[:600], y[:600])
    for given in (X, X.mask(rng.random(X.shape) < 0.1)):
        for groups in (None, {"ten": [f"c{k}" for k in range(10)]}):

            def tested(n, given=given, groups=groups):
                return debias.interactions(
                    model, given[600 : 600 + n], y[600 : 600 + n], rows="held-out", groups=groups
                )

            for n in (1, 60, 150):
                rows = "1 row is" if n == 1 else f"{n} rows are"
                with pytest.raises(RowsError, match=f"^{rows} too few for additive functions of 20 columns") as raised:
                    tested(n)
                enough = int(re.search(r"need about (\d+) rows", str(raised.value))[1])
                if n > 1:
                    assert tested(enough).n_rows == enough


def test_a_code_with_four_rows_for_each_value_has_an_indicator_of_each():
    X, y = coded(1, n=2400, n_values=80)
    found = debias.interactions(forest(X[:800], y[:800]), X[800:], y[800:], rows="held-out")
    assert found.unfollowed == ()
    assert found.tested.all()
    assert found.confirmed == []
    assert found.n_functions > 80
