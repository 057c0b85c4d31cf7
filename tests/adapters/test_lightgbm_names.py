"""LightGBM stores "_" for a blank in the name of a column: results have the names of X, and X may have either."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from xgboost import XGBRegressor

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


def test_an_exact_name_of_the_baseline_wins():
    both = X.assign(worst_area=RNG.normal(size=900))
    old, new = (XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1).fit(t[TRAIN], Y[TRAIN]) for t in (X, both))
    baseline = debias.audit(old, X[TEST], Y[TEST], rows="held-out", random_state=0)
    audit = debias.audit(new, both[TEST], Y[TEST], rows="held-out", random_state=0)
    gate = audit.check({"max_verdict_changes": 1}, baseline=baseline)
    assert not any("worst_area" in result.reason for result in gate.results)
    assert any("worst_area" in text and "new in this model" in text for text in gate.warnings)


def test_node_sums_take_rows_named_either_way(model):
    sums, others = debias.NodeSums(model), debias.NodeSums(model)
    for k, part in enumerate((slice(400, 600), slice(600, 900))):
        sums.update((X, STORED)[k][part], Y[part])
        others.update(X[part], Y[part])
    assert sums.ensemble.feature_names == tuple(X)
    for name, array in others.state().items():
        np.testing.assert_array_equal(sums.state()[name], array)


def test_scorers_of_data_have_the_names_of_x(model):
    assert debias.score(model, X[TEST], Y[TEST], "guide").feature_names == tuple(X)


def test_a_vote_on_rows_without_names_is_scored():
    vote = VotingRegressor(
        [
            ("hist", HistGradientBoostingRegressor(max_iter=5)),
            ("booster", LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1)),
        ]
    ).fit(X[TRAIN], Y[TRAIN])
    found = debias.score(vote, X[TEST].to_numpy(), Y[TEST].to_numpy(), rows="held-out")
    np.testing.assert_array_equal(found.values, debias.score(vote, X[TEST], Y[TEST], rows="held-out").values)


def test_versions_of_a_model_in_one_file_have_one_spelling(model, tmp_path):
    other = LGBMRegressor(n_estimators=30, verbose=-1, n_jobs=1).fit(X[TRAIN], Y[TRAIN])
    path = tmp_path / "a.history"
    for each, label, rows in ((model, "v1", STORED), (other, "v2", X)):
        history = debias.History(each, path, label=label)
        for k in range(4):
            part = slice(400 + 100 * k, 500 + 100 * k)
            history.add(rows[part], Y[part], at=k + 1, rows="held-out")
        assert list(history.scores().columns) == list(STORED)
