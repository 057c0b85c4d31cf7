"""LightGBM stores "_" for a blank in the name of a column: results have the names of X, and X may have either."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor

import debias

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(900, 3)), columns=["worst area", "plain", "c"])
Y = X["worst area"] * (1 + X["plain"]) + RNG.normal(size=900)
STORED = X.rename(columns={"worst area": "worst_area"})
TRAIN, TEST = slice(0, 400), slice(400, 900)


@pytest.fixture(scope="module")
def model():
    return LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2009", "\t"])
def test_other_white_space_is_kept_by_lightgbm_and_by_results(space):
    names = [f"mean{space}size", "b c", "c"]
    table = X.set_axis(names, axis=1)
    model = LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(table[TRAIN], Y[TRAIN])
    assert model.booster_.feature_name() == [names[0], "b_c", "c"]
    assert debias.score(model, table[TEST], Y[TEST], rows="held-out").feature_names == tuple(names)


@pytest.mark.parametrize("pair", [("worst area", "plain"), ("plain", "worst_area")])
def test_a_history_takes_rows_and_pairs_named_either_way(model, pair, tmp_path):
    history = debias.History(model, tmp_path / "a.history", interactions=[pair])
    for k in range(5):
        rows = slice(400 + 100 * k, 500 + 100 * k)
        history.add((X, STORED)[k % 2][rows], Y[rows], at=k + 1, rows="held-out")
    changes = history.changes(2)
    assert changes.feature_names == tuple(X)
    assert len(history.periods) == 5


def test_histories_of_rows_named_either_way_are_merged(model, tmp_path):
    one, other = (debias.History(model, tmp_path / f"{name}.history") for name in ("one", "other"))
    one.add(X[400:600], Y[400:600], at=1, rows="held-out")
    other.add(STORED[600:800], Y[600:800], at=2, rows="held-out")
    one.merge(tmp_path / "other.history")
    assert list(one.scores().columns) == list(X)
    assert len(one.scores()) == 2


def test_a_baseline_with_the_stored_names_is_compared(model):
    new = debias.audit(model, X[TEST], Y[TEST], rows="held-out", random_state=0)
    old = debias.audit(model, STORED[400:650], Y[400:650], rows="held-out", random_state=0)
    assert "worst_area" in old.to_frame().index
    gate = new.check({"max_rank_change": 0, "max_verdict_changes": 3}, baseline=old)
    [ranks] = [result for result in gate.results if result.rule == "max_rank_change"]
    assert ranks.reason == "compared 3 features that both models have"
    assert not any("only in the baseline" in text for text in gate.warnings)
