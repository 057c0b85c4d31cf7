"""Work grows with the number of features and not with its square: names are looked up, not searched for."""

import time

import numpy as np
import pandas as pd
import pytest
from audits import made
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.blocks import FINE, REPEATED, _without_masses
from debias.fingerprints import distinct_values
from debias.groups import Grouping
from debias.table import Table, column_order

MANY, FEW = 80_000, 10_000


def seconds(call):
    """Return the least time of three calls."""
    took = []
    for _ in range(3):
        begun = time.process_time()
        call()
        took.append(time.process_time() - begun)
    return min(took)


class Named:
    """As much of an ensemble as the order of columns asks for."""

    named = True

    def __init__(self, n):
        self.feature_names = tuple(f"a long name of feature {k}" for k in range(n))
        self.n_features = n


def of_order(n):
    ensemble = Named(n)
    names = tuple(reversed(ensemble.feature_names))
    return lambda: column_order(names, n, ensemble)


def of_values(n):
    X, grouping = np.zeros((4, n)), Grouping.of(None, tuple(map(str, range(n))))
    return lambda: distinct_values(X, grouping)


def of_repeats(n):
    table = Table(pd.DataFrame(np.zeros((4, n)), columns=[f"f{k}" for k in range(n)]))
    return lambda: list(table.fine_columns(FINE, REPEATED))


def of_groups(n):
    names = tuple(f"f{k}" for k in range(n))
    groups = {"all": names}
    return lambda: Grouping.of(groups, names)


@pytest.mark.parametrize("of", [of_order, of_values, of_repeats, of_groups])
def test_time_grows_with_the_number_of_features_and_not_its_square(of):
    of(10)()
    ratio = seconds(of(MANY)) / max(seconds(of(FEW)), 1e-3)
    assert ratio < 30, f"eight times the features took {ratio:.1f} times as long"


def test_the_report_asks_each_verdict_once(monkeypatch):
    asked = []
    verdict = debias.Audit.verdict.fget
    monkeypatch.setattr(debias.Audit, "verdict", property(lambda audit: asked.append(1) or verdict(audit)))
    counts = []
    for n in (50, 400):
        asked.clear()
        made([f"f{k}" for k in range(n)]).to_html()
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_repeats_are_those_a_column_at_a_time_has():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 3] = X[:, 4] = X[::-1, 5]
    X[100:, 7:30] = X[:100, 7:30]
    X[:, 20] = 0
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(40)])
    for table in (Table(X), Table(frame)):
        found = list(table.fine_columns(FINE, REPEATED))
        every = list(table.fine_columns(FINE, -1.0))
        wanted = []
        for codes, chance in every:
            told_apart = _without_masses(codes)
            if (np.bincount(told_apart)[told_apart] > 1).mean() > REPEATED:
                wanted.append((codes, chance))
        assert 20 < len(wanted) <= len(found) < len(every)
        for codes, chance in wanted:
            assert any(chance == other and (codes == found_codes).all() for found_codes, other in found)


def test_columns_that_are_one_to_the_model_are_refused():
    ensemble = Named(2)
    ensemble.feature_names = ("b_c", "a")
    with pytest.raises(debias.RowsError, match="several columns of X"):
        column_order(("b c", "b_c", "a"), 3, ensemble)


@pytest.mark.parametrize("largest", [1e300, 1e-300, 1e101])
def test_weights_whose_squares_are_no_floats_are_named(largest):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    forest = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])
    fresh = rng.normal(size=(60, 3))
    with pytest.raises(debias.RowsError, match=r"sample_weight has .* divide the weights"):
        debias.audit(forest, fresh, fresh[:, 0], sample_weight=np.full(60, largest))
    sums = debias.NodeSums(forest)
    with pytest.raises(debias.RowsError, match="sample_weight has"):
        sums.update(fresh, fresh[:, 0], sample_weight=np.full(60, largest))
    one, other = (debias.score(forest, fresh, fresh[:, 0], sample_weight=np.full(60, w)).values for w in (1.0, 1e100))
    np.testing.assert_allclose(one, other, rtol=1e-9)
