"""Work grows with the number of features and not with its square: names are looked up, not searched for."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.data.blocks import FINE, REPEATED, _without_masses
from debias.data.table import Table, column_order
from support.audits import made


class Named:
    """As much of an ensemble as the order of columns asks for."""

    named = spaces_in_names = True

    def __init__(self, n):
        self.feature_names = tuple(f"a long name of feature {k}" for k in range(n))
        self.n_features = n

    def stored_name(self, name):
        return name if self.spaces_in_names else name.replace(" ", "_")


@pytest.mark.thorough
def test_the_report_asks_each_verdict_once(monkeypatch):
    asked = []
    verdict = debias.Audit.verdict.fget
    monkeypatch.setattr(debias.Audit, "verdict", property(lambda audit: asked.append(1) or verdict(audit)))
    counts = []
    for n in (200, 800):  # in both, pictures leave features out
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
        for name, codes, chance in every:
            told_apart = _without_masses(codes)
            if (np.bincount(told_apart)[told_apart] > 1).mean() > REPEATED:
                wanted.append((name, codes, chance))
        assert 20 < len(wanted) <= len(found) < len(every)
        for name, codes, chance in wanted:
            assert any(
                (name, chance) == (other_name, other) and (codes == found_codes).all()
                for other_name, found_codes, other in found
            )


def test_columns_that_are_one_to_the_model_are_refused():
    ensemble = Named(2)
    ensemble.feature_names, ensemble.spaces_in_names = ("b_c", "a"), False
    with pytest.raises(debias.RowsError, match="several columns of X"):
        column_order(("b c", "b_c", "a"), 3, ensemble)


@pytest.mark.parametrize("largest", [1e300, 1e-300, 1e101])
def test_weights_whose_squares_are_no_floats_are_named(largest):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    forest = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])
    fresh = rng.normal(size=(60, 3))
    with pytest.raises(debias.RowsError, match=r"the largest sample_weight is .* Divide all weights"):
        debias.audit(forest, fresh, fresh[:, 0], sample_weight=np.full(60, largest))
    sums = debias.NodeSums(forest)
    with pytest.raises(debias.RowsError, match="the largest sample_weight is"):
        sums.update(fresh, fresh[:, 0], sample_weight=np.full(60, largest))
    one, other = (debias.score(forest, fresh, fresh[:, 0], sample_weight=np.full(60, w)).values for w in (1.0, 1e100))
    np.testing.assert_allclose(one, other, rtol=1e-9)
