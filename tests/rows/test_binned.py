"""The lines of binned features, against a loop over features and bins."""

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.rows.binned import Binned


def test_lines_are_middle_ranks_and_a_second_line_tells_of_missing_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 7))
    X[:, 1] = np.round(X[:, 1])
    X[:, 2] = 1.0
    X[rng.random((200, 7)) < [0, 0.1, 0, 0.2, 0, 1, 0]] = np.nan
    model = RandomForestRegressor(2, random_state=0).fit(np.nan_to_num(X), rng.normal(size=200))
    binned = Binned(debias.plugin.extract(model), X, 16)
    binned.categorical[6] = True
    expected = []
    for feature in range(6):
        train, n_bins = binned.train[feature], int(binned.n_bins[feature])
        known = [int((train == code).sum()) for code in range(n_bins)]
        ranks = [(sum(known[:code]) + known[code] / 2) / max(sum(known), 1) - 0.5 for code in range(n_bins)]
        expected.append((feature, ranks))
        if (train == n_bins).any():
            expected.append((feature, [0.0] * n_bins + [1.0]))
    feature_of_line, value_of_code = binned.lines
    assert feature_of_line.tolist() == [feature for feature, _ in expected] == [0, 1, 1, 2, 3, 3, 4, 5, 5]
    assert value_of_code.shape == (9, binned.n_bins.max() + 1)
    for found, (_, values) in zip(value_of_code, expected, strict=True):
        np.testing.assert_allclose(found[: len(values)], values, rtol=1e-15)
        assert np.isnan(found[len(values) :]).all()


def test_bins_are_the_numbers_of_edges_below_each_value():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    X[:, 1] = np.round(X[:, 1])
    X[:, 2] = 1.0
    X[:, 3] = rng.integers(0, 4, 300)
    X[rng.random((300, 6)) < [0.1, 0.1, 0, 0.1, 0, 0]] = np.nan
    model = RandomForestRegressor(2, random_state=0).fit(np.nan_to_num(X), rng.normal(size=300))
    for bins in (2, 7, 256):
        binned = Binned(debias.plugin.extract(model), X, bins)
        fresh = np.concatenate([X, X + 0.5, [[np.inf] * 6, [-np.inf] * 6]])
        found = binned.of(fresh)
        for feature, edges in enumerate(binned.edges):
            below = (edges < fresh[:, feature, None]).sum(axis=1)
            expected = np.where(np.isnan(fresh[:, feature]), binned.n_bins[feature], below)
            np.testing.assert_array_equal(found[feature], expected)


def test_unknown_levels_and_missing_values_have_the_last_bin():
    X = np.array([[0.0, 2.0, 2.0, 5.0, np.nan, 9.0], [0.0] * 6]).T
    binned = Binned(debias.plugin.extract(RandomForestRegressor(2).fit(np.nan_to_num(X), X[:, 1])), X, 256)
    binned.categorical[0], binned.edges[0], binned.n_bins[0] = True, np.array([0.0, 2.0, 5.0, 9.0]), 4
    fresh = np.array([[-1.0, 0.0, 1.0, 5.0, 9.0, 10.0, np.nan], [0.0] * 7]).T
    assert binned.of(fresh)[0].tolist() == [4, 0, 4, 2, 3, 4, 4]


def test_features_that_are_all_categories_have_no_lines():
    X = np.arange(40.0).reshape(20, 2)
    binned = Binned(debias.plugin.extract(RandomForestRegressor(2).fit(X, X[:, 0])), X, 256)
    binned.categorical[:] = True
    feature_of_line, value_of_code = binned.lines
    assert feature_of_line.size == 0
    assert value_of_code.shape == (0, 21)
